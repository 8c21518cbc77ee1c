"""How defaults were chosen, what they give on real data; costs of pooled learners: `python -m research.studies.NAME`."""
