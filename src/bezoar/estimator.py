"""FiniteAggregationClassifier: a scikit-learn classifier whose predictions come with a proof."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bezoar.certificates import Certificate, certify
from bezoar.ensemble import EnsembleClassifier, warn
from bezoar.learners.pooled import PooledMembers
from bezoar.premises import Premise
from bezoar.samples import Samples
from bezoar.split import Split
from bezoar.spread import Spread, resolve_spread
from bezoar.subsets import Subsets
from bezoar.train import collect_votes, fit_members
from bezoar.votes import Votes

DEFAULT_K = 50
DEFAULT_D = 16


class Training(NamedTuple):
    """What the engine trains from: the arguments of `fit_members`."""

    estimator: Any
    samples: Samples
    codes: NDArray[np.int64]
    subsets: Subsets


class FiniteAggregationClassifier(EnsembleClassifier):
    """A classifier that knows how many poisoned training samples each prediction withstands.

    `certify` returns for every prediction a radius r: whatever an attacker inserts into or removes
    from the training data, up to r samples in total, the prediction stays the same. The guarantee
    holds if the base classifier is a function of its training data alone (see
    `bezoar.check_estimator_purity`) and if nothing outside it learned from the data: scalers,
    encoders and feature selection belong *inside* ``estimator``, as a pipeline
    (see `bezoar.check_pipeline`).

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        The learner of the base classifiers. Default: `TableClassifier`, logistic regression that
        copes with numbers, categories and missing values. Every ``random_state`` in it is set to the
        base classifier's index.
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
        Workers, as in joblib; ``joblib.parallel_config`` chooses the backend.
    verbose : int
        Passed to joblib.

    Attributes
    ----------
    classes_ : array
        The labels, in increasing order.
    spread_ : Spread
    split_ : Split
    members_ : list of Member
        The fitted base classifiers; number i belongs to subset i (`PooledMembers` for a pooled learner).
    subset_sizes_, partition_sizes_ : arrays
        Training samples per subset and per partition.
    n_dropped_ : int
        Training samples left out because their label is not one of the classes.
    premises_ : tuple of Premise
        What every certificate of this model takes as given.
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
    ) -> None:
        self.estimator = estimator
        self.k = k
        self.d = d
        self.spread = spread
        self.split = split
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Split, spread, and train one base classifier per subset.

        Parameters
        ----------
        X : array (n_samples, …), sparse matrix, DataFrame, or list of strings
        y : array (n_samples,)
        groups : array (n_samples,), optional
            Contributor ids, for split="group".
        """
        training = self.prepare(X, y, groups)
        self.members_ = fit_members(*training, n_jobs=self.n_jobs, verbose=self.verbose)
        if not isinstance(self.members_, PooledMembers):
            self.report_failures(
                [member.failure for member in self.members_ if member.failure],
                sum(member.model is not None for member in self.members_),
            )
        return self

    def prepare(self, X: Any, y: Any, groups: Any = None) -> Training:
        """Check, split and spread the training data: all of `fit` but the training itself."""
        spread = resolve_spread(self.spread, self.k, self.d, unless=(DEFAULT_K, DEFAULT_D))
        split = Split.of(self.split)
        if split is None:
            raise TypeError("The 'split' parameter must be a name or a bezoar.Split. Got None instead.")
        learner, samples, codes, cells = self.read_training(X, y, split)
        partition = split.partitions(samples, spread.n_partitions, cells, groups)
        rows = np.flatnonzero(codes >= 0)
        self.n_dropped_ = len(codes) - len(rows)
        samples, codes = (samples.subset(rows) if self.n_dropped_ else samples), codes[rows]
        subsets = Subsets.of(samples, codes, partition[rows], spread)

        self.spread_, self.split_ = spread, split
        self.subset_sizes_, self.partition_sizes_ = subsets.sizes, subsets.partition_sizes
        self.premises_ = self._list_premises(learner, samples)
        self._report_oddities()
        return Training(learner, samples, codes, subsets)

    def votes(self, X: Any) -> Votes:
        """What every base classifier says about every sample, ready to certify."""
        check_is_fitted(self, "members_")
        samples = self.read_test(X, self.split_)
        matrix = collect_votes(self.members_, samples, len(self.classes_), n_jobs=self.n_jobs, verbose=self.verbose)
        return self.as_votes(matrix)

    def as_votes(self, matrix: NDArray[Any]) -> Votes:
        """A vote matrix of this ensemble with all that a certificate needs to know about it."""
        return Votes(
            matrix,
            self.spread_,
            self.classes_,
            self.split_,
            classes_inferred=self.classes is None,
            premises=self.premises_,
        )

    def certify(self, X: Any, method: str = "finite-aggregation") -> Certificate:
        """Prediction, runner-up, margin and radius for every sample; see `bezoar.certify`."""
        return certify(self.votes(X), method)  # type: ignore[arg-type]

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
        from bezoar.store import save_model

        check_is_fitted(self, "members_")
        if isinstance(self.members_, PooledMembers):
            raise ValueError("Base classifiers of a pooled learner cannot be saved yet; keep their votes instead.")
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
        from bezoar.store import load_model

        return load_model(cls, path, trusted)

    def _list_premises(self, learner: Any, samples: Samples) -> tuple[Premise, ...]:
        spread, split = self.spread_, self.split_
        return (
            Premise("spread", f"k = {spread.k:g}, d = {spread.d}, digest {spread.digest[:16]}", True),
            Premise("split", f"{split.kind}, {split.dtype}{', labels hashed' if split.hash_labels else ''}", True),
            *self.shared_premises(learner, samples, split),
        )

    def _report_oddities(self) -> None:
        empty = int((self.subset_sizes_ == 0).sum())
        self.report_dropped()
        if empty:
            warn(
                f"{empty} of {len(self.subset_sizes_)} subsets are empty, so their base classifiers abstain; "
                "a smaller k·d would leave fewer."
            )
