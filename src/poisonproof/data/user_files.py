"""A user's own data: CSV, TSV, Parquet, npz, svmlight, or a folder of images, read by one schema into a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import Dataset, LabelledSamples, held_out
from poisonproof.data.options import ReadOptions
from poisonproof.data.readers.csvfile import CsvTable
from poisonproof.data.readers.folder import guess_image_schema, read_folder
from poisonproof.data.readers.guessing import guess_schema
from poisonproof.data.readers.npz import layout_of, names_in, read_npz
from poisonproof.data.readers.parquet import ParquetTable
from poisonproof.data.readers.part import Part
from poisonproof.data.readers.several import SeveralTables
from poisonproof.data.readers.svmlight import guess_sparse_schema, read_svmlight
from poisonproof.data.readers.tables import Table, read_table
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise, declared_if
from poisonproof.samples.convert import take_rows, to_samples
from poisonproof.samples.kinds import NumberSamples
from poisonproof.samples.labels import class_array, label_cells, places_of
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
FEW_LABELS = 50
BY_RECORDS = (
    "CSV records, written by RFC 4180: "
    "cells that hold quotes, delimiters or line breaks are quoted, inner quotes doubled"
)


def kind_of(path: Path, how: ReadOptions | Schema | None = None) -> str:
    """What a file or folder holds, by its name.

    Of a folder, what the schema or the column of labels says: one file of another kind in it does not decide.
    """
    if not path.exists():
        raise PoisonproofError(f"There is no file or folder {path}.")
    if path.is_dir():
        label = isinstance(how, ReadOptions) and how.label is not None
        schema = how.schema if isinstance(how, ReadOptions) else how
        known = "table" if label else None if schema is None else to_schema(schema).kind
        images = any(item.is_dir() for item in path.iterdir()) if known is None else known == "images"
        return "table" if not images and table_files(path) else "images"
    for suffix, kind in KINDS.items():
        if path.name.lower().endswith(suffix):
            return kind
    raise PoisonproofError(f"{path} is of no known kind; there are {', '.join(KINDS)} and folders of images.")


def table_files(path: Path) -> list[Path]:
    """The files of a table: the file itself, or the Parquet files of a folder, by name."""
    if not path.is_dir():
        return [path]
    return sorted(item for item in path.glob("*.parquet") if item.is_file() and not item.name.startswith("."))


def open_files(path: str | Path, options: ReadOptions) -> Dataset:
    """The training and test samples of a user's files.

    How one row is read, and whether it is held out, is a function of that row and of the schema; everything decided
    about all rows at once is declared by the user or listed among the premises.
    """
    if options.test is not None and options.held_out is not None:
        raise PoisonproofError("Give --test or --held-out, not both.")
    path = Path(path)
    kind = kind_of(path, options)
    schema = schema_for(path, kind, options)
    part, inside = _read_all(path, schema, options)
    spanning = part.spanning
    dtype = "uint8" if schema.kind == "images" or getattr(schema, "dtype", None) == "uint8" else "float64"
    notes = part.notes
    if options.test is not None:
        test = read_part(options.test, schema, labelled=True, options=options)
        notes += test.notes
    elif inside is not None:
        test = inside
    else:
        check_labels(path, len(part), part.notes)
        if part.samples is None and part.groups is None:
            part = replace(part, samples=to_samples(part.X, dtype=dtype))
        aside = held_out(
            part.X if part.samples is None else part.samples, share_of(options), groups=part.groups, dtype=dtype
        )
        part, test = _rows(part, np.flatnonzero(~aside)), _rows(part, np.flatnonzero(aside))
    check_labels(path, len(part), part.notes)
    classes = None if options.classes is None else class_array(options.classes)
    different = list(dict.fromkeys(labels_of(part).tolist()))
    notes += label_notes(different, len(part), classes is not None)
    test, more = judged_test(test, different, classes, options.test or path)
    notes += more
    return Dataset(
        path.name,
        labelled(part, dtype),
        labelled(test, dtype),
        classes,
        schema,
        records_premise(spanning, schema)
        + schema_premises(schema, options, of_file=inside is not None, grouped=part.groups is not None),
        notes,
    )


def labelled(part: Part, dtype: str = "float64") -> LabelledSamples:
    """What was read, in canonical form."""
    samples = to_samples(part.X, dtype=dtype) if part.samples is None else part.samples
    return LabelledSamples(samples, part.labels, part.groups, part.names)


def judged_test(
    test: Part, trained: Sequence[str], classes: NDArray[Any] | None, source: Path
) -> tuple[Part, tuple[str, ...]]:
    """Test samples whose labels can be right, and what is to be noted of the others; ``trained`` are training labels.

    With inferred classes one training sample more could bring such samples back, so they stay, as wrong.
    """
    known = label_cells(trained if classes is None else classes.tolist())
    notes: tuple[str, ...] = ()
    rows = np.flatnonzero(places_of(label_cells(labels_of(test).tolist()), [c for c in known if c is not None]) >= 0)
    if len(rows) < len(test):
        notes = (f"{len(test) - len(rows)} test samples have a label {_fate(classes is not None)}",)
        test = test if classes is None else _rows(test, rows)
    if not len(test):
        raise PoisonproofError(f"No test samples are left of {source}; give --test or a larger --held-out.")
    return test, notes


def read_part(path: Path, schema: Schema, *, labelled: bool, options: ReadOptions) -> Part:
    """The samples of one more file, read by a schema that is already there."""
    kind = kind_of(path, schema)
    if kind != schema.kind:
        raise PoisonproofError(f"{path} holds {kind}, but the schema reads {schema.kind}; give data of the same kind.")
    if isinstance(schema, TableSchema):
        table = open_table(path, schema, options)
        part = read_table(table, schema, labelled=labelled)
        return replace(part, spanning=table.spanning) if isinstance(table, CsvTable) else part
    if isinstance(schema, ImageSchema):
        return read_folder(path, schema, labelled=labelled, resize=_resizes(options), most_bytes=options.most_bytes)
    if isinstance(schema, SparseSchema):
        return read_svmlight(path, schema, labelled=labelled, most_bytes=options.most_bytes)
    x, y = ("X", "y") if "X" in names_in(path) else ("x_test", "y_test")
    return read_npz(path, x, y if labelled else None, None, schema, options.most_bytes)[0]


def read_rows(path: Path, kind: str, options: ReadOptions, *, labelled: bool) -> tuple[Part, Schema]:
    """The samples of one file with their labels, if it has some, and the schema that read them."""
    schema = schema_for(path, kind, options, labelled=labelled)
    part = _read_all(path, schema, options)[0] if labelled else read_part(path, schema, labelled=False, options=options)
    return part, schema


def schema_for(path: Path, kind: str, options: ReadOptions, *, labelled: bool = True) -> Schema:
    """The schema that the user declares, or the one guessed from the data, which says so."""
    _refuse_what_does_not_apply(path, kind, options)
    if options.schema is not None:
        schema = to_schema(options.schema)
        if schema.kind != kind:
            name = options.schema if isinstance(options.schema, str | Path) else "This"
            raise PoisonproofError(f"{name} is a schema for {schema.kind}, but {path} holds {kind}.")
        return _with_keys(path, schema, options, labelled)
    if kind == "table":
        if options.label is None:
            raise PoisonproofError(f"Which column of {path} holds the labels? Name it with --label.")
        delimiter = _delimiter(path, ",", options)
        table = open_table(path, TableSchema((), delimiter=delimiter), options)
        return guess_schema(table, options.label, options.group_column, delimiter, lines=options.lines)
    if kind == "images":
        return guess_image_schema(path, options.image_size, options.colour)
    if kind == "sparse":
        if options.n_features is not None:
            return SparseSchema(options.n_features)
        return guess_sparse_schema(path, options.most_bytes)
    return read_npz(path, layout_of(path)[0], None, None, None, options.most_bytes)[1]


def _with_keys(path: Path, schema: Schema, options: ReadOptions, labelled: bool) -> Schema:
    """A given schema, unless the command line says something else about the same."""
    if isinstance(schema, TableSchema):
        stated = {"label": (options.label, schema.label), "group": (options.group_column, schema.group)}
        for role, (column, in_schema) in stated.items():
            if column is not None and column != in_schema:
                raise PoisonproofError(
                    f"The schema does not give column '{column}' the role '{role}'; edit one of the two."
                )
        if schema.label is None and labelled:
            raise PoisonproofError('No column has the role "label" in the schema; one must.')
        delimiter = _delimiter(path, schema.delimiter, options)
        return replace(schema, delimiter=delimiter, lines=options.lines or schema.lines)
    return schema


def _refuse_what_does_not_apply(path: Path, kind: str, options: ReadOptions) -> None:
    limits = {
        "--label": (options.label, ("table",)),
        "--group-column": (options.group_column, ("table", "arrays")),
        "--delimiter": (options.delimiter, ("table",)),
        "--lines": (options.lines or None, ("table",)),
        "--image-size": (options.image_size, ("images",)),
        "--colour": (options.colour, ("images",)),
        "--n-features": (options.n_features, ("sparse",)),
    }
    for option, (value, kinds) in limits.items():
        if value is not None and kind not in kinds:
            raise PoisonproofError(f"{option} says nothing about {path}, which holds {kind}; leave it out.")


def _read_all(path: Path, schema: Schema, options: ReadOptions) -> tuple[Part, Part | None]:
    """The samples of the main file, and its own test samples where it holds some that are wanted."""
    if not isinstance(schema, ArraySchema):
        return read_part(path, schema, labelled=True, options=options), None
    x, y, x_test, y_test = layout_of(path)
    groups = options.group_column
    if groups is not None and groups not in names_in(path):
        raise PoisonproofError(f"{path} has no array '{groups}'; {nearest(groups, names_in(path))}")
    part, _ = read_npz(path, x, y, groups, schema, options.most_bytes)
    if x_test is None or options.test is not None or options.held_out is not None:
        return part, None
    return part, read_npz(path, x_test, y_test, None, schema, options.most_bytes)[0]


def open_table(path: Path, schema: TableSchema, options: ReadOptions, most_bytes: int | None = None) -> Table:
    """The rows of a table, by the kind of its file, or of all files of a folder; ``most_bytes`` of each, if given."""
    if path.is_dir():
        return SeveralTables(path, [open_table(file, schema, options, most_bytes) for file in table_files(path)])
    most_bytes = most_bytes or options.most_bytes
    if path.name.lower().endswith(".parquet"):
        return ParquetTable(path, most_bytes)
    delimiter = _delimiter(path, schema.delimiter, options)
    return CsvTable(path, delimiter, most_bytes, lines=options.lines or schema.lines)


def _delimiter(path: Path, otherwise: str, options: ReadOptions) -> str:
    """What separates the cells: what the user says, a tab where the file's name says so, or what is known."""
    if options.delimiter is not None:
        return check_delimiter(options.delimiter)
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else otherwise


def _resizes(options: ReadOptions) -> bool:
    return options.image_size is not None or (options.schema is not None and not to_schema(options.schema).guessed)


def share_of(options: ReadOptions) -> float:
    """The share of samples to hold out."""
    return HELD_OUT if options.held_out is None else options.held_out


def _rows(part: Part, rows: NDArray[np.int64]) -> Part:
    X, samples = take_rows(part.X, rows), None
    if part.samples is not None and not part.samples.oddities:  # which are told of each part by itself
        samples = part.samples.subset(rows)
        if isinstance(samples, NumberSamples) and samples.values.dtype == getattr(X, "dtype", None):
            X = samples.values  # the same numbers, once in memory
    return Part(
        X,
        None if part.labels is None else part.labels[rows],
        None if part.groups is None else part.groups[rows],
        np.asarray(part.names, object)[rows].tolist(),
        samples=samples,
    )


def labels_of(part: Part) -> NDArray[np.object_]:
    """The labels of samples that must have some."""
    if part.labels is None:
        raise PoisonproofError("These samples have no labels.")
    return part.labels


def check_labels(path: Path, n_samples: int, notes: Sequence[str] = ()) -> None:
    """Refuse data of which nothing is left; anything else that a few rows could bring about stops nothing."""
    if not n_samples:
        noted = f" ({'; '.join(notes)})" if notes else ""
        raise PoisonproofError(f"{path} has no training samples{noted}; give it some.")


def label_notes(labels: Sequence[Any], n_samples: int, declared: bool) -> tuple[str, ...]:
    """What a reader should know of these different labels of so many training samples."""
    if len(labels) < 2:
        return (f"all {n_samples} training samples have one label, so nothing here tells classes apart",)
    if not declared and len(labels) > max(FEW_LABELS, n_samples / 2):
        return (f"the {n_samples} training samples have {len(labels)} different labels; is this the right column?",)
    return ()


def _fate(declared: bool) -> str:
    """What becomes of test samples whose label is none of the classes."""
    if declared:
        return "that is not one of the classes and were left out"
    return "that the training samples do not have and count as wrong"


def schema_premises(
    schema: Schema, options: ReadOptions, *, of_file: bool = False, grouped: bool = False
) -> tuple[Premise, ...]:
    """What reading takes as given: the schema, where the test samples come from, and what the schema says besides."""
    where = held_out_premise(options, of_file=of_file, grouped=grouped)
    return (Premise("schema", str(schema), declared=not schema.guessed), where, *more_premises(schema))


def records_premise(spanning: Sequence[int] | None, schema: Schema) -> tuple[Premise, ...]:
    """That rows are records, of which so many span lines, the first on this line; nothing where every line is a row."""
    if spanning is None:
        return ()
    count, first = spanning
    how_many = f"{count} of them span lines, the first on line {first}" if count else "none of them spans lines"
    return (Premise("rows", f"{BY_RECORDS}; {how_many}", declared=declared_if(not schema.guessed)),)


def held_out_premise(options: ReadOptions, *, of_file: bool = False, grouped: bool = False) -> Premise:
    """Where the test samples come from."""
    if options.test is not None:
        return Premise("test-samples", f"from {options.test.name}", declared=True)
    if of_file:
        return Premise("test-samples", "those of the file", declared=True)
    by = "contributor" if grouped else "content"
    value = f"{share_of(options):g} of all, held out by a hash of their {by}"
    return Premise("test-samples", value, declared=declared_if(options.held_out is not None))


def more_premises(schema: Schema) -> tuple[Premise, ...]:
    """What the model would otherwise list as chosen from the data, though the schema says it."""
    declared = not schema.guessed
    width = Premise("number-of-features", _width(schema), declared=declared)
    if not isinstance(schema, TableSchema) or set(schema.named(*FEATURES)) == set(schema.named("number")):
        return (width,)
    categories = Premise("categorical-columns", ", ".join(schema.named("category")) or "none", declared=declared)
    return (width,) if schema.only_texts else (width, categories)


def _width(schema: Schema) -> int:
    if isinstance(schema, TableSchema):
        return len(schema.named(*FEATURES))
    if isinstance(schema, SparseSchema):
        return schema.n_features
    if isinstance(schema, ImageSchema):
        return schema.width * schema.height * (3 if schema.colour else 1)
    return int(np.prod(schema.shape))
