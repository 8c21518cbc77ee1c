"""BallotClassifier: every training sample casts a ballot about x, for its label if near and against it if far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.certificate import Certificate
from poisonproof.certificates.samples_vote import certify_ballots, scores_and_radii
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.samples_vote import DEFAULT_SCALE, Heard, SampleVoteClassifier
from poisonproof.partition.split import Split
from poisonproof.premises import Premise, declared_if
from poisonproof.samples.labels import label_cells
from poisonproof.system.threads import at_most_threads
from poisonproof.votes.ballots import Ballots, Voices
from poisonproof.votes.nearness import STEPS, Metric, Nearness
from poisonproof.votes.voters import count_cells

FROM_ROWS = "rows"


class BallotRules(SampleVoteClassifier):
    """What is near, and how large classes should be: what ballots in one map share with ballots in many."""

    near: float
    class_sizes: Mapping[Any, int] | str | None
    class_sizes_from: str | None
    sizes_: NDArray[np.int64]
    """Declared sizes in the order of the classes."""

    def _limit(self) -> int:
        return self._nearness.limit(self.near, self.map_.scale)

    def _check_parameters(self) -> None:
        """Refuse what the caller cannot mean, before anything is read."""
        self._check_near()
        if self.class_sizes is None:
            return
        if not isinstance(self.class_sizes, Mapping):
            raise PoisonproofError(
                f"The 'class_sizes' parameter must be sizes by label. Got {type(self.class_sizes).__name__} instead."
            )
        for label, size in self.class_sizes.items():
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
                raise PoisonproofError(f"The size of class {label!r} must be a whole number from 0 on. Got {size!r}.")

    def _check_near(self) -> None:
        Nearness(self.metric).limit(self.near, 1.0)

    def _declared_classes(self) -> Sequence[Any] | None:
        """The class list: as given, or the keys of the declared sizes."""
        if not isinstance(self.class_sizes, Mapping):
            return self.classes
        keys = list(self.class_sizes)
        if self.classes is not None and set(label_cells(self.classes)) != set(label_cells(keys)):
            raise PoisonproofError(
                f"The keys of 'class_sizes' must be the classes, {list(self.classes)!r}. Got {keys!r} instead."
            )
        return keys

    def _check_classes(self) -> None:
        """Put declared sizes in the order of the classes."""
        self.sizes_ = np.zeros(len(self.classes_), np.int64)
        if isinstance(self.class_sizes, Mapping):
            sizes = dict(zip(label_cells(self.class_sizes), self.class_sizes.values(), strict=True))
            self.sizes_ = np.array([sizes[cell] for cell in label_cells(self.classes_.tolist())], np.int64)

    def _own_premises(self) -> list[Premise]:
        """Map, threshold, class sizes."""
        near = Premise("near", self._near_in_words(), declared=True)
        return [*super()._own_premises(), near, self._sizes_premise()]

    def _near_in_words(self) -> str:
        if self.metric == "cosine":
            return f"cosine ≥ {(STEPS - self._limit()) / STEPS:.7g}"
        return f"distance ≤ {self.near:g}, squared ≤ {self._limit()} steps"

    def _sizes_premise(self) -> Premise:
        if not self.sizes_.any():
            return Premise("class sizes", "none declared: all classes count as equally large", declared=None)
        listed = zip(self.classes_[:12].tolist(), self.sizes_[:12].tolist(), strict=True)
        sizes = ", ".join(f"{label}: {size}" for label, size in listed) + (", …" if len(self.classes_) > 12 else "")
        return Premise(
            "class sizes", f"{sizes}; from {self.class_sizes_from or 'the caller, outside this data'}", declared=True
        )

    def _settle_classes(self) -> None:
        super()._settle_classes()
        self.sizes_ = np.zeros(len(self.classes_), np.int64)  # classes are inferred, so no sizes are declared


class BallotClassifier(BallotRules):
    """A classifier without training whose predictions withstand thousands of poisoned samples.

    Every training sample votes about x: +1 for its label if it is near, −1 if it is far, through a map that does not
    depend on the training data. One insertion or removal changes a lead by 1 at most, so the radius is the lead over
    the runner-up, and it is exact. The catch: **the map must be fixed**. Whatever was learned or tuned on samples that
    an attacker could touch is a premise, printed beside the radius.

    Parameters
    ----------
    features : callable, optional
        The map from samples to small whole numbers: `DigitFeatures`, `SignFeatures`, `ObjectFeatures`,
        `VectorFeatures`, `HashedFeatures`, `TableFeatures`, or any function of one sample that gives numbers. Without
        one, plain numbers are rounded to 1/scale, texts and sparse rows are hashed, and tables with categories get
        units from these rows, which is a premise (`TableFeatures.declared` avoids it).
    encoder : Encoder or function, optional
        The map, instead of ``features``: see `poisonproof.encoder`.
    near : float
        The greatest distance that counts as near, in the map's own units; with the cosine, the least cosine.
    metric : "euclidean" or "cosine"
    class_sizes : dict of label to size, or "rows", optional
        How many samples of each class there should be, **from outside**: public facts about the data, trusted rows.
        Its keys are the class list. Without sizes all classes count as equally large, which costs nothing on balanced
        data and much on others. "rows" takes the sizes of the training samples themselves; they move with the poison,
        so this *is* the one-sided form, and so is its radius.
    class_sizes_from : str, optional
        Where the sizes come from, for the premise.
    one_sided : bool
        Far samples count 0 instead of −1: radius neighbours, as Jia, Liu, Cao and Gong (2022) certify them. It needs no
        sizes and has half the radius.
    classes : sequence, optional
        The labels that may occur. The strict way. Otherwise they are read off ``y``, which is a premise, and every
        certificate reckons with one more class, of score 0: with two-sided ballots that costs nearly everything.
    voices : int
        With contributors (``groups`` of `fit`): what the ballots of each are cut to, in sum. Class sizes then count
        voices.
    scale : float
        Steps per unit to which plain numbers are rounded.
    split : str or Split
        How samples are read (declared dtype, schema of a table); "group" demands contributors.
    n_jobs : int, optional
        Workers of a cluster, as in joblib; on this machine threads do the work.

    Attributes
    ----------
    classes_ : array
        The labels, in increasing order.
    voters_ : Voters
        Features and labels of all training samples; a saved model holds them.
    n_dropped_ : int
        Training samples left out: their label is not one of the classes, they have no contributor, or the map cannot
        read them.
    premises_ : tuple of Premise
        What every certificate of this model takes as given.
    """

    method = "ballots"

    def __init__(
        self,
        features: Any = None,
        *,
        near: float,
        metric: Metric = "euclidean",
        class_sizes: Mapping[Any, int] | str | None = None,
        class_sizes_from: str | None = None,
        one_sided: bool = False,
        classes: Sequence[Any] | None = None,
        voices: int = 1,
        scale: float = DEFAULT_SCALE,
        split: str | Split = "content",
        n_jobs: int | None = None,
        encoder: Any = None,
    ) -> None:
        self.features = features
        self.near = near
        self.metric = metric
        self.class_sizes = class_sizes
        self.class_sizes_from = class_sizes_from
        self.one_sided = one_sided
        self.classes = classes
        self.voices = voices
        self.scale = scale
        self.split = split
        self.n_jobs = n_jobs
        self.encoder = encoder

    def ballots(self, X: Any) -> Ballots:
        """What all training samples say about every sample, ready to certify, to keep or to send."""
        return self._votes_of(self._heard(X))

    def _heard(self, X: Any) -> Heard:
        """Near samples of every class, and whether a copy of each sample would be near it."""
        test, limit = self._describe_test(X), self._limit()
        cells, n_cells, _, _ = self._cells()
        with at_most_threads(self.n_jobs):
            near = count_cells(self.voters_, cells, n_cells, test, self._nearness, limit)
        self_near = (self._nearness.own(test.lengths) <= limit) & test.readable
        return Heard(near, self_near)

    def _votes_of(self, heard: Heard) -> Ballots:
        """Ballots of what was heard."""
        _, _, totals, voices = self._cells()
        limit = self._limit()
        return Ballots(
            heard.said,
            totals,
            self.sizes_,
            self.classes_,
            heard.own,
            one_sided=self._one_sided,
            classes_inferred=self.classes_inferred_,
            split=self.split_,
            voices=voices,
            rule={**self._rule, "near": float(self.near), "limit": limit},
            premises=self._premises_in_use,
        )

    def certify(self, X: Any) -> Certificate:
        """Prediction, runner-up, margin and exact radius for every sample; docs/ballots.md has the proof."""
        return certify_ballots(self.ballots(X))

    def _scores(self, X: Any) -> NDArray[np.int64]:
        """Ballots of each class, near less far, with its declared size; an array (n, classes)."""
        ballots = self.ballots(X)
        if ballots.voices is not None:
            return scores_and_radii(ballots)[0]
        return (ballots.near if ballots.one_sided else 2 * ballots.near - ballots.totals) + ballots.sizes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Shares of the ballots that speak for each class; no probabilities.

        For a class speak its near samples and the far samples of all others, and its declared size. Uniform where
        nothing speaks at all.
        """
        scores = self._scores(X)
        most = self.voices * len(self.contributors_) if self.contributors_ else len(self.voters_)
        least = 0 if self._one_sided else most
        speaking = scores + least
        total = speaking.sum(axis=1, keepdims=True)
        return np.where(total > 0, speaking / np.maximum(total, 1), 1 / scores.shape[1])

    def _cells(self) -> tuple[NDArray[np.int64], int, NDArray[np.int64], Voices | None]:
        """What is counted together: classes, or what each contributor has of each class."""
        voters, n_classes = self.voters_, len(self.classes_)
        codes = voters.codes[: len(voters)]
        if self.split_.kind != "group":
            return codes, n_classes, np.bincount(codes, minlength=n_classes).astype(np.int64), None
        pairs = voters.owners[: len(voters)] * n_classes + codes
        held, cells, totals = np.unique(pairs, return_inverse=True, return_counts=True)
        starts = np.append(np.unique(held // n_classes, return_index=True)[1], len(held)).astype(np.int64)
        voices = Voices(int(self.voices), (held % n_classes).astype(np.int64), starts)
        return cells.astype(np.int64), len(held), totals.astype(np.int64), voices

    @property
    def _one_sided(self) -> bool:
        return bool(self.one_sided) or self.class_sizes == FROM_ROWS

    def _check_parameters(self) -> None:
        if isinstance(self.voices, bool) or not isinstance(self.voices, int | np.integer) or self.voices < 1:
            raise PoisonproofError(
                f"The 'voices' parameter must be a whole number above 0. Got {self.voices!r} instead."
            )
        if self.one_sided and isinstance(self.class_sizes, Mapping):
            raise PoisonproofError("One-sided ballots need no class sizes; leave 'class_sizes' or 'one_sided'.")
        if self.class_sizes == FROM_ROWS:
            self._check_near()
        elif isinstance(self.class_sizes, str):
            raise PoisonproofError(
                f"The 'class_sizes' parameter must be sizes by label, or '{FROM_ROWS}'. "
                f"Got {self.class_sizes!r} instead."
            )
        else:
            super()._check_parameters()

    def _own_premises(self) -> list[Premise]:
        premises = super()._own_premises()
        if self.split_.kind == "group":
            voices = f"{self.voices} for each contributor; ids are authenticated"
            premises.append(Premise("voices", voices, declared=declared_if(self.voices != 1)))
        return premises

    def _sizes_premise(self) -> Premise:
        if self._one_sided:
            return Premise("class sizes", "none needed: far samples count 0", declared=True)
        return super()._sizes_premise()
