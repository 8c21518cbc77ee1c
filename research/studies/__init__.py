"""How defaults were chosen, what they give; costs of pooled learners: `python -m research.studies.NAME`."""
