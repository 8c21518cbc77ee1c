"""Partitions that stay in memory once they were read: each is fed to d base classifiers, and read once if it fits.

How much room there is, whoever declared a bound says. Which partitions are kept changes nothing but time.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poisonproof.partition.store import PartitionStore, Portion

OF_A_COLUMN = 2_000  # bytes that a column takes besides its cells: arrays, lists of its different cells


class PartitionMemory:
    """The partitions of a store, of which those stay in memory that were read first, up to so many bytes.

    The first, not the last: base classifiers go through all partitions in turns, so the one that was used longest ago
    is as likely as any other to be the next.
    """

    def __init__(self, store: PartitionStore, most_bytes: int = 0) -> None:
        self.store, self.most_bytes = store, most_bytes
        self.bytes = 0
        self._kept: dict[int, Portion] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def partition(self, number: int) -> Portion:
        """The samples of one partition, which nobody may change, with the codes of their labels."""
        portion = self._kept.get(number)
        if portion is not None:
            return portion
        portion = self.store.partition(number)[0]
        size = bytes_of(portion) if self.bytes < self.most_bytes else 0
        with self._lock:
            if number not in self._kept and 0 < size <= self.most_bytes - self.bytes:
                self._kept[number] = portion
                self.bytes += size
        return portion


def bytes_of(portion: Portion) -> int:
    """How much memory a partition takes, from above."""
    samples = portion.samples
    return samples.n_bytes + portion.codes.nbytes + samples.content_hashes.nbytes + OF_A_COLUMN * samples.n_features
