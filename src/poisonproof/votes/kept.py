"""What samples said, kept in a file: ballots or neighbours, by what the file says of itself."""

from __future__ import annotations

from pathlib import Path

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import open_arrays
from poisonproof.votes import ballots, neighbours
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.neighbours import Neighbours

KINDS: dict[str, type[Ballots] | type[Neighbours]] = {ballots.FORMAT: Ballots, neighbours.FORMAT: Neighbours}


def load_said(path: str | Path) -> Ballots | Neighbours:
    """The ballots or neighbours of a file; refused if anything was altered, or if it holds something else."""
    stated = open_arrays(path)[1].get("format")
    if stated not in KINDS:
        raise PoisonproofError(
            f"{path} is of format {stated!r}; what samples said is kept by `poisonproof run --method ballots` or "
            "`neighbours` in OUT/ballots.npz or OUT/neighbours.npz."
        )
    return KINDS[stated].load(path)
