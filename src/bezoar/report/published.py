"""The best published certified fractions on the data sets that everybody measures on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Published:
    """One published certified fraction (pointwise)."""

    k: int
    attack_size: int
    percent: float
    method: str
    disputed: bool


def published_for(dataset: str, n_test: int, unit: str, k: float) -> tuple[Published, ...]:
    """What may stand beside a run: the same whole test set, attacks counted alike; of the same k if there are any."""
    record = _record()
    if record["test_samples"].get(dataset) != n_test or unit != "training samples":
        return ()
    curves = [curve for curve in record["curves"] if curve["dataset"] == dataset]
    curves = [curve for curve in curves if curve["k"] == k] or curves
    return tuple(
        Published(curve["k"], *cell, curve["disputed"])
        for curve in curves
        for cell in zip(curve["attack_size"], curve["percent"], curve["method"], strict=True)
    )


def sources() -> str:
    """The papers that the methods come from."""
    return str(_record()["sources"])


def why_disputed() -> str:
    """What speaks against the disputed cells."""
    return str(_record()["disputed"])


@cache
def _record() -> Any:
    return json.loads(files("bezoar.report").joinpath("published.json").read_text("utf-8"))
