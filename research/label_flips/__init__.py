"""Flipped labels, from inside kernel ridge base classifiers."""
