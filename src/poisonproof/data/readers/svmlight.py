"""svmlight rows: ``label index:value index:value … # remark``, one line each."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from poisonproof.data.readers.lines import decoded, lines
from poisonproof.data.readers.part import Part, notes_of, texts
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import SparseSchema, number_in

MOST_FEATURES = 1_000_000
ABSURD_SHARE = 0.1
LONGEST_INDEX = 18  # digits: the most that an int64 surely holds
SparseRow = tuple[int, str, list[tuple[int, float]]]
"""The number of a line, its label, and its entries."""


def read_svmlight(path: Path, schema: SparseSchema, *, labelled: bool, most_bytes: int | None) -> Part:
    """Sparse rows; how a line is read is a function of that line and the declared number of features.

    An index is a column, as it stands: whether counting begins at 0 or 1 is not inferred. Entries beyond the declared
    number of features, and values that are not finite numbers, are dropped in their own row only; lines that are not
    svmlight are left out.
    """
    faults, beyond = Counter[str](), Counter[int]()
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
    """As many features as the largest index asks for, within reason: an absurd one does not count.

    Refused where a tenth of the rows have such indices: then it is not a row that is odd.
    """
    largest, rows, absurd, where = 0, 0, 0, 0
    for number, _, entries in svmlight_rows(path, most_bytes, Counter()):
        sane = [index for index, _ in entries if index < MOST_FEATURES]
        largest = max([largest, *sane])
        rows += 1
        if len(sane) < len(entries):
            absurd, where = absurd + 1, number
    if absurd > ABSURD_SHARE * rows:
        raise PoisonproofError(
            f"{absurd} of {rows} rows of {path}, line {where} the last of them, have entries at indices above "
            f"{MOST_FEATURES}; so many features must be declared: give --n-features, and entries beyond it are dropped."
        )
    return SparseSchema(largest + 1)


def svmlight_rows(path: Path, most_bytes: int | None, faults: Counter[str]) -> Iterator[SparseRow]:
    """Line number, label and entries of every good line; the others are counted."""
    for number, line in lines(path, most_bytes, faults):
        words = decoded(line, faults).partition("#")[0].split()
        if not words:
            continue
        entries = None if ":" in words[0] else _entries(words[1:])
        if entries is None:
            faults["that are not svmlight"] += 1
        else:
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
        if (value := number_in(text)) is not None:
            entries.append((int(name), value))
    return entries
