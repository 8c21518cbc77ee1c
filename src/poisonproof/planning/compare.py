"""One table: what each method certifies on the same data, with the same learner and a like number of base classifiers,
or where the training samples themselves vote.

Methods that only differ in their certificate share their base classifiers, which are trained once.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
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
from poisonproof.data.dataset import Dataset
from poisonproof.display import in_markdown, own_source, percent, render_page, stairs, ticks
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.inspection import describe
from poisonproof.learners.table import TableClassifier
from poisonproof.planning.plan import best_of_each, plan
from poisonproof.premises import Premise, restated
from poisonproof.samples.labels import read_labels
from poisonproof.stochastic.certificate import StochasticCertificate
from poisonproof.stochastic.classifiers import (
    CertifiedBaggingClassifier,
    DrawnEnsembleClassifier,
    InfiniteAggregationClassifier,
)
from poisonproof.system.files import write_text
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
        model = self._fitted(spread)
        votes = model.votes(data.test.X, rankings=any(METHODS[name].certificate == "run-off" for name in names))
        rows = []
        for name in names:
            how: Any = METHODS[name].certificate
            facts = (spread.k, spread.d, spread.n_subsets)
            rows.append(Row(name, METHODS[name].title, None, certify(votes, how), *facts))
        return rows

    def of_samples(self, name: str, given: SampleVoteClassifier | None, features: Any, feared: int) -> Row:
        """The row of training samples that vote, as given or by a pilot at the attack size that is feared."""
        data = self.dataset
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
        certificate = certify(votes)
        if given is None:
            premises = (
                replace(one, declared=False) if one.code == registry.find("elections", name).premise else one
                for one in certificate.premises
            )
            certificate = replace(certificate, premises=tuple(premises))
        parameter = f"K = {model.n_neighbors}" if hasattr(model, "n_neighbors") else f"near = {model.near:g}"
        title = f"{METHODS[name].title}, {parameter}{'' if given else f', by a pilot at {feared}'}"
        return Row(name, title, None, certificate)

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
            "binomial": lambda: InfiniteAggregationClassifier(
                self.estimator, k=self.k, method="binomial-selection", **shared
            ),
            "bagging": lambda: CertifiedBaggingClassifier(
                self.estimator, subset_size=max(1, round(n_train / self.k)), **shared
            ),
        }
        fitted = makers[names[0]]().fit(data.train.X, data.train.labels)
        of_size = [premise for premise in fitted.premises_ if premise.code == "draws" and ensemble == "bagging"]
        chosen = [replace(premise, declared=False) for premise in of_size]  # by the number of training samples
        fitted.premises_ = restated(fitted.premises_, (*data.premises, *chosen))
        matrix = fitted.vote_matrix(data.test.X)
        rows = []
        for name in names:
            model = makers[name]()
            model.__dict__.update({what: value for what, value in vars(fitted).items() if what.endswith("_")})
            certificate = model.certify_matrix(matrix)
            facts = (self.k, None, self.n_classifiers)
            rows.append(Row(name, METHODS[name].title, None, certificate, *facts))
        return rows

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


def title(comparison: Comparison) -> str:
    """What was compared, and what attack sizes count."""
    return (
        f"{comparison.dataset}, {comparison.learner.partition('(')[0]}: {comparison.n_train} training and "
        f"{len(comparison.y_test)} test samples, k = {comparison.k}, up to {comparison.n_classifiers} base "
        f"classifiers. Certified fraction (pointwise) in % at attack sizes, which count {comparison.unit}"
    )


def header(comparison: Comparison) -> list[str]:
    """The names of the columns."""
    facts = ["", "holds", "classifiers", "k", "d", "clean, %", "balanced, %", "mean radius"]
    return [*facts, *map(str, _sizes(comparison))]


def cells(comparison: Comparison, row: Row) -> list[str]:
    """One row as text, no number rounded to the better side."""
    if row.certificate is None:
        return [row.title, row.guarantee, *["—"] * (len(header(comparison)) - 2)]
    figures = row.certificate.evaluate(comparison.y_test)
    fractions = figures.certified_fraction(_sizes(comparison))
    return [
        row.title,
        PROOF if row.proves else "99.9 %",
        "—" if row.n_classifiers is None else str(row.n_classifiers),
        "—" if row.k is None else f"{row.k:.4g}",
        "—" if row.d is None else str(row.d),
        percent(figures.clean_accuracy),
        percent(figures.balanced_accuracy),
        f"{math.floor(100 * row.certificate.radius.mean() + 1e-9) / 100:.2f}",
        *map(percent, fractions),
    ]


def remarks(comparison: Comparison) -> list[str]:
    """What a reader must know besides, one sentence each."""
    sentences = [
        f"Balanced: mean over classes. Always answering the most frequent class is right on "
        f"{percent(comparison.majority_share)} % at every attack size."
    ]
    for row in comparison.rows:
        if row.certificate is not None and (caution := row.certificate.evaluate(comparison.y_test).caution) is not None:
            sentences.append(f"WARNING, {row.title}: {caution.sentence}.")
    sentences += [f"{row.title} does not apply: {row.why_not}." for row in comparison.rows if row.why_not]
    sentences += [
        f"The designed spread has k = {row.k:.4g}, the nearest there is; a larger k alone gives larger radii."
        for row in comparison.rows[::-1]
        if row.k is not None and row.k > comparison.k
    ][:1]
    samples = [row for row in comparison.rows if row.name in BY_SAMPLES and row.certificate is not None]
    if samples:
        sentences.append(
            f"In {' and '.join(row.name for row in samples)} the training samples vote through a fixed map, which is a "
            "premise, and nothing is trained; parameters by a pilot were chosen from this data."
        )
    chancy = next((row for row in comparison.rows if row.certificate is not None and not row.proves), None)
    if chancy is not None:
        sentences.append(f"99.9 %: {chancy.guarantee}; an abstention counts as wrong and as radius 0.")
    return sentences


def markdown(comparison: Comparison) -> str:
    """The table as Markdown."""
    names = header(comparison)
    rows = ([*map(in_markdown, cells(comparison, row))] for row in comparison.rows)
    lines = [names, ["---", "---", *["--:"] * (len(names) - 2)], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([f"{in_markdown(title(comparison))}.", table, *map(in_markdown, remarks(comparison))]) + "\n"


def _sizes(comparison: Comparison) -> list[int]:
    """The attack sizes with a column; at 0 the certified fraction is the clean accuracy."""
    return [size for size in comparison.attack_sizes if size > 0]


FILES = ("compare.json", "compare.md", "compare.html")
HUES = {
    "dpa": 210,
    "finite": 155,
    "designed": 280,
    "infinite": 35,
    "binomial": 330,
    "bagging": 10,
    "neighbours": 50,
    "ballots": 190,
}
OTHER_HUES = (60, 185, 100, 245)


@dataclass(frozen=True)
class Curve:
    """The certified fraction of one method as a path, and how it is drawn."""

    title: str
    path: str
    hue: int
    line: str


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write the table as JSON and as Markdown, and with its curves as a page."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = (
        json.dumps(comparison.as_dict(), indent=1, ensure_ascii=False) + "\n",
        markdown(comparison),
        comparison_page(comparison),
    )
    for name, text in zip(FILES, texts, strict=True):
        write_text(folder / name, text)


def comparison_page(comparison: Comparison) -> str:
    """The page as HTML; names are data and are escaped wherever they stand."""
    certified = [row for row in comparison.rows if row.certificate is not None]
    largest = max((int(row.certificate.radius.max(initial=0)) for row in certified if row.certificate), default=0)
    top = largest + 1
    sizes = np.arange(top + 1)
    curves = []
    for at, row in enumerate(certified):
        assert row.certificate is not None
        shares = row.certificate.evaluate(comparison.y_test).certified_fraction(sizes)
        curves.append(Curve(row.title, stairs(shares), _hue(row, at), _line(row)))
    return render_page(
        "compare.html.j2",
        name=comparison.dataset,
        title=title(comparison),
        unit=comparison.unit,
        majority=comparison.majority_share,
        curves=curves,
        ticks=ticks(top),
        header=header(comparison),
        rows=[cells(comparison, row) for row in comparison.rows],
        balanced=[(row.title, _balanced(row, comparison)) for row in certified],
        sizes=comparison.attack_sizes,
        remarks=remarks(comparison),
        style=own_source("page.css"),
    )


def _balanced(row: Row, comparison: Comparison) -> list[float]:
    assert row.certificate is not None
    shares = row.certificate.evaluate(comparison.y_test).certified_fraction_balanced(list(comparison.attack_sizes))
    return [float(share) for share in shares]


def _hue(row: Row, at: int) -> int:
    """One hue for the methods that share their base classifiers."""
    return HUES.get(row.name.partition("-")[0], OTHER_HUES[at % len(OTHER_HUES)])


def _line(row: Row) -> str:
    if not row.proves:
        return "chance"
    return "thick" if row.name.endswith("tight") else "dashed" if row.name.endswith("run-off") else "plain"
