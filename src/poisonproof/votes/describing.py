"""From samples to whole numbers, through a map that somebody else may have written: what it gives is checked.

A map is a function of one sample. What shows that it is not, or gives no numbers at all, is refused. What it cannot do
with one row stays with that row: such a row cannot be read, and nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.hashed import HashedFeatures
from poisonproof.maps.tables import TableFeatures
from poisonproof.maps.vectors import LONGEST, VectorFeatures
from poisonproof.samples.kinds import Samples, TableSamples
from poisonproof.votes.nearness import squared_lengths
from poisonproof.votes.voters import Described, Known

OWN = "poisonproof.maps."
BATCH = 512  # a map of others is always asked about so many samples, so that no company changes last bits
OWN_BATCH = 4096  # ours answer to the bit, whatever the batch
ASKED_TWICE = 8
WHOLE = np.iinfo(np.int16)


@dataclass(frozen=True)
class Map:
    """A feature map with what it leaves open decided: steps per unit, and whether vectors carry their mirror image."""

    features: Callable[[Any], Any]
    scale: float

    @classmethod
    def of(cls, features: Any, scale: float, samples: Samples) -> Map:
        """The map for these samples; without one, what their kind calls for, with that many steps per unit."""
        if not (isinstance(scale, int | float) and 0 < scale < float("inf")):
            raise PoisonproofError(f"The 'scale' parameter must be a number of steps per unit above 0. Got {scale!r}.")
        if features is None:
            plain = _plain(samples, float(scale))
            return cls(plain, float(plain.scale))
        if not callable(features) or isinstance(features, type):
            raise PoisonproofError(
                "The 'features' parameter must be a feature map, such as DigitFeatures(), or a function from samples "
                f"to an array (n, features). Got {features!r} instead."
            )
        return cls(features, float(getattr(features, "scale", scale)))

    @property
    def mirrored(self) -> bool:
        """Whether the second half of a vector is the first half of the mirrored sample's."""
        return bool(getattr(self.features, "mirrored", False))

    @property
    def _own(self) -> bool:
        return type(self.features).__module__.startswith(OWN)

    def describe(self, samples: Samples, rows: NDArray[np.int64] | None = None, *, twice: bool = False) -> Described:
        """The features of these samples; with ``twice`` some are asked for again, in other company.

        A sample that cannot be read has features of zeros.
        """
        rows = np.arange(len(samples)) if rows is None else rows
        readable = np.ones(len(rows), np.bool_)
        if not getattr(self.features, "takes_missing", False):
            readable &= samples.complete()[rows]
        size = OWN_BATCH if self._own else BATCH
        pieces: list[NDArray[Any]] = []
        errors: list[Exception] = []
        for start in range(0, len(rows), size):
            batch = slice(start, start + size)
            pieces.append(self._piece(samples, rows[batch], readable[batch], errors))
        widths = {piece.shape[1] for piece in pieces if piece.shape[1]}
        if len(widths) > 1:
            raise PoisonproofError(
                f"The feature map gave {min(widths)} numbers for some samples and {max(widths)} for others; it must "
                "give as many for every sample."
            )
        if not readable.any() and len(rows):
            self._refuse(errors)
        width = max(widths, default=0)
        pieces = [piece if piece.shape[1] else np.zeros((len(piece), width), np.int8) for piece in pieces]
        whole = np.concatenate(pieces) if pieces else np.zeros((0, width), np.int8)
        if self.mirrored and width % 2:
            raise PoisonproofError(f"Mirrored features need an even number of them. Got {width}.")
        lengths, short = _lengths(whole, self.mirrored)
        readable &= short
        if not readable.all():
            whole[~readable], lengths[~readable] = 0, 0
        if twice:
            self._check_again(samples, rows, readable, whole)
        return Described(whole, lengths, readable)

    def describe_new(self, samples: Samples, known: Known) -> Described:
        """The features of these samples; those that are known are not asked for again."""
        places = np.array([known.places.get(key, -1) for key in samples.each_key(np.arange(len(samples)))], np.int64)
        old = places >= 0
        new = self.describe(samples, np.flatnonzero(~old)) if not old.all() else None
        kept = known.rows[places[old]]
        if new is not None and new.readable.any() and new.rows.shape[1] != kept.shape[1]:
            return self.describe(samples)
        rows = np.zeros((len(samples), kept.shape[1]), kept.dtype if new is None else np.result_type(kept, new.rows))
        rows[old], readable = kept, np.ones(len(samples), np.bool_)
        if new is not None and new.rows.shape[1] == kept.shape[1]:
            rows[~old] = new.rows
        if new is not None:
            readable[~old] = new.readable
        return Described(rows, squared_lengths(rows, mirrored=self.mirrored)[0], readable)

    def with_views(self, samples: Samples, described: Described) -> Described:
        """Test samples with what the map says of their other views, if it has any."""
        if not hasattr(self.features, "views"):
            return described
        rows = np.flatnonzero(described.readable)
        pieces = [self._views(samples, rows[at : at + OWN_BATCH]) for at in range(0, len(rows), OWN_BATCH)]
        n_views = pieces[0].shape[1] if pieces else 0
        views = np.zeros((len(samples), n_views, described.rows.shape[1]), np.int16)
        if pieces:
            views[rows] = np.concatenate(pieces)
        lengths, short = _lengths(views.reshape(-1, views.shape[2]), self.mirrored)
        if not short.all():
            raise PoisonproofError(f"The feature map gave a view longer than {LONGEST} steps; choose a smaller scale.")
        return described._replace(views=views, view_lengths=lengths.reshape(views.shape[:2]))

    def _views(self, samples: Samples, rows: NDArray[np.int64]) -> NDArray[np.int16]:
        given = np.asarray(self.features.views(samples.take(rows)))  # type: ignore[attr-defined]
        if given.ndim != 3 or len(given) != len(rows) or given.dtype not in (np.int8, np.int16):
            raise PoisonproofError(
                f"The views of a feature map must be whole numbers, (n, views, features). Got {given.dtype} of shape "
                f"{given.shape}."
            )
        return given.astype(np.int16)

    def _piece(
        self, samples: Samples, rows: NDArray[np.int64], readable: NDArray[np.bool_], errors: list[Exception]
    ) -> NDArray[Any]:
        """Whole numbers for a piece of the samples; those that cannot be read are marked."""
        fed = rows[readable]
        if len(fed) == 0:
            return np.zeros((len(rows), 0), np.int8)
        try:
            given, numbers = self._ask(samples, fed)
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            errors.append(error)
            given, numbers = self._one_by_one(samples, fed, errors)
        out = np.zeros((len(rows), given.shape[1]), given.dtype)
        out[readable] = given
        readable[readable] = numbers
        return out

    def _one_by_one(
        self, samples: Samples, rows: NDArray[np.int64], errors: list[Exception]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Where the map raised on a piece: which of its samples it was."""
        answers: list[tuple[NDArray[Any], bool]] = []
        for row in rows:
            try:
                given, numbers = self._ask(samples, np.array([row]))
                answers.append((given[0], bool(numbers[0])))
            except (MemoryError, KeyboardInterrupt):
                raise
            except Exception as error:
                errors.append(error)
                answers.append((np.zeros(0, np.int8), False))
        widths = {len(answer) for answer, is_numbers in answers if is_numbers}
        if len(widths) > 1:
            raise PoisonproofError(f"The feature map gave {sorted(widths)} numbers for different samples.")
        width = max(widths, default=0)
        out = np.zeros((len(rows), width), np.int16)
        for at, (answer, is_numbers) in enumerate(answers):
            if is_numbers:
                out[at] = answer
        return out, np.array([is_numbers for _, is_numbers in answers], np.bool_)

    def _ask(self, samples: Samples, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """What the map says of some samples, as whole numbers, and which answers were numbers."""
        asked = rows if self._own else np.append(rows, np.full(BATCH - len(rows), rows[-1]))
        given = self.features(samples.take(asked))
        given = np.asarray(given.toarray() if sp.issparse(given) else given)
        if given.ndim == 3:
            given = given[:, 0]
        if given.ndim != 2 or len(given) != len(asked) or given.shape[1] == 0 or given.dtype.kind not in "iufb":
            raise PoisonproofError(
                f"The feature map must give a row of numbers for each of {len(asked)} samples. Got an array of shape "
                f"{given.shape} and dtype {given.dtype}."
            )
        given = given[: len(rows)]
        if given.dtype.kind == "f":
            numbers = np.isfinite(given).all(axis=1)
            return VectorFeatures(scale=self.scale, limit=LONGEST)(np.where(numbers[:, None], given, 0.0))[
                :, 0
            ], numbers
        if given.dtype in (np.int8, np.int16):
            return given, np.ones(len(given), np.bool_)
        small = np.all((given >= WHOLE.min) & (given <= WHOLE.max), axis=1)
        return np.where(small[:, None], given, 0).astype(np.int16), small

    def _check_again(
        self, samples: Samples, rows: NDArray[np.int64], readable: NDArray[np.bool_], whole: NDArray[Any]
    ) -> None:
        again = np.flatnonzero(readable)[:ASKED_TWICE][::-1]
        if len(again) == 0:
            return
        try:
            given, numbers = self._ask(samples, rows[again])
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise PoisonproofError(f"The feature map raised when it was asked twice ({error}).") from None
        if not numbers.all() or given.shape[1] != whole.shape[1] or (given != whole[again]).any():
            raise PoisonproofError(
                "The feature map gave other numbers when it was asked about the same samples again; it must be a fixed "
                "function of one sample: no random numbers, no dropout, nothing taken from the batch."
            )

    def _refuse(self, errors: list[Exception]) -> None:
        if errors:
            raise PoisonproofError(f"The feature map could read no sample; it said: {errors[0]}") from errors[0]
        raise PoisonproofError(
            "The feature map gave no usable numbers for any sample: NaN, infinity, missing values that it does not "
            f"take, or vectors longer than {LONGEST} steps; choose a smaller scale."
        )


def _plain(samples: Samples, scale: float) -> Any:
    """The map of a kind of samples, where none is given; a table of numbers is what an array of them is."""
    if isinstance(samples, TableSamples) and not all(column.numeric for column in samples.columns):
        return TableFeatures.from_rows(samples, trusted=False, scale=scale)
    return VectorFeatures(scale=scale) if samples.kind in ("numbers", "tables") else HashedFeatures()


def _lengths(rows: NDArray[Any], mirrored: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    lengths, short = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    for start in range(0, len(rows), OWN_BATCH):
        batch = slice(start, start + OWN_BATCH)
        lengths[batch], short[batch] = squared_lengths(rows[batch], mirrored=mirrored)
    return lengths, short
