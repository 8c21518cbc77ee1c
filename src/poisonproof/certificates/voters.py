"""What certificates state alike: who votes (base classifiers with their spread, or training samples with their
election), and arrays with one entry for every test sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.partition.spread import Spread


def voters_in_words(spread: Spread | None, election: dict[str, Any] | None) -> str:
    """One clause."""
    if spread is None:
        assert election is not None
        return str(election["words"])
    return f"{spread.n_subsets} base classifiers, k = {spread.k:g}, d = {spread.d}"


def facts_of_voters(spread: Spread | None, election: dict[str, Any] | None) -> dict[str, Any]:
    """Plain values, for a file."""
    if spread is None:
        return {"spread": None, "election": election}
    return {
        "k": spread.k,
        "d": spread.d,
        "n_subsets": spread.n_subsets,
        "spread": spread.as_dict(),
        "spread_digest": spread.digest,
    }


def voters_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Spread or election, as a file states it; exactly one of them."""
    if facts.get("election") is None:
        return {"spread": Spread.from_dict(facts["spread"])}
    if facts["spread"] is not None or not isinstance(facts["election"].get("words"), str):
        raise PoisonproofError("it states base classifiers and samples that vote, and only one can be")
    return {"election": facts["election"]}


def check_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]], n_test: int) -> None:
    """One sentence if arrays of a file are not, each, one number from 0 on, or one yes or no, for every test sample."""
    for name, array in arrays.items():
        kind = "b" if name in ("exact", "abstained") else "iu"
        if array.shape != (n_test,) or array.dtype.kind not in kind:
            raise DamagedFileError(f"{path} is altered: '{name}' is an array {array.shape} of {array.dtype}.")
        if kind == "iu" and array.min(initial=0) < 0:
            raise DamagedFileError(f"{path} is altered: '{name}' holds {array.min()}.")
