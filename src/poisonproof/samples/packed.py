"""Samples as plain arrays and back, for files that hold a part of the training data; and parts put together again.

Cells of a table that are not numbers are written once each and named by their place, so that a column of categories
takes 4 bytes a row. Nothing about a sample is lost: what comes back has the same content, hashes and form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import utf8
from poisonproof.samples.kinds import Column, NumberSamples, Samples, TableSamples, TextSamples

Arrays = dict[str, NDArray[Any]]
MISSING = -1


def form_of_pack(samples: Samples) -> dict[str, Any]:
    """What arrays of such samples do not say themselves, as plain values; the same for any part of them."""
    if isinstance(samples, NumberSamples):
        return {"kind": samples.kind, "dtype": samples.values.dtype.str, "shape": list(samples.values.shape[1:])}
    if isinstance(samples, TextSamples):
        return {"kind": samples.kind}
    if isinstance(samples, TableSamples):
        return {
            "kind": samples.kind,
            "columns": [[column.name, column.numeric, column.categorical] for column in samples.columns],
        }
    raise PoisonproofError(f"Only tables, numbers and texts are kept by partition. Got {samples.kind}.")


def packed(samples: Samples) -> Arrays:
    """The samples as arrays without Python objects."""
    if isinstance(samples, NumberSamples):
        return {"values": samples.take(np.arange(len(samples)))}
    if isinstance(samples, TextSamples):
        return _packed_cells(samples.texts, "texts")
    if isinstance(samples, TableSamples):
        arrays: Arrays = {}
        for at, column in enumerate(samples.columns):
            arrays |= {f"c{at}": column.values} if column.numeric else _packed_cells(column.values, f"c{at}")
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
        return TextSamples(_unpacked_cells(arrays, "texts"))
    columns = []
    for at, (name, numeric, categorical) in enumerate(form["columns"]):
        values = arrays[f"c{at}"] if numeric else _unpacked_cells(arrays, f"c{at}")
        columns.append(Column(name, values, categorical))
    lengths = {len(column.values) for column in columns}
    if len(lengths) != 1:
        raise PoisonproofError(f"its columns have {sorted(lengths)} rows")
    return TableSamples(tuple(columns), lengths.pop())


def empty_of(form: Mapping[str, Any]) -> Samples:
    """No samples, of this form."""
    if form["kind"] == NumberSamples.kind:
        return NumberSamples(np.empty((0, *form["shape"]), form["dtype"]))
    if form["kind"] == TextSamples.kind:
        return TextSamples(np.empty(0, object))
    columns = (
        Column(name, np.empty(0, np.float64 if numeric else object), categorical)
        for name, numeric, categorical in form["columns"]
    )
    return TableSamples(tuple(columns), 0)


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
        Column(column.name, np.concatenate([part.columns[at].values for part in parts]), column.categorical)  # type: ignore[attr-defined]
        for at, column in enumerate(first.columns)
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


def _packed_cells(cells: NDArray[np.object_], name: str) -> Arrays:
    """The different texts among the cells, in the order in which they appear, and which of them each cell is."""
    known: dict[str | None, int] = {None: MISSING}
    places = np.fromiter((known.setdefault(cell, len(known) - 1) for cell in cells), np.int32, len(cells))
    del known[None]
    if any(not isinstance(text, str) for text in known):
        raise PoisonproofError("A column that is not numbers holds a number; only texts are kept by partition.")
    return {name: places, **packed_texts([text for text in known if text is not None], name)}


def _unpacked_cells(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.object_]:
    known = np.array([*unpacked_texts(arrays, name), None], object)
    return known[arrays[name]]
