"""FiniteAggregationClassifier: a scikit-learn classifier whose predictions come with a proof."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from poisonproof.core.certify import Certificate, certify
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.votes import Votes
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.estimators.base import BEFORE, EnsembleClassifier, warn
from poisonproof.estimators.prepared import DEFAULT_D, DEFAULT_K, Prepared, prepare, split_of, votes_of
from poisonproof.premises import Premise
from poisonproof.samples.convert import count_rows, join_rows, row_numbers, take_rows
from poisonproof.samples.frames import as_frame, as_values
from poisonproof.samples.labels import one_by_one, typed_premises
from poisonproof.training.engine import Earlier, check_gives_scores, engine_of
from poisonproof.training.members import FittedMembers

FEW_ROWS = 64


class Update(NamedTuple):
    """What `update` did."""

    removed: int
    added: int
    retrained: NDArray[np.int64]
    """The base classifiers that were trained again, by index; all the others stayed as they were."""


@dataclass(frozen=True, eq=False)
class TrainingArrays:
    """Training data as they were given; arrays and lists are referred to, not copied.

    ``typed`` are premises about columns of labels and ids, which hold however the rows are put together again.
    """

    X: Any
    y: Any
    groups: Any = None
    typed: tuple[Premise, ...] = ()

    @classmethod
    def of(cls, X: Any, y: Any, groups: Any) -> TrainingArrays:
        """What `fit` is given. pandas copies a frame as soon as somebody writes into the user's own."""
        X, labels, ids = (value.copy(deep=False) if hasattr(value, "iloc") else value for value in (X, y, groups))
        return cls(as_frame(X), labels, ids, typed_premises(y, groups))

    @classmethod
    def parse(cls, given: Any, name: str) -> TrainingArrays:
        """From (X, y) or (X, y, groups), as the parameter of `update` of this name."""
        if not isinstance(given, list | tuple) or len(given) not in (2, 3):
            raise WrongTypeError(
                f"The '{name}' of update must be (X, y) or (X, y, groups). Got {type(given).__name__} instead."
            )
        X, y, groups = (*given, None)[:3]
        if count_rows(X) != len(y):
            raise PoisonproofError(
                f"The '{name}' of update has {count_rows(X)} samples but {len(y)} labels.", code="labels.count"
            )
        return cls.of(X, y, as_values(groups))

    def without(self, rows: NDArray[np.int64]) -> TrainingArrays:
        """The rows that stay."""
        stay = np.delete(np.arange(count_rows(self.X)), rows)
        X = _without(self.X, rows) if isinstance(self.X, np.ndarray) else take_rows(self.X, stay)
        return TrainingArrays(X, _without(self.y, rows), _without(self.groups, rows), self.typed)

    def and_more(self, more: TrainingArrays, split: Split) -> TrainingArrays:
        """These samples, and others after them."""
        if (self.groups is None) != (more.groups is None):
            raise PoisonproofError(
                "Give contributor ids (groups) for all training samples or for none.", code="split.groups"
            )
        groups = None if self.groups is None else [*one_by_one(self.groups), *one_by_one(more.groups)]
        typed = tuple(dict.fromkeys((*self.typed, *more.typed)))
        labels = [*one_by_one(self.y), *one_by_one(more.y)]
        return TrainingArrays(join_rows(self.X, more.X, split.samples), labels, groups, typed)


def _without(values: Any, rows: NDArray[np.int64]) -> Any:
    """What stands in an array, a list or a column, without these rows, which increase."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        if len(rows) > FEW_ROWS:
            return np.delete(values, rows, axis=0)
        ends = [-1, *rows.tolist(), len(values)]  # 10 times as fast
        return np.concatenate([values[before + 1 : row] for before, row in pairwise(ends)])
    if hasattr(values, "iloc"):
        return values.iloc[np.delete(np.arange(len(values)), rows)]
    left = list(values if isinstance(values, list) else one_by_one(values))
    for row in rows[::-1].tolist():
        del left[row]
    return left


class FiniteAggregationClassifier(EnsembleClassifier):
    """A classifier that knows how many poisoned training samples each prediction withstands.

    `certify` returns for every prediction a radius r: whatever an attacker inserts into or removes
    from the training data, up to r samples in total, the prediction stays the same. The guarantee
    holds if the base classifier is a function of its training data alone (see
    `poisonproof.check_estimator_purity`) and if nothing outside it learned from the data: scalers,
    encoders and feature selection belong *inside* ``estimator``, as a pipeline
    (see `poisonproof.check_pipeline`).

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        The learner of the base classifiers. Default: `TableClassifier`, logistic regression that
        copes with numbers, categories and missing values. Every ``random_state`` (``seed``, …) in it is
        set to the base classifier's index, every ``n_jobs`` (``num_threads``, …) to 1, and every
        ``memory`` to None.
    k : int
        Inverse sensitivity: one training sample reaches 1/k of the base classifiers. A larger k gives
        larger radii and smaller subsets.
    d : int
        Spread degree: how many base classifiers each sample reaches. There are k·d of them.
    spread : Spread, optional
        The spread itself, instead of ``Spread.random(k, d)``. A k or d that is not the default must
        agree with it.
    split : str or Split
        How a sample finds its partition: "content", "pixel-sum" or "group".
    classes : sequence, optional
        The labels that may occur; they are put in increasing order. The strict way. Otherwise they
        are read off ``y``, which is a premise, and every certificate reckons with one more class.
        Samples with other labels are left out, one by one.
    n_jobs : int, optional
        Workers, as in joblib; ``joblib.parallel_config`` chooses the backend. Of a pooled learner, threads: None means
        one per core.
    verbose : int
        Passed to joblib.
    trusted_state : bool
        Accept a learner that arrives fitted in part (a `FrozenEstimator`, a function bound to a fitted model, …). Every
        base classifier shares that part, so it is a premise of every certificate, named with its digest: it must not
        have seen training samples that an attacker could touch. By default such a learner is refused.
    encoder : Encoder or function, optional
        A fixed map from one sample to numbers, made elsewhere (`poisonproof.encoder`): it stands behind the split and
        in front of the learner, which is fed embeddings. It is a premise of every certificate. Without an estimator,
        the learner behind an encoder is the preset "head".

    Attributes
    ----------
    classes_ : array
        The labels, in increasing order.
    classes_inferred_ : bool
        Whether they were read off the training data; then radii mind labels that nobody has used yet.
    spread_ : Spread
    split_ : Split
    estimator_ : scikit-learn classifier
        The learner: the one given, or the default for samples of this kind; behind the encoder, if there is one.
    estimators_ : list
        The fitted base classifiers, as scikit-learn names them; number i belongs to subset i, and is None where that
        has fewer than two classes. A pooled learner has none: it solves its subsets together.
    members_ : list of Member
        The same with what is known about each (`PooledMembers` for a pooled learner).
    subset_sizes_, partition_sizes_ : arrays
        Training samples per subset and per partition.
    n_dropped_ : int
        Training samples left out: their label is not one of the classes, they have no contributor though the split
        asks for one, or values are missing that the learner does not take.
    subset_digests_ : array
        What each base classifier is a function of, in 128 bits; `update` goes by it.
    premises_ : tuple of Premise
        What every certificate of this model takes as given.

    A fitted model refers to its training data, for `update`; saved and pickled models do not.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        k: int = DEFAULT_K,
        d: int = DEFAULT_D,
        spread: Spread | None = None,
        split: str | Split = "content",
        classes: Sequence[Any] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        trusted_state: bool = False,
        encoder: Any = None,
    ) -> None:
        self.estimator = estimator
        self.k = k
        self.d = d
        self.spread = spread
        self.split = split
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.trusted_state = trusted_state
        self.encoder = encoder

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Split, spread, and train one base classifier per subset.

        Parameters
        ----------
        X : array (n_samples, …), sparse matrix, DataFrame (pandas, Polars, PyArrow), or list of strings
        y : array (n_samples,)
        groups : array (n_samples,), optional
            Contributor ids, for split="group".
        """
        self._train(TrainingArrays.of(X, y, groups), None)
        return self

    def update(self, add: Any = None, remove: Any = None, *, data: Any = None) -> Update:
        """Add and remove training samples; give exactly the model that `fit` on the new data would give.

        Only base classifiers whose subset changed are trained again: about d for one sample, instead of k·d.
        Nothing of a removed sample stays in the model. If the classes or the columns themselves change (where
        they are read off the data), every base classifier is trained again.

        Parameters
        ----------
        add : (X, y) or (X, y, groups), optional
            Samples to add, after the others.
        remove : array of row numbers, or a mask over all rows, optional
            Rows of the training data as it stands: the order of `fit`, less what was removed, and what was
            added at its end.
        data : (X, y) or (X, y, groups), optional
            The training data as it stands. A fitted model refers to it; one that was loaded or unpickled does not.
        """
        check_is_fitted(self, "members_")
        given: TrainingArrays | None = getattr(self, "_given", None)
        if data is not None:
            given = TrainingArrays.parse(data, "data")
        if given is None:
            raise PoisonproofError(
                "This model was loaded without its training data; give it: update(..., data=(X, y)).",
                code="update.no-data",
            )
        removed = row_numbers(remove, count_rows(given.X))
        added = None if add is None else TrainingArrays.parse(add, "add")
        n_added = 0 if added is None else count_rows(added.X)
        if len(removed) == count_rows(given.X) and not n_added:
            raise PoisonproofError(
                "Nothing would be left to train on; at least one training sample must stay.", code="update.nothing-left"
            )
        if len(removed):
            given = given.without(removed)
        if added is not None:
            given = given.and_more(added, split_of(self))
        changed = copy(self)
        retrained = changed._train(given, (self.members_, self.subset_digests_))
        self.__dict__.update(changed.__dict__)  # all of it, or nothing if anything was refused
        return Update(len(removed), n_added, retrained)

    def _train(self, given: TrainingArrays, earlier: tuple[Any, NDArray[np.uint8]] | None) -> NDArray[np.int64]:
        """Train what ``earlier`` base classifiers, with their digests, do not already give; which ones that was."""
        stated = {premise.code: premise for premise in getattr(self, "premises_", ()) if premise.declared is False}
        prepared = prepare(self, given.X, given.y, given.groups, given.typed)
        self._set_prepared(prepared)
        if earlier is None:
            self._see_surroundings()
        else:  # what a search chose, or learned before the split, stays so
            self.premises_ = tuple(_as_stated(premise, stated.get(premise.code)) for premise in self.premises_)
        digests = prepared.digests
        same = np.zeros(len(digests), np.bool_)
        if earlier is not None and earlier[1].shape == digests.shape:  # with another k, every subset is another
            same = (digests == earlier[1]).all(axis=1)
        spared = None if earlier is None else Earlier(earlier[0], np.flatnonzero(same))
        self.members_ = engine_of(prepared.learner).fit(
            prepared.learner, prepared.source, earlier=spared, n_jobs=self.n_jobs, verbose=self.verbose
        )
        self._given = given
        for notice in self.members_.notices():
            warn(notice)
        return np.flatnonzero(~same)

    def _set_prepared(self, prepared: Prepared) -> None:
        self._set_read(prepared.data)
        self.spread_, self.split_, self.premises_ = prepared.spread, prepared.split, prepared.premises
        self.subset_sizes_, self.partition_sizes_ = prepared.source.sizes, prepared.subsets.partition_sizes
        self.subset_digests_, self.n_dropped_ = prepared.digests, prepared.n_dropped
        self.estimator_ = prepared.learner
        self.classes_inferred_ = prepared.classes_inferred

    @property
    def estimators_(self) -> list[Any]:
        """The fitted base classifiers as the learner made them; None where a subset has fewer than two classes."""
        if not isinstance(self.members_, FittedMembers):
            raise AttributeError("A pooled learner solves its subsets together; ask `votes` what each one says.")
        return [member.model for member in self.members_]

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the training data, which is not the model's to give away."""
        return {name: value for name, value in super().__getstate__().items() if name != "_given"}

    def votes(self, X: Any, *, rankings: bool = False) -> Votes:
        """What every base classifier says about every sample, ready to certify.

        With ``rankings`` it says all its classes from best to worst, which `certify` needs for method "run-off"; the
        votes are the same.
        """
        check_is_fitted(self, "members_")
        samples = self._read_test(X, self.split_)
        if rankings:
            check_gives_scores(self.estimator_)
        answers = self.members_.votes(
            samples, len(self.classes_), rankings=rankings, n_jobs=self.n_jobs, verbose=self.verbose
        )
        return self._votes_of(answers)

    def _asked(self, X: Any) -> Votes:
        """The same votes from this process alone, without workers; samples that nobody can answer are not refused.

        A server asks so, and whoever reads a file in blocks: there, one such sample may be all there is of a block.
        """
        return self._votes_of(self.members_.ask(self._read_test(X, self.split_), len(self.classes_)))

    def _votes_of(self, answers: NDArray[Any]) -> Votes:
        inferred = self.classes_inferred_  # as `fit` found it: parameters may have been set since
        return votes_of(answers, self.spread_, self.split_, self.classes_, self.premises_, inferred=inferred)

    def certify(self, X: Any, method: str = "finite-aggregation") -> Certificate:
        """Prediction, runner-up, margin and radius for every sample; see `poisonproof.certify`."""
        return certify(self.votes(X, rankings=method == "run-off"), method)  # type: ignore[call-overload]

    def predict(self, X: Any, min_radius: int | None = None) -> NDArray[Any]:
        """The most voted label of each sample.

        With ``min_radius`` the answer is a masked array: it answers only where the radius is at least
        that, and is masked elsewhere.
        """
        if min_radius is None:
            votes = self.votes(X)
            return votes.classes[votes.counts().argmax(axis=1)]
        certificate = self.certify(X)
        answer: NDArray[Any] = np.ma.masked_array(certificate.labels, certificate.radius < min_radius)
        return answer

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Share of each class among the base classifiers that did not abstain (uniform if all did)."""
        counts = self.votes(X).counts()
        total = counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[1])

    def save(self, path: str | Path) -> None:
        """Keep the fitted model in a folder, without pickle; `load` serves it again."""
        from poisonproof.training.model_files import save_model

        check_is_fitted(self, "members_")
        save_model(self, path)

    @classmethod
    def load(cls, path: str | Path, trusted: Sequence[str] = ()) -> Self:
        """Open a saved model; refuse one that was altered or that holds types nobody vouched for.

        Parameters
        ----------
        path : path
        trusted : sequence of str
            Full names of types of your own (a custom base classifier) that may be loaded.
        """
        from poisonproof.training.model_files import load_model

        return load_model(cls, path, trusted)


def fitted_but_for_members(model: FiniteAggregationClassifier, prepared: Prepared) -> FiniteAggregationClassifier:
    """A copy of a model with all that `fit` says about it, and no base classifiers."""
    fitted = copy(model)
    fitted._set_prepared(prepared)
    return fitted


def _as_stated(premise: Premise, earlier: Premise | None) -> Premise:
    """A premise as it was stated before, by which it was not declared; unless what it says has changed since."""
    if earlier is None or premise.declared is False:
        return premise
    return earlier if earlier.value == premise.value or premise.code == BEFORE else premise
