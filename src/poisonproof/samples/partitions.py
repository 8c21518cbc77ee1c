"""Partitions: in which order their samples stand, and the digests of what base classifiers are fed of them.

Everything here is a function of the samples' own content, so it is the same in memory and on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from poisonproof.samples.kinds import Samples


def canonical_rank(samples: Samples, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each sample in an order that depends on content alone: hash, content, label.

    Any two samples compare by their own content, so the order inside a subset is a function of the
    subset. Samples of equal content and label are interchangeable. Hash order also keeps learners
    that read their rows in turn from meeting them sorted by a feature.
    """
    hashes = samples.content_hashes
    order = np.argsort(hashes, kind="stable")
    same = hashes[order[1:]] == hashes[order[:-1]]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2):
        run = order[start : stop + 1]
        keys = list(samples.each_key(run))
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        order[start : stop + 1] = run[np.lexsort((labels[run], np.array([places[key] for key in keys])))]
    rank = np.empty(len(samples), np.int64)
    rank[order] = np.arange(len(samples))
    return rank


def partition_digest(codes: NDArray[np.int64], keys: Iterable[bytes]) -> bytes:
    """SHA-256 of all that base classifiers are fed of a partition: label codes and keys, in canonical order."""
    digest = hashlib.sha256(np.concatenate(([len(codes)], codes)).astype("<i8").tobytes())
    for piece in keys:
        digest.update(piece)
    return digest.digest()
