"""How a user's own files are to be read; and what can be said about a file before anything heavy is imported.

That is: whether it is there, of a known kind, with the columns that options name. Standard library only, so that a
wrong name is told at once. What `check` passes may still be refused by the reader; what it refuses, the reader would
refuse in the same words.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from poisonproof import registry
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.samples.schema import Schema

LONGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class ReadOptions:
    """How a user's own files are to be read; None where they say nothing.

    Attributes
    ----------
    label, group_column : str
        The columns of a table, or arrays of an npz file, that hold labels and contributors' ids.
    test : path
        Another file or folder with the test samples.
    held_out : float
        Otherwise the share of samples to hold out, by a hash of their own content.
    schema : path, mapping of columns to roles, or Schema
        How to read the files.
    classes : sequence of str
        The labels that may occur.
    delimiter : str
        For CSV; a `.tsv` file has tabs unless this says otherwise.
    lines : bool
        Whether every line of CSV is a row, whatever quotes it holds; see `poisonproof.data.csv.CsvTable`.
    image_size : (width, height)
    colour : bool
        For folders of images.
    n_features : int
        For svmlight.
    most_bytes : int
        How much may be read.
    """

    label: str | None = None
    group_column: str | None = None
    test: Path | None = None
    held_out: float | None = None
    schema: str | Path | Mapping[str, str] | Schema | None = None
    classes: Sequence[str] | None = None
    delimiter: str | None = None
    lines: bool = False
    image_size: tuple[int, int] | None = None
    colour: bool | None = None
    n_features: int | None = None
    most_bytes: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """What is said, as plain values for a file; nothing of what is left open."""
        record: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                value = str(value) if isinstance(value, Path) else value
                value = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
                record[field.name] = value.as_dict() if hasattr(value, "as_dict") else value
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The options that `as_dict` wrote."""
        unknown = sorted(record.keys() - {field.name for field in fields(cls)})
        if unknown:
            raise PoisonproofError(
                f"'{unknown[0]}' is no option of this version about how files are read.", code="options.unknown"
            )
        given = dict(record)
        schema = given.get("schema")
        if isinstance(schema, Mapping) and "format" in schema:
            from poisonproof.samples.schema import schema_from_dict

            given["schema"] = schema_from_dict(schema)
        if "test" in given:
            given["test"] = Path(given["test"])
        if "image_size" in given:
            width, height = given["image_size"]
            given["image_size"] = int(width), int(height)
        return cls(**given)


def check(source: str | Path, options: ReadOptions) -> None:
    """Refuse what cannot be read: a name that is neither a data set nor a file, files and columns that are not there.

    Of a table in a format other than CSV only its name is looked at.
    """
    path = Path(source)
    if not path.exists():
        known = registry.names("datasets")
        if str(source) in known:
            return
        raise PoisonproofError(
            f"There is no data set '{source}' (there are {', '.join(known)}), and no file or folder of that name; "
            f"{_what_else(str(source), known)}",
            code="file.missing",
        )
    for other in (options.test, options.schema):
        if isinstance(other, Path) and not other.exists():
            raise PoisonproofError(f"There is no file or folder {other}.", code="file.missing")
    if path.is_dir():
        return
    ending = ending_of(path.name)
    if ending is None:
        endings = ", ".join(registry.names("readers"))
        raise PoisonproofError(
            f"{path} is of no known kind; there are {endings} and folders of images.", code="file.kind"
        )
    named = [name for name in (options.label, options.group_column) if name is not None]
    header = _header(path, ending, options) if ending.startswith((".csv", ".tsv")) and named else None
    for name in named:
        if header is not None and name not in header:
            raise PoisonproofError(
                f"{path} has no column '{name}'; {nearest(name, header)}", code="schema.unknown-column"
            )


def ending_of(name: str) -> str | None:
    """The longest ending of a file's name that stands in the registry of readers."""
    endings = [ending for ending in registry.names("readers") if name.lower().endswith(ending)]
    return max(endings, key=len, default=None)


def _header(path: Path, ending: str, options: ReadOptions) -> list[str] | None:
    """The names of the columns; None where only the reader can tell, because the first line is not one plain record."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(options.delimiter or "", options.delimiter)
    delimiter = delimiter or ("\t" if ending.startswith(".tsv") else ",")
    try:
        with gzip.open(path) if ending.endswith(".gz") else path.open("rb") as file:
            line = file.readline(LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except (OSError, EOFError, ValueError, TypeError, csv.Error):
        return None
    names = [name.strip() for name in names]
    numbers = [name for name in names if name.replace(".", "", 1).isdigit()]
    return names if len(names) > 1 and not numbers and "\0" not in line else None


def _what_else(name: str, known: Sequence[str]) -> str:
    """What was probably meant, among the data sets and what lies in the current folder; or something to try."""
    from difflib import get_close_matches

    close = get_close_matches(name, [*known, *sorted(item.name for item in Path().iterdir())], 1, 0.6)
    return f"did you mean '{close[0]}'?" if close else "`poisonproof example table` writes a small one to try."
