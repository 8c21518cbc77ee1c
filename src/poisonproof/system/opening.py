"""Which files encoders may open where the files of a run are a stranger's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from poisonproof.errors import UnnamedFileError

P = ParamSpec("P")
T = TypeVar("T")
PACKAGE = "package:"  # in front of a place inside an installed package
PARTS = ("encoder", "features", "beside")
_named: ContextVar[frozenset[str] | None] = ContextVar("named files", default=None)


@contextmanager
def opening_only(at_hand: Any) -> Iterator[None]:
    """Within, no encoder opens a file but weights in installed packages and the files of encoders that are at hand.

    ``at_hand`` is an encoder, a learner behind one, or anything else, which names none. What a stranger's run names may
    lie anywhere.
    """
    parts, places = [at_hand], set()
    while parts:
        part = parts.pop()
        places.add(getattr(part, "place", None))
        parts += [inner for name in PARTS if (inner := getattr(part, name, None)) is not None]
    token = _named.set(frozenset(place for place in places if isinstance(place, str)))
    try:
        yield
    finally:
        _named.reset(token)


def opens_only_the_estimators(function: Callable[P, T]) -> Callable[P, T]:
    """A function within which only files of the encoder in its argument ``estimator`` are opened."""

    @wraps(function)
    def careful(*args: P.args, **more: P.kwargs) -> T:
        with opening_only(more.get("estimator")):
            return function(*args, **more)

    return careful


def check_may_open(place: str | Path) -> None:
    """Refuse a file of an encoder that nobody at hand has named; see `opening_only`."""
    named, place = _named.get(), str(place)
    in_package = place.startswith(PACKAGE) and ".." not in place
    if named is not None and place not in named and not in_package:
        raise UnnamedFileError(
            f"The run names the encoder's file {place}, and nothing is opened because a run says so; if it is yours, "
            f"name it: --encoder {Path(place).name} (estimator= in Python)."
        )
