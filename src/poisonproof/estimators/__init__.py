"""Classifiers that certify their predictions."""
