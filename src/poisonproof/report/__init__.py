"""The report: one HTML file that a person can open, without network."""
