"""Run directories: from a data set to a certificate, resumable."""
