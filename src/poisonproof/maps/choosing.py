"""Which map a data set is described by where its samples vote: the one that was asked for, or its kind's own.

A map's constants are declared, here or by the user. Only the units of a table may be read off its rows, and then they
are "chosen from this data" in every certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from poisonproof.data import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.maps.declared import MAPS
from poisonproof.maps.hashed import HashedFeatures
from poisonproof.maps.pictures import PICTURES
from poisonproof.maps.tables import TableFeatures
from poisonproof.maps.vectors import VectorFeatures
from poisonproof.samples.kinds import NumberSamples, SparseSamples, TableSamples, TextSamples
from poisonproof.samples.schema import FEATURES

OF_NAMED = {"mnist": "digits", "gtsrb": "signs", "cifar10": "objects"}
LARGEST = {"digits": 16.0}  # what the numbers of a named set go up to; of bytes it is 255
BYTE = 255.0


def map_name(dataset: Dataset) -> str:
    """The map of this kind of samples."""
    if dataset.schema is None and dataset.name in OF_NAMED:
        return OF_NAMED[dataset.name]
    if isinstance(dataset.train.samples, TextSamples | SparseSamples):
        return "words"
    is_table = isinstance(dataset.train.samples, TableSamples) or (dataset.schema is not None and _is_flat(dataset))
    return "table" if is_table else "numbers"


def map_for(
    dataset: Dataset,
    name: str | None = None,
    *,
    unit: float | None = None,
    units: Mapping[str, Any] | None = None,
) -> Any:
    """A map by name, or the one of this kind of samples.

    ``unit``: what counts as 1 in plain numbers; 1 unless it is known from the data set, 255 for bytes. ``units``: of
    the columns of a table, or "category"; otherwise they are read off the training rows, which is a premise.
    """
    name = map_name(dataset) if name is None else name
    if name not in MAPS:
        raise PoisonproofError(f"There is no feature map '{name}'; there are {', '.join(MAPS)}.")
    if units is not None and name != "table":
        raise PoisonproofError(f"--units are of the columns of a table, and the map is '{name}'; leave them out.")
    if unit is not None and name != "numbers":
        raise PoisonproofError(f"--unit is of plain numbers, and the map is '{name}'; leave it out.")
    if name == "table":
        return _table(dataset, units)
    if name in PICTURES:
        return PICTURES[name]()
    if name == "words":
        return HashedFeatures()
    known = LARGEST.get(dataset.name, 1.0) if dataset.schema is None else 1.0
    one = unit if unit is not None else BYTE if dataset.dtype == "uint8" else known
    if not 0 < one < float("inf"):
        raise PoisonproofError(f"--unit must be a number above 0. Got {unit}.")
    return VectorFeatures(unit=one)


def _table(dataset: Dataset, units: Mapping[str, Any] | None) -> TableFeatures:
    samples = dataset.train.samples
    if isinstance(samples, TableSamples):
        names, more = [str(column.name) for column in samples.columns], {}
    elif _is_flat(dataset):
        schema: Any = dataset.schema
        named = list(schema.named(*FEATURES)) if getattr(schema, "kind", None) == "table" else []
        names = named or [str(at) for at in range(samples.n_features)]
        more = {"names": tuple(names)}
    else:
        raise PoisonproofError(f"The map 'table' reads tables, and these are {samples.kind}; use 'numbers' or 'words'.")
    if units is None:
        return TableFeatures.from_rows(samples, trusted=False, **more)
    unknown = [name for name in units if name not in names]
    if unknown:
        raise PoisonproofError(f"--units names the column '{unknown[0]}', which the table lacks ({', '.join(names)}).")
    return TableFeatures.declared(units, **more)


def _is_flat(dataset: Dataset) -> bool:
    """Whether samples are plain rows of numbers, no pictures."""
    samples = dataset.train.samples
    return isinstance(samples, NumberSamples) and samples.values.ndim == 2 and samples.values.dtype != np.uint8
