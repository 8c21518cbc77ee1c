"""Random subsets are a function of the seed, the same ones in every version: their salt keeps its bytes."""

import numpy as np

from poisonproof.stochastic.classifiers import Draws


def test_draws_are_what_they_were():
    drawn = Draws.with_replacement(np.arange(9), subset_size=4, n_draws=2, seed=7)
    assert drawn.flat.tolist() == [0, 1, 6, 6, 4, 5, 6, 6]
    assert drawn.seeds.tolist() == [1083994226, 1166551265]
