"""Where the rows of a data set lie in a user's table: enough to read some of them again, and to tell another file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.some_rows import Stretch, digests_without, table_files

Stats = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, eq=False)
class Origin:
    """The files of a table, and the numbers that its rows have there.

    Attributes
    ----------
    path : path
        Of the file, or of the folder of files.
    stats : tuple
        Name, size and time of each file before it was read: what differs once somebody writes to it.
    files : dict
        SHA-256 of each file by its name; of all that it holds but the rows that are gone, so that nothing stated here
        is a function of them.
    numbers : array
        Of all good rows, in increasing order (`poisonproof.data.readers.some_rows.Stretch`).
    every : array
        Places of all training samples among these, also of those that are gone.
    gone : array
        Which of the training samples were removed.
    test : array or None
        Places of the test samples; None where they come from elsewhere.
    """

    path: Path
    stats: Stats
    files: dict[str, str]
    numbers: NDArray[np.int64]
    every: NDArray[np.int64]
    gone: NDArray[np.int64]
    test: NDArray[np.int64] | None = None

    @classmethod
    def begun(cls, path: Path) -> Origin:
        """Of a table that is about to be read."""
        nothing = np.zeros(0, np.int64)
        begun = cls(path, stats_of(path), {}, nothing, nothing, nothing)
        return replace(begun, files=begun.digests())

    def of(
        self, numbers: Sequence[int | str], train: Sequence[int | str], test: Sequence[int | str] | None
    ) -> Origin | None:
        """From the numbers of all rows, and of those of each part; None where somebody wrote to the file meanwhile."""
        rows = np.asarray(numbers, np.int64)
        if (np.diff(rows) <= 0).any() or stats_of(self.path) != self.stats:
            return None

        def places(some: Sequence[int | str]) -> NDArray[np.int64]:
            return np.searchsorted(rows, np.asarray(some, np.int64))

        return replace(self, numbers=rows, every=places(train), test=None if test is None else places(test))

    @cached_property
    def train(self) -> NDArray[np.int64]:
        """Places of the training samples that are left."""
        return np.delete(self.every, self.gone)

    def without(self, rows: NDArray[np.int64]) -> Origin:
        """The same, where these of the training samples that are left are removed; ``files`` are still as before."""
        left = np.delete(np.arange(len(self.every)), self.gone)
        return replace(self, gone=np.union1d(self.gone, left[rows]))

    def stretch(self, places: NDArray[np.int64]) -> Stretch:
        """The rows in these places, which increase."""
        ends = np.append(self.numbers[1:], np.iinfo(np.int64).max)
        return Stretch(self.numbers[places], ends[places])

    def digests(self) -> dict[str, str]:
        """What ``files`` are by the files as they stand."""
        return digests_without(table_files(self.path), self.stretch(self.every[self.gone]))

    def settled(self) -> Origin | None:
        """The same with ``files`` of all but what is gone; None where somebody wrote to them meanwhile."""
        settled = replace(self, files=self.digests()) if len(self.gone) else self
        return settled if stats_of(self.path) == self.stats else None


def stats_of(path: Path) -> Stats:
    """Names, sizes and times of the files of a table."""
    return tuple(
        (file.name, status.st_size, status.st_mtime_ns) for file in table_files(path) for status in (file.stat(),)
    )
