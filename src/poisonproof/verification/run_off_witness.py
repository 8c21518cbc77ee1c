"""The witness of run-off elections for poisonproof-check (proofs/README.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.run_off import RunOff
from poisonproof.verification.witness import FORMAT, Electorate, write_line, write_spread


def write_run_off(
    file: IO[bytes],
    electorate: Electorate,
    rankings: NDArray[Any],
    prediction: NDArray[Any],
    radius: NDArray[Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Rankings, elected class and radius of each test sample, and multipliers that prove it; declared classes alone."""
    n_classes = electorate.n_classes
    write_line(file, FORMAT, "run-off")
    write_line(file, "classes", n_classes, "declared")
    write_spread(file, electorate)
    write_line(file, "samples", len(rankings))
    for at, ranked in enumerate(rankings):
        election = RunOff(np.asarray(ranked), electorate.spread, n_classes)
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
