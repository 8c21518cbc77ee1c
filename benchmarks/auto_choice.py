"""Should each base classifier choose its learner, or one choice be made for all? On training data only.

``python benchmarks/auto_choice.py OUT.json``: every real set is read as `poisonproof run` reads it; its test part is
never touched. A fifth of the training part is asked, base classifiers (k = 20, d = 1) are trained on the rest. Per
member: each takes what is best in cross-validation inside its own subset. Pilot: all take what is best on average over
those cross-validations. Printed are balanced accuracy and balanced certified fraction at attack size 5.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from poisonproof import Split, Spread, Votes, certify
from poisonproof.data import ReadOptions, open_files
from poisonproof.learners.auto import AutoClassifier, balanced_scores
from poisonproof.learners.seeding import isolated
from poisonproof.system.threads import one_linear_algebra_thread
from real_sets import RealSet, real_sets, texts_folder

K, SIZE, MOST = 20, 5, 4000


def measured(one: RealSet, folder: Path) -> dict[str, object]:
    """Balanced figures of each single learner, of the pilot's choice and of each member's own."""
    path = folder / "data.csv"
    one.frame().to_csv(path, index=False)
    data = open_files(path, ReadOptions(label=one.label))
    split = Split("content", data.dtype, data.n_features)
    samples = split.samples(data.x_train)
    hashes = samples.hashes(7)
    order = np.argsort(hashes, kind="stable")[:MOST]
    asked, rows = order[: len(order) // 5][:500], order[len(order) // 5 :]
    classes, codes = np.unique(np.asarray(data.y_train), return_inverse=True)
    place = split.partitions(samples, K)[rows]
    votes: dict[str, list[np.ndarray]] = {}
    scores, own = [], []
    started = time.process_time()
    with one_linear_algebra_thread():
        for i in range(K):
            mine = np.sort(rows[place == i])
            form = samples.form_of(mine)
            X, test = samples.take(mine, form), samples.take(asked, form)
            with isolated(i):
                candidates = AutoClassifier(random_state=i).candidates(X)
                names = [type(candidate).__name__ for candidate in candidates]
                if len(np.unique(codes[mine])) < 2:
                    constant = np.full(len(asked), codes[mine][0] if len(mine) else len(classes))
                    for name in names:
                        votes.setdefault(name, []).append(constant)
                    own.append(constant)
                    continue
                held, local = np.unique(codes[mine], return_inverse=True)
                scores.append(balanced_scores(candidates, X, local))
                for name, candidate in zip(names, candidates, strict=True):
                    votes.setdefault(name, []).append(held[candidate.fit(X, local).predict(test)])
                own.append(votes[names[int(scores[-1].argmax())]][-1])
    pilot = names[int(np.mean(scores, axis=0).argmax())]
    truth = classes[codes[asked]]

    def figures(columns: list[np.ndarray]) -> list[float]:
        certificate = certify(Votes(np.stack(columns, axis=1), Spread.random(K, 1), classes))
        plain = [certificate.clean_accuracy(truth), float(certificate.certified_fraction(truth, SIZE))]
        return [
            *plain,
            certificate.balanced_accuracy(truth),
            float(certificate.certified_fraction_balanced(truth, SIZE)),
        ]

    return {
        "name": one.name,
        "n_train": len(rows),
        "single": {name: figures(columns) for name, columns in votes.items()},
        "pilot": figures(votes[pilot]),
        "pilot_choice": pilot,
        "per_member": figures(own),
        "seconds": round(time.process_time() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", help="part of a name")
    asked = parser.parse_args()
    found = []
    for one in real_sets(texts_folder()):
        if asked.only and asked.only not in one.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found.append(measured(one, Path(folder)))
        print(json.dumps(found[-1]), flush=True)
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
