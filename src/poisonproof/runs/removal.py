"""Rows that a run leaves out of its data, and what is kept of a change: nothing that says what was removed.

As long as the source still holds a row that was removed, the run must know it again. It keeps a salted mark of it: of
the hash of its content and of which of several equal rows it is, not of its label and not of its number. Who holds the
row can confirm a mark; nobody can read one. docs/deletion.md says what remains where.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import Dataset

SALT_BYTES = 16
MARK_BYTES = 16


@dataclass(frozen=True)
class LeftOut:
    """Training rows of a source that a run leaves out, each known by its mark."""

    salt: str
    marks: frozenset[str]

    @classmethod
    def nothing(cls) -> LeftOut:
        """No row, and a fresh salt."""
        return cls(secrets.token_hex(SALT_BYTES), frozenset())

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> LeftOut:
        """From a manifest."""
        return cls(str(record["salt"]), frozenset(record["marks"]))

    def as_dict(self) -> dict[str, Any]:
        """For a manifest; in the order of the marks, which says nothing about that of the rows."""
        return {"salt": self.salt, "marks": sorted(self.marks)}

    def rows(self, source: Dataset) -> NDArray[np.int64]:
        """The training rows of this source that bear a mark."""
        return self.rows_among(source.train.samples.content_hashes) if self.marks else np.zeros(0, np.int64)

    def rows_among(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The rows that bear a mark, of all rows of a source, by their hashes."""
        marks = self._marks(hashes)
        return np.array([row for row, mark in enumerate(marks) if mark in self.marks], np.int64)

    def and_rows(self, source: Dataset, rows: Sequence[int]) -> LeftOut:
        """Also these rows of the source; naming one again changes nothing."""
        source.without(rows)  # refuses rows that are none
        marks = self._marks(source.train.samples.content_hashes)
        return LeftOut(self.salt, self.marks | {marks[row] for row in rows})

    def and_present(self, hashes: NDArray[np.uint64], places: NDArray[np.int64]) -> LeftOut:
        """Also the rows in these places, where ``hashes`` are of those rows only that bear no mark yet."""
        marks = set(self.marks)
        for place in places.tolist():
            before = int((hashes[:place] == hashes[place]).sum())
            marks.add(self._free_mark(int(hashes[place]), before))
        return LeftOut(self.salt, frozenset(marks))

    def _free_mark(self, hash_: int, before: int) -> str:
        """The mark of the row that has so many rows without a mark before it, among all that are equal to it."""
        for at in count():
            mark = self._mark(hash_, at)
            if mark not in self.marks:
                if not before:
                    return mark
                before -= 1
        raise AssertionError

    def _marks(self, hashes: NDArray[np.uint64]) -> list[str]:
        return [
            self._mark(*hash_and_place)
            for hash_and_place in zip(hashes.tolist(), _places_among_equals(hashes).tolist(), strict=True)
        ]

    def _mark(self, hash_: int, place: int) -> str:
        salt = bytes.fromhex(self.salt)
        return hashlib.blake2b(b"%d %d" % (hash_, place), digest_size=MARK_BYTES, key=salt).hexdigest()


def commitment(receipt: str, digests: Mapping[str, str]) -> str:
    """What a manifest keeps of the data before a change: SHA-256 of a receipt and the digests of the data.

    Without the receipt, which is given to the user and kept nowhere, it says nothing and fits any data.
    """
    return hashlib.sha256(f"{receipt} {json.dumps(dict(digests), sort_keys=True)}".encode()).hexdigest()


def new_receipt() -> str:
    """One that nobody can guess."""
    return secrets.token_hex(SALT_BYTES)


def _places_among_equals(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each row, how many equal rows stand before it."""
    order = np.argsort(hashes, kind="stable")
    first = np.concatenate(([True], hashes[order][1:] != hashes[order][:-1]))[: len(hashes)]
    counted = np.arange(len(hashes))
    places = np.empty(len(hashes), np.int64)
    places[order] = counted - np.maximum.accumulate(np.where(first, counted, 0))
    return places
