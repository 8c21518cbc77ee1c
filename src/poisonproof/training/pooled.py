"""The engine of pooled learners: base classifiers are trained and asked together, each a function of its own subset.

A pooled learner has a method ``share(X)`` that does once whatever depends on single training samples, and gives a pool
that solves one subset at a time. Whether subsets are solved together or alone, in which blocks and in how many threads,
no vote can tell. Saved, they are three files that are mapped, not read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.votes import vote_dtype
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.kernel_ridge import (
    Pool,
    Solution,
    concatenated,
    vote_of_subsets,
)
from poisonproof.samples.kinds import Samples
from poisonproof.system.archives import map_npy
from poisonproof.system.determinism import one_linear_algebra_thread
from poisonproof.system.files import open_arrays, reading, sha256_of, write_arrays, write_whole
from poisonproof.system.machine import environment
from poisonproof.system.threads import at_most_threads, in_threads
from poisonproof.training.engine import (
    FEWEST_AT_ONCE,
    ArraySource,
    Block,
    Earlier,
    Environment,
    Known,
    MemoryEstimate,
    Saved,
    VoteBlock,
    VoteJob,
    each_once,
)

KERNEL_BYTES = 1 << 29
SUBSETS_PER_TASK = 32
SAMPLES_PER_BLOCK = 1024
POOL = "members-pool.npz"
FEATURES = "members-features.npy"
COEFFICIENTS = "members-coefficients.npy"
POOLED_FILES = (POOL, FEATURES, COEFFICIENTS)
ARRAYS = ("samples", "sizes", "codes", "n_codes", "fallback", "subsets")
log = logging.getLogger(__name__)


class PooledEngine:
    """What depends on single samples is computed once for all base classifiers."""

    pooled = True

    def fit(
        self,
        learner: Any,
        source: ArraySource,
        *,
        earlier: Earlier | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> PooledMembers:
        with at_most_threads(n_jobs):
            return fit_pooled(learner, source, earlier)

    def votes(
        self,
        learner: Any,
        source: ArraySource,
        indices: Sequence[int],
        test: Samples,
        n_classes: int,
        *,
        rankings: bool = False,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        with at_most_threads(n_jobs):
            return fit_pooled(learner, source, only=list(indices)).votes(test, n_classes, rankings=rankings)

    def memory(
        self, learner: Any, source: ArraySource, test: Samples, n_classes: int, *, rankings: bool = False
    ) -> MemoryEstimate:
        from poisonproof.training.memory import pooled_memory

        return pooled_memory(learner, source, n_classes, len(test), rankings=rankings)

    def grid(self, n_subsets: int, n_test: int) -> list[Block]:
        """All base classifiers, and so many test samples: a kernel is computed once for all subsets."""
        starts = range(0, n_test, SAMPLES_PER_BLOCK)
        return [
            Block(number, range(n_subsets), range(start, min(start + SAMPLES_PER_BLOCK, n_test)))
            for number, start in enumerate(starts)
        ]

    def saved(self, job: VoteJob, known: Sequence[Known]) -> Saved:
        """Those that their own file says are of these subsets, whatever blocks of votes say."""
        assert job.models is not None
        saved, path = Saved.nothing(len(job.digests)), job.models / POOL
        if path.exists():
            try:
                check_pooled(job.models)
                members, digests, environments = _load(job.models, job.learner, job.n_classes)
                if digests.shape == job.digests.shape:
                    saved.current, saved.members = (digests == job.digests).all(axis=1), members
                saved.environments = {0: environments}
            except ValueError as error:
                log.warning("%s It is computed again.", error)
                return Saved.nothing(len(job.digests))
        return saved

    def vote(self, job: VoteJob, missing: Mapping[Block, list[int]], saved: Saved) -> Iterator[VoteBlock]:
        """Train what is wanted, on a pool of all samples or, where nothing is saved, of those concerned."""
        assert isinstance(job.source, ArraySource)
        indices, everyone = sorted({i for wanted in missing.values() for i in wanted}), len(job.digests)
        members: PooledMembers | None = saved.members
        earlier = None if members is None else Earlier(members, np.flatnonzero(saved.current))
        environments = [*saved.environments.get(0, []), environment()] if saved.current.any() else [environment()]
        environments = each_once(environments)
        if job.models is not None and not saved.current.all():
            members = fit_pooled(job.learner, job.source, earlier)
            save_pooled(job.models, members, job.digests, environments)
            earlier = Earlier(members, np.arange(len(members)))
        if indices and (members is None or len(indices) < everyone):
            members = fit_pooled(job.learner, job.source, earlier, None if len(indices) == everyone else indices)
        if members is None:
            return
        for notice in members.notices():
            log.warning("%s", notice)
        room = KERNEL_BYTES if job.resources.kernel_bytes is None else job.resources.kernel_bytes
        for block in missing:
            part = job.test.subset(np.arange(block.samples.start, block.samples.stop))
            votes = members.votes_within(room, part, job.n_classes, rankings=job.rankings)
            yield VoteBlock(block, indices, votes, members.trained, environments)

    def save(self, members: Any, folder: Path, digests: NDArray[np.uint8]) -> None:
        save_pooled(folder, members, digests, [environment()])

    def files(self, n_subsets: int, folder: Path) -> list[str]:
        return list(POOLED_FILES)

    def parts(
        self, folder: Path, files: Sequence[str], learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> Iterator[PooledMembers]:
        yield load_pooled(folder, learner, n_classes)

    def load(
        self, folder: Path, n_subsets: int, learner: Any, n_classes: int, trusted: Sequence[str] = ()
    ) -> PooledMembers:
        return load_pooled(folder, learner, n_classes)


@dataclass(frozen=True)
class PooledMembers:
    """Fitted base classifiers that share their features.

    Rows, coefficients and class codes of all subsets stand in sequence; ``…_starts`` says where each begins.
    A subset of fewer than two classes has no coefficients: it says ``fallback``, or abstains (-1). ``raised`` names the
    base classifiers whose kernel matrix was not positive definite, with the ridge that each was solved with instead.
    """

    pool: Pool
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    coefficients: NDArray[np.float32]
    coefficient_starts: NDArray[np.int64]
    codes: NDArray[np.int64]
    code_starts: NDArray[np.int64]
    fallback: NDArray[np.int64]
    raised: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.fallback)

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Which of them have a model of their own."""
        return np.diff(self.code_starts) >= 2

    def solution(self, i: int) -> Solution:
        """The coefficients of base classifier i, in the canonical order of its rows, and their ridge."""
        own = self.coefficients[self.coefficient_starts[i] : self.coefficient_starts[i + 1]]
        return Solution(own, self.raised.get(i, self.pool.ridge))

    def votes(
        self,
        samples: Samples,
        n_classes: int,
        *,
        rankings: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> NDArray[Any]:
        with at_most_threads(n_jobs):
            return self.votes_within(KERNEL_BYTES, samples, n_classes, rankings=rankings)

    def votes_within(self, kernel_bytes: int, samples: Samples, n_classes: int, *, rankings: bool) -> NDArray[Any]:
        """The votes, computed by runs of samples whose kernel fits the memory set aside for it."""
        room = kernel_bytes // (4 * max(1, self.pool.n_rows))
        size = max(FEWEST_AT_ONCE, min(1024, room // FEWEST_AT_ONCE * FEWEST_AT_ONCE))
        shape = (len(samples), len(self), n_classes if rankings else 1)
        places = np.full(shape, n_classes, vote_dtype(n_classes))
        places[..., 0] = np.where(self.fallback < 0, n_classes, self.fallback)
        with one_linear_algebra_thread():
            for begin in range(0, len(samples), size):
                chunk = np.arange(begin, min(begin + size, len(samples)))
                kernel = self.pool.kernel_columns(self.pool.test_features(samples.take(chunk)))
                part = places[begin : begin + size]

                def work(start: int, stop: int, kernel: Any = kernel, part: Any = part) -> None:
                    vote_of_subsets(
                        kernel,
                        self.rows,
                        self.starts[start : stop + 1],
                        self.coefficients,
                        self.coefficient_starts[start : stop + 1],
                        self.codes,
                        self.code_starts[start : stop + 1],
                        part[:, start:stop],
                    )

                in_threads(len(self), SUBSETS_PER_TASK, work)
        return places if rankings else places[..., 0]

    def ask(self, samples: Samples, n_classes: int, *, rankings: bool = False) -> NDArray[Any]:
        return self.votes(samples, n_classes, rankings=rankings)

    @property
    def indices(self) -> range:
        """Their places are their numbers."""
        return range(len(self))

    def notices(self) -> list[str]:
        """That some have another ridge than was asked for."""
        if not self.raised:
            return []
        most = max(self.raised.values())
        return [
            f"{len(self.raised)} of {len(self)} base classifiers have a kernel matrix that is not positive definite, "
            f"so their ridge was doubled until it was, from {self.pool.ridge:g} to at most {most:g}."
        ]


def fit_pooled(
    learner: Any, source: ArraySource, earlier: Earlier | None = None, only: Sequence[int] | None = None
) -> PooledMembers:
    """Train all base classifiers of a pooled learner, but for those that stay as they were.

    With ``only``, give just those of these subsets, on a pool of their own samples.
    """
    samples, codes = source.samples, source.codes
    indices = range(len(source)) if only is None else only
    used = np.arange(len(samples))
    if only is not None:  # a pool holds something, even if nobody uses it
        used = np.unique(np.concatenate([np.zeros(0, np.int64), *(source.rows(i) for i in only)]))
        used = used if len(used) else np.zeros(1, np.int64)
    pool = learner.share(samples.take(used))
    place = np.full(len(samples), -1, np.int64)
    place[used] = np.arange(len(used))
    same = set() if earlier is None else set(earlier.indices.tolist())
    n = len(indices)
    rows: list[Any] = [None] * n
    coefficients: list[Any] = [None] * n
    held: list[Any] = [None] * n
    fallback = np.full(n, -1, np.int64)
    raised: dict[int, float] = {}

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            subset = source.rows(indices[i])
            held[i], local = np.unique(codes[subset], return_inverse=True)
            subset = place[subset]
            rows[i], coefficients[i] = np.zeros(0, np.int64), np.zeros(0, np.float32)
            if len(held[i]):
                fallback[i] = held[i][np.bincount(local).argmax()]
            if len(held[i]) >= 2:
                rows[i] = pool.rows_of(subset)
                if earlier is not None and indices[i] in same:
                    coefficients[i], ridge = earlier.members.solution(indices[i])
                else:
                    coefficients[i], ridge = pool.solve(subset, local)
                if ridge != pool.ridge:
                    raised[i] = ridge

    with one_linear_algebra_thread():
        in_threads(n, 8, work)
    return PooledMembers(
        pool,
        *concatenated(rows, np.int64),
        *concatenated(coefficients, np.float32),
        *concatenated(held, np.int64),
        fallback,
        dict(sorted(raised.items())),
    )


def save_pooled(
    folder: Path, members: PooledMembers, digests: NDArray[np.uint8], environments: Sequence[Environment] = ()
) -> None:
    """Write base classifiers and the digest of the subset of each; the file that vouches for the others comes last.

    The features of the training samples stand there once for all base classifiers, and of each only its coefficients,
    as the votes use them: so what is loaded votes the same, to the bit. Nothing is unpacked or computed again on
    opening, and what made the features need not be at hand.
    """
    pool = members.pool
    for name, array in ((FEATURES, pool.rows), (COEFFICIENTS, members.coefficients)):
        write_whole(folder / name, lambda file, array=array: np.save(file, array))  # type: ignore[misc]
    arrays = {
        "samples": (members.rows[:: pool.copies] // pool.copies).astype(np.uint32),
        "sizes": (np.diff(members.starts) // pool.copies).astype(np.uint32),
        "codes": members.codes.astype(np.uint32),
        "n_codes": np.diff(members.code_starts).astype(np.uint32),
        "fallback": members.fallback.astype(np.int32),
        "subsets": digests,
    }
    others = {name: sha256_of(folder / name) for name in (FEATURES, COEFFICIENTS)}
    facts: dict[str, Any] = {"copies": pool.copies, "files": others, "environments": list(environments)}
    if members.raised:
        facts["raised"] = {str(i): ridge for i, ridge in members.raised.items()}
    write_arrays(folder / POOL, arrays, facts)


def load_pooled(folder: Path, estimator: Any, n_classes: int) -> PooledMembers:
    """Map them again; one sentence if a file is amiss. Every index is checked, since votes are read off without."""
    return _load(folder, estimator, n_classes)[0]


def check_pooled(folder: Path) -> None:
    """Raise if a file is not as it was written."""
    facts = open_arrays(folder / POOL, ARRAYS)[1]
    with reading(folder / POOL):
        for name in (FEATURES, COEFFICIENTS):
            if not (folder / name).exists() or sha256_of(folder / name) != facts["files"][name]:
                raise DamagedFileError(f"{folder / name} is damaged or missing.")


def _load(folder: Path, estimator: Any, n_classes: int) -> tuple[PooledMembers, NDArray[Any], list[Environment]]:
    arrays, facts = open_arrays(folder / POOL, ARRAYS)
    for name in (FEATURES, COEFFICIENTS):
        with reading(folder / name):
            arrays[name] = map_npy(folder / name)
    with reading(folder / POOL):
        return _members(arrays, facts, estimator, n_classes), arrays["subsets"], facts["environments"]


def _members(arrays: dict[str, NDArray[Any]], facts: dict[str, Any], estimator: Any, n_classes: int) -> PooledMembers:
    copies, raised = facts["copies"], {int(i): float(ridge) for i, ridge in facts.get("raised", {}).items()}
    samples, codes = arrays["samples"].astype(np.int64), arrays["codes"].astype(np.int64)
    sizes, n_codes = arrays["sizes"].astype(np.int64), arrays["n_codes"].astype(np.int64)
    features, coefficients, fallback = arrays[FEATURES], arrays[COEFFICIENTS], arrays["fallback"].astype(np.int64)
    trained = n_codes >= 2
    whole = {
        "features": features.ndim == 2 and features.dtype.kind == "i" and features.dtype.itemsize <= 4,
        "copies": isinstance(copies, int) and copies >= 1 and len(features) % max(1, copies) == 0,
        "samples": samples.ndim == 1 and samples.max(initial=-1) < len(features) // max(1, copies),
        "sizes": sizes.shape == n_codes.shape == fallback.shape and sizes.sum() == len(samples),
        "trained": not sizes[~trained].any() and (sizes[trained] >= n_codes[trained]).all(),
        "codes": codes.ndim == 1 and n_codes.sum() == len(codes) and codes.max(initial=-1) < n_classes,
        "fallback": fallback.min(initial=-1) >= -1 and fallback.max(initial=-1) < n_classes,
        "coefficients": coefficients.dtype == np.float32
        and coefficients.shape == (int((sizes * n_codes * copies)[trained].sum()),),
        "raised ridges": all(0 <= i < len(sizes) and trained[i] and ridge > 0 for i, ridge in raised.items()),
    }
    for name in (name for name, right in whole.items() if not right):
        raise PoisonproofError(f"its {name} do not fit the rest")
    pool = estimator.pool_of(features.reshape(-1, copies, features.shape[1]))
    return PooledMembers(
        pool,
        pool.rows_of(samples),
        _starts(sizes * copies),
        coefficients,
        _starts(np.where(trained, sizes * n_codes, 0) * copies),
        codes,
        _starts(n_codes),
        fallback,
        raised,
    )


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
