"""An independent checker: small, plain NumPy, for people who were handed a run and do not trust it.

It shares no code with what makes certificates. `files` opens what somebody else made; `theorem` and `run_off` are the
mathematics, `content` the split, `claims` what a run must state; `checks` and `ensemble` compare. `formal` has radii
checked by a program that is proved correct; the proofs that it needs are found by `proof_search`, which nobody needs to
believe. `fields` names what no check covered. Only `members` uses the rest of poisonproof, to ask base classifiers that
were saved and to train some again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import opens_only_the_estimators
from poisonproof.verification.checks import Given, UnknownVoters, VoterChecks
from poisonproof.verification.files import CERTIFICATE_FORMAT, MOST_BYTES, Reader, check_format, open_manifest
from poisonproof.verification.verdict import Check, Verdict, detection_probability, run_check

__all__ = ["Check", "Verdict", "detection_probability", "verify"]


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
    verifiers: Mapping[str, type[VoterChecks]] | None = None,
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
        The votes (.npy) of a certificate without its run.
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
    verifiers : mapping, optional
        Checks of voters that poisonproof does not know, by the method that a manifest names, which you vouch for. What
        was registered by `poisonproof.registry.add` is not used: its maker may be the run's.
    progress : callable
        Told how many radii, and then how many base classifiers, are done, of how many.
    """
    path = Path(path)
    _check_arguments(path, votes, sample, retrain, max_bytes)
    if formal:
        from poisonproof.verification.formal import find_checker

        find_checker()  # before hours of work, not after
    elif witness is not None:
        raise PoisonproofError(
            "'witness' is what the machine-checked checker is shown; give formal=True (--formal) too.",
            code="verify.witness",
        )
    given = Given(
        data,
        getattr(getattr(data, "train", None), "groups", None) if groups is None else groups,
        estimator,
        sample,
        ask,
        retrain,
        secrets.randbits(64) if seed is None else seed,
        formal,
        None if witness is None else Path(witness),
        progress,
    )
    opened: list[VoterChecks] = []

    def files() -> str:
        opened.append(_open(path, None if votes is None else Path(votes), Reader(max_bytes), given, verifiers or {}))
        return opened[0].files.message

    unchecked: tuple[str, ...] = ()
    made = [run_check("files", files)]
    for voters in opened:
        for name, check in voters.checks.items():
            made.append(run_check(name, check))
            if made[-1].outcome == "failed":
                voters.failed.append(name)
        if not voters.failed:  # else what is false has been named, and what else such files hold need not be readable
            passed = {check.name: check for check in made if check.outcome == "ok"}
            unchecked = tuple(dict.fromkeys(voters.not_covered(passed)))
    return Verdict(str(path), tuple(made), given.seed, unchecked, "no data" if data is None else source)


def _open(
    path: Path, votes: Path | None, reader: Reader, given: Given, verifiers: Mapping[str, type[VoterChecks]]
) -> VoterChecks:
    """The files of a run or a certificate, with the checks of those who voted."""
    if path.is_dir():
        manifest = open_manifest(path, reader)
        election = (manifest.get("settings") or {}).get("election")
        return _checks_of(election, "method", verifiers).of_run(path, manifest, reader, given)
    facts = reader.npz(path).facts
    check_format(facts, CERTIFICATE_FORMAT, path.name)
    return _checks_of(facts.get("election"), "kind", verifiers).of_certificate(path, votes, reader, given)


def _checks_of(election: Any, name: str, verifiers: Mapping[str, type[VoterChecks]]) -> type[VoterChecks]:
    """The checks of those who vote, whom a record names."""
    if election is None:
        from poisonproof.verification.ensemble import EnsembleChecks

        return EnsembleChecks
    method = str(election[name])
    if method in verifiers:
        return verifiers[method]
    from poisonproof import registry

    kind = method.removeprefix("one-sided ")
    return registry.built_in("verifiers", kind) or UnknownVoters


def _check_arguments(path: Path, votes: str | Path | None, sample: int | None, retrain: int, max_bytes: int) -> None:
    for name, value, least in (("sample", sample, 1), ("retrain", retrain, 0), ("max_bytes", max_bytes, 1)):
        if value is not None and value < least:
            raise PoisonproofError(
                f"The '{name}' of verify must be at least {least}. Got {value} instead.", code=f"verify.{name}"
            )
    if not path.exists() or (path.is_dir() and not os.path.lexists(path / "manifest.json")):
        raise FileNotFoundError(f"{path} is neither a run directory nor a certificate.")
    if path.is_dir() and votes is not None:
        raise PoisonproofError(
            f"{path} is a run and holds its own votes; votes= is for a certificate without its run.",
            code="verify.votes",
        )
    if votes is not None and not Path(votes).exists():
        raise FileNotFoundError(f"{votes}: No such file.")
