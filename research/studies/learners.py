"""Which default base classifier? Accuracy on small subsets of held-out *training* data, and cost.

Only the training part of each embedded set is used; subsets are drawn from two thirds of it and scored on the rest.

    python -m research.studies.learners
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from poisonproof.data.dataset import held_out
from poisonproof.learners.table import TableClassifier
from poisonproof.system.determinism import one_linear_algebra_thread

LEARNERS = {
    "TableClassifier": TableClassifier(),
    "DecisionTree": DecisionTreeClassifier(random_state=0),
    "ExtraTrees(100)": ExtraTreesClassifier(100, random_state=0),
    "RandomForest(100)": RandomForestClassifier(100, random_state=0),
    "scaled SVC(C=3)": make_pipeline(StandardScaler(), SVC(C=3)),
    "scaled 1-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
}
SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
SIZES = (10, 20, 40, 80)
DRAWS = 20


def main() -> None:
    warnings.simplefilter("ignore")
    print("Base accuracy, %, mean over subsets of 10 / 20 / 40 / 80 samples:\n")
    print(f"| learner | {' | '.join(SETS)} | mean | ms to fit and score |")
    print("|---" * (len(SETS) + 3) + "|")
    with one_linear_algebra_thread():
        for name, learner in LEARNERS.items():
            cells, every, seconds = [], [], 0.0
            for load in SETS.values():
                X, y = load(return_X_y=True)
                train = ~held_out(X, 0.2)
                X, y = X[train], y[train]
                fit = ~held_out(X + 1.0, 1 / 3)
                means = []
                for size in SIZES:
                    scores = []
                    for draw in range(DRAWS):
                        rows = np.random.default_rng(draw).permutation(np.flatnonzero(fit))[:size]
                        started = time.perf_counter()
                        scores.append(learner.fit(X[rows], y[rows]).score(X[~fit], y[~fit]))
                        seconds += time.perf_counter() - started
                    means.append(100 * np.mean(scores))
                every += means
                cells.append(" / ".join(f"{mean:.1f}" for mean in means))
            cost = seconds / (len(SETS) * len(SIZES) * DRAWS) * 1e3
            print(f"| {name} | {' | '.join(cells)} | {np.mean(every):.1f} | {cost:.1f} |")


if __name__ == "__main__":
    main()
