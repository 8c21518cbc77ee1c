"""Fitted models on disk: arrays or skops for the base classifiers, JSON with digests for the rest, no pickle.

The same bytes for the same state. Base classifiers that can be stacked (`poisonproof.training.stacked`) are saved as
arrays that are mapped when they are opened, all others by skops.
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

import numpy as np
from sklearn.base import BaseEstimator

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.subsets import DIGEST_BYTES
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.learners.inspection import FITTED, public_map_of, without_cache
from poisonproof.premises import from_records, to_records
from poisonproof.system.archives import check_arrays, open_zip
from poisonproof.system.files import read_record, reading, sha256_of, write_bytes, write_record
from poisonproof.training.engine import Member, engine_named, engine_of
from poisonproof.training.stacked import read_stack, stack_bytes

ESTIMATOR = "estimator.skops"
OWN_TYPES = registry.trusted_types()
LEARNER, SCHEMA = "learner.json", "schema.json"
LONGEST = 1 << 16
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
            f"({' '.join(str(error).split())[:300]}); keep their votes alone by --votes-only, in another --out.",
            code="learner.unpicklable",
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


FORMAT = "poisonproof model 3"
RECORD = "model.json"
PLAIN = ("n_features_in_", "n_dropped_", "kind_of_samples_")


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted FiniteAggregationClassifier into a folder."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    engine_of(model.estimator_).save(model.members_, folder, model.subset_digests_)
    save_model_record(model, folder)


def save_model_record(model: Any, folder: Path) -> None:
    """Write all of a model but its base classifiers, and the digests of the files that hold them."""
    names = getattr(model, "feature_names_in_", None)
    learner = without_cache(model.estimator_)
    write_bytes(folder / ESTIMATOR, dumped(learner))
    engine = engine_of(learner)
    files = [ESTIMATOR, *engine.files(len(model.subset_sizes_), folder)]
    write_record(
        folder / RECORD,
        {
            "format": FORMAT,
            **({"pooled": True} if engine.pooled else {}),
            "files": {name: sha256_of(folder / name) for name in files},
            "spread": model.spread_.as_dict(),
            "split": model.split_.as_dict(),
            "classes": labels_to_json(model.classes_),
            "classes_inferred": model.classes_inferred_,
            "feature_names": None if names is None else names.tolist(),
            "subset_sizes": model.subset_sizes_.tolist(),
            "partition_sizes": model.partition_sizes_.tolist(),
            "subset_digests": model.subset_digests_.tobytes().hex(),
            "premises": to_records(model.premises_),
            **{name: getattr(model, name) for name in PLAIN},
        },
    )


def load_model(cls: Any, path: str | Path, trusted: Sequence[str]) -> Any:
    """Read what `save_model` wrote; refuse altered files and types nobody vouched for."""
    folder = Path(path)
    record = read_record(folder / RECORD)
    check_format(folder, record.get("format"), FORMAT)
    with reading(folder / RECORD):
        model = _model_of(record, cls, folder, trusted)
    if (public := public_map_of(model.estimator)) is not None:
        public.check_unchanged()
    return model


def _model_of(record: dict[str, Any], cls: Any, folder: Path, trusted: Sequence[str]) -> Any:
    engine, n_subsets = engine_named(pooled=bool(record.get("pooled"))), len(record["subset_sizes"])
    if list(record["files"]) != [ESTIMATOR, *engine.files(n_subsets, folder)]:
        raise DamagedFileError(f"{folder / RECORD} is altered: it does not list the files of a model.")
    for name, stated in record["files"].items():
        if sha256_of(folder / name) != stated:
            raise DamagedFileError(
                f"{folder / name} is altered or truncated: it does not have the SHA-256 that {RECORD} states."
            )
    spread = Spread.from_dict(record["spread"])
    classes = labels_from_json(record["classes"])
    model = cls(
        load_state(folder / ESTIMATOR, trusted),
        spread=spread,
        split=Split.from_dict(record["split"]),
        classes=None if record["classes_inferred"] else classes.tolist(),
    )
    model.trusted_state = any(premise["code"] == FITTED for premise in record["premises"])
    model.spread_, model.split_, model.classes_, model.estimator_ = spread, model.split, classes, model.estimator
    model.classes_inferred_ = record["classes_inferred"]
    model.members_ = engine.load(folder, n_subsets, model.estimator, len(classes), trusted)
    if len(model.members_) != n_subsets:
        raise DamagedFileError(f"{folder} does not hold one base classifier for each subset.")
    model.subset_sizes_ = np.array(record["subset_sizes"], np.int64)
    model.partition_sizes_ = np.array(record["partition_sizes"], np.int64)
    digests = np.frombuffer(bytes.fromhex(record["subset_digests"]), np.uint8)
    model.subset_digests_ = digests.reshape(len(model.subset_sizes_), DIGEST_BYTES)
    model.premises_ = from_records(record["premises"])
    if record["feature_names"] is not None:
        model.feature_names_in_ = np.array(record["feature_names"], object)
    for name in PLAIN:
        setattr(model, name, record[name])
    return model
