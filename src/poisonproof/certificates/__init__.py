"""From votes to radii."""
