"""Fitted models on disk: skops for the base classifiers, JSON with digests for the rest, no pickle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bezoar.files import read_record, sha256_of, write_record, write_whole
from bezoar.learners.member import Member
from bezoar.premises import Premise
from bezoar.split import Split
from bezoar.spread import Spread
from bezoar.votes import labels_from_json, labels_to_json

FORMAT = "bezoar model 1"
OWN_TYPES = ("bezoar.learners.table.TableClassifier",)
MEMBERS = "members.skops"
RECORD = "model.json"
PLAIN = ("n_features_in_", "n_dropped_", "kind_of_samples_")


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted FiniteAggregationClassifier into a folder."""
    import skops.io as sio

    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "estimator": model.estimator,
        "members": [
            [m.index, m.model, m.codes, m.fallback, list(m.form) if m.form else None, m.failure]
            for m in model.members_
        ],
    }
    write_whole(folder / MEMBERS, lambda file: sio.dump(state, file))
    names = getattr(model, "feature_names_in_", None)
    write_record(
        folder / RECORD,
        {
            "format": FORMAT,
            "members": {"file": MEMBERS, "sha256": sha256_of(folder / MEMBERS)},
            "spread": model.spread_.as_dict(),
            "split": model.split_.as_dict(),
            "classes": labels_to_json(model.classes_),
            "classes_inferred": model.classes is None,
            "feature_names": None if names is None else names.tolist(),
            "subset_sizes": model.subset_sizes_.tolist(),
            "partition_sizes": model.partition_sizes_.tolist(),
            "premises": [[p.what, p.value, p.declared] for p in model.premises_],
            **{name: getattr(model, name) for name in PLAIN},
        },
    )


def load_model(cls: Any, path: str | Path, trusted: Sequence[str]) -> Any:
    """Read what `save_model` wrote; refuse altered files and types nobody vouched for."""
    import skops.io as sio

    folder = Path(path)
    record = read_record(folder / RECORD)
    if record.get("format") != FORMAT:
        raise ValueError(f"{folder} is of format {record.get('format')!r}; this version reads '{FORMAT}'.")
    members = folder / MEMBERS
    if sha256_of(members) != record["members"]["sha256"]:
        raise ValueError(f"{members} is altered or truncated: it does not have the SHA-256 that {RECORD} states.")
    vouched = [*OWN_TYPES, *trusted]
    unknown = sorted(set(sio.get_untrusted_types(file=members)) - set(vouched))
    if unknown:
        raise ValueError(
            f"{members} holds types that are not known to be safe: {', '.join(unknown)}. "
            "If you trust where it comes from, name them in trusted=[…]."
        )
    state = sio.load(members, trusted=vouched)
    spread = Spread.from_dict(record["spread"])
    classes = labels_from_json(record["classes"])
    model = cls(
        state["estimator"],
        spread=spread,
        split=Split.from_dict(record["split"]),
        classes=None if record["classes_inferred"] else classes.tolist(),
    )
    model.spread_, model.split_, model.classes_ = spread, model.split, classes
    model.members_ = [
        Member(index, fitted, codes, fallback, None if form is None else _form(form), failure)
        for index, fitted, codes, fallback, form, failure in state["members"]
    ]
    model.subset_sizes_ = np.array(record["subset_sizes"], np.int64)
    model.partition_sizes_ = np.array(record["partition_sizes"], np.int64)
    model.premises_ = tuple(Premise(*premise) for premise in record["premises"])
    if record["feature_names"] is not None:
        model.feature_names_in_ = np.array(record["feature_names"], object)
    for name in PLAIN:
        setattr(model, name, record[name])
    return model


def _form(form: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(column) if isinstance(column, list | tuple) else column for column in form)
