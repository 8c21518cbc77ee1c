"""The rows of the paper's tables, those of our frontier, and the learners they are run with.

The learners are the presets; each was committed before any of these rows met a test set with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poisonproof.core.certify import Method
from poisonproof.core.spread import Spread
from poisonproof.errors import PoisonproofError
from research.paper.published import NAMES

TABLE: dict[str, dict[int, tuple[int, ...]]] = {
    "mnist": {1200: (1, 8, 16, 32)},
    "cifar10": {50: (1, 5, 8, 16, 32), 250: (1, 3, 5, 8, 16)},
    "gtsrb": {50: (1, 8, 16, 32), 100: (1, 8, 16, 32)},
}
"""k and the values of d, as in the paper's Table 1."""

SIZES: dict[tuple[str, int], tuple[int, ...]] = {
    ("mnist", 1200): (50, 100, 200, 300, 400, 500),
    ("cifar10", 50): (3, 5, 10, 15, 18, 20),
    ("cifar10", 250): (10, 20, 30, 40, 50, 60),
    ("gtsrb", 50): (3, 5, 10, 15, 20, 22, 24),
    ("gtsrb", 100): (5, 10, 15, 20, 25, 30),
}
"""Attack sizes: the paper's, and those that only later work has."""

FRONTIER: dict[str, tuple[int, ...]] = {
    "mnist": (2400, 3000, 4000, 6000),
    "cifar10": (500, 1000),
    "gtsrb": (200, 400),
}
"""Values of k beyond the paper's, with d = 1."""

PLANES: dict[str, tuple[tuple[int, int], ...]] = {
    "mnist": ((4, 286), (4, 714), (4, 1428)),
    "cifar10": ((4, 12), (13, 4), (4, 60), (4, 119), (4, 238)),
    "gtsrb": ((4, 12), (4, 24), (4, 48), (4, 95)),
}
"""Designed spreads near the same values of k: order and number of blocks of `Spread.planes`."""


@dataclass(frozen=True)
class Row:
    """One ensemble on one data set."""

    dataset: str
    k: float
    d: int
    plane: tuple[int, int] | None = None
    rankings: bool = False
    divisor: int = 1
    """What k and attack sizes were divided by, for a quick look."""

    @property
    def name(self) -> str:
        """Name of its folder."""
        return "plane-{}-{}".format(*self.plane) if self.plane else f"k{self.k:g}-d{self.d}"

    @property
    def methods(self) -> tuple[Method, ...]:
        """The certificates besides Theorem 2 that are worth their time on these votes."""
        return (*(("tight",) if self.plane else ()), *(("run-off",) if self.rankings else ()))

    def spread(self) -> Spread:
        """What makes subsets of partitions."""
        return Spread.planes(*self.plane) if self.plane else Spread.random(int(self.k), self.d)


def table_rows(dataset: str, divisor: int = 1) -> list[Row]:
    """The paper's rows. Rankings, for the run-off election, are kept where they are not too many."""
    return [
        Row(dataset, k // divisor, d, None, d == 1 or (dataset, k, d) == ("cifar10", 50, 16), divisor)
        for k, ds in TABLE[dataset].items()
        for d in ds
    ]


def frontier_rows(dataset: str) -> list[Row]:
    """Larger k, and designed spreads."""
    plain = [Row(dataset, k, 1, rankings=dataset == "cifar10") for k in FRONTIER[dataset]]
    spreads = {plane: Spread.planes(*plane) for plane in PLANES[dataset]}
    return [*plain, *(Row(dataset, spread.k, spread.d, plane) for plane, spread in spreads.items())]


def learner_of(dataset: str, name: str | None = None) -> Any:
    """The learner of the rows on a data set, or one by name; `nin` mirrors images on CIFAR-10 only, as in the paper."""
    from poisonproof.learners.presets import is_object_name, load_learner, preset
    from research import learners

    if name is not None and is_object_name(name):
        return load_learner(name)
    if name is not None:
        plain = "nin_mirror" if (name, dataset) == ("nin", "cifar10") else name
        return getattr(learners, plain)() if hasattr(learners, plain) else preset(name)
    return {"mnist": learners.digits, "cifar10": learners.objects, "gtsrb": learners.signs}[dataset]()


def chosen(names: Sequence[str]) -> list[str]:
    """The data sets asked for, in the paper's order."""
    for name in names:
        if name not in NAMES:
            raise PoisonproofError(f"The paper has the data sets {', '.join(NAMES)}. Got '{name}' instead.")
    return [name for name in NAMES if name in names]
