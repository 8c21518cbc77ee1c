"""How a user's own files are to be read: one record, whatever asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.samples.schema import Schema


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
