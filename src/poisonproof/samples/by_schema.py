"""DataFrames read by a schema, cell by cell: what a cell means follows from that cell and the role of its column.

The dtype of a column is not asked, for whoever read the table chose it by looking at all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poisonproof.display.text import nearest
from poisonproof.errors import PoisonproofError
from poisonproof.samples.canonical import to_samples
from poisonproof.samples.cells import canonical_cell, text_of
from poisonproof.samples.columns import Column
from poisonproof.samples.frame_columns import numbers_of, read_column, times_of
from poisonproof.samples.frames import is_frame
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples
from poisonproof.samples.schema import FEATURES, TableSchema, number_in


def read_by_schema(X: Any, schema: TableSchema) -> Samples:
    """The samples of a frame by its schema; of an array or a list of texts if the schema reads nothing else."""
    if is_frame(X):
        return _read_frame(X, schema)
    samples = to_samples(X)
    names = schema.named(*FEATURES)
    fits = schema.only_texts if isinstance(samples, TextSamples) else names == schema.named("number")
    if not fits or not isinstance(samples, TextSamples | NumberSamples):
        raise PoisonproofError(f"The schema reads a DataFrame ({schema}). Got {type(X).__name__} instead.")
    if samples.n_features != len(names):
        raise PoisonproofError(f"X has {samples.n_features} features per sample, but the schema names {len(names)}.")
    return samples


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
        return read_column(name, series, lambda value: _text(value, missing), categorical=role == "category")
    for typed in (numbers_of(series), times_of(series)):
        if typed is not None:
            return Column.of_numbers(name, typed)
    column = read_column(name, series, lambda value: _number(value, missing, decimal), categorical=False)
    return Column.of_numbers(name, column.as_numbers(), n_unreadable=column.n_unreadable)


def _number(value: Any, missing: frozenset[str], decimal: str) -> tuple[float | None, bool]:
    """A number, or None and whether it is anything else than missing."""
    try:
        cell = canonical_cell(value, "a table")
    except TypeError:
        return None, True
    if not isinstance(cell, str):
        return cell, False
    text = cell.strip()
    number = None if text in missing else number_in(text, decimal)
    return (None if number is None else number + 0.0), number is None and text not in missing


def _text(value: Any, missing: frozenset[str]) -> tuple[str | None, bool]:
    """A text as a file would hold it, or None and whether it is anything else than missing."""
    try:
        text = str(bool(value)) if isinstance(value, bool | np.bool_) else text_of(value, "a table").strip()
    except TypeError:
        return None, True
    return (None if text in missing else text), False
