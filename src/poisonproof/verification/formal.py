"""The machine-checked check: a witness is written, and a program whose correctness is a Coq theorem reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.verification.evidence import Evidence
from poisonproof.verification.run_off_witness import write_run_off
from poisonproof.verification.sample_files import SampleEvidence
from poisonproof.verification.verdict import Finding, NotCheckedError, NotTrueError
from poisonproof.verification.witness import Electorate, write_ballots, write_ensemble, write_neighbours

PROGRAM = "poisonproof-check"
SETTING = "POISONPROOF_CHECK"
BUILT = Path(__file__).parents[3] / "proofs" / "checker" / PROGRAM  # where `make proof` leaves it in a checkout
END_TO_END = "from training sets to predictions (end_to_end in proofs/Checker.v)"
WITHIN = "Theorem 4, from training sets to predictions (end_to_end_reachable in proofs/Checker.v)"
STATEMENTS = {
    "finite-aggregation": f"Theorem 2, {END_TO_END}",
    "dpa-bound": f"Theorem 2, {END_TO_END}",
    "tight": f"covers by dual bounds, trees and groups, {END_TO_END}",
    "run-off": "run-off election by multipliers, from training sets to predictions (end_to_end_run_off in "
    "proofs/RunOffChecker.v)",
    **dict.fromkeys(("ballots", "one-sided ballots"), "Theorems 1 and 2 of docs/proofs/ballots.md (proofs/Ballots.v)"),
    "neighbours": "Theorem 5 of docs/proofs/ballots.md (proofs/Neighbours.v)",
}
TRUSTED = (
    "Trusted: that every base classifier is a function of its own subset, the hash of the split, that these votes are "
    "those of the data; and Coq, its extraction, OCaml and Zarith"
)
TRUSTED_OF_SAMPLES = (
    "Trusted: that the map is a fixed function of one sample, and that these counts are those of the data; and Coq, "
    "its extraction, OCaml and Zarith"
)


class Answers(NamedTuple):
    """What the checker said: one answer for each sample of the witness."""

    accepted: NDArray[np.bool_]


def find_checker() -> Path:
    """The program: where the environment says, on the PATH, or where `make proof` builds it."""
    named = os.environ.get(SETTING)
    if named:
        if not Path(named).is_file():
            raise PoisonproofError(f"{SETTING} names {named}, which is no file.")
        return Path(named)
    program = shutil.which(PROGRAM)
    if program:
        return Path(program)
    if BUILT.is_file():
        return BUILT
    raise PoisonproofError(
        f"--formal needs the program {PROGRAM}, which is not on the PATH; 'make proof' in a checkout of poisonproof "
        f"builds it, or {SETTING} says where it is."
    )


def ask_checker(program: Path, witness: Path) -> Answers:
    """Run the checker on a witness; an answer for each sample, or an error that says why there is none."""
    try:
        ran = subprocess.run([program, witness], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PoisonproofError(f"{program} cannot be run ({error.strerror}).") from None
    if ran.returncode not in (0, 3):
        words = ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit code {ran.returncode}"
        raise NotCheckedError(f"{PROGRAM} did not come to an answer: {words}")
    lines = ran.stdout.splitlines()
    accepted = np.array([line.endswith(" accepted") for line in lines[:-1]], np.bool_)
    summary = f"{len(accepted)} samples: {int(accepted.sum())} accepted, {int((~accepted).sum())} refused"
    if not lines or lines[-1] != summary:
        raise NotCheckedError(f"{PROGRAM} did not say what became of every sample.")
    return Answers(accepted)


def checked_formally(
    evidence: Evidence,
    rows: NDArray[np.int64],
    witness: Path | None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Finding:
    """Predictions and radii of these test samples, by the checker whose correctness is a theorem.

    ``witness`` keeps what it was shown; otherwise that is a temporary file.
    """
    program = find_checker()
    method, arrays = evidence.facts["method"], evidence.certificate.arrays
    if method not in STATEMENTS:
        raise NotCheckedError(f"the machine-checked checker does not know the method {method!r}.")
    if isinstance(evidence, SampleEvidence):
        if evidence.facts["split"]["kind"] == "group":
            raise NotCheckedError("the machine-checked checker does not know elections of contributors.")
    elif not evidence.votes_in_range:
        raise NotCheckedError("the votes are not in order.")
    if method == "run-off" and evidence.facts["classes_inferred"]:
        raise NotCheckedError("a run-off election is checked for declared classes alone, and these were inferred.")
    if method == "run-off" and evidence.rankings is None:
        raise NotCheckedError("there are no rankings, and a run-off election needs them.")
    if method == "run-off" and evidence.rankings is not None and evidence.rankings.shape[-1] < evidence.n_classes:
        raise NotCheckedError(
            f"a run-off election is checked with all {evidence.n_classes} places of its rankings, and "
            f"{evidence.rankings.shape[-1]} were kept."
        )
    with nullcontext(str(witness.parent)) if witness else tempfile.TemporaryDirectory() as folder:
        path = witness or Path(folder) / "witness"
        with path.open("wb") as file:
            if isinstance(evidence, SampleEvidence):
                _write_samples(file, evidence, rows, arrays)
            else:
                _write(file, evidence, rows, arrays, progress)
        answers = ask_checker(program, path)
    statement = STATEMENTS[method] if evidence.reachable is None else WITHIN
    trusted = TRUSTED_OF_SAMPLES if isinstance(evidence, SampleEvidence) else TRUSTED
    refused = rows[~answers.accepted]
    if len(refused):
        words = (
            f"{len(refused)} of {len(rows)} radii were refused by {PROGRAM}, the first that of test sample "
            f"{refused[0]} ({arrays['radius'][refused[0]]})"
        )
        if method == "tight":  # a radius whose proof was not found may still be true
            raise NotCheckedError(f"{words}: no proof of it was found.")
        raise NotTrueError(f"{words}.")
    return Finding(
        f"{len(rows)} of {evidence.n_test} radii were accepted by {PROGRAM}, whose correctness is proved in Coq: "
        f"{statement}. {trusted}.",
        {"accepted": len(rows), "statement": statement, "trusted": trusted},
    )


def _write(
    file: IO[bytes],
    evidence: Evidence,
    rows: NDArray[np.int64],
    arrays: dict[str, NDArray[Any]],
    progress: Callable[[int, int], None],
) -> None:
    tight = evidence.facts["method"] == "tight"
    inferred = evidence.facts["classes_inferred"]
    electorate = Electorate(evidence.spread, evidence.n_classes, inferred, tight=tight, reachable=evidence.reachable)
    ranked = evidence.facts["method"] == "run-off"
    votes = evidence.rankings if ranked else evidence.matrix
    assert votes is not None
    votes = votes if len(rows) == evidence.n_test else votes[rows]
    write = write_run_off if ranked else write_ensemble
    write(file, electorate, votes, arrays["prediction"][rows], arrays["radius"][rows], progress)


def _write_samples(
    file: IO[bytes], evidence: SampleEvidence, rows: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
) -> None:
    counts, facts = evidence.heard
    claims = {"prediction": arrays["prediction"][rows], "radius": arrays["radius"][rows]}
    inferred = evidence.facts["classes_inferred"]
    if evidence.kind == "ballots":
        two_sided, near = not facts["one_sided"], counts["near"][rows]
        sizes = {"totals": counts["totals"], "sizes": counts["sizes"]}
        write_ballots(file, near=near, **sizes, **claims, two_sided=two_sided, inferred=inferred)
        return
    write_neighbours(
        file,
        labels=list(counts["order"][rows]),
        n_voters=facts["n_neighbors"],
        n_training=facts["n_samples"],
        n_classes=evidence.n_classes,
        **claims,
        inferred=inferred,
    )
