"""All measures of a campaign as one record: the keys of the published record, curves, frontier, digests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poisonproof.system.machine import environment
from research.paper.measure import at, half
from research.paper.published import NAMES, published_cell
from research.paper.rows import SIZES

Measures = dict[str, Any]
THEOREM = "finite-aggregation"
TENS = (30, 35, 40, 45, 50, 60, 70, 80, 90)


def percent(count: int, total: int) -> float:
    """A share of the test set in percent, to two digits as the paper prints it."""
    return round(100 * count / total, 2)


def sizes_of(row: Measures) -> list[int]:
    """The attack sizes of a row's table: the paper's for its k, divided for a quick look; else round ones up to k/2."""
    divisor = row.get("divisor", 1)
    names = {theirs: ours for ours, theirs in NAMES.items()} | {f"{ours}-quick": ours for ours in NAMES}
    key = names.get(row["dataset"], ""), round(row["k"] * divisor)
    if row["designed"] or key not in SIZES:
        return [1, *(size for size in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if 2 * size <= row["k"])]
    return list(dict.fromkeys(max(1, round(size / divisor)) for size in SIZES[key]))


def told_apart(rows: Sequence[Measures]) -> list[Measures]:
    """The same rows; those that data set, k and d do not tell apart say by ``named`` in what they differ.

    That is the learner, the spread, or the number of training samples, whatever tells all of them apart; otherwise the
    name of the folder.
    """
    alike: dict[tuple[Any, ...], list[Measures]] = {}
    for row in rows:
        alike.setdefault((row["dataset"], row["k"], row["d"]), []).append(row)
    return [{**row, **_named(row, alike[row["dataset"], row["k"], row["d"]])} for row in rows]


def _named(row: Measures, alike: Sequence[Measures]) -> Measures:
    if len(alike) == 1:
        return {}
    ways = (
        lambda one: one.get("asked_learner") or one["learner"],
        lambda one: "designed spread" if one["designed"] else "random spread",
        lambda one: f"{one['n_train']} training samples",
        lambda one: one.get("folder") or one["votes_sha256"][:8],
    )
    tells = next((way for way in ways if len({way(one) for one in alike}) == len(alike)), ways[-1])
    return {"named": str(tells(row))}


def label_of(row: Measures) -> str:
    """d, and what else tells this run from the others."""
    return f"{row['d']}, {row['named']}" if "named" in row else str(row["d"])


def collected(rows: Sequence[Measures], costs: dict[str, Any] | None = None) -> dict[str, Any]:
    """The record of a campaign from the measures of its rows."""
    plain = [row for row in rows if not row["designed"]]
    table = [row for row in plain if published_cell("statistics", row["dataset"], row["k"], row["d"])] or plain
    return {
        "source": "poisonproof paper; percentages of the test set",
        "certified_fraction": [
            {
                **_key(row),
                "attack_size": sizes_of(row),
                "certified_fraction": [_share(row, THEOREM, size) for size in sizes_of(row)],
            }
            for row in table
        ],
        "statistics": [
            {
                **_key(row),
                "clean_accuracy": percent(row["clean"], row["n_test"]),
                "base_accuracy": percent(row["base"], row["n_test"] * row["n_subsets"]),
                "fraction_radius_larger": percent(row["grown"], row["n_test"]),
                "mean_radius_increase": round(row["growth"] / row["grown"], 2) if row["grown"] else 0.0,
                "fraction_tied": percent(row["tied"], row["n_test"]),
            }
            for row in table
        ],
        "certified_accuracy_attack_size_1": [
            {
                **_key(row),
                "clean_accuracy": percent(row["clean"], row["n_test"]),
                "certified_fraction": _share(row, THEOREM, 1),
                "certified_accuracy": percent(row["shared_attack_of_size_1"]["lower"], row["n_test"]),
            }
            for row in table
        ],
        "frontier": {name: frontier([row for row in rows if row["dataset"] == name]) for name in _datasets(rows)},
        "rows": list(rows),
        "costs": costs or {},
        "environment": environment(),
    }


def frontier(rows: Sequence[Measures]) -> dict[str, Any]:
    """At every round attack size the best over all k: plain spreads, plain with run-off, designed; and median radii."""
    largest = max(len(counts) for row in rows for counts in row["certified"].values()) - 1
    plain = [row for row in rows if not row["designed"]]
    sizes = sorted({*(size for size in _round_sizes() if size <= largest), largest})
    return {
        "attack_size": sizes,
        "plain": [best(plain, (THEOREM,), size) for size in sizes],
        "run_off": [best(plain, ("run-off",), size) for size in sizes],
        "designed": [best([row for row in rows if row["designed"]], (THEOREM, "tight"), size) for size in sizes],
        "median_radius": [
            {
                **_key(row),
                "designed": row["designed"],
                "n_subsets": row["n_subsets"],
                "subset_size": round(row["n_train"] / row["k"], 1),
                "method": method,
                "median_radius": half(counts, row["n_test"]),
            }
            for row in rows
            for method, counts in row["certified"].items()
            if method != "dpa-bound"
        ],
    }


def best(rows: Sequence[Measures], methods: Sequence[str], size: int) -> Any:
    """The row and certificate with the largest certified fraction at an attack size; the cheapest among equals."""
    candidates = [
        (at(row["certified"][method], size), -row["d"], -row["n_subsets"], method, row)
        for row in rows
        for method in methods
        if method in row["certified"]
    ]
    if not candidates:
        return None
    count, _, _, method, row = max(candidates, key=lambda entry: entry[:3])
    share = {"certified_fraction": percent(count, row["n_test"]), "method": method}
    return {**share, **_key(row), "n_subsets": row["n_subsets"]}


def _round_sizes() -> list[int]:
    return [*range(1, 10), *(m * 10**e // 10 for e in (1, 2, 3) for m in (10, 12, 15, 18, 20, 22, 24, 26, 28, *TENS))]


def _key(row: Measures) -> dict[str, Any]:
    names = ("dataset", "k", "d", "named")
    return {name: row[name] for name in names if name in row}


def _share(row: Measures, method: str, size: int) -> float:
    return percent(at(row["certified"][method], size), row["n_test"])


def _datasets(rows: Sequence[Measures]) -> list[str]:
    return list(dict.fromkeys(row["dataset"] for row in rows))
