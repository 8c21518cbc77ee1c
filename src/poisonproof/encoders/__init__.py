"""Encoders: maps made elsewhere, from packages, files, functions and tables of embeddings; each is a premise."""
