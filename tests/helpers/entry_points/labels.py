"""Labels of every type through every entry point: which class each one is must not depend on the entry point.

`LABELS` says by hand what each label is; `LABEL_CASES` are functions from labels, and the classes that are declared,
to the code of each label, -1 where it is left out. `faults_of_labels` compares them, each label alone between others.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.naive_bayes import GaussianNB

from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    NeighborVoteClassifier,
    ReadOptions,
    Split,
    Spread,
    Votes,
    open_files,
)
from poisonproof.data.out_of_core import Source, open_large
from poisonproof.estimators.prepared import prepare
from poisonproof.samples.labels import label_cells, places_of, read_labels
from poisonproof.verification.content import places_among

BIG, HUGE, LONG = 2**53 + 1, 10**400, "x" * 1000
CLASSES: list[Any] = ["0", 3, "03", " 3", "3.", "True", "False", BIG, 2**53, HUGE, 0.5, "0.5", LONG, "a\ufffd", "n"]
OUT = None
LABELS: list[tuple[Any, Any]] = [
    *((label, 3) for label in (3, 3.0, np.int64(3), np.float32(3), np.uint8(3), Decimal("3.00"), Fraction(6, 2))),
    *((label, 3) for label in ("3", "3.0", "3.000", np.str_("3"))),
    *((label, "0") for label in (0, -0.0, "0", "-0", "0.0", "-0.00")),
    ("03", "03"), (" 3", " 3"), ("3.", "3."), ("0.5", "0.5"), (0.5, 0.5), (Fraction(1, 2), 0.5),
    *((label, OUT) for label in ("3 ", "+3", "3e0", "3,0", "\u0663", "--3", "3.0.0", "3\n", "1_000", "-", ".0", "00")),
    *((label, "True") for label in (True, np.bool_(True), "True")), (False, "False"), ("False", "False"),
    *((label, OUT) for label in ("true", 1, 1.0, "1")),
    (BIG, BIG), (str(BIG), BIG), (f"{BIG}.0", BIG), (np.int64(BIG), BIG), (2**53, 2**53), (float(2**53), 2**53),
    (HUGE, HUGE), (str(HUGE), HUGE), (HUGE + 1, OUT), (10**1000, OUT), ("9" * 1001, OUT), (10**5000, OUT),
    (LONG, LONG), (LONG + "x", OUT), (LONG * 4, OUT), ("a\ud800", "a\ufffd"), ("a\udfff", "a\ufffd"),
    *((label, OUT) for label in (None, float("nan"), float("inf"), np.nan, pd.NA, pd.NaT, b"3", [], {}, (3, 3), "")),
    (datetime.timedelta(microseconds=3), 3), (np.timedelta64(3, "us"), 3),
]  # fmt: skip
HONEST: list[Any] = [3, "n"] * 10


class LabelCase(NamedTuple):
    name: str
    load: Callable[[list[Any], list[Any], Path], list[int]]
    takes: Callable[[Any], bool]


def _anything(label: Any) -> bool:
    return True


def _text(label: Any) -> bool:
    """What a cell of a table can be: a text of Unicode without blanks around it, and no word for missing."""
    return type(label) is str and label == label.strip() != "" and not re.search("[\ud800-\udfff]", label)


def _rows(labels: list[Any]) -> np.ndarray:
    return np.arange(2.0 * len(labels)).reshape(-1, 2)


def _column(make: Callable[[list[Any]], Any]) -> Any:
    def load(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
        return read_labels(make(labels), classes).codes.tolist()

    return load


def _objects(labels: list[Any]) -> np.ndarray:
    array = np.empty(len(labels), object)
    array[:] = labels
    return array


def _prepared(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
    model = FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=classes)
    return prepare(model, _rows(labels), _objects(labels)).data.codes.tolist()


def _voting(make: Callable[..., Any]) -> Any:
    def load(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
        model = make(classes=classes).fit(_rows(labels), _objects(labels))
        return [int(model.voters_.codes[place]) if place >= 0 else -1 for place in model.places_]

    return load


def _csv(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
    data = open_files(_written(labels, folder), ReadOptions(label="y", test=folder / "rows.csv", classes=classes))
    return _as_asked(data.train.X[:, 0], label_cells(data.train.labels), classes, len(labels))


def _parquet(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
    pd.read_csv(_written(labels, folder), dtype={"y": str}, keep_default_na=False).to_parquet(folder / "rows.parquet")
    path = folder / "rows.parquet"
    data = open_files(path, ReadOptions(label="y", test=path, classes=classes))
    return _as_asked(data.train.X[:, 0], label_cells(data.train.labels), classes, len(labels))


def _out_of_core(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
    path = _written(labels, folder)
    source = Source.of(path, ReadOptions(label="y", test=path, classes=classes))
    data = open_large(source, Split(), 10, folder / "parts", max_memory=4 * 10**9)
    codes = [-1] * len(labels)
    for number in range(10):
        portion = data.stored.partition(number)
        samples = portion.samples
        for row, code in zip(samples.values, portion.codes, strict=True):
            codes[int(row[0])] = int(code)
    return codes


def _written(labels: list[Any], folder: Path) -> Path:
    import csv

    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("a", "y"), *((row, label) for row, label in enumerate(labels))])
    return path


def _as_asked(rows: Any, cells: list[Any], classes: list[Any], n: int) -> list[int]:
    codes = [-1] * n
    for row, code in zip(rows, places_of(cells, sorted_cells(classes)).tolist(), strict=True):
        codes[int(row)] = code
    return codes


def sorted_cells(classes: list[Any]) -> list[Any]:
    return label_cells(read_labels([], classes).classes.tolist())


def _certificate(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
    votes = Votes(np.zeros((1, 4), int), Spread.random(4, 1), read_labels([], classes).classes, classes_inferred=True)
    return votes.indices_of(_objects(labels)).tolist()


def _verifier(labels: list[Any], classes: list[Any], folder: Path) -> list[int]:
    return places_among(read_labels([], classes).classes.tolist(), labels).tolist()


LABEL_CASES = [
    LabelCase("list", _column(list), _anything),
    LabelCase("array of objects", _column(_objects), _anything),
    LabelCase("pandas, objects", _column(lambda labels: pd.Series(_objects(labels), dtype=object)), _anything),
    LabelCase("pandas, texts", _column(lambda labels: pd.Series(list(map(str, labels)), dtype="string")), _text),
    LabelCase("pandas of Arrow", _column(lambda y: pd.Series(list(map(str, y)), dtype="string[pyarrow]")), _text),
    LabelCase("pyarrow", _column(lambda labels: pa.array(list(map(str, labels)))), _text),
    LabelCase("array of texts", _column(lambda labels: np.array(list(map(str, labels)))), _text),
    LabelCase("ensemble", _prepared, lambda label: not isinstance(label, int) or abs(label) < 10**4000),
    LabelCase("ballots", _voting(lambda **more: BallotClassifier(near=1.0, **more)), _anything),
    LabelCase("neighbours", _voting(lambda **more: NeighborVoteClassifier(n_neighbors=1, **more)), _anything),
    LabelCase(".csv", _csv, _text),
    LabelCase(".parquet", _parquet, _text),
    LabelCase(".csv out of core", _out_of_core, _text),
    LabelCase("labels of a certificate", _certificate, _anything),
    LabelCase("the verifier", _verifier, _anything),
]


def n_labels() -> int:
    return sum(case.takes(label) for case in LABEL_CASES for label, _ in LABELS)


def faults_of_labels(case: LabelCase, folder: Path) -> list[str]:
    """The labels that are not what the table says, all of them in one batch among honest ones."""
    taken = [(label, is_) for label, is_ in LABELS if case.takes(label)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = case.load([*HONEST, *(label for label, _ in taken)], CLASSES, folder)
        order = [repr(label) for label in read_labels([], CLASSES).classes.tolist()]
    right = [order.index(repr(label)) for label in HONEST] + [
        -1 if is_ is OUT else order.index(repr(is_)) for _, is_ in taken
    ]
    labels = [*HONEST, *(label for label, _ in taken)]
    return [
        f"{case.name}: {type(label).__name__} {str(label)[:40]!r} has the code {code}, not {wanted}"
        for label, code, wanted in zip(labels, codes, right, strict=True)
        if code != wanted
    ]
