"""What base classifiers say."""
