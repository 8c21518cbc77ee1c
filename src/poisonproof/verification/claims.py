"""What a run's words must be, given its settings: unit, threat model, premises."""

from __future__ import annotations

from typing import Any

from poisonproof.verification.theorem import SpreadMap

PREMISES = ("spread", "split", "learner", "classes", "number of features")
KINDS = ("content", "pixel-sum", "group")
NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)

CHOICE, BY_PILOT = "choice of method", ", chosen by a pilot"
"""A premise of runs whose method a pilot chose, and what they say of the parameters that it chose with it."""


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
) -> dict[str, tuple[str | None, bool]]:
    """The premises that every run has: what → (value, or None where only the data tell; declared by the user)."""
    names = f"{len(classes)} labels, {', '.join(map(str, classes[:12]))}{', …' if len(classes) > 12 else ''}"
    width, declared = features(split)
    _, fitted, parts = learner.partition(" [arrived fitted: ")
    return {
        "fitted before the split": ("nothing, by the caller's word", True),
        **({"a part of the learner arrived fitted": (parts.removesuffix("]"), True)} if fitted else {}),
        "spread": (
            f"k = {spread.k:g}, d = {spread.d}, digest {spread.digest[:16]}{BY_PILOT if by_pilot else ''}",
            not by_pilot,
        ),
        "split": (f"{split['kind']}, {split['dtype']}{', labels hashed' if split['hash_labels'] else ''}", True),
        "learner": (learner, True),
        "classes": (names, not inferred),
        "number of features": (None if width is None else str(width), declared),
    }


def premises_of_samples(
    settings: dict[str, Any], inferred: bool, *, by_pilot: bool = False
) -> dict[str, tuple[str | None, bool]]:
    """The same where training samples vote; ``by_pilot`` if a pilot on this data chose how."""
    election, classes = settings["election"], settings["classes"]
    names = f"{len(classes)} labels, {', '.join(map(str, classes[:12]))}{', …' if len(classes) > 12 else ''}"
    expected: dict[str, tuple[str | None, bool]] = {
        "map": (None, election["map"].get("trusted", True)),
        "classes": (names, not inferred),
        "fitted before the split": ("nothing, by the caller's word", True),
    }
    if election["method"] == "neighbours":
        count = str(election["n_neighbors"])
        return expected | {"number of neighbours": (f"{count}{BY_PILOT}" if by_pilot else count, not by_pilot)}
    sizes = election["class_sizes"]
    if election["one_sided"] or sizes == "rows":
        words = "none needed: far samples count 0"
    elif sizes is None:
        words = "none declared: all classes count as equally large"
    else:
        listed = ", ".join(f"{label}: {size}" for label, size in sizes[:12]) + (", …" if len(sizes) > 12 else "")
        words = f"{listed}; from {election['class_sizes_from'] or 'the caller, outside this data'}"
    near = f"{election['near']:g}{BY_PILOT}" if by_pilot else None
    expected |= {"near": (near, not by_pilot), "class sizes": (words, True)}
    if settings["split"]["kind"] == "group":
        expected["voices"] = (f"{election['voices']} for each contributor; ids are authenticated", True)
    return expected


def features(split: dict[str, Any]) -> tuple[int | None, bool]:
    """How many features a split states, if it does, and whether that was declared."""
    schema = split.get("schema")
    if schema is None:
        return split["n_features"], split["n_features"] is not None
    named = [role for role in schema["columns"].values() if role in ("number", "category", "text")]
    return len(named), schema.get("guessed") is not True


def in_words(premise: list[Any]) -> str:
    """A premise [what, value, declared] as the manifest prints it."""
    what, value, declared = premise
    return f"{what}: {value} ({'declared' if declared else 'chosen from this data'})"
