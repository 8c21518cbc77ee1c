"""An independent checker: small, plain NumPy, for people who were handed a run and do not trust it.

It shares no code with what makes certificates. `theorem` is the mathematics, `coverage` the same for method "tight",
`content` the split, `claims` the words; `records` and `evidence` read the files; `arithmetic` and `checks` compare;
`formal` has radii checked by a program that is proved correct, for which `witness`, `hints` and `groups` write down
what it needs; `omissions` names what none of them looked at. Only `ensemble`, `members` and `retrain` use the rest of
poisonproof, to ask base classifiers that were kept and to train some again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import opens_only_the_estimators
from poisonproof.verification import checks
from poisonproof.verification.arithmetic import Arithmetic
from poisonproof.verification.evidence import Evidence, check_format, open_certificate, open_manifest, open_run
from poisonproof.verification.omissions import unchecked
from poisonproof.verification.records import MOST_BYTES, Reader
from poisonproof.verification.sample_checks import SampleChecks
from poisonproof.verification.sample_files import (
    SampleEvidence,
    is_of_samples,
    open_sample_certificate,
    open_sample_run,
)
from poisonproof.verification.verdict import (
    Check,
    Finding,
    NotCheckedError,
    Verdict,
    detection_probability,
    made,
)

__all__ = ["Check", "Verdict", "detection_probability", "verify"]

# What must be right before base classifiers are worth loading or training.
FOUNDATIONS = {"files", "spread", "classes", "votes", "split"}


@opens_only_the_estimators
def verify(
    path: str | Path,
    *,
    votes: str | Path | None = None,
    data: Any = None,
    groups: Any = None,
    estimator: Any = None,
    sample: int | None = None,
    ask: bool = True,
    retrain: int = 0,
    seed: int | None = None,
    formal: bool = False,
    witness: str | Path | None = None,
    max_bytes: int = MOST_BYTES,
    source: str = "the data given",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verdict:
    """Whether a run or a certificate is what it says, as far as its files and the data at hand can tell.

    Every digest may have been recomputed by a forger; what counts is arithmetic. Radii are computed again from the
    votes. With ``data``, the base classifiers that the run kept are asked again; that they were trained on their
    subsets, only ``retrain`` can tell. The verdict is VERIFIED only if base classifiers were asked or trained again,
    CONSISTENT if the files alone were looked at, and it names what was not checked.

    Parameters
    ----------
    path : path
        A run directory, or a certificate (.npz).
    votes : path, optional
        The votes (.npy) of a loose certificate.
    data : Dataset, optional
        The data: digests, split and clean accuracy are then computed again.
    groups : sequence, optional
        The contributor of each training sample, for the split by group; by default those of ``data``.
    estimator : scikit-learn classifier or Encoder, optional
        The learner, if it is no preset and was not kept with the run; where samples vote, the encoder. You vouch for
        its types and for the files that its encoder opens: of no other encoder is a file opened.
    sample : int, optional
        Recompute the radii of, and ask about, only that many test samples, drawn at random.
    ask : bool
        Whether to ask the kept base classifiers. Needs ``data``, and loads the rest of poisonproof.
    retrain : int
        Train that many base classifiers again, drawn at random, and compare their votes. Needs ``data``.
    seed : int, optional
        Of the draws. By default a fresh one, which a forger cannot know; the verdict tells it.
    formal : bool
        Also have the radii checked by ``poisonproof-check``, a program whose correctness is a Coq theorem
        (docs/machine-checked.md). `make proof` builds it.
    witness : path, optional
        Where to keep what that program was shown; by default it is a temporary file.
    max_bytes : int
        How many bytes the files may have in all. Records may have a 64th of it, archives and work arrays an eighth.
    source : str
        Where ``data`` come from, for the words of the verdict.
    progress : callable
        Told how many radii, and then how many base classifiers, are done, of how many.
    """
    path = Path(path)
    _check_arguments(path, votes, sample, retrain, max_bytes)
    if formal:
        from poisonproof.verification.formal import checked_formally, find_checker

        find_checker()  # before hours of work, not after
    elif witness is not None:
        raise PoisonproofError(
            "'witness' is what the machine-checked checker is shown; give formal=True (--formal) too."
        )
    seed = secrets.randbits(64) if seed is None else seed
    groups = getattr(getattr(data, "train", None), "groups", None) if groups is None else groups
    opened: list[Evidence] = []

    def files() -> str:
        opened.append(_opened(path, Path(votes) if votes else None, Reader(max_bytes)))
        return opened[0].words

    checks_made = [made("files", files)]
    if not opened:
        return Verdict(str(path), tuple(checks_made), seed)
    evidence = opened[0]
    kept = Path(witness) if witness is not None else None
    if isinstance(evidence, SampleEvidence):
        votes_of = SampleChecks(evidence, data, groups, sample, seed, progress, estimator)
        wanted: dict[str, Callable[[], str | Finding]] = {
            "election": votes_of.election,
            "classes": lambda: checks.classes(evidence),
            "votes": votes_of.votes,
            "prediction": votes_of.prediction,
            "margin": votes_of.margin,
            "radius": votes_of.radius,
            "premises": votes_of.premises,
            "manifest": votes_of.manifest,
            "data": votes_of.same_data,
            "accuracy": lambda: checks.accuracy(evidence, data),
            "recount": lambda: votes_of.recount(ask),
        }
        if formal:
            wanted["formal"] = lambda: checked_formally(evidence, votes_of.rows, kept, progress)
        checks_made += [made(name, check) for name, check in wanted.items()]
        false = next((check.name for check in checks_made if check.outcome == "failed"), None)
        checks_made.append(made("model", lambda: votes_of.model(false, ask)))
        failed = any(check.outcome == "failed" for check in checks_made)
        silent = () if failed else unchecked(evidence, checks_made, data)
        return Verdict(str(path), tuple(checks_made), seed, silent, "no data" if data is None else source)
    again = Arithmetic(evidence, sample, seed, progress)
    first: dict[str, Callable[[], str | Finding]] = {
        "spread": lambda: checks.spread(evidence),
        "classes": lambda: checks.classes(evidence),
        "votes": lambda: checks.votes(evidence),
        "rankings": lambda: checks.rankings(evidence),
        "prediction": again.prediction,
        "margin": again.margin,
        "radius": again.radius,
        "premises": lambda: checks.premises(evidence, data),
        "manifest": lambda: checks.manifest(evidence),
        "split": lambda: checks.data_and_split(evidence, data, groups),
        "accuracy": lambda: checks.accuracy(evidence, data),
    }
    if formal:
        first["formal"] = lambda: checked_formally(evidence, again.rows, kept, progress)
    checks_made += [made(name, check) for name, check in first.items()]
    false = next((check.name for check in checks_made if check.outcome == "failed" and check.name in FOUNDATIONS), None)
    heard = _Heard(evidence, data, groups, estimator, false)
    then: dict[str, Callable[[], str | Finding]] = {
        "model": lambda: heard.model_record(ask or retrain > 0),
        "members": lambda: heard.asked(ask, again, progress),
        "retraining": lambda: heard.retrained(retrain, seed, progress),
    }
    if _names_encoder(evidence.facts["premises"]):
        then["encoder"] = lambda: heard.encoder(seed)
    checks_made += [made(name, check) for name, check in then.items()]
    # What is false has been named; what else such files hold need not even be readable.
    silent = () if any(check.outcome == "failed" for check in checks_made) else unchecked(evidence, checks_made, data)
    return Verdict(str(path), tuple(checks_made), seed, silent, "no data" if data is None else source)


def _names_encoder(premises: Any) -> bool:
    """Whether an encoder is among the premises, whatever stands in their place."""
    listed = premises if isinstance(premises, list | tuple) else ()
    return any(isinstance(premise, dict) and premise.get("code") == "encoder" for premise in listed)


def _opened(path: Path, votes: Path | None, reader: Reader) -> Evidence:
    """The files of a run or a certificate, whoever voted."""
    if path.is_dir():
        manifest = open_manifest(path, reader)
        if (manifest.get("settings") or {}).get("election") is not None:
            return open_sample_run(path, manifest, reader)
        return open_run(path, manifest, reader)
    certificate = reader.npz(path)
    if is_of_samples(certificate):
        check_format(certificate.facts, "certificate.npz", path.name)
        return open_sample_certificate(path, certificate, votes, reader)
    return open_certificate(path, certificate, votes, reader)


class _Heard:
    """The checks that need poisonproof itself, which is loaded only if one of them is made."""

    def __init__(self, evidence: Evidence, data: Any, groups: Any, estimator: Any, false: str | None) -> None:
        self.given, self.false, self.known = (evidence, data, groups, estimator), false, evidence.model is not None

    @cached_property
    def ensemble(self) -> Any:
        if self.false:
            raise NotCheckedError(f"what the check of {self.false} found comes first.")
        if self.given[1] is None:
            raise NotCheckedError(checks.NO_DATA)
        from poisonproof.verification.ensemble import Ensemble

        return Ensemble(*self.given)

    def model_record(self, wanted: bool) -> str:
        """The record of the kept base classifiers against the data."""
        self._check_kept(wanted)
        return str(self.ensemble.model_record())

    def asked(self, wanted: bool, again: Arithmetic, progress: Callable[[int, int], None]) -> Finding:
        """The kept base classifiers, asked about the test samples whose radii were computed again."""
        self._check_kept(wanted)
        ensemble = self.ensemble
        from poisonproof.verification.members import asked

        return asked(ensemble, again.rows, progress)

    def retrained(self, wanted: int, seed: int, progress: Callable[[int, int], None]) -> Finding:
        """Some base classifiers, trained again."""
        if not wanted:
            raise NotCheckedError("retrain=R (--retrain) trains R base classifiers again.")
        ensemble = self.ensemble
        from poisonproof.verification.retrain import retrained

        return retrained(ensemble, wanted, seed, progress)

    def encoder(self, seed: int) -> str:
        """The weights of the encoder at hand, and some embeddings that were kept."""
        ensemble = self.ensemble
        from poisonproof.verification.encoded import encoder

        return encoder(ensemble, seed)

    def _check_kept(self, wanted: bool) -> None:
        if not self.known:
            raise NotCheckedError("no base classifiers were kept.")
        if not wanted:
            raise NotCheckedError("it was not wanted (ask=False, --no-ask).")


def _check_arguments(path: Path, votes: str | Path | None, sample: int | None, retrain: int, max_bytes: int) -> None:
    if sample is not None and sample < 1:
        raise PoisonproofError(f"The 'sample' of verify must be at least 1. Got {sample} instead.")
    if retrain < 0:
        raise PoisonproofError(f"The 'retrain' of verify must be at least 0. Got {retrain} instead.")
    if max_bytes < 1:
        raise PoisonproofError(f"The 'max_bytes' of verify must be at least 1. Got {max_bytes} instead.")
    if not path.exists() or (path.is_dir() and not os.path.lexists(path / "manifest.json")):
        raise FileNotFoundError(f"{path} is neither a run directory nor a certificate.")
    if path.is_dir() and votes is not None:
        raise PoisonproofError(f"{path} is a run and holds its own votes; votes= is for a loose certificate.")
    if votes is not None and not Path(votes).exists():
        raise FileNotFoundError(f"{votes}: No such file.")
