"""How good are plans? Predicted beside obtained for clean accuracy, certified fraction at k/8 and k/4, and time.

    python benchmarks/plan.py digits                    the embedded digits, the default learner
    python benchmarks/plan.py mnist DATA_DIR [N]        MNIST, its preset learner; with N = 12000, every fifth training
                                                        and test sample (the test set's halves differ)

The pilot is trained at some of the k, the others are predicted from their neighbours. Every setting is then run in
full, with worker processes started anew, and certified on the test samples, which the pilot never saw.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib.externals.loky import get_reusable_executor

from poisonproof import (
    FiniteAggregationClassifier,
    PremiseWarning,
    Split,
    Spread,
    data,
)
from poisonproof.learners.presets import preset
from poisonproof.learners.table import TableClassifier
from poisonproof.planning.costs import bill
from poisonproof.planning.plan import run_pilots
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run

SETTINGS = {"digits": ((16, 24, 36, 54, 80), (1, 8)), "mnist": ((100, 200, 400), (1, 4))}
SECONDS = 240.0


def main() -> None:
    name = sys.argv[1]
    dataset = data.load(name, *sys.argv[2:3])
    learner = TableClassifier() if name == "digits" else preset("glyphs")
    ks, ds = SETTINGS[name]
    if len(sys.argv) > 3:
        step = len(dataset.train) // int(sys.argv[3])
        train, test = (part.take(np.arange(0, len(part), step)) for part in (dataset.train, dataset.test))
        dataset = replace(dataset, train=train, test=test)
    elif name == "mnist":
        ks = tuple(5 * k for k in ks)
    warnings.simplefilter("ignore", PremiseWarning)
    started = time.perf_counter()
    forecast, remarks = run_pilots(dataset, learner, 1, ks, keep_members=False, seconds=SECONDS)
    taken = time.perf_counter() - started
    members = ", ".join(f"{pilot.n_members} at k = {pilot.k}" for pilot in forecast.pilots)
    print(f"{name}: {len(dataset.train)} training and {len(dataset.test)} test samples. ", end="")
    print(f"Pilot: {members} base classifiers in {taken:.0f} s. {' '.join(remarks)}\n")
    print("| k | d | pilot | clean, % | at k/8, % | at k/4, % | largest difference, points | seconds | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    piloted = {pilot.k for pilot in forecast.pilots}
    for k in ks:
        if k < forecast.pilots[0].k:
            continue
        for d in ds:
            spread, sizes = Spread.random(k, d), [0, k // 8, k // 4]
            predicted = forecast.fractions(spread, "random", sizes)
            seconds = bill(forecast.pilots, k * d, k, forecast.site).seconds
            model = FiniteAggregationClassifier(
                learner, spread=spread, split=Split(dtype=dataset.dtype), classes=dataset.classes, n_jobs=-1
            )
            get_reusable_executor().shutdown(wait=True)
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(dataset, model, Path(folder) / "run", RunSettings(votes_only=True))
            obtained = outcome.certificate.certified_fraction(dataset.test.labels, sizes)
            pairs = [f"{100 * p:.1f} / {100 * o:.1f}" for p, o in zip(predicted, obtained, strict=True)]
            worst = 100 * abs(predicted - obtained)[1:].max()
            wall = outcome.seconds["train and vote"]
            print(
                f"| {k} | {d} | {'yes' if k in piloted else 'between'} | {' | '.join(pairs)} | {worst:.1f} | "
                f"{seconds:.1f} / {wall:.1f} | {seconds / wall:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
