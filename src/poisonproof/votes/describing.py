"""From samples to whole numbers, through a map that somebody else may have written: what it gives is checked.

A map is a function of one sample. What shows that it is not, or gives no numbers at all, is refused. What it cannot do
with one row stays with that row: such a row cannot be read, and nothing else depends on it. A map of somebody else's is
asked about one sample at a time, so that no company changes last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.learners.encoded import MEASURED_ON, checked_encoder
from poisonproof.maps.asking import ask_map
from poisonproof.maps.encoders import ASKED_TWICE, Encoder, width_of_most
from poisonproof.maps.hashed import HashedFeatures
from poisonproof.maps.tables import TableFeatures
from poisonproof.maps.vectors import LONGEST, VectorFeatures
from poisonproof.samples.batch import ONE_BY_ONE, declares
from poisonproof.samples.kinds import Samples, TableSamples
from poisonproof.votes.nearness import squared_lengths
from poisonproof.votes.voters import Described, Known

AT_ONCE = 4096  # samples that a map of ours, or one that is marked, is asked about
WHOLE = np.iinfo(np.int16)


@dataclass(frozen=True)
class Map:
    """A feature map with what it leaves open decided: steps per unit, whether vectors carry their mirror image, and how
    many numbers stand for a sample; ``measured_by`` says in words which samples gave that, where nobody declares it.
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
            raise PoisonproofError(f"The 'scale' parameter must be a number of steps per unit above 0. Got {scale!r}.")
        if isinstance(features, Encoder):
            encoder = checked_encoder(features, samples)
            return cls(encoder, encoder.scale, encoder.width, encoder.measured_by)
        if features is None:
            features = _plain(samples, float(scale))
        if not callable(features) or isinstance(features, type):
            raise PoisonproofError(
                "The 'features' parameter must be a feature map, such as DigitFeatures(), or a function from samples "
                f"to an array (n, features). Got {features!r} instead."
            )
        return cls(features, float(getattr(features, "scale", scale)), 0)._measured(samples)

    @property
    def mirrored(self) -> bool:
        """Whether the second half of a vector is the first half of the mirrored sample's."""
        return bool(getattr(self.features, "mirrored", False))

    def describe(self, samples: Samples, rows: NDArray[np.int64] | None = None, *, twice: bool = False) -> Described:
        """The features of these samples; with ``twice`` some are asked for again, in other company.

        A sample that cannot be read has features of zeros.
        """
        rows = np.arange(len(samples)) if rows is None else rows
        whole, readable = np.zeros((len(rows), self.width), np.int8), np.zeros(len(rows), np.bool_)
        errors: list[Exception] = []
        fed = np.flatnonzero(self._taken(samples)[rows])
        for start in range(0, len(fed), self._at_once):
            at = fed[start : start + self._at_once]
            given, readable[at] = self._rows(samples, rows[at], errors)
            whole = whole.astype(np.result_type(whole, given), copy=False)
            whole[at] = given
        if self.mirrored and self.width % 2:
            raise PoisonproofError(f"Mirrored features need an even number of them. Got {self.width}.")
        lengths, short = _lengths(whole, self.mirrored)
        readable &= short
        if not readable.all():
            whole[~readable], lengths[~readable] = 0, 0
        if twice:
            if not readable.any() and len(rows):
                raise _unusable(errors)
            self._check_again(samples, rows, readable, whole)
        return Described(whole, lengths, readable)

    def describe_new(self, samples: Samples, known: Known) -> Described:
        """The features of these samples; those that are known are not asked for again."""
        places = np.array([known.places.get(key, -1) for key in samples.each_key(np.arange(len(samples)))], np.int64)
        old = places >= 0
        new = self.describe(samples, np.flatnonzero(~old)) if not old.all() else None
        kept = known.rows[places[old]]
        rows = np.zeros((len(samples), self.width), kept.dtype if new is None else np.result_type(kept, new.rows))
        rows[old], readable = kept, np.ones(len(samples), np.bool_)
        if new is not None:
            rows[~old], readable[~old] = new.rows, new.readable
        return Described(rows, squared_lengths(rows, mirrored=self.mirrored)[0], readable)

    def with_views(self, samples: Samples, described: Described) -> Described:
        """Test samples with what the map says of their other views, if it has any."""
        if not hasattr(self.features, "views"):
            return described
        rows = np.flatnonzero(described.readable)
        pieces = [self._views(samples, rows[at : at + AT_ONCE]) for at in range(0, len(rows), AT_ONCE)]
        n_views = pieces[0].shape[1] if pieces else 0
        views = np.zeros((len(samples), n_views, described.rows.shape[1]), np.int16)
        if pieces:
            views[rows] = np.concatenate(pieces)
        lengths, short = _lengths(views.reshape(-1, views.shape[2]), self.mirrored)
        if not short.all():
            raise PoisonproofError(f"The feature map gave a view longer than {LONGEST} steps; choose a smaller scale.")
        return described._replace(views=views, view_lengths=lengths.reshape(views.shape[:2]))

    def _views(self, samples: Samples, rows: NDArray[np.int64]) -> NDArray[np.int16]:
        given = ask_map(self.features, samples.take(rows), "views")
        if given.ndim != 3 or len(given) != len(rows) or given.dtype not in (np.int8, np.int16):
            raise PoisonproofError(
                f"The views of a feature map must be whole numbers, (n, views, features). Got {given.dtype} of shape "
                f"{given.shape}."
            )
        return given.astype(np.int16)

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
        widths = []
        for row in rows:
            try:
                given, numbers = self._ask(samples, row[None])
            except MemoryError:
                raise
            except Exception as error:
                errors.append(error)
            else:
                widths += [given.shape[1]] if numbers[0] else []
        return widths

    def _rows(
        self, samples: Samples, rows: NDArray[np.int64], errors: list[Exception]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Whole numbers for samples, and which of them the map could read; the others are zeros."""
        try:
            given, numbers = self._ask(samples, rows)
            if given.shape[1] == self.width:
                return given, numbers
        except MemoryError:
            raise
        except Exception as error:
            errors.append(error)
        if len(rows) == 1:
            return np.zeros((1, self.width), np.int8), np.zeros(1, np.bool_)
        alone = [self._rows(samples, row[None], errors) for row in rows]
        return np.concatenate([given for given, _ in alone]), np.concatenate([numbers for _, numbers in alone])

    def _ask(self, samples: Samples, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """What the map says of some samples, as whole numbers, and which answers were numbers."""
        given = self.features(samples.take(rows))
        given = np.asarray(given.toarray() if sp.issparse(given) else given)
        if given.ndim == 3:
            given = given[:, 0]
        if given.ndim != 2 or len(given) != len(rows) or given.shape[1] == 0 or given.dtype.kind not in "iufb":
            raise PoisonproofError(
                f"The feature map must give a row of numbers for each of {len(rows)} samples. Got an array of shape "
                f"{given.shape} and dtype {given.dtype}."
            )
        if given.dtype.kind == "f":
            numbers = np.isfinite(given).all(axis=1)
            plain = np.where(numbers[:, None], given, 0.0)
            return VectorFeatures(scale=self.scale, limit=LONGEST)(plain)[:, 0], numbers
        if given.dtype in (np.int8, np.int16):
            return given, np.ones(len(given), np.bool_)
        small = np.all((given >= WHOLE.min) & (given <= WHOLE.max), axis=1)
        return np.where(small[:, None], given, 0).astype(np.int16), small

    def _check_again(
        self, samples: Samples, rows: NDArray[np.int64], readable: NDArray[np.bool_], whole: NDArray[Any]
    ) -> None:
        """Ask again about the samples with the smallest content hashes, which no order and no sender decides."""
        known = np.flatnonzero(readable)
        again = known[np.argsort(samples.content_hashes[rows[known]], kind="stable")[:ASKED_TWICE]]
        for at in np.split(again[::-1], range(self._at_once, len(again), self._at_once)):
            try:
                given, numbers = self._ask(samples, rows[at])
            except MemoryError:
                raise
            except Exception as error:
                raise PoisonproofError(f"The feature map raised when it was asked twice ({error}).") from None
            if not numbers.all() or given.shape[1] != whole.shape[1] or (given != whole[at]).any():
                raise PoisonproofError(
                    "The feature map gave other numbers when it was asked about the same samples again; it must be a "
                    "fixed function of one sample: no random numbers, no dropout, nothing taken from the batch."
                )


def _unusable(errors: list[Exception]) -> PoisonproofError:
    if errors:
        return PoisonproofError(f"The feature map could read no sample; it said: {errors[0]}")
    return PoisonproofError(
        "The feature map gave no usable numbers for any sample: NaN, infinity, missing values that it does not take, "
        f"another number of them each time, or vectors longer than {LONGEST} steps; choose a smaller scale."
    )


def _plain(samples: Samples, scale: float) -> Any:
    """The map of a kind of samples, where none is given; a table of numbers is what an array of them is."""
    if isinstance(samples, TableSamples) and not all(column.numeric for column in samples.columns):
        return TableFeatures.from_rows(samples, trusted=False, scale=scale)
    return VectorFeatures(scale=scale) if samples.kind in ("numbers", "tables") else HashedFeatures()


def _lengths(rows: NDArray[Any], mirrored: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    lengths, short = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    for start in range(0, len(rows), AT_ONCE):
        batch = slice(start, start + AT_ONCE)
        lengths[batch], short[batch] = squared_lengths(rows[batch], mirrored=mirrored)
    return lengths, short
