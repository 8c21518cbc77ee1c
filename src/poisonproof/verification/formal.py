"""The machine-checked check: a witness is written, and a program whose correctness is a Coq theorem reads it.

A witness is plain text (proofs/README.md): numbers and words, separated by blanks. What is written is either
copied from the files (votes, spread, predictions, radii) or found by `proof_search`, which nobody needs to trust.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.verification.proof_search import (
    Groups,
    HarmfulError,
    Partitions,
    Searched,
    find_groups,
    prove,
    prove_by_groups,
    sum_of_largest,
    threshold,
)
from poisonproof.verification.run_off import RunOff
from poisonproof.verification.theorem import Branch, Dual, Largest, SpreadMap, Tree, lead_of, leads
from poisonproof.verification.verdict import CheckFailed, CheckSkipped, Finding

if TYPE_CHECKING:
    from poisonproof.verification.checks import VoterChecks

PROGRAM = "poisonproof-check"
SETTING = "POISONPROOF_CHECK"
BUILT = Path(__file__).parents[3] / "proofs" / "checker" / PROGRAM  # where `make proof` leaves it in a checkout
END_TO_END = "from training sets to predictions (end_to_end in proofs/Checker.v)"
WITHIN = "Theorem 4, from training sets to predictions (end_to_end_reachable in proofs/Checker.v)"
OF_ENSEMBLES = {
    "finite-aggregation": f"Theorem 2, {END_TO_END}",
    "dpa-bound": f"Theorem 2, {END_TO_END}",
    "tight": f"covers by dual bounds, trees and groups, {END_TO_END}",
    "run-off": "run-off election by multipliers, from training sets to predictions (end_to_end_run_off in "
    "proofs/RunOffChecker.v)",
}
TRUSTED = (
    "Trusted: that every base classifier is a function of its own subset, the hash of the split, that these votes are "
    "those of the data; and Coq, its extraction, OCaml and Zarith"
)
FORMAT = "poisonproof witness 1"
INVENTED = "invented"


def find_checker() -> Path:
    """The program: where the environment says, on the PATH, or where `make proof` builds it."""
    named = os.environ.get(SETTING)
    if named:
        if not Path(named).is_file():
            raise PoisonproofError(f"{SETTING} names {named}, which is no file.", code="formal.program")
        return Path(named)
    program = shutil.which(PROGRAM)
    if program:
        return Path(program)
    if BUILT.is_file():
        return BUILT
    raise PoisonproofError(
        f"--formal needs the program {PROGRAM}, which is not on the PATH; 'make proof' in a checkout of poisonproof "
        f"builds it, or {SETTING} says where it is.",
        code="formal.program",
    )


def ask_checker(program: Path, witness: Path) -> NDArray[np.bool_]:
    """Run the checker on a witness: for each of its samples, whether it was accepted; or why there is no answer."""
    try:
        ran = subprocess.run([program, witness], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PoisonproofError(f"{program} cannot be run ({error.strerror}).", code="formal.program") from None
    if ran.returncode not in (0, 3):
        words = ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit code {ran.returncode}"
        raise CheckSkipped(f"{PROGRAM} did not come to an answer: {words}")
    lines = ran.stdout.splitlines()
    accepted = np.array([line.endswith(" accepted") for line in lines[:-1]], np.bool_)
    summary = f"{len(accepted)} samples: {int(accepted.sum())} accepted, {int((~accepted).sum())} refused"
    if not lines or lines[-1] != summary:
        raise CheckSkipped(f"{PROGRAM} did not say what became of every sample.")
    return accepted


def check(
    voters: VoterChecks,
    write: Callable[[IO[bytes]], None],
    statement: str,
    trusted: str,
    *,
    searched: bool = False,
) -> Finding:
    """Predictions and radii of the test samples that are looked at, by the checker whose correctness is a theorem.

    ``write`` writes the witness, which is kept if the auditor says where. ``searched``: proofs had to be looked for,
    and a radius whose proof was not found may still be true.
    """
    program, rows, witness = find_checker(), voters.rows, voters.given.witness
    with nullcontext(str(witness.parent)) if witness else tempfile.TemporaryDirectory() as folder:
        path = witness or Path(folder) / "witness"
        with path.open("wb") as file:
            write(file)
        refused = rows[~ask_checker(program, path)]
    if len(refused):
        words = (
            f"{len(refused)} of {len(rows)} radii were refused by {PROGRAM}, the first that of test sample "
            f"{refused[0]} ({voters.files.certificate.arrays['radius'][refused[0]]})"
        )
        if searched:
            raise CheckSkipped(f"{words}: no proof of it was found.")
        raise CheckFailed(f"{words}.")
    return Finding(
        f"{len(rows)} of {voters.n_test} radii were accepted by {PROGRAM}, whose correctness is proved in Coq: "
        f"{statement}. {trusted}.",
        {"accepted": len(rows), "statement": statement, "trusted": trusted},
    )


@dataclass(frozen=True, eq=False)
class Setting:
    """What is the same for all test samples of an ensemble.

    ``reachable`` is a mask of the partitions that can be poisoned (Theorem 4); None means all. ``tight`` looks for
    proofs above Theorem 2.
    """

    spread: SpreadMap
    n_classes: int
    inferred: bool
    tight: bool = False
    reachable: NDArray[np.bool_] | None = None

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which partitions can be poisoned."""
        return np.ones(self.spread.n, np.bool_) if self.reachable is None else self.reachable


def write_ensemble(
    file: IO[bytes],
    setting: Setting,
    votes: NDArray[Any],
    prediction: NDArray[Any],
    radius: NDArray[Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """The witness of an ensemble: one row of votes, a prediction and a radius for each test sample."""
    spread = setting.spread
    groups = find_groups(spread) if setting.tight and setting.reachable is None else None
    write_line(file, FORMAT, "ensemble")
    write_line(file, "classes", setting.n_classes, "inferred" if setting.inferred else "declared")
    write_spread(file, setting)
    _write_groups(file, groups)
    write_line(file, "samples", len(votes))
    words = _words(votes)
    partitions_of = Partitions(np.arange(spread.n), spread.table, spread)
    for at, row in enumerate(votes):
        claim = int(prediction[at]), int(radius[at])
        common, hints = _hints(row, setting, partitions_of, groups, *claim)
        write_line(file, "sample", *claim, common, len(hints))
        file.write(b"votes " + words(row) + b"\n")
        for hint in hints:
            write_line(file, *hint)
        progress(at + 1, len(votes))
    write_line(file, "end")


def write_spread(file: IO[bytes], setting: Setting) -> None:
    """The spread, and which partitions can be poisoned."""
    spread = setting.spread
    if spread.shifts is not None:
        write_line(file, "spread shifts", spread.n, spread.d, *spread.shifts)
    else:
        write_line(file, "spread table", spread.n, spread.n)
        for members in spread.table.tolist():
            write_line(file, len(members), *members)
    if setting.reachable is None:
        write_line(file, "reachable all")
    else:
        partitions = np.flatnonzero(setting.reachable).tolist()
        write_line(file, "reachable some", len(partitions), *partitions)


def _hints(
    row: NDArray[Any],
    setting: Setting,
    partitions: Partitions,
    groups: Groups | None,
    p: int,
    r: int,
) -> tuple[int, list[tuple[Any, ...]]]:
    """The threshold that serves for all rivals, and a hint for each that needs one and for which one was found."""
    spread, allowed = setting.spread, setting.allowed
    counts = leads(row, setting.n_classes, setting.inferred).counts
    small = np.min_scalar_type(-2 * spread.d - 1)
    reach = np.where(allowed, spread.sums((row == p).astype(small)) + small.type(spread.d), 0)
    common, bound = threshold(reach, r), sum_of_largest(reach, r)
    rivals = [*range(setting.n_classes), *([setting.n_classes] if setting.inferred and r > 0 else [])]
    hints: list[tuple[Any, ...]] = []
    # A class without votes has the largest weights: what is proved for the smallest lead serves for the others.
    without_votes: list[tuple[int, tuple[Any, ...] | None]] = []
    for c in rivals:
        if c == p:
            continue
        lead = lead_of(p, c, counts)
        if lead < 0 or bound <= lead:
            continue
        code = INVENTED if c == setting.n_classes else c
        if c < setting.n_classes and counts[c] > 0:
            gains = np.where(allowed, reach - spread.sums((row == c).astype(small)), 0)
            if sum_of_largest(gains, r) <= lead:
                hints.append(("hint", code, "tree", _tree(Largest(threshold(gains, r)))))
                continue
        if not setting.tight:
            continue
        against = counts[c] if c < setting.n_classes else 0
        body = next((body for known, body in without_votes if known <= lead), None) if not against else None
        if body is None:
            weight = 1 + (row == p).astype(np.int64) - ((row == c) & (c < setting.n_classes))
            body = _tight(weight, setting, partitions, groups, r, lead)
            if not against:
                without_votes.append((lead, body))
        if body is not None:
            hints.append(("hint", code, *body))
    return common, hints


def _tight(
    weight: NDArray[np.int64],
    setting: Setting,
    partitions: Partitions,
    groups: Groups | None,
    size: int,
    lead: int,
) -> tuple[Any, ...] | None:
    """What proves a radius above Theorem 2, as words; None if nothing was found."""
    if groups is not None:
        searches = prove_by_groups(weight, setting.spread, groups, size, lead)
        if searches is not None:
            return ("groups", len(searches), *(_searched(searched) for searched in searches))
    try:
        tree = prove(weight, partitions, setting.allowed, size, lead)
    except HarmfulError:
        return None
    return None if tree is None else ("tree", _tree(tree))


def _searched(searched: Searched) -> str:
    return f"{searched.group} {searched.picks} {searched.bound} {_tree(searched.tree)}"


def _tree(tree: Tree) -> str:
    if isinstance(tree, Largest):
        return f"largest {tree.threshold}"
    if isinstance(tree, Dual):
        return f"dual {tree.threshold} {' '.join(map(str, tree.u.tolist()))}"
    parts: list[str] = []
    rest: Any = tree
    while isinstance(rest, Branch):
        parts.append(f"branch {rest.partition} {_tree(rest.with_it)}")
        rest = rest.without_it
    return " ".join([*parts, _tree(rest)])


def _write_groups(file: IO[bytes], groups: Groups | None) -> None:
    if groups is None:
        write_line(file, "groups 0")
        return
    write_line(file, "groups", len(groups.members), groups.overlap, "exactly" if groups.exactly_one else "least")
    for members in groups.members:
        write_line(file, len(members), *members.tolist())


def _words(votes: NDArray[Any]) -> Callable[[NDArray[Any]], bytes]:
    """A fast way to write rows of small numbers: all of them looked up in a table of words of one width."""
    most = int(votes.max(initial=0))
    table = np.array([f"{number:>{len(str(most))}} ".encode() for number in range(most + 1)])
    return lambda row: table[row].tobytes()


def write_line(file: IO[bytes], *words: Any) -> None:
    """Words and numbers of one line."""
    file.write(" ".join(map(str, words)).encode() + b"\n")


def write_run_off(
    file: IO[bytes],
    setting: Setting,
    rankings: NDArray[Any],
    prediction: NDArray[Any],
    radius: NDArray[Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Rankings, elected class and radius of each test sample, and multipliers that prove it; declared classes alone."""
    n_classes = setting.n_classes
    write_line(file, FORMAT, "run-off")
    write_line(file, "classes", n_classes, "declared")
    write_spread(file, setting)
    write_line(file, "samples", len(rankings))
    for at, ranked in enumerate(rankings):
        election = RunOff(np.asarray(ranked), setting.spread, n_classes)
        p, r = int(prediction[at]), int(radius[at])
        proof = election.proof(r)
        pushed, beaten = (proof.pushed, proof.beaten) if p == election.finalists[0] else ((), ())
        write_line(file, "sample", p, r, len(pushed), len(beaten))
        write_line(file, "rankings")
        for row in ranked.tolist():
            named = [c for c in row if c < n_classes]
            write_line(file, len(named), *named)
        for push in pushed:
            write_line(file, "pushed", *push.classes, *push.multipliers, *push.limit)
        for beat in beaten:
            others = (number for pair in beat.others for number in pair)
            write_line(file, "beaten", beat.by_class, beat.multiplier, *beat.limit, len(beat.others), *others)
        progress(at + 1, len(rankings))
    write_line(file, "end")
