"""A data set of which only some rows are read: of the others all is known that a change of a few rows asks for.

A run keeps of every training row its digest, hash, label, partition and place in canonical order, and of every
partition a digest (`KnownRows`). As long as the files are those that it was made from, to the byte, a base
classifier that is trained again is fed from the rows of its subset, which are read from the file once more and must
have the hashes that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.data.dataset import Dataset
from poisonproof.data.options import ReadOptions
from poisonproof.data.origin import Origin
from poisonproof.data.readers.part import Part
from poisonproof.data.readers.some_rows import only_rows
from poisonproof.data.readers.tables import read_table
from poisonproof.data.user_files import open_table
from poisonproof.errors import DamagedFileError
from poisonproof.partition.split import Split
from poisonproof.samples.canonical import to_samples
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import label_digests
from poisonproof.samples.schema import TableSchema
from poisonproof.system.files import sha256_of_array


@dataclass(frozen=True, eq=False)
class KnownRows:
    """What is known of all training rows, in the order of the data.

    Attributes
    ----------
    origin : Origin
        Where they lie.
    digests : array of 32 bytes
        SHA-256 of the content of each.
    hashes : array of uint64
    labels : array of int
        Places in ``names``.
    names : list of str
        The labels that occur.
    partition : array
    rank : array
        The place of each in the canonical order.
    contents : list of bytes
        The digest of all that base classifiers are fed of each partition.
    test : dict
        Digests of the test samples and of their labels, and of the former put together (`digest_of`), told sooner.
    """

    origin: Origin
    digests: NDArray[np.void]
    hashes: NDArray[np.uint64]
    labels: NDArray[np.int64]
    names: list[str]
    partition: NDArray[np.int64]
    rank: NDArray[np.int64]
    contents: list[bytes]
    test: dict[str, str]

    def __len__(self) -> int:
        return len(self.labels)

    def stated(self) -> dict[str, str]:
        """The digests of the data set, as `Dataset.digests` gives them."""
        return dict(self._stated)

    @cached_property
    def _stated(self) -> dict[str, str]:
        named = label_digests(self.names)
        return {
            "x_train": sha256_of_array(self.digests),
            "x_test": self.test["x_test"],
            "y_train": sha256_of_array(named[self.labels]),
            "y_test": self.test["y_test"],
        }

    def with_contents(self, contents: list[bytes]) -> KnownRows:
        """The same rows with these digests of their partitions."""
        same = replace(self, contents=contents)
        vars(same)["_stated"] = self.stated()
        return same

    def less(self, rows: NDArray[np.int64]) -> KnownRows:
        """Without these rows; what is known of their partitions is still of them."""
        left = np.delete(self.rank, rows)
        return replace(
            self,
            origin=self.origin.without(rows),
            digests=np.delete(self.digests, rows),
            hashes=np.delete(self.hashes, rows),
            labels=np.delete(self.labels, rows),
            partition=np.delete(self.partition, rows),
            rank=left - np.searchsorted(np.sort(self.rank[rows]), left),
        )


@dataclass(frozen=True)
class TableFile:
    """A table of the user's, and how it is read."""

    path: Path
    schema: TableSchema
    options: ReadOptions
    dtype: str = "float64"

    def read(self, origin: Origin, places: NDArray[np.int64]) -> Part:
        """The rows in these places of its origin, which increase."""
        table = open_table(self.path, self.schema, self.options)
        part = read_table(only_rows(table, origin.stretch(places)), self.schema, labelled=True, framed=False)
        if len(part) != len(places):
            raise DamagedFileError(f"{self.path} does not hold the rows that it held; say the same command again.")
        return part if part.samples is not None else replace(part, samples=to_samples(part.X, dtype=self.dtype))


class KnownSamples(Samples):
    """Training samples of which those are read from the file that somebody asks for; their hashes are compared."""

    def __init__(self, rows: KnownRows, file: TableFile, like: Samples) -> None:
        self.rows, self.file = rows, file
        self.kind, self.n_features, self._layout = like.kind, like.n_features, like.layout
        self.held_rows = np.zeros(0, np.int64)
        self.held = like.subset(self.held_rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_bytes(self) -> int:
        """How much memory they take, with those that are held."""
        return 64 * len(self) + self.held.n_bytes

    @property
    def layout(self) -> str:
        """What all samples have in common."""
        return self._layout

    @cached_property
    def content_hashes(self) -> NDArray[np.uint64]:
        """As they are kept."""
        return self.rows.hashes

    @cached_property
    def content_digests(self) -> NDArray[np.void]:
        """As they are kept."""
        return self.rows.digests

    def hold(self, rows: NDArray[np.int64]) -> None:
        """Read these rows, which increase, in one go, for whoever asks for some of them."""
        if len(rows):
            self.held, self.held_rows = self._read(rows), rows

    def _read(self, rows: NDArray[np.int64]) -> Samples:
        """These rows, which increase, from the file."""
        samples = self.file.read(self.rows.origin, self.rows.origin.train[rows]).samples
        assert samples is not None
        if samples.layout != self.layout or (samples.content_hashes != self.rows.hashes[rows]).any():
            raise DamagedFileError(
                f"{self.file.path} does not hold the rows that it held, or what is kept of them is damaged; remove "
                "rows.npz from the run, and say the same command again."
            )
        return samples

    def _at_hand(self, rows: NDArray[np.int64]) -> tuple[Samples, NDArray[np.int64], NDArray[np.int64]]:
        """Samples in memory, the rows that these are, and the places of those that were asked for."""
        places = np.searchsorted(self.held_rows, rows)
        if not len(rows) or (places.max() < len(self.held_rows) and (self.held_rows[places] == rows).all()):
            return self.held, self.held_rows, places
        different, places = np.unique(rows, return_inverse=True)
        return self._read(different), different, places

    def subset(self, rows: ArrayLike) -> Samples:
        """These samples in memory."""
        samples, _, places = self._at_hand(np.asarray(rows, np.int64))
        return samples.subset(places)

    def portion(
        self, codes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[Samples, NDArray[np.int64], NDArray[np.int64]]:
        """What a base classifier on these rows is fed from."""
        samples, different, places = self._at_hand(rows)
        return samples, codes[different], places

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        """Of all samples; with a seed they are read."""
        return self.subset(np.arange(len(self))).hashes(seed) if seed else self.content_hashes

    def key(self, row: int) -> bytes:
        """The whole content of one sample."""
        return self.subset([row]).key(0)

    def keys_of_parts(self, rows: NDArray[np.int64], starts: NDArray[np.int64]) -> Iterator[Iterable[bytes]]:
        """The keys of each part of these rows."""
        samples, _, places = self._at_hand(rows)
        return samples.keys_of_parts(places, starts)

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        """These samples as a base classifier is fed them."""
        samples, _, places = self._at_hand(np.asarray(rows, np.int64))
        return samples.take(places, form)

    def form_of(self, rows: ArrayLike) -> Any:
        """What a base classifier trained on these samples must know about their form."""
        samples, _, places = self._at_hand(np.asarray(rows, np.int64))
        return samples.form_of(places)


@dataclass(frozen=True)
class KnownDataset(Dataset):
    """A data set whose test samples are in memory, and of whose training samples those that are asked for."""

    rows: KnownRows | None = None
    changed: tuple[int, ...] = ()
    """Partitions whose digest is not that of the rows any more."""

    @property
    def known(self) -> KnownRows:
        """What is known of the training rows, which is always there."""
        assert self.rows is not None
        return self.rows

    @property
    def train(self) -> Samples:
        """The training samples, read when they are asked for."""
        samples: Samples = self.x_train
        return samples

    def samples_for(self, part: str, split: Split) -> Samples:
        """A part, as the files were read; no other way of reading can be had of it."""
        if split.schema is not None or (split.dtype, split.n_features) != (self.dtype, self.n_features):
            raise DamagedFileError("What is kept of rows is of those that this split reads otherwise; remove rows.npz.")
        samples: Samples = getattr(self, part)
        return samples

    def digests(self, parts: Sequence[str] = ("train", "test")) -> dict[str, str]:
        """The same as of all rows in memory."""
        stated = self.known.stated()
        return {name: stated[name] for name in (f"{letter}_{part}" for letter in "xy" for part in parts)}
