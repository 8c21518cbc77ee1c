"""One table: what each method certifies on the same data, with the same learner and a like number of base classifiers,
or where the training samples themselves vote.

Methods that only differ in their certificate share their base classifiers, which are trained once.
"""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.certificate import attack_sizes
from poisonproof.core.certify import certify
from poisonproof.core.designs import Design
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.data.dataset import Dataset
from poisonproof.display import own_source, percent, render_page, stairs, ticks
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.inspection import describe
from poisonproof.learners.table import TableClassifier
from poisonproof.premises import Premise, restated
from poisonproof.samples.labels import read_labels
from poisonproof.system.files import write_text
from poisonproof.training.engine import gives_scores

FILES = ("compare.json", "compare.html")
log = logging.getLogger(__name__)


class Rows(ABC):
    """Rows of one kind: those that can be asked for, and what makes them. The registry knows the kinds.

    Attributes
    ----------
    titles : dict
        The title of each row, by its name.
    hues : dict
        The color of a curve, by the name of its row or what stands before its first hyphen.
    """

    titles: ClassVar[dict[str, str]]
    hues: ClassVar[dict[str, int]]

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @abstractmethod
    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """These rows; what is shared by several is trained once."""

    @staticmethod
    def remark(rows: Sequence[Row]) -> str | None:
        """What a reader must know of the rows of this kind that apply, if there are any."""
        return None


def kinds() -> Iterable[type[Rows]]:
    """The kinds of rows that there are."""
    return (kind for _, kind in registry.every("comparisons"))


def titles() -> dict[str, str]:
    """The rows that can be asked for, with their titles."""
    return {name: title for kind in kinds() for name, title in kind.titles.items()}


LINES = {"tight": "thick", "run-off": "dashed"}  # of curves, by certificate
VOTES_PER_POISON = 4  # base classifiers withstand k over this by a lead of half of the votes


@dataclass(frozen=True)
class Row:
    """What one method certifies, or why it does not apply (then everything but its name and title is None).

    ``chance``: what its radii hold with, where that is no proof.
    """

    name: str
    title: str
    why_not: str | None = None
    certificate: Any = field(default=None, repr=False)
    k: float | None = None
    d: int | None = None
    n_classifiers: int | None = None
    chance: str | None = None

    @property
    def guarantee(self) -> str:
        """What kind of statement its radii are."""
        return self.chance or ("does not apply" if self.certificate is None else "proof")

    @property
    def proves(self) -> bool:
        """Whether its radii hold without a failure probability."""
        return self.certificate is not None and self.chance is None

    def as_dict(self, y: NDArray[Any], sizes: Sequence[int]) -> dict[str, Any]:
        """Plain values, with the certified fraction (pointwise) at these attack sizes."""
        record: dict[str, Any] = {"name": self.name, "title": self.title, "guarantee": self.guarantee}
        if self.certificate is None:
            return {**record, "why_not": self.why_not}
        figures = self.certificate.evaluate(y)
        return {
            **record,
            "unit": self.certificate.unit,
            "voters": getattr(self.certificate, "voters", None),
            "k": self.k,
            "d": self.d,
            "base_classifiers": self.n_classifiers,
            "clean_accuracy": figures.clean_accuracy,
            "balanced_accuracy": figures.balanced_accuracy,
            "abstained": float(np.mean(getattr(self.certificate, "abstained", 0.0))),
            "mean_radius": float(self.certificate.radius.mean()),
            "certified_fraction": figures.certified_fraction(sizes).tolist(),
            "certified_fraction_balanced": figures.certified_fraction_balanced(sizes).tolist(),
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
        return float(np.unique(read_labels(self.y_test).codes, return_counts=True)[1].max() / len(self.y_test))

    @property
    def title(self) -> str:
        """What was compared, and what attack sizes count."""
        return (
            f"{self.dataset}, {self.learner.partition('(')[0]}: {self.n_train} training and {len(self.y_test)} test "
            f"samples, k = {self.k}, up to {self.n_classifiers} base classifiers. Certified fraction (pointwise) in % "
            f"at attack sizes, which count {self.unit}"
        )

    @property
    def header(self) -> list[str]:
        """The names of the columns; at attack size 0 the certified fraction is the clean accuracy."""
        facts = ["", "holds", "classifiers", "k", "d", "clean, %", "balanced, %", "mean radius"]
        return [*facts, *(str(size) for size in self.attack_sizes if size > 0)]

    def cells(self, row: Row) -> list[str]:
        """One row as text, no number rounded to the better side."""
        if row.certificate is None:
            return [row.title, row.guarantee, *["—"] * (len(self.header) - 2)]
        figures = row.certificate.evaluate(self.y_test)
        return [
            row.title,
            "proof" if row.proves else "99.9 %",
            "—" if row.n_classifiers is None else str(row.n_classifiers),
            "—" if row.k is None else f"{row.k:.4g}",
            "—" if row.d is None else str(row.d),
            percent(figures.clean_accuracy),
            percent(figures.balanced_accuracy),
            f"{math.floor(100 * row.certificate.radius.mean() + 1e-9) / 100:.2f}",
            *map(percent, figures.certified_fraction([size for size in self.attack_sizes if size > 0])),
        ]

    @property
    def remarks(self) -> list[str]:
        """What a reader must know besides, one sentence each."""
        sentences = [
            f"Balanced: mean over classes. Always answering the most frequent class is right on "
            f"{percent(self.majority_share)} % at every attack size."
        ]
        certified = [row for row in self.rows if row.certificate is not None]
        for row in certified:
            if (caution := row.certificate.evaluate(self.y_test).caution) is not None:
                sentences.append(f"WARNING, {row.title}: {caution.sentence}.")
        sentences += [f"{row.title} does not apply: {row.why_not}." for row in self.rows if row.why_not]
        larger = next((row.k for row in self.rows[::-1] if row.k is not None and row.k > self.k), None)
        if larger is not None:
            sentences.append(
                f"The designed spread has k = {larger:.4g}, the nearest there is; a larger k alone gives larger radii."
            )
        for kind in kinds():
            rows = [row for row in certified if row.name in kind.titles]
            if rows and (remark := kind.remark(rows)):
                sentences.append(remark)
        return sentences

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

    def page(self) -> str:
        """The table with its curves as HTML; names are data and are escaped wherever they stand."""
        certified = [row for row in self.rows if row.certificate is not None]
        hues = {name: hue for kind in kinds() for name, hue in kind.hues.items()}
        top = 1 + max((int(row.certificate.radius.max(initial=0)) for row in certified), default=0)
        curves, balanced = [], []
        for row in certified:
            figures, (name, _, how) = row.certificate.evaluate(self.y_test), row.name.partition("-")
            path, line = stairs(figures.certified_fraction(np.arange(top + 1))), LINES.get(how, "plain")
            curves.append(
                {"title": row.title, "path": path, "hue": hues[name], "line": line if row.proves else "chance"}
            )
            balanced.append((row.title, figures.certified_fraction_balanced(self.attack_sizes).tolist()))
        return render_page(
            "compare.html.j2",
            name=self.dataset,
            title=self.title,
            unit=self.unit,
            majority=self.majority_share,
            curves=curves,
            ticks=ticks(top),
            header=self.header,
            rows=[self.cells(row) for row in self.rows],
            balanced=balanced,
            sizes=self.attack_sizes,
            remarks=self.remarks,
            style=own_source("page.css"),
        )

    def write(self, folder: Path) -> None:
        """Write the table as JSON, and with its curves as a page."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = (json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n", self.page())
        for name, text in zip(FILES, texts, strict=True):
            write_text(folder / name, text)


def compare(
    dataset: Dataset,
    estimator: Any = None,
    *,
    k: int = 50,
    n_classifiers: int = 800,
    rows: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    seed: int | None = None,
    n_jobs: int | None = None,
    voters: Mapping[str, Any] | None = None,
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
    rows : names of rows, optional
        Of `titles`; otherwise all.
    sizes : attack sizes, optional
        Otherwise round ones up to the largest radius.
    seed : int, optional
        Of the random subsets, which must have been a secret; by default one is drawn for each of the two kinds of them.
    n_jobs : int, optional
    voters : dict, optional
        The classifiers of rows in which training samples vote, by name. Parameters of such a row that is not among
        them are chosen by a pilot on training samples, at the middle one of ``sizes`` or else at k / 4; that is a
        premise.
    features : feature map, optional
        The map of such a pilot; otherwise the one for this kind of data.
    """
    rows = list(titles()) if rows is None else rows
    _check(dataset, k, n_classifiers, rows)
    if estimator is None:
        estimator = TableClassifier()
        dataset = replace(dataset, premises=(*dataset.premises, Premise("learner", describe(estimator), declared=None)))
    feared = sorted(sizes)[len(sizes) // 2] if sizes else k // VOTES_PER_POISON
    bench = Bench(dataset, estimator, k, n_classifiers, seed, n_jobs, voters or {}, features, max(1, feared))
    compared: dict[str, Row] = {}
    for kind in kinds():
        wanted = [name for name in rows if name in kind.titles]
        compared |= {row.name: row for row in kind(bench).rows(wanted)}
    certificates = [row.certificate for row in compared.values() if row.certificate is not None]
    if sizes is None and certificates:
        sizes = attack_sizes(max(certificates, key=lambda one: int(one.radius.max(initial=0))))
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
    designs = (design for degree in range(d, 1, -1) for design in Spread.suggest(k, degree))
    return next((design for design in designs if design.n_subsets <= n_classifiers), None)


def _check(dataset: Dataset, k: int, n_classifiers: int, rows: Sequence[str]) -> None:
    known = titles()
    unknown = [name for name in rows if name not in known]
    if unknown or not rows:
        raise PoisonproofError(
            f"There is no row '{unknown[0] if unknown else ''}'; there are {', '.join(known)}.", code="options.unknown"
        )
    n_train = len(dataset.train)
    if not 1 <= k <= n_train:
        raise PoisonproofError(
            f"k must lie in 1 … {n_train}, the number of training samples, or most subsets would be empty. Got {k}.",
            code="compare.k",
        )
    if n_classifiers < k:
        raise PoisonproofError(
            f"The number of base classifiers must be at least k = {k}. Got {n_classifiers}.",
            code="compare.n-classifiers",
        )
    if not len(dataset.test):
        raise PoisonproofError(
            f"{dataset.name} has no test samples; there is nothing to certify.", code="certificate.no-test"
        )


@dataclass(frozen=True)
class Bench:
    """What all rows have in common, and what was given for some; `compare` says what it is."""

    dataset: Dataset
    estimator: Any
    k: int
    n_classifiers: int
    seed: int | None
    n_jobs: int | None
    voters: Mapping[str, Any]
    features: Any
    feared: int
    """The attack size at which a pilot chooses."""

    @property
    def d(self) -> int:
        """The spread degree that so many base classifiers allow."""
        return self.n_classifiers // self.k

    @property
    def classes(self) -> list[Any] | None:
        """The declared classes."""
        return None if self.dataset.classes is None else self.dataset.classes.tolist()


class Ensembles(Rows):
    """DPA and Finite Aggregation: base classifiers on each spread, trained once, and certificates of their votes."""

    titles: ClassVar = {
        "dpa": "DPA (d = 1)",
        "dpa-run-off": "DPA (d = 1), run-off",
        "finite": "Finite Aggregation, Theorem 2",
        "finite-tight": "Finite Aggregation, tight",
        "finite-run-off": "Finite Aggregation, run-off",
        "designed": "designed spread, Theorem 2",
        "designed-tight": "designed spread, tight",
    }
    hues: ClassVar = {"dpa": 210, "finite": 155, "designed": 280}

    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """These rows; those that only differ in their certificate share their base classifiers."""
        for ensemble in self.hues:
            reasons = {name: self._why_not(name) for name in names if name.partition("-")[0] == ensemble}
            yield from (Row(name, self.titles[name], why_not) for name, why_not in reasons.items() if why_not)
            applying = [name for name, why_not in reasons.items() if why_not is None]
            if not applying:
                continue
            log.info("training for %s", "; ".join(self.titles[name] for name in applying))
            data, spread = self.bench.dataset, self._spread(ensemble)
            votes = self._fitted(spread).votes(data.test.X, rankings=any(name.endswith("run-off") for name in applying))
            for name in applying:
                how: Any = name.partition("-")[2] or "finite-aggregation"
                facts = (spread.k, spread.d, spread.n_subsets)
                yield Row(name, self.titles[name], None, certify(votes, how), *facts)

    def _why_not(self, name: str) -> str | None:
        """Why a row cannot be asked for on this data, with this learner and budget; None if it can."""
        bench = self.bench
        ensemble, _, how = name.partition("-")
        if how == "run-off" and not gives_scores(bench.estimator):
            learner = type(bench.estimator).__name__
            return f"rankings need scores, and {learner} has neither decision_function nor predict_proba"
        if ensemble == "finite" and bench.d < 2:
            return f"{bench.n_classifiers} base classifiers at k = {bench.k} leave d = 1, which is DPA"
        if ensemble == "designed" and nearest_design(bench.k, bench.d, bench.n_classifiers) is None:
            return f"there is no design near k = {bench.k} with at most {bench.n_classifiers} base classifiers"
        return None

    def _fitted(self, spread: Spread) -> FiniteAggregationClassifier:
        bench, data = self.bench, self.bench.dataset
        model = FiniteAggregationClassifier(
            bench.estimator,
            spread=spread,
            split=Split("content" if data.train.groups is None else "group", data.dtype, data.n_features),
            classes=bench.classes,
            n_jobs=bench.n_jobs,
        )
        model.fit(data.train.X, data.train.labels, data.train.groups)
        model.premises_ = restated(model.premises_, data.premises)
        return model

    def _spread(self, ensemble: str) -> Spread:
        bench = self.bench
        if ensemble == "designed":
            design = nearest_design(bench.k, bench.d, bench.n_classifiers)
            assert design is not None
            return Spread.designed(design)
        return Spread.random(bench.k, 1 if ensemble == "dpa" else bench.d)
