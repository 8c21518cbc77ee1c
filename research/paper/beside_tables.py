"""Tables of runs side by side, whoever votes in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from research.paper.beside import Voted, labels, sizes_for
from research.paper.tables import Table

OF_BASE_CLASSIFIERS = {
    "2": "base accuracy and the growth over the DPA bound are of base classifiers",
    "later": "published numbers are of base classifiers",
    "certificates": "other certificates on the same votes are of base classifiers",
}


def side_by_side(runs: Sequence[Voted]) -> list[Table]:
    """One table for each data set: clean, certified by attack size, half; the mean over classes beside each."""
    made = []
    for name in dict.fromkeys(run.dataset for run in runs):
        records = records_of([run for run in runs if run.dataset == name])
        title = (
            f"{name}: certified fraction, % (pointwise), by attack size ({records[0]['unit']}); in brackets the mean "
            f"over classes. A constant answer is right on {records[0]['majority_share']:.2f} % at every size"
        )
        head = ("who votes", "clean", *map(str, records[0]["attack_size"]), "half at")
        made.append(Table(title, head, tuple(_cells(record) for record in records)))
    return made


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    shares = zip(record["certified_fraction"], record["certified_fraction_balanced"], strict=True)
    return (
        record["voters"],
        f"{record['clean_accuracy']:.2f} ({record['balanced_accuracy']:.2f})",
        *(f"{share:.2f} ({balanced:.2f})" for share, balanced in shares),
        _half(record),
    )


def _half(record: dict[str, Any]) -> str:
    return str(record["half_at"]) if record["half_at"] or record["clean_accuracy"] >= 50 else "–"


def records_of(runs: Sequence[Voted]) -> list[dict[str, Any]]:
    """The same as plain values, one record for each run."""
    sizes = sizes_for(runs)
    return [run.record(label, sizes) for run, label in zip(runs, labels(runs), strict=True)]


def statistics_of(runs: Sequence[Voted]) -> list[dict[str, Any]]:
    """What Table 2 states and has a meaning where samples vote."""
    records = []
    for run, label in zip(runs, labels(runs), strict=True):
        names = ("dataset", "method", "voters", "majority_share", "clean_accuracy", "balanced_accuracy")
        record = run.record(label, [1])
        exact = run.certificate.exact
        records.append(
            {name: record[name] for name in names}
            | {"fraction_tied": round(100 * run.tied, 2)}
            | {"fraction_exact": 0.0 if exact is None or not len(exact) else round(100 * float(exact.mean()), 2)}
        )
    return records


def statistics(runs: Sequence[Voted]) -> list[Table]:
    """Table 2 where samples vote."""
    head = ("data set", "who votes", "clean accuracy, %", "balanced, %", "constant answer, %", "tied, %", "exact, %")
    names = ("clean_accuracy", "balanced_accuracy", "majority_share", "fraction_tied", "fraction_exact")
    cells = [
        (record["dataset"], record["voters"], *(f"{record[name]:.2f}" for name in names))
        for record in statistics_of(runs)
    ]
    title = f"Where training samples vote ({OF_BASE_CLASSIFIERS['2']}; exact: a larger radius would be false)"
    return [Table(title, head, tuple(cells))]


def shared_of(runs: Sequence[Voted]) -> list[dict[str, Any]]:
    """One attack of size 1 on all test samples, where a bound is known."""
    records = []
    for run, label in zip(runs, labels(runs), strict=True):
        record, shared = run.record(label, [1]), run.shared_attack(1)
        names = ("dataset", "method", "voters", "clean_accuracy")
        records.append(
            {name: record[name] for name in names}
            | {"certified_fraction": record["certified_fraction"][0]}
            | {"certified_accuracy": None if shared is None else int(10000 * shared + 1e-6) / 100}
        )
    return records


def shared(runs: Sequence[Voted]) -> list[Table]:
    """Table 3 where samples vote."""
    shares_of = ("clean accuracy, %", "certified fraction, % (pointwise)", "certified accuracy, % (one shared attack)")
    head = ("data set", "who votes", *shares_of)
    cells = []
    for record in shared_of(runs):
        accuracy = record["certified_accuracy"]
        shares = (record["clean_accuracy"], record["certified_fraction"])
        cells.append(
            (
                record["dataset"],
                record["voters"],
                *(f"{share:.2f}" for share in shares),
                "–" if accuracy is None else f"{accuracy:.2f}",
            )
        )
    title = "Attack size 1, where training samples vote (one shared attack is bounded for ballots of single samples)"
    return [Table(title, head, tuple(cells))]


def best_of(runs: Sequence[Voted]) -> dict[str, Any]:
    """For each data set, at every round attack size: the run that certifies most, whoever votes in it."""
    by_data_set = {}
    for name in dict.fromkeys(run.dataset for run in runs):
        records = records_of([run for run in runs if run.dataset == name])
        sizes = records[0]["attack_size"]
        best = [max(records, key=lambda record: record["certified_fraction"][at]) for at in range(len(sizes))]
        by_data_set[name] = {
            "attack_size": sizes,
            "certified_fraction": [record["certified_fraction"][at] for at, record in enumerate(best)],
            "certified_fraction_balanced": [
                record["certified_fraction_balanced"][at] for at, record in enumerate(best)
            ],
            "voters": [record["voters"] for record in best],
            "majority_share": records[0]["majority_share"],
            "half_at": {record["voters"]: record["half_at"] for record in records},
        }
    return by_data_set


def frontier(runs: Sequence[Voted]) -> list[Table]:
    """The best at each attack size over all runs."""
    made = []
    for name, best in best_of(runs).items():
        lists = (best[key] for key in ("attack_size", "certified_fraction", "certified_fraction_balanced", "voters"))
        cells = tuple(
            (str(size), f"{share:.2f}", f"{balanced:.2f}", voters)
            for size, share, balanced, voters in zip(*lists, strict=True)
        )
        title = (
            f"{name}: the best certified fraction (pointwise) over these runs; a constant answer is right on "
            f"{best['majority_share']:.2f} %"
        )
        made.append(Table(title, ("attack size", "certified, %", "balanced, %", "by"), cells))
    return made


def medians(runs: Sequence[Voted]) -> list[Table]:
    """Half of the test set."""
    cells = tuple((record["dataset"], record["voters"], _half(record)) for record in records_of(runs))
    title = "The largest attack size at which half of the test set is right and certified"
    return [Table(title, ("data set", "who votes", "attack size"), cells)]
