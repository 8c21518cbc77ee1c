"""From files to training and test samples."""
