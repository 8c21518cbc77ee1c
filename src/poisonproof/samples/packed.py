"""Samples as plain arrays and back, for files that hold a part of the training data; and parts put together again.

Cells of a table that are not numbers are written once each and named by their place, so that a column of categories
takes 4 bytes a row. Nothing about a sample is lost: what comes back has the same content, hashes and form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import utf8
from poisonproof.samples.columns import MISSING, Column
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples

Arrays = dict[str, NDArray[Any]]


def form_of_pack(samples: Samples) -> dict[str, Any]:
    """What arrays of such samples do not say themselves, as plain values; the same for any part of them."""
    if isinstance(samples, NumberSamples):
        return {"kind": samples.kind, "dtype": samples.values.dtype.str, "shape": list(samples.values.shape[1:])}
    if isinstance(samples, TextSamples):
        return {"kind": samples.kind}
    if isinstance(samples, TableSamples):
        return {
            "kind": samples.kind,
            "columns": [
                [column.name, column.codes is None, column.numeric, column.categorical] for column in samples.columns
            ],
        }
    raise PoisonproofError(f"Only tables, numbers and texts are kept by partition. Got {samples.kind}.")


def packed(samples: Samples) -> Arrays:
    """The samples as arrays without Python objects."""
    if isinstance(samples, NumberSamples):
        return {"values": samples.take(np.arange(len(samples)))}
    if isinstance(samples, TextSamples):
        return packed_texts(samples.texts.tolist(), "texts")
    if isinstance(samples, TableSamples):
        arrays: Arrays = {}
        for at, column in enumerate(samples.columns):
            arrays |= _packed_column(column, f"c{at}")
        return arrays
    raise PoisonproofError(f"Only tables, numbers and texts are kept by partition. Got {samples.kind}.")


def unpacked(form: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Samples:
    """The samples that `packed` wrote."""
    if form["kind"] == NumberSamples.kind:
        values = arrays["values"]
        if values.dtype.str != form["dtype"] or list(values.shape[1:]) != form["shape"]:
            raise PoisonproofError(f"it holds numbers {values.dtype} {values.shape[1:]}")
        return NumberSamples(values)
    if form["kind"] == TextSamples.kind:
        texts = np.empty(len(arrays["texts.ends"]), object)
        texts[:] = unpacked_texts(arrays, "texts")
        return TextSamples(texts)
    columns = tuple(_unpacked_column(described, arrays, f"c{at}") for at, described in enumerate(form["columns"]))
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise PoisonproofError(f"its columns have {sorted(lengths)} rows")
    return TableSamples(columns, lengths.pop())


def empty_of(form: Mapping[str, Any]) -> Samples:
    """No samples, of this form."""
    if form["kind"] == NumberSamples.kind:
        return NumberSamples(np.empty((0, *form["shape"]), form["dtype"]))
    if form["kind"] == TextSamples.kind:
        return TextSamples(np.empty(0, object))
    nothing = {
        f"c{at}": np.empty(0, np.float64 if column[1] else np.int32) for at, column in enumerate(form["columns"])
    }
    texts = [packed_texts([], f"c{at}") for at in range(len(form["columns"]))]
    return unpacked(form, nothing | {name: array for arrays in texts for name, array in arrays.items()})


def joined(parts: Sequence[Samples]) -> Samples:
    """The samples of several parts of one form, one part after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, NumberSamples):
        return NumberSamples(np.concatenate([part.values for part in parts]))  # type: ignore[attr-defined]
    if isinstance(first, TextSamples):
        return TextSamples(np.concatenate([part.texts for part in parts]))  # type: ignore[attr-defined]
    assert isinstance(first, TableSamples)
    columns = tuple(
        _joined_columns([part.columns[at] for part in parts if isinstance(part, TableSamples)])
        for at in range(first.n_features)
    )
    return TableSamples(columns, sum(map(len, parts)))


def packed_texts(texts: Sequence[str], name: str) -> Arrays:
    """Texts as one string of bytes and where each of them ends."""
    pieces = [utf8(text) for text in texts]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(pieces), np.uint8), f"{name}.ends": ends}


def unpacked_texts(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    """The texts that `packed_texts` wrote."""
    body, start, texts = arrays[f"{name}.bytes"].tobytes(), 0, []
    for end in arrays[f"{name}.ends"].tolist():
        texts.append(body[start:end].decode("utf-8", "surrogatepass"))
        start = end
    return texts


def _packed_column(column: Column, name: str) -> Arrays:
    """Numbers as they are; of cells those that occur, in their order, and which of them each is."""
    if column.codes is None:
        return {name: column.values}
    present, places = np.unique(column.codes, return_inverse=True)
    first = int(len(present) > 0 and present[0] < 0)
    texts = column.cells.values[present[first:]].tolist()
    if any(not isinstance(text, str) for text in texts):
        raise PoisonproofError(f"Column '{column.name}' holds numbers among texts; only texts are kept by partition.")
    return {name: (places - first).astype(np.int32), **packed_texts(texts, name)}


def _unpacked_column(described: Sequence[Any], arrays: Mapping[str, NDArray[Any]], name: str) -> Column:
    called, plain, numeric, categorical = described
    if plain:
        return Column.of_numbers(called, arrays[name], numeric=numeric)
    return Column.of_codes(called, arrays[name], unpacked_texts(arrays, name), categorical=categorical)


def _joined_columns(parts: Sequence[Column]) -> Column:
    first = parts[0]
    if first.codes is None:
        return Column.of_numbers(first.name, np.concatenate([part.values for part in parts]), numeric=first.numeric)
    codes = [part.codes for part in parts if part.codes is not None]
    cells = [part.cells.values.tolist() for part in parts]
    if all(one == cells[0] for one in cells):
        return replace(first, codes=np.concatenate(codes), n_unreadable=0)
    known: dict[Any, int] = {}
    for at, one in enumerate(cells):
        places = [*(known.setdefault(cell, len(known)) for cell in one), MISSING]
        codes[at] = np.array(places, np.int32)[codes[at]]
    return Column.of_codes(first.name, np.concatenate(codes), list(known), categorical=first.categorical)
