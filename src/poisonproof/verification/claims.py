"""What a run's words must be, given its settings: unit, threat model, premises."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.theorem import SpreadMap
from poisonproof.verification.verdict import NotTrueError

PREMISES = ("spread", "split", "learner", "classes", "number of features")
PREMISES_OF_SAMPLES = ("map", "near", "class sizes", "voices", "number of neighbours", "classes", "number of features")
KINDS = ("content", "pixel-sum", "group")
NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)

EQUALLY_LARGE = "none declared: all classes count as equally large"
ORIGINS = {True: "declared", None: "by default", False: "chosen from this data"}
REACHABLE = "reachable partitions"
CHOSEN = {"near", "number of neighbours"}
CHOICE = "choice of method"
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
) -> dict[str, tuple[str | None, bool | None]]:
    """The premises that every run has: what → (value, or None where only the data tell; see `fits`)."""
    names = f"{len(classes)} labels, {', '.join(map(str, classes[:12]))}{', …' if len(classes) > 12 else ''}"
    width, declared = features(split)
    _, fitted, parts = learner.partition(" [arrived fitted: ")
    return {
        "fitted before the split": ("nothing, as far as can be seen", None),
        **({"a part of the learner arrived fitted": (parts.removesuffix("]"), True)} if fitted else {}),
        "spread": (
            f"k = {spread.k:g}, d = {spread.d}, digest {spread.digest[:16]}",
            not by_pilot,
        ),
        "split": (f"{split['kind']}, {split['dtype']}{', labels hashed' if split['hash_labels'] else ''}", True),
        "learner": (learner, True),
        "classes": (names, not inferred),
        "number of features": (None if width is None else str(width), declared),
    }


def premises_of_samples(
    settings: dict[str, Any], inferred: bool, near: str, *, by_pilot: bool = False
) -> dict[str, tuple[str | None, bool | None]]:
    """The same where training samples vote; ``near`` in words; ``by_pilot`` if a pilot on this data chose how."""
    election, classes = settings["election"], settings["classes"]
    names = f"{len(classes)} labels, {', '.join(map(str, classes[:12]))}{', …' if len(classes) > 12 else ''}"
    width, declared = features(settings["split"])
    expected: dict[str, tuple[str | None, bool | None]] = {
        "map": (None, election["map"].get("trusted", True)),
        "classes": (names, not inferred),
        "fitted before the split": ("nothing, as far as can be seen", None),
        "number of features": (None if width is None else str(width), declared),
    }
    if election["method"] == "neighbours":
        return expected | {"number of neighbours": (str(election["n_neighbors"]), not by_pilot)}
    sizes = election["class_sizes"]
    if election["one_sided"] or sizes == "rows":
        words = "none needed: far samples count 0"
    elif sizes is None:
        words = EQUALLY_LARGE
    else:
        listed = ", ".join(f"{label}: {size}" for label, size in sizes[:12]) + (", …" if len(sizes) > 12 else "")
        words = f"{listed}; from {election['class_sizes_from'] or 'the caller, outside this data'}"
    expected |= {"near": (near, not by_pilot), "class sizes": (words, None if words == EQUALLY_LARGE else True)}
    if settings["split"]["kind"] == "group":
        expected["voices"] = (f"{election['voices']} for each contributor; ids are authenticated", True)
    return expected


def reachable(values: list[str], n: int) -> NDArray[np.bool_]:
    """Which of n partitions the premises of that name, of which there may be one, say can be poisoned."""
    mask = np.zeros(n, np.bool_)
    for run in re.findall(r"(?<=[ ])\d+(?:–\d+)?(?=,|$)", values[0].partition(":")[2]):
        first, _, last = run.partition("–")
        mask[int(first) : int(last or first) + 1] = True
    places = np.flatnonzero(mask)
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []
    names = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs) or "none"
    if values != [f"{len(places)} of {n}: {names}"]:
        raise NotTrueError(f"the premise '{REACHABLE}' is written in no way that this checker knows.")
    return mask


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


def in_words(premise: list[Any]) -> str:
    """A premise [what, value, declared] as the manifest prints it."""
    what, value, declared = premise
    return f"{what}: {value} ({ORIGINS[declared]})"
