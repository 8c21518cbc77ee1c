"""Fitted models on disk: skops for the base classifiers, JSON with digests for the rest, no pickle."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np

from poisonproof.errors import DamagedFileError, check_format
from poisonproof.learners.arrived import PREMISE as ARRIVED
from poisonproof.partition.split import Split
from poisonproof.partition.spread import Spread
from poisonproof.partition.subsets import DIGEST_BYTES
from poisonproof.premises import Premise
from poisonproof.system.archives import check_arrays, open_zip
from poisonproof.system.files import read_record, reading, sha256_of, write_bytes, write_record
from poisonproof.training.member import Member
from poisonproof.training.pooled import PooledMembers, is_pooled
from poisonproof.training.pooled_files import POOLED_FILES, load_pooled, save_pooled
from poisonproof.votes.votes import labels_from_json, labels_to_json

FORMAT = "poisonproof model 2"  # 1: feature maps of images without metric and patches
ESTIMATOR = "estimator.skops"
OWN_TYPES = (
    "poisonproof.learners.table.TableClassifier",
    "poisonproof.learners.text.TextClassifier",
    "poisonproof.learners.words.BayesTextClassifier",
    "poisonproof.learners.words.RidgeTextClassifier",
    "poisonproof.learners.trees.TreesClassifier",
    "poisonproof.learners.auto.AutoClassifier",
    "poisonproof.learners.seed_averaged.SeedAveragedClassifier",
    "poisonproof.learners.kernel_ridge.KernelRidgeClassifier",
    "poisonproof.maps.digits.DigitFeatures",
    "poisonproof.maps.hand.Hand",
    "poisonproof.maps.objects.Bank",
    "poisonproof.maps.objects.Colours",
    "poisonproof.maps.objects.ObjectFeatures",
    "poisonproof.maps.signs.SignFeatures",
    "poisonproof.maps.vectors.VectorFeatures",
    "poisonproof.learners.network.TorchClassifier",
    "poisonproof.learners.network_in_network.network_in_network",
)
RECORD = "model.json"
MEMBERS_PER_FILE = 64
PLAIN = ("n_features_in_", "n_dropped_", "kind_of_samples_")


class UntrustedTypesError(DamagedFileError):
    """A model that holds types nobody vouched for."""


def members_file(block: int) -> str:
    """The name of the file that holds a block of base classifiers."""
    return f"members-{block:05d}.skops"


def save_members(path: str | Path, members: Sequence[Member]) -> None:
    """Write a block of base classifiers."""
    state = [[m.index, m.model, m.codes, m.fallback, list(m.form) if m.form else None, m.failure] for m in members]
    write_bytes(path, _dumped(state))


def load_members(path: str | Path, trusted: Sequence[str] = ()) -> list[Member]:
    """Read a block of base classifiers; refuse types nobody vouched for."""
    return [
        Member(index, model, codes, fallback, None if form is None else _form(form), failure)
        for index, model, codes, fallback, form, failure in _load(path, trusted)
    ]


def types_of(estimator: Any) -> list[str]:
    """Types in an estimator that skops does not vouch for; who brings the estimator does."""
    import skops.io as sio

    return list(sio.get_untrusted_types(data=sio.dumps(estimator)))


def load_learner(path: str | Path, trusted: Sequence[str] = ()) -> Any:
    """The unfitted learner of a saved model; refuses types nobody vouched for."""
    return _load(path, trusted)


def _load(path: str | Path, trusted: Sequence[str]) -> Any:
    import skops.io as sio

    vouched = [*OWN_TYPES, *trusted]
    with reading(path), open_zip(path) as archive:
        check_arrays(archive)
        unknown = sorted(set(sio.get_untrusted_types(file=path)) - set(vouched))
    if unknown:
        raise UntrustedTypesError(
            f"{path} holds types that are not known to be safe: {', '.join(unknown)}. "
            "If you trust where it comes from, name them in trusted=[…]."
        )
    with reading(path):
        return sio.load(path, trusted=vouched)


def _dumped(state: Any) -> bytes:
    """The skops file of a state: the same bytes for the same state, in whatever process and at whatever time.

    skops numbers objects by their address and dates its entries. Here they are numbered as they come, and an
    entry is named by its content. Nothing is shared between objects when they are read back.
    """
    import skops.io as sio

    buffer = io.BytesIO()
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

        schema = json.loads(source.read("schema.json"))
        settle(schema)
        target.writestr(ZipInfo("schema.json"), json.dumps(schema), ZIP_DEFLATED)
    return buffer.getvalue()


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted FiniteAggregationClassifier into a folder."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model.members_, PooledMembers):
        save_pooled(folder, model.members_, model.subset_digests_)
    else:
        for block, start in enumerate(range(0, len(model.members_), MEMBERS_PER_FILE)):
            save_members(folder / members_file(block), model.members_[start : start + MEMBERS_PER_FILE])
    save_model_record(model, folder)


def save_model_record(model: Any, folder: Path) -> None:
    """Write all of a model but its base classifiers, and the digests of the files that hold them."""
    names = getattr(model, "feature_names_in_", None)
    write_bytes(folder / ESTIMATOR, _dumped(model.estimator))
    pooled = is_pooled(model.estimator)
    files = model_files(len(model.subset_sizes_), pooled)
    write_record(
        folder / RECORD,
        {
            "format": FORMAT,
            **({"pooled": True} if pooled else {}),
            "files": {name: sha256_of(folder / name) for name in files},
            "spread": model.spread_.as_dict(),
            "split": model.split_.as_dict(),
            "classes": labels_to_json(model.classes_),
            "classes_inferred": model.classes is None,
            "feature_names": None if names is None else names.tolist(),
            "subset_sizes": model.subset_sizes_.tolist(),
            "partition_sizes": model.partition_sizes_.tolist(),
            "subset_digests": model.subset_digests_.tobytes().hex(),
            "premises": [[p.what, p.value, p.declared] for p in model.premises_],
            **{name: getattr(model, name) for name in PLAIN},
        },
    )


def load_model(cls: Any, path: str | Path, trusted: Sequence[str]) -> Any:
    """Read what `save_model` wrote; refuse altered files and types nobody vouched for."""
    folder = Path(path)
    record = read_record(folder / RECORD)
    check_format(folder, record.get("format"), FORMAT)
    with reading(folder / RECORD):
        return _model_of(record, cls, folder, trusted)


def _model_of(record: dict[str, Any], cls: Any, folder: Path, trusted: Sequence[str]) -> Any:
    pooled = bool(record.get("pooled"))
    if list(record["files"]) != model_files(len(record["subset_sizes"]), pooled):
        raise DamagedFileError(f"{folder / RECORD} is altered: it does not list the files of a model.")
    for name, stated in record["files"].items():
        if sha256_of(folder / name) != stated:
            raise DamagedFileError(
                f"{folder / name} is altered or truncated: it does not have the SHA-256 that {RECORD} states."
            )
    spread = Spread.from_dict(record["spread"])
    classes = labels_from_json(record["classes"])
    model = cls(
        _load(folder / ESTIMATOR, trusted),
        spread=spread,
        split=Split.from_dict(record["split"]),
        classes=None if record["classes_inferred"] else classes.tolist(),
    )
    model.trusted_state = any(what == ARRIVED for what, *_ in record["premises"])
    model.spread_, model.split_, model.classes_ = spread, model.split, classes
    if pooled:
        model.members_ = load_pooled(folder, model.estimator, len(classes))
    else:
        files = [name for name in record["files"] if name != ESTIMATOR]
        model.members_ = [member for name in files for member in load_members(folder / name, trusted)]
    if len(model.members_) != len(record["subset_sizes"]):
        raise DamagedFileError(f"{folder} does not hold one base classifier for each subset.")
    model.subset_sizes_ = np.array(record["subset_sizes"], np.int64)
    model.partition_sizes_ = np.array(record["partition_sizes"], np.int64)
    digests = np.frombuffer(bytes.fromhex(record["subset_digests"]), np.uint8)
    model.subset_digests_ = digests.reshape(len(model.subset_sizes_), DIGEST_BYTES)
    model.premises_ = tuple(Premise(*premise) for premise in record["premises"])
    if record["feature_names"] is not None:
        model.feature_names_in_ = np.array(record["feature_names"], object)
    for name in PLAIN:
        setattr(model, name, record[name])
    return model


def model_files(n_subsets: int, pooled: bool = False) -> list[str]:
    """The files of a model, so that no record can name others."""
    if pooled:
        return [ESTIMATOR, *POOLED_FILES]
    return [ESTIMATOR, *(members_file(block) for block in range(-(-n_subsets // MEMBERS_PER_FILE)))]


def _form(form: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(column) if isinstance(column, list | tuple) else column for column in form)
