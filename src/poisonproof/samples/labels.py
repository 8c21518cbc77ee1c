"""Labels and contributor ids, each read by itself, and the classes that they name.

One rule for every entry point. Numbers of every type are compared by exact value. A text that wholly matches
``-?(0|[1-9][0-9]*)(\\.0+)?`` is that whole number, because one text in a column makes whoever types it write 1 as "1"
or "1.0"; every other text equals only itself. True and False are texts. A label longer than 1,000 characters, or of any
other type, counts as missing. Numbers come before texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.premises import Premise
from poisonproof.samples.cells import cell_key, exact_cell, order_of_cell, valid_text
from poisonproof.samples.frames import as_values, is_arrow_column, python_values
from poisonproof.samples.hashing import DIGEST, content_digests

Cell = float | int | str | None
T = TypeVar("T")
LONGEST_LABEL = 1_000
MOST_CLASSES = 65_535  # codes have two bytes, and one of them is an abstention
MOST_INFERRED = 1_000
_PLAIN = {str, int, float, bool, type(None)}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.0+)?")


class ReadLabels(NamedTuple):
    """Labels as codes: positions in ``classes``, or -1 where a label is none of them."""

    classes: NDArray[Any]
    codes: NDArray[np.int64]
    cells: list[Cell]


def read_labels(
    y: Any,
    declared: Iterable[Any] | None = None,
    units: Sequence[Hashable] | None = None,
    counts: Sequence[int] | None = None,
    known: Sequence[Any] | None = None,
) -> ReadLabels:
    """The classes in canonical order and the code of each label.

    Declared classes are taken as they are; other labels get -1, one by one, whatever they are. Without them the classes
    are those of ``y``, the 1,000 of most units if there are more, each named by the spelling that most units use. A
    unit is a label; or one of the contributors ``units``, None for a row without one. ``counts`` tells how often each
    label occurs; ``known`` are classes that were read off these labels before.
    """
    labels = one_by_one(y)
    cells = label_cells(labels)
    if declared is None and known is not None:
        named = dict(zip(label_cells(known), known, strict=True))
    elif declared is None:
        named = _inferred(labels, cells, units, counts)
    else:
        classes = list(declared)
        named = dict(zip(different_classes(classes, "The 'classes' parameter"), classes, strict=True))
        if len(named) < 2:
            raise PoisonproofError(
                "The 'classes' parameter must name at least two labels: with one there is nothing to defend. "
                f"Got {classes!r} instead.",
                code="classes.few",
            )
        if labels and named.keys().isdisjoint(cells):
            raise PoisonproofError(
                f"None of the {len(labels)} labels is one of the declared classes (a label is {labels[0]!r:.60}, "
                f"a class is {classes[0]!r:.60}); declare the labels that y holds.",
                code="labels.unknown",
            )
    order = sorted(named, key=order_of_cell)
    return ReadLabels(class_array([named[cell] for cell in order]), places_of(cells, order), cells)


def different_classes(classes: Sequence[Any], where: str) -> list[Cell]:
    """The cells of a class list; refused if two of them are one class, one is no label, or there are too many."""
    cells = label_cells(classes)
    if len(cells) > MOST_CLASSES:
        raise PoisonproofError(
            f"{where} may name {MOST_CLASSES} classes at the most. Got {len(cells)}.", code="classes.too-many"
        )
    seen: dict[Cell, Any] = {}
    for cell, label in zip(cells, classes, strict=True):
        if cell is None:
            raise PoisonproofError(
                f"{where} must name labels: numbers, or texts of at most {LONGEST_LABEL} characters, none of them "
                f"missing. Got {label!r:.60}.",
                code="classes.label",
            )
        if cell in seen:
            raise PoisonproofError(
                f"{where} must name different labels, and {seen[cell]!r:.60} and {label!r:.60} are one; leave one out.",
                code="classes.equal",
            )
        seen[cell] = label
    return cells


def places_of(cells: Iterable[Cell], classes: Iterable[Cell]) -> NDArray[np.int64]:
    """The place of each cell among those of the classes, or -1."""
    places = {cell: place for place, cell in enumerate(classes)}
    return np.array([places.get(cell, -1) for cell in cells], np.int64)


def named(labels: Sequence[Any], classes: NDArray[Any]) -> list[Any]:
    """The labels, those that are classes by the names of these."""
    names = classes.tolist()
    codes = places_of(label_cells(labels), label_cells(names)).tolist()
    return [label if code < 0 else names[code] for label, code in zip(labels, codes, strict=True)]


def label_cell(label: Any) -> Cell:
    """What a label is: a number, a text, or None if it is missing, too long or neither; see the rule above."""
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    try:
        cell = exact_cell(label, "'y'")
    except TypeError:
        return None
    if isinstance(cell, str):
        if len(cell) > LONGEST_LABEL:
            return None
        return exact_cell(int(cell.partition(".")[0]), "'y'") if _WHOLE.fullmatch(cell) else cell
    return None if isinstance(cell, int) and abs(cell) >= 10**LONGEST_LABEL else cell


def label_cells(labels: Iterable[Any]) -> list[Cell]:
    """Each label by `label_cell`."""
    return _each(label_cell, list(labels))


def id_cells(groups: Any) -> list[Cell] | None:
    """Each contributor id by `label_cell`; None where there are no contributors."""
    return None if groups is None else label_cells(one_by_one(groups))


def label_digests(labels: Iterable[Any]) -> NDArray[np.void]:
    """SHA-256 of each label's or contributor's whole content."""
    cells = label_cells(labels)
    different = list(set(cells))
    known = dict(zip(different, content_digests(map(cell_key, different)), strict=True))
    return np.array([known[cell] for cell in cells], DIGEST)


def class_array(labels: Iterable[Any]) -> NDArray[Any]:
    """Labels as they are: numbers of one type as an array of them, everything else as objects."""
    names = [_as_python(label) for label in labels]
    kinds = set(map(type, names))
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        array = np.array(names)
        if array.dtype.kind in "biuf" and set(map(type, array.tolist())) == kinds:
            return array
    objects = np.empty(len(names), object)
    objects[:] = names
    return objects


def typed_premises(labels: Any, ids: Any) -> tuple[Premise, ...]:
    """That another library decided on the type of a column of labels or ids, which one odd cell can change for all."""
    return tuple(
        Premise(code, "types were decided by whoever read this column", declared=False)
        for code, column in (("label-types", labels), ("contributor-ids", ids))
        if is_arrow_column(column) or (hasattr(column, "astype") and not isinstance(column, np.ndarray))
    )


def one_by_one(y: Any) -> list[Any]:
    """The labels as Python values, none of them touched by the dtype of the others."""
    y = as_values(y)
    if isinstance(y, list | tuple):
        return _without_columns(list(y))
    if not isinstance(y, np.ndarray) and hasattr(y, "astype"):
        y = python_values(y)  # pandas would make whole numbers floats where one of them is missing
    return _without_columns(_column(np.asarray(y)))


def _without_columns(labels: list[Any]) -> list[Any]:
    """Labels that stand in a list of one, each by itself, without it; refused where most stand in longer ones."""
    if not any(issubclass(kind, list | tuple | np.ndarray) for kind in set(map(type, labels))):
        return labels
    lengths = [len(label) for label in labels if _is_row(label)]
    if 2 * len(lengths) > len(labels):
        _column(np.empty((len(labels), Counter(lengths).most_common(1)[0][0])))
    alone = [_is_row(label) and len(label) == 1 and not _is_row(label[0]) for label in labels]
    return [label[0] if inside else label for label, inside in zip(labels, alone, strict=True)]


def _is_row(label: Any) -> bool:
    return isinstance(label, list | tuple) or (isinstance(label, np.ndarray) and label.ndim == 1)


def _column(array: NDArray[Any]) -> list[Any]:
    """The values of one column; of more dimensions, what scikit-learn takes for a column of labels."""
    if array.ndim != 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    return list(array) if array.dtype.kind in "mM" else list(array.tolist())  # a time tells its unit


def _inferred(
    labels: Sequence[Any], cells: Sequence[Cell], units: Sequence[Hashable] | None, counts: Sequence[int] | None
) -> dict[Cell, Any]:
    """The name of each class, by its cell, of the classes that most units have."""
    rows = [row for row, cell in enumerate(cells) if cell is not None and (units is None or units[row] is not None)]
    spelled = list(zip([cells[row] for row in rows], _each(_spelling, [labels[row] for row in rows]), strict=True))
    uses, totals = Counter[Any](), Counter[Cell]()
    if units is not None:
        uses.update(use for use, _ in {(use, units[row]) for use, row in zip(spelled, rows, strict=True)})
        totals.update(cell for cell, _ in {(cells[row], units[row]) for row in rows})
    else:
        if counts is None:
            uses.update(spelled)
        else:
            for use, row in zip(spelled, rows, strict=True):
                uses[use] += counts[row]
        for (cell, _), count in uses.items():
            totals[cell] += count
    if len(cells) and not totals:
        nobody = "" if units is None else ", or have no contributor"
        raise PoisonproofError(
            f"Input y contains NaN or infinity: all {len(cells)} labels are missing{nobody}.", code="labels.missing"
        )
    _check_name_classes(totals)
    kept = set(sorted(totals, key=lambda cell: (-totals[cell], order_of_cell(cell)))[:MOST_INFERRED])
    names: dict[Cell, tuple[int, Any]] = {}
    for (cell, spelling), count in uses.items():
        if cell in kept and (cell not in names or (-count, spelling) < names[cell]):
            names[cell] = (-count, spelling)
    return {cell: label for cell, (_, (_, _, label)) in names.items()}


def _check_name_classes(totals: Counter[Cell]) -> None:
    """Refuse the target of a regression: fractions alone, most of them of one unit each."""
    alone = sum(count == 1 for count in totals.values())
    if 2 * alone > totals.total() and all(isinstance(cell, float) and not cell.is_integer() for cell in totals):
        from sklearn.utils.multiclass import check_classification_targets

        check_classification_targets(np.array(list(totals)))


def _as_python(label: Any) -> Any:
    """A label as it is named and written: a number or a text, valid Unicode, and without a sign before 0.0."""
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        label = label.item()
    if label is not None and type(label) not in _PLAIN:
        cell = label_cell(label)
        label = int(cell) if isinstance(cell, float) and cell.is_integer() else cell
    if isinstance(label, str):
        return valid_text(label)
    return label + 0.0 if isinstance(label, float) else label


def _spelling(label: Any) -> tuple[str, str, Any]:
    """How a label is written: equal for those that are, whatever row comes first."""
    label = _as_python(label)
    return str(label), type(label).__name__, label


def _each(read: Callable[[Any], T], labels: Sequence[Any]) -> list[T]:
    """``read`` of each label; of equal ones of one type once, where all are of types that compare by value."""
    if not set(map(type, labels)) <= _PLAIN:
        return list(map(read, labels))
    keys = list(zip(map(type, labels), labels, strict=True))  # 1 == True == 1.0
    known = {key: read(key[1]) for key in set(keys)}
    return [known[key] for key in keys]


def classes_and_codes(learner: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes in increasing order and the place of each label among them; one sentence if there is only one."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise PoisonproofError(
            f"{type(learner).__name__} needs samples of at least 2 classes; got {len(classes)} class.",
            code="classes.few",
        )
    return classes, codes
