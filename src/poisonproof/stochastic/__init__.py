"""Certificates that hold with a stated probability: random subsets."""
