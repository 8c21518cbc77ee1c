"""A user's own data: CSV, TSV, Parquet, npz, svmlight, or a folder of images, read by one schema into a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import Dataset, held_out
from poisonproof.data.readers.csvfile import CsvTable
from poisonproof.data.readers.folder import guess_image_schema, read_folder
from poisonproof.data.readers.npz import layout_of, names_in, read_npz
from poisonproof.data.readers.parquet import ParquetTable
from poisonproof.data.readers.part import Part
from poisonproof.data.readers.svmlight import guess_sparse_schema, read_svmlight
from poisonproof.data.readers.tables import Table, guess_schema, read_table
from poisonproof.display.text import nearest
from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise
from poisonproof.samples.rows import take_rows
from poisonproof.samples.schema import (
    FEATURES,
    ArraySchema,
    ImageSchema,
    Schema,
    SparseSchema,
    TableSchema,
    check_delimiter,
    to_schema,
)

KINDS = {
    ".csv": "table",
    ".csv.gz": "table",
    ".tsv": "table",
    ".tsv.gz": "table",
    ".parquet": "table",
    ".npz": "arrays",
    ".svm": "sparse",
    ".svmlight": "sparse",
    ".libsvm": "sparse",
}
HELD_OUT = 0.2
FEWEST_SAMPLES = 10
FEW_LABELS = 50


@dataclass(frozen=True)
class How:
    """What the user says about their files; None where they say nothing.

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
    image_size : (width, height)
    colour : bool
        For folders of images.
    n_features : int
        For svmlight.
    skip_bad : bool
        Leave out images that cannot be read.
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
    image_size: tuple[int, int] | None = None
    colour: bool | None = None
    n_features: int | None = None
    skip_bad: bool = False
    most_bytes: int | None = None


def kind_of(path: Path) -> str:
    """What a file or folder holds, by its name."""
    if not path.exists():
        raise PoisonproofError(f"There is no file or folder {path}.")
    if path.is_dir():
        return "images"
    for suffix, kind in KINDS.items():
        if path.name.lower().endswith(suffix):
            return kind
    raise PoisonproofError(f"{path} is of no known kind; there are {', '.join(KINDS)} and folders of images.")


def open_own(path: str | Path, how: How) -> Dataset:
    """The training and test samples of a user's files.

    How one row is read, and whether it is held out, is a function of that row and of the schema; everything decided
    about all rows at once is declared by the user or listed among the premises.
    """
    if how.test is not None and how.held_out is not None:
        raise PoisonproofError("Give --test or --held-out, not both.")
    path = Path(path)
    schema, declared = _schema_for(path, kind_of(path), how)
    part, inside = _read_all(path, schema, how)
    where = _held_out_premise(how, inside is not None, part.groups is not None)
    dtype = "uint8" if schema.kind == "images" or getattr(schema, "dtype", None) == "uint8" else "float64"
    notes = part.notes
    if how.test is not None:
        test = read_part(how.test, schema, labelled=True, how=how)
        notes += test.notes
    elif inside is not None:
        test = inside
    else:
        _check_enough(path, part, how.classes is not None)
        aside = held_out(part.X, _share(how), groups=part.groups, dtype=dtype)
        part, test = _rows(part, np.flatnonzero(~aside)), _rows(part, np.flatnonzero(aside))
    _check_enough(path, part, how.classes is not None)
    classes = None if how.classes is None else np.array(list(how.classes), object)
    known = set(_labels(part).tolist() if classes is None else classes.tolist())
    rows = np.flatnonzero([label in known for label in _labels(test).tolist()])
    if len(rows) < len(test):
        notes += (f"{len(test) - len(rows)} test samples have a label {_fate(classes is not None)}",)
        # With inferred classes one training sample more could bring such samples back, so they stay, as wrong.
        test = test if classes is None else _rows(test, rows)
    if not len(test):
        raise PoisonproofError(f"No test samples are left of {how.test or path}; give --test or a larger --held-out.")
    return Dataset(
        path.name,
        part.X,
        _labels(part),
        test.X,
        _labels(test),
        classes,
        dtype,
        part.groups,
        schema,
        schema.n_features if isinstance(schema, SparseSchema) else None,
        (Premise("schema", str(schema), declared), where, *_more_premises(schema, declared)),
        notes,
    )


def read_part(path: Path, schema: Schema, *, labelled: bool, how: How) -> Part:
    """The samples of one more file, read by a schema that is already there."""
    kind = kind_of(path)
    if kind != schema.kind:
        raise PoisonproofError(f"{path} holds {kind}, but the schema reads {schema.kind}; give data of the same kind.")
    if isinstance(schema, TableSchema):
        return read_table(_table(path, schema.delimiter, how), schema, labelled=labelled)
    if isinstance(schema, ImageSchema):
        return read_folder(
            path, schema, labelled=labelled, resize=_resizes(how), skip_bad=how.skip_bad, most_bytes=how.most_bytes
        )
    if isinstance(schema, SparseSchema):
        return read_svmlight(path, schema, labelled=labelled, most_bytes=how.most_bytes)
    x, y = ("X", "y") if "X" in names_in(path) else ("x_test", "y_test")
    return read_npz(path, x, y if labelled else None, None, schema, how.most_bytes)[0]


def read_rows(path: Path, kind: str, how: How, *, labelled: bool) -> tuple[Part, Schema]:
    """The samples of one file with their labels, if it has some, and the schema that read them."""
    schema = _schema_for(path, kind, how, labelled)[0]
    part = _read_all(path, schema, how)[0] if labelled else read_part(path, schema, labelled=False, how=how)
    return part, schema


def _schema_for(path: Path, kind: str, how: How, labelled: bool = True) -> tuple[Schema, bool]:
    """The schema, and whether the user declared it."""
    _refuse_what_does_not_apply(path, kind, how)
    if how.schema is not None:
        schema = to_schema(how.schema)
        if schema.kind != kind:
            name = how.schema if isinstance(how.schema, str | Path) else "This"
            raise PoisonproofError(f"{name} is a schema for {schema.kind}, but {path} holds {kind}.")
        return _with_keys(path, schema, how, labelled), not getattr(schema, "guessed", False)
    if kind == "table":
        if how.label is None:
            raise PoisonproofError(f"Which column of {path} holds the labels? Name it with --label.")
        delimiter = _delimiter(path, ",", how)
        return guess_schema(_table(path, delimiter, how), how.label, how.group_column, delimiter), False
    if kind == "images":
        declared = how.image_size is not None and how.colour is not None
        return guess_image_schema(path, how.image_size, how.colour), declared
    if kind == "sparse":
        if how.n_features is not None:
            return SparseSchema(how.n_features), True
        return guess_sparse_schema(path, how.most_bytes), False
    return read_npz(path, layout_of(path)[0], None, None, None, how.most_bytes)[1], False


def _with_keys(path: Path, schema: Schema, how: How, labelled: bool) -> Schema:
    """A given schema, unless the command line says something else about the same."""
    if isinstance(schema, TableSchema):
        for said, there, role in ((how.label, schema.label, "label"), (how.group_column, schema.group, "group")):
            if said is not None and said != there:
                raise PoisonproofError(
                    f"The schema does not give column '{said}' the role '{role}'; edit one of the two."
                )
        if schema.label is None and labelled:
            raise PoisonproofError('No column has the role "label" in the schema; one must.')
        return replace(schema, delimiter=_delimiter(path, schema.delimiter, how))
    return schema


def _refuse_what_does_not_apply(path: Path, kind: str, how: How) -> None:
    limits = {
        "--label": (how.label, ("table",)),
        "--group-column": (how.group_column, ("table", "arrays")),
        "--delimiter": (how.delimiter, ("table",)),
        "--image-size": (how.image_size, ("images",)),
        "--colour": (how.colour, ("images",)),
        "--n-features": (how.n_features, ("sparse",)),
    }
    for option, (value, kinds) in limits.items():
        if value is not None and kind not in kinds:
            raise PoisonproofError(f"{option} says nothing about {path}, which holds {kind}; leave it out.")


def _read_all(path: Path, schema: Schema, how: How) -> tuple[Part, Part | None]:
    """The samples of the main file, and its own test samples where it holds some that are wanted."""
    if not isinstance(schema, ArraySchema):
        return read_part(path, schema, labelled=True, how=how), None
    x, y, x_test, y_test = layout_of(path)
    if how.group_column is not None and how.group_column not in names_in(path):
        raise PoisonproofError(f"{path} has no array '{how.group_column}'; {nearest(how.group_column, names_in(path))}")
    part, _ = read_npz(path, x, y, how.group_column, schema, how.most_bytes)
    if x_test is None or how.test is not None or how.held_out is not None:
        return part, None
    return part, read_npz(path, x_test, y_test, None, schema, how.most_bytes)[0]


def _table(path: Path, delimiter: str, how: How) -> Table:
    if path.name.lower().endswith(".parquet"):
        return ParquetTable(path, how.most_bytes)
    return CsvTable(path, _delimiter(path, delimiter, how), how.most_bytes)


def _delimiter(path: Path, otherwise: str, how: How) -> str:
    """What separates the cells: what the user says, a tab where the file's name says so, or what is known."""
    if how.delimiter is not None:
        return check_delimiter(how.delimiter)
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else otherwise


def _resizes(how: How) -> bool:
    return how.image_size is not None or how.schema is not None


def _share(how: How) -> float:
    return HELD_OUT if how.held_out is None else how.held_out


def _rows(part: Part, rows: NDArray[np.int64]) -> Part:
    return Part(
        take_rows(part.X, rows),
        None if part.labels is None else part.labels[rows],
        None if part.groups is None else part.groups[rows],
        [part.names[row] for row in rows],
    )


def _labels(part: Part) -> NDArray[np.object_]:
    if part.labels is None:
        raise PoisonproofError("These samples have no labels.")
    return part.labels


def _check_enough(path: Path, part: Part, declared: bool) -> None:
    """Refuse what cannot be meant; how many labels there are says nothing where the classes are declared."""
    labels = _labels(part).tolist()
    if len(labels) < FEWEST_SAMPLES:
        raise PoisonproofError(f"{path} gives {len(labels)} training samples; at least {FEWEST_SAMPLES} are needed.")
    different = set(labels)
    if len(different) < 2:
        raise PoisonproofError(
            f"All {len(labels)} training samples of {path} have the label '{labels[0]}'; two classes are needed."
        )
    if not declared and len(different) > max(FEW_LABELS, len(labels) / 2):
        raise PoisonproofError(
            f"The {len(labels)} training samples of {path} have {len(different)} different labels, such as "
            f"'{labels[0]}'; a label must name a class, so is this the right column?"
        )


def _fate(declared: bool) -> str:
    """What becomes of test samples whose label is none of the classes."""
    if declared:
        return "that is not one of the classes and were left out"
    return "that the training samples do not have and count as wrong"


def _held_out_premise(how: How, own: bool, grouped: bool) -> Premise:
    if how.test is not None:
        return Premise("test samples", f"from {how.test.name}", True)
    if own:
        return Premise("test samples", "those of the file", True)
    by = "contributor" if grouped else "content"
    return Premise("test samples", f"{_share(how):g} of all, held out by a hash of their {by}", True)


def _more_premises(schema: Schema, declared: bool) -> tuple[Premise, ...]:
    """What the model would otherwise list as chosen from the data, though the schema says it."""
    width = Premise("number of features", str(_width(schema)), declared)
    if not isinstance(schema, TableSchema) or set(schema.named(*FEATURES)) == set(schema.named("number")):
        return (width,)
    categories = Premise("categorical columns", ", ".join(schema.named("category")) or "none", declared)
    return (width,) if schema.only_texts else (width, categories)


def _width(schema: Schema) -> int:
    if isinstance(schema, TableSchema):
        return len(schema.named(*FEATURES))
    if isinstance(schema, SparseSchema):
        return schema.n_features
    if isinstance(schema, ImageSchema):
        return schema.width * schema.height * (3 if schema.colour else 1)
    return int(np.prod(schema.shape))
