"""One file of samples, read by a schema: the door for people who train in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.options import ReadOptions
from poisonproof.data.user_files import kind_of, read_rows
from poisonproof.samples.schema import Schema


@dataclass(frozen=True)
class Rows:
    """The samples of one file, in its order.

    Attributes
    ----------
    X : samples
        An array if all features are numbers, a list if the only one is a text, else a DataFrame.
    y, groups : arrays of texts, or None
        Labels and contributors' ids.
    schema : Schema
        How the file was read; its ``guessed`` says whether that was chosen from the data.
    notes : tuple of str
        What was left out, and why.
    """

    X: Any
    y: NDArray[np.object_] | None
    groups: NDArray[np.object_] | None
    schema: Schema
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)


def read(
    path: str | Path,
    *,
    label: str | None = None,
    group: str | None = None,
    schema: str | Path | Mapping[str, str] | Schema | None = None,
    labelled: bool = True,
    delimiter: str | None = None,
    lines: bool = False,
) -> Rows:
    """Samples, labels and contributors of one file or folder; how a row is read is a function of it and the schema.

    Readers that choose the type of a column by all its cells let one row change how the others are read. This one does
    not: a cell that is not the number it should be is missing in its own row, and labels and ids are texts.

    Parameters
    ----------
    path : path
        CSV, Parquet, npz, svmlight, or a folder of images.
    label, group : str, optional
        The columns of a table that hold labels and contributors' ids, where the schema does not say.
    schema : path, mapping of columns to roles, or Schema, optional
        Otherwise it is guessed from what most rows hold, which is a premise: see ``Rows.schema``, and give it to
        ``Split(schema=...)``.
    labelled : bool
        Whether the file has labels; False for samples to be answered.
    delimiter : str, optional
        What separates the cells of CSV; a tab in `.tsv`, otherwise a comma.
    lines : bool
        Whether every line of CSV is a row, whatever quotes it holds. Otherwise a row is a record of RFC 4180, which may
        span lines: a premise, see `poisonproof.data.readers.csvfile.CsvTable`.
    """
    path = Path(path)
    options = ReadOptions(label=label, group_column=group, schema=schema, delimiter=delimiter, lines=lines)
    part, used = read_rows(path, kind_of(path, options), options, labelled=labelled)
    return Rows(part.X, part.labels, part.groups, used, part.notes)
