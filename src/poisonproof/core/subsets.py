"""Subsets: which training samples train which base classifier, in canonical order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.samples.kinds import Samples, canonical_rank, partition_digest
from poisonproof.system.files import open_arrays, write_arrays

DIGEST_BYTES = 16


FORMAT = "poisonproof subsets 2"


def save_subsets(path: str | Path, subsets: Subsets, split: Split, names: Sequence[Any] | None = None) -> None:
    """Write index lists for people who train elsewhere, with the spread and the split that made them."""
    arrays = {
        "rows": np.concatenate([subsets.rows(i) for i in range(len(subsets))]),
        "starts": np.concatenate(([0], np.cumsum(subsets.sizes))),
        "partition": subsets.partition,
        **({} if names is None else {"names": np.array(names)}),
    }
    spread = {"spread": subsets.spread.as_dict(), "spread_digest": subsets.spread.digest}
    write_arrays(path, arrays, {"format": FORMAT, **spread, "split": split.as_dict()})


def made_with(path: str | Path) -> tuple[Spread, Split | None]:
    """The spread and the split of what `save_subsets` wrote; of the file of a spread alone, that."""
    facts = open_arrays(path)[1]
    split = facts["split"] if facts.get("format") == FORMAT else None
    return Spread.load(path), None if split is None else Split.from_dict(split)


@dataclass(frozen=True)
class Subsets:
    """Rows of each subset, in an order that depends on the subset's content alone.

    Parameters
    ----------
    spread : Spread
    partition : array (n_samples,)
        The partition of each sample.
    rank : array (n_samples,)
        The place of each sample in the canonical order.
    """

    spread: Spread
    partition: NDArray[np.int64]
    rank: NDArray[np.int64]

    @classmethod
    def of(cls, samples: Samples, labels: NDArray[np.int64], partition: NDArray[np.int64], spread: Spread) -> Subsets:
        """The subsets of these samples; ``labels`` are codes whose order is that of the labels."""
        return cls(spread, partition, canonical_rank(samples, labels))

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows sorted by partition, and where each partition starts among them."""
        short = np.uint16 if self.spread.n_partitions <= np.iinfo(np.uint16).max else np.int64
        rows = np.argsort(self.partition.astype(short), kind="stable")  # NumPy sorts short numbers by radix
        starts = np.concatenate(([0], np.cumsum(self.partition_sizes)))
        return rows, starts

    @cached_property
    def partition_sizes(self) -> NDArray[np.int64]:
        """How many samples each partition holds."""
        return np.bincount(self.partition, minlength=self.spread.n_partitions)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""
        total = np.zeros(self.spread.n_subsets, np.int64)
        np.add.at(total, self.spread.as_table(), self.partition_sizes[:, None])
        return total

    def rows(self, subset: int) -> NDArray[np.int64]:
        """The samples of one subset, in canonical order."""
        ordered, starts = self._sorted
        pieces = [ordered[starts[j] : starts[j + 1]] for j in self.spread.partitions_of(subset)]
        rows = np.concatenate(pieces)
        return rows[np.argsort(self.rank[rows])]

    def seed(self, subset: int) -> int:
        """The seed of the base classifier: its index, and nothing else."""
        return subset

    def contents(self, samples: Samples, labels: NDArray[np.int64]) -> list[bytes]:
        """A digest of all that base classifiers are fed of each partition."""
        ordered, starts = self._sorted
        ordered = ordered[np.lexsort((self.rank[ordered], np.repeat(np.arange(len(starts) - 1), np.diff(starts))))]
        parts = zip(starts[:-1], starts[1:], samples.keys_of_parts(ordered, starts), strict=True)
        return [partition_digest(labels[ordered[start:stop]], keys) for start, stop, keys in parts]

    def __len__(self) -> int:
        return self.spread.n_subsets


def subset_digests(spread: Spread, contents: Sequence[bytes], common: str) -> NDArray[np.uint8]:
    """128 bits for each subset, from all that its base classifier is a function of.

    That is: the subset's index, the multiset of its samples and label codes, by the digests of its partitions, and
    ``common``, what all base classifiers have in common (form of the samples, learner, classes). Subsets with equal
    digests need one training only.
    """
    digests = np.empty((spread.n_subsets, DIGEST_BYTES), np.uint8)
    for i in range(spread.n_subsets):
        whole = hashlib.blake2b(f"{common} {i} ".encode(), digest_size=DIGEST_BYTES)
        for j in sorted(spread.partitions_of(i)):
            whole.update(contents[j])
        digests[i] = np.frombuffer(whole.digest(), np.uint8)
    return digests
