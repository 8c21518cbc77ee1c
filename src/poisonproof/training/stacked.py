"""Base classifiers that are sums of columns and words, asked all at once, and their file of plain arrays.

What they say is what `vote_of` says of each alone, to the bit; where that cannot be promised (weights that are not
finite), they are asked alone. The file is one npy array of one record: the arrays of each lot
(`poisonproof.learners.table_stack`) as its fields, and a JSON text with all that is no array. What is read back is what
was written, to the bit. It is mapped when it is opened; shapes, places and bounds are checked before a kernel relies on
them, and nothing in it is run or unpickled.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.votes import vote_dtype
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.table_stack import (
    CATEGORIES,
    LEARNERS,
    NAMES,
    NUMBERS,
    OBJECTS,
    TEXTS,
    TableStack,
    Words,
    reading_of,
)
from poisonproof.learners.text import TextClassifier, WordReading
from poisonproof.samples.batches import MISSING_NAME, can_be_read, name_of
from poisonproof.samples.columns import NUMBER, OBJECT
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples, TextSamples
from poisonproof.system.archives import map_npy
from poisonproof.system.compiled import njit
from poisonproof.system.files import reading
from poisonproof.system.threads import in_threads
from poisonproof.training.engine import Member

LANES = 64
ROWS_PER_TASK = 1 << 9
MIXED = "texts among categories"
ROWS_OF_TEXTS = 1 << 12  # whose words are in memory at a time, unless they are shared


def stacked(members: Sequence[Member]) -> Stacked | None:
    """The same base classifiers as arrays; None if they are of another learner, or would answer otherwise."""
    if not all(member.model is None or type(member.model) in NAMES for member in members):
        return None
    whole = Stacked.of(members)
    return whole if whole is not None and whole.finite else None


@dataclass(frozen=True, eq=False)
class Lot:
    """A stack, which places its lanes have among the base classifiers, and the codes of their classes."""

    stack: TableStack
    places: NDArray[np.int64]
    codes: NDArray[np.int64]
    """(lanes, classes): the class codes that each lane's subset holds; what it lacks is never asked for."""


@dataclass(frozen=True, eq=False)
class Stacked:
    """Some base classifiers: those that answer, in lots, and what the others say."""

    lots: tuple[Lot, ...]
    fallbacks: NDArray[np.int64]
    """What each says that has no model, -1 for one that abstains; those in lots are not asked for it."""

    @classmethod
    def of(cls, members: Sequence[Member]) -> Stacked | None:
        """Of base classifiers that can be stacked; None if one of them reads texts by categories of its own."""
        alike: dict[Any, list[int]] = {}
        for place, member in enumerate(members):
            if member.model is None:
                continue
            kinds = kinds_of(member.form, member.model)
            if MIXED in (kinds or ()):
                return None
            how = (kinds, reading_of(member.model), type(member.model), len(member.codes) > 2)
            alike.setdefault(how, []).append(place)
        lots = []
        for (kinds, way, _, _), places in alike.items():
            for start in range(0, len(places), LANES):
                lanes = places[start : start + LANES]
                lots.append(_lot([members[place] for place in lanes], lanes, kinds, way))
        fallbacks = [-1 if member.fallback is None else member.fallback for member in members]
        return cls(tuple(lots), np.array(fallbacks, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Stacked]) -> Stacked:
        """Several as one, in this order."""
        firsts = np.cumsum([0, *map(len, parts)])
        lots = tuple(
            replace(lot, places=lot.places + first)
            for part, first in zip(parts, firsts, strict=False)
            for lot in part.lots
        )
        return cls(lots, np.concatenate([part.fallbacks for part in parts]))

    def __len__(self) -> int:
        return len(self.fallbacks)

    @property
    def n_trained(self) -> int:
        """How many of them have a model."""
        return sum(len(lot.places) for lot in self.lots)

    @property
    def finite(self) -> bool:
        """Whether votes are those of each alone; see `TableStack.finite`."""
        return all(lot.stack.finite for lot in self.lots)

    def readable(self, samples: Samples) -> NDArray[np.bool_]:
        """Samples whose words can be read; a text may hold what no encoding has."""
        readings = {lot.stack.reading for lot in self.lots if lot.stack.reading is not None}

        def read(rows: NDArray[np.int64]) -> None:
            part = Read(samples.subset(rows))
            for way in readings:
                part.words_of(way)

        return can_be_read(read, np.arange(len(samples)))

    def votes(self, samples: Samples, n_classes: int, n_jobs: int | None = None) -> NDArray[Any]:
        """The votes (samples, members); raises if words of a sample cannot be read (see `readable`)."""
        read = Read(samples)
        votes = np.empty((len(read), len(self)), vote_dtype(n_classes))
        votes[:] = np.where(self.fallbacks < 0, n_classes, self.fallbacks)
        step = max(1, len(read))
        if not samples.shared_texts and any(lot.stack.reading is not None for lot in self.lots):
            step = ROWS_OF_TEXTS
        for start in range(0, len(read), step):
            part = read if len(read) <= step else read.part(start, start + step)
            for lot in self.lots:
                rows = part.for_stack(lot.stack)
                in_threads(
                    len(part),
                    ROWS_PER_TASK,
                    lambda first, last, lot=lot, rows=rows, here=votes[start : start + step]: _vote(  # type: ignore[misc]
                        lot, rows, here, slice(first, last)
                    ),
                    1 if n_jobs is None else n_jobs,
                )
        return votes


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples as one stack reads them.

    Attributes
    ----------
    numbers : array, or sparse rows
    codes : array (rows, columns)
        The number of each cell's name, -1 for one that nobody has.
    words : Words, or None
    """

    numbers: Any
    codes: NDArray[np.int64]
    words: Words | None = None


def _vote(lot: Lot, rows: Rows, votes: NDArray[Any], part: slice) -> None:
    if lot.stack.sparse:
        best = lot.stack.best_of_sparse(rows.numbers[part])
    else:
        words = None if rows.words is None else rows.words[part]
        best = lot.stack.best(rows.numbers[part], rows.codes[part], words)
    _place(best, lot.codes, lot.places, votes[part])


@njit(nogil=True, cache=True)
def _place(
    best: NDArray[np.uint16], codes: NDArray[np.int64], places: NDArray[np.int64], votes: NDArray[np.generic]
) -> None:
    for row in range(len(best)):
        for lane in range(len(places)):
            votes[row, places[lane]] = codes[lane, best[row, lane]]


def _lot(
    members: Sequence[Member], places: Sequence[int], kinds: tuple[str, ...] | None, reading: WordReading | None
) -> Lot:
    codes = np.zeros((len(members), max(len(member.codes) for member in members)), np.int64)
    for lane, member in enumerate(members):
        codes[lane, : len(member.codes)] = member.codes
    stack = TableStack.of([member.model for member in members], kinds, reading)
    return Lot(stack, np.array(places, np.int64), codes)


def kinds_of(form: Any, model: Any) -> tuple[str, ...] | None:
    """How a model reads columns of this form; None for samples without columns.

    A base classifier whose subset has only numbers in a column of texts has no words of it, so it is read as the others
    read it. One to which texts came as categories knows those of its subset alone: that is no kind of a stack.
    """
    if form is None:
        return None
    kinds = [NUMBERS if how == NUMBER else OBJECTS if how == OBJECT else CATEGORIES for how in form]
    if isinstance(model, TextClassifier):
        others = set(model.others_)
        kinds = [kind if at in others else MIXED if kind == CATEGORIES else TEXTS for at, kind in enumerate(kinds)]
    return tuple(kinds)


class Read:
    """Samples as stacks read them; what several need is made once."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._numbers: dict[Any, Any] = {}
        self._words: dict[WordReading, tuple[Any, NDArray[Any], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, stop: int) -> Read:
        """Of these samples."""
        return Read(self.samples.subset(np.arange(start, min(stop, len(self)))))

    def for_stack(self, stack: TableStack) -> Rows:
        """Numbers (or sparse rows), the number of each cell's name, and words."""
        if stack.kinds not in self._numbers:
            self._numbers[stack.kinds] = self._numbers_of(stack)
        if self._numbers[stack.kinds].shape[1] != len(stack.weights):
            raise PoisonproofError(
                f"The base classifiers were trained on {len(stack.weights)} numbers for each sample, and these samples "
                f"have {self._numbers[stack.kinds].shape[1]}; ask about samples like those they were trained on.",
                code="samples.features",
            )
        codes = np.empty((len(self), len(stack.names)), np.int64)
        for at, (column, places) in enumerate(zip(stack.category_columns, stack.places, strict=True)):
            names, cells = self.names[column]
            codes[:, at] = np.array([places.get(name, -1) for name in names])[cells]
        if stack.reading is None:
            return Rows(self._numbers[stack.kinds], codes)
        rows, features, numbers = self.words_of(stack.reading)
        words = Words(rows.indptr.astype(np.int64), numbers, rows.data, stack.places_of(features))
        return Rows(self._numbers[stack.kinds], codes, words)

    def words_of(self, reading: WordReading) -> tuple[Any, NDArray[Any], NDArray[np.int64]]:
        """The words of all samples, the features that there are, and the number among them of each that is held."""
        if reading not in self._words:
            samples, every = self.samples, np.arange(len(self))
            if isinstance(samples, TableSamples):
                rows = reading.rows(samples.by_column(every, (OBJECT,) * len(samples.columns)))
            else:
                assert isinstance(samples, TextSamples)
                rows = reading.rows(samples.batch(every))
            features, numbers = np.unique(rows.indices, return_inverse=True)
            self._words[reading] = rows, features, numbers
        return self._words[reading]

    def _numbers_of(self, stack: TableStack) -> Any:
        if isinstance(self.samples, SparseSamples):
            return self.samples.matrix
        if isinstance(self.samples, NumberSamples):
            flat = self.samples.values.reshape(len(self), -1)
            return np.ascontiguousarray(flat, np.float64)
        if isinstance(self.samples, TextSamples):
            return np.empty((len(self), 0))
        assert isinstance(self.samples, TableSamples)
        columns = [
            column for column, kind in zip(self.samples.columns, stack.kinds or (), strict=True) if kind == NUMBERS
        ]
        numbers = np.empty((len(self), len(columns)))
        for at, column in enumerate(columns):
            numbers[:, at] = column.as_numbers()
        return numbers

    @cached_property
    def names(self) -> _Names:
        """For each column the names of its different cells, that of a missing one last, and the place of each cell."""
        return _Names(self.samples)


class _Names(dict[int, tuple[list[str], NDArray[np.int32]]]):
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __missing__(self, at: int) -> tuple[list[str], NDArray[np.int32]]:
        assert isinstance(self.samples, TableSamples)
        column = self.samples.columns[at].coded
        assert column.codes is not None
        self[at] = ([*map(name_of, column.cells.values), MISSING_NAME], column.codes)
        return self[at]


FORMAT = "poisonproof stack 3"  # 2: with what was chosen from
TEXT = "text"
NO_ARRAYS = ("kinds", "sparse", "names", "reading")
OF_STACK = tuple(field.name for field in fields(TableStack) if field.name not in NO_ARRAYS)
OF_LOT = ("places", "codes")
PLAIN = (type(None), bool, int, float, str, list, tuple)
MOST_BYTES = (1 << 31) - 1  # of a record of NumPy


@dataclass(frozen=True, eq=False)
class KeptStack:
    """Base classifiers as they lie in a file."""

    stacked: Stacked
    text: dict[str, Any]

    def __len__(self) -> int:
        return len(self.stacked)

    @cached_property
    def indices(self) -> list[int]:
        """What each is seeded with."""
        return list(self.text["indices"])

    @cached_property
    def failures(self) -> list[str | None]:
        """What the learner raised on its subset, for each."""
        return list(self.text["failures"])

    @cached_property
    def members(self) -> list[Member]:
        """Each by itself, as it was fitted."""
        text, models = self.text, dict[int, Any]()
        for lot, facts in zip(self.stacked.lots, text["groups"], strict=True):
            names = None if facts["feature_names"] is None else np.array(facts["feature_names"], object)
            for lane, place in enumerate(lot.places.tolist()):
                models[place] = lot.stack.model(lane, _learner_of(facts), facts["n_features"], names)
        return [
            Member(
                index,
                models.get(place),
                np.array(text["codes"][place], np.int64),
                text["fallbacks"][place],
                None if text["form_of"][place] is None else _form(text["forms"][text["form_of"][place]]),
                text["failures"][place],
            )
            for place, index in enumerate(self.indices)
        ]


def stack_bytes(members: Sequence[Member]) -> bytes | None:
    """The file of these base classifiers; None where they must be kept otherwise.

    That is so for other learners, for weights that are not finite, for what JSON does not give back as it was, and for
    more than 2 GB.
    """
    whole = stacked(members)
    if whole is None or not whole.lots:
        return None
    forms = list(dict.fromkeys(member.form for member in members if member.form is not None))
    lots = []
    for lot in whole.lots:
        models = [members[place].model for place in lot.places]
        outlines = {_outline(model, lot.stack.kinds) for model in models}
        learner = _described(models)
        if len(outlines) != 1 or learner is None:
            return None
        n_features, names = outlines.pop()
        stack = lot.stack
        lots.append(
            {"kinds": stack.kinds, "sparse": stack.sparse, "names": stack.names, "n_features": n_features,
             "feature_names": names, "learner": learner}
        )  # fmt: skip
    text = {
        "format": FORMAT,
        "indices": [member.index for member in members],
        "codes": [member.codes.tolist() for member in members],
        "fallbacks": [member.fallback for member in members],
        "failures": [member.failure for member in members],
        "forms": forms,
        "form_of": [None if member.form is None else forms.index(member.form) for member in members],
        "groups": lots,
    }
    try:
        packed = json.dumps(text, allow_nan=False, sort_keys=True).encode()
    except (TypeError, ValueError):
        return None
    if _tuples(json.loads(packed)) != _tuples(text):
        return None
    arrays = {
        f"{number} {name}": np.ascontiguousarray(getattr(holder, name))
        for number, lot in enumerate(whole.lots)
        for holder, names in ((lot.stack, OF_STACK), (lot, OF_LOT))
        for name in names
    }
    arrays[TEXT] = np.frombuffer(packed, np.uint8)
    if sum(values.nbytes for values in arrays.values()) > MOST_BYTES:
        return None
    order = sorted(arrays, key=lambda name: -arrays[name].itemsize)  # so that every number lies where it may
    record = np.zeros(1, [(name, arrays[name].dtype.newbyteorder("<"), arrays[name].shape) for name in order])
    for name, values in arrays.items():
        record[name][0] = values
    file = io.BytesIO()
    np.lib.format.write_array(file, record, version=(2, 0), allow_pickle=False)
    return file.getvalue()


def read_stack(path: str | Path) -> KeptStack:
    """Map such a file; refuse one that is not whole, or whose arrays do not fit each other."""
    with reading(path):
        record = map_npy(path, private=True)
        if record.shape != (1,) or TEXT not in (record.dtype.names or ()):
            raise DamagedFileError(f"{path} is damaged: it holds no base classifiers.")
        text = json.loads(np.asarray(record[TEXT][0]).tobytes())
        arrays = {name: np.asarray(record[name][0]) for name in record.dtype.names or ()}
        if text["format"] != FORMAT:
            raise DamagedFileError(f"{path} is of format {text['format']!r}, and {FORMAT!r} is read.")
        lots = tuple(_lot_of(facts, number, arrays) for number, facts in enumerate(text["groups"]))
        fallbacks = np.array([-1 if code is None else code for code in text["fallbacks"]], np.int64)
        wrong = _misfit(text, lots, len(fallbacks))
        if wrong:
            raise DamagedFileError(f"{path} is damaged: {wrong}.")
        return KeptStack(Stacked(lots, fallbacks), text)


def _lot_of(facts: dict[str, Any], number: int, arrays: dict[str, NDArray[Any]]) -> Lot:
    kinds = None if facts["kinds"] is None else tuple(facts["kinds"])
    stack = TableStack(
        kinds=kinds,
        sparse=bool(facts["sparse"]),
        names=tuple(map(tuple, facts["names"])),
        reading=reading_of(_learner_of(facts)),
        **{name: arrays[f"{number} {name}"] for name in OF_STACK},
    )
    return Lot(stack, *(arrays[f"{number} {name}"] for name in OF_LOT))


def _misfit(text: dict[str, Any], lots: Sequence[Lot], n_members: int) -> str | None:
    """What does not fit, in words."""
    per_member = [text[name] for name in ("indices", "codes", "failures", "form_of")]
    if any(len(facts) != n_members for facts in per_member):
        return "it does not say the same of all its base classifiers"
    places = np.concatenate([lot.places for lot in lots]) if lots else np.zeros(0, np.int64)
    if (
        places.ndim != 1
        or places.dtype != np.int64
        or len(np.unique(places)) != len(places)
        or not _within(places, 0, n_members)
    ):
        return "two of its base classifiers have one place"
    for lot, facts in zip(lots, text["groups"], strict=True):
        for fits, words in _conditions(lot, facts):
            if not fits():
                return words
    return None


def _conditions(lot: Lot, facts: dict[str, Any]) -> list[tuple[Callable[[], bool], str]]:
    """What kernels and `TableStack.lane` rely on; each holds only if those before it do."""
    stack = lot.stack
    lanes, n_features = len(lot.places), facts["n_features"]
    kinds = stack.kinds
    n_numbers = n_features if kinds is None else sum(kind == NUMBERS for kind in kinds)
    n_scaled = 0 if stack.sparse else n_numbers
    n_slots = stack.bias.shape[0] if stack.bias.ndim == 2 else 0
    n_names, n_words, n_entries = sum(map(len, stack.names)), len(stack.words), len(stack.entries)
    shapes = {
        "slots": (lanes,), "bias": (n_slots, lanes), "mean": (n_scaled, lanes), "scale": (n_scaled, lanes),
        "weights": (n_numbers, n_slots, lanes), "flags": (n_numbers, n_slots, lanes), "flagged": (n_scaled, lanes),
        "words": (n_words,), "starts": (n_names + n_words + 1,), "lanes": (n_entries,),
        "entries": (n_entries, n_slots), "iterations": (lanes,),
    }  # fmt: skip
    types = {"flagged": np.bool_, "lanes": np.uint16}
    types |= dict.fromkeys(("slots", "words", "starts", "iterations"), np.int64)
    texts = 0 if stack.reading is None else len(stack.reading.columns)
    columns = [] if kinds is None else [kind for kind in kinds if kind not in (NUMBERS, TEXTS)]
    names = facts["feature_names"]
    return [
        (lambda: kinds is None or len(kinds) == n_features, "its columns are not counted right"),
        (lambda: set(columns) <= {OBJECTS, CATEGORIES} and len(columns) == len(stack.names), "a kind is unknown"),
        (lambda: (kinds or ()).count(TEXTS) == texts, "its columns of texts are not named"),
        (lambda: names is None or len(names) == n_features, "its columns are not named"),
        (
            lambda: all(
                getattr(stack, name).shape == shape and getattr(stack, name).dtype == types.get(name, np.float64)
                for name, shape in shapes.items()
            ),
            "its arrays do not fit each other",
        ),
        (lambda: lanes > 0 and _within(stack.slots, 1, n_slots + 1), "a base classifier has no score"),
        (
            lambda: lot.codes.dtype == np.int64 and lot.codes.ndim == 2 and len(lot.codes) == lanes
            and lot.codes.shape[1] >= max(2, n_slots) and _within(lot.codes, 0, 1 << 16),
            "a base classifier has no classes",
        ),
        (lambda: stack.reading is None or _is_known(stack.reading), "its words are read in no known way"),
        (
            lambda: _within(stack.words, 0, 0 if stack.reading is None else stack.reading.width)
            and bool((np.diff(stack.words) > 0).all()),
            "its words are in no order",
        ),
        (lambda: stack.starts[0] == 0 and stack.starts[-1] == n_entries, "its categories are not counted right"),
        (lambda: bool((np.diff(stack.starts) >= 0).all()), "its categories are not counted right"),
        (lambda: _within(stack.lanes, 0, lanes), "a category or word belongs to nobody"),
        (lambda: stack.finite, "a weight is not finite"),
    ]  # fmt: skip


def _is_known(way: WordReading) -> bool:
    return (
        type(way.n_hashed) is int
        and 0 < way.n_hashed < 1 << 31
        and isinstance(way.weight, int | float)
        and math.isfinite(way.weight)
        and all(isinstance(name, str | int | float) for name in way.columns)
    )


def _within(values: NDArray[Any], least: int, end: int) -> bool:
    return bool(values.min(initial=least) >= least and values.max(initial=end - 1) < end)


def _outline(model: Any, kinds: tuple[str, ...] | None) -> tuple[int, tuple[str, ...] | None]:
    if reading_of(model) is not None:
        return len(kinds or ()), None
    names = getattr(model, "feature_names_in_", None)
    return int(model.n_features_in_), None if names is None else tuple(names.tolist())


def _described(models: Sequence[Any]) -> dict[str, Any] | None:
    """The learner of models; None if they have not all the same parameters, or odd ones."""
    parameters = models[0].get_params(deep=False)
    if not all(isinstance(value, PLAIN) for value in parameters.values()):
        return None
    if any(getattr(model, name) != value for model in models for name, value in parameters.items()):
        return None
    tuples = sorted(name for name, value in parameters.items() if type(value) is tuple)
    return {"name": NAMES[type(models[0])], "parameters": parameters, "tuples": tuples}


def _learner_of(facts: dict[str, Any]) -> Any:
    """The unfitted learner of a group."""
    learner = facts["learner"]
    parameters = {name: tuple(v) if name in learner["tuples"] else v for name, v in learner["parameters"].items()}
    return LEARNERS[learner["name"]](**parameters)


def _form(form: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(column) if isinstance(column, list) else column for column in form)


def _tuples(value: Any) -> Any:
    """With tuples in place of lists, however deep."""
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
