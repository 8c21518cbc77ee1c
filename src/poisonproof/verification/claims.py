"""What a run must state, given its settings: unit, threat model, premises."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.files import same, short
from poisonproof.verification.theorem import SpreadMap
from poisonproof.verification.verdict import CheckFailed

KINDS = ("content", "pixel-sum", "group")
NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)

Expected = dict[str, tuple[Any, bool | None]]
"""Code → value, or ANY where only the data tell, and origin (see `fits`)."""
ANY: Any = object()
"""In place of the value of a premise of which only the data tell."""
REACHABLE = "reachable-partitions"
CHOSEN = {"near", "number-of-neighbors"}
CHOICE = "choice-of-method"
"""A premise of runs whose method a pilot chose; the parameters that it chose with it are not declared either."""


def unit(split: dict[str, Any] | None) -> str:
    """What the radius counts."""
    return "contributors" if split and split["kind"] == "group" else "training samples"


def threat_model(split: dict[str, Any]) -> dict[str, Any]:
    """What each act of an attacker costs: a changed sample may leave one partition and enter another, so 2."""
    acts: dict[str, Any]
    if split["kind"] == "group":
        acts = {
            "change anything in the training samples of one contributor": 1,
            "move a training sample from one contributor to another": 2,
        }
    else:
        acts = {
            "insert a training sample": 1,
            "remove a training sample": 1,
            "flip the label of a training sample": 2 if split["hash_labels"] else 1,
            "change a training sample in any other way": 2,
        }
    return acts | dict.fromkeys(NOT_COVERED, "not covered")


def premises(
    spread: SpreadMap,
    split: dict[str, Any],
    learner: str,
    classes: list[Any],
    inferred: bool,
    *,
    by_pilot: bool = False,
) -> Expected:
    """The premises that every run has: code → (value, or ANY where only the data tell; see `fits`)."""
    width, declared = features(split)
    _, fitted, parts = learner.partition(" [arrived fitted: ")
    return {
        "fitted-before-the-split": ([], None),
        **({"parts-given-fitted": (parts.removesuffix("]"), True)} if fitted else {}),
        "spread": ({"k": spread.k, "d": spread.d, "digest": spread.digest}, not by_pilot),
        "split": ({name: split[name] for name in ("kind", "dtype", "hash_labels")}, True),
        "learner": (learner, True),
        "classes": (classes, not inferred),
        "number-of-features": (ANY if width is None else width, declared),
    }


def reachable(values: list[Any], n: int) -> NDArray[np.bool_]:
    """Which of n partitions the premises of that name, of which there may be one, say can be poisoned."""
    (value,) = values
    places: Any = value.get("partitions") if isinstance(value, dict) else None
    whole = isinstance(places, list) and all(type(place) is int and 0 <= place < n for place in places)
    if not whole or places != sorted(set(places)) or not same(value, {"n": n, "partitions": places}):
        raise CheckFailed(f"the premise '{REACHABLE}' does not name partitions of {n}.")
    mask = np.zeros(n, np.bool_)
    mask[places] = True
    return mask


def listed(record: dict[str, Any]) -> list[tuple[str, Any, bool | None]]:
    """The premises that a file states: code, value, origin."""
    for premise in record["premises"]:
        if not isinstance(premise, dict) or premise.keys() != {"code", "value", "declared"}:
            raise CheckFailed(f"{short(premise)} is no premise.")
        if type(premise["code"]) is not str or not isinstance(premise["declared"], bool | None):
            raise CheckFailed(f"the premise {short(premise['code'])} is of no origin that there is.")
    return [(premise["code"], premise["value"], premise["declared"]) for premise in record["premises"]]


def values(record: dict[str, Any], *codes: str) -> list[Any]:
    """The values of these premises, in the order in which a file states them."""
    return [value for code, value, _ in listed(record) if code in codes]


def fits(declared: Any, expected: bool | None) -> bool:
    """Whether a premise may be called so; what the user could declare may be a default as well."""
    return declared is expected or (expected is True and declared is None)


def features(split: dict[str, Any]) -> tuple[int | None, bool]:
    """How many features a split states, if it does, and whether that was declared."""
    schema = split.get("schema")
    if schema is None:
        return split["n_features"], split["n_features"] is not None
    named = [role for role in schema["columns"].values() if role in ("number", "category", "text")]
    return len(named), not schema.get("guessed")


def states(record: dict[str, Any], code: str) -> bool:
    """Whether a premise of this code stands in a record, whatever else stands there."""
    stated = record["premises"] if isinstance(record["premises"], list) else ()
    return any(isinstance(premise, dict) and premise.get("code") == code for premise in stated)


def hold(by_code: dict[str, list[Any]], expected: Expected) -> str:
    """An error if one of the premises that must be there is missing or states something else."""
    for code, (value, declared) in expected.items():
        if code not in by_code:
            raise CheckFailed(f"the premise '{code}' is missing.")
        stated, origin = by_code[code]
        if value is not ANY and not same(stated, value):
            raise CheckFailed(
                f"the premise '{code}' states {short(stated)}, which does not follow from the settings; "
                f"they give {short(value)}."
            )
        if not fits(origin, declared):
            raise CheckFailed(f"the premise '{code}' is stated with another origin than follows from the settings.")
    return f"{len(by_code)} stated, the same everywhere; that there are no others is the maker's word."
