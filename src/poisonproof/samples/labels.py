"""Labels in canonical form, one by one.

An array of labels has one dtype, so a single odd label can turn every other one to text and put
"10" before "9". Here each label is read by itself: it is a number or a text, numbers come before
texts, and nothing about one label depends on the others. Whole numbers stay whole, however large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import cell_key, exact_cell, order_of_cell
from poisonproof.samples.frames import as_values, python_values
from poisonproof.samples.hashing import DIGEST, content_digests

Cell = float | int | str | None
HASHED = {str, int, bool, type(None)}  # not float: NaN equals nothing, and may be many


class ReadLabels(NamedTuple):
    """Labels as codes: positions in ``classes``, or -1 where a label is none of them."""

    classes: NDArray[Any]
    codes: NDArray[np.int64]
    cells: list[Cell]


def read_labels(y: Any, declared: Iterable[Any] | None = None) -> ReadLabels:
    """The classes in canonical order and the code of each label.

    Declared classes are taken as they are; other labels get -1, one by one, whatever they are.
    Without them the classes are those of ``y``, which must then look like class labels to
    scikit-learn, most of them; missing ones get -1.
    """
    labels = one_by_one(y)
    cells = label_cells(labels)
    if declared is None:
        present = [row for row, cell in enumerate(cells) if cell is not None]
        if cells and not present:
            raise PoisonproofError(f"Input y contains NaN or infinity: all {len(cells)} labels are missing.")
        _check_most_name_classes([cells[row] for row in present])
        return _encoded([labels[row] for row in present], [cells[row] for row in present], cells)
    classes = list(declared)
    class_cells = label_cells(classes)
    if len(set(class_cells) - {None}) < 2:
        raise PoisonproofError(
            "The 'classes' parameter must name at least two labels: with one there is nothing to defend. "
            f"Got {classes!r} instead."
        )
    if None in class_cells or len(set(class_cells)) < len(classes):
        raise PoisonproofError(
            f"The 'classes' parameter must name different labels, none of them missing. Got {classes!r}."
        )
    read = _encoded(classes, class_cells, cells)
    if len(read.codes) and (read.codes < 0).all():
        raise PoisonproofError(
            f"None of the {len(labels)} labels is one of the declared classes (a label is {labels[0]!r}, "
            f"a class is {classes[0]!r}); declare the labels as they stand in y."
        )
    return read


class ReadOnceLabels(np.ndarray[Any, Any]):
    """Labels that nobody can write to, so that what they came to may be remembered with them."""

    remembered: dict[Any, Any]

    def __array_finalize__(self, of: Any) -> None:
        self.remembered = {}  # a part of them, or a copy, is another array


def read_once(labels: Any) -> Any:
    """A copy of an array of labels that stays as it is, for who asks many questions about them; others as they are."""
    if not isinstance(labels, np.ndarray):
        return labels
    fixed = np.array(labels).view(ReadOnceLabels)
    fixed.flags.writeable = False
    return fixed


def label_cells(labels: Iterable[Any]) -> list[Cell]:
    """Each label as a number or a text; None if it is missing or neither."""
    labels = list(labels)
    if set(map(type, labels)) <= HASHED:  # equal ones are equal cells: each different one is read once
        known = dict(zip(different := set(labels), _one_after_another(different), strict=True))
        return [known[label] for label in labels]
    return _one_after_another(labels)


def places_of_labels(labels: list[Any], places: Mapping[Cell, int], otherwise: int) -> NDArray[np.int64]:
    """The place of each label by its cell, or ``otherwise``; each different label is read once where that is one."""
    if set(map(type, labels)) <= HASHED:
        different = list(set(labels))
        cells = _one_after_another(different)
        known = {label: places.get(cell, otherwise) for label, cell in zip(different, cells, strict=True)}
        return np.fromiter(map(known.__getitem__, labels), np.int64, len(labels))
    return np.array([places.get(cell, otherwise) for cell in label_cells(labels)], np.int64)


def _one_after_another(labels: Iterable[Any]) -> list[Cell]:
    cells: list[Cell] = []
    for label in labels:
        try:
            cells.append(exact_cell(label, "'y'"))
        except TypeError:
            cells.append(None)
    return cells


def label_digests(labels: Iterable[Any]) -> NDArray[np.void]:
    """SHA-256 of each label's or contributor's whole content."""
    cells = label_cells(labels)
    different = list(set(cells))
    known = dict(zip(different, content_digests(map(cell_key, different)), strict=True))
    return np.array([known[cell] for cell in cells], DIGEST)


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


def _check_most_name_classes(cells: list[Cell]) -> None:
    """Refuse what scikit-learn takes for the target of a regression: more fractions than not."""
    fractions = [cell for cell in cells if isinstance(cell, float) and not cell.is_integer()]
    if 2 * len(fractions) > len(cells):
        from sklearn.utils.multiclass import check_classification_targets

        check_classification_targets(np.array(fractions))


def _encoded(classes: list[Any], class_cells: list[Cell], cells: list[Cell]) -> ReadLabels:
    known = dict(zip(reversed(class_cells), reversed(classes), strict=True))  # the first of equal labels stands
    order = sorted(known, key=order_of_cell)
    place = {cell: code for code, cell in enumerate(order)}
    texts = {isinstance(cell, str) for cell in order}
    names = [known[cell] for cell in order]
    array = _as_array(names) if len(texts) < 2 else np.array(names, object)
    return ReadLabels(array, np.array([place.get(cell, -1) for cell in cells], np.int64), cells)


def _as_array(names: list[Any]) -> NDArray[Any]:
    """An array of labels; of objects where NumPy's common type would round one of them."""
    array = np.array(names)
    exact = array.dtype.kind != "f" or label_cells(array.tolist()) == label_cells(names)
    return array if exact else np.array(names, object)
