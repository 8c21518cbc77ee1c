"""Draws: random subsets of the training data, each with the seed of the base classifier that it trains.

A confidence bound needs draws that are independent and alike, and chosen without a look at the data. So a draw
is a subset *and* a seed for the learner, and all come from Philox generators keyed by BLAKE2b of the user's
seed: pseudo-random numbers, taken as random. No draw depends on the order in which the samples came.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.samples.cells import cell_key
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import Cell

LEARNER_SEEDS = 1 << 31


@dataclass(frozen=True)
class Draws:
    """Rows of each drawn subset, in canonical order, and the learner's seed of each draw.

    Parameters
    ----------
    n_train : int
        Number of training samples.
    flat : array
        The rows of all draws in sequence; draw i has ``flat[starts[i] : starts[i + 1]]``.
    starts : array (n_draws + 1,)
    seeds : array (n_draws,)
    """

    n_train: int
    flat: NDArray[np.int64]
    starts: NDArray[np.int64]
    seeds: NDArray[np.int64]

    @classmethod
    def bernoulli(
        cls, samples: Samples, labels: Sequence[Cell], rank: NDArray[np.int64], k: int, n_draws: int, seed: int
    ) -> Draws:
        """Subsets that hold every sample with probability 1/k, independently.

        The draws that hold a sample are a function of the seed, the hash of its content, its label and, where
        several agree in both, its number among them. So no two samples share their chance, not even equal
        ones, and inserting or removing samples leaves the others where they were: only the base classifiers
        that hold them change.
        """
        times: Counter[bytes] = Counter()
        draws, rows = [], []
        for row in np.argsort(rank).tolist():
            key = int(samples.content_hashes[row]).to_bytes(8, "little") + cell_key(labels[row])
            chance = _generator(seed, b"sample", times[key].to_bytes(8, "little"), key)
            times[key] += 1
            held = np.flatnonzero(chance.integers(k, size=n_draws) == 0)
            draws.append(held)
            rows.append(np.full(len(held), row))
        draw, flat = np.concatenate(draws), np.concatenate(rows)
        starts = np.concatenate(([0], np.cumsum(np.bincount(draw, minlength=n_draws))))
        return cls(len(labels), flat[np.lexsort((rank[flat], draw))], starts, _learner_seeds(seed, n_draws))

    @classmethod
    def with_replacement(cls, rank: NDArray[np.int64], subset_size: int, n_draws: int, seed: int) -> Draws:
        """Subsets of a fixed size, drawn uniformly with replacement."""
        in_order = np.argsort(rank)
        places = _generator(seed, b"bagging").integers(len(rank), size=(n_draws, subset_size))
        starts = np.arange(n_draws + 1) * subset_size
        return cls(len(rank), in_order[np.sort(places, axis=1)].ravel(), starts, _learner_seeds(seed, n_draws))

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, subset: int) -> NDArray[np.int64]:
        """The samples of one draw, in canonical order; a sample drawn twice stands there twice."""
        return self.flat[self.starts[subset] : self.starts[subset + 1]]

    def seed(self, subset: int) -> int:
        """The seed of the base classifier that this draw trains."""
        return int(self.seeds[subset])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each draw holds."""
        return np.diff(self.starts)

    @cached_property
    def holding(self) -> sp.csr_array:
        """A matrix (n_train, n_draws) of ones where a draw holds a sample."""
        ones = np.ones(len(self.flat), np.int64)
        return sp.csr_array(sp.csc_array((ones, self.flat, self.starts), shape=(self.n_train, len(self))))


def _generator(seed: int, *purpose: bytes) -> np.random.Generator:
    """A generator that is a function of the seed and the purpose."""
    digest = hashlib.blake2b(b"bezoar draws " + seed.to_bytes(8, "little"), digest_size=16)
    for part in purpose:
        digest.update(part)
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))


def _learner_seeds(seed: int, n_draws: int) -> NDArray[np.int64]:
    return _generator(seed, b"learner").integers(LEARNER_SEEDS, size=n_draws)
