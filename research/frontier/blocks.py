"""Members of blocks of ballots on a whole data set: one at a time, each kept when it is done."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.distances import squared_lengths
from poisonproof.ballots.voters import Described, Voters, count_cells
from poisonproof.core.spread import Spread
from research.blocks.classifier import limits_of_share
from research.frontier.maps import Shape
from research.maps.trusted import in_order
from research.maps.whitening import Whitening


@dataclass(frozen=True)
class Near:
    """What a member calls near: a squared distance, or a share of its own samples."""

    limit: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class Samples:
    """Features before the whitening, labels and content hashes of the voters, and features of the test samples."""

    base: NDArray[Any]
    labels: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    asked: NDArray[Any]
    n_classes: int

    def key(self, shape: Shape, near: Sequence[Near]) -> str:
        """What tells one campaign from another, for files that are kept."""
        said = json.dumps([shape.as_dict(), [[one.limit, one.share] for one in near]])
        arrays = (self.labels, self.hashes, self.asked.sum(axis=1, dtype=np.int64))
        return hashlib.sha256(said.encode() + b"".join(array.tobytes() for array in arrays)).hexdigest()[:12]


def near_counts(shape: Shape, near: Sequence[Near], samples: Samples, kept: Path | None) -> NDArray[np.int32]:
    """Near voters of each class in every member's map: an array (rules, n_test, n_members, n_classes).

    With a folder, a member that is done is not done again.
    """
    spread = Spread.random(shape.blocks, shape.d)
    partition = (samples.hashes % np.uint64(spread.n_partitions)).astype(np.int64)
    counts = np.zeros((len(near), len(samples.asked), spread.n_subsets, samples.n_classes), np.int32)
    key, started = samples.key(shape, near), time.process_time()
    for member in range(spread.n_subsets):
        path = None if kept is None else kept / f"member-{key}-{member}.npy"
        if path is not None and path.exists():
            counts[:, :, member] = np.load(path)
            continue
        feeds = np.array([member in spread.subsets_of(j) for j in range(spread.n_partitions)])
        counts[:, :, member] = _counts_of(shape, near, samples, feeds[partition])
        if path is not None:
            np.save(path.with_suffix(".part.npy"), counts[:, :, member])
            path.with_suffix(".part.npy").rename(path)
            print(f"  member {member + 1} of {spread.n_subsets}, {time.process_time() - started:.0f} CPU s", flush=True)
    return counts


def _counts_of(shape: Shape, near: Sequence[Near], samples: Samples, own: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Near voters of each class in the map that one member learns from its own samples."""
    whitening = Whitening.of(in_order(samples.base[own]), shape.directions, shape.exponent)
    rows, asked = whitening(samples.base), whitening(samples.asked)
    by_class = np.argsort(samples.labels, kind="stable")  # counting is faster where they stand together
    labels, placed = samples.labels[by_class], rows[by_class]
    voters = Voters(placed, squared_lengths(placed)[0], labels, samples.hashes[by_class], labels)
    lengths, readable = squared_lengths(asked)[0], np.ones(len(asked), bool)
    found = []
    for one in near:
        limits = one.limit if one.share is None else limits_of_share(asked, rows[own], one.share)
        test = Described(asked, lengths - limits, readable)  # so that the limit of each test sample is 0
        found.append(count_cells(voters, labels, samples.n_classes, test, 0))
    return found
