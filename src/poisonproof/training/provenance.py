"""Which base classifiers were made where: each with the environments that had a part in it and its votes.

A run may be begun on one machine, resumed on another and updated on a third. Every block of votes keeps, for each of
its base classifiers, where it was trained and where it voted; the manifest of a run puts that together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import open_arrays
from poisonproof.system.machine import environment
from poisonproof.training.pooled_files import POOL
from poisonproof.training.work import Made


def made_here() -> Made:
    """By this process, from the start."""
    return made_by(environment())


def made_by(record: Mapping[str, Any]) -> Made:
    """In this environment, from the start."""
    return frozenset([json.dumps(record, sort_keys=True, ensure_ascii=False)])


def packed(made: Sequence[Made]) -> dict[str, Any]:
    """For a record: ``environments``, each once, and ``made_in``: [places among them, how many in a row], …"""
    texts = sorted(frozenset().union(*made))
    places = {text: at for at, text in enumerate(texts)}
    runs = [[sorted(places[text] for text in machines), len(list(alike))] for machines, alike in groupby(made)]
    return {"environments": [json.loads(text) for text in texts], "made_in": runs}


def unpacked(record: Mapping[str, Any], count: int) -> list[Made]:
    """What `packed` made of so many base classifiers; nothing is known of those of a record that says nothing."""
    if "made_in" not in record:
        return [frozenset()] * count
    runs = record["made_in"]
    if sum(length for _, length in runs) != count or any(length < 1 for _, length in runs):
        raise PoisonproofError(f"it does not say where each of {count} base classifiers was made")
    texts = [next(iter(made_by(machines))) for machines in record["environments"]]
    return [machines for places, length in runs for machines in [frozenset(texts[at] for at in places)] * length]


def of_run(folder: Path, voted: Sequence[Made]) -> dict[str, Any]:
    """Where the base classifiers of a run were made, for its manifest: where they voted, and where their pool was."""
    made = list(voted)
    for path in (folder / "models").glob(POOL):
        _, facts = open_arrays(path)
        made = [known | machines for known, machines in zip(made, unpacked(facts, len(made)), strict=True)]
    return packed(made)


def others(first: Mapping[str, Any], more: Iterable[Mapping[str, Any]]) -> list[str]:
    """In what the environments of a run, as its manifest states them, differ from this one."""
    here = environment()
    return list(dict.fromkeys(name for one in (first, *more) for name, value in one.items() if here.get(name) != value))
