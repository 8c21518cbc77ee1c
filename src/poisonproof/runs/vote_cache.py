"""The votes of a run on disk, in blocks, each column known by what its base classifier is a function of.

So whatever happened to a run (it was killed, a block was damaged, the training data changed), what is still true of
the data at hand stays and the rest is computed again. A block is a rectangle of base classifiers and test samples,
whichever engine made it: the engine chooses its shape, and nothing else here knows the engine.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
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
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.system.machine import environment
from poisonproof.system.progress import progress
from poisonproof.training.engine import Block, Known, Refusal, Saved, VoteBlock, VoteJob, each_once, engine_of
from poisonproof.training.members import check_answered, failure_notices

ARRAYS = ("votes", "subsets", "trained", "refusals")
log = logging.getLogger(__name__)


class VoteCache:
    """The votes of one run: which of them are on disk and true of the data at hand, and all of them in the end."""

    def __init__(self, job: VoteJob, folder: Path) -> None:
        n_test, n_subsets = len(job.test), len(job.digests)
        self.job, self.engine = job, engine_of(job.learner)
        shape = (n_test, n_subsets, *([job.n_classes] if job.rankings else []))
        self.votes = np.empty(shape, vote_dtype(job.n_classes))
        self.blocks: dict[Block, CachedBlock] = {}
        tests: dict[range, str] = {}
        for block in self.engine.grid(n_subsets, n_test):
            if block.samples not in tests:
                tests[block.samples] = digest_of(job.test.subset(np.arange(block.samples.start, block.samples.stop)))
            path = folder / block_file(block.number)
            self.blocks[block] = CachedBlock(
                path, block, job.digests[block.cut[1]], tests[block.samples], self.votes[block.cut]
            )
        for path in set(folder.glob("*.npz")) - {cached.path for cached in self.blocks.values()}:
            path.unlink()  # votes on test samples that are no longer there

    def complete(self, stale: Callable[[int], None] = lambda count: None) -> NDArray[Any]:
        """Train what is missing, let it vote, keep the votes; all votes, with a warning of what a reader must know.

        ``stale`` is told once, before any training, how many base classifiers have to be trained.
        """
        saved = Saved.nothing(len(self.job.digests))
        if self.job.models is not None:
            known = [Known(cached.content, cached.same) for cached in self.blocks.values() if cached.same.any()]
            saved = self.engine.saved(self.job, known)
        missing = self._missing(saved)
        wanted = {i for indices in missing.values() for i in indices}
        stale(len(wanted) if self.job.models is None else int((~saved.current).sum()))
        done, total = len(self.blocks) - len(missing), len(self.blocks)
        progress(done, total)
        for part in self.engine.vote(self.job, missing, saved):
            self.blocks[part.block].add(part)
            done += 1
            progress(done, total)
        return self._checked()

    def _missing(self, saved: Saved) -> dict[Block, list[int]]:
        """What differs in its subset, its test samples or its saved form, by block."""
        missing = {}
        for block, cached in self.blocks.items():
            current = cached.same & cached.of_these_samples
            if self.job.models is not None:
                current &= saved.current[block.cut[1]]
            if not current.all():
                missing[block] = [block.subsets[column] for column in np.flatnonzero(~current)]
        return missing

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the blocks that were written, by their names in the folder of the run."""
        written = (cached for cached in self.blocks.values() if cached.written is not None)
        return {f"votes/{cached.path.name}": str(cached.written) for cached in written}

    def environments(self) -> dict[str, Any]:
        """Where base classifiers were made, for a manifest: ``environments``, each once, and ``made_in``.

        The latter lists [places among them, how many base classifiers in a row], …
        """
        made: list[frozenset[str]] = [frozenset()] * len(self.job.digests)
        parts = [(block.subsets, cached.content.environments) for block, cached in self.blocks.items()]
        for subsets, places in parts or [(range(len(made)), [environment()])]:  # no test samples: all trained here
            texts = {json.dumps(one, sort_keys=True, ensure_ascii=False) for one in places}
            for i in subsets:
                made[i] |= texts
        each = sorted(frozenset[str]().union(*made))
        numbers = {text: at for at, text in enumerate(each)}
        runs = [[sorted(numbers[text] for text in texts), len(list(alike))] for texts, alike in groupby(made)]
        return {"environments": [json.loads(text) for text in each], "made_in": runs}

    def _checked(self) -> NDArray[Any]:
        n_test, n_subsets = self.votes.shape[:2]
        trained, failures, refusals = np.zeros(n_subsets, np.bool_), {}, []
        for block, part in ((block, cached.content) for block, cached in self.blocks.items()):
            trained[block.cut[1]] |= part.trained
            failures.update(part.failures)
            for refusal in part.refusals.values():
                samples = np.zeros(n_test, np.bool_)
                samples[block.cut[0]] = refusal.samples
                refusals.append(Refusal(samples, refusal.reason))
        for notice in failure_notices([failures[i] for i in sorted(failures)], int(trained.sum()), n_subsets):
            warnings.warn(shown(notice), PremiseWarning, stacklevel=3)
        check_answered(refusals, int(trained.sum()), n_test)
        return self.votes


class CachedBlock:
    """One block of a run, in memory and on disk.

    ``same`` says which of its base classifiers on disk are those of the subsets at hand, ``of_these_samples`` whether
    they were asked about the test samples at hand.
    """

    def __init__(self, path: Path, block: Block, digests: NDArray[np.uint8], test: str, votes: NDArray[Any]) -> None:
        count = len(block.subsets)
        self.path, self.block, self.digests, self.test = path, block, digests, test
        self.content = VoteBlock(block, block.subsets, votes, np.zeros(count, np.bool_), [])
        self.same, self.of_these_samples = np.zeros(count, np.bool_), False
        self.written: str | None = None
        if path.exists():
            try:
                self._read()
            except ValueError as error:
                log.warning("%s It is computed again.", error)

    def _read(self) -> None:
        on_disk = read_block(self.path, self.block)
        same = (on_disk.digests == self.digests).all(axis=1)
        if not same.any():
            raise PoisonproofError(f"{self.path} is of other training data.")
        votes = self.content.votes
        if on_disk.test == self.test:
            if on_disk.content.votes.shape != votes.shape:
                raise DamagedFileError(
                    f"{self.path} is damaged: it holds votes of shape {on_disk.content.votes.shape}."
                )
            votes[:] = on_disk.content.votes
        self.same, self.of_these_samples = same, on_disk.test == self.test
        self.content = replace(on_disk.content, votes=votes)

    def add(self, fresh: VoteBlock) -> None:
        """Put votes in their places, and the block on disk."""
        whole, first = self.content, self.block.subsets.start
        places = np.asarray(fresh.indices, np.int64) - first
        whole.votes[:, places] = fresh.votes
        whole.trained[places] = fresh.trained
        earlier = [] if len(fresh.indices) == len(self.block.subsets) else whole.environments
        whole.environments = each_once([*earlier, *fresh.environments])
        for i in fresh.indices:
            whole.failures.pop(i, None)
            whole.refusals.pop(i, None)
        whole.failures.update(fresh.failures)
        whole.refusals.update(fresh.refusals)
        whole.members = fresh.members
        self.written = write_block(self.path, OnDisk(whole, self.digests, self.test))


class OnDisk(NamedTuple):
    """What a file holds: votes, the digests of their base classifiers, and that of the test samples."""

    content: VoteBlock
    digests: NDArray[np.uint8]
    test: str


def block_file(number: int) -> str:
    """The name of the file that holds a block of votes."""
    return f"block-{number:05d}.npz"


def write_block(path: Path, what: OnDisk) -> str:
    """Write the votes of a block; the SHA-256 of the file."""
    part = what.content
    refusing = sorted(part.refusals)
    arrays = {
        "votes": part.votes,
        "subsets": what.digests,
        "trained": part.trained,
        "refusals": np.array([part.refusals[i].samples for i in refusing], np.bool_),
    }
    facts = {
        "first_subset": part.block.subsets.start,
        "first_sample": part.block.samples.start,
        "failures": {str(i): part.failures[i] for i in sorted(part.failures)},
        "refused_because": {str(i): part.refusals[i].reason for i in refusing},
        "test": what.test,
        "members": part.members,
        "environments": part.environments,
    }
    return write_arrays(path, arrays, facts).digest


def read_block(path: Path, block: Block) -> OnDisk:
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
        made = [dict(one) for one in facts["environments"]]
        part = VoteBlock(block, block.subsets, votes, trained.copy(), made, failures, refusals, facts["members"])
        return OnDisk(part, subsets, facts["test"])


def other_environments(first: Mapping[str, Any], more: Iterable[Mapping[str, Any]]) -> list[str]:
    """In what the environments of a run, as its manifest states them, differ from this one."""
    here = environment()
    return list(dict.fromkeys(name for one in (first, *more) for name, value in one.items() if here.get(name) != value))
