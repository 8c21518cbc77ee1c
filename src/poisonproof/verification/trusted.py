"""What trusted rows are said to have shaped, computed again: units and centres of a table's columns, class sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from poisonproof.verification.verdict import NotTrueError

SIZES = ", for trusted:"
OWN_UNIT = 1.35  # of a normal distribution the middle half is so many standard deviations wide


def shaped_by_trusted(election: dict[str, Any], trusted: Any) -> str:
    """The columns of the map, if it says it is of trusted rows, and the class sizes follow from the rows at hand.

    Their number and digest are a premise, which is compared with the rows by itself.
    """
    parts = []
    features = election["map"]
    if features["name"] == "table" and " trusted rows, SHA-256 " in str(features.get("origin")):
        for column in (column for column in features["columns"] if "unit" in column):
            unit, centre = _unit_and_centre(_values(trusted.X, column["name"], features.get("names")))
            if not (math.isclose(unit, column["unit"], rel_tol=1e-9) and _same(centre, column["centre"])):
                raise NotTrueError(
                    f"the column '{column['name']}' is said to be counted in units of {column['unit']:g} from "
                    f"{column['centre']:g}, but the trusted rows give {unit:g} from {centre:g}."
                )
        parts.append(f"units of {len(features['columns'])} columns")
    _, stated, total = str(election.get("class_sizes_from")).partition(SIZES)
    if stated:
        counts = Counter(map(str, trusted.y))
        sizes = {str(label): size for label, size in election["class_sizes"]}
        right = {label: counts[label] * int(total) // sum(counts.values()) for label in sizes}
        if sizes != right:
            raise NotTrueError(f"the class sizes are stated as {sizes}, but the trusted labels give {right}.")
        parts.append("class sizes")
    return f"{' and '.join(parts) or 'nothing'} follow from {len(trusted)} trusted rows."


def _values(rows: Any, name: Any, names: Sequence[Any] | None) -> list[float]:
    column = rows[name].tolist() if hasattr(rows, "columns") else np.asarray(rows)[:, list(names or ()).index(name)]
    return sorted(float(value) for value in column if value is not None and not math.isnan(float(value)))


def _unit_and_centre(values: list[float]) -> tuple[float, float]:
    if not values:
        return 1.0, 0.0
    low, middle, high = (_quantile(values, share) for share in (0.25, 0.5, 0.75))
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return (high - low) / OWN_UNIT or deviation or 1.0, middle


def _quantile(values: list[float], share: float) -> float:
    place = share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
