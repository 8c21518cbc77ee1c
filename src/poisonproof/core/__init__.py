"""The mathematics: spreads, votes, certificates; it reads like the paper."""
