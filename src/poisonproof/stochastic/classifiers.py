"""Classifiers that vote over random subsets: radii that hold with a stated probability.

Relatives of Finite Aggregation, for comparison: where it fixes the subsets and proves, these draw them and
estimate. See `poisonproof.core.certify.StochasticCertificate` for what exactly holds.

Draws: random subsets of the training data, each with the seed of the base classifier that it trains.

A confidence bound needs draws that are independent and alike, and chosen without a look at the data. So a draw
is a subset *and* a seed for the learner, and all come from Philox generators keyed by BLAKE2b of the user's
seed: pseudo-random numbers, taken as random. No draw depends on the order in which the samples came.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
import secrets
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from poisonproof.core.split import Split
from poisonproof.core.theorem2 import count_rows
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.base import EnsembleClassifier, warn
from poisonproof.estimators.prepared import read_training, shared_premises
from poisonproof.premises import Premise, declared_if
from poisonproof.samples.cells import cell_key
from poisonproof.samples.kinds import Samples, canonical_rank
from poisonproof.samples.labels import Cell
from poisonproof.stochastic.certificate import StochasticCertificate
from poisonproof.stochastic.radii import (
    MOST_K,
    StochasticRadii,
    bagging_radii,
    binomial_selection_radii,
    bound_leads,
    bound_terms,
    infinite_aggregation_radii,
)
from poisonproof.training.engine import ArraySource, engine_of

CONDITIONAL_SHARE = 0.5  # of alpha, spent on the conditionals of Theorem 3
SEED_BITS = 64
GIVEN_SEED = "its numbers count as random, and it was a secret to all who wrote training data or chose test samples"
DRAWN_SEED = (
    "drawn from the system's secure source when the training data was given; its numbers count as random, and nobody "
    "knew it who chose test samples"
)


class DrawnEnsembleClassifier(EnsembleClassifier):
    """What the classifiers over random subsets share; see its subclasses.

    How subsets were drawn is kept by `fit` (``seed_``, ``k_``, …), so that a certificate speaks of the draws that
    were made, whatever parameters are set later.
    """

    method: str
    n_draws: int
    alpha: float
    seed: int | None
    dtype: str
    n_features: int | None
    n_jobs: int | None
    verbose: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.seed is None
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Draw the subsets and train one base classifier on each.

        Parameters
        ----------
        X : array (n_samples, …), sparse matrix, DataFrame (pandas, Polars, PyArrow), or list of strings
        y : array (n_samples,)
        """
        self._check_parameters()
        split = Split(dtype=self.dtype, n_features=self.n_features)
        data = read_training(self, X, y, split)
        self._set_read(data)
        rows = np.flatnonzero(data.codes >= 0)
        samples, codes, cells = data.samples, data.codes, data.cells
        self.n_dropped_ = len(codes) - len(rows)
        if self.n_dropped_:
            samples, codes, cells = samples.subset(rows), codes[rows], [cells[row] for row in rows]
        self.seed_ = secrets.randbits(SEED_BITS) if self.seed is None else operator.index(self.seed)
        self.classes_inferred_ = self.classes is None
        draws = self._draw(samples, cells, canonical_rank(samples, codes))
        self.split_, self.draws_, self.subset_sizes_ = split, draws, draws.sizes
        self.premises_ = (
            Premise(
                "draws",
                f"{self.n_draws} subsets, {self._how_drawn()}, seed {self.seed_}",
                declared=self._declared_draws,
            ),
            Premise(
                "seed", DRAWN_SEED if self.seed is None else GIVEN_SEED, declared=declared_if(self.seed is not None)
            ),
            *shared_premises(self, data, split),
        )
        self._see_surroundings()
        for oddity in data.oddities:
            warn(f"{oddity}.")
        if empty := int((draws.sizes == 0).sum()):
            warn(f"{empty} of {len(draws)} drawn subsets are empty, so their base classifiers abstain.")
        source = ArraySource(samples, codes, draws)
        self.members_ = engine_of(data.learner).fit(data.learner, source, n_jobs=self.n_jobs, verbose=self.verbose)
        for notice in self.members_.notices():
            warn(notice)
        return self

    def certify(self, X: Any) -> StochasticCertificate:
        """Prediction and radius for every sample, or an abstention; all of them hold together with
        probability at least 1 − alpha, over the draw of the subsets.
        """
        return self.certify_matrix(self.vote_matrix(X))

    def certify_matrix(self, votes: NDArray[Any]) -> StochasticCertificate:
        """The same from the votes of these base classifiers (see `vote_matrix`)."""
        check_is_fitted(self, "members_")
        self._check_parameters()
        if votes.ndim != 2 or votes.shape[1] != len(self.draws_):
            raise PoisonproofError(
                f"Votes must have a column for each of the {len(self.draws_)} draws. Got {votes.shape}.",
                code="votes.shape",
            )
        counts = self._counts(votes)
        radii = self._radii(votes, counts)
        return StochasticCertificate(
            prediction=counts.argmax(axis=1),
            abstained=radii.abstained,
            radius=radii.radius,
            radius_changed=radii.changed,
            method=self.method,
            classes=self.classes_,
            classes_inferred=self.classes_inferred_,
            failure_probability=float(self.alpha),
            seed=self.seed_,
            n_draws=len(self.draws_),
            premises=self.premises_,
        )

    def predict(self, X: Any, min_radius: int | None = None) -> NDArray[Any]:
        """The most voted label of each sample.

        With ``min_radius`` the answer is a masked array: it answers only where the certificate does not abstain
        and the radius is at least that, and is masked elsewhere.
        """
        if min_radius is None:
            votes = self.vote_matrix(X)
            return self.classes_[self._counts(votes).argmax(axis=1)]
        certificate = self.certify(X)
        answer: NDArray[Any] = np.ma.masked_array(
            self.classes_[certificate.prediction], certificate.abstained | (certificate.radius < min_radius)
        )
        return answer

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Share of each class among the base classifiers that did not abstain (uniform if all did)."""
        votes = self.vote_matrix(X)
        counts = self._counts(votes)
        total = counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[1])

    @abstractmethod
    def _draw(self, samples: Samples, labels: list[Cell], rank: NDArray[np.int64]) -> Draws:
        """The subsets."""

    @property
    def _declared_draws(self) -> bool | None:
        """Whether number and size of the subsets are the user's, or both are defaults."""
        defaults = inspect.signature(type(self)).parameters
        names = [name for name in ("n_draws", "k", "subset_size") if name in defaults]
        return declared_if(any(getattr(self, name) != defaults[name].default for name in names))

    @abstractmethod
    def _how_drawn(self) -> str:
        """How each subset is drawn, for a reader of the certificate."""

    @abstractmethod
    def _radii(self, votes: NDArray[Any], counts: NDArray[np.int64]) -> StochasticRadii:
        """The certificate, from votes."""

    def vote_matrix(self, X: Any) -> NDArray[Any]:
        """What every base classifier says about every sample: class indices (samples, draws)."""
        check_is_fitted(self, "members_")
        samples = self._read_test(X, self.split_)
        return self.members_.votes(samples, len(self.classes_), n_jobs=self.n_jobs, verbose=self.verbose)

    def _counts(self, votes: NDArray[Any]) -> NDArray[np.int64]:
        counts = np.zeros((len(votes), len(self.classes_) + 1), np.int64)
        count_rows(votes, counts)
        return counts[:, :-1]

    def _check_parameters(self) -> None:
        self._check_whole("n_draws", 1, 1 << 31)
        if self.seed is not None:
            self._check_whole("seed", 0, (1 << SEED_BITS) - 1)
        if not 0 < self.alpha < 1:
            self._refuse("alpha", "lie strictly between 0 and 1")

    def _check_whole(self, name: str, least: int, most: int) -> None:
        try:
            fine = least <= operator.index(getattr(self, name)) <= most
        except TypeError:
            fine = False
        if not fine:
            self._refuse(name, f"be a whole number, {least} … {most}")

    def _refuse(self, name: str, rule: str) -> None:
        raise PoisonproofError(
            f"The '{name}' parameter of {type(self).__name__} must {rule}. Got {getattr(self, name)!r} instead.",
            code="stochastic.parameter",
        )


class InfiniteAggregationClassifier(DrawnEnsembleClassifier):
    """Finite Aggregation with d → ∞, estimated: its radii hold with probability at least 1 − alpha.

    Each subset holds every training sample with probability 1/k (Definition 2 of Wang, Levine and Feizi 2022),
    and radii come from their Theorem 3. With ``method="binomial-selection"`` the same classifier has another
    certificate, that of randomised selection (Chen et al. 2020): it goes by the probability that a subset meets any
    poison at all, and also counts a changed training sample as 1. Its radii are larger on the same draws, but for what
    conditionals may add.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        The learner of the base classifiers, as in `FiniteAggregationClassifier`; every ``random_state`` in it is
        drawn with the subset.
    k : int
        Inverse sensitivity: a training sample is in a subset with probability 1/k.
    n_draws : int
        Number of subsets, and of base classifiers.
    alpha : float
        The probability that a certificate may fail.
    seed : int, optional
        What the subsets are drawn from. By default `fit` draws it from the system's secure source, when the training
        data is fixed, and ``seed_`` keeps it. One that you give must have been a secret to whoever wrote training data,
        and either must be to whoever chooses test samples: someone who knows it can write data on which these very
        draws mislead.
    method : "infinite-aggregation" or "binomial-selection"
        The certificate.
    conditionals : bool
        With "infinite-aggregation": whether to spend half of alpha on how the votes change with each training sample,
        as Theorem 3 allows. That needs many draws that hold a sample (n_draws / k) to gain anything; otherwise it loses
        a little.
    classes : sequence, optional
        The labels that may occur, as in `FiniteAggregationClassifier`.
    dtype : "float64" or "uint8"
        The declared form of dense numbers.
    n_features : int, optional
        The declared number of features.
    n_jobs : int, optional
        Workers, as in joblib.
    verbose : int
        Passed to joblib.
    trusted_state : bool
        Accept a learner that arrives fitted in part (a `FrozenEstimator`, a function bound to a fitted model, …). Every
        base classifier shares that part, so it is a premise of every certificate, named with its digest: it must not
        have seen training samples that an attacker could touch. By default such a learner is refused.
    encoder : Encoder or function, optional
        A fixed map from one sample to numbers, in front of the learner; see `FiniteAggregationClassifier`.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        k: int = 50,
        n_draws: int = 1000,
        alpha: float = 0.001,
        seed: int | None = None,
        method: Literal["infinite-aggregation", "binomial-selection"] = "infinite-aggregation",
        conditionals: bool = False,
        classes: Sequence[Any] | None = None,
        dtype: str = "float64",
        n_features: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        trusted_state: bool = False,
        encoder: Any = None,
    ) -> None:
        self.estimator = estimator
        self.k = k
        self.n_draws = n_draws
        self.alpha = alpha
        self.seed = seed
        self.method = method
        self.conditionals = conditionals
        self.classes = classes
        self.dtype = dtype
        self.n_features = n_features
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.trusted_state = trusted_state
        self.encoder = encoder

    def _draw(self, samples: Samples, labels: list[Cell], rank: NDArray[np.int64]) -> Draws:
        self.k_ = operator.index(self.k)
        return Draws.bernoulli(samples, labels, rank, self.k_, self.n_draws, self.seed_)

    def _how_drawn(self) -> str:
        return f"each training sample with probability 1/{self.k_}"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("k", 1, MOST_K)
        if self.method not in (INFINITE, BINOMIAL):
            self._refuse("method", f"be '{INFINITE}' or '{BINOMIAL}'")
        if self.conditionals and self.method != INFINITE:
            self._refuse("conditionals", f"be False with the method '{BINOMIAL}'")

    def _radii(self, votes: NDArray[Any], counts: NDArray[np.int64]) -> StochasticRadii:
        draws, k, unseen = self.draws_, self.k_, self.classes_inferred_
        if not self.conditionals:
            leads = bound_leads(counts, len(draws), self.alpha, unseen=unseen)
            if self.method == BINOMIAL:
                return binomial_selection_radii(leads, k)
            return infinite_aggregation_radii(leads, k, draws.n_train)
        leads = bound_leads(counts, len(draws), self.alpha * (1 - CONDITIONAL_SHARE), unseen=unseen)
        held = np.asarray(draws.holding.sum(axis=1)).astype(np.int64)
        terms = bound_terms(self._conditional(votes), held, leads, self.alpha * CONDITIONAL_SHARE)
        return infinite_aggregation_radii(leads, k, draws.n_train, terms)

    def _conditional(self, votes: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
        """For each test sample, the votes for each class among the draws that hold each training sample."""
        for row in votes:
            yield np.asarray(self.draws_.holding @ (row[:, None] == np.arange(len(self.classes_))).astype(np.int64))


class CertifiedBaggingClassifier(DrawnEnsembleClassifier):
    """Bagging (Jia, Cao and Gong 2021): radii hold with probability at least 1 − alpha.

    Each subset is ``subset_size`` training samples drawn with replacement; the other parameters are those of
    `InfiniteAggregationClassifier`.

    Parameters
    ----------
    subset_size : int
        Samples per subset. Given, never taken from the number of training samples, which an attacker can change.
    """

    method = "bagging"

    def __init__(
        self,
        estimator: Any = None,
        *,
        subset_size: int = 50,
        n_draws: int = 1000,
        alpha: float = 0.001,
        seed: int | None = None,
        classes: Sequence[Any] | None = None,
        dtype: str = "float64",
        n_features: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        trusted_state: bool = False,
        encoder: Any = None,
    ) -> None:
        self.estimator = estimator
        self.subset_size = subset_size
        self.n_draws = n_draws
        self.alpha = alpha
        self.seed = seed
        self.classes = classes
        self.dtype = dtype
        self.n_features = n_features
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.trusted_state = trusted_state
        self.encoder = encoder

    def _draw(self, samples: Samples, labels: list[Cell], rank: NDArray[np.int64]) -> Draws:
        self.subset_size_ = operator.index(self.subset_size)
        return Draws.with_replacement(rank, self.subset_size_, self.n_draws, self.seed_)

    def _how_drawn(self) -> str:
        return f"{self.subset_size_} of the {self.draws_.n_train} training samples with replacement"

    def _radii(self, votes: NDArray[Any], counts: NDArray[np.int64]) -> StochasticRadii:
        leads = bound_leads(counts, len(self.draws_), self.alpha, unseen=self.classes_inferred_)
        return bagging_radii(leads, self.draws_.n_train, self.subset_size_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_whole("subset_size", 1, MOST_K)


LEARNER_SEEDS = 1 << 31
INFINITE, BINOMIAL = "infinite-aggregation", "binomial-selection"


@dataclass(frozen=True)
class Draws:
    """Rows of each drawn subset, in canonical order, and the learner's seed of each draw.

    Parameters
    ----------
    n_train : int
        Number of training samples.
    flat : array
        The rows of all draws in sequence; draw i has ``flat[starts[i] : starts[i + 1]]``.
    starts : array (n_draws + 1,)
    seeds : array (n_draws,)
    """

    n_train: int
    flat: NDArray[np.int64]
    starts: NDArray[np.int64]
    seeds: NDArray[np.int64]

    @classmethod
    def bernoulli(
        cls, samples: Samples, labels: Sequence[Cell], rank: NDArray[np.int64], k: int, n_draws: int, seed: int
    ) -> Draws:
        """Subsets that hold every sample with probability 1/k, independently.

        The draws that hold a sample are a function of the seed, the hash of its content, its label and, where
        several agree in both, its number among them. So no two samples share their chance, not even equal
        ones, and inserting or removing samples leaves the others where they were: only the base classifiers
        that hold them change.
        """
        times: Counter[bytes] = Counter()
        draws, rows = [], []
        for row in np.argsort(rank).tolist():
            key = int(samples.content_hashes[row]).to_bytes(8, "little") + cell_key(labels[row])
            chance = _generator(seed, b"sample", times[key].to_bytes(8, "little"), key)
            times[key] += 1
            held = np.flatnonzero(chance.integers(k, size=n_draws) == 0)
            draws.append(held)
            rows.append(np.full(len(held), row))
        draw, flat = np.concatenate(draws), np.concatenate(rows)
        starts = np.concatenate(([0], np.cumsum(np.bincount(draw, minlength=n_draws))))
        return cls(len(labels), flat[np.lexsort((rank[flat], draw))], starts, _learner_seeds(seed, n_draws))

    @classmethod
    def with_replacement(cls, rank: NDArray[np.int64], subset_size: int, n_draws: int, seed: int) -> Draws:
        """Subsets of a fixed size, drawn uniformly with replacement."""
        in_order = np.argsort(rank)
        places = _generator(seed, b"bagging").integers(len(rank), size=(n_draws, subset_size))
        starts = np.arange(n_draws + 1) * subset_size
        return cls(len(rank), in_order[np.sort(places, axis=1)].ravel(), starts, _learner_seeds(seed, n_draws))

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, subset: int) -> NDArray[np.int64]:
        """The samples of one draw, in canonical order; a sample drawn twice stands there twice."""
        return self.flat[self.starts[subset] : self.starts[subset + 1]]

    def seed(self, subset: int) -> int:
        """The seed of the base classifier that this draw trains."""
        return int(self.seeds[subset])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each draw holds."""
        return np.diff(self.starts)

    @cached_property
    def holding(self) -> sp.csr_array:
        """A matrix (n_train, n_draws) of ones where a draw holds a sample."""
        ones = np.ones(len(self.flat), np.int64)
        return sp.csr_array(sp.csc_array((ones, self.flat, self.starts), shape=(self.n_train, len(self))))


def _generator(seed: int, *purpose: bytes) -> np.random.Generator:
    """A generator that is a function of the seed and the purpose."""
    digest = hashlib.blake2b(b"bezoar draws " + seed.to_bytes(8, "little"), digest_size=16)
    for part in purpose:
        digest.update(part)
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))


def _learner_seeds(seed: int, n_draws: int) -> NDArray[np.int64]:
    return _generator(seed, b"learner").integers(LEARNER_SEEDS, size=n_draws)
