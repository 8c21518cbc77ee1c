"""Base classifiers and learners in files: the same bytes for the same state, no pickle.

Base classifiers that can be stacked (`poisonproof.training.stacked`) are kept as arrays that are mapped when they are
opened, all others by skops.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sklearn.base import BaseEstimator

from poisonproof import registry
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.system.archives import check_arrays, open_zip
from poisonproof.system.files import reading, write_bytes
from poisonproof.training.member import Member
from poisonproof.training.stacked_files import read_stack, stack_bytes

ESTIMATOR = "estimator.skops"
OWN_TYPES = registry.trusted_types()
LEARNER, SCHEMA = "learner.json", "schema.json"
LONGEST = 1 << 16
MEMBERS_PER_FILE = 64
STACK, BY_SKOPS = ".npy", ".skops"
PLAIN_MODULES = {"collections", "datetime", "decimal", "fractions", "pathlib", "re", "uuid"}
"""Of the standard library, what a learner may hold; of the rest, `functools.partial` and `print` call whatever."""


class UntrustedTypesError(DamagedFileError):
    """A model that holds types nobody vouched for."""


def members_file(folder: Path, block: int) -> str:
    """The name of the file in a folder that holds a block of base classifiers, or would, if it is missing."""
    stem = members_stem(block)
    return next((stem + suffix for suffix in (STACK, BY_SKOPS) if (folder / (stem + suffix)).exists()), stem + BY_SKOPS)


def members_stem(block: int) -> str:
    """That name, without what tells how they are kept."""
    return f"members-{block:05d}"


def save_members(path: Path, members: Sequence[Member]) -> Path:
    """Write a block of base classifiers as a file of this name, but for its suffix; where it stands then."""
    packed = stack_bytes(members)
    suffix, other = (BY_SKOPS, STACK) if packed is None else (STACK, BY_SKOPS)
    if packed is None:
        packed = dumped(_state(members))
    write_bytes(path.with_suffix(suffix), packed)
    path.with_suffix(other).unlink(missing_ok=True)
    return path.with_suffix(suffix)


def _state(members: Sequence[Member]) -> list[list[Any]]:
    return [[m.index, m.model, m.codes, m.fallback, list(m.form) if m.form else None, m.failure] for m in members]


def check_reopens(learner: Any, members: Sequence[Member]) -> None:
    """Refuse to keep base classifiers that nobody could open by the types that their learner vouches for."""
    trusted, member = [*OWN_TYPES, *types_of(learner)], next((m for m in members if m.model is not None), None)
    if member is None or stack_bytes([member]) is not None:
        return
    import skops.io as sio

    try:
        for state in (learner, _state([member])):
            if plain_learner(state) is None:
                sio.loads(dumped(state), trusted=trusted)
    except MemoryError:
        raise
    except Exception as error:  # whatever skops and the types that it meets raise
        raise PoisonproofError(
            f"Base classifiers of {type(learner).__name__} cannot be kept, for nobody could open them again "
            f"({' '.join(str(error).split())[:300]}); keep their votes alone by --votes-only, in another --out."
        ) from None


def load_members(path: Path, trusted: Sequence[str] = ()) -> list[Member]:
    """Read a block of base classifiers; refuse types nobody vouched for."""
    if path.suffix == STACK:
        return read_stack(path).members
    return [
        Member(index, model, codes, fallback, None if form is None else _form(form), failure)
        for index, model, codes, fallback, form, failure in load_state(path, trusted)
    ]


def types_of(estimator: Any) -> list[str]:
    """Types in an estimator that skops does not vouch for; who brings it does, but for what calls anything at all."""
    if plain_learner(estimator) is not None:
        return [_type_of(estimator)]
    import skops.io as sio

    names = sio.get_untrusted_types(data=sio.dumps(estimator))
    strange = sys.stdlib_module_names - PLAIN_MODULES
    return [name for name in names if name.partition(".")[0] not in strange]


def unknown_types(path: str | Path, trusted: Sequence[str] = ()) -> list[str]:
    """Types in a file of skops that nobody vouches for."""
    import skops.io as sio

    with reading(path), open_zip(path) as archive:
        check_arrays(archive)
        return sorted(set(sio.get_untrusted_types(file=path)) - {*OWN_TYPES, *trusted})


def load_state(path: str | Path, trusted: Sequence[str] = ()) -> Any:
    """What a file holds, such as an unfitted learner; refuses types nobody vouched for."""
    with reading(path), open_zip(path) as archive:
        if archive.namelist() == [LEARNER]:
            return _learner_of(archive, path)
    if unknown := unknown_types(path, trusted):
        raise _untrusted(path, unknown)
    import skops.io as sio

    with reading(path):
        return sio.load(path, trusted=[*OWN_TYPES, *trusted])


def _untrusted(path: str | Path, types: Sequence[str]) -> UntrustedTypesError:
    return UntrustedTypesError(
        f"{path} holds types that are not known to be safe: {', '.join(map(str, types))}. "
        "If you trust where it comes from, name them in trusted=[…]."
    )


def plain_learner(learner: Any) -> str | None:
    """A learner of ours whose parameters are numbers and words, as JSON; None of any other.

    To import skops takes 2 to 3 CPU seconds: it looks at every estimator that scikit-learn has.
    """
    if _type_of(learner) not in OWN_TYPES or not isinstance(learner, BaseEstimator):
        return None
    state = vars(learner)
    if set(state) != set(learner.get_params(deep=False)) or not all(map(_is_plain, state.values())):
        return None
    return json.dumps({"type": _type_of(learner), "parameters": state})


def _type_of(learner: Any) -> str:
    return f"{type(learner).__module__}.{type(learner).__qualname__}"


def _is_plain(value: Any) -> bool:
    return math.isfinite(value) if type(value) is float else value is None or type(value) in (bool, int, str)


def _learner_of(archive: ZipFile, path: str | Path) -> Any:
    """The learner that `plain_learner` wrote."""
    if archive.getinfo(LEARNER).file_size > LONGEST:
        raise PoisonproofError(f"{LEARNER} is longer than a learner's parameters can be")
    record = json.loads(archive.read(LEARNER))
    if record["type"] not in OWN_TYPES:
        raise _untrusted(path, [record["type"]])
    module, _, name = record["type"].rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    learner = kind(**record["parameters"]) if isinstance(kind, type) and issubclass(kind, BaseEstimator) else None
    if learner is None or plain_learner(learner) != json.dumps(record):
        raise PoisonproofError(f"{record['type']} is no learner with such parameters")
    return learner


def dumped(state: Any) -> bytes:
    """The skops file of a state: the same bytes for the same state, in whatever process and at whatever time.

    skops numbers objects by their address and dates its entries. Here they are numbered as they come, and an
    entry is named by its content. Nothing is shared between objects when they are read back.
    """
    buffer = io.BytesIO()
    if (plain := plain_learner(state)) is not None:
        with ZipFile(buffer, "w") as target:
            target.writestr(ZipInfo(LEARNER), plain, ZIP_DEFLATED)
        return buffer.getvalue()
    import skops.io as sio

    with ZipFile(io.BytesIO(sio.dumps(state))) as source, ZipFile(buffer, "w") as target:
        numbers, written = iter(range(1 << 62)), set()

        def settle(node: Any) -> None:
            if isinstance(node, list):
                for part in node:
                    settle(part)
            elif isinstance(node, dict):
                if "__id__" in node:
                    node["__id__"] = next(numbers)
                if "__loader__" in node and "file" in node:
                    body = source.read(node["file"])
                    node["file"] = hashlib.sha256(body).hexdigest()[:32] + Path(node["file"]).suffix
                    if node["file"] not in written:
                        target.writestr(ZipInfo(node["file"]), body, ZIP_DEFLATED)
                        written.add(node["file"])
                for part in node.values():
                    settle(part)

        schema = json.loads(source.read(SCHEMA))
        settle(schema)
        target.writestr(ZipInfo(SCHEMA), json.dumps(schema), ZIP_DEFLATED)
    return buffer.getvalue()


def _form(form: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(column) if isinstance(column, list | tuple) else column for column in form)
