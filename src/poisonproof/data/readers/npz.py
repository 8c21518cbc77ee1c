"""Arrays from npz files, with every claim of a header checked before memory is taken for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.lines import MOST_BYTES
from poisonproof.data.readers.part import LeftOut, Part, notes_of, texts
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import text_of
from poisonproof.samples.schema import ArraySchema
from poisonproof.system.archives import open_zip
from poisonproof.system.archives import read_npz as read_some
from poisonproof.system.files import reading

LAYOUTS = (("x_train", "y_train", "x_test", "y_test"), ("X", "y", None, None))


def read_arrays(path: Path, names: Sequence[str], most_bytes: int | None = None) -> dict[str, NDArray[Any]]:
    """These arrays of an npz file; pickled objects, and headers that state more than there is, are refused."""
    with reading(path, f"is not a whole npz file with {', '.join(names)}"):
        with open_zip(path) as archive:
            for name in names:
                _refuse_too_large(name, archive.getinfo(f"{name}.npy").file_size, most_bytes or MOST_BYTES)
        arrays = read_some(path, names)
        return {name: arrays[name] for name in names}


def _refuse_too_large(name: str, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise PoisonproofError(
            f"{name} takes {in_bytes(size)}; at most {in_bytes(most_bytes)} unless --max-size allows more"
        )


def names_in(path: Path) -> list[str]:
    """The names of the arrays of an npz file."""
    with reading(path, "is not a whole npz file"), open_zip(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def layout_of(path: Path) -> tuple[str, str, str | None, str | None]:
    """What the training samples, their labels, the test samples and theirs are called in this file."""
    held = names_in(path)
    for x, y, x_test, y_test in LAYOUTS:
        if x in held and y in held:
            whole = x_test in held and y_test in held
            return x, y, x_test if whole else None, y_test if whole else None
    raise PoisonproofError(
        f"{path} holds {', '.join(held) or 'nothing'}; it must hold x_train and y_train, or X and y."
    )


def read_npz(
    path: Path, x: str, y: str | None, group: str | None, schema: ArraySchema | None, most_bytes: int | None
) -> tuple[Part, ArraySchema]:
    """Samples, labels and contributors by the names of their arrays, and the schema if none was given.

    Numbers are float64, or uint8 where the file holds that; infinity counts as missing, in its own row only.
    """
    arrays = read_arrays(path, [name for name in (x, y, group) if name is not None], most_bytes)
    samples = arrays[x]
    _check_rows(samples, path, x)
    dtype = "uint8" if samples.dtype == np.uint8 else "float64"
    schema = schema or ArraySchema(samples.shape[1:], dtype, "shape and type as the file has them")
    samples = by_schema(samples, schema, path, x)
    columns = {"label": y, "contributor": group}
    held = {what: _column(arrays[name], name, path, len(samples)) for what, name in columns.items() if name is not None}
    rows, faults = np.arange(len(samples)), LeftOut()
    for what, column in held.items():
        present = column[rows] != ""
        if not present.all():
            faults.add(f"without a {what}", int(rows[~present][0]), int((~present).sum()))
        rows = rows[present]
    labels, groups = (held[what][rows] if what in held else None for what in columns)
    samples = samples if len(rows) == len(samples) else samples[rows]
    return Part(samples, labels, groups, rows.tolist(), notes_of(path, faults)), schema


def _check_rows(samples: NDArray[Any], path: Path, x: str) -> None:
    if samples.ndim < 2 or samples.dtype.kind not in "biuf" or 0 in samples.shape[1:]:
        raise PoisonproofError(
            f"{path} must hold rows of numbers in {x}. Got {samples.dtype} of shape {samples.shape}."
        )


def by_schema(samples: NDArray[Any], schema: ArraySchema, path: Path, x: str) -> NDArray[Any]:
    """Rows as the schema asks for them: float64 with infinity missing, or uint8."""
    _check_rows(samples, path, x)
    if samples.shape[1:] != schema.shape or (schema.dtype == "uint8") != (samples.dtype == np.uint8):
        got = ArraySchema(samples.shape[1:], str(samples.dtype))
        raise PoisonproofError(f"{path} holds {got} in {x}, but the schema asks for {schema}.")
    if schema.dtype == "float64":
        with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN is a NaN like any other
            samples = samples.astype(np.float64)
        samples[np.isinf(samples)] = np.nan
    return samples


def _column(values: NDArray[Any], name: str, path: Path, n: int) -> NDArray[np.object_]:
    if values.size != n:
        raise PoisonproofError(
            f"{path} holds {n} samples but {values.size} entries in {name}; give one for each sample."
        )
    flat = values.ravel()
    return texts([text_of(value, name) for value in (flat if flat.dtype.kind in "mM" else flat.tolist())])
