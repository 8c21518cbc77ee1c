"""The best published certified fractions on the data sets that everybody measures on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SOURCES = "FA: Finite Aggregation, ICML 2022, Tables 1-3. DPA*, ROE: Run-Off Election, ICML 2023, Tables 1-3."
WHY_DISPUTED = (
    "These cells jump by 5-21 points from d=16 to d=32 where nothing else moves by more than 0.7; nobody we found "
    "reproduced them."
)
TEST_SAMPLES = {"mnist": 10_000, "cifar10": 10_000, "gtsrb": 12_630}


@dataclass(frozen=True)
class Published:
    """One published certified fraction (pointwise)."""

    k: int
    attack_size: int
    percent: float
    method: str
    disputed: bool


def published_for(dataset: str, n_test: int, unit: str, k: float | None) -> tuple[Published, ...]:
    """What may stand beside a run: the same whole test set, attacks counted alike; of the same k if there are any."""
    if TEST_SAMPLES.get(dataset) != n_test or unit != "training samples":
        return ()
    record = published()["run_off_election_and_boosted"]
    cells = [
        Published(row["k"], *cell, disputed=False)
        for row in record["best_published"]
        if row["dataset"] == NAMES[dataset]
        for cell in zip(row["attack_size"], row["value"], row["method"], strict=True)
    ]
    doubted: dict[tuple[int, int], Published] = {}
    for row in record["suspect"]["rows"]:
        for size, value in zip(row["attack_size"], row["certified_fraction"], strict=True):
            best = doubted.get((row["k"], size))
            if row["dataset"] == NAMES[dataset] and (best is None or value > best.percent):
                name = f"{row['method']} d={row['d']}"
                doubted[row["k"], size] = Published(row["k"], size, value, name, disputed=True)
    cells += doubted.values()
    return tuple([cell for cell in cells if cell.k == k] or cells)


@cache
def published() -> Any:
    """The paper's numbers and the best later ones, in percent."""
    return json.loads(files("research.paper").joinpath("published.json").read_text("utf-8"))


def published_cell(table: str, dataset: str, k: float, d: int) -> Any:
    """The published row of a table, or None."""
    matching = [row for row in published()[table] if (row["dataset"], row["k"], row["d"]) == (dataset, k, d)]
    return matching[0] if matching else None


NAMES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "gtsrb": "GTSRB"}
"""Our name of each data set, and the paper's."""
