"""Which k and d, and what they will cost."""
