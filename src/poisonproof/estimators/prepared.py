"""Training data checked, split and spread: all that an ensemble is before its base classifiers are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread, resolve_spread
from poisonproof.core.subsets import Subsets, subset_digests
from poisonproof.core.votes import Votes
from poisonproof.data.dataset import Dataset
from poisonproof.data.out_of_core import StoredDataset
from poisonproof.data.store import StoredSource
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.estimators.base import (
    EnsembleClassifier,
    TrainingData,
    read_stored,
    read_training,
    shared_premises,
    warn,
)
from poisonproof.learners.inspection import describe, public_map_of
from poisonproof.premises import Premise, declared_if, restated
from poisonproof.samples.kinds import Samples, TrainingSet
from poisonproof.training.source import ArraySource

DEFAULT_K = 50
DEFAULT_D = 16
DEFAULTS = ((DEFAULT_K, DEFAULT_D), (20, 1))  # of the estimator, and of the command line


@dataclass(frozen=True, eq=False)
class Prepared:
    """An ensemble whose base classifiers are still to be trained.

    Attributes
    ----------
    learner : scikit-learn classifier
        The one given, or the default for samples of this kind.
    source : ArraySource, or StoredSource of samples on disk
        Where base classifiers are trained from.
    data : TrainingData
        As it was read, with the samples that were left out.
    spread, split, digests, premises, n_dropped
        What the attributes of a fitted classifier with an underscore are.
    classes_inferred : bool
        Whether the classes were read off the data.
    """

    learner: Any
    source: ArraySource | StoredSource
    data: TrainingData
    spread: Spread
    split: Split
    digests: NDArray[np.uint8]
    premises: tuple[Premise, ...]
    n_dropped: int
    classes_inferred: bool

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, in increasing order."""
        return self.data.classes

    @property
    def subsets(self) -> Subsets | StoredSource:
        """Which partition each sample is in, and how many each holds."""
        source = self.source
        if isinstance(source, StoredSource):
            return source
        assert isinstance(source.subsets, Subsets)
        return source.subsets

    @property
    def n_train(self) -> int:
        """How many samples base classifiers are fed."""
        return int(self.subsets.partition_sizes.sum())

    def whole(self) -> TrainingSet:
        """All training samples in memory, with the codes of their labels, and their rows in canonical order."""
        if isinstance(self.source, StoredSource):
            return self.source.whole()
        assert isinstance(self.source.subsets, Subsets)
        return TrainingSet(self.source.samples, self.source.codes, np.argsort(self.source.subsets.rank))

    def votes(self, answers: NDArray[Any]) -> Votes:
        """A vote matrix, or rankings, of this ensemble with all that a certificate needs to know about it."""
        return votes_of(answers, self.spread, self.split, self.classes, self.premises, inferred=self.classes_inferred)

    def with_premises(self, others: tuple[Premise, ...]) -> Prepared:
        """These premises in place of those of the same name, and besides the rest."""
        return replace(self, premises=restated(self.premises, others))


def prepare(model: Any, X: Any, y: Any = None, groups: Any = None) -> Prepared:
    """All of `FiniteAggregationClassifier.fit` but the training itself; the model is read and stays as it is.

    ``X`` may be a `Dataset`, alone: its samples are in canonical form already, or lie in partitions on disk, which are
    left there.
    """
    spread = resolve_spread(model.spread, model.k, model.d, unless=(DEFAULT_K, DEFAULT_D))
    split, stated = split_of(model), X.premises if isinstance(X, Dataset) else ()
    usual = ("content", X.dtype if isinstance(X, Dataset) else "float64", False)
    source: ArraySource | StoredSource
    if isinstance(X, StoredDataset):
        store, form = X.stored, X.test.samples
        if len(store) != spread.n_partitions:
            raise PoisonproofError(
                f"{store.folder} holds {len(store)} partitions, but the spread has {spread.n_partitions}; read the "
                "data anew for this spread."
            )
        data, source = read_stored(model, store, form), StoredSource(spread, store.samples)
        n_dropped, contents = int(store.record["n_read"] - store.sizes.sum()), source.contents()
    else:
        if isinstance(X, Dataset):
            X.check_schema(split.schema)
            X, y, groups = split.samples(X.train.samples), X.train.labels, X.train.groups
        data = read_training(model, X, y, split, groups)
        partition = split.partitions(data.samples, spread.n_partitions, data.cells, groups)
        rows = np.flatnonzero(data.codes >= 0)
        n_dropped, form = len(data.codes) - len(rows), data.samples
        samples, codes = (data.samples.subset(rows) if n_dropped else data.samples), data.codes[rows]
        subsets = Subsets.of(samples, codes, partition[rows], spread)
        source, contents = ArraySource(samples, codes, subsets), subsets.contents(samples, codes)
    _tell(data, source)
    chosen = (split.kind, split.dtype, split.hash_labels) != usual
    premises = restated(premises_of(model, replace(data, samples=form), spread, split, declared_if(chosen)), stated)
    digests = subset_digests(spread, contents, common_to(data.samples, data.learner, data.classes))
    inferred = model.classes is None
    return Prepared(data.learner, source, data, spread, split, digests, premises, n_dropped, inferred)


def common_to(samples: Samples, learner: Any, classes: NDArray[Any]) -> str:
    """What all base classifiers of an ensemble have in common: the form of their samples, learner and classes."""
    encoder = public_map_of(learner)
    width = "" if encoder is None or encoder.measured_width is None else f" of {encoder.measured_width} numbers"
    return f"{samples.layout} {describe(learner)}{width} {classes.tolist()}"


def _tell(data: TrainingData, source: ArraySource | StoredSource) -> None:
    """Warn of what a reader of certificates must know about the training data."""
    for oddity in data.oddities:
        warn(f"{oddity}.")
    if empty := int((source.sizes == 0).sum()):
        warn(
            f"{empty} of {len(source)} subsets are empty, so their base classifiers abstain; "
            "a smaller k·d would leave fewer."
        )


def split_of(model: Any) -> Split:
    """How a model splits its training samples."""
    split = Split.of(model.split)
    if split is None:
        raise WrongTypeError("The 'split' parameter must be a name or a poisonproof.Split. Got None instead.")
    return split


def votes_of(
    answers: NDArray[Any],
    spread: Spread,
    split: Split,
    classes: NDArray[Any],
    premises: tuple[Premise, ...],
    *,
    inferred: bool,
) -> Votes:
    """A vote matrix, or rankings, with all that a certificate needs to know about it."""
    ranked = answers.ndim == 3
    return Votes(
        np.ascontiguousarray(answers[..., 0]) if ranked else answers,
        spread,
        classes,
        split,
        classes_inferred=inferred,
        premises=premises,
        rankings=answers if ranked else None,
    )


def premises_of(
    model: EnsembleClassifier, data: TrainingData, spread: Spread, split: Split, declared: bool | None
) -> tuple[Premise, ...]:
    """What every certificate of an ensemble takes as given; ``declared``: whose word the split is."""
    return (
        spread_premise(spread),
        Premise("split", split.facts, declared=declared),
        *shared_premises(model, data, split),
    )


def spread_premise(spread: Spread, *, declared: bool = True, defaults: Sequence[tuple[int, int]] = DEFAULTS) -> Premise:
    """Which spread it is; pseudo-random shifts for one of these k and d are a default, unless they were chosen."""
    by_default = declared and any(spread == Spread.random(k, d) for k, d in defaults)
    return Premise("spread", spread.facts, declared=None if by_default else declared)
