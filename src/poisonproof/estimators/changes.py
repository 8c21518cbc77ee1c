"""Training data that change by a few rows: only what those rows touch is worked out again.

What comes out is what `prepare` gives for the changed data, to the bit. It is told from the rows that change, from what
is known of each of the others (its hash, its code, its partition), and from the rows that base classifiers are trained
on again, which are read anew. Wherever more could depend on the change (the class list, an odd cell, another form of
samples), nothing comes out, and the caller prepares everything anew.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from poisonproof.core.spread import resolve_spread
from poisonproof.core.subsets import Subsets, subset_digests
from poisonproof.data.store import form_of_pack, joined, known_by
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.estimators.base import accepts_nan, learner_of, typed_premises
from poisonproof.estimators.prepared import DEFAULT_D, DEFAULT_K, Prepared, common_to, premises_of, split_of, tell
from poisonproof.premises import Premise
from poisonproof.samples.columns import less_rows
from poisonproof.samples.convert import canonical_rank, count_rows, join_rows, row_numbers, take_rows
from poisonproof.samples.frames import as_frame, as_values, is_frame
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples, entries_by_row, is_sparse
from poisonproof.samples.labels import id_cells, label_cells, one_by_one, places_of, read_labels
from poisonproof.training.work import Training


@dataclass(frozen=True, eq=False)
class Given:
    """Training data as they were given: samples, labels and, if there are any, contributor ids."""

    X: Any
    y: Any
    groups: Any = None
    typed: tuple[Premise, ...] = ()

    @classmethod
    def of(cls, given: Any, name: str) -> Given:
        """From (X, y) or (X, y, groups), as the parameter of this name."""
        if given is None:
            raise PoisonproofError(
                "This model was loaded without its training data; give it: update(..., data=(X, y))."
            )
        if not isinstance(given, list | tuple) or len(given) not in (2, 3):
            raise WrongTypeError(
                f"The '{name}' of update must be (X, y) or (X, y, groups). Got {type(given).__name__} instead."
            )
        X, y, groups = (*given, None)[:3]
        if count_rows(X) != len(y):
            raise PoisonproofError(f"The '{name}' of update has {count_rows(X)} samples but {len(y)} labels.")
        return cls(referred(as_frame(X)), referred(y), as_values(groups), typed_premises(y, groups))

    def __len__(self) -> int:
        return count_rows(self.X)

    @property
    def stamps(self) -> tuple[Any, ...]:
        """What differs once somebody has written into an array or a list that is only referred to."""
        return tuple(_stamp(part) for part in (self.X, self.y, self.groups))

    def less(self, change: Change, samples: Samples | None = None) -> Given:
        """The rows that stay; where ``samples`` hold the same numbers in the same array, that is kept once."""
        shared = isinstance(samples, NumberSamples) and isinstance(self.X, np.ndarray)
        X = samples.values if shared else _rows_left(self.X, change)  # type: ignore[union-attr]
        groups = None if self.groups is None else _less(self.groups, change)
        return Given(X, _less(self.y, change), groups, self.typed)

    def and_more(self, more: Given) -> Given:
        """These samples, and others after them."""
        groups = None if self.groups is None else [*one_by_one(self.groups), *one_by_one(more.groups)]
        typed = tuple(dict.fromkeys((*self.typed, *more.typed)))
        return Given(join_rows(self.X, more.X), [*one_by_one(self.y), *one_by_one(more.y)], groups, typed)


@dataclass(frozen=True, eq=False)
class Change:
    """Rows that go, those that stay, and samples that come after them."""

    removed: NDArray[np.int64]
    stay: NDArray[np.int64]
    added: Given | None

    @classmethod
    def of(cls, given: Given, add: Any, remove: Any) -> Change:
        """What `update` was asked for, checked."""
        removed = row_numbers(remove, len(given))
        added = None if add is None else Given.of(add, "add")
        if added is not None and (given.groups is None) != (added.groups is None):
            raise PoisonproofError("Give contributor ids (groups) for all training samples or for none.")
        if len(removed) == len(given) and not (added is not None and len(added)):
            raise PoisonproofError("Nothing would be left to train on; at least one training sample must stay.")
        return cls(removed, np.delete(np.arange(len(given)), removed), added)

    @property
    def n_added(self) -> int:
        """How many samples come."""
        return 0 if self.added is None else len(self.added)

    def applied_to(self, given: Given) -> Given:
        """The training data as they are afterwards."""
        left = given if not len(self.removed) else given.less(self)
        return left if self.added is None else left.and_more(self.added)


@dataclass(frozen=True, eq=False)
class Known:
    """What a fitted model remembers of its training data: as they were given, and what was worked out of them."""

    given: Given
    prepared: Prepared
    stamps: tuple[Any, ...]

    @classmethod
    def of(cls, given: Given, prepared: Prepared) -> Known:
        """From data and what was just worked out of them."""
        return cls(given, prepared, given.stamps)

    def after(self, model: Any, change: Change) -> Known | None:
        """The same for changed data, from what the change touches; None where it may touch everything."""
        arriving = _Arriving.of(self, model, change)
        if arriving is None or not _touches_few(self, model, change):
            return None
        before = self.prepared
        data = before.data
        samples = _with_more(data.samples.without(change.removed, change.stay), arriving)
        codes = np.concatenate((less_rows(data.codes, change.removed), arriving.codes))
        gone, fed_samples, fed_codes = change.removed, samples, codes
        if before.n_dropped:
            fed = np.flatnonzero(data.codes >= 0)
            gone = np.searchsorted(fed, change.removed)
            left = np.delete(np.arange(len(fed)), gone)
            fed_samples = _with_more(before.training.samples.without(gone, left), arriving)
            fed_codes = codes[codes >= 0]
        earlier = before.subsets
        assert isinstance(earlier, Subsets)
        partition = np.concatenate((less_rows(earlier.partition, gone), arriving.partition))
        rank = canonical_rank(fed_samples, fed_codes) if len(arriving.codes) else less_rows(earlier.rank, gone)
        subsets = Subsets(before.spread, partition, rank)
        touched = np.unique(np.concatenate((earlier.partition[gone], arriving.partition)))
        retrained = np.unique(before.spread.as_table()[touched])
        if not _as_it_was(fed_samples, subsets, retrained):
            return None
        contents, digests = list(before.contents), before.digests.copy()
        for partition_number, content in zip(
            touched.tolist(), subsets.contents(fed_samples, fed_codes, touched), strict=True
        ):
            contents[partition_number] = content
        digests[retrained] = subset_digests(before.spread, contents, before.common, retrained.tolist())
        given = self.given.less(change, samples if change.added is None else None)
        given = given if change.added is None else given.and_more(change.added)
        if before.classes_inferred and not _same_classes(given, before):
            return None
        cells = [*_less(data.cells, change), *arriving.cells]
        data = replace(data, samples=samples, codes=codes, cells=cells, typed=given.typed)
        tell(data, subsets)
        prepared = replace(
            before,
            training=Training(data.learner, fed_samples, fed_codes, subsets),
            subsets=subsets,
            data=data,
            digests=digests,
            contents=contents,
            premises=premises_of(model, data, before.spread, before.split),
        )
        return Known.of(given, prepared)


@dataclass(frozen=True, eq=False)
class _Arriving:
    """Samples that come, in canonical form, with what `prepare` would find of each."""

    samples: Samples | None
    codes: NDArray[np.int64]
    cells: list[Any]
    partition: NDArray[np.int64]

    @classmethod
    def of(cls, known: Known, model: Any, change: Change) -> _Arriving | None:
        """None where one of them would be left out or told of, or is of another form than the rest."""
        nothing = np.zeros(0, np.int64)
        more, before = change.added, known.prepared
        if more is None or not len(more):
            return cls(None, nothing, [], nothing)
        if not _same_type(known.given.X, more.X):
            return None
        data, split = before.data, before.split
        try:
            samples = split.samples(more.X)
        except (ValueError, TypeError, ArithmeticError):  # odd alone; among the others it may be one odd row
            return None
        cells = label_cells(one_by_one(more.y))
        codes = places_of(cells, label_cells(data.classes.tolist()))
        if len(codes) != len(samples) or (codes < 0).any() or samples.oddities or not _alike(samples, data.samples):
            return None
        if split.kind == "group" and None in label_cells(one_by_one(more.groups)):
            return None
        if not accepts_nan(data.learner) and not samples.complete().all():
            return None
        return cls(samples, codes, cells, split.partitions(samples, before.spread.n_partitions, cells, more.groups))


def _touches_few(known: Known, model: Any, change: Change) -> bool:
    """Whether nothing that all base classifiers share can differ after the change."""
    before, data = known.prepared, known.prepared.data
    if not all(_same_stamp(*both) for both in zip(known.given.stamps, known.stamps, strict=True)):
        return False
    if not _same_ensemble(model, before) or data.samples.oddities or not _read_by_row(known.given.X, data.samples):
        return False
    if before.split.kind == "pixel-sum" and before.split.dtype != "uint8":
        return False  # refused where all samples hold fractions, which other rows decide
    if (data.codes[change.removed] < 0).any():
        return False
    return bool((data.codes >= 0).sum() != len(change.removed))


def _same_classes(given: Given, prepared: Prepared) -> bool:
    """Whether classes that were read off other data are those of this data, by the same names."""
    return repr(read_labels(given.y, None, id_cells(given.groups)).classes.tolist()) == repr(prepared.classes.tolist())


def _same_ensemble(model: Any, before: Prepared) -> bool:
    """Whether the parameters of a model are those that it was prepared with, also inside its learner."""
    spread = resolve_spread(model.spread, model.k, model.d, unless=(DEFAULT_K, DEFAULT_D))
    if model.classes is None or before.classes_inferred:
        classes = before.classes
    else:
        classes = read_labels([], model.classes).classes
    learner, samples = learner_of(model, before.data.samples), before.data.samples
    return (
        isinstance(before.subsets, Subsets)
        and spread.digest == before.spread.digest
        and split_of(model) == before.split
        and (model.classes is None) == before.classes_inferred
        and common_to(samples, learner, classes) == before.common
    )


def _read_by_row(X: Any, samples: Samples) -> bool:
    """Whether each sample was read by itself, so that no majority of rows decides what the samples are."""
    if isinstance(X, np.ndarray) and samples.kind == "numbers":
        return X.dtype.kind in "biuf"
    return is_frame(X) or samples.kind in ("texts", "sparse rows")


def _same_type(X: Any, more: Any) -> bool:
    """Whether samples that come are given as the others are, so that to join them changes neither."""
    if is_frame(X):
        return is_frame(more) and list(X.columns) == list(more.columns) and list(X.dtypes) == list(more.dtypes)
    if isinstance(X, np.ndarray):
        return isinstance(more, np.ndarray) and X.dtype == more.dtype and X.shape[1:] == more.shape[1:]
    return isinstance(X, list) and isinstance(more, list)


def _alike(samples: Samples, others: Samples) -> bool:
    joinable = isinstance(samples, NumberSamples | TextSamples | TableSamples) and samples.kind == others.kind
    return joinable and form_of_pack(samples) == form_of_pack(others)


def _with_more(samples: Samples, arriving: _Arriving) -> Samples:
    if arriving.samples is None:
        return samples
    hashes = np.concatenate((samples.content_hashes, arriving.samples.content_hashes))
    return known_by(joined([samples, arriving.samples]), hashes)


def _as_it_was(samples: Samples, subsets: Subsets, retrained: NDArray[np.int64]) -> bool:
    """Whether the rows that are to be trained on again still hash as they did: nobody wrote to the user's array."""
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *(subsets.rows(int(i)) for i in retrained)]))
    if not len(rows):
        return True
    return bool((samples.subset(rows).hashes() == samples.content_hashes[rows]).all())


def referred(values: Any) -> Any:
    """The same values; of a frame what pandas copies as soon as somebody writes into the user's own."""
    return values.copy(deep=False) if hasattr(values, "iloc") else values


def _stamp(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufSU":
        return xxhash.xxh3_128_digest(np.ascontiguousarray(values).data)
    if isinstance(values, np.ndarray) and values.dtype == object:
        return values.copy()  # which keeps the objects, so that none is taken for a later one in its place
    if isinstance(values, np.ndarray | list | tuple):
        return list(values)
    if is_sparse(values):
        rows = entries_by_row(values)
        return tuple(_stamp(part) for part in (rows.data, rows.indices, rows.indptr))
    return None  # a frame is copied when something writes into it; the rows that are read again are checked besides


def _same_stamp(stamp: Any, earlier: Any) -> bool:
    """Whether two stamps are one; objects are compared by identity, since an odd one may refuse to be compared."""
    if isinstance(stamp, np.ndarray) and isinstance(earlier, np.ndarray):
        return stamp.shape == earlier.shape and _addresses(stamp) == _addresses(earlier)
    if isinstance(stamp, list) and isinstance(earlier, list):
        return len(stamp) == len(earlier) and all(map(is_, stamp, earlier))
    return bool(stamp == earlier)


def _addresses(objects: NDArray[np.object_]) -> bytes:
    """Where the objects of an array lie, which tells them apart as long as they are kept."""
    return ctypes.string_at(objects.ctypes.data, objects.nbytes)


def _rows_left(X: Any, change: Change) -> Any:
    """Samples that stay, as they were given."""
    return less_rows(X, change.removed) if isinstance(X, np.ndarray) else take_rows(X, change.stay)


def _less(values: Any, change: Change) -> Any:
    """Labels or ids of the rows that stay, as they are kept."""
    if isinstance(values, np.ndarray):
        return less_rows(values, change.removed)
    if hasattr(values, "iloc"):
        return values.iloc[change.stay]
    left = list(values if isinstance(values, list) else one_by_one(values))
    for row in change.removed[::-1].tolist():
        del left[row]
    return left
