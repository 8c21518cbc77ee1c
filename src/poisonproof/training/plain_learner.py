"""Learners of ours whose parameters are plain, in a file of skops without skops.

To import skops takes 2 to 3 CPU seconds: it looks at every estimator that scikit-learn has. What it writes of a learner
that has numbers and words for parameters is one page of JSON. The same page is written here, and read here if it is
exactly what would be written; everything else is left to skops.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import count
from typing import Any, NamedTuple
from zipfile import ZipFile

from sklearn.base import BaseEstimator

PROTOCOL = 2
LONGEST = 1 << 16
SCHEMA = "schema.json"


def plain_schema(learner: Any, ours: Sequence[str], by: str | None = None) -> str | None:
    """What skops says of this learner, if it is of one of our types and all its parameters are plain; else None.

    ``by`` is the version of skops that says so, the installed one unless it is given.
    """
    if not _is_ours(learner, ours):
        return None
    page = {**_page(learner, count()), "protocol": PROTOCOL, "_skops_version": by or version("skops")}
    return json.dumps(page)


def _is_ours(learner: Any, ours: Sequence[str]) -> bool:
    kind = type(learner)
    if learner is None:  # the default
        return True
    if f"{kind.__module__}.{kind.__qualname__}" not in ours or not issubclass(kind, BaseEstimator):
        return False
    state = vars(learner)
    return bool(state) and set(state) == set(learner.get_params(deep=False)) and all(map(_is_plain, state.values()))


def _page(learner: Any, numbers: Iterator[int]) -> dict[str, Any]:
    """Nodes are numbered from the outside in, as they come."""
    if learner is None:
        return _node("str", "JsonNode", next(numbers), content="null", is_json=True)
    state, whole, inside = vars(learner), next(numbers), next(numbers)
    values = {
        name: _node("str", "JsonNode", next(numbers), content=json.dumps(value), is_json=True)
        for name, value in state.items()
    }
    keys = next(numbers)
    types = [_node("str", "TypeNode", next(numbers)) for _ in state]
    listed = _node("list", "ListNode", keys, content=types)
    content = _node("dict", "DictNode", inside, content=values, key_types=listed)
    return _node(type(learner).__name__, "ObjectNode", whole, type(learner).__module__, content=content)


def _node(name: str, loader: str, number: int, module: str = "builtins", **content: Any) -> dict[str, Any]:
    return {"__class__": name, "__module__": module, "__loader__": loader, **content, "__id__": number}


class Plain(NamedTuple):
    """A learner that was read; None is the default."""

    learner: Any


def read_plain(archive: ZipFile, ours: Sequence[str]) -> Plain | None:
    """The learner of a file that says exactly what `plain_schema` says of it; None of any other file."""
    entries = archive.infolist()
    if [entry.filename for entry in entries] != [SCHEMA] or entries[0].file_size > LONGEST:
        return None
    try:
        text = archive.read(SCHEMA).decode()
        page = json.loads(text)
        learner = _learner_of(page, ours)
        same = plain_schema(learner, ours, page["_skops_version"]) == text
    except (ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError):
        return None
    return Plain(learner) if same else None


def _learner_of(page: Any, ours: Sequence[str]) -> Any:
    where, name = page["__module__"], page["__class__"]
    if f"{where}.{name}" not in ours:
        return None
    kind = getattr(importlib.import_module(where), name)
    if not isinstance(kind, type) or not issubclass(kind, BaseEstimator):
        return None
    return kind(**{key: json.loads(value["content"]) for key, value in page["content"]["content"].items()})


def _is_plain(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)
