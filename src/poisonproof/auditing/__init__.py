"""Real attacks, with real retraining."""
