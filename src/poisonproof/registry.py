"""What can be had by name: one line for each reader, learner, certificate method, family of voters and command.

A line names an object as ``"module:object"``, and its module is imported when somebody asks for it. So no package
imports a slice (ballots, encoders, stochastic, serving, evidence): delete a slice's folder and its lines, and the rest
works.

From outside the package, `add` adds a line for this process. There are no entry points: nothing is imported because it
is installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from poisonproof.errors import PoisonproofError

LINES: dict[str, dict[str, str | Any]] = {
    # What samples or base classifiers said, by the format that their file states.
    "tallies": {
        "poisonproof ballots 1": "poisonproof.ballots.tallies:Ballots",
        "poisonproof neighbours 1": "poisonproof.ballots.tallies:Neighbours",
    },
}


def add(kind: str, name: str, what: str | Any) -> None:
    """Add a line: ``what`` is an object, or where it is found, ``"module:object"``."""
    if kind not in LINES:
        raise PoisonproofError(
            f"There is no registry of {kind!r}; there are {', '.join(sorted(LINES))}.", code="registry.kind"
        )
    if name in LINES[kind]:
        raise PoisonproofError(f"The registry of {kind} has {name!r} already.", code="registry.taken")
    LINES[kind][name] = what


def names(kind: str) -> list[str]:
    """The names there are, in the order of their lines."""
    return list(LINES[kind])


def find(kind: str, name: str) -> Any:
    """The object of a name; one sentence that lists the names if there is none."""
    lines = LINES[kind]
    if name not in lines:
        near = get_close_matches(name, lines, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(lines)}."
        raise PoisonproofError(f"There is no {name!r} among the {kind}; {meant}", code="registry.unknown")
    what = lines[name]
    if not isinstance(what, str):
        return what
    module, _, attribute = what.partition(":")
    return getattr(importlib.import_module(module), attribute)


def every(kind: str) -> Iterator[tuple[str, Any]]:
    """All names of a kind with their objects."""
    for name in names(kind):
        yield name, find(kind, name)
