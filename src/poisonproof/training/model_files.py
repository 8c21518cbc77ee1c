"""Fitted models on disk: arrays or skops for the base classifiers, JSON with digests for the rest, no pickle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.subsets import DIGEST_BYTES
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import DamagedFileError, check_format
from poisonproof.learners.inspection import FITTED as ARRIVED
from poisonproof.learners.inspection import public_map_of, without_cache
from poisonproof.premises import from_records, to_records
from poisonproof.system.files import read_record, reading, sha256_of, write_bytes, write_record
from poisonproof.training.engine import engine_named, engine_of
from poisonproof.training.member_files import ESTIMATOR, dumped, load_state

FORMAT = "poisonproof model 2"  # 1: feature maps of images without metric and patches
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
    model.trusted_state = any(premise["code"] == ARRIVED for premise in record["premises"])
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
