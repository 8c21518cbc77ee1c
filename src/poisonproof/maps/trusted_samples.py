"""Samples that an attacker cannot touch: what may shape a map, and whom nobody can remove.

They are a premise, named with their number and digest wherever something rests on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from poisonproof.data.reading import read
from poisonproof.errors import PoisonproofError
from poisonproof.maps.tables import TableFeatures
from poisonproof.maps.trusted import TrustedFeatures, trusted_class_sizes
from poisonproof.samples.canonical import digest_of, to_samples
from poisonproof.samples.frames import as_frame
from poisonproof.samples.rows import count_rows
from poisonproof.samples.schema import Schema


@dataclass(frozen=True)
class KeptTrusted:
    """Stands for the trusted samples of a loaded model, whose features are kept and who are not."""

    count: int


@dataclass(frozen=True, eq=False)
class TrustedSamples:
    """Samples out of the attacker's reach, with their labels or without.

    Given as ``trusted=`` of a `BallotClassifier` or `NeighborVoteClassifier`, those with labels vote and can never be
    removed; the methods shape what else a certificate takes as given: map, threshold, class sizes, units of a table.

    Parameters
    ----------
    X : samples
    y : labels, optional
    """

    X: Any = field(repr=False)
    y: Any = field(default=None, repr=False)

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """What ``trusted=`` was given: nothing, such a record, or (X, y)."""
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, tuple) and len(given) == 2:
            return cls(*given)
        if isinstance(given, KeptTrusted):
            raise PoisonproofError(
                "A loaded model knows its trusted samples by their features alone; set 'trusted' again before you fit."
            )
        raise PoisonproofError(
            "The 'trusted' parameter must be TrustedSamples(X), TrustedSamples(X, y) or (X, y). "
            f"Got {type(given).__name__} instead."
        )

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        label: str | None = None,
        schema: str | Path | Mapping[str, str] | Schema | None = None,
        labelled: bool = True,
    ) -> Self:
        """The samples of a file that the attacker cannot touch; see `poisonproof.read`."""
        rows = read(path, label=label, schema=schema, labelled=labelled)
        return cls(rows.X, rows.y)

    def __post_init__(self) -> None:
        count = count_rows(as_frame(self.X))
        if count == 0:
            raise PoisonproofError("There are no trusted samples; leave 'trusted' out.")
        if self.y is not None and len(self.y) != count:
            raise PoisonproofError(f"There are {count} trusted samples but {len(self.y)} labels; give one per sample.")

    def __len__(self) -> int:
        return count_rows(as_frame(self.X))

    @property
    def words(self) -> str:
        """Number and digest, for premises."""
        samples = to_samples(as_frame(self.X))
        return f"{len(samples)} trusted samples, SHA-256 {digest_of(samples)[:16]}"

    def shaped(self, features: Any, *, directions: int, exponent: float) -> TrustedFeatures:
        """The map, centred and whitened by these samples; labels are not looked at."""
        return TrustedFeatures.of(features, self.X, directions=directions, exponent=exponent)

    def units(self, **more: Any) -> TableFeatures:
        """A map for tables with centres and units from these rows."""
        return TableFeatures.from_rows(as_frame(self.X), trusted=True, **more)

    def near(self, features: TrustedFeatures, share: float) -> float:
        """The distance within which this share of all pairs of these samples lie."""
        return features.near(self.X, share)

    def class_sizes(self, total: int) -> dict[Any, int]:
        """Class sizes to declare for so many training samples, in the proportions of these labels."""
        if self.y is None:
            raise PoisonproofError("Class sizes are read off labels; these trusted samples have none.")
        return trusted_class_sizes(self.y, total)
