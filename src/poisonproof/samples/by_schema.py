"""DataFrames read by a schema, cell by cell: what a cell means follows from that cell and the role of its column.

The dtype of a column is not asked, for whoever read the table chose it by looking at all rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.display.text import nearest
from poisonproof.errors import PoisonproofError
from poisonproof.samples.canonical import to_samples
from poisonproof.samples.cells import drop_missing, number_cell, text_cell, text_of
from poisonproof.samples.columns import Column
from poisonproof.samples.frame_columns import numbers_of, read_column, times_of
from poisonproof.samples.frames import is_frame, python_values
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples
from poisonproof.samples.loose import read_loose
from poisonproof.samples.schema import FEATURES, TableSchema, number_in


def read_by_schema(X: Any, schema: TableSchema) -> Samples:
    """The samples of a frame by its schema; of an array or a list of texts if the schema reads nothing else."""
    if is_frame(X):
        return _read_frame(X, schema)
    names, missing = schema.named(*FEATURES), frozenset(schema.missing)
    loose = read_loose(X, len(names), missing, schema.decimal)
    samples = to_samples(X if loose is None else loose.values)
    if loose is not None and isinstance(samples, NumberSamples):
        samples = replace(samples, n_unreadable=loose.n_unreadable)
    elif isinstance(samples, NumberSamples):
        samples = replace(samples, values=_less_missing(samples.values, np.asarray(X), missing))
    elif isinstance(samples, TextSamples):
        samples = replace(
            samples, texts=np.array([text_cell(text, missing)[0] or "" for text in samples.texts], object)
        )
    fits = schema.only_texts if isinstance(samples, TextSamples) else names == schema.named("number")
    if not fits or not isinstance(samples, TextSamples | NumberSamples):
        raise PoisonproofError(f"The schema reads a DataFrame ({schema}). Got {type(X).__name__} instead.")
    if samples.n_features != len(names):
        raise PoisonproofError(f"X has {samples.n_features} features per sample, but the schema names {len(names)}.")
    return samples


def _less_missing(values: NDArray[Any], given: NDArray[Any], missing: frozenset[str]) -> NDArray[Any]:
    """Numbers of an array, but for those that words for missing stand for; the caller's own array stays as it is."""
    if values.dtype != np.float64 or all(number_in(word) is None for word in missing):
        return values
    values = values.copy()
    for column, cells in zip(values.reshape(len(values), -1).T, given.reshape(len(given), -1).T, strict=True):
        drop_missing(column, missing, lambda row, cells=cells: text_of(cells[row], "X"))  # type: ignore[misc]
    return values


def _read_frame(X: Any, schema: TableSchema) -> TableSamples:
    wanted, given = schema.named(*FEATURES), list(X.columns)
    roles = dict(schema.columns)
    for name in given:
        if roles.get(name) not in (*FEATURES, "ignore"):
            why = f"has the role '{roles[name]}' in the schema" if name in roles else "is not named by the schema"
            raise PoisonproofError(f"Column '{name}' of X {why}; leave it out of X, or give it the role 'ignore'.")
        if given.count(name) > 1:
            raise PoisonproofError(f"X has {given.count(name)} columns named '{name}'; give every column its own name.")
    for name in wanted:
        if name not in given:
            raise PoisonproofError(
                f"X has no column '{name}', which the schema reads; {nearest(name, list(map(str, given)))}"
            )
    if not len(X) or not wanted:
        raise PoisonproofError(
            f"Found array with {len(X)} sample(s) and {len(wanted)} feature(s); at least 1 is required."
        )
    missing = frozenset(schema.missing)
    columns = (_read_column(name, roles[name], X[name], missing, schema.decimal) for name in wanted)
    return TableSamples(tuple(columns), len(X))


def _read_column(name: str, role: str, series: Any, missing: frozenset[str], decimal: str) -> Column:
    if role != "number":
        return read_column(name, series, lambda value: text_cell(value, missing), categorical=role == "category")
    for typed in (numbers_of(series), times_of(series)):
        if typed is not None:
            drop_missing(typed, missing, lambda row: text_of(python_values(series.iloc[row : row + 1]).iloc[0], name))
            return Column.of_numbers(name, typed)
    column = read_column(name, series, lambda value: number_cell(value, missing, decimal), categorical=False)
    return Column.of_numbers(name, column.as_numbers(), n_unreadable=column.n_unreadable)
