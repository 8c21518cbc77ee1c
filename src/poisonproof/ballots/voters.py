"""Training samples that vote: their features, labels and contributors, and what they say of test samples.

Counting is a sum over shards of voters, in whole numbers, so no result depends on shards, blocks, batches, threads or
workers. The nearest voters stand in the order of (distance, hash of their canonical content, label): voters that agree
in all three cast the same vote, so the order is one of content alone.

From samples to whole numbers, through a map that somebody else may have written: what it gives is checked.

A map is a function of one sample. What shows that it is not, or gives no numbers at all, is refused. What it cannot do
with one row stays with that row: such a row cannot be read, and nothing else depends on it. A map of somebody else's is
asked about one sample at a time, so that no company changes last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.ballots.distances import (
    count_near,
    count_near_in_runs,
    products_directly,
    squared_lengths,
    write_distances,
)
from poisonproof.ballots.maps import HashedFeatures, TableFeatures
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.learners.feature_maps import (
    ASKED_TWICE,
    LONGEST,
    MEASURED_ON,
    VectorFeatures,
    width_of_most,
)
from poisonproof.premises import PublicMap
from poisonproof.samples.batches import ONE_BY_ONE, declares
from poisonproof.samples.kinds import Samples, TableSamples
from poisonproof.system.compiled import copy_into, njit, nth_smallest
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.files import open_arrays, write_arrays
from poisonproof.system.threads import in_threads, n_cores

FORMAT = "poisonproof voters 2"
ARRAYS = ("rows", "codes", "hashes", "owners", "places")
TESTS_AT_ONCE = 512
NUMBERS_PER_BLOCK = 1 << 21  # of features in single precision, so that a block stays near the processor
DISTANCE_BYTES = 1 << 26  # distances of a run of test samples to all voters, where they are ordered
FEW = 4  # so many test samples are answered in integers, row by row
DIRECT_ROWS = 4096
WORTH_THREADS = 1 << 24  # products, some milliseconds; fewer are done before a thread has started
LONG_RUN = 64  # rows of one cell that stand together on average, so that it pays to count them together
RANKING_BINS = 4096
HASH_BITS = 37  # of a hash that fit beside a distance of 26 bits
SIGN = np.uint64(1 << 63)  # turned round, an unsigned number sorts as a signed one


class Described(NamedTuple):
    """Samples as whole numbers: features, squared lengths, and which samples the map could read."""

    rows: NDArray[Any]
    lengths: NDArray[np.int64]
    readable: NDArray[np.bool_]


class Known(NamedTuple):
    """Features that an earlier fit gave to samples, by their whole content, which need not be computed again.

    Not by the hash of it: whoever writes a sample that has another's hash would give that one its features.
    """

    places: Mapping[bytes, int]
    rows: NDArray[Any]


class Nearest(NamedTuple):
    """The nearest voters of each test sample, nearest first: distances, hashes and class codes."""

    distances: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    codes: NDArray[np.int64]


@dataclass(frozen=True)
class Voters:
    """A table of voters. ``owners``: contributors, all 0 where there are none."""

    rows: NDArray[Any]
    lengths: NDArray[np.int64]
    codes: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    owners: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def width(self) -> int:
        """Features of a voter."""
        return int(self.rows.shape[1])

    def save(self, path: Path, places: NDArray[np.int64]) -> None:
        """Write them as plain arrays; ``places``: which voter each training sample is, -1 for none."""
        arrays = {name: getattr(self, name) for name in ("rows", "codes", "hashes", "owners")}
        write_arrays(path, arrays | {"places": places}, {"format": FORMAT})

    @classmethod
    def load(cls, path: Path, n_classes: int) -> tuple[Self, NDArray[np.int64]]:
        """What `save` wrote; refused if it is altered."""
        arrays, facts = open_arrays(path, ARRAYS)
        check_format(path, facts.get("format"), FORMAT)
        rows, codes, hashes, owners, places = (arrays[name] for name in ARRAYS)
        whole = rows.ndim == 2 and rows.dtype in (np.int8, np.int16) and hashes.dtype == np.uint64
        whole = whole and all(array.shape == (len(rows),) for array in (codes, hashes, owners))
        whole = whole and all(array.dtype == np.int64 and array.ndim == 1 for array in (codes, owners, places))
        if whole and len(rows):
            whole = 0 <= codes.min() <= codes.max() < n_classes and owners.min() >= 0
            whole = whole and np.array_equal(np.sort(places[places >= 0]), np.arange(len(rows)))
        if not whole:
            raise DamagedFileError(f"{path} is altered: its arrays are no voters'.")
        lengths, short = _lengths(rows)
        if not short.all():
            raise DamagedFileError(f"{path} is altered: it holds features that are too long.")
        return cls(rows, lengths, codes, hashes, owners), places


def count_cells(
    voters: Voters, cells: NDArray[np.int64], n_cells: int, test: Described, limit: int
) -> NDArray[np.int64]:
    """How many voters of each cell are within the limit of each test sample: an array (n_test, n_cells)."""
    n_test, n_rows = len(test.rows), len(voters)
    shards = _shards(n_rows, n_test)
    counts = np.zeros((len(shards), n_test, n_cells), np.int64)
    in_runs = LONG_RUN * np.count_nonzero(np.diff(cells)) < n_rows
    count_them = count_near_in_runs if in_runs else count_near

    def count(shard: int, tests: slice, rows: slice, products: NDArray[np.float32]) -> None:
        sizes = test.lengths[tests], voters.lengths[rows]
        count_them(products, *sizes, limit, cells[rows], counts[shard, tests])

    _each_block(voters, test, shards, count)
    return counts.sum(axis=0)


def nearest_voters(voters: Voters, test: Described, most: int, *, one_per_owner: bool = False) -> Nearest:
    """The nearest voters, at most so many, of every test sample; with ``one_per_owner`` each contributor's nearest.

    A run of test samples at a time, so that their distances to all voters take a fixed amount of memory.
    """
    n_test, n_rows = len(test.rows), len(voters)
    n_owners = int(voters.owners.max(initial=-1)) + 1 if one_per_owner else 0
    most = min(most, len(np.unique(voters.owners)) if one_per_owner else n_rows)
    nearest = Nearest(
        np.empty((n_test, most), np.int32), np.empty((n_test, most), np.uint64), np.empty((n_test, most), np.int64)
    )
    run = max(FEW, DISTANCE_BYTES // (4 * max(1, n_rows)))
    for start in range(0, n_test, run):
        part = slice(start, min(start + run, n_test))
        few = Described(test.rows[part], test.lengths[part], test.readable[part])
        _order(voters, few, n_owners, [array[part] for array in nearest])
    return nearest


def _order(voters: Voters, test: Described, n_owners: int, nearest: list[NDArray[Any]]) -> None:
    """Fill the nearest voters of some test samples, of whose distances to all voters there is room."""
    distances = np.empty((len(test.rows), len(voters)), np.int32)

    def write(shard: int, tests: slice, rows: slice, products: NDArray[np.float32]) -> None:
        write_distances(products, test.lengths[tests], voters.lengths[rows], distances[tests, rows])

    def select(first: int, last: int) -> None:
        chosen = [array[first:last] for array in nearest]
        _select(distances[first:last], voters.hashes, voters.codes, voters.owners, n_owners, *chosen)

    _each_block(voters, test, _shards(len(voters), len(test.rows)), write)
    in_threads(len(test.rows), 16, select)


def distances_between(test: Described, voters: Voters) -> NDArray[np.int32]:
    """The squared distance of every voter to each test sample, all at once; an array (n_test, n_voters)."""
    out = np.empty((len(test.rows), len(voters)), np.int32)
    products = np.matmul(test.rows.astype(np.float32), voters.rows.astype(np.float32).T)
    write_distances(products, test.lengths, voters.lengths, out)
    return out


def _shards(n_rows: int, n_test: int) -> list[slice]:
    """All voters as one shard if there are test samples for every core, else a shard for each."""
    count = 1 if n_test >= TESTS_AT_ONCE * n_cores() else n_cores()
    edges = np.linspace(0, n_rows, count + 1).astype(np.int64)
    return [slice(int(start), int(stop)) for start, stop in pairwise(edges)]


def _each_block(voters: Voters, test: Described, shards: list[slice], use: Any) -> None:
    """Call ``use(shard, tests, rows, products)`` on every block of products, in threads."""
    n_test = len(test.rows)
    if n_test == 0 or len(voters) == 0:
        return
    if n_test <= FEW:
        _each_row(voters, test, shards, use)
        return
    block = max(64, NUMBERS_PER_BLOCK // max(1, voters.width))
    runs = range(0, n_test, TESTS_AT_ONCE)
    tasks = [(shard, start) for shard in range(len(shards)) for start in runs]

    def work(first: int, last: int) -> None:
        for shard, start in tasks[first:last]:
            tests = slice(start, min(start + TESTS_AT_ONCE, n_test))
            fed = test.rows[tests].astype(np.float32)
            for at in range(shards[shard].start, shards[shard].stop, block):
                rows = slice(at, min(at + block, shards[shard].stop))
                use(shard, tests, rows, np.matmul(fed, voters.rows[rows].astype(np.float32).T))

    with one_linear_algebra_thread():
        in_threads(len(tasks), 1, work)


def _each_row(voters: Voters, test: Described, shards: list[slice], use: Any) -> None:
    everyone = slice(0, len(test.rows))
    tests = np.ascontiguousarray(test.rows, dtype=np.int16)

    def work(first: int, last: int) -> None:
        for shard in range(first, last):
            for at in range(shards[shard].start, shards[shard].stop, DIRECT_ROWS):
                rows = slice(at, min(at + DIRECT_ROWS, shards[shard].stop))
                products = np.empty((len(tests), rows.stop - rows.start), np.float32)
                for t in range(len(tests)):
                    products_directly(voters.rows[rows], tests[t], products[t])
                use(shard, everyone, rows, products)

    small = len(tests) * len(voters) * voters.width < WORTH_THREADS
    in_threads(len(shards), 1, work, 1 if small else -1)


@njit(nogil=True, cache=True)
def _select(
    distances: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    codes: NDArray[np.int64],
    owners: NDArray[np.int64],
    n_owners: int,
    out_distances: NDArray[np.int32],
    out_hashes: NDArray[np.uint64],
    out_codes: NDArray[np.int64],
) -> None:
    most = out_codes.shape[1]
    if most == 0:
        return
    for t in range(len(distances)):
        distance = distances[t]
        if n_owners:
            first = _first_of_each(distance, hashes, codes, owners, n_owners)
            last = smallest(distance[first], most)
            chosen = first[distance[first] <= last]
        else:
            last = smallest(distance, most)
            chosen = np.flatnonzero(distance <= last)
        keys = np.empty(len(chosen), np.int64)
        for at in range(len(chosen)):
            voter = chosen[at]
            keys[at] = (np.int64(distance[voter]) << HASH_BITS) | np.int64(hashes[voter] >> np.uint64(64 - HASH_BITS))
        order = chosen[_sorted(keys)]
        _settle(order, distance, hashes, codes)
        for at in range(most):
            out_distances[t, at] = distance[order[at]]
            out_hashes[t, at] = hashes[order[at]]
            out_codes[t, at] = codes[order[at]]


@njit(nogil=True, cache=True)
def smallest(values: NDArray[np.int32], rank: int) -> np.int64:
    """The value at a rank, from 1 on, when all are in order: by counting, then among those that count alike."""
    low, high = np.int64(values[0]), np.int64(values[0])
    for value in values:
        low, high = min(low, np.int64(value)), max(high, np.int64(value))
    shift = 0
    while (high - low) >> shift >= RANKING_BINS:
        shift += 1
    counts = np.zeros(RANKING_BINS, np.int64)
    for value in values:
        counts[(np.int64(value) - low) >> shift] += 1
    before, slot = 0, 0
    while before + counts[slot] < rank:
        before += counts[slot]
        slot += 1
    if shift == 0:
        return low + slot
    alike = np.empty(counts[slot], np.int64)
    at = 0
    for value in values:
        if (np.int64(value) - low) >> shift == slot:
            alike[at] = value
            at += 1
    return np.int64(nth_smallest(alike, rank - before - 1))


@njit(nogil=True, cache=True)
def _sorted(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of keys, stable; a function of its own because sorting takes long to compile."""
    return np.argsort(keys, kind="mergesort")


@njit(nogil=True, cache=True)
def _before(
    one: int, other: int, distance: NDArray[np.int32], hashes: NDArray[np.uint64], codes: NDArray[np.int64]
) -> bool:
    if distance[one] != distance[other]:
        return distance[one] < distance[other]
    if hashes[one] != hashes[other]:
        return hashes[one] < hashes[other]
    return codes[one] < codes[other]


@njit(nogil=True, cache=True)
def _first_of_each(
    distance: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    codes: NDArray[np.int64],
    owners: NDArray[np.int64],
    n_owners: int,
) -> NDArray[np.int64]:
    """The nearest voter of each owner that has one."""
    first = np.full(n_owners, -1, np.int64)
    for j in range(len(distance)):
        owner = owners[j]
        if first[owner] < 0 or _before(j, first[owner], distance, hashes, codes):
            first[owner] = j
    return first[first >= 0]


@njit(nogil=True, cache=True)
def _settle(
    order: NDArray[np.int64], distance: NDArray[np.int32], hashes: NDArray[np.uint64], codes: NDArray[np.int64]
) -> None:
    """Put voters right that the first bits of a hash cannot tell apart: sort each run of equal keys by all of it."""
    start = 0
    shift = np.uint64(64 - HASH_BITS)
    for at in range(1, len(order) + 1):
        if at < len(order):
            one, other = order[start], order[at]
            if distance[one] == distance[other] and hashes[one] >> shift == hashes[other] >> shift:
                continue
        if at - start > 1:
            run = order[start:at]
            copy_into(run, run[_sorted(codes[run])])
            copy_into(run, run[_sorted((hashes[run] ^ SIGN).view(np.int64))])
        start = at


AT_ONCE = 4096  # samples that a map of ours, or one that is marked, is asked about
WHOLE = np.iinfo(np.int16)


@dataclass(frozen=True)
class Map:
    """A feature map with what it leaves open decided: steps per unit, and how many numbers stand for a sample;
    ``measured_by`` says in words which samples gave that, where nobody declares it.
    """

    features: Callable[[Any], Any]
    scale: float
    width: int
    measured_by: str = ""

    @classmethod
    def of(cls, features: Any, scale: float, samples: Samples) -> Map:
        """The map for these samples; without one, what their kind calls for, with that many steps per unit.

        How many numbers it gives is what most of the samples with the smallest content hashes say.
        """
        if not (isinstance(scale, int | float) and 0 < scale < float("inf")):
            raise PoisonproofError(
                f"The 'scale' parameter must be a number of steps per unit above 0. Got {scale!r}.",
                code="map.parameter",
            )
        if isinstance(features, PublicMap):
            public = features.checked(samples)
            return cls(public, public.scale, public.width, public.measured_by)
        if features is None:
            features = _plain(samples, float(scale))
        if not callable(features) or isinstance(features, type):
            raise PoisonproofError(
                "The 'features' parameter must be a feature map, such as GlyphFeatures(), or a function from samples "
                f"to an array (n, features). Got {features!r} instead.",
                code="map.parameter",
            )
        return cls(features, float(getattr(features, "scale", scale)), 0)._measured(samples)

    def describe(self, samples: Samples, *, twice: bool = False) -> Described:
        """The features of these samples; with ``twice`` some are asked for again, in other company.

        A sample that cannot be read has features of zeros.
        """
        whole, readable = np.zeros((len(samples), self.width), np.int8), np.zeros(len(samples), np.bool_)
        errors: list[Exception] = []
        fed = np.flatnonzero(self._taken(samples))
        for start in range(0, len(fed), self._at_once):
            at = fed[start : start + self._at_once]
            given, readable[at] = self._rows(samples, at, errors)
            whole = whole.astype(np.result_type(whole, given), copy=False)
            whole[at] = given
        lengths, short = _lengths(whole)
        readable &= short
        if not readable.all():
            whole[~readable], lengths[~readable] = 0, 0
        if twice:
            if not readable.any() and len(samples):
                raise _unusable(errors)
            self._check_again(samples, readable, whole)
        return Described(whole, lengths, readable)

    def describe_new(self, samples: Samples, known: Known) -> Described:
        """The features of these samples; those that are known are not asked for again."""
        places = np.array([known.places.get(key, -1) for key in samples.each_key(np.arange(len(samples)))], np.int64)
        old = places >= 0
        new = self.describe(samples.subset(np.flatnonzero(~old))) if not old.all() else None
        kept = known.rows[places[old]]
        rows = np.zeros((len(samples), self.width), kept.dtype if new is None else np.result_type(kept, new.rows))
        rows[old], readable = kept, np.ones(len(samples), np.bool_)
        if new is not None:
            rows[~old], readable[~old] = new.rows, new.readable
        return Described(rows, squared_lengths(rows)[0], readable)

    @property
    def _at_once(self) -> int:
        """How many samples the map is asked about together: one, unless its own class says that it does not matter."""
        return AT_ONCE if declares(self.features, ONE_BY_ONE) else 1

    def _taken(self, samples: Samples) -> NDArray[np.bool_]:
        """Which samples are whole enough for the map to be asked about them."""
        takes_missing = getattr(self.features, "takes_missing", False)
        return np.ones(len(samples), np.bool_) if takes_missing else samples.complete()

    def _measured(self, samples: Samples) -> Map:
        """With the width that most of the samples with the smallest content hashes give.

        Where none of them does, the next are asked: as long as the map can read one, no sample stops the training.
        """
        order = np.argsort(samples.content_hashes, kind="stable")
        order, errors = order[self._taken(samples)[order]], []  # type: ignore[var-annotated]
        for start in range(0, len(order), MEASURED_ON):
            rows = order[start : start + MEASURED_ON]
            if widths := self._widths(samples, rows, errors):
                most = width_of_most(widths, len(rows))
                return Map(
                    self.features, self.scale, most["measured_width"], "" if self._at_once > 1 else most["measured_by"]
                )
        raise _unusable(errors)

    def _widths(self, samples: Samples, rows: NDArray[np.int64], errors: list[Exception]) -> list[int]:
        asked = (self._try(samples, row[None], errors) for row in rows)
        return [one[0].shape[1] for one in asked if one is not None and one[1][0]]

    def _rows(
        self, samples: Samples, rows: NDArray[np.int64], errors: list[Exception]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Whole numbers for samples, and which of them the map could read; the others are zeros."""
        asked = self._try(samples, rows, errors)
        if asked is not None and asked[0].shape[1] == self.width:
            return asked
        if len(rows) == 1:
            return np.zeros((1, self.width), np.int8), np.zeros(1, np.bool_)
        alone = [self._rows(samples, row[None], errors) for row in rows]
        return np.concatenate([given for given, _ in alone]), np.concatenate([numbers for _, numbers in alone])

    def _try(
        self, samples: Samples, rows: NDArray[np.int64], errors: list[Exception]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """As `_ask`; None, and the reason among the errors, where the map raised."""
        try:
            return self._ask(samples, rows)
        except MemoryError:
            raise
        except Exception as error:
            errors.append(error)
            return None

    def _ask(self, samples: Samples, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """What the map says of some samples, as whole numbers, and which answers were numbers."""
        given = self.features(samples.take(rows))
        given = np.asarray(given.toarray() if sp.issparse(given) else given)
        if given.ndim == 3:
            given = given[:, 0]
        if given.ndim != 2 or len(given) != len(rows) or given.shape[1] == 0 or given.dtype.kind not in "iufb":
            raise PoisonproofError(
                f"The feature map must give a row of numbers for each of {len(rows)} samples. Got an array of shape "
                f"{given.shape} and dtype {given.dtype}.",
                code="map.output",
            )
        if given.dtype.kind == "f":
            numbers = np.isfinite(given).all(axis=1)
            plain = np.where(numbers[:, None], given, 0.0)
            return VectorFeatures(scale=self.scale, limit=LONGEST)(plain)[:, 0], numbers
        if given.dtype in (np.int8, np.int16):
            return given, np.ones(len(given), np.bool_)
        small = np.all((given >= WHOLE.min) & (given <= WHOLE.max), axis=1)
        return np.where(small[:, None], given, 0).astype(np.int16), small

    def _check_again(self, samples: Samples, readable: NDArray[np.bool_], whole: NDArray[Any]) -> None:
        """Ask again about the samples with the smallest content hashes, which no order and no sender decides."""
        known, errors = np.flatnonzero(readable), []  # type: ignore[var-annotated]
        again = known[np.argsort(samples.content_hashes[known], kind="stable")[:ASKED_TWICE]]
        for at in np.split(again[::-1], range(self._at_once, len(again), self._at_once)):
            asked = self._try(samples, at, errors)
            if asked is None:
                raise PoisonproofError(
                    f"The feature map raised when it was asked twice ({errors[0]}).", code="map.impure"
                )
            given, numbers = asked
            if not numbers.all() or given.shape[1] != whole.shape[1] or (given != whole[at]).any():
                raise PoisonproofError(
                    "The feature map gave other numbers when it was asked about the same samples again; it must be a "
                    "fixed function of one sample: no random numbers, no dropout, nothing taken from the batch.",
                    code="map.impure",
                )


def _unusable(errors: list[Exception]) -> PoisonproofError:
    if errors:
        return PoisonproofError(f"The feature map could read no sample; it said: {errors[0]}", code="map.output")
    return PoisonproofError(
        "The feature map gave no usable numbers for any sample: NaN, infinity, missing values that it does not take, "
        f"another number of them each time, or vectors longer than {LONGEST} steps; choose a smaller scale.",
        code="map.output",
    )


def _plain(samples: Samples, scale: float) -> Any:
    """The map of a kind of samples, where none is given; a table of numbers is what an array of them is."""
    if isinstance(samples, TableSamples) and not all(column.numeric for column in samples.columns):
        return TableFeatures.from_rows(samples, trusted=False, scale=scale)
    return VectorFeatures(scale=scale) if samples.kind in ("numbers", "tables") else HashedFeatures()


def _lengths(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    lengths, short = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    for start in range(0, len(rows), AT_ONCE):
        batch = slice(start, start + AT_ONCE)
        lengths[batch], short[batch] = squared_lengths(rows[batch])
    return lengths, short
