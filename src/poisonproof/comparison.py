"""One table: what each method certifies on the same data, with the same learner and a like number of base classifiers,
or where the training samples themselves vote.

Methods that only differ in their certificate share their base classifiers, which are trained once.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.ballots.classifiers import SampleVoteClassifier
from poisonproof.ballots.maps import map_for
from poisonproof.core.certificate import attack_sizes
from poisonproof.core.certify import Certificate, certify
from poisonproof.core.designs import Design
from poisonproof.core.metrics import share_of_majority
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.votes import Votes
from poisonproof.data.dataset import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.inspection import describe
from poisonproof.learners.table import TableClassifier
from poisonproof.planning.plan import PARAMETERS, best_of_each, plan
from poisonproof.premises import Premise, PremiseWarning, restated
from poisonproof.samples.labels import read_labels
from poisonproof.stochastic.certificate import StochasticCertificate
from poisonproof.stochastic.classifiers import (
    BinomialSelectionClassifier,
    CertifiedBaggingClassifier,
    DrawnEnsembleClassifier,
    InfiniteAggregationClassifier,
)
from poisonproof.training.engine import engine_of

PROOF = "proof"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """A row that can be asked for: its title, the ensemble that it needs, and the certificate on its votes."""

    title: str
    ensemble: str
    certificate: str


METHODS = {
    "dpa": Method("DPA (d = 1)", "dpa", "finite-aggregation"),
    "dpa-run-off": Method("DPA (d = 1), run-off", "dpa", "run-off"),
    "finite": Method("Finite Aggregation, Theorem 2", "finite", "finite-aggregation"),
    "finite-tight": Method("Finite Aggregation, tight", "finite", "tight"),
    "finite-run-off": Method("Finite Aggregation, run-off", "finite", "run-off"),
    "designed": Method("designed spread, Theorem 2", "designed", "finite-aggregation"),
    "designed-tight": Method("designed spread, tight", "designed", "tight"),
    "infinite": Method("Infinite Aggregation", "bernoulli", "infinite-aggregation"),
    "binomial": Method("binomial selection", "bernoulli", "binomial-selection"),
    "bagging": Method("bagging", "bagging", "bagging"),
    "neighbours": Method("neighbours", "neighbours", "neighbours"),
    "ballots": Method("ballots", "ballots", "ballots"),
}
BY_SAMPLES = ("neighbours", "ballots")
VOTES_PER_POISON = 4  # base classifiers withstand k over this by a lead of half of the votes


@dataclass(frozen=True)
class Row:
    """What one method certifies, or why it does not apply (then everything but its name and title is None)."""

    name: str
    title: str
    why_not: str | None = None
    certificate: Certificate | StochasticCertificate | None = field(default=None, repr=False)
    k: float | None = None
    d: int | None = None
    n_classifiers: int | None = None
    seconds_to_train: float | None = None
    """To split, train and vote on all test samples; rows on the same base classifiers state the same."""
    ms_per_sample: float | None = None

    @property
    def guarantee(self) -> str:
        """What kind of statement its radii are."""
        if isinstance(self.certificate, StochasticCertificate):
            return f"{self.certificate.confidence}, for the ideal classifier only"
        return PROOF if self.certificate is not None else "does not apply"

    @property
    def proves(self) -> bool:
        """Whether its radii hold without a failure probability."""
        return isinstance(self.certificate, Certificate)

    def as_dict(self, y: NDArray[Any], sizes: Sequence[int]) -> dict[str, Any]:
        """Plain values, with the certified fraction (pointwise) at these attack sizes."""
        record: dict[str, Any] = {"name": self.name, "title": self.title, "guarantee": self.guarantee}
        if self.certificate is None:
            return {**record, "why_not": self.why_not}
        abstained = getattr(self.certificate, "abstained", np.zeros(1))
        figures = self.certificate.evaluate(y)
        return {
            **record,
            "unit": self.certificate.unit,
            "voters": self.certificate.voters if isinstance(self.certificate, Certificate) else None,
            "k": self.k,
            "d": self.d,
            "base_classifiers": self.n_classifiers,
            "clean_accuracy": figures.clean_accuracy,
            "balanced_accuracy": figures.balanced_accuracy,
            "abstained": float(abstained.mean()),
            "mean_radius": float(self.certificate.radius.mean()),
            "certified_fraction": figures.certified_fraction(list(sizes)).tolist(),
            "certified_fraction_balanced": figures.certified_fraction_balanced(list(sizes)).tolist(),
            "warning": None if (caution := figures.caution) is None else caution.sentence,
            "seconds_to_train": self.seconds_to_train,
            "ms_per_sample": self.ms_per_sample,
            "premises": [str(premise) for premise in self.certificate.premises],
        }


@dataclass(frozen=True)
class Comparison:
    """What `compare` found, in the order in which rows were asked for."""

    dataset: str
    learner: str
    n_train: int
    y_test: NDArray[Any] = field(repr=False)
    k: int
    n_classifiers: int
    rows: tuple[Row, ...]
    attack_sizes: tuple[int, ...]

    @property
    def unit(self) -> str:
        """What attack sizes count, in every row."""
        grouped = any(row.certificate is not None and row.certificate.unit == "contributors" for row in self.rows)
        return "contributors" if grouped else "training samples inserted or removed"

    @property
    def majority_share(self) -> float:
        """Share of the most frequent test label."""
        return share_of_majority(read_labels(self.y_test).codes)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for a file."""
        return {
            "data": self.dataset,
            "learner": self.learner,
            "n_train": self.n_train,
            "n_test": len(self.y_test),
            "majority_share": self.majority_share,
            "k": self.k,
            "classifiers": self.n_classifiers,
            "unit": self.unit,
            "attack_size": list(self.attack_sizes),
            "rows": [row.as_dict(self.y_test, self.attack_sizes) for row in self.rows],
        }


def compare(
    dataset: Dataset,
    estimator: Any = None,
    *,
    k: int = 50,
    n_classifiers: int = 800,
    rows: Sequence[str] = tuple(METHODS),
    sizes: Sequence[int] | None = None,
    seed: int | None = None,
    n_jobs: int | None = None,
    voters: Mapping[str, SampleVoteClassifier] | None = None,
    features: Any = None,
) -> Comparison:
    """Certify the same test samples by several methods, each with its own kind of guarantee.

    All have the same inverse sensitivity k (the designed spread: the nearest there is), hence subsets of the same
    size on average, and at most ``n_classifiers`` base classifiers; with d = 1 there are k. The subsets of bagging are
    as large as those of the others, which is a premise read off this data.

    Parameters
    ----------
    dataset : Dataset
    estimator : scikit-learn classifier or pooled learner, optional
    k, n_classifiers : int
    rows : names of `METHODS`
    sizes : attack sizes, optional
        Otherwise round ones up to the largest radius.
    seed : int, optional
        Of the random subsets, which must have been a secret; by default one is drawn for each of the two kinds of them.
    n_jobs : int, optional
    voters : dict, optional
        The classifiers of the rows "neighbours" and "ballots", where training samples vote. Parameters of a row that is
        not among them are chosen by a pilot on training samples, at the middle one of ``sizes`` or else at k / 4; that
        is a premise.
    features : feature map, optional
        The map of such a pilot; otherwise the one for this kind of data.
    """
    _check(dataset, k, n_classifiers, rows)
    if estimator is None:
        estimator = TableClassifier()
        dataset = replace(dataset, premises=(*dataset.premises, Premise("learner", describe(estimator), declared=None)))
    bench = _Bench(dataset, estimator, k, n_classifiers, seed, n_jobs)
    if any(name not in BY_SAMPLES for name in rows):
        bench.start_workers()
    feared = sorted(sizes)[len(sizes) // 2] if sizes else k // VOTES_PER_POISON
    compared: dict[str, Row] = {
        name: bench.of_samples(name, (voters or {}).get(name), features, max(1, feared))
        for name in rows
        if name in BY_SAMPLES
    }
    for ensemble in dict.fromkeys(METHODS[name].ensemble for name in rows if name not in BY_SAMPLES):
        wanted = [name for name in rows if METHODS[name].ensemble == ensemble]
        applying = []
        for name in wanted:
            why_not = bench.why_not(METHODS[name])
            if why_not is None:
                applying.append(name)
            else:
                compared[name] = Row(name, METHODS[name].title, why_not)
        if applying:
            log.info("training for %s", "; ".join(METHODS[name].title for name in applying))
            certifying = bench.drawn if ensemble in ("bernoulli", "bagging") else bench.spread_out
            compared |= {row.name: row for row in certifying(ensemble, applying)}
    certificates = [row.certificate for row in compared.values() if row.certificate is not None]
    if sizes is None and certificates:
        sizes = attack_sizes(max(certificates, key=lambda one: int(one.radius.max(initial=0))))  # type: ignore[arg-type]
    return Comparison(
        dataset.name,
        describe(bench.estimator),
        len(dataset.train),
        np.asarray(dataset.test.labels),
        k,
        n_classifiers,
        tuple(compared[name] for name in rows),
        tuple(sizes or (0,)),
    )


def nearest_design(k: float, d: int, n_classifiers: int) -> Design | None:
    """The first suggestion for this k, and for d or less, with no more base classifiers than that."""
    for degree in range(d, 1, -1):
        for design in Spread.suggest(k, degree):
            if design.n_subsets <= n_classifiers:
                return design
    return None


def _check(dataset: Dataset, k: int, n_classifiers: int, rows: Sequence[str]) -> None:
    unknown = [name for name in rows if name not in METHODS]
    if unknown or not rows:
        raise PoisonproofError(f"There is no row '{unknown[0] if unknown else ''}'; there are {', '.join(METHODS)}.")
    n_train = len(dataset.train)
    if not 1 <= k <= n_train:
        raise PoisonproofError(
            f"k must lie in 1 … {n_train}, the number of training samples, or most subsets would be empty. Got {k}."
        )
    if n_classifiers < k:
        raise PoisonproofError(f"The number of base classifiers must be at least k = {k}. Got {n_classifiers}.")
    if not len(dataset.test):
        raise PoisonproofError(f"{dataset.name} has no test samples; there is nothing to certify.")


@dataclass(frozen=True)
class _Bench:
    """What all rows have in common."""

    dataset: Dataset
    estimator: Any
    k: int
    n_classifiers: int
    seed: int | None
    n_jobs: int | None

    @property
    def d(self) -> int:
        return self.n_classifiers // self.k

    @property
    def classes(self) -> list[Any] | None:
        return None if self.dataset.classes is None else self.dataset.classes.tolist()

    def why_not(self, method: Method) -> str | None:
        """Why a method cannot be asked on this data, with this learner and budget; None if it can."""
        learner = type(self.estimator).__name__
        if method.certificate == "run-off" and not engine_of(self.estimator).ranks(self.estimator):
            return f"rankings need scores, and {learner} has neither decision_function nor predict_proba"
        if method.ensemble == "finite" and self.d < 2:
            return f"{self.n_classifiers} base classifiers at k = {self.k} leave d = 1, which is DPA"
        if method.ensemble == "designed" and nearest_design(self.k, self.d, self.n_classifiers) is None:
            return f"there is no design near k = {self.k} with at most {self.n_classifiers} base classifiers"
        if method.ensemble in ("bernoulli", "bagging") and self.dataset.train.groups is not None:
            return "it draws training samples one by one, and here contributors are counted"
        return None

    def spread_out(self, ensemble: str, names: Sequence[str]) -> list[Row]:
        """Rows with a proof, on one set of base classifiers."""
        data, spread = self.dataset, self._spread(ensemble)
        started = time.perf_counter()
        model = self._fitted(spread)
        votes = model.votes(data.test.X, rankings=any(METHODS[name].certificate == "run-off" for name in names))
        seconds = time.perf_counter() - started
        rows = []
        for name in names:
            how: Any = METHODS[name].certificate
            certify(_first_of(votes), how)  # compiles
            started = time.perf_counter()
            certificate = certify(votes, how)
            facts = (spread.k, spread.d, spread.n_subsets, seconds, _ms_since(started, len(certificate)))
            rows.append(Row(name, METHODS[name].title, None, certificate, *facts))
        return rows

    def of_samples(self, name: str, given: SampleVoteClassifier | None, features: Any, feared: int) -> Row:
        """The row of training samples that vote, as given or by a pilot at the attack size that is feared."""
        data, started = self.dataset, time.perf_counter()
        kind = registry.find("elections", name).classifier
        if given is not None and not isinstance(given, kind):
            raise PoisonproofError(f"The row '{name}' is of a {kind.__name__}. Got {type(given).__name__} instead.")
        try:
            model = given or self._by_pilot(name, feared, features)
        except PoisonproofError as error:
            return Row(name, METHODS[name].title, str(error).removesuffix("."))
        model.fit(data.train.X, data.train.labels, data.train.groups)
        model.premises_ = restated(model.premises_, data.premises)
        votes = model._votes_of(model._heard(data.test.X))
        seconds = time.perf_counter() - started
        started = time.perf_counter()
        certificate = certify(votes)
        if given is None:
            premises = (
                replace(one, declared=False) if one.code == PARAMETERS[name] else one for one in certificate.premises
            )
            certificate = replace(certificate, premises=tuple(premises))
        parameter = f"K = {model.n_neighbors}" if hasattr(model, "n_neighbors") else f"near = {model.near:g}"
        title = f"{METHODS[name].title}, {parameter}{'' if given else f', by a pilot at {feared}'}"
        spent = (seconds, _ms_since(started, len(certificate)))
        return Row(name, title, None, certificate, None, None, None, *spent)

    def _by_pilot(self, name: str, attack_size: int, features: Any) -> SampleVoteClassifier:
        """The classifier of a method that certifies most at an attack size; one sentence if no pilot can be made."""
        data = self.dataset
        if data.train.groups is not None:
            raise PoisonproofError("no pilot is made of contributors that vote")
        if name == "ballots" and data.classes is None:
            raise PoisonproofError("classes that were read off the data leave ballots nearly nothing; declare them")
        features = map_for(data) if features is None else features
        chosen = best_of_each(plan(data, attack_size, methods=(name,), features=features).candidates)[0]
        given = {what: int(value) if what == "n_neighbors" else value for what, value in chosen.parameters.items()}
        split = Split("content", data.dtype, data.n_features)
        kind = registry.find("elections", name).classifier
        return kind(features, **given, split=split, classes=self.classes, n_jobs=self.n_jobs)

    def drawn(self, ensemble: str, names: Sequence[str]) -> list[Row]:
        """Rows that hold with a probability, on one set of base classifiers."""
        data, n_train = self.dataset, len(self.dataset.train)
        shared: dict[str, Any] = {
            "n_draws": self.n_classifiers,
            "seed": self.seed,
            "classes": self.classes,
            "dtype": data.dtype,
            "n_features": data.n_features,
            "n_jobs": self.n_jobs,
        }
        makers: dict[str, Callable[[], DrawnEnsembleClassifier]] = {
            "infinite": lambda: InfiniteAggregationClassifier(self.estimator, k=self.k, **shared),
            "binomial": lambda: BinomialSelectionClassifier(self.estimator, k=self.k, **shared),
            "bagging": lambda: CertifiedBaggingClassifier(
                self.estimator, subset_size=max(1, round(n_train / self.k)), **shared
            ),
        }
        started = time.perf_counter()
        fitted = makers[names[0]]().fit(data.train.X, data.train.labels)
        of_size = [premise for premise in fitted.premises_ if premise.code == "draws" and ensemble == "bagging"]
        chosen = [replace(premise, declared=False) for premise in of_size]  # by the number of training samples
        fitted.premises_ = restated(fitted.premises_, (*data.premises, *chosen))
        matrix = fitted.vote_matrix(data.test.X)
        seconds = time.perf_counter() - started
        rows = []
        for name in names:
            model = makers[name]()
            model.__dict__.update({what: value for what, value in vars(fitted).items() if what.endswith("_")})
            model.certify_matrix(matrix[:1])  # compiles
            started = time.perf_counter()
            certificate = model.certify_matrix(matrix)
            facts = (self.k, None, self.n_classifiers, seconds, _ms_since(started, len(certificate)))
            rows.append(Row(name, METHODS[name].title, None, certificate, *facts))
        return rows

    def start_workers(self) -> None:
        """Train k base classifiers for nothing, so that no row is charged with starting worker processes."""
        if engine_of(self.estimator).uses_workers and effective_n_jobs(self.n_jobs) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PremiseWarning)
                self._fitted(Spread.random(self.k, 1))

    def _fitted(self, spread: Spread) -> FiniteAggregationClassifier:
        data = self.dataset
        model = FiniteAggregationClassifier(
            self.estimator,
            spread=spread,
            split=Split("content" if data.train.groups is None else "group", data.dtype, data.n_features),
            classes=self.classes,
            n_jobs=self.n_jobs,
        )
        model.fit(data.train.X, data.train.labels, data.train.groups)
        model.premises_ = restated(model.premises_, data.premises)
        return model

    def _spread(self, ensemble: str) -> Spread:
        if ensemble == "designed":
            design = nearest_design(self.k, self.d, self.n_classifiers)
            assert design is not None
            return Spread.designed(design)
        return Spread.random(self.k, 1 if ensemble == "dpa" else self.d)


def _first_of(votes: Votes) -> Votes:
    """The same votes on the first test sample alone."""
    ranked = None if votes.rankings is None else votes.rankings[:1]
    return Votes(
        votes.matrix[:1], votes.spread, votes.classes, classes_inferred=votes.classes_inferred, rankings=ranked
    )


def _ms_since(started: float, n_samples: int) -> float:
    return 1000 * (time.perf_counter() - started) / n_samples
