"""Rows of a table as whole numbers: numbers in declared units, categories by a fixed hash, gaps as gaps.

Everything is decided cell by cell: a category that nobody has seen, a text where a number should be, a gap, all stay
in their own row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.vectors import LONGEST
from poisonproof.samples.cells import canonical_cell, cell_key
from poisonproof.samples.convert import digest_of, to_samples
from poisonproof.samples.frames import is_frame
from poisonproof.samples.hashing import hash_bytes
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples

DECLARED = "declared"


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: ``centre`` counts as 0 and ``unit`` more as 1."""

    name: Any
    unit: float
    centre: float = 0.0


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: two that differ are ``weight``·√2 apart (unless their hashes meet in one place)."""

    name: Any
    weight: float = 0.7
    places: int = 32


@dataclass(frozen=True)
class TableFeatures:
    """Feature map for tables of numbers and categories.

    Parameters
    ----------
    columns : tuple of NumberColumn and CategoryColumn
        In the order of the features; columns of a table that are not named here do not count.
    scale : float
        Steps per unit.
    reach : float
        Numbers farther than so many units from their centre count as that far.
    gap : float
        How far a gap is from the centre of a column of numbers, in a direction of its own.
    origin : str
        Where units and centres come from: "declared", or in words. What was read off rows that an attacker could touch
        is a premise of every certificate.
    trusted : bool
        Whether whoever chose them cannot be the attacker.
    names : tuple, optional
        What the columns of an array of numbers are called, in their order; a DataFrame knows its own.
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    scale: float = 64.0
    reach: float = 8.0
    gap: float = 0.7
    origin: str = DECLARED
    trusted: bool = True
    names: tuple[str, ...] | None = None
    takes_missing = True
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def words(self) -> str:
        """What a premise says of the map: columns, where their units come from, and what is not as usual."""
        usual = {part.name: part.default for part in fields(type(self))}
        odd = [f", {name} {getattr(self, name):g}" for name in ("reach", "gap") if getattr(self, name) != usual[name]]
        return f"table, {describe_columns(self.columns)}{''.join(odd)}; {self.origin}"

    @classmethod
    def declared(cls, columns: Mapping[Any, float | str | tuple[float, float]], **more: Any) -> Self:
        """Units of columns by name, or "category": ``{"age": 10, "hours": 12, "job": "category"}``.

        A pair is a unit and a centre: ``{"year": (10, 1990)}``, since numbers count up to ``reach`` units from there.
        """
        made: list[NumberColumn | CategoryColumn] = []
        for name, given in columns.items():
            unit, centre = given if isinstance(given, tuple) else (given, 0.0)
            if unit == "category":
                made.append(CategoryColumn(name))
            elif isinstance(unit, int | float) and 0 < unit < float("inf") and abs(centre) < float("inf"):
                made.append(NumberColumn(name, float(unit), float(centre)))
            else:
                raise PoisonproofError(
                    f"Column '{name}' needs a unit above 0, or 'category', to be declared. Got {unit!r} instead."
                )
        return cls(tuple(made), **more)

    @classmethod
    def from_rows(cls, X: Any, *, trusted: bool, **more: Any) -> Self:
        """Medians as centres and the spread of the middle half as units, from these rows.

        ``trusted``: whether an attacker could not touch them; if not, the map is "chosen from this data".
        """
        samples = X if isinstance(X, Samples) else to_samples(X)
        made: list[NumberColumn | CategoryColumn] = []
        for name, values in _columns(samples, more.get("names")):
            made.append(CategoryColumn(name) if values is None else _middle_half(name, values))
        rows = "trusted rows" if trusted else "these training samples"
        origin = f"from {len(samples)} {rows}, SHA-256 {digest_of(samples)[:16]}"
        return cls(tuple(made), origin=origin, trusted=trusted, **more)

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, n_features) of a DataFrame, or of an array whose columns have names."""
        if not is_frame(X) and (self.names is None or np.ndim(X) != 2 or np.shape(X)[1] != len(self.names)):
            raise PoisonproofError(f"Table features need a DataFrame. Got {type(X).__name__} instead.")
        names: list[Any] = list(X.columns if is_frame(X) else self.names or ())
        missing = [str(column.name) for column in self.columns if column.name not in names]
        if missing:
            raise PoisonproofError(f"The table lacks the columns {', '.join(missing)}, which its map reads.")
        places = [names.index(column.name) for column in self.columns]
        cells = [X.iloc[:, at].to_numpy() if is_frame(X) else np.asarray(X, np.float64)[:, at] for at in places]
        parts = [self._column(values, column) for values, column in zip(cells, self.columns, strict=True)]
        steps = np.concatenate([np.zeros((len(X), 0)), *parts], axis=1)
        squares = np.square(steps).sum(axis=1, keepdims=True)
        shorter = LONGEST / np.sqrt(np.maximum(squares, LONGEST**2))
        return np.trunc(steps * shorter).astype(np.int16)[:, None]

    def _column(self, values: NDArray[Any], column: NumberColumn | CategoryColumn) -> NDArray[np.float64]:
        if isinstance(column, NumberColumn):
            numbers = values if values.dtype == np.float64 else np.array([_number(cell) for cell in values])
            gaps = ~np.isfinite(numbers)
            units = np.where(gaps, 0.0, (np.where(gaps, 0.0, numbers) - column.centre) / column.unit)
            steps = np.rint(np.clip(units, -self.reach, self.reach) * self.scale)
            return np.column_stack([steps, np.rint(gaps * self.gap * self.scale)])
        keys = [cell_key(_cell(cell)) for cell in values]
        places = (hash_bytes(keys, len(keys)) % np.uint64(column.places)).astype(np.int64)
        hot = np.zeros((len(values), column.places))
        hot[np.arange(len(values)), places] = np.rint(column.weight * self.scale)
        return hot


def _columns(samples: Samples, names: Sequence[str] | None) -> list[tuple[Any, NDArray[np.float64] | None]]:
    """The columns of a table by name: their numbers, or None for categories."""
    if isinstance(samples, TableSamples):
        return [(column.name, column.values if column.numeric else None) for column in samples.columns]
    if not isinstance(samples, NumberSamples) or samples.values.ndim != 2 or names is None:
        raise PoisonproofError(
            f"A table's units are read off a DataFrame, or off an array whose columns have names. Got {samples.kind}."
        )
    return list(zip(names, samples.values.T.astype(np.float64), strict=True))


def _middle_half(name: Any, values: NDArray[np.float64]) -> NumberColumn:
    present = values[~np.isnan(values)]
    low, middle, high = np.percentile(present, [25, 50, 75]) if len(present) else (0.0, 0.0, 0.0)
    unit = (high - low) / 1.35 or float(np.std(present)) if len(present) else 0.0
    return NumberColumn(name, float(unit) or 1.0, float(middle))


def _cell(value: Any) -> Any:
    try:
        return canonical_cell(value, "a table")
    except TypeError:
        return None


def _number(value: Any) -> float:
    cell = _cell(value)
    return cell if isinstance(cell, float) else np.nan


def describe_columns(columns: Sequence[NumberColumn | CategoryColumn], shown: int = 8) -> str:
    """Units of columns in words, the first few."""
    words = [
        f"{column.name} in units of {column.unit:g}"
        if isinstance(column, NumberColumn)
        else f"{column.name} by category"
        for column in columns[:shown]
    ]
    return ", ".join(words) + (f", … ({len(columns)} in all)" if len(columns) > shown else "")
