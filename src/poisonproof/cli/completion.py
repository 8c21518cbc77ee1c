"""What the shell may complete after an option: the values that the command would accept.

The names are read where they are defined, and only when somebody presses the tab key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from poisonproof import registry

SPLITS = ("content", "pixel-sum")
SPREADS = ("paper:", "random:", "dpa:", "plane:", "quartic:", "difference:")


def of_data(incomplete: str) -> list[str]:
    """Data sets by name, folders, and files that may be a user's own data."""
    from poisonproof import registry

    return [*_starting(incomplete, registry.names("datasets")), *_files(incomplete, tuple(registry.names("readers")))]


def of_learners(incomplete: str) -> list[str]:
    """Learners by name."""
    return _starting(incomplete, registry.names("learners"))


def of_encoders(incomplete: str) -> list[str]:
    """Encoders by name, and files that may be one."""
    names = registry.names("encoders")
    named = [name for name in names if not name.startswith(".")]
    return [*_starting(incomplete, named), *_files(incomplete, tuple(set(names) - set(named)))]


def of_methods(incomplete: str) -> list[str]:
    """Certificates by name."""
    from typing import get_args

    from poisonproof.core.certify import Method

    return _starting(incomplete, get_args(Method))


def of_rows(incomplete: str) -> list[str]:
    """Rows of a comparison, with commas between."""
    from poisonproof.planning.compare import METHODS

    return _listed(incomplete, METHODS)


def of_attacks(incomplete: str) -> list[str]:
    """Kinds of attacks, with commas between."""
    from poisonproof.auditing.attacks import ATTACKS

    return _listed(incomplete, ATTACKS)


def of_splits(incomplete: str) -> list[str]:
    """Splits that need no contributors."""
    return _starting(incomplete, SPLITS)


def of_spreads(incomplete: str) -> list[str]:
    """Spreads by kind, and files that may hold one."""
    return [*_starting(incomplete, SPREADS), *_files(incomplete, (".npz",))]


def one_of(*names: str) -> Callable[[str], list[str]]:
    """One of these."""

    def complete(incomplete: str) -> list[str]:
        return _starting(incomplete, names)

    return complete


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _listed(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _starting(last, names) if name not in before.split(",")]


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Files with these endings, and folders, that begin with what was typed."""
    head = incomplete[: incomplete.rfind("/") + 1]
    start = incomplete[len(head) :]
    try:
        items = sorted(Path(head).iterdir())
    except OSError:
        return []
    return [
        f"{head}{item.name}{'/' if item.is_dir() else ''}"
        for item in items
        if item.name.startswith(start)
        and item.name.isprintable()  # a shell would print the rest as it stands
        and (start or not item.name.startswith("."))
        and (item.is_dir() or item.name.lower().endswith(suffixes))
    ]
