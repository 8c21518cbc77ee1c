"""Blocks of a run: votes on disk, each column known by what its base classifier is a function of.

So whatever happened to a run (it was killed, a block was damaged, the training data changed), what is
still true of the data at hand is kept and the rest is computed again. A block is a rectangle of base classifiers and
test samples, whichever engine made it: the engine chooses its shape, and nothing else here knows the engine.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.subsets import DIGEST_BYTES
from poisonproof.core.votes import vote_dtype
from poisonproof.display import shown
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.premises import PremiseWarning
from poisonproof.samples.convert import digest_of
from poisonproof.samples.kinds import Samples
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.system.progress import progress
from poisonproof.training.engine import engine_of
from poisonproof.training.member_list import check_answered, told_failures
from poisonproof.training.provenance import packed, unpacked
from poisonproof.training.work import Answers, Block, Made, Missing, Order, Refusal, Resources, Standing

ARRAYS = ("votes", "subsets", "trained", "refusals")
log = logging.getLogger(__name__)


def vote_all(
    orders: Sequence[Order],
    test: Samples,
    n_classes: int,
    resources: Resources = Resources(),  # noqa: B008 - frozen
    *,
    stale: Callable[[int], None] = lambda count: None,
) -> list[Voted]:
    """Train what is missing, let it vote, keep the votes, and return all votes of each order.

    Parameters
    ----------
    orders : sequence of Order
        On the same samples with the same learner.
    test : Samples
    n_classes : int
    resources : Resources
    stale : callable
        Told once, before any training, how many base classifiers have to be trained.
    """
    engine = engine_of(orders[0].training.estimator)
    ledgers = [Ledger(order, test, n_classes) for order in orders]
    missing = [ledger.missing() for ledger in ledgers]
    stale(sum(len(one.untrained) for one in missing))
    total = sum(len(ledger.pages) for ledger in ledgers)
    done = total - sum(len(one.blocks) for one in missing)
    progress(done, total)
    for answers in engine.answers(missing, test, n_classes, resources):
        ledgers[answers.order].pages[answers.block.number].write(answers)
        done += 1
        progress(done, total)
    return [Voted(ledger.checked(), ledger.made, ledger.digests) for ledger in ledgers]


class Voted(NamedTuple):
    """The votes of one run, a matrix (or rankings), and where each base classifier and its votes were made.

    ``digests`` are the SHA-256 of files that were written, by their names in the folder of the run.
    """

    votes: NDArray[Any]
    made: list[Made]
    digests: dict[str, str]


class Ledger:
    """The votes of one run: which of them are on disk and true of the data at hand, and all of them in the end."""

    def __init__(self, order: Order, test: Samples, n_classes: int) -> None:
        n_test, n_subsets = len(test), len(order.digests)
        self.order, self.n_classes = order, n_classes
        self.engine = engine_of(order.training.estimator)
        self.votes = np.empty((n_test, n_subsets, *([n_classes] if order.rankings else [])), vote_dtype(n_classes))
        self.pages: list[Page] = []
        digests: dict[range, str] = {}
        for block in self.engine.blocks(n_subsets, n_test):
            if block.samples not in digests:
                whole = block.samples == range(n_test)
                asked = test if whole else test.subset(np.arange(block.samples.start, block.samples.stop))
                digests[block.samples] = digest_of(asked)
            self.pages.append(Page(block, order, digests[block.samples], self.votes[block.cut]))
        for path in set((order.folder / "votes").glob("*.npz")) - {page.path for page in self.pages}:
            path.unlink()  # votes on test samples that are no longer there

    def missing(self) -> Missing:
        """What has to be trained and asked: whatever differs in its subset, its test samples or its kept form."""
        order, standing = self.order, Standing.nothing(len(self.order.digests))
        if order.keep:
            known = [
                (page.block, page.same, page.answers.made, page.answers.members)
                for page in self.pages
                if page.same.any()
            ]
            standing = self.engine.standing(order, self.n_classes, known)
        wanted = {}
        for page in self.pages:
            current = page.same & page.of_these_samples
            if order.keep:
                current &= standing.kept[page.block.cut[1]]
            if not current.all():
                wanted[page.block] = [page.block.subsets[column] for column in np.flatnonzero(~current)]
        return Missing(order, standing, wanted)

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the blocks that were written."""
        return {f"votes/{page.path.name}": page.written for page in self.pages if page.written is not None}

    @property
    def made(self) -> list[Made]:
        """Where each base classifier was trained, and where it voted."""
        made: list[Made] = [frozenset()] * len(self.order.digests)
        for page in self.pages:
            for i, places in zip(page.block.subsets, page.answers.made, strict=True):
                made[i] |= places
        return made

    def checked(self) -> NDArray[Any]:
        """All votes, with a warning of what a reader must know about them; raises if there are none to speak of."""
        n_test, n_subsets = self.votes.shape[:2]
        trained, failures, refusals = np.zeros(n_subsets, np.bool_), {}, []
        for block, answers in ((page.block, page.answers) for page in self.pages):
            trained[block.cut[1]] |= answers.trained
            failures.update(answers.failures)
            for refusal in answers.refusals.values():
                samples = np.zeros(n_test, np.bool_)
                samples[block.cut[0]] = refusal.samples
                refusals.append(Refusal(samples, refusal.reason))
        for remark in told_failures([failures[i] for i in sorted(failures)], int(trained.sum()), n_subsets):
            warnings.warn(shown(remark), PremiseWarning, stacklevel=2)
        check_answered(refusals, int(trained.sum()), n_test)
        return self.votes


class Page:
    """One block of a run, in memory and on disk.

    ``same`` says which of its base classifiers on disk are those of the subsets at hand, ``of_these_samples`` whether
    they were asked about the test samples at hand.
    """

    def __init__(self, block: Block, order: Order, test: str, votes: NDArray[Any]) -> None:
        count = len(block.subsets)
        self.block, self.test = block, test
        self.path = order.folder / "votes" / block_file(block.number)
        self.digests = order.digests[block.cut[1]]
        self.answers = Answers(block, block.subsets, votes, np.zeros(count, np.bool_), [frozenset()] * count)
        self.same, self.of_these_samples = np.zeros(count, np.bool_), False
        self.written: str | None = None
        if self.path.exists():
            try:
                self._read()
            except ValueError as error:
                log.warning("%s It is computed again.", error)

    def _read(self) -> None:
        kept = read_block(self.path, self.block)
        same = (kept.subsets == self.digests).all(axis=1)
        if not same.any():
            raise PoisonproofError(f"{self.path} is of other training data.")
        whole = self.answers
        if kept.test == self.test:
            if kept.answers.votes.shape != whole.votes.shape:
                raise DamagedFileError(f"{self.path} is damaged: it holds votes of shape {kept.answers.votes.shape}.")
            whole.votes[:] = kept.answers.votes
        self.same, self.of_these_samples = same, kept.test == self.test
        self.answers = replace(kept.answers, votes=whole.votes)

    def write(self, fresh: Answers) -> None:
        """Put answers in their places, and the block on disk."""
        whole, first = self.answers, self.block.subsets.start
        places = np.asarray(fresh.indices, np.int64) - first
        whole.votes[:, places] = fresh.votes
        whole.trained[places] = fresh.trained
        for place, made in zip(places.tolist(), fresh.made, strict=True):
            whole.made[place] = made
        for i in fresh.indices:
            whole.failures.pop(i, None)
            whole.refusals.pop(i, None)
        whole.failures.update(fresh.failures)
        whole.refusals.update(fresh.refusals)
        whole.members = fresh.members
        self.written = write_block(self.path, self.block, KeptBlock(whole, self.digests, self.test))


class KeptBlock(NamedTuple):
    """What a file holds: answers, the digests of their base classifiers, and that of the test samples."""

    answers: Answers
    subsets: NDArray[np.uint8]
    test: str


def block_file(number: int) -> str:
    """The name of the file that keeps a block of votes."""
    return f"block-{number:05d}.npz"


def write_block(path: Path, block: Block, kept: KeptBlock) -> str:
    """Write the answers of a block; the SHA-256 of the file."""
    answers = kept.answers
    refusing = sorted(answers.refusals)
    arrays = {
        "votes": answers.votes,
        "subsets": kept.subsets,
        "trained": answers.trained,
        "refusals": np.array([answers.refusals[i].samples for i in refusing], np.bool_),
    }
    facts = {
        "first_subset": block.subsets.start,
        "first_sample": block.samples.start,
        "failures": {str(i): answers.failures[i] for i in sorted(answers.failures)},
        "refused_because": {str(i): answers.refusals[i].reason for i in refusing},
        "test": kept.test,
        "members": answers.members,
        **packed(answers.made),
    }
    return write_arrays(path, arrays, facts).digest


def read_block(path: Path, block: Block) -> KeptBlock:
    """Read them again; one sentence if the file is damaged or is not this block."""
    arrays, facts = open_arrays(path, ARRAYS)
    votes, subsets, trained, count = arrays["votes"], arrays["subsets"], arrays["trained"], len(block.subsets)
    with reading(path):
        places = (facts["first_subset"], facts["first_sample"])
        if votes.ndim < 2 or votes.shape[1] != count or places != (block.subsets.start, block.samples.start):
            raise DamagedFileError(
                f"{path} is not the block of base classifiers {block.subsets.start} … {block.subsets.stop - 1} and "
                f"test samples from {block.samples.start}."
            )
        if subsets.shape != (count, DIGEST_BYTES) or trained.shape != (count,) or trained.dtype != np.bool_:
            raise DamagedFileError(f"{path} is damaged: it does not say what each base classifier is.")
        refusals = {
            int(i): Refusal(samples, reason)
            for (i, reason), samples in zip(facts["refused_because"].items(), arrays["refusals"], strict=True)
        }
        failures = {int(i): str(failure) for i, failure in facts["failures"].items()}
        answers = Answers(
            block, block.subsets, votes, trained.copy(), unpacked(facts, count), failures, refusals, facts["members"]
        )
        return KeptBlock(answers, subsets, facts["test"])
