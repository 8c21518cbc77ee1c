"""An independent checker: small, plain NumPy, for people who were handed a run and do not trust it.

It shares no code with what makes certificates. `theorem` is the mathematics, `coverage` the same for method "tight",
`content` the split, `claims` the words; `records` and `evidence` read the files; `arithmetic` and `checks` compare.
Only `retrain` uses the rest of bezoar, to train base classifiers again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bezoar.verification import checks
from bezoar.verification.arithmetic import Arithmetic
from bezoar.verification.evidence import Evidence, open_certificate, open_run
from bezoar.verification.verdict import Check, Finding, NotCheckedError, Verdict, detection_probability, made

__all__ = ["Check", "Verdict", "detection_probability", "verify"]


def verify(
    path: str | Path,
    *,
    votes: str | Path | None = None,
    data: Any = None,
    groups: Any = None,
    estimator: Any = None,
    sample: int | None = None,
    retrain: int = 0,
    seed: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Whether a run or a certificate is what it says, as far as its files and the data at hand can tell.

    Every digest may have been recomputed by a forger; what counts is arithmetic. Radii are computed again from the
    votes. That the votes are those of base classifiers trained on their subsets, only ``retrain`` can tell.

    Parameters
    ----------
    path : path
        A run directory, or a certificate (.npz).
    votes : path, optional
        The votes (.npy) of a loose certificate.
    data : Dataset, optional
        The data: digests, split and clean accuracy are then computed again.
    groups : sequence, optional
        The contributor of each training sample, for the split by group.
    estimator : scikit-learn classifier, optional
        The learner, if it is no preset and was not kept with the run.
    sample : int, optional
        Recompute only that many test samples, drawn at random.
    retrain : int
        Train that many base classifiers again, drawn at random, and compare their votes. Needs ``data``.
    seed : int, optional
        Of the draws. By default a fresh one, which a forger cannot know; the verdict tells it.
    progress : callable
        Told how many radii, and then how many base classifiers, are done, of how many.
    """
    path = Path(path)
    if sample is not None and sample < 1:
        raise ValueError(f"The 'sample' of verify must be at least 1. Got {sample} instead.")
    if retrain < 0:
        raise ValueError(f"The 'retrain' of verify must be at least 0. Got {retrain} instead.")
    if not path.exists() or (path.is_dir() and not (path / "manifest.json").exists()):
        raise FileNotFoundError(f"{path} is neither a run directory nor a certificate.")
    if path.is_dir() and votes is not None:
        raise ValueError(f"{path} is a run and holds its own votes; votes= is for a loose certificate.")
    if votes is not None and not Path(votes).exists():
        raise FileNotFoundError(f"{votes}: No such file.")
    seed = secrets.randbits(64) if seed is None else seed
    opened: list[Evidence] = []

    def files() -> str:
        opened.append(open_run(path) if path.is_dir() else open_certificate(path, Path(votes) if votes else None))
        return opened[0].words

    found = [made("files", files)]
    if not opened:
        return Verdict(str(path), tuple(found), seed)
    evidence = opened[0]
    again = Arithmetic(evidence, sample, seed, progress)

    def retraining() -> Finding:
        if not retrain:
            raise NotCheckedError(
                "the votes are the maker's word; retrain=R (--retrain) trains R base classifiers again."
            )
        from bezoar.verification.retrain import retrained

        return retrained(evidence, data, groups, estimator, retrain, seed, progress)

    rest: dict[str, Callable[[], str | Finding]] = {
        "spread": lambda: checks.spread(evidence),
        "classes": lambda: checks.classes(evidence),
        "votes": lambda: checks.votes(evidence),
        "prediction": again.prediction,
        "margin": again.margin,
        "radius": again.radius,
        "premises": lambda: checks.premises(evidence, data),
        "manifest": lambda: checks.manifest(evidence),
        "split": lambda: checks.data_and_split(evidence, data, groups),
        "accuracy": lambda: checks.accuracy(evidence, data),
        "retraining": retraining,
    }
    found += [made(name, check) for name, check in rest.items()]
    return Verdict(str(path), tuple(found), seed)
