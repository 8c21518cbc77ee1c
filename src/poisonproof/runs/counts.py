"""What samples say of test samples, in blocks on disk: each known by the voters and the test samples it is about.

So a run that was killed goes on with the blocks that are missing, and a block that is no longer true of the data is
counted again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.classifiers import Heard, SampleVoteClassifier
from poisonproof.core.votes import labels_to_json
from poisonproof.errors import DamagedFileError
from poisonproof.samples.convert import digest_of
from poisonproof.samples.kinds import Samples
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.system.progress import progress

FORMAT = "poisonproof counts 1"
TESTS_PER_BLOCK = 1024
log = logging.getLogger(__name__)


def voters_digest(model: SampleVoteClassifier, election: Mapping[str, Any]) -> str:
    """SHA-256 of all that counts depend on but the test samples: how votes are counted, and every voter."""
    voters = model.voters_.whole()
    digest = hashlib.sha256(
        json.dumps([election, labels_to_json(model.classes_), model.split_.as_dict()], sort_keys=True).encode()
    )
    for array in (voters.rows, voters.codes, voters.hashes, voters.owners):
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def count_all(folder: Path, model: SampleVoteClassifier, election: Mapping[str, Any], test: Samples) -> Heard:
    """What the voters say of all test samples: blocks that are there and still true, and the others counted now."""
    voters = voters_digest(model, election)
    starts = list(range(0, len(test), TESTS_PER_BLOCK))
    paths = [folder / "votes" / f"block-{number:05d}.npz" for number in range(len(starts))]
    for path in set((folder / "votes").glob("*.npz")) - set(paths):
        path.unlink()  # about test samples that are no longer there
    parts: list[Heard] = []
    for number, (start, path) in enumerate(zip(starts, paths, strict=True)):
        part = test.subset(np.arange(start, min(start + TESTS_PER_BLOCK, len(test))))
        facts = {"format": FORMAT, "voters": voters, "samples": digest_of(part), "first_sample": start}
        heard = _read(path, facts, len(part))
        if heard is None:
            heard = model._heard(part)
            write_arrays(path, {"votes": heard.said, "own": heard.own}, facts)
        parts.append(heard)
        progress(number + 1, len(starts))
    return Heard.joined(parts)


def _read(path: Path, facts: dict[str, Any], count: int) -> Heard | None:
    """A block that is whole and about these voters and test samples; otherwise None."""
    if not path.exists():
        return None
    try:
        arrays, stated = open_arrays(path, ("votes", "own"))
        with reading(path):
            if stated != facts:
                return None
            votes: NDArray[Any] = arrays["votes"]
            self_near: NDArray[Any] = arrays["own"]
            if votes.ndim != 2 or len(votes) != count or self_near.shape != (count,) or self_near.dtype != np.bool_:
                raise DamagedFileError(f"{path} is altered: its arrays are not about {count} test samples.")
    except DamagedFileError as error:
        log.warning("%s It is counted again.", error)
        return None
    return Heard(votes, self_near)
