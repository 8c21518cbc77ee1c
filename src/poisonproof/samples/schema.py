"""Schemas: how the cells, pixels and entries of a user's files are read.

Whatever is decided about all rows at once stands in a schema, so that nothing else has to be: with a schema in
hand, how one row is read is a function of that row alone. A schema is given by the user, or guessed from the
data, and then it is a premise of the certificate. It is saved with the run as plain JSON, to be read, edited and
given again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from poisonproof.errors import PoisonproofError

FORMAT = "poisonproof schema 2"
ROLES = ("number", "category", "text", "label", "group", "ignore")
FEATURES = ("number", "category", "text")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "?")
SHOWN = 12
WORDS_OF_A_TEXT = 4
Decimal = Literal[".", ","]


@dataclass(frozen=True)
class _Schema:
    """What all schemas have. ``guessed``: of one that was chosen from the data, which is a premise, how close its
    closest guess was; a schema that is given is declared, and this is empty."""

    kind: ClassVar[str]
    guessed: str = field(default="", compare=False, kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """The schema as plain values, for a file."""
        record: dict[str, Any] = {"format": FORMAT, "kind": self.kind}
        for name in [one.name for one in fields(self) if one.name != "guessed"]:
            value = getattr(self, name)
            record[name] = dict(value) if name == "columns" else list(value) if isinstance(value, tuple) else value
        return record | ({"guessed": self.guessed} if self.guessed else {})

    @property
    def words(self) -> str:
        """What it says, for a reader."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.words}; {self.guessed}" if self.guessed else self.words


@dataclass(frozen=True)
class TableSchema(_Schema):
    """Roles of the columns of a table, in the order in which features are fed.

    Parameters
    ----------
    columns : tuple of (name, role)
        A role is number, category, text, label, group (a contributor's id) or ignore. Columns of a file that
        are not named here are ignored.
    missing : tuple of str
        Cells that count as missing, blanks around them aside. So does a number that cannot be read as one.
    delimiter : str
        What separates the cells of a line of CSV.
    lines : bool
        Whether every line of CSV is a row. Otherwise rows are records of RFC 4180, whose quotes may span lines: a
        premise, see `poisonproof.data.csv.CsvTable`.
    decimal : "." or ","
        What stands before the fraction of a number.
    """

    columns: tuple[tuple[str, str], ...]
    missing: tuple[str, ...] = MISSING
    delimiter: str = ","
    lines: bool = False
    decimal: Decimal = "."
    kind = "table"

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        for name, role in self.columns:
            if role not in ROLES:
                raise PoisonproofError(
                    f"Column '{name}' has the role '{role}' in the schema; a role is {', '.join(ROLES)}.",
                    code="schema.role",
                )
            if names.count(name) > 1:
                raise PoisonproofError(f"The schema names the column '{name}' twice.", code="schema.column")
        for role in ("label", "group"):
            if len(self.named(role)) > 1:
                raise PoisonproofError(
                    f"The schema has {len(self.named(role))} columns of the role '{role}'; one at most.",
                    code="schema.role",
                )
        check_delimiter(self.delimiter)
        if self.decimal not in get_args(Decimal):
            raise PoisonproofError(
                f"'decimal' must be one of {', '.join(get_args(Decimal))}. Got {self.decimal!r}.", code="schema.value"
            )

    def named(self, *roles: str) -> list[str]:
        """The columns of these roles."""
        return [name for name, role in self.columns if role in roles]

    @property
    def label(self) -> str | None:
        """The column that holds the labels."""
        return next(iter(self.named("label")), None)

    @property
    def group(self) -> str | None:
        """The column that holds contributors' ids."""
        return next(iter(self.named("group")), None)

    @property
    def n_features(self) -> int:
        """How many columns are features."""
        return len(self.named(*FEATURES))

    @property
    def only_texts(self) -> bool:
        """Whether one text is all there is to a sample."""
        return self.n_features == len(self.named("text")) == 1

    @property
    def only_numbers(self) -> bool:
        """Whether all features are numbers, or there are none."""
        return self.n_features == len(self.named("number"))

    @property
    def words(self) -> str:
        """The columns of each role, and what else is unusual."""
        roles = [f"{role}: {_some(names)}" for role in ROLES if (names := self.named(role))]
        more = ["decimal commas"] if self.decimal == "," else []
        return "; ".join([*roles, *more, *(["every line is a row"] if self.lines else [])])


@dataclass(frozen=True)
class ImageSchema(_Schema):
    """Size and colours of the images of a folder."""

    width: int
    height: int
    colour: bool = field(kw_only=True)
    kind = "images"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the pixels of one image."""
        return (self.height, self.width, *([3] if self.colour else []))

    @property
    def n_features(self) -> int:
        """How many numbers one image is."""
        return prod(self.shape)

    @property
    def words(self) -> str:
        """Size and colours."""
        return f"images of {self.width}×{self.height} pixels, {'colour' if self.colour else 'grey'}"


@dataclass(frozen=True)
class SparseSchema(_Schema):
    """Number of features of svmlight rows; entries beyond it are dropped, in their own row only."""

    n_features: int
    kind = "sparse"

    @property
    def words(self) -> str:
        """How wide rows are."""
        return f"sparse rows of {self.n_features} features"


@dataclass(frozen=True)
class ArraySchema(_Schema):
    """Shape and form of the samples of an npz file."""

    shape: tuple[int, ...]
    dtype: str
    kind = "arrays"

    @property
    def n_features(self) -> int:
        """How many numbers one sample is."""
        return prod(self.shape)

    @property
    def words(self) -> str:
        """Shape and form."""
        return f"arrays of {'×'.join(map(str, self.shape)) or 'one'} numbers, {self.dtype}"


Schema = TableSchema | ImageSchema | SparseSchema | ArraySchema


def closeness(what: str, turned: int, unit: str) -> str:
    """How many units could have turned the closest of the guesses, in words."""
    return f"closest guess: {what}; {turned} odd {unit}{'s' * (turned != 1)} could have changed that"


def to_schema(given: str | Path | Mapping[str, str] | Schema) -> Schema:
    """A schema from its file, from the roles of a table's columns, or as it is."""
    if isinstance(given, TableSchema | ImageSchema | SparseSchema | ArraySchema):
        return given
    if isinstance(given, Mapping):
        return TableSchema(tuple((name, role) for name, role in given.items()))
    return read_schema(given)


def read_schema(path: str | Path) -> Schema:
    """The schema in a JSON file, which a person may have written or edited, and so declares."""
    try:
        record = json.loads(Path(path).read_bytes().decode("utf-8-sig"), object_pairs_hook=_without_repeats)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise PoisonproofError(f"{path} is not a schema: it is not JSON ({error}).", code="schema.file") from None
    try:
        return replace(schema_from_dict(record), guessed="")
    except ValueError as error:
        raise PoisonproofError(f"{path} is not a schema: {error}", code="schema.file") from None


def schema_from_dict(record: Any) -> Schema:
    """The schema that `as_dict` wrote, checked anew."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise PoisonproofError(f'it must be an object with "format": "{FORMAT}", as in a run\'s schema.json.')
    if record.get("kind") not in _FROM_RECORD:
        raise PoisonproofError(f"its kind must be table, images, sparse or arrays. Got {record.get('kind')!r}.")
    try:
        schema = _FROM_RECORD[record["kind"]](record)
    except KeyError as error:
        raise PoisonproofError(f"{error} is missing.") from None
    return replace(schema, guessed=str(record.get("guessed") or ""))


def check_delimiter(delimiter: str) -> str:
    """One character that can separate cells; ``\\t`` and ``tab`` are written for the tabulator."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise PoisonproofError(
            f"A delimiter is one character of ASCII, no quote and no line break. Got {delimiter!r}.",
            code="schema.value",
        )
    return delimiter


def _table(record: Mapping[str, Any]) -> TableSchema:
    columns, missing = record["columns"], record.get("missing", list(MISSING))
    if not isinstance(columns, dict) or not all(isinstance(role, str) for role in columns.values()):
        raise PoisonproofError('"columns" must be an object of names and roles, such as {"age": "number"}.')
    if not isinstance(missing, list) or not all(isinstance(cell, str) for cell in missing):
        raise PoisonproofError('"missing" must be a list of texts.')
    delimiter = record.get("delimiter", ",")
    if not isinstance(delimiter, str):
        raise PoisonproofError(f"A delimiter is one character. Got {delimiter!r}.")
    if "quotes" in record:
        raise PoisonproofError(
            "'quotes' is read no more: rows of CSV are records of RFC 4180, or lines where \"lines\" is true."
        )
    lines = _flag(record, "lines") if "lines" in record else False
    decimal = record.get("decimal", ".")
    return TableSchema(tuple(columns.items()), tuple(missing), check_delimiter(delimiter), lines=lines, decimal=decimal)


def _arrays(record: Mapping[str, Any]) -> ArraySchema:
    shape = record["shape"]
    if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise PoisonproofError(f"'shape' must be a list of whole numbers above 0. Got {shape!r}.")
    if record["dtype"] not in ("float64", "uint8"):
        raise PoisonproofError(f"'dtype' must be float64 or uint8. Got {record['dtype']!r}.")
    return ArraySchema(tuple(shape), record["dtype"])


def _whole(record: Mapping[str, Any], name: str) -> int:
    value = record[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PoisonproofError(f"'{name}' must be a whole number above 0. Got {value!r}.")
    return value


def _flag(record: Mapping[str, Any], name: str) -> bool:
    value = record[name]
    if not isinstance(value, bool):
        raise PoisonproofError(f"'{name}' must be true or false. Got {value!r}.")
    return value


def _without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless it says one thing twice: which of the two would be silent."""
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise json.JSONDecodeError(f"'{name}' stands there twice", "", 0)
        record[name] = value
    return record


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names)} in all)"


_FROM_RECORD: dict[str, Callable[[Mapping[str, Any]], Schema]] = {
    "table": _table,
    "images": lambda record: ImageSchema(
        _whole(record, "width"), _whole(record, "height"), colour=_flag(record, "colour")
    ),
    "sparse": lambda record: SparseSchema(_whole(record, "n_features")),
    "arrays": _arrays,
}
