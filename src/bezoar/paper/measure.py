"""What is read off one row's votes: curves, the paper's statistics, and where they come from."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.certificates import Certificate, certify
from bezoar.certificates.shared import certified_accuracy
from bezoar.paper.rows import NAMES, Row
from bezoar.run import Outcome
from bezoar.votes import Votes


def measure(row: Row, outcome: Outcome) -> dict[str, Any]:
    """The measures of a completed run, as plain values; counts of test samples are whole numbers."""
    votes, y = outcome.votes, outcome.y_test
    truth = votes.indices_of(y)
    theorem = outcome.certificate
    right = theorem.prediction == truth
    bound = certify(votes, "dpa-bound")
    grown = right & (theorem.radius > bound.radius)
    curves: dict[str, Any] = {"finite-aggregation": curve(theorem, truth), "dpa-bound": curve(bound, truth)}
    seconds = {}
    for method in (("tight",) if row.plane else ()) + (("run-off",) if row.rankings else ()):
        started = time.process_time()
        certificate = certify(votes, method)  # type: ignore[arg-type]
        seconds[method] = round(time.process_time() - started, 2)
        curves[method] = curve(certificate, truth)
    shared = certified_accuracy(votes, y, 1)
    return {
        "dataset": NAMES[row.dataset],
        "k": row.k,
        "d": row.d,
        "spread": f"plane:{row.plane[0]},{row.plane[1]}" if row.plane else "random",
        "n_subsets": votes.spread.n_subsets,
        "n_train": outcome.manifest["n_train"],
        "n_test": votes.n_test,
        "learner": outcome.manifest["settings"]["learner"],
        "clean": int(right.sum()),
        "base": int((votes.matrix == truth[:, None]).sum()),
        "grown": int(grown.sum()),
        "growth": int((theorem.radius - bound.radius)[grown].sum()),
        "tied": int(_tied(votes).sum()),
        "mean_radius": float(theorem.radius.mean()),
        "certified": curves,
        "shared_attack_of_size_1": {"lower": shared.lower_count, "upper": shared.upper_count},
        "cpu_seconds_to_certify": seconds,
        "votes_sha256": outcome.manifest["files"]["votes.npy"],
        "environment": outcome.manifest["environment"],
    }


def curve(certificate: Certificate, truth: NDArray[np.int64]) -> list[int]:
    """How many predictions are right and certified, at attack sizes 0, 1, … up to the largest that leaves any."""
    radius = certificate.radius[certificate.prediction == truth]
    return [int(count) for count in np.cumsum(np.bincount(radius, minlength=1)[::-1])[::-1]]


def at(counts: list[int], size: int) -> int:
    """How many are certified at an attack size."""
    return counts[size] if size < len(counts) else 0


def half(counts: list[int], n_test: int) -> int:
    """The largest attack size at which half of the test set is certified: the median certified radius."""
    return max((size for size, count in enumerate(counts) if 2 * count >= n_test), default=0)


def _tied(votes: Votes) -> NDArray[np.bool_]:
    """Samples on which two classes share the first place."""
    counts = np.sort(votes.counts(), axis=1)
    return np.asarray(counts[:, -1] == counts[:, -2])
