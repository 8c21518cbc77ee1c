"""What a learner is: a text that tells it from any other, and what of it is fitted before anybody fits it.

A part that is fitted already, state that `clone` does not take away, is shared by all base classifiers, and whatever it
was fitted on reaches all of them. If that was the training data, one poisoned sample moves every vote and no radius
holds; nobody can tell from the part. So it is found, by looking where state can hide, and refused unless the user
vouches for it; then it is a premise, named with a digest of its content.

Whatever a learner could draw from or divide among threads is set by us in every clone (`SeededClones`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from functools import partial
from numbers import Number
from os import PathLike
from pathlib import PurePath
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from joblib.hashing import NumpyHasher
from sklearn.base import BaseEstimator, clone

from poisonproof.errors import PoisonproofError
from poisonproof.premises import PublicMap
from poisonproof.samples.kinds import Samples

FITTED = "parts-given-fitted"
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
DEEPEST = 12
SEEDS = ("random_state", "seed", "random_seed", "rng")
JOBS = ("n_jobs", "n_threads", "nthread", "nthreads", "num_thread", "num_threads", "thread_count")
# What shows all that it is by its own representation.
PLAIN = (
    str, bytes, Number, np.generic, np.dtype, range, slice, EllipsisType, date, time, timedelta, Enum, PurePath,
    re.Pattern,
)  # fmt: skip


def describe(value: Any) -> str:
    """A text that is equal exactly for equal learners, whatever process they live in.

    Parts that are given fitted stand at its end, with a digest of their state.
    """
    parts = fitted_parts(value) if isinstance(value, BaseEstimator) else ()
    return _described(value) + (f" [given fitted: {words(parts)}]" if parts else "")


def _described(value: Any) -> str:
    if isinstance(value, BaseEstimator):
        plain = _defaults(value)
        parts = {name: f"{name}={_described(part)}" for name, part in sorted(value.get_params(deep=False).items())}
        changed = [part for name, part in parts.items() if plain.get(name) != part]
        return f"{type(value).__name__}({', '.join(changed)})"
    if isinstance(value, PublicMap):
        return value.description
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


def public_map_of(learner: Any) -> PublicMap | None:
    """The public map (an encoder) that stands in front of a learner, if one does."""
    for part in (getattr(learner, "encoder", None), getattr(learner, "features", None)):
        if isinstance(part, PublicMap):
            return part
    return None


def with_public_map(learner: Any, public: PublicMap) -> Any:
    """The learner with this map in place of its own."""
    name = "encoder" if isinstance(getattr(learner, "encoder", None), PublicMap) else "features"
    return clone(learner).set_params(**{name: public})


def without_cache(learner: Any) -> Any:
    """A learner as it may be saved: without the folder in which its public map remembers samples."""
    public = public_map_of(learner)
    return learner if public is None else with_public_map(learner, public.without_cache())


def for_samples(learner: Any, samples: Samples) -> Any:
    """The learner with its public map, if one stands in front of it, as it is for these training samples."""
    public = public_map_of(learner)
    return learner if public is None else with_public_map(learner, public.checked(samples))


class FittedPart(NamedTuple):
    """A part of a learner that arrives fitted: where it stands, what it is, and the digest of its state."""

    place: str
    kind: str
    digest: str

    def __str__(self) -> str:
        return f"{self.place} ({self.kind}) sha256 {self.digest}"


def fitted_parts(learner: Any) -> tuple[FittedPart, ...]:
    """The parts of a learner that a clone of it still holds fitted, in the order of their places."""
    try:
        survivor = clone(learner)
    except Exception:  # what cannot be cloned cannot be fitted either, and says so there
        survivor = learner
    parts = {part.place: part for part in _parts(survivor, "estimator")}
    return tuple(parts[place] for place in sorted(parts))


def words(parts: tuple[FittedPart, ...]) -> str:
    """The parts in one line, as the premise and the learner's description say them."""
    return "; ".join(map(str, parts))


def refuse_fitted(learner: Any, trusted: bool) -> None:
    """Raise if a part of the learner arrives fitted and nobody vouches for it."""
    parts = fitted_parts(learner)
    if parts and not trusted:
        raise PoisonproofError(
            f"A part of the learner arrives fitted: {words(parts)}; if it saw training samples, one poisoned sample "
            "reaches every base classifier and no radius holds; give it unfitted, or say trusted_state=True if it was "
            "fitted on other data, which then is a premise.",
            code="learner.fitted-part",
        )


def state_digest(value: Any) -> str:
    """SHA-256 of an object with all it holds, the same in every process for equal objects."""
    try:
        return str(NumpyHasher(hash_name="sha256").hash(value))
    except Exception as error:
        raise PoisonproofError(
            f"The learner holds an object of type {type(value).__name__} that cannot be told from others of its type "
            f"({type(error).__name__}: {error}); give the learner something that can be pickled instead.",
            code="learner.unpicklable",
        ) from None


def is_generator(value: Any) -> bool:
    """Whether it is a generator of random numbers, which every base classifier gets anew."""
    kind = type(value)
    return isinstance(value, GENERATORS) or (kind.__module__.startswith("torch") and kind.__name__ == "Generator")


def underlying(value: Any) -> Any:
    """The function that a caching or compiling wrapper was put around, or None."""
    return getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)


def owner_of(value: Any) -> Any:
    """The instance that a method is bound to, or None."""
    if not isinstance(value, MethodType | BuiltinFunctionType):
        return None
    owner = value.__self__
    return None if owner is None or isinstance(owner, type | ModuleType) else owner


def _parts(value: Any, place: str, *, hidden: bool = False, above: tuple[int, ...] = ()) -> Iterator[FittedPart]:
    """Fitted parts in a value; ``hidden`` if it is no parameter but held by something that is."""
    if id(value) in above or len(above) > DEEPEST or value is None or isinstance(value, type | ModuleType):
        return
    if is_generator(value) or isinstance(value, PublicMap):  # which is a premise of its own
        return
    if _is_fitted(value) or (hidden and _is_array(value)):
        yield FittedPart(place, _kind(value), state_digest(value))
        return
    for name, inner, inner_hidden in _held(value):
        yield from _parts(inner, place + name, hidden=hidden or inner_hidden, above=(*above, id(value)))


def _is_fitted(value: Any) -> bool:
    """Whether an object says of itself that it was fitted, or has no other reason to survive a clone."""
    if hasattr(value, "state_dict") and hasattr(value, "parameters"):  # a network with its weights
        return True
    if not hasattr(value, "get_params"):
        return not hasattr(value, "__dict__") and (hasattr(value, "predict") or hasattr(value, "transform"))
    kept = getattr(type(value), "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
    parameters = value.get_params(deep=False)
    return kept is not BaseEstimator.__sklearn_clone__ or any(
        name.endswith("_") and not name.startswith("_") and name not in parameters and not _says_nothing(state)
        for name, state in vars(value).items()
    )


def _says_nothing(state: Any) -> bool:
    """Whether a constructor may have left it for later: a net of skorch begins with `initialized_` False."""
    return state is None or state is False or (isinstance(state, dict | list | tuple | set) and not state)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def _kind(value: Any) -> str:
    inner = getattr(value, "estimator", None)
    name = type(value).__name__
    return f"{name} of {type(inner).__name__}" if isinstance(inner, BaseEstimator) else name


def _held(value: Any) -> Iterator[tuple[str, Any, bool]]:
    """What an object holds: the name of its place, the object, and whether it is out of sight of the parameters."""
    if isinstance(value, str | bytes | int | float | complex | np.generic) or _is_array(value):
        return
    if hasattr(value, "get_params"):
        yield from ((f".{name}", part, False) for name, part in value.get_params(deep=False).items())
        yield from ((f".{name}", part, True) for name, part in _held_by_class(type(value)))
    elif isinstance(value, dict):
        yield from ((f"[{name!r}]", part, False) for name, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{number}]", part, False) for number, part in enumerate(value))
    elif isinstance(value, partial):
        yield ".func", value.func, True
        yield from ((f".args[{number}]", part, True) for number, part in enumerate(value.args))
        yield from ((f".{name}", part, True) for name, part in value.keywords.items())
    elif isinstance(value, FunctionType):
        yield from ((f".{name}", part, True) for name, part in _held_by_function(value))
    elif (owner := owner_of(value)) is not None:
        yield ".__self__", owner, True
    elif (function := underlying(value)) is not None:
        yield "", function, True
    elif is_dataclass(value):
        yield from ((f".{field.name}", getattr(value, field.name), True) for field in fields(value))
    else:
        yield from ((f".{name}", part, True) for name, part in getattr(value, "__dict__", {}).items())


def _held_by_class(kind: type) -> Iterator[tuple[str, Any]]:
    """Arrays that stand in the class of an estimator; of a class of the user's own script, its methods too."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] not in ("builtins", "sklearn"):
            for name, part in vars(base).items():
                if _is_array(part) or (base.__module__ == "__main__" and isinstance(part, FunctionType)):
                    yield name, part


def _held_by_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function remembers: its closure, defaults and attributes, and fitted objects that it finds by name."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet filled
            continue
    yield from _numbered("defaults", function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()
    yield from vars(function).items()
    for name in _names(function.__code__):
        known = function.__globals__.get(name)
        of_the_user = function.__module__ == "__main__" and _is_array(known)
        if of_the_user or owner_of(known) is not None or (isinstance(known, BaseEstimator) and _is_fitted(known)):
            yield name, known


def _numbered(name: str, values: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    return ((f"{name}[{number}]", value) for number, value in enumerate(values))


def _names(code: Any) -> Iterator[str]:
    """The names that a function looks up outside itself, those of functions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _names(constant)


def seeded(estimator: Any, index: int) -> Any:
    """A clone that draws by the base classifier's index and works alone; see `SeededClones`."""
    return SeededClones(estimator)(index)


class SeededClones:
    """Makes clones that draw by the base classifier's index and work alone, by one job and without a cache.

    Sums of threads depend on who is first, and a cache may hold what another base classifier, or another run, put
    there. Set are all parameters in it, however deep, whose names say so; they are looked for once.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.fixed: dict[str, Any] = {}
        self.seeds: list[str] = []
        self.generators: dict[str, Any] = {}
        parameters = estimator.get_params(deep=True)
        for path, value in parameters.items():
            prefix, _, name = path.rpartition("__")
            if name == "random_state" or (name in SEEDS and _is_plain_seed(value)):
                self.seeds.append(path)
            elif name in JOBS and not (value is None and _leaves_it_to_joblib(parameters.get(prefix, estimator))):
                self.fixed[path] = 1
            elif name == "memory" and _is_cache(value):
                self.fixed[path] = None
            elif _generator_like(value, 0) is not None:
                self.generators[path] = value

    def __call__(self, index: int) -> Any:
        """The clone of this base classifier."""
        settings = self.fixed | dict.fromkeys(self.seeds, index)
        model = clone(self.estimator)
        settings |= {path: _generator_like(value, index) for path, value in self.generators.items()}
        return model.set_params(**settings) if settings else model


def _leaves_it_to_joblib(owner: Any) -> bool:
    """Whether no number of jobs means joblib's, which is 1 in `reproducible`; some of scikit-learn warn of others."""
    return type(owner).__module__.startswith("sklearn.")


def _is_plain_seed(value: Any) -> bool:
    return value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def _is_cache(value: Any) -> bool:
    return isinstance(value, str | PathLike) or hasattr(value, "cache")


def _generator_like(value: Any, index: int) -> Any:
    """A generator of the same kind that starts at the index; None if the value is none."""
    if isinstance(value, np.random.Generator):
        return np.random.default_rng(index)
    if isinstance(value, np.random.RandomState):
        return np.random.RandomState(index)
    if type(value).__module__.startswith("torch") and type(value).__name__ == "Generator":
        return type(value)(device=value.device).manual_seed(index)
    return None
