"""BlockBallotClassifier: members learn a map each, and all training samples vote in every map."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from poisonproof.ballots.classifiers import DEFAULT_SCALE, BallotClassifier, SampleVoteClassifier
from poisonproof.ballots.distances import limit_of, squared_lengths
from poisonproof.ballots.voters import Described, Voters, count_cells
from poisonproof.core.certificate import Certificate
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread, resolve_spread
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.estimators.prepared import spread_premise
from poisonproof.premises import Premise, declared_if
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.system.threads import at_most_threads
from research.blocks.certificate import Verdicts, certify_blocks, verdicts_of
from research.maps.trusted import in_order, sum_of_halves
from research.maps.whitening import LENGTH, Whitening

FORMAT = "poisonproof blocks 2"
MAPS = "maps.npz"
DEFAULT_K = 50
ROWS_AT_ONCE = 8192


TESTS_AT_ONCE = 1024


def limits_of_share(test: NDArray[Any], rows: NDArray[Any], share: float) -> NDArray[np.int64]:
    """For every test sample, the squared distance within which this share of the rows lies, at least one of them.

    Whole numbers: the ⌈share · n⌉-th smallest of the exact distances to the n rows. No row may be longer than 4095.
    """
    at = max(math.ceil(Fraction(float(share)) * len(rows)), 1) - 1
    right, voters = squared_lengths(rows)[0], rows.astype(np.float32)
    limits = np.empty(len(test), np.int64)
    for start in range(0, len(test), TESTS_AT_ONCE):
        part = test[start : start + TESTS_AT_ONCE]
        distances = right - 2 * (part.astype(np.float32) @ voters.T).astype(np.int64)
        limits[start : start + len(part)] = squared_lengths(part)[0] + np.partition(distances, at, axis=1)[:, at]
    return limits


class BlockBallotClassifier(SampleVoteClassifier):
    """Ballots in maps that are learned from samples nobody vouches for.

    Training samples are split by their content and spread as in Finite Aggregation. Member i learns a whitening from
    the *unlabelled* samples of its own subset and nothing else; its verdict on x is by the ballots of all training
    samples in that map. One poison can change the maps of the d members it feeds, and moves every lead in the others by
    1 at most. So what must be learned is protected as base classifiers are, and what must be counted as ballots are.

    Cost: every member describes all training samples anew whenever it is asked.

    Parameters
    ----------
    features : callable, optional
        The fixed map before the whitening; see `BallotClassifier`.
    encoder : Encoder or function, optional
        The map, instead of ``features``: see `poisonproof.encoder`.
    near : float, optional
        The greatest distance that counts as near, between vectors of length 1.
    near_share : float, optional
        Instead of ``near``: a member calls near to x whatever is no farther from x than this share of the member's own
        samples is. How near is near is then learned like the map, for each x, and from the same samples.
    k, d, spread
        As in `FiniteAggregationClassifier`.
    directions : int
        How many directions a member keeps, at most.
    exponent : float
        A direction of variance v is multiplied by v to the power −exponent.
    classes : sequence
        The labels that may occur. They must be declared: a class that was read off the rows vanishes with its last
        sample, and every member whose verdict it was then says another.
    class_sizes, class_sizes_from, scale, split, n_jobs
        As in `BallotClassifier`.

    Attributes
    ----------
    classes_, voters_, n_dropped_, premises_
        As in `BallotClassifier`.
    spread_ : Spread
    maps_ : list of Whitening, or None for members with fewer than two different samples, which abstain
    """

    one_sided, voices = False, 1
    # The parameters are those of ballots in one map; the votes are not, so this is no such classifier.
    _check_parameters: Any = BallotClassifier._check_parameters
    _declared_classes: Any = BallotClassifier._declared_classes
    _check_classes: Any = BallotClassifier._check_classes
    _sizes_premise: Any = BallotClassifier._sizes_premise
    sizes_: NDArray[np.int64]
    _kept_parameters = ("near", "class_sizes_from", "scale", "k", "d", "directions", "exponent", "near_share")
    spread_: Spread
    maps_: list[Whitening | None]
    map_digests_: list[str]

    def __init__(
        self,
        features: Any = None,
        *,
        near: float | None = None,
        k: int = DEFAULT_K,
        d: int = 1,
        spread: Spread | None = None,
        directions: int = 100,
        exponent: float = 0.5,
        class_sizes: Mapping[Any, int] | None = None,
        class_sizes_from: str | None = None,
        classes: Sequence[Any] | None = None,
        scale: float = DEFAULT_SCALE,
        split: str | Split = "content",
        n_jobs: int | None = None,
        near_share: float | None = None,
    ) -> None:
        self.features = features
        self.near = near  # type: ignore[assignment]  # checked with near_share
        self.k = k
        self.d = d
        self.spread = spread
        self.directions = directions
        self.exponent = exponent
        self.class_sizes = class_sizes
        self.class_sizes_from = class_sizes_from
        self.classes = classes
        self.scale = scale
        self.split = split
        self.n_jobs = n_jobs
        self.near_share = near_share

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Describe the training samples, and let every member learn its map from its own.

        Parameters
        ----------
        X : array (n_samples, …), sparse matrix, DataFrame (pandas, Polars, PyArrow), or list of strings
        y : array (n_samples,)
        groups : None
            Contributors are not supported: the samples of one may feed every member.
        """
        if groups is not None:
            raise PoisonproofError(
                "BlockBallotClassifier takes no groups: samples of one contributor may feed every member; use "
                "BallotClassifier, or FiniteAggregationClassifier with the split 'group'."
            )
        if self.classes is None and not isinstance(self.class_sizes, Mapping):
            raise PoisonproofError(
                "BlockBallotClassifier needs declared classes, because one that is read off the rows vanishes with its "
                "last sample and hands its members to others; give classes=."
            )
        self.spread_ = resolve_spread(self.spread, self.k, self.d, unless=(DEFAULT_K, 1))
        super().fit(X, y)
        self.maps_ = []
        self.map_digests_ = []
        self._learn()
        return self

    def certify(self, X: Any) -> Certificate:
        """Prediction, runner-up, margin and radius for every sample; research/blocks/README.md has the proof."""
        bounds = certify_blocks(self._verdicts(X), self.spread_, len(self.voters_))
        spread = self.spread_
        radius = bounds.insert_remove
        election = {
            "kind": "blocks of ballots",
            "words": f"{spread.n_subsets} members with maps of their own, k = {spread.k:g}, d = {spread.d}; "
            f"{len(self.voters_)} training samples vote in each",
            "n_voters": len(self.voters_),
            "sizes": self.sizes_.tolist(),
            "spread": spread.as_dict(),
            "near": None if self.near_share is not None else float(self.near),
            "near_share": None if self.near_share is None else float(self.near_share),
        }
        return Certificate(
            prediction=bounds.prediction,
            runner_up=bounds.runner_up,
            margin=bounds.margin,
            radius=radius,
            method="blocks of ballots",
            classes=self.classes_,
            split=self.split_,
            premises=self._premises_in_use,
            election=election,
            radii={
                "insert": radius.copy(),
                "remove": radius.copy(),
                "label_flip": np.maximum(bounds.label_flip, radius // 2),
                "modify": radius // 2,
            },
        )

    def _verdicts(self, X: Any) -> Verdicts:
        """What every member says about every sample, and how many ballots would change it."""
        test = self._describe_test(X)
        n_members, n_classes = self.spread_.n_subsets, len(self.classes_)
        scores = np.zeros((len(test.rows), n_members, n_classes), np.int64)
        abstains = np.array([learned is None for learned in self.maps_], np.bool_)
        for member, (learned, subset) in enumerate(zip(self.maps_, self._subsets(), strict=True)):
            if learned is not None:
                scores[:, member] = self._scores_in(learned, subset, test)
        spread_out = np.broadcast_to(abstains, scores.shape[:2])
        return verdicts_of(scores, spread_out)

    def _scores(self, X: Any) -> NDArray[np.int64]:
        """How many members say each class; an array (n, classes)."""
        verdict = self._verdicts(X).verdict
        return np.stack([(verdict == c).sum(axis=1) for c in range(len(self.classes_))], axis=1)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Share of each class among the members that did not abstain (uniform if all did); no probabilities."""
        counts = self._scores(X)
        total = counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[1])

    def save(self, path: str | Path) -> None:
        """Keep the fitted model in a folder, without pickle; `load` serves it again.

        It holds the features and labels of all training samples, and every member's map: whoever may read it may read
        those.
        """
        check_is_fitted(self, "maps_")
        super().save(path)
        learned = {str(member): one for member, one in enumerate(self.maps_) if one is not None}
        arrays: dict[str, NDArray[Any]] = {}
        for member, one in learned.items():
            arrays |= {
                f"offsets{member}": one.offsets,
                f"weights{member}": one.weights.astype(np.int16),  # whole numbers of at most 2²⁴ / 4095
                f"factors{member}": one.factors,
            }
        facts = {"format": FORMAT, "spread": self.spread_.as_dict(), "digests": self.map_digests_}
        write_arrays(Path(path) / MAPS, arrays, facts)

    @classmethod
    def load(cls, path: str | Path, trusted: Sequence[str] = ()) -> Self:
        """Open a saved model; refuse one that was altered or whose map holds types nobody vouched for."""
        model = super().load(path, trusted)
        arrays, facts = open_arrays(Path(path) / MAPS, ())
        check_format(path, facts.get("format"), FORMAT)
        with reading(Path(path) / MAPS):
            model.spread_ = Spread.from_dict(facts["spread"])
            model.map_digests_ = [str(digest) for digest in facts["digests"]]
            if len(model.map_digests_) != model.spread_.n_subsets or model.classes_inferred_:
                raise DamagedFileError(f"{path} is altered: it has {len(model.map_digests_)} maps, or has no classes.")
            model.maps_ = [
                Whitening(
                    arrays[f"offsets{member}"],
                    arrays[f"weights{member}"].astype(np.float32),
                    arrays[f"factors{member}"],
                )
                if f"weights{member}" in arrays
                else None
                for member in range(model.spread_.n_subsets)
            ]
            if model.map_digests_ != model._subset_digests():
                raise DamagedFileError(f"{path} is altered: its maps were learned from other samples.")
        return model

    def _limit(self) -> int:
        return limit_of(self.near, LENGTH)

    def _check_near(self) -> None:
        share = self.near_share
        if (self.near is None) == (share is None):
            raise PoisonproofError(
                f"BlockBallotClassifier needs either 'near' or 'near_share'. Got {self.near!r} and {share!r} instead."
            )
        if share is None:
            limit_of(self.near, 1.0)
        elif isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share <= 1:
            raise PoisonproofError(
                f"The 'near_share' parameter must be a number above 0 and at most 1. Got {share!r} instead."
            )

    def _near_premise(self) -> Premise:
        if self.near_share is None:
            return BallotClassifier._near_premise(self)  # type: ignore[arg-type]
        return Premise("near", f"as near as {self.near_share:g} of a member's own samples, for each x", declared=True)

    def _split_for(self, groups: Any) -> Split:
        split = Split.of(self.split)
        if split is None or split.kind != "content":
            raise PoisonproofError(
                f"The 'split' of BlockBallotClassifier must be by content. Got {self.split!r} instead."
            )
        return super()._split_for(groups)

    def _own_premises(self) -> list[Premise]:
        """Map, near, class sizes, and how members learn."""
        return [
            *super()._own_premises(),
            self._near_premise(),
            self._sizes_premise(),
            spread_premise(self.spread_, defaults=[(DEFAULT_K, 1)]),
            self._whitening_premise(),
            Premise(
                "flipped labels", "name other classes; one that names none of them removes its sample", declared=None
            ),
        ]

    def _whitening_premise(self) -> Premise:
        learned = f"at most {self.directions} directions of a member's own subset, exponent {self.exponent:g}"
        return Premise("whitening", learned, declared=declared_if((self.directions, self.exponent) != (100, 0.5)))

    def _partitions(self) -> NDArray[np.int64]:
        """The partition of every voter, from its own content, as `Split.partitions` says."""
        hashes = self.voters_.hashes
        return (hashes % np.uint64(self.spread_.n_partitions)).astype(np.int64)

    def _subsets(self) -> list[NDArray[np.int64]]:
        """The voters that feed each member."""
        partitions = self._partitions()
        members = [np.flatnonzero(partitions == partition) for partition in range(self.spread_.n_partitions)]
        feeding: list[list[NDArray[np.int64]]] = [[] for _ in range(self.spread_.n_subsets)]
        for partition, rows in enumerate(members):
            for subset in self.spread_.subsets_of(partition):
                feeding[subset].append(rows)
        return [np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in feeding]

    def _subset_digests(self) -> list[str]:
        return [self._digest(self._base(rows)) for rows in self._subsets()]

    def _digest(self, rows: NDArray[Any]) -> str:
        """What a member's map is a function of: what it learns from, and how."""
        plain = np.ascontiguousarray(rows, dtype="<i4")
        how = f"{plain.shape} {int(self.directions)} {float(self.exponent)!r} "
        return hashlib.sha256(how.encode() + plain.tobytes()).hexdigest()

    def _base(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """What the fixed map says of some voters, in order of their content."""
        return in_order(sum_of_halves(self.voters_.rows[rows], getattr(self.map_.features, "mirrored", False)))

    def _learn(self) -> None:
        """Let every member learn whose own samples, or way to learn, are not those it has learned by."""
        earlier = dict(zip(self.map_digests_, self.maps_, strict=True))
        maps: list[Whitening | None] = []
        digests = []
        for rows in self._subsets():
            vectors = self._base(rows)
            digest = self._digest(vectors)
            digests.append(digest)
            if digest not in earlier:
                varied = len(vectors) > 1 and (vectors != vectors[0]).any()
                earlier[digest] = Whitening.of(vectors, self.directions, self.exponent) if varied else None
            maps.append(earlier[digest])
        self.maps_, self.map_digests_ = maps, digests

    def _scores_in(self, learned: Whitening, own_voters: NDArray[np.int64], test: Described) -> NDArray[np.int64]:
        """The scores of all classes in the map that a member has learned from its own voters."""
        voters = self.voters_
        rows = np.empty((len(voters), learned.n_features), np.int16)
        for start in range(0, len(voters), ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, len(voters)))
            rows[part] = learned(sum_of_halves(voters.rows[part], getattr(self.map_.features, "mirrored", False)))
        by_class = np.argsort(voters.codes, kind="stable")  # counting is faster where they stand together
        codes, placed = voters.codes[by_class], rows[by_class]
        seen = Voters(placed, squared_lengths(placed)[0], codes, voters.hashes[by_class], codes)
        asked = learned(sum_of_halves(test.rows, getattr(self.map_.features, "mirrored", False)))
        lengths, n_classes = squared_lengths(asked)[0], len(self.classes_)
        if self.near_share is None:
            limit = self._limit()
        else:  # |x − z|² ≤ limit_x is |x|² − limit_x + |z|² − 2xz ≤ 0: a limit of its own for each test sample
            lengths, limit = lengths - limits_of_share(asked, rows[own_voters], float(self.near_share)), 0
        described = Described(asked, lengths, test.readable)
        with at_most_threads(self.n_jobs):
            near = count_cells(seen, codes, n_classes, described, limit)
        return 2 * near - np.bincount(codes, minlength=n_classes) + self.sizes_
