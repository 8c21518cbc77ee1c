"""Maps of samples that vote, by name and as plain values: what a run's record says of its map makes it again.

A map's constants are declared, here or by the user. Only the units of a table may be read off its rows, and then they
are "chosen from this data" in every certificate. In a table everything is decided cell by cell: a category that nobody
has seen, a text where a number should be, a gap, all stay in their own row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from poisonproof import registry
from poisonproof.data.dataset import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.learners.feature_maps import LONGEST, GlyphFeatures, VectorFeatures
from poisonproof.premises import PublicMap
from poisonproof.samples.cells import canonical_cell, cell_key
from poisonproof.samples.convert import digest_of, to_samples
from poisonproof.samples.frames import is_frame
from poisonproof.samples.hashing import hash_bytes
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples, TextSamples
from poisonproof.samples.schema import FEATURES

ROWS_AT_ONCE = 1 << 10
SPREADING = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio
LARGEST = {"digits": 16.0}  # what the numbers of a named set go up to; of bytes it is 255
BYTE = 255.0
OWN = "own"
ENCODER = "encoder"
DECLARED = "declared"
SHOWN = 8  # columns whose units a premise names


@dataclass(frozen=True)
class HashedFeatures:
    """Words and pairs of words of texts, or the columns of sparse rows, hashed into a fixed number of places.

    Parameters
    ----------
    width : int
        Places, and so the length of a feature vector. What falls into the same place is added, with signs from the
        hash, so that on average it cancels. Sparse rows of at most so many columns are taken as they are.
    scale : float
        Steps per unit. A text has length 1; a sparse row its own, divided by ``unit``.
    unit : float
        What counts as length 1 in a sparse row. Declared, never taken from the data.
    """

    width: int = 1024
    scale: float = 1024.0
    unit: float = 1.0
    takes_missing = True
    answers_one_by_one = True  # see poisonproof.samples.batches

    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Features (n, 1, width) of texts or sparse rows."""
        if self.width < 2:
            raise PoisonproofError(
                f"The 'width' of hashed features must be at least 2. Got {self.width!r} instead.", code="map.parameter"
            )
        n = X.shape[0] if sp.issparse(X) else len(X)
        hashed = self._columns(sp.csr_matrix(X)) if sp.issparse(X) else self._words(X)
        whole = VectorFeatures(1.0 if not sp.issparse(X) else self.unit, self.scale, limit=4095)
        out = np.zeros((n, 1, hashed.shape[1]), np.int16)
        for start in range(0, n, ROWS_AT_ONCE):
            out[start : start + ROWS_AT_ONCE] = whole(hashed[start : start + ROWS_AT_ONCE].toarray())
        return out

    def _words(self, texts: Any) -> Any:
        hashing = HashingVectorizer(n_features=self.width, ngram_range=(1, 2))
        return hashing.transform([text if isinstance(text, str) else "" for text in texts])

    def _columns(self, rows: Any) -> Any:
        rows.data = np.nan_to_num(rows.data)
        n_columns = rows.shape[1]
        if n_columns <= self.width:
            return rows
        with np.errstate(over="ignore"):
            hashes = (np.arange(1, n_columns + 1, dtype=np.uint64) * np.uint64(SPREADING)) >> np.uint64(31)
        signs = np.where(hashes & np.uint64(1), 1.0, -1.0)
        places = ((hashes >> np.uint64(1)) % np.uint64(self.width)).astype(np.int64)
        return rows @ sp.csr_matrix((signs, (np.arange(n_columns), places)), shape=(n_columns, self.width))


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
        first = [
            f"{one.name} in units of {one.unit:g}" if isinstance(one, NumberColumn) else f"{one.name} by category"
            for one in self.columns[:SHOWN]
        ]
        more = f", … ({len(self.columns)} in all)" if len(self.columns) > SHOWN else ""
        return f"table, {', '.join(first)}{more}{''.join(odd)}; {self.origin}"

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
                    f"Column '{name}' needs a unit above 0, or 'category', to be declared. Got {unit!r} instead.",
                    code="map.units",
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
            raise PoisonproofError(
                f"Table features need a DataFrame. Got {type(X).__name__} instead.", code="map.wrong-kind"
            )
        names: list[Any] = list(X.columns if is_frame(X) else self.names or ())
        missing = [str(column.name) for column in self.columns if column.name not in names]
        if missing:
            raise PoisonproofError(
                f"The table lacks the columns {', '.join(missing)}, which its map reads.", code="map.columns"
            )
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
            f"A table's units are read off a DataFrame, or off an array whose columns have names. Got {samples.kind}.",
            code="map.wrong-kind",
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


PLAIN: dict[str, Any] = {"numbers": VectorFeatures, "words": HashedFeatures, "glyphs": GlyphFeatures}
MAPS = (*PLAIN, "table")


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
    samples = dataset.train.samples
    if name is None and isinstance(samples, TextSamples | SparseSamples):
        name = "words"
    elif name is None:
        is_table = isinstance(samples, TableSamples) or (dataset.schema is not None and _is_flat(dataset))
        name = "table" if is_table else "numbers"
    if name not in MAPS:
        raise PoisonproofError(f"There is no feature map '{name}'; there are {', '.join(MAPS)}.", code="map.unknown")
    if units is not None and name != "table":
        raise PoisonproofError(
            f"--units are of the columns of a table, and the map is '{name}'; leave them out.", code="map.units"
        )
    if unit is not None and name != "numbers":
        raise PoisonproofError(f"--unit is of plain numbers, and the map is '{name}'; leave it out.", code="map.units")
    if name == "table":
        return _table(dataset, units)
    if name != "numbers":
        return PLAIN[name]()
    known = LARGEST.get(dataset.name, 1.0) if dataset.schema is None else 1.0
    one = unit if unit is not None else BYTE if dataset.dtype == "uint8" else known
    if not 0 < one < float("inf"):
        raise PoisonproofError(f"--unit must be a number above 0. Got {unit}.", code="map.units")
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
        raise PoisonproofError(
            f"The map 'table' reads tables, and these are {samples.kind}; use 'numbers' or 'words'.",
            code="map.wrong-kind",
        )
    if units is None:
        return TableFeatures.from_rows(samples, trusted=False, **more)
    unknown = [name for name in units if name not in names]
    if unknown:
        raise PoisonproofError(
            f"--units names the column '{unknown[0]}', which the table lacks ({', '.join(names)}).", code="map.units"
        )
    return TableFeatures.declared(units, **more)


def _is_flat(dataset: Dataset) -> bool:
    """Whether samples are plain rows of numbers, no pictures."""
    samples = dataset.train.samples
    return isinstance(samples, NumberSamples) and samples.values.ndim == 2 and samples.values.dtype != np.uint8


def record_of(features: Any) -> dict[str, Any]:
    """A map as plain values; one that is none of ours is known by name only, and cannot be made again from that."""
    if isinstance(features, PublicMap) and features.spec is not None:
        return {"name": ENCODER, "of": features.spec, "digest": features.digest}
    for name, kind in PLAIN.items():
        if type(features) is kind:
            return {"name": name, **asdict(features)}
    if type(features) is TableFeatures:
        record = {part.name: getattr(features, part.name) for part in fields(features) if part.name != "columns"}
        record["names"] = None if features.names is None else list(features.names)
        return {"name": "table", "columns": [asdict(column) for column in features.columns], **record}
    return {"name": OWN}


def is_default(features: Any) -> bool:
    """Whether this is one of our maps as it stands, which nobody gave a unit, a width or samples, or the encoder that
    some kind of data gets if nobody names one.
    """
    if isinstance(features, PublicMap):
        return features.is_default
    name = record_of(features)["name"]
    return name in PLAIN and bool(features == PLAIN[name]())


def map_of(record: Mapping[str, Any], given: PublicMap | None = None) -> Any:
    """The map of what `record_of` wrote, an encoder if need be the one that is given; one sentence if there is none."""
    name, values = record.get("name"), {key: value for key, value in record.items() if key != "name"}
    if name == OWN and given is not None:
        return given
    if name == OWN:
        raise PoisonproofError(
            "The feature map is one of somebody's own, and a record does not hold its code; give the model itself.",
            code="map.unknown",
        )
    if name == ENCODER:
        made = registry.encoder(str(values.get("of"))) if given is None else given
        if made.digest != values.get("digest"):
            raise PoisonproofError(
                f"The encoder '{values.get('of')}' is not the one on record: its digest is another.",
                code="encoder.other-weights",
            )
        return made
    if name in PLAIN:
        return PLAIN[str(name)](**values)
    if name != "table":
        raise PoisonproofError(f"There is no feature map '{name}'; there are {', '.join(MAPS)}.", code="map.unknown")
    columns = tuple((NumberColumn if "unit" in column else CategoryColumn)(**column) for column in values["columns"])
    names = None if values.get("names") is None else tuple(values["names"])
    return TableFeatures(**{**values, "columns": columns, "names": names})
