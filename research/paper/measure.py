"""What is read off one row's votes: curves, the paper's statistics, and where they come from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certify import Certificate, Method, certify
from poisonproof.core.shared_attack import certified_accuracy
from poisonproof.core.spread import Spread
from poisonproof.core.votes import Votes
from poisonproof.runs.manifest import Manifest
from research.paper.published import NAMES


def measure(
    votes: Votes, theorem: Certificate, y: Any, manifest: Manifest, methods: Sequence[Method] = ()
) -> dict[str, Any]:
    """The measures of a completed run, as plain values; counts of test samples are whole numbers.

    Parameters
    ----------
    votes : Votes
    theorem : Certificate
        By Theorem 2.
    y : true labels
    manifest : Manifest
        Of the run.
    methods : names
        Further certificates to draw curves of.
    """
    truth = votes.indices_of(y)
    right = theorem.prediction == truth
    bound = certify(votes, "dpa-bound")
    grown = right & (theorem.radius > bound.radius)
    curves: dict[str, Any] = {"finite-aggregation": curve(theorem, truth), "dpa-bound": curve(bound, truth)}
    radii = {"finite-aggregation": float(theorem.radius.mean())}
    seconds = {}
    for method in methods:
        started = time.process_time()
        certificate = certify(votes, method)
        seconds[method] = round(time.process_time() - started, 2)
        curves[method], radii[method] = curve(certificate, truth), float(certificate.radius.mean())
    shared = certified_accuracy(votes, y, 1)
    spread = votes.spread
    return {
        "dataset": NAMES.get(manifest.settings.name, manifest.settings.name),
        "k": spread.k,
        "d": spread.d,
        "designed": not _plain(spread),
        "n_subsets": spread.n_subsets,
        "n_train": manifest.n_train,
        "n_test": votes.n_test,
        "learner": manifest.settings.learner,
        "clean": int(right.sum()),
        "base": int((votes.matrix == truth[:, None]).sum()),
        "grown": int(grown.sum()),
        "growth": int((theorem.radius - bound.radius)[grown].sum()),
        "tied": int(_tied(votes).sum()),
        "mean_radius": radii,
        "certified": curves,
        "shared_attack_of_size_1": {"lower": shared.lower_count, "upper": shared.upper_count},
        "cpu_seconds_to_certify": seconds,
        "votes_sha256": (manifest.files or {})["votes.npy"],
        "environment": manifest.environment,
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


def _plain(spread: Spread) -> bool:
    """Whether this is one of the paper's random spreads, not one made for a certificate."""
    n, d = spread.n_subsets, spread.d
    return n % d == 0 and spread in (Spread.random(n // d, d), Spread.paper(n // d, d))


def _tied(votes: Votes) -> NDArray[np.bool_]:
    """Samples on which two classes share the first place."""
    counts = np.sort(votes.counts(), axis=1)
    return np.asarray(counts[:, -1] == counts[:, -2])
