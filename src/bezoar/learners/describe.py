"""What a learner is, in full: its class and every parameter, so that two runs can be told apart.

``repr`` will not do: it shortens long lists and shows functions by their address.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def describe(value: Any) -> str:
    """A text that is equal exactly for equal learners, whatever process they live in."""
    if isinstance(value, BaseEstimator):
        parts = [f"{name}={describe(part)}" for name, part in sorted(value.get_params(deep=False).items())]
        changed = [part for part, default in zip(parts, _defaults(value), strict=True) if part != default]
        return f"{type(value).__name__}({', '.join(changed)})"
    if is_dataclass(value) and not isinstance(value, type):
        parts = [f"{part.name}={describe(getattr(value, part.name))}" for part in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{describe(key)}: {describe(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(describe(part) for part in value) + "]"
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(repr(value.dtype).encode() + np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array{value.shape}:{digest[:16]}"
    if isinstance(value, FunctionType):
        code = value.__code__
        body = hashlib.sha256(code.co_code + repr((code.co_names, _constants(code))).encode()).hexdigest()
        held = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        held += [part for part in (value.__defaults__, value.__kwdefaults__) if part]
        return f"{value.__module__}.{value.__qualname__}:{body[:16]}{describe(held) if held else ''}"
    if isinstance(value, partial):
        return f"partial({describe([value.func, value.args, value.keywords])})"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return repr(value)


def _constants(code: Any) -> list[str]:
    """A function's constants; functions inside it by their own code instead of their address."""
    return [repr((c.co_code, c.co_names, _constants(c))) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]


def _defaults(estimator: BaseEstimator) -> list[str]:
    """The parameters of an estimator of that class as it comes, described; none if it does not come so."""
    try:
        plain = type(estimator)()
    except TypeError:
        return [""] * len(estimator.get_params(deep=False))
    return [f"{name}={describe(part)}" for name, part in sorted(plain.get_params(deep=False).items())]
