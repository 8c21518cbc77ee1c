"""What a learner is, in full: its class and every parameter, so that two runs can be told apart.

``repr`` will not do: it shortens long lists and shows functions by their address.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from functools import partial
from numbers import Number
from pathlib import PurePath
from types import EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from poisonproof.learners.arrived import (
    arrived_parts,
    is_generator,
    owner_of,
    state_digest,
    underlying,
    words,
)
from poisonproof.maps.encoders import Encoder

# What shows all that it is by its own representation.
PLAIN = (
    str, bytes, Number, np.generic, np.dtype, range, slice, EllipsisType, date, time, timedelta, Enum, PurePath,
    re.Pattern,
)  # fmt: skip


def describe(value: Any) -> str:
    """A text that is equal exactly for equal learners, whatever process they live in.

    Parts that arrive fitted (see `poisonproof.learners.arrived`) stand at its end, with a digest of their state.
    """
    parts = arrived_parts(value) if isinstance(value, BaseEstimator) else ()
    return _described(value) + (f" [arrived fitted: {words(parts)}]" if parts else "")


def _described(value: Any) -> str:
    if isinstance(value, BaseEstimator):
        plain = _defaults(value)
        parts = {name: f"{name}={_described(part)}" for name, part in sorted(value.get_params(deep=False).items())}
        changed = [part for name, part in parts.items() if plain.get(name) != part]
        return f"{type(value).__name__}({', '.join(changed)})"
    if isinstance(value, Encoder):
        return f"{value.record.name} ({value.record.digest[:32]})"
    if is_dataclass(value) and not isinstance(value, type):
        names = [part.name for part in fields(value) if part.compare]  # where something lies is not what it is
        return _with_parts(value, {name: getattr(value, name) for name in names})
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_described(key)}: {_described(part)}" for key, part in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_described, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_described(part) for part in value) + "]"
    if isinstance(value, np.ndarray):
        return _described_array(value)
    if isinstance(value, ModuleType):
        return value.__name__
    if value is None or isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, type):
        return _name(value)
    return _described_callable(value) if callable(value) else _described_object(value)


def _described_array(value: np.ndarray[Any, Any]) -> str:
    if value.dtype.hasobject:
        return f"array{value.shape}:{_described(value.tolist())}"
    digest = hashlib.sha256(repr(value.dtype).encode() + np.ascontiguousarray(value).tobytes()).hexdigest()
    return f"array{value.shape}:{digest[:16]}"


def _described_callable(value: Any) -> str:
    """A function by its code and what it holds, a method by its owner too, an object by its parts."""
    if isinstance(value, FunctionType):
        code = value.__code__
        body = hashlib.sha256(code.co_code + repr((code.co_names, _constants(code))).encode()).hexdigest()
        held = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        held += [part for part in (value.__defaults__, value.__kwdefaults__) if part]
        return f"{_name(value)}:{body[:16]}{_described(held) if held else ''}"
    if isinstance(value, partial):
        return f"partial({_described([value.func, value.args, value.keywords])})"
    if (owner := owner_of(value)) is not None:
        return f"{_name(value)} of {_described(owner)}"
    if (function := underlying(value)) is not None:
        return _described(function)
    return _name(value) if hasattr(value, "__qualname__") else _described_object(value)


def _described_object(value: Any) -> str:
    if is_generator(value):
        return _name(type(value))  # every base classifier gets one of its own
    if hasattr(value, "get_params"):
        return _with_parts(value, dict(sorted(value.get_params(deep=False).items())))
    return f"{_name(type(value))}:{state_digest(value)[:16]}"


def _with_parts(value: Any, parts: dict[str, Any]) -> str:
    return f"{type(value).__name__}({', '.join(f'{name}={_described(part)}' for name, part in parts.items())})"


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _constants(code: Any) -> list[str]:
    """A function's constants; functions inside it by their own code instead of their address."""
    return [repr((c.co_code, c.co_names, _constants(c))) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]


def _defaults(estimator: BaseEstimator) -> dict[str, str]:
    """The parameters of an estimator of that class as it comes, described; none if it does not come so."""
    try:
        plain = type(estimator)()
    except TypeError:
        return {}
    return {name: f"{name}={_described(part)}" for name, part in plain.get_params(deep=False).items()}
