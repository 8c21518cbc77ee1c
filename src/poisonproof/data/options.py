"""How a user's own files are to be read: one record, from whatever door it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
        Whether every line of CSV is a row, whatever quotes it holds; see `poisonproof.data.readers.csvfile.CsvTable`.
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
