"""Rows of a comparison that hold with a probability (`poisonproof.planning.compare`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from poisonproof.planning.compare import Row, Rows
from poisonproof.premises import restated
from poisonproof.stochastic.classifiers import (
    CertifiedBaggingClassifier,
    DrawnEnsembleClassifier,
    InfiniteAggregationClassifier,
)

KINDS = (("infinite", "binomial"), ("bagging",))  # those that share base classifiers
log = logging.getLogger(__name__)


class DrawnRows(Rows):
    """Base classifiers whose training samples are drawn one by one."""

    titles: ClassVar = {"infinite": "Infinite Aggregation", "binomial": "binomial selection", "bagging": "bagging"}
    hues: ClassVar = {"infinite": 35, "binomial": 330, "bagging": 10}

    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """These rows."""
        if self.bench.dataset.train.groups is not None:
            why_not = "it draws training samples one by one, and here contributors are counted"
            yield from (Row(name, self.titles[name], why_not) for name in names)
            return
        for kind in KINDS:
            if wanted := [name for name in names if name in kind]:
                log.info("training for %s", "; ".join(self.titles[name] for name in wanted))
                yield from self._drawn(wanted)

    @staticmethod
    def remark(rows: Sequence[Row]) -> str:
        """What they hold with."""
        return f"99.9 %: {rows[0].chance}; an abstention counts as wrong and as radius 0."

    def _drawn(self, names: Sequence[str]) -> Iterator[Row]:
        """Rows on one set of base classifiers."""
        bench, data = self.bench, self.bench.dataset
        shared: dict[str, Any] = {
            "n_draws": bench.n_classifiers,
            "seed": bench.seed,
            "classes": bench.classes,
            "dtype": data.dtype,
            "n_features": data.n_features,
            "n_jobs": bench.n_jobs,
        }
        size = max(1, round(len(data.train) / bench.k))
        makers: dict[str, Callable[[], DrawnEnsembleClassifier]] = {
            "infinite": lambda: InfiniteAggregationClassifier(bench.estimator, k=bench.k, **shared),
            "binomial": lambda: InfiniteAggregationClassifier(
                bench.estimator, k=bench.k, method="binomial-selection", **shared
            ),
            "bagging": lambda: CertifiedBaggingClassifier(bench.estimator, subset_size=size, **shared),
        }
        fitted = makers[names[0]]().fit(data.train.X, data.train.labels)
        of_size = [premise for premise in fitted.premises_ if premise.code == "draws" and names[0] == "bagging"]
        chosen = [replace(premise, declared=False) for premise in of_size]  # by the number of training samples
        fitted.premises_ = restated(fitted.premises_, (*data.premises, *chosen))
        matrix = fitted.vote_matrix(data.test.X)
        for name in names:
            model = makers[name]()
            model.__dict__.update({what: value for what, value in vars(fitted).items() if what.endswith("_")})
            certificate = model.certify_matrix(matrix)
            chance = f"{certificate.confidence}, for the ideal classifier only"
            yield Row(name, self.titles[name], None, certificate, bench.k, None, bench.n_classifiers, chance)
