"""Should each base classifier choose its learner, or one choice be made for all? On training data only.

``python -m research.studies.auto_choice OUT.json``: every real set is read as `poisonproof run` reads it; its test part
is never touched. A fifth of the training part (at most 1,000 samples) is asked, base classifiers (k = 20, d = 1) are
trained on the rest (at most 6,000). Each: every base classifier takes what is best in cross-validation inside its own
subset, as `AutoClassifier` does. One for all: all take what is best on average over those cross-validations. Beside
them stand the learners of the list, each for all, and for tables a forest. Figures are certified fractions at attack
sizes 0, 1, 2, 5 and 8, plain and balanced.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof import Split, Spread, Votes, certify
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.learners.auto import LEAVES, MOST_TREES, ROUNDS, AutoClassifier, balanced_scores, best_of
from poisonproof.learners.trees import TreesClassifier
from poisonproof.system.determinism import one_linear_algebra_thread, reproducible
from research.studies.real_sets import RealSet, real_sets, texts_folder

K, MOST, ASKED = 20, 6000, 1000
SIZES = (0, 1, 2, 5, 8)


def measured(one: RealSet, folder: Path) -> dict[str, object]:
    """Figures of each learner for all, of one choice for all and of each base classifier's own."""
    path = folder / "data.csv"
    one.frame().to_csv(path, index=False)
    data = open_files(path, ReadOptions(label=one.label))
    split = Split("content", data.dtype, data.n_features)
    samples = split.samples(data.train.X)
    hashes = samples.hashes(7)
    order = np.argsort(hashes, kind="stable")
    n_asked = min(ASKED, len(order) // 5)
    asked, rows = order[:n_asked], order[n_asked:][:MOST]
    classes, codes = np.unique(np.asarray(data.train.labels), return_inverse=True)
    place = split.partitions(samples, K)[rows]
    seen: dict[str, None] = {}
    said: list[dict[str, np.ndarray]] = []
    scores: list[dict[str, float]] = []
    started = time.process_time()
    with one_linear_algebra_thread():
        for i in range(K):
            mine = np.sort(rows[place == i])
            form = samples.form_of(mine)
            X, test = samples.take(mine, form), samples.take(asked, form)
            held, local = np.unique(codes[mine], return_inverse=True)
            with reproducible(i):
                chooser = AutoClassifier(random_state=i)
                listed = chooser.candidates(X, max(2, len(held)))
                learners = {name_of(learner): learner for learner in (*listed, *others(one, i, len(classes)))}
                seen.update(dict.fromkeys(learners))
                if len(held) < 2:
                    constant = np.full(len(asked), codes[mine][0] if len(mine) else len(classes))
                    said.append(dict.fromkeys(learners, constant) | {"": constant})
                    continue
                points = balanced_scores(listed, X, local) if len(listed) > 1 else np.ones(1)
                scores.append(dict(zip(map(name_of, listed), points, strict=True)))
                answers = {name: held[learner.fit(X, local).predict(test)] for name, learner in learners.items()}
                said.append(answers | {"": answers[name_of(listed[best_of(listed, points)])]})
    means = {name: np.mean([own.get(name, 0.0) for own in scores]) for own in scores for name in own}
    pilot = max(means, key=lambda name: means[name])
    first = next(iter(seen))
    truth = classes[codes[asked]]

    def figures(name: str) -> dict[str, list[float]]:
        columns = [answers.get(name, answers[first]) for answers in said]  # small subsets try the first only
        certificate = certify(Votes(np.stack(columns, axis=1), Spread.random(K, 1), classes))
        return {
            "certified": certificate.evaluate(truth).certified_fraction(SIZES).tolist(),
            "balanced": certificate.evaluate(truth).certified_fraction_balanced(SIZES).tolist(),
        }

    return {
        "name": one.name,
        "n_train": len(rows),
        "single": {name: figures(name) for name in seen},
        "one_for_all": figures(pilot),
        "one_choice": pilot,
        "each": figures(""),
        "seconds": round(time.process_time() - started, 1),
    }


def name_of(learner: Any) -> str:
    """A learner in a word or two."""
    if isinstance(learner, TreesClassifier):
        return learner.method
    return type(learner).__name__.removesuffix("Classifier")


def others(one: RealSet, seed: int, n_classes: int) -> list[Any]:
    """What stands beside the list: trees, where they are not on it."""
    if one.kind == "text":
        return []
    rounds = min(ROUNDS, MOST_TREES // n_classes)
    boosting = TreesClassifier("boosting", n_trees=rounds, max_leaves=LEAVES, random_state=seed)
    return [boosting, TreesClassifier("forest", random_state=seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", help="parts of names, with semicolons")
    parser.add_argument("--kind", help="table, text or image")
    asked = parser.parse_args()
    found = []
    for one in real_sets(texts_folder()):
        if (asked.only and not any(part in one.name for part in asked.only.split(";"))) or (
            asked.kind and asked.kind != one.kind
        ):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found.append(measured(one, Path(folder)))
        print(json.dumps(found[-1]), flush=True)
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
