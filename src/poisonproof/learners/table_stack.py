"""Many fitted linear base classifiers as one array: one kernel gives all their votes, summed as each would sum alone.

The score of a base classifier is a sum in a fixed order: bias, numbers, flags of missing numbers, categories, words.
The kernel goes through that order once and adds for all base classifiers side by side, so every sum has the same terms
in the same order and the votes are the same to the bit. A term that is nought (a category that a sample does not have)
may be left out or added: no comparison of finite sums sees it. Where nothing but numbers is read, most votes come from
one matrix product (`Folded`): those that no rounding can decide. Only a learner's very own class is stacked, nothing
derived from it, which may answer otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.learners.table import TableClassifier
from poisonproof.learners.text import BayesTextClassifier, RidgeTextClassifier, TextClassifier, WordReading
from poisonproof.samples.batches import MISSING_NAME
from poisonproof.system.compiled import njit

NUMBERS, OBJECTS, CATEGORIES, TEXTS = "number", "object", "category", "text"
AT_ONCE = 8  # rows that share a pass over the weights
LARGEST = 1e280  # of a weight
BY_PRODUCT = 8  # rows from which on a matrix product is worth its preparation
UNIT = 2.0**-53
LEAST, MOST, FARTHEST = 1e-280, 1e30, 1e300  # beyond these, over- and underflow would have to be counted


LEARNERS: dict[str, type[Any]] = {
    "table": TableClassifier,
    "text": TextClassifier,
    "bayes": BayesTextClassifier,
    "ridge": RidgeTextClassifier,
}
NAMES = {kind: name for name, kind in LEARNERS.items()}


def reading_of(learner: Any) -> WordReading | None:
    """How a learner among `LEARNERS` reads words."""
    return None if isinstance(learner, TableClassifier) else learner.readings[0]


def _encoder_of(model: Any) -> TableClassifier | None:
    """What encodes the columns that hold no texts, if there are any."""
    return model if isinstance(model, TableClassifier) else getattr(model, "table_", None)


@dataclass(frozen=True, eq=False)
class Words:
    """The words of some samples, as one stack reads them.

    ``features`` and ``values`` are those of sparse rows, from ``begins[i]`` to the next; a feature is its number among
    those that occur in any of the samples, and ``places`` are what `TableStack.places_of` says of each of these.
    """

    begins: NDArray[np.int64]
    features: NDArray[np.int64]
    values: NDArray[np.float64]
    places: NDArray[np.int64]

    @classmethod
    def none(cls, n_samples: int) -> Words:
        """No sample has any."""
        nothing = np.zeros(0, np.int64)
        return cls(np.zeros(n_samples + 1, np.int64), nothing, np.zeros(0), nothing)

    def __getitem__(self, part: slice) -> Words:
        return replace(self, begins=self.begins[part.start : part.stop + 1])


@dataclass(frozen=True, eq=False)
class TableStack:
    """Base classifiers that read their columns, and their words if they read any, in the same way.

    Slots are scores: one for each class of a base classifier's subset, or a single one where it has two classes. Lane j
    is base classifier j; whatever it lacks of slots, categories or words is nought.

    Attributes
    ----------
    kinds : tuple of str, or None
        How each column of a table is read; None for arrays and sparse rows.
    sparse : bool
        Whether they were trained on sparse rows.
    slots : array (lanes,)
    bias : array (slots, lanes)
    mean, scale : arrays (numbers, lanes)
    weights, flags : arrays (numbers, slots, lanes)
    flagged : array (numbers, lanes) of bool
        Which numbers were missing somewhere in the subset.
    names : tuple of tuples of str
        The categories of each column that holds neither numbers nor texts, those of all base classifiers.
    words : array
        The features of words that any base classifier has weights for, in increasing order.
    starts : array
        Where the entries of each name begin, over all columns, and then those of each word.
    lanes : array (entries,)
        Which base classifier has that category or word.
    entries : array (entries, slots)
        Its weights.
    iterations : array (lanes,)
    reading : WordReading, or None
        How words are read.
    """

    kinds: tuple[str, ...] | None
    sparse: bool
    slots: NDArray[np.int64]
    bias: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]
    flags: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    names: tuple[tuple[str, ...], ...]
    words: NDArray[np.int64]
    starts: NDArray[np.int64]
    lanes: NDArray[np.uint16]
    entries: NDArray[np.float64]
    iterations: NDArray[np.int64]
    reading: WordReading | None = None

    def __len__(self) -> int:
        return len(self.slots)

    @classmethod
    def of(cls, models: Sequence[Any], kinds: tuple[str, ...] | None, reading: WordReading | None = None) -> TableStack:
        """Of fitted models of `LEARNERS` whose columns are of these kinds, and whose words are read like this."""
        encoders, m = [_encoder_of(model) for model in models], len(models)
        first, sparse = encoders[0], encoders[0] is not None and encoders[0].sparse_
        slots = np.array([len(model.bias_) for model in models])
        n_scaled = 0 if first is None else len(first.mean_)
        k, n_numbers = int(slots.max()), models[0].weights_.shape[1] if sparse else n_scaled
        bias, weights, flags = np.zeros((k, m)), np.zeros((n_numbers, k, m)), np.zeros((n_numbers, k, m))
        mean, scale, flagged = np.zeros((n_scaled, m)), np.ones((n_scaled, m)), np.zeros((n_scaled, m), np.bool_)
        columns = [] if first is None else [at for at, held in enumerate(first.categories_) if held is not None]
        of_lane = [[encoder.categories_[at] or [] for at in columns] if encoder else [] for encoder in encoders]
        names = tuple(
            tuple(sorted({name for categories in of_lane for name in categories[at]})) for at in range(len(columns))
        )
        firsts = np.cumsum([0, *map(len, names)]).tolist()
        numbers = [
            {name: number for number, name in enumerate(vocabulary, begun)}
            for vocabulary, begun in zip(names, firsts, strict=False)
        ]
        none = np.zeros(0, np.int64)
        held_words = [none if reading is None else model.held_ for model in models]
        words = np.unique(np.concatenate(held_words))
        number_of: list[NDArray[np.int64]] = []  # the number of the name or word of every entry, lane by lane
        learned_of: list[NDArray[np.float64]] = []
        for lane, (model, encoder) in enumerate(zip(models, encoders, strict=True)):
            learned, here = model.weights_, slots[lane]
            missed = none if encoder is None else encoder.flagged_
            bias[:here, lane] = model.bias_
            weights[:, :here, lane] = learned[:, :n_numbers].T
            if encoder is not None and n_scaled:
                mean[:, lane], scale[:, lane] = encoder.mean_, encoder.scale_
                flagged[missed, lane] = True
                flags[missed, :here, lane] = learned[:, n_numbers : n_numbers + len(missed)].T
            held = [
                number
                for categories, known in zip(of_lane[lane], numbers, strict=True)
                for number in map(known.__getitem__, categories)
            ]
            number_of += [np.array(held, np.int64), firsts[-1] + np.searchsorted(words, held_words[lane])]
            entry = np.zeros((len(held) + len(held_words[lane]), k))
            entry[:, :here] = learned[:, n_numbers + len(missed) :].T
            learned_of.append(entry)
        lane_of = np.repeat(np.arange(m, dtype=np.uint16), [len(entry) for entry in learned_of])
        numbered = np.concatenate(number_of)
        order = np.argsort(numbered, kind="stable")
        lanes, entries = lane_of[order], np.concatenate(learned_of)[order]
        counts = np.bincount(numbered, minlength=firsts[-1] + len(words))
        starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        iterations = np.array([getattr(model, "n_iter_", 0) for model in models], np.int64)
        return cls(
            kinds, sparse, slots, bias, mean, scale, weights, flags, flagged, names, words, starts, lanes,
            entries, iterations, reading,
        )  # fmt: skip

    def model(self, lane: int, learner: Any, n_features: int, feature_names: NDArray[Any] | None) -> Any:
        """One base classifier as it was fitted, of this unfitted learner."""
        k, flagged = int(self.slots[lane]), np.flatnonzero(self.flagged[:, lane])
        by_lane, ends, number_of = self._by_lane
        here = by_lane[ends[lane] : ends[lane + 1]]
        pieces = [self.weights[:, :k, lane], self.flags[flagged, :k, lane], self.entries[here, :k]]
        learner.classes_ = np.arange(max(k, 2))
        learner.weights_ = np.ascontiguousarray(np.concatenate(pieces).T)
        learner.bias_ = self.bias[:k, lane].copy()
        n_names = sum(map(len, self.names))
        numbers = number_of[here]  # which increase
        others = [at for at, kind in enumerate(self.kinds or ()) if kind != TEXTS]
        if isinstance(learner, TableClassifier):
            table: Any = learner
            table.n_iter_, table.n_features_in_ = int(self.iterations[lane]), n_features
            if feature_names is not None:
                table.feature_names_in_ = feature_names
        else:
            learner.held_ = self.words[numbers[numbers >= n_names] - n_names]
            table = TableClassifier() if others else None
            if isinstance(learner, TextClassifier):
                learner.others_, learner.table_ = others, table
        if table is not None:
            table.sparse_, table.flagged_ = self.sparse, flagged
            table.mean_, table.scale_ = self.mean[:, lane].copy(), self.scale[:, lane].copy()
            table.categories_ = self._categories(numbers[numbers < n_names].tolist(), others)
        return learner

    def _categories(self, named: list[int], others: list[int]) -> list[list[str] | None]:
        """The categories with these numbers, of each column that holds no texts; None for one of numbers."""
        columns = range(len(self.mean)) if self.kinds is None else others
        categories: dict[int, list[str] | None] = dict.fromkeys(columns)
        first, begun = 0, 0
        for column, vocabulary in zip(self.category_columns, self.names, strict=True):
            end = bisect_left(named, first + len(vocabulary), begun)
            categories[column] = [vocabulary[number - first] for number in named[begun:end]]
            first, begun = first + len(vocabulary), end
        return list(categories.values())

    @cached_property
    def _by_lane(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Entries lane by lane, each lane's in the order of their names; where lanes end; the name of every entry."""
        number_of = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        ends = np.concatenate(([0], np.cumsum(np.bincount(self.lanes, minlength=len(self)))))
        return np.argsort(self.lanes, kind="stable"), ends, number_of

    @cached_property
    def category_columns(self) -> tuple[int, ...]:
        """The columns that are neither numbers nor texts."""
        return tuple(at for at, kind in enumerate(self.kinds or ()) if kind not in (NUMBERS, TEXTS))

    @cached_property
    def places(self) -> tuple[dict[str, int], ...]:
        """For each of them, the number of a name among those of all columns."""
        firsts = np.cumsum([0, *map(len, self.names)]).tolist()
        return tuple(
            {name: first + at for at, name in enumerate(vocabulary)}
            for first, vocabulary in zip(firsts, self.names, strict=False)
        )

    @cached_property
    def finite(self) -> bool:
        """Whether nought times any weight is nought, on which leaving terms out relies, and no sum of words overflows.

        So it does not matter whether the larger of two scores of words is asked for, or the sign of their difference.
        """
        return all(
            bool(part.min(initial=0.0) >= -LARGEST and part.max(initial=0.0) <= LARGEST)
            for part in (self.bias, self.weights, self.flags, self.entries)
        )

    @cached_property
    def otherwise(self) -> NDArray[np.float64]:
        """What a cell adds that is none of a base classifier's categories, an array (columns, slots, lanes).

        A category that the subset does not have is missing there, and counts as missing cells of the subset do; a text
        of a column that was not declared categorical counts as none.
        """
        added = np.zeros((len(self.names), *self.bias.shape))
        for at, (column, places) in enumerate(zip(self.category_columns, self.places, strict=True)):
            number = places.get(MISSING_NAME)
            if number is not None and self.kinds is not None and self.kinds[column] == CATEGORIES:
                span = slice(self.starts[number], self.starts[number + 1])
                added[at][:, self.lanes[span]] = self.entries[span].T
        return added

    def places_of(self, features: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each of these features, which increase, among names and words; -1 for a word nobody has."""
        if not len(self.words):
            return np.full(len(features), -1)
        places = np.minimum(np.searchsorted(self.words, features), len(self.words) - 1)
        return np.where(self.words[places] == features, sum(map(len, self.names)) + places, -1)

    def best(
        self, numbers: NDArray[np.float64], codes: NDArray[np.int64], words: Words | None = None
    ) -> NDArray[np.uint16]:
        """The class of the highest score of each lane, an array (rows, lanes) of places in its own classes.

        ``numbers`` are (rows, numbers), ``codes`` (rows, columns) the number of a cell's name, or -1.
        """
        by_product = len(numbers) >= BY_PRODUCT and numbers.shape[1] and not self.names and self.reading is None
        if by_product and not np.isnan(numbers).any():
            return self.folded.best(numbers, self)
        return self.summed(numbers, codes, words)

    @cached_property
    def folded(self) -> Folded:
        """For many rows at once."""
        return Folded.of(self)

    def summed(
        self, numbers: NDArray[np.float64], codes: NDArray[np.int64], words: Words | None = None
    ) -> NDArray[np.uint16]:
        """The same, all scores summed in the fixed order."""
        words = words or Words.none(len(numbers))
        best = np.empty((len(numbers), len(self)), np.uint16)
        _best(
            numbers, codes, words.begins, words.features, words.values, words.places, self.slots, self.bias, self.mean,
            self.scale, self.weights, self.flags, self.starts, self.lanes, self.entries, self.otherwise, best,
        )  # fmt: skip
        return best

    def best_of_sparse(self, rows: Any) -> NDArray[np.uint16]:
        """The same for sparse rows."""
        best = np.empty((rows.shape[0], len(self)), np.uint16)
        _best_of_sparse(rows.indptr, rows.indices, rows.data, self.slots, self.bias, self.weights, best)
        return best


@njit(nogil=True, cache=True)
def _highest(scores: NDArray[np.float64], slots: NDArray[np.int64], best: NDArray[np.uint16]) -> None:
    """As `numpy.argmax` finds it: the first NaN, or else the first of the largest; above 0 where there is one score."""
    for lane in range(len(slots)):
        if slots[lane] == 1:
            best[lane] = 1 if scores[0, lane] > 0 else 0
            continue
        highest = 0
        for c in range(slots[lane]):
            if scores[c, lane] != scores[c, lane]:
                highest = c
                break
            if scores[c, lane] > scores[highest, lane]:
                highest = c
        best[lane] = highest


@njit(nogil=True, cache=True, inline="always")
def _scale(value: float, mean: NDArray[np.float64], scale: NDArray[np.float64], scaled: NDArray[np.float64]) -> None:
    if value != value:
        scaled[:] = 0.0
    else:
        for lane in range(len(scaled)):
            scaled[lane] = (value - mean[lane]) / scale[lane]


@njit(nogil=True, cache=True, inline="always")
def _add_products(scores: NDArray[np.float64], scaled: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    for lane in range(len(scores)):
        scores[lane] += scaled[lane] * weights[lane]


@njit(nogil=True, cache=True, inline="always")
def _add(scores: NDArray[np.float64], added: NDArray[np.float64]) -> None:
    for lane in range(len(scores)):
        scores[lane] += added[lane]


@njit(nogil=True, cache=True)
def _best(
    numbers: NDArray[np.float64],
    codes: NDArray[np.int64],
    begins: NDArray[Any],
    features: NDArray[np.int64],
    values: NDArray[np.float64],
    places: NDArray[np.int64],
    slots: NDArray[np.int64],
    bias: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    weights: NDArray[np.float64],
    flags: NDArray[np.float64],
    starts: NDArray[np.int64],
    lanes: NDArray[np.uint16],
    entries: NDArray[np.float64],
    otherwise: NDArray[np.float64],
    best: NDArray[np.uint16],
) -> None:
    k, m = bias.shape
    scores, scaled, added = np.empty((AT_ONCE, k, m)), np.empty((AT_ONCE, m)), np.empty((k, m))
    for start in range(0, len(numbers), AT_ONCE):
        count = min(AT_ONCE, len(numbers) - start)
        for at in range(count):
            scores[at] = bias
        for number in range(numbers.shape[1]):
            for at in range(count):
                _scale(numbers[start + at, number], mean[number], scale[number], scaled[at])
            for c in range(k):
                for at in range(count):
                    _add_products(scores[at, c], scaled[at], weights[number, c])
        for at in range(count):
            for number in range(numbers.shape[1]):
                if numbers[start + at, number] != numbers[start + at, number]:
                    for c in range(k):
                        _add(scores[at, c], flags[number, c])
            for column in range(codes.shape[1]):
                code = codes[start + at, column]
                added[:] = otherwise[column]
                if code >= 0:
                    for entry in range(starts[code], starts[code + 1]):
                        for c in range(k):
                            added[c, lanes[entry]] = entries[entry, c]
                for c in range(k):
                    _add(scores[at, c], added[c])
            for word in range(begins[start + at], begins[start + at + 1]):
                place = places[features[word]]
                if place >= 0:
                    for entry in range(starts[place], starts[place + 1]):
                        for c in range(k):
                            scores[at, c, lanes[entry]] += values[word] * entries[entry, c]
            _highest(scores[at], slots, best[start + at])


@njit(nogil=True, cache=True)
def _best_of_sparse(
    begins: NDArray[Any],
    features: NDArray[Any],
    values: NDArray[np.float64],
    slots: NDArray[np.int64],
    bias: NDArray[np.float64],
    weights: NDArray[np.float64],
    best: NDArray[np.uint16],
) -> None:
    k, m = bias.shape
    scores = np.empty((k, m))
    for row in range(len(best)):
        scores[:] = bias
        for at in range(begins[row], begins[row + 1]):
            for c in range(k):
                for lane in range(m):
                    scores[c, lane] += values[at] * weights[features[at], c, lane]
        _highest(scores, slots, best[row])


@dataclass(frozen=True, eq=False)
class Folded:
    """Weights with scales and means folded in: score = x · weights + constant, all slots of all lanes side by side.

    A product in any order, by any BLAS, differs from a sum in the fixed order by no more than a known multiple of the
    unit roundoff u. With N numbers, either is within γ·T of the true score, where γ ≤ 1.01·(2N + 10)·u and
    T = |b| + Σ (|x| + |μ|)·|w/σ| bounds the sum of all magnitudes (Higham, Accuracy and Stability, §3.1), as long as
    nothing overflows and what underflows is too small to count. So a class that leads the product by more than 4·γ·T
    leads the sum too; any other sample and base classifier is summed in the fixed order. Votes are the same to the bit,
    however many threads the product is made by.

    ``at_rest`` and ``by_length`` bound T of each lane: at_rest + by_length · ‖x‖. Rows that are longer than ``reach``
    are summed.
    """

    weights: NDArray[np.float64]
    constant: NDArray[np.float64]
    at_rest: NDArray[np.float64]
    by_length: NDArray[np.float64]
    reach: NDArray[np.float64]

    @classmethod
    def of(cls, stack: TableStack) -> Folded:
        """Of a stack that reads nothing but numbers."""
        with np.errstate(all="ignore"):
            folded = stack.weights / stack.scale[:, None, :]
            shifts = folded * stack.mean[:, None, :]
            at_rest = (np.abs(stack.bias) + np.abs(shifts).sum(axis=0)).max(axis=0)
            by_length = np.sqrt(np.square(folded).sum(axis=0)).max(axis=0)
            constant = stack.bias - shifts.sum(axis=0)
            largest = np.maximum(np.abs(stack.weights).max(axis=(0, 1)), np.abs(stack.mean).max(axis=0))
            reach = np.minimum(MOST, FARTHEST * stack.scale.min(axis=0) - largest)
        reach[~(largest <= MOST)] = 0.0
        return cls(folded.reshape(len(folded), -1), constant.ravel(), at_rest, by_length, reach)

    def best(self, numbers: NDArray[np.float64], stack: TableStack) -> NDArray[np.uint16]:
        """What `TableStack.best` gives, for rows without a missing number."""
        best = np.empty((len(numbers), len(stack)), np.uint16)
        with np.errstate(all="ignore"):
            scores = numbers @ self.weights
            scores += self.constant
            lengths = np.sqrt(np.square(numbers).sum(axis=1))
        step = 4 * 1.01 * (2 * numbers.shape[1] + 10) * UNIT
        _decide(
            scores.reshape(len(numbers), *stack.bias.shape), lengths, step, self.at_rest, self.by_length, self.reach,
            numbers, stack.slots, stack.bias, stack.mean, stack.scale, stack.weights, best,
        )  # fmt: skip
        return best


@njit(nogil=True, cache=True)
def _decide(
    scores: NDArray[np.float64],
    lengths: NDArray[np.float64],
    step: float,
    at_rest: NDArray[np.float64],
    by_length: NDArray[np.float64],
    reach: NDArray[np.float64],
    numbers: NDArray[np.float64],
    slots: NDArray[np.int64],
    bias: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    weights: NDArray[np.float64],
    best: NDArray[np.uint16],
) -> None:
    k, m = bias.shape
    first, second, place = np.empty(m), np.empty(m), np.empty(m)
    for row in range(len(scores)):
        first[:] = scores[row, 0]
        second[:] = -np.inf
        place[:] = 0.0
        for c in range(1, k):
            score = scores[row, c]
            for lane in range(m):
                value = score[lane] if c < slots[lane] else -np.inf
                above = value > first[lane]
                second[lane] = max(second[lane], first[lane] if above else value)
                place[lane] = c if above else place[lane]
                first[lane] = value if above else first[lane]
        for lane in range(m):
            bound = step * 1.01 * (at_rest[lane] + by_length[lane] * lengths[row]) + LEAST
            if slots[lane] == 1:
                decided = abs(first[lane]) > bound
                best[row, lane] = 1 if first[lane] > 0 else 0
            else:
                decided = first[lane] - second[lane] > bound
                best[row, lane] = int(place[lane])
            if not (decided and lengths[row] < reach[lane]):
                best[row, lane] = _summed(numbers[row], lane, slots[lane], bias, mean, scale, weights)


@njit(nogil=True, cache=True)
def _summed(
    values: NDArray[np.float64],
    lane: int,
    slots: int,
    bias: NDArray[np.float64],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> int:
    """One base classifier's answer on one sample, in the fixed order; as `numpy.argmax` finds it."""
    highest, best = 0.0, 0
    for c in range(slots):
        score = bias[c, lane]
        for number in range(len(values)):
            score += (values[number] - mean[number, lane]) / scale[number, lane] * weights[number, c, lane]
        if slots == 1:
            return 1 if score > 0 else 0
        if score != score:
            return c
        if c == 0 or score > highest:
            highest, best = score, c
    return best
