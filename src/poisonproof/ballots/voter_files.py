"""Models of samples that vote, on disk: a record, the voters as plain arrays, and the map. No pickle.

The file of voters holds the features, the label and a hash of every training sample. Whoever may read the model may
read those; deleting a sample means fitting without it and writing the model again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.ballots.distances import squared_lengths
from poisonproof.ballots.voters import Map, Voters
from poisonproof.core.split import Split
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.premises import PublicMap, from_records, to_records
from poisonproof.system.files import (
    open_arrays,
    read_record,
    reading,
    sha256_of,
    write_arrays,
    write_bytes,
    write_record,
)
from poisonproof.training.model_files import dumped, load_state

FORMAT = "poisonproof voters 2"
RECORD, VOTERS, MAP = "model.json", "voters.npz", "map.skops"
ARRAYS = ("rows", "codes", "hashes", "owners", "places")
PLAIN = ("n_features_in_", "n_dropped_", "kind_of_samples_", "classes_inferred_")
OF_BLOCKS = ("k", "d", "directions", "exponent", "near_share")
PARAMETERS = ("near", "n_neighbors", "class_sizes_from", "one_sided", "voices", "scale", *OF_BLOCKS)


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted model into a folder."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(model.voters_, name) for name in ARRAYS if name != "places"}
    write_arrays(folder / VOTERS, arrays | {"places": model.places_}, {"format": FORMAT})
    features = model.map_.features
    write_bytes(folder / MAP, dumped(features.without_cache() if isinstance(features, PublicMap) else features))
    sizes = getattr(model, "class_sizes", None)
    names = getattr(model, "feature_names_in_", None)
    write_record(
        folder / RECORD,
        {
            "format": FORMAT,
            "type": type(model).__name__,
            "parameters": {name: getattr(model, name) for name in PARAMETERS if name in model.get_params(deep=False)},
            "sizes": None if sizes is None else model.sizes_.tolist(),
            "steps_per_unit": model.map_.scale,
            "classes": labels_to_json(model.classes_),
            "split": model.split_.as_dict(),
            "contributors": [[cell, number] for cell, number in model.contributors_.items()],
            "feature_names": None if names is None else [str(name) for name in names],
            "premises": to_records(model.premises_),
            "files": {name: sha256_of(folder / name) for name in (VOTERS, MAP)},
            **{name: getattr(model, name) for name in PLAIN},
        },
    )


def load_model(cls: Any, path: str | Path, trusted: Sequence[str]) -> Any:
    """Read what `save_model` wrote; refuse altered files and types nobody vouched for."""
    folder = Path(path)
    record = read_record(folder / RECORD)
    check_format(folder, record.get("format"), FORMAT)
    if record.get("type") != cls.__name__:
        raise PoisonproofError(f"{folder} holds a {record.get('type')}; load it with {record.get('type')}.load.")
    with reading(folder / RECORD):
        _check_files(folder, record)
        model = _model_of(record, cls, folder, trusted)
    if isinstance(model.map_.features, PublicMap):
        model.map_.features.check_unchanged()
    return model


def _check_files(folder: Path, record: Mapping[str, Any]) -> None:
    if set(record["files"]) != {VOTERS, MAP}:
        raise DamagedFileError(f"{folder / RECORD} is altered: it states {', '.join(sorted(record['files']))}.")
    for name in record["files"]:
        if sha256_of(folder / name) != record["files"][name]:
            raise DamagedFileError(
                f"{folder / name} is altered or truncated: it does not have the SHA-256 that {RECORD} states."
            )


def _model_of(record: dict[str, Any], cls: Any, folder: Path, trusted: Sequence[str]) -> Any:
    features = load_state(folder / MAP, trusted)
    classes, sizes = labels_from_json(record["classes"]), record["sizes"]
    parameters = dict(record["parameters"])
    if "near" in parameters:  # ballots, of one map or of many
        parameters["class_sizes"] = None if sizes is None else dict(zip(classes.tolist(), sizes, strict=True))
    model = cls(
        features,
        split=Split.from_dict(record["split"]),
        classes=None if record["classes_inferred_"] else classes.tolist(),
        **parameters,
    )
    for name in PLAIN:
        setattr(model, name, record[name])
    model.classes_, model.split_ = classes, model.split
    model.contributors_ = {cell: int(number) for cell, number in record["contributors"]}
    model.premises_ = from_records(record["premises"])
    if record["feature_names"] is not None:
        model.feature_names_in_ = np.array(record["feature_names"], object)
    model.voters_, model.places_ = _voters(folder / VOTERS, len(classes))
    model.map_ = Map(features, float(record["steps_per_unit"]), model.voters_.width)
    model._check_parameters()
    model._check_classes()
    return model


def _voters(path: Path, n_classes: int) -> tuple[Voters, Any]:
    arrays, facts = open_arrays(path, ARRAYS)
    check_format(path, facts.get("format"), FORMAT)
    rows, codes, hashes, owners, places = (arrays[name] for name in ARRAYS)
    whole = rows.ndim == 2 and rows.dtype in (np.int8, np.int16) and hashes.dtype == np.uint64
    whole = whole and all(array.shape == (len(rows),) for array in (codes, hashes, owners))
    whole = whole and all(array.dtype == np.int64 and array.ndim == 1 for array in (codes, owners, places))
    if whole and len(rows):
        whole = 0 <= codes.min() <= codes.max() < n_classes and owners.min() >= 0
        whole = whole and np.array_equal(np.sort(places[places >= 0]), np.arange(len(rows)))
    if not whole:
        raise DamagedFileError(f"{path} is altered: its arrays are no voters'.")
    lengths = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), 4096):
        lengths[start : start + 4096], short = squared_lengths(rows[start : start + 4096])
        if not short.all():
            raise DamagedFileError(f"{path} is altered: it holds features that are too long.")
    return Voters(rows, lengths, codes, hashes, owners), places
