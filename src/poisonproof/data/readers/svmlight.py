"""svmlight rows: ``label index:value index:value … # remark``, one line each."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from poisonproof.data.readers.lines import decoded, is_utf_8, lines
from poisonproof.data.readers.part import NOT_UTF_8, LeftOut, Part, notes_of, texts
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import SparseSchema, closeness, plain_number

MOST_FEATURES = 1_000_000
LONGEST_INDEX = 18  # digits: the most that an int64 surely holds
SparseRow = tuple[int, str, list[tuple[int, float]]]
"""The number of a line, its label, and its entries."""


def read_svmlight(path: Path, schema: SparseSchema, *, labelled: bool, most_bytes: int | None) -> Part:
    """Sparse rows; how a line is read is a function of that line and the declared number of features.

    An index is a column, as it stands: whether counting begins at 0 or 1 is not inferred. Entries beyond the declared
    number of features, and values that are not finite numbers, are dropped in their own row only; lines that are not
    svmlight are left out.
    """
    faults, beyond = LeftOut(), Counter[int]()
    rows = svmlight_rows(path, most_bytes, faults)
    part = sparse_part(rows, schema, beyond, labelled=labelled)
    return replace(part, notes=notes_of_sparse(path, faults, beyond))


def sparse_part(rows: Iterable[SparseRow], schema: SparseSchema, beyond: Counter[int], *, labelled: bool) -> Part:
    """These rows as a matrix; entries beyond the declared number of features, which it lists, are counted."""
    labels: list[str] = []
    names: list[int] = []
    starts, columns, values = array("q", [0]), array("q"), array("d")
    for number, label, entries in rows:
        for index, value in entries:
            if index < schema.n_features:
                columns.append(index)
                values.append(value)
            else:
                beyond[schema.n_features] += 1
        starts.append(len(columns))
        labels.append(label)
        names.append(number)
    shape = (len(names), schema.n_features)
    matrix = sp.csr_matrix((np.array(values), np.array(columns), np.array(starts)), shape=shape)
    return Part(matrix, texts(labels) if labelled else None, None, names)


def notes_of_sparse(path: Path, faults: Counter[str], beyond: Counter[int]) -> tuple[str, ...]:
    """One sentence for each kind of fault."""
    return notes_of(path, faults) + tuple(
        f"{path.name}: {count} entries lie beyond feature {width - 1} and were dropped"
        for width, count in beyond.items()
    )


def guess_sparse_schema(path: Path, most_bytes: int | None) -> SparseSchema:
    """As many features as the largest index asks for, within reason: entries at absurd ones are dropped."""
    largest, beyond = -1, False
    for _, _, entries in svmlight_rows(path, most_bytes, LeftOut()):
        largest = max([largest, *(index for index, _ in entries if index < MOST_FEATURES)])
        beyond = beyond or any(index >= MOST_FEATURES for index, _ in entries)
    if largest < 0 and beyond:
        raise PoisonproofError(
            f"Every entry of {path} is at an index of {MOST_FEATURES} or more; so many features must be declared: give "
            "--n-features, and entries beyond it are dropped."
        )
    width = max(largest, 0) + 1
    return SparseSchema(width, closeness(f"{width} features, by the largest index", 1, "row"))


def svmlight_rows(path: Path, most_bytes: int | None, faults: LeftOut) -> Iterator[SparseRow]:
    """Line number, label and entries of every good line; the others are counted."""
    for number, line in lines(path, most_bytes, faults):
        if not is_utf_8(line):
            faults.add(NOT_UTF_8, number)
        words = decoded(line).partition("#")[0].split()
        entries = None if words and ":" in words[0] else _entries(words[1:])
        if entries is None:
            faults.add("that are not svmlight", number)
        elif words:
            yield number, words[0], entries


def _entries(words: list[str]) -> list[tuple[int, float]] | None:
    """Indices and finite values; None if a word is not an entry. Query ids are passed over."""
    entries = []
    for word in words:
        name, colon, text = word.partition(":")
        if name == "qid" and colon:
            continue
        if not (colon and name.isascii() and name.isdigit() and len(name) <= LONGEST_INDEX):
            return None
        if (value := plain_number(text)) is not None:
            entries.append((int(name), value))
    return entries
