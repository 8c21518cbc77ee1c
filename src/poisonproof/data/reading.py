"""From a file, a folder or a frame to a data set: one way, whatever the format.

A reader gives samples in batches. In memory all of them are put together; whoever answers questions takes one batch at
a time; out of core each is spilled. How a row is read is a function of that row and the schema, so it makes no
difference where a batch ends.
"""

from __future__ import annotations

import os
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from poisonproof import registry
from poisonproof.data.dataset import SPANS_LINES, Dataset, LabelledSamples, ReadReport, Unread, held_out
from poisonproof.data.files import Body, Opens, is_gzip
from poisonproof.data.guessing import guess_schema
from poisonproof.data.options import ReadOptions, ending_of
from poisonproof.data.tables import Batch, Folder, TableReader, table_batches
from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise, declared_if
from poisonproof.samples.convert import to_samples
from poisonproof.samples.frames import as_frame, is_frame
from poisonproof.samples.labels import class_array, label_cells, places_of
from poisonproof.samples.schema import (
    FEATURES,
    ArraySchema,
    Schema,
    SparseSchema,
    TableSchema,
    check_delimiter,
    to_schema,
)

HELD_OUT = 0.2
FEW_LABELS = 50
FEWEST_ROWS = 512  # what base classifiers are asked at a time
MOST_CELLS = {"table": 1 << 20, "images": 1 << 26, "arrays": 1 << 23, "sparse": 1 << 12}  # in a batch
NO_BOUND = 1 << 62  # a plain file may have any size where it is never in memory; a packed one may be a bomb
BY_RECORDS = (
    "CSV records, written by RFC 4180: "
    "cells that hold quotes, delimiters or line breaks are quoted, inner quotes doubled"
)
T = TypeVar("T")


class Reader(Protocol):
    """A file or folder of samples."""

    kind: str

    def guess_schema(self, report: ReadReport) -> Schema:
        """The schema, chosen from the data, which says so."""

    def batches(self, schema: Any, *, labelled: bool, report: ReadReport, rows: int | None = None) -> Iterator[Batch]:
        """The samples in the order of the file, so many at a time or as many as the file gives at once."""


class TableSource:
    """A table in one file, or in all files of a folder."""

    kind = "table"

    def __init__(self, path: Opens, options: ReadOptions) -> None:
        self.path, self.options = path, options
        self._tables: dict[tuple[str, bool], TableReader] = {}

    def table(self, schema: TableSchema | None = None) -> TableReader:
        """The rows as the file has them."""
        delimiter = delimiter_of(self.path, "," if schema is None else schema.delimiter, self.options)
        lines = self.options.lines or (schema is not None and schema.lines)
        if (delimiter, lines) not in self._tables:
            files = table_files(self.path) if isinstance(self.path, Path) else [self.path]
            how = replace(self.options, delimiter=delimiter, lines=lines)
            tables: list[TableReader] = [class_for(file.name).open(file, how) for file in files]
            whole: TableReader = tables[0] if tables[0].path == self.path else Folder(Path(str(self.path)), tables)
            self._tables[delimiter, lines] = whole
        return self._tables[delimiter, lines]

    def guess_schema(self, report: ReadReport) -> TableSchema:
        """Roles by what most rows or contributors hold."""
        if self.options.label is None:
            raise PoisonproofError(
                f"Which column of {self.path} holds the labels? Name it with --label.", code="schema.no-label"
            )
        delimiter, lines = delimiter_of(self.path, ",", self.options), self.options.lines
        keys = self.options.label, self.options.group_column
        return guess_schema(self.table(), *keys, delimiter, lines=lines, report=report)

    def batches(
        self, schema: TableSchema, *, labelled: bool, report: ReadReport, rows: int | None = None
    ) -> Iterator[Batch]:
        """The samples; see `table_batches`."""
        return table_batches(self.table(schema), schema, labelled=labelled, report=report, rows=rows)


def _table_of(reader: Reader, schema: Schema) -> TableReader | None:
    """The rows as the file has them, if it is a table."""
    return reader.table(schema) if isinstance(reader, TableSource) and isinstance(schema, TableSchema) else None


def class_for(name: str) -> Any:
    """The class that reads files of this name; None if there is none."""
    ending = ending_of(name)
    return None if ending is None else registry.find("readers", ending)


def kind_of(path: Path, how: ReadOptions | Schema | None = None) -> str:
    """What a file or folder holds, by its name.

    Of a folder, what the schema or the column of labels says: one file of another kind in it does not decide.
    """
    if not path.exists():
        raise PoisonproofError(f"There is no file or folder {path}.", code="file.missing")
    if path.is_dir():
        label = isinstance(how, ReadOptions) and how.label is not None
        schema = how.schema if isinstance(how, ReadOptions) else how
        known = "table" if label else None if schema is None else to_schema(schema).kind
        images = any(item.is_dir() for item in path.iterdir()) if known is None else known == "images"
        return "table" if not images and table_files(path) else "images"
    if (found := class_for(path.name)) is not None:
        return str(found.kind)
    endings = ", ".join(registry.names("readers"))
    raise PoisonproofError(f"{path} is of no known kind; there are {endings} and folders of images.", code="file.kind")


def table_files(path: Path) -> list[Path]:
    """The files of a table: the file itself, or the Parquet files of a folder, by name."""
    if not path.is_dir():
        return [path]
    return sorted(item for item in path.glob("*.parquet") if item.is_file() and not item.name.startswith("."))


def open_reader(path: Opens, options: ReadOptions, kind: str) -> Reader:
    """The reader of a file or a folder."""
    if kind == "table":
        return TableSource(path, options)
    if kind == "images":
        from poisonproof.data.images import ImageReader

        return ImageReader(Path(str(path)), options)
    reader: Reader = class_for(path.name)(path, options)
    return reader


def open_with_schema(
    path: Path, options: ReadOptions, report: ReadReport, *, labelled: bool = True
) -> tuple[Reader, Schema]:
    """The reader of a file, and the schema that the user declares or that is guessed from the data."""
    kind = kind_of(path, options)
    _refuse_what_does_not_apply(path, kind, options)
    reader = open_reader(path, options, kind)
    if options.schema is None:
        return reader, reader.guess_schema(report)
    schema = to_schema(options.schema)
    if schema.kind != kind:
        name = options.schema if isinstance(options.schema, str | Path) else "This"
        raise PoisonproofError(f"{name} is a schema for {schema.kind}, but {path} holds {kind}.", code="schema.kind")
    return reader, _with_keys(path, schema, options, labelled)


def _with_keys(path: Path, schema: Schema, options: ReadOptions, labelled: bool) -> Schema:
    """A given schema, unless the options say something else about the same."""
    if not isinstance(schema, TableSchema):
        return schema
    stated = {"label": (options.label, schema.label), "group": (options.group_column, schema.group)}
    for role, (column, in_schema) in stated.items():
        if column is not None and column != in_schema:
            raise PoisonproofError(
                f"The schema does not give column '{column}' the role '{role}'; edit one of the two.",
                code="schema.role",
            )
    if schema.label is None and labelled:
        raise PoisonproofError('No column has the role "label" in the schema; one must.', code="schema.no-label")
    delimiter = delimiter_of(path, schema.delimiter, options)
    return replace(schema, delimiter=delimiter, lines=options.lines or schema.lines)


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
            raise PoisonproofError(
                f"{option} says nothing about {path}, which holds {kind}; leave it out.", code="options.not-for-kind"
            )


def delimiter_of(path: Opens, otherwise: str, options: ReadOptions) -> str:
    """What separates the cells: what the user says, a tab where the file's name says so, or what is known."""
    if options.delimiter is not None:
        return check_delimiter(options.delimiter)
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else otherwise


# Data sets


def read(
    source: Any,
    *,
    label: str | None = None,
    group: str | None = None,
    test: str | Path | None = None,
    held_out: float | None = None,
    classes: Sequence[Any] | None = None,
    schema: str | Path | Mapping[str, str] | Schema | None = None,
    delimiter: str | None = None,
    lines: bool = False,
) -> Dataset:
    """Your data, as `plan`, `run`, `compare`, `audit` and the estimators take them.

    Readers that choose the type of a column by all its cells let one row change how the others are read. This one does
    not: a cell that is not the number it should be is missing in its own row, and labels and ids are texts.

    Parameters
    ----------
    source : path or DataFrame
        A file (CSV, Parquet, npz, svmlight), a folder of images, or a frame of pandas, Polars or PyArrow, whose types
        stand: a premise.
    label, group : str, optional
        The columns that hold labels and contributors' ids, where the schema does not say.
    test : path, optional
        A file with the test samples.
    held_out : float, optional
        Otherwise the share of samples to hold out for testing, each by a hash of its own content; 0 holds out none.
    classes : sequence, optional
        The labels that may occur; otherwise they are read off the training data, a premise.
    schema : path, mapping of columns to roles, or Schema, optional
        Otherwise it is guessed from what most rows hold, a premise.
    delimiter : str, optional
        What separates the cells of CSV; a tab in `.tsv`, otherwise a comma.
    lines : bool
        Whether every line of CSV is a row, whatever quotes it holds. Otherwise a row is a record of RFC 4180, which may
        span lines: a premise, see `poisonproof.data.csv.CsvTable`.
    """
    options = ReadOptions(
        label, group, None if test is None else Path(test), held_out, schema, classes, delimiter, lines
    )
    if isinstance(source, str | Path):
        return open_files(source, options)
    frame = as_frame(source)
    if not is_frame(frame):
        raise PoisonproofError(
            f"'read' takes a path or a DataFrame. Got {type(source).__name__}; give arrays to "
            "Dataset.of(name, X, y, X_test, y_test).",
            code="read.source",
        )
    return _read_frame(frame, options)


def _read_frame(frame: Any, options: ReadOptions) -> Dataset:
    """The data set of a frame, by its types or by a schema."""
    schema = None if options.schema is None else to_schema(options.schema)
    if isinstance(schema, TableSchema):
        options = replace(
            options, label=options.label or schema.label, group_column=options.group_column or schema.group
        )
    keys = [name for name in (options.label, options.group_column) if name is not None]
    if options.label is None or any(name not in frame.columns for name in keys):
        raise PoisonproofError(
            f"Name the column of labels, label=…, among {', '.join(map(str, frame.columns))}. Got {options.label!r}.",
            code="schema.unknown-column",
        )
    X = frame.drop(columns=keys)
    if isinstance(schema, TableSchema):
        from poisonproof.samples.convert import read_by_schema

        samples = read_by_schema(X[schema.named(*FEATURES)], schema)
    else:
        samples = to_samples(X)
    groups = None if options.group_column is None else frame[options.group_column]
    none = samples.subset(np.zeros(0, np.int64))
    whole = Dataset.of("frame", samples, frame[options.label], none, [], groups=groups)
    if options.test is not None:
        raise PoisonproofError("Test samples of a frame are held out; leave 'test'.", code="read.test")
    train, test = _set_aside(whole.train, options)
    premises = (*held_out_premise(options, grouped=groups is not None), *whole.premises)
    return _dataset("frame", train, test, options, schema, premises, ReadReport())


def open_files(path: str | Path, options: ReadOptions) -> Dataset:
    """The training and test samples of a user's files.

    How one row is read, and whether it is held out, is a function of that row and of the schema; everything decided
    about all rows at once is declared by the user or listed among the premises.
    """
    if options.test is not None and options.held_out is not None:
        raise PoisonproofError("Give --test or --held-out, not both.", code="options.test-twice")
    path, report = Path(path), ReadReport()
    reader, schema = open_with_schema(path, options, report)
    train = read_all(reader, schema, report)
    premises = records_premise(report, reader, schema)
    of_file = getattr(reader, "test", None)
    inside = None
    if options.test is not None:
        test = read_other(options.test, schema, options, report)
    elif of_file is not None and options.held_out is None and (inside := of_file(schema, report)) is not None:
        test = inside
    else:
        check_not_empty(path, train, report)
        train, test = _set_aside(train, options)
    check_not_empty(path, train, report)
    more = schema_premises(schema, options, of_file=inside is not None, grouped=train.groups is not None)
    return _dataset(path.name, train, test, options, schema, premises + more, report)


def _dataset(
    name: str,
    train: LabelledSamples,
    test: LabelledSamples,
    options: ReadOptions,
    schema: Schema | None,
    premises: tuple[Premise, ...],
    report: ReadReport,
) -> Dataset:
    classes = None if options.classes is None else class_array(options.classes)
    different = list(dict.fromkeys(label_cells(train.labels.tolist())))
    note_labels(report, name, different, len(train), declared=classes is not None)
    if options.held_out != 0:
        test = drop_undeclared_test_labels(test, different, classes, options.test or name, report)
    return Dataset(name, train, test, classes, schema, premises, report)


def read_all(reader: Reader, schema: Schema, report: ReadReport, *, labelled: bool = True) -> LabelledSamples:
    """All samples of a file."""
    return LabelledSamples.joined([batch.samples for batch in reader.batches(schema, labelled=labelled, report=report)])


def read_other(
    path: Path, schema: Schema, options: ReadOptions, report: ReadReport, *, labelled: bool = True
) -> LabelledSamples:
    """The samples of one more file, read by a schema that is already there."""
    reader = _open_other(path, schema, options)
    if labelled and (other := getattr(reader, "other", None)) is not None:
        samples: LabelledSamples = other(schema, report)
        return samples
    return read_all(reader, schema, report, labelled=labelled)


def _open_other(path: Opens, schema: Schema, options: ReadOptions) -> Reader:
    kind = kind_of(path, schema) if isinstance(path, Path) else schema.kind
    if kind != schema.kind:
        raise PoisonproofError(
            f"{path} holds {kind}, but the schema reads {schema.kind}; give data of the same kind.", code="schema.kind"
        )
    return open_reader(path, options, kind)


def _set_aside(samples: LabelledSamples, options: ReadOptions) -> tuple[LabelledSamples, LabelledSamples]:
    """Those to train on and those to test on."""
    if options.held_out == 0:
        return samples, samples.take(np.zeros(0, np.int64))
    aside = held_out(samples.samples, share_of(options), groups=samples.groups)
    return samples.take(np.flatnonzero(~aside)), samples.take(np.flatnonzero(aside))


def share_of(options: ReadOptions) -> float:
    """The share of samples to hold out."""
    return HELD_OUT if options.held_out is None else options.held_out


def drop_undeclared_test_labels(
    test: LabelledSamples, trained: Sequence[Any], classes: Any, source: object, report: ReadReport
) -> LabelledSamples:
    """Test samples whose labels can be right; ``trained`` are training labels.

    With inferred classes one training sample more could bring such samples back, so they stay, as wrong.
    """
    known = label_cells(trained if classes is None else classes.tolist())
    cells = label_cells(test.labels.tolist())
    rows = np.flatnonzero(places_of(cells, [cell for cell in known if cell is not None]) >= 0)
    if len(rows) < len(test):
        code = "labels.test-unseen" if classes is None else "labels.test-not-a-class"
        report.add("test samples", code, None, len(test) - len(rows))
        test = test if classes is None else test.take(rows)
    if not len(test):
        raise PoisonproofError(
            f"No test samples are left of {source}; give --test or a larger --held-out.", code="data.no-test"
        )
    return test


def check_not_empty(path: Path, samples: Sequence[Any] | LabelledSamples, report: ReadReport) -> None:
    """Refuse data of which nothing is left; anything else that a few rows could bring about stops nothing."""
    if not len(samples):
        notes = report.sentences()
        noted = f" ({'; '.join(notes)})" if notes else ""
        raise PoisonproofError(f"{path} has no training samples{noted}; give it some.", code="data.empty")


def note_labels(report: ReadReport, name: str, labels: Sequence[Any], n_samples: int, *, declared: bool) -> None:
    """Report what a reader should know of these labels, each named at least once, of so many training samples."""
    n_labels = len({cell for cell in label_cells(labels) if cell is not None})
    if n_labels < 2:
        report.add(name, "labels.one", None, n_samples)
    elif not declared and n_labels > max(FEW_LABELS, n_samples / 2):
        report.add(name, "labels.many", None, n_samples, n_labels)


# Premises


def schema_premises(
    schema: Schema, options: ReadOptions, *, of_file: bool = False, grouped: bool = False
) -> tuple[Premise, ...]:
    """What reading takes as given: the schema, where the test samples come from, and what the schema says besides."""
    declared = not schema.guessed
    premises = [Premise("schema", str(schema), declared=declared)]
    premises += held_out_premise(options, of_file=of_file, grouped=grouped)
    premises += [Premise("number-of-features", schema.n_features, declared=declared)]
    if isinstance(schema, TableSchema) and not (schema.only_numbers or schema.only_texts):
        categories = ", ".join(schema.named("category")) or "none"
        premises += [Premise("categorical-columns", categories, declared=declared)]
    return tuple(premises)


def records_premise(report: ReadReport, reader: Reader, schema: Schema) -> tuple[Premise, ...]:
    """That rows are records, of which so many span lines, the first on this line; nothing where every line is a row."""
    if getattr(_table_of(reader, schema), "lines", True):
        return ()
    count, first = report.count(SPANS_LINES)
    how_many = f"{count} of them span lines, the first on line {first}" if count else "none of them spans lines"
    return (Premise("rows", f"{BY_RECORDS}; {how_many}", declared=declared_if(not schema.guessed)),)


def held_out_premise(options: ReadOptions, *, of_file: bool = False, grouped: bool = False) -> tuple[Premise, ...]:
    """Where the test samples come from."""
    if options.held_out == 0:
        return ()
    if options.test is not None:
        return (Premise("test-samples", f"from {options.test.name}", declared=True),)
    if of_file:
        return (Premise("test-samples", "those of the file", declared=True),)
    by = "contributor" if grouped else "content"
    value = f"{share_of(options):g} of all, held out by a hash of their {by}"
    return (Premise("test-samples", value, declared=declared_if(options.held_out is not None)),)


# New samples, to be answered


@dataclass(frozen=True)
class RowBlock:
    """Some samples of a file, the cells of each as the file has them, if it has cells, and those among them that cannot
    be read."""

    part: LabelledSamples
    cells: list[list[str]]
    unread: Sequence[Unread] = ()


class RowStream:
    """The samples of one file, folder or body without labels, block by block: what is in memory does not grow with it.

    Attributes
    ----------
    columns : tuple of str
        What the cells of a block stand under; empty where a file has no columns.
    report : ReadReport
        What a reader should know; complete after the last block.
    """

    def __init__(self, path: Opens, schema: Schema, options: ReadOptions, rows: int) -> None:
        self.schema, self.report = schema, ReadReport(listed=True)
        packed = isinstance(path, Body) or is_gzip(path)
        options = replace(options, most_bytes=options.most_bytes or (None if packed else NO_BOUND))
        self.reader = _open_other(path, schema, options)
        table = _table_of(self.reader, schema)
        self.columns = () if table is None else tuple(table.header)
        width = 1 if isinstance(schema, SparseSchema) else len(self.columns) or schema.n_features
        self.rows = rows_at_once(rows, schema, width)

    def __iter__(self) -> Iterator[RowBlock]:
        for part, raw in self.reader.batches(self.schema, labelled=False, report=self.report, rows=self.rows):
            unread = self._unread(part.names)
            nothing = part.take(np.zeros(0, np.int64))
            if len(part) or unread:
                yield RowBlock(part, [] if raw is None else raw.cells(), unread)
        if self.report.unread:
            yield RowBlock(nothing, [], self._unread(()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, in words."""
        return self.report.sentences()

    def _unread(self, names: Sequence[int | str]) -> list[Unread]:
        """The rows that were left out before the last of these, or all of them if these are none."""
        each, last = self.report.unread, names[-1] if len(names) else None
        now = [one for one in each if last is None or one[0] < last]  # type: ignore[operator]
        each[: len(now)] = []
        return [Unread(bisect(names, name), name, reason) for name, reason in now]


def rows_at_once(wanted: int, schema: Schema, width: int) -> int:
    """So many rows, or fewer where they are wide."""
    return min(wanted, max(FEWEST_ROWS, MOST_CELLS[schema.kind] // max(1, width)))


def in_place(entries: Iterable[T], unread: Sequence[Unread], of_unread: Callable[[Unread], T]) -> Iterator[T]:
    """What there is to say of each sample, in the order of the file, those that cannot be read in their places."""
    waiting = deque(unread)
    for before, entry in enumerate(entries):
        while waiting and waiting[0].before <= before:
            yield of_unread(waiting.popleft())
        yield entry
    yield from map(of_unread, waiting)


# Data sets by name: the digits of scikit-learn, and whatever somebody adds to the registry (``datasets``)


SCHEMAS: dict[str, Schema] = {"digits": ArraySchema((64,), "float64")}
"""How further samples of these data sets are read, from files of a user's own."""


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """A data set by its name in the registry; ``digits`` is embedded.

    Parameters
    ----------
    name : str
    folder : path, optional
        Where the files of others lie; otherwise the environment variable POISONPROOF_DATA.
    """
    place = folder or os.environ.get("POISONPROOF_DATA")
    dataset: Dataset = registry.find("datasets", name)(None if place is None else Path(place))
    return dataset


def digits(folder: Path | None = None) -> Dataset:
    """1,797 handwritten digits of 8 × 8 pixels, a fifth of them held out by their content."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    whole = LabelledSamples(to_samples(X), y)
    test = held_out(whole.samples, HELD_OUT)
    return Dataset("digits", whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test)), np.arange(10))
