"""One attack on the whole test set."""
