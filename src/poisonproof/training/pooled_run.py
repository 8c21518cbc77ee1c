"""Votes of pooled learners on disk, in runs of test samples, since all subsets answer a run together.

Several runs on one data set with one learner (other k, other d, other spreads) can be voted together: features and
kernel are then computed once for all of them. What is written does not depend on the company.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.samples.kinds import Samples, digest_of
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.training.pooled import (
    Kept,
    PooledMembers,
    fit_pooled,
    votes_together,
)
from poisonproof.training.pooled_files import POOL, kept_pooled, save_pooled
from poisonproof.training.provenance import (
    Made,
    made_here,
    packed,
    unpacked,
)
from poisonproof.training.work import Training
from poisonproof.votes.votes import vote_dtype

SAMPLES_PER_FILE = 1024


@dataclass(frozen=True)
class PooledRun:
    """One run: where its votes are kept, what its base classifiers are trained on, and whether rankings are kept."""

    folder: Path
    training: Training
    digests: NDArray[np.uint8]
    rankings: bool = False
    keep: bool = False
    """Whether base classifiers are kept on disk too."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What training took here."""

    def file(self, number: int) -> Path:
        """Where the votes on a run of test samples are kept."""
        return self.folder / "votes" / f"samples-{number:05d}.npz"


def vote_pooled(
    runs: Sequence[PooledRun],
    test: Samples,
    n_classes: int,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
    stale: Callable[[int], None] = lambda count: None,
    kernel_bytes: int | None = None,
) -> list[NDArray[Any]]:
    """Train what is missing, let it vote, keep the votes, and return the vote matrices (or rankings).

    Parameters
    ----------
    runs : sequence of PooledRun
        On the same samples with the same learner.
    test : Samples
    n_classes : int
    say, progress : callables
        Told what is damaged; told how much is done, of how much.
    stale : callable
        Told once, before any training, how many base classifiers have to be trained.
    kernel_bytes : int, optional
        Memory for the kernel between training samples and the test samples that are asked at the same time.
    """
    if len(runs) > 1 and any(run.keep for run in runs):
        raise PoisonproofError(
            "Base classifiers are kept by runs of their own; those that vote together keep only votes."
        )
    dtype, n_test = vote_dtype(n_classes), len(test)
    parts = [np.arange(at, min(at + SAMPLES_PER_FILE, n_test)) for at in range(0, n_test, SAMPLES_PER_FILE)]
    samples = [test.subset(part) for part in parts]
    tests = [digest_of(own) for own in samples]
    seats = [_Seat(run, tests) for run in runs]
    votes = []
    for seat in seats:
        own = seat.run
        votes.append(np.empty((n_test, len(own.digests), *([n_classes] if own.rankings else [])), dtype))
        for number, part in enumerate(parts):
            known = seat.read(number, say)
            if known is not None:
                votes[-1][part] = known
        seat.drop_others(len(parts))
    missing = [[seat for seat in seats if not seat.current[number].all()] for number in range(len(parts))]
    done = sum(not wanting for wanting in missing)
    kept = [seat.kept(n_classes, say) for seat in seats]
    stale(sum(seat.n_stale(own) for seat, own in zip(seats, kept, strict=True)))
    progress(done, len(parts))
    _train([(seat, own) for seat, own in zip(seats, kept, strict=True) if own is not None or len(seat.wanted)])
    for seat in seats:
        if seat.members is not None and seat.members.raised:
            say(seat.members.words_of_raised)
    for number, (part, wanting) in enumerate(zip(parts, missing, strict=True)):
        if not wanting:
            continue
        members = [seat.trained for seat in wanting]
        rankings = [seat.run.rankings for seat in wanting]
        said = votes_together(members, samples[number], n_classes, dtype, rankings, kernel_bytes)
        for seat, fresh in zip(wanting, said, strict=True):
            whole = votes[seats.index(seat)]
            whole[part[:, None], seat.wanted] = fresh
            seat.note_where(number)
            write_votes(
                seat.run.file(number),
                whole[part],
                seat.run.digests,
                seat.tests[number],
                int(part[0]),
                seat.made[number],
            )
        done += 1
        progress(done, len(parts))
    return votes


class _Seat:
    """A run at the table: which of its votes are on disk and true of the data at hand, and who is to train."""

    def __init__(self, run: PooledRun, tests: list[str]) -> None:
        self.run, self.tests = run, tests
        self.current = np.zeros((len(tests), len(run.digests)), np.bool_)
        self.made: list[list[Made]] = [[frozenset()] * len(run.digests) for _ in tests]
        self.trained_in: list[Made] = [frozenset()] * len(run.digests)
        self.members: PooledMembers | None = None

    def note_where(self, number: int) -> None:
        """Those that have just been asked about a run of test samples were trained somewhere, and asked here."""
        for i in self.wanted:
            self.made[number][i] = self.trained_in[i] | made_here()

    @property
    def wanted(self) -> NDArray[np.int64]:
        """Base classifiers whose votes are missing somewhere."""
        return np.flatnonzero(~self.current.all(axis=0))

    @property
    def trained(self) -> PooledMembers:
        assert self.members is not None
        return self.members

    def read(self, number: int, say: Callable[[str], None]) -> NDArray[Any] | None:
        """The votes kept of a run of test samples, if there are any."""
        path = self.run.file(number)
        if not path.exists():
            return None
        try:
            known, self.current[number], self.made[number] = read_votes(path, self.run.digests, self.tests[number])
        except ValueError as error:
            say(f"{error} It is computed again.")
            return None
        return known

    def kept(self, n_classes: int, say: Callable[[str], None]) -> Kept | None:
        """Base classifiers of an earlier run that are still those of these subsets; None if this run keeps none."""
        if not self.run.keep:
            return None
        nothing = Kept(None, np.zeros(0, np.int64))
        models = self.run.folder / "models"
        if not (models / POOL).exists():
            return nothing
        try:
            return kept_pooled(models, self.run.training.estimator, n_classes, self.run.digests)
        except ValueError as error:
            say(f"{error} It is computed again.")
            return nothing

    def n_stale(self, kept: Kept | None) -> int:
        """How many base classifiers have to be trained."""
        return len(self.wanted) if kept is None else len(self.run.digests) - len(kept.indices)

    def drop_others(self, n_parts: int) -> None:
        """Delete votes on test samples that are no longer there."""
        mine = {self.run.file(number) for number in range(n_parts)}
        for left in set((self.run.folder / "votes").glob("samples-*.npz")) - mine:
            left.unlink()


def _train(seats: Sequence[tuple[_Seat, Kept | None]]) -> None:
    """Train what is wanted: alone on a pool of the samples concerned, in company on a pool of all samples."""
    pool = None
    for seat, kept in seats:
        started = time.perf_counter()
        training, wanted = seat.run.training, seat.wanted
        if pool is None and len(seats) > 1:
            pool = training.estimator.share(training.samples.take(np.arange(len(training.samples))))
            seat.run.seconds["features"] = time.perf_counter() - started
            started = time.perf_counter()
        only = None if len(wanted) == len(seat.run.digests) else wanted.tolist()
        seat.trained_in = _trained_in(seat.run, kept)
        if kept is not None:
            kept = _all_kept(seat.run, kept, seat.trained_in)
        if kept is not None and only is None:
            seat.members = kept.members
        elif len(wanted):
            seat.members = fit_pooled(*training, earlier=kept, only=only, pool=pool)
        seat.run.seconds["train"] = time.perf_counter() - started


def _trained_in(run: PooledRun, kept: Kept | None) -> list[Made]:
    """Where base classifiers were trained, or will be now."""
    here, count = made_here(), len(run.digests)
    if kept is None or not len(kept.indices):
        return [here] * count
    facts = open_arrays(run.folder / "models" / POOL)[1]
    stated, standing = unpacked(facts, count), set(kept.indices.tolist())
    return [own if i in standing else here for i, own in enumerate(stated)]


def _all_kept(run: PooledRun, kept: Kept, trained_in: list[Made]) -> Kept:
    """Train those that are not kept yet, and keep all of them."""
    if len(kept.indices) == len(run.digests):
        return kept
    members = fit_pooled(*run.training, earlier=kept if len(kept.indices) else None)
    save_pooled(run.folder / "models", members, run.digests, packed(trained_in))
    return Kept(members, np.arange(len(run.digests)))


def write_votes(
    path: Path, votes: NDArray[Any], digests: NDArray[np.uint8], test: str, first: int, made: Sequence[Made]
) -> None:
    """Write the votes of all base classifiers on a run of test samples, and where each was made."""
    facts = {"test": test, "first_sample": first, **packed(made)}
    write_arrays(path, {"votes": votes, "subsets": digests}, facts)


class KeptVotes(NamedTuple):
    """Votes on a run of test samples, which columns are still true, and where each was made."""

    votes: NDArray[Any] | None
    current: NDArray[np.bool_]
    made: list[Made]


def read_votes(path: Path, digests: NDArray[np.uint8], test: str) -> KeptVotes:
    """Read them again, and tell which columns are those of base classifiers with these digests."""
    arrays, facts = open_arrays(path, ("votes", "subsets"))
    votes, known = arrays["votes"], arrays["subsets"]
    if facts.get("test") != test or known.shape != digests.shape or votes.shape[1] != len(digests):
        return KeptVotes(None, np.zeros(len(digests), np.bool_), [frozenset()] * len(digests))
    with reading(path):
        return KeptVotes(votes, (known == digests).all(axis=1), unpacked(facts, len(digests)))
