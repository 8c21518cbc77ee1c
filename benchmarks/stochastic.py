"""Stochastic certificates: are they ever broken, and what do they certify beside Finite Aggregation?

    python benchmarks/stochastic.py campaign [CASES]    every attack on random enumerable ensembles (5,000 by default)
    python benchmarks/stochastic.py digits [DRAWS]      embedded digits, k = 50, the same number of base classifiers

In the second, Finite Aggregation proves; the others hold with probability 99.9 %, jointly for the test set, and
speak of their ideal classifier. Certified fractions are pointwise; attack sizes count insertions and removals.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from poisonproof import (
    CertifiedBaggingClassifier,
    FiniteAggregationClassifier,
    InfiniteAggregationClassifier,
    StochasticCertificate,
    load,
)

SIZES = (0, 5, 10, 15, 20, 25, 30)
K = 50


def campaign(cases: int) -> None:
    sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / folder) for folder in ("helpers", "certificates")]
    from test_stochastic_certificates import campaign as run

    started = time.process_time()
    report = run(np.random.default_rng(2022), cases)
    print("| certificate | ensembles | certified | radius ≥ 1 | broken at radius + 1 | violations | attacks tried |")
    print("|---|---|---|---|---|---|---|")
    for name, found in report.items():
        print(f"| {name} |" + "".join(f" {found[key]:,} |" for key in found))
    print(f"\n{time.process_time() - started:.0f} s of one core")
    if broken := sum(found["broken"] for found in report.values()):
        raise SystemExit(f"{broken} radii broken")


def digits(n_draws: int) -> None:
    given = load("digits")
    learner = LogisticRegression(max_iter=200)
    drawn = {"n_draws": n_draws, "classes": range(10), "seed": 0}
    size = len(given.train) // K
    models = {
        f"Finite Aggregation, d = {n_draws // K} (proof)": FiniteAggregationClassifier(
            learner, k=K, d=n_draws // K, classes=range(10)
        ),
        "Infinite Aggregation, margin only": InfiniteAggregationClassifier(learner, k=K, **drawn),
        "Infinite Aggregation, conditionals": InfiniteAggregationClassifier(learner, k=K, conditionals=True, **drawn),
        "binomial selection": InfiniteAggregationClassifier(learner, method="binomial-selection", k=K, **drawn),
        f"bagging, {size} samples": CertifiedBaggingClassifier(learner, subset_size=size, **drawn),
    }
    print(f"{len(given.train)} training and {len(given.test)} test samples; {n_draws} base classifiers each\n")
    print("| % | abstains | " + " | ".join(map(str, SIZES)) + " | s of one core: fit | certify |")
    print("|---" * (len(SIZES) + 4) + "|")
    for name, model in models.items():
        started = time.process_time()
        model.fit(given.train.X, given.train.labels)
        fitted = time.process_time()
        certificate = model.certify(given.test.X)
        done = time.process_time()
        stochastic = isinstance(certificate, StochasticCertificate)
        rows = {name: certificate.evaluate(given.test.labels).certified_fraction(SIZES)}
        if stochastic and (certificate.radius != certificate.radius_changed).any():
            held = certificate.radius_changed[certificate.evaluate(given.test.labels).right]
            rows["… changes counted as 1"] = np.array([(held >= r).sum() for r in SIZES]) / len(certificate)
        abstains = f"{certificate.abstained.mean() * 100:.1f}" if stochastic else "–"
        for label, fractions in rows.items():
            cells = " | ".join(f"{np.floor(share * 1000) / 10:.1f}" for share in fractions)
            print(f"| {label} | {abstains} | {cells} | {fitted - started:.1f} | {done - fitted:.1f} |")


if __name__ == "__main__":
    task = {"campaign": (campaign, 5000), "digits": (digits, 16 * K)}[sys.argv[1]]
    task[0](int(sys.argv[2]) if len(sys.argv) > 2 else task[1])
