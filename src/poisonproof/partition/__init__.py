"""From samples to subsets: split, spread, draws."""
