"""Blocks of a run: votes on disk, each column known by what its base classifier is a function of.

So whatever happened to a run (it was killed, a block was damaged, the training data changed), what is
still true of the data at hand is kept and the rest is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.runs.layout import SCRATCH
from poisonproof.samples.kinds import Samples, digest_of
from poisonproof.system.files import open_arrays, reading, sha256_of, write_arrays
from poisonproof.training.engine import (
    Refusal,
    check_answered,
    train_and_vote,
    vote_again,
)
from poisonproof.training.member import Member
from poisonproof.training.model_files import (
    MEMBERS_PER_FILE,
    load_members,
    members_file,
    save_members,
    types_of,
)
from poisonproof.training.pooled import is_pooled
from poisonproof.training.pooled_run import PooledRun, vote_pooled
from poisonproof.training.provenance import (
    Made,
    made_by,
    made_here,
    packed,
    unpacked,
)
from poisonproof.training.work import Training

BLOCK = MEMBERS_PER_FILE


@dataclass(frozen=True)
class Votings:
    """Where a run keeps its votes, and how it says what it does."""

    folder: Path
    keep_members: bool
    rankings: bool
    say: Callable[[str], None]
    progress: Callable[[int, int], None]
    stale: Callable[[int], None]
    """Told once, before any training, how many base classifiers have to be trained."""
    kernel_bytes: int | None = None
    """How much memory the kernel of a pooled learner may take."""

    def train(self, training: Training, model: FiniteAggregationClassifier, test: Samples) -> NDArray[Any]:
        """Train what is missing, keep it, and return the whole vote matrix (test samples, base classifiers).

        With rankings, an array (test samples, base classifiers, classes) whose first places are the votes.
        """
        digests = model.subset_digests_
        if is_pooled(training.estimator):
            own = PooledRun(self.folder, training, digests, self.rankings, self.keep_members)
            (votes,) = vote_pooled(
                [own], test, len(model.classes_), self.say, self.progress, self.stale, self.kernel_bytes
            )
            return votes
        n, n_classes = len(digests), len(model.classes_)
        ranges = [range(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
        test_digest = digest_of(test)
        kept = [self._kept(b, own, training, digests, test, test_digest, n_classes) for b, own in enumerate(ranges)]
        missing = {b: wanted for b, own in enumerate(ranges) if (wanted := [i for i in own if i not in kept[b]])}
        done = n - sum(map(len, missing.values()))
        self.stale(n - done)
        self.progress(done, n)
        order = list(missing.values())
        scratch = self.folder / SCRATCH
        parts = train_and_vote(
            *training, test, n_classes, order, rankings=self.rankings, n_jobs=model.n_jobs, scratch=scratch
        )
        for b, part in zip(missing, parts, strict=True):
            for at, member in enumerate(part.members):
                kept[b][member.index] = Answer(
                    digests[member.index].tobytes(),
                    part.votes[:, at],
                    member.model is not None,
                    member.failure,
                    part.refusals.get(member.index),
                    made_by(part.environment),
                )
            members = self._write_members(b, part.members, len(ranges[b]), training.estimator)
            write_answers(self._file(b), kept[b], test_digest, members)
            done += len(part.members)
            self.progress(done, n)
        answers = [kept[i // BLOCK][i] for i in range(n)]
        trained = sum(answer.trained for answer in answers)
        model.report_failures([answer.failure for answer in answers if answer.failure], trained)
        check_answered([answer.refusal for answer in answers if answer.refusal], trained)
        return np.stack([answer.votes for answer in answers], axis=1)

    def _kept(
        self,
        b: int,
        indices: range,
        training: Training,
        digests: NDArray[np.uint8],
        test: Samples,
        test_digest: str,
        n_classes: int,
    ) -> dict[int, Answer]:
        """The answers of an earlier block that are still true; none if it is absent or damaged."""
        if not self._file(b).exists():
            return {}
        members = self._members(b)
        try:
            block = read_answers(self._file(b), indices)
            if self.keep_members and (not members.exists() or sha256_of(members) != block.members):
                raise PoisonproofError(f"{members} is damaged or missing.")
            same = {i: answer for i, answer in block.answers.items() if answer.digest == digests[i].tobytes()}
            if not same:
                raise PoisonproofError(f"{self._file(b)} is of other training data.")
            if block.test == test_digest:
                return same
            if not self.keep_members:
                return {}
            asked = [member for member in load_members(members, types_of(training.estimator)) if member.index in same]
            votes, refusals = vote_again(asked, test, n_classes, self.rankings)
        except ValueError as error:
            self.say(f"{error} It is computed again.")
            return {}
        answers = {
            member.index: same[member.index]._replace(
                votes=votes[:, at], refusal=refusals.get(member.index), made=same[member.index].made | made_here()
            )
            for at, member in enumerate(asked)
        }
        if len(answers) == len(indices):
            write_answers(self._file(b), answers, test_digest, block.members)
        return answers

    def _write_members(self, b: int, fresh: list[Member], size: int, estimator: Any) -> str | None:
        """Keep these base classifiers, and the block's others that stand; the digest of the file."""
        if not self.keep_members:
            return None
        path = self._members(b)
        members = {} if len(fresh) == size else {m.index: m for m in load_members(path, types_of(estimator))}
        members |= {member.index: member for member in fresh}
        save_members(path, [members[i] for i in sorted(members)])
        return sha256_of(path)

    def _file(self, b: int) -> Path:
        return self.folder / "votes" / f"block-{b:05d}.npz"

    def _members(self, b: int) -> Path:
        return self.folder / "models" / members_file(b)


class Answer(NamedTuple):
    """What one base classifier says about all test samples, and what is to be known about it."""

    digest: bytes
    votes: NDArray[Any]
    trained: bool
    failure: str | None = None
    refusal: Refusal | None = None
    made: Made = frozenset()


class AnswerBlock(NamedTuple):
    """Answers by subset index, the digest of the test samples, and that of the file of base classifiers."""

    answers: dict[int, Answer]
    test: str
    members: str | None


def write_answers(path: Path, answers: Mapping[int, Answer], test: str, members: str | None) -> None:
    """Write the answers of consecutive base classifiers."""
    indices = sorted(answers)
    refusing = {i: refusal for i in indices if (refusal := answers[i].refusal)}
    arrays = {
        "votes": np.stack([answers[i].votes for i in indices], axis=1),
        "subsets": _digest_rows([answers[i].digest for i in indices]),
        "trained": np.array([answers[i].trained for i in indices], np.bool_),
        "refusals": np.array([refusal.samples for refusal in refusing.values()], np.bool_),
    }
    facts = {
        "first_subset": indices[0],
        "failures": {str(i): failure for i in indices if (failure := answers[i].failure)},
        "refused_because": {str(i): refusal.reason for i, refusal in refusing.items()},
        "test": test,
        "members": members,
        **packed([answers[i].made for i in indices]),
    }
    write_arrays(path, arrays, facts)


def read_answers(path: Path, indices: Sequence[int]) -> AnswerBlock:
    """Read them again; one sentence if the file is damaged or is not the block of these subsets."""
    arrays, facts = open_arrays(path, ("votes", "subsets", "trained", "refusals"))
    votes, subsets, trained = arrays["votes"], arrays["subsets"], arrays["trained"]
    with reading(path):
        if votes.ndim < 2 or votes.shape[1] != len(indices) or facts["first_subset"] != indices[0]:
            raise DamagedFileError(f"{path} is not the block of base classifiers {indices[0]} … {indices[-1]}.")
        refusals = {
            int(i): Refusal(samples, reason)
            for (i, reason), samples in zip(facts["refused_because"].items(), arrays["refusals"], strict=True)
        }
        made = unpacked(facts, len(indices))
        answers = {
            i: Answer(
                subsets[at].tobytes(),
                votes[:, at],
                bool(trained[at]),
                facts["failures"].get(str(i)),
                refusals.get(i),
                made[at],
            )
            for at, i in enumerate(indices)
        }
        return AnswerBlock(answers, facts["test"], facts["members"])


def _digest_rows(digests: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.array([np.frombuffer(digest, np.uint8) for digest in digests])
