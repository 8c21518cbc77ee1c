"""The paper's tables from a record of results, each cell beside the published one; as text, Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poisonproof.display import in_markdown, shown
from poisonproof.errors import PoisonproofError
from research.paper.published import published, published_cell
from research.paper.results import THEOREM, best, label_of

FORMATS = ("text", "markdown", "latex")
# After the \\ that ends a row, a star or a bracket would belong to it; in braces they are only themselves.
_LATEX = str.maketrans(
    {
        **{char: f"\\{char}" for char in "%&_#${}"},
        **{char: f"{{{char}}}" for char in "[]*"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "–": "--",
    }
)


def in_latex(text: str) -> str:
    """Text as LaTeX that sets it; in a cell of a table too."""
    return shown(text).translate(_LATEX)


@dataclass(frozen=True)
class Table:
    """Cells with a head and a title."""

    title: str
    head: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def rendered(self, form: str) -> str:
        """The table in one of `FORMATS`."""
        if form not in FORMATS:
            raise PoisonproofError(
                f"The format of a table is one of {', '.join(FORMATS)} or json. Got '{form}' instead."
            )
        return {"text": self._text, "markdown": self._markdown, "latex": self._latex}[form]()

    def _text(self) -> str:
        lines = [tuple(map(shown, line)) for line in (self.head, *self.cells)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.head))]
        padded = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([shown(self.title), *padded]) + "\n"

    def _markdown(self) -> str:
        head, *body = [tuple(map(in_markdown, line)) for line in (self.head, *self.cells)]
        lines = [head, ("---",) * len(self.head), *body]
        return "\n".join([f"{in_markdown(self.title)}\n", *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"

    def _latex(self) -> str:
        head, *body = [" & ".join(map(in_latex, line)) + r" \\" for line in (self.head, *self.cells)]
        columns = "r" * len(self.head)
        return "\n".join(
            [
                rf"% {shown(self.title)}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )


def tables(results: dict[str, Any]) -> dict[str, list[Table]]:
    """Tables 1, 2 and 3, best later numbers, the frontier and more certificates, by names that serve as files'."""
    return {
        "table1": _certified_fraction(results),
        "table2": [_statistics(results)],
        "table3": [_certified_accuracy(results)],
        "later": _later(results),
        "frontier": [_frontier(name, frontier) for name, frontier in results["frontier"].items()],
        "medians": [_medians(results)],
        "certificates": _certificates(results),
        "costs": _costs(results),
    }


def _certified_fraction(results: dict[str, Any]) -> list[Table]:
    """Table 1, one for each data set and k: ours, the change against d = 1, and the paper's."""
    made = []
    rows = results["certified_fraction"]
    for dataset, k in dict.fromkeys((row["dataset"], row["k"]) for row in rows):
        of_one_k = [row for row in rows if (row["dataset"], row["k"]) == (dataset, k)]
        base = next((row for row in of_one_k if row["d"] == 1), None)
        cells = []
        for row in of_one_k:
            theirs = published_cell("certified_fraction", dataset, k, row["d"])
            published_at = dict(zip(theirs["attack_size"], theirs["certified_fraction"], strict=True)) if theirs else {}
            line = [label_of(row)]
            for at, (size, value) in enumerate(zip(row["attack_size"], row["certified_fraction"], strict=True)):
                change = "" if base is None or row is base else f" ({value - base['certified_fraction'][at]:+.2f})"
                line.append(f"{value:.2f}{change}" + (f" / {published_at[size]:.2f}" if size in published_at else ""))
            cells.append(tuple(line))
        beside = " / paper" if published_cell("certified_fraction", dataset, k, of_one_k[0]["d"]) else ""
        title = (
            f"{dataset}, k = {k:g}: certified fraction, % (pointwise), by attack size (change against d = 1){beside}"
        )
        made.append(Table(title, ("d", *map(str, of_one_k[0]["attack_size"])), tuple(cells)))
    return made


def _statistics(results: dict[str, Any]) -> Table:
    """Table 2."""
    names = {
        "clean_accuracy": "clean accuracy, %",
        "base_accuracy": "base accuracy, %",
        "fraction_radius_larger": "radius grows, %",
        "mean_radius_increase": "mean growth",
    }
    head = ("data set", "k", "d", *names.values(), "tied, %")
    title = f"Theorem 2 against the DPA bound on the same votes{_beside(results['statistics'])}"
    cells = []
    for row in results["statistics"]:
        theirs = published_cell("statistics", row["dataset"], row["k"], row["d"])
        cells.append(
            (
                *_key(row),
                *(f"{row[name]:.2f}" + (f" / {theirs[name]:.2f}" if theirs else "") for name in names),
                f"{row['fraction_tied']:.2f}",
            )
        )
    return Table(title, head, tuple(cells))


def _certified_accuracy(results: dict[str, Any]) -> Table:
    """Table 3."""
    names = {
        "clean_accuracy": "clean accuracy, %",
        "certified_fraction": "certified fraction, % (pointwise)",
        "certified_accuracy": "certified accuracy, % (one shared attack)",
    }
    cells = []
    for row in results["certified_accuracy_attack_size_1"]:
        theirs = published_cell("certified_accuracy_attack_size_1", row["dataset"], row["k"], row["d"])
        statistics = (f"{row[name]:.2f}" + (f" / {theirs[name]:.2f}" if theirs else "") for name in names)
        cells.append((*_key(row), *statistics))
    title = f"Attack size 1{_beside(results['certified_accuracy_attack_size_1'])}"
    return Table(title, ("data set", "k", "d", *names.values()), tuple(cells))


def _beside(rows: Sequence[dict[str, Any]]) -> str:
    """What to add to a title if published numbers stand beside ours."""
    known = any(published_cell("statistics", row["dataset"], row["k"], row["d"]) for row in rows)
    return "; ours / paper" if known else ""


def _later(results: dict[str, Any]) -> list[Table]:
    """The best later numbers, disputed ones apart, beside the best of ours at the same k."""
    record = published()["run_off_election_and_boosted"]
    lines = [(row, row["value"], row["method"]) for row in record["best_published"]]
    lines += [
        (row, row["certified_fraction"], [f"{row['method']} d={row['d']} (disputed)"] * len(row["attack_size"]))
        for row in record["suspect"]["rows"]
    ]
    cells = []
    for row, values, methods in lines:
        same = (row["dataset"], row["k"])
        of_one_k = [ours for ours in results["rows"] if not ours["designed"] and (ours["dataset"], ours["k"]) == same]
        for size, value, method in zip(row["attack_size"], values, methods, strict=True):
            for certificate in (THEOREM, "run-off"):
                ours = best(of_one_k, (certificate,), size)
                if ours is not None:
                    share = ours["certified_fraction"]
                    words = f"{certificate}, d = {ours['d']}"
                    cell = (row["dataset"], str(row["k"]), str(size), f"{share:.2f}", words, f"{value:.2f}", method)
                    cells.append((*cell, f"{share - value:+.2f}"))
    head = ("data set", "k", "attack size", "ours, %", "by", "published, %", "by", "difference")
    return (
        [Table("The best published certified fraction (pointwise) at the same k", head, tuple(cells))] if cells else []
    )


def _frontier(name: str, frontier: dict[str, Any]) -> Table:
    kinds = ("plain", "run_off", "designed")
    bests = zip(*(frontier[kind] for kind in kinds), strict=True)
    cells = [
        (str(size), *(cell for best in bests_at_size for cell in _choice(best)))
        for size, bests_at_size in zip(frontier["attack_size"], bests, strict=True)
    ]
    head = ("attack size", "plain, %", "with", "run-off, %", "with", "designed, %", "with")
    return Table(f"{name}: the best certified fraction (pointwise) over all k", head, tuple(cells))


def _choice(best: Any) -> tuple[str, str]:
    if best is None or best["certified_fraction"] == 0:
        return "–", "–"
    return f"{best['certified_fraction']:.2f}", f"k = {best['k']:.4g}, d = {best['d']}"


def _medians(results: dict[str, Any]) -> Table:
    cells = [
        (
            *_key(row),
            "designed" if row["designed"] else "random",
            f"{row['n_subsets']:,} × {row['subset_size']:g}",
            row["method"],
            str(row["median_radius"]),
        )
        for frontier in results["frontier"].values()
        for row in frontier["median_radius"]
    ]
    head = ("data set", "k", "d", "spread", "base classifiers × samples", "certificate", "attack size")
    return Table("The largest attack size at which half of the test set is right and certified", head, tuple(cells))


def _certificates(results: dict[str, Any]) -> list[Table]:
    """Mean radii by several certificates on the same votes."""
    cells = []
    for row in results["rows"]:
        theorem = row["mean_radius"][THEOREM]
        for method, mean in row["mean_radius"].items():
            if method != THEOREM:
                spread = "designed" if row["designed"] else "random"
                cost = 1000 * row["cpu_seconds_to_certify"][method] / row["n_test"]
                gain = f"{100 * (mean / theorem - 1):+.1f}" if theorem else "–"
                cells.append((*_key(row), spread, method, f"{theorem:.2f}", f"{mean:.2f}", gain, f"{cost:.2f}"))
    head = ("data set", "k", "d", "spread", "certificate", "Theorem 2", "mean radius", "gain, %", "ms per sample")
    return [Table("Mean radius of all predictions, on the same votes", head, tuple(cells))] if cells else []


def _costs(results: dict[str, Any]) -> list[Table]:
    """What the rows of each data set took together, one line for each time some were run."""
    cells = [
        (
            dataset,
            str(len(cost["rows"])),
            f"{cost['cpu_seconds_of_process']:.0f}",
            *(f"{cost['wall_seconds'].get(part, 0):.0f}" for part in ("features", "train", "kernel and vote")),
            f"{cost['peak_memory_gb']:.1f}",
        )
        for dataset, costs_of_set in results["costs"].items()
        for cost in costs_of_set
    ]
    head = ("data set", "rows", "CPU, s", "features, s", "training, s", "kernel and votes, s", "peak memory, GB")
    return [Table("CPU time of the whole, and wall time of its parts", head, tuple(cells))] if cells else []


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["dataset"], f"{row['k']:.5g}", label_of(row)


def joined(made: Sequence[Table], form: str) -> str:
    """Several tables one after the other."""
    return "\n".join(table.rendered(form) for table in made)
