"""Which learner, k and d are the defaults? On training data only: the test part of every real set is never touched.

``POISONPROOF_DATA=DIR python -m research.studies.defaults OUT.json [--only NAME]``: every real set is read as
`poisonproof run` reads it. A fifth of its training part (at most 1,000 samples, by a salted hash) is asked; base
classifiers learn from the rest (at most 24,000). Every learner that fits the data stands beside the choice that each
base classifier would make for itself, for several k and d. Figures: clean, balanced, balanced
certified at 1, 2, 5, 8.

``--attack-size M`` asks how many base classifiers there should be for an attack size that somebody fears: k is 2, 3, 4
and 6 times M, at d = 1, and the figures are those at attack size M.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof import FiniteAggregationClassifier, Split, preset
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.samples.convert import take_rows
from research.studies.real_sets import RealSet, real_sets, texts_folder

SIZES = (1, 2, 5, 8)
MOST, ASKED = 24_000, 1_000
TABLES, TEXTS = ("table", "forest", "boosting", "auto"), ("bayes", "ridge", "text", "auto")
GRID = ((10, 1), (20, 1), (20, 4), (40, 1))
PER_POISON = (2, 3, 4, 6)


def measured(
    one: RealSet, folder: Path, learners: tuple[str, ...] | None, grid: Any, sizes: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Figures of every learner, k and d on one set, at these attack sizes."""
    path = folder / "data.csv"
    one.frame().to_csv(path, index=False)
    data = open_files(path, ReadOptions(label=one.label))
    split = Split("content", data.dtype, data.n_features)
    order = np.argsort(split.samples(data.train.X).hashes(7), kind="stable")
    n_asked = min(ASKED, len(order) // 5)
    asked, rows = order[:n_asked], np.sort(order[n_asked:][:MOST])
    y = np.asarray(data.train.labels)
    found = []
    for name in learners or (TEXTS if one.kind == "text" else TABLES):
        for k, d in grid:
            started = time.process_time()
            model = FiniteAggregationClassifier(preset(name), k=k, d=d, split=split, n_jobs=1)
            certificate = model.fit(take_rows(data.train.X, rows), y[rows]).certify(take_rows(data.train.X, asked))
            truth = y[asked]
            found.append(
                {
                    "set": one.name,
                    "n_train": len(rows),
                    "learner": name,
                    "k": k,
                    "d": d,
                    "majority": certificate.evaluate(truth).majority_share,
                    "clean": certificate.evaluate(truth).clean_accuracy,
                    "balanced": certificate.evaluate(truth).balanced_accuracy,
                    "attack_sizes": sizes,
                    "certified": certificate.evaluate(truth).certified_fraction(sizes).tolist(),
                    "certified_balanced": certificate.evaluate(truth).certified_fraction_balanced(sizes).tolist(),
                    "cpu_seconds": round(time.process_time() - started, 1),
                }
            )
            print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", help="parts of names, with semicolons")
    parser.add_argument("--learners", help="names, with commas")
    parser.add_argument("--k", help="values of k at d = 1, with commas")
    parser.add_argument("--attack-size", type=int, help="k is 2, 3, 4 and 6 times that, and figures are those at it")
    asked = parser.parse_args()
    learners = None if asked.learners is None else tuple(asked.learners.split(","))
    grid = GRID if asked.k is None else tuple((int(k), 1) for k in asked.k.split(","))
    sizes: tuple[int, ...] = SIZES
    if asked.attack_size is not None:
        grid, sizes = tuple((times * asked.attack_size, 1) for times in PER_POISON), (asked.attack_size,)
    found: list[dict[str, Any]] = []
    for one in real_sets(texts_folder()):
        if asked.only and not any(part in one.name for part in asked.only.split(";")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found += measured(one, Path(folder), learners, grid, sizes)
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
