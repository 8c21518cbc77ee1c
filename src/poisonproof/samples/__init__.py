"""Samples in canonical form: cells, labels, hashes, rows."""
