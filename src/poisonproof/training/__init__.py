"""Train these subsets, give votes."""
