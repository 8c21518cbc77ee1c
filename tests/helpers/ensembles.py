"""Small random ensembles for attackers who try everything."""

import numpy as np

from poisonproof import Spread


def random_spread(rng, n):
    """Shifts or, one time in four, a balanced table that no shifts describe."""
    d = int(rng.integers(1, min(n, 4) + 1))
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    if rng.integers(4) == 0:
        table = spread.as_table()[rng.permutation(n)]
        return Spread.from_table(rng.permutation(n)[table])
    return spread


def random_votes(rng, n, n_classes):
    """Votes with a leader, so that radii above 0 are common; some base classifiers abstain."""
    share = rng.dirichlet(np.full(n_classes + 1, 0.7))
    return rng.choice(n_classes + 1, n, p=share)
