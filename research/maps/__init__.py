"""Feature maps and encoders that stand behind measured rows: each a fixed function of one sample."""
