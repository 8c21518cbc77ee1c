"""What a run came to: in a few lines, and as report.html, one file that opens without a network and keeps what it was
given as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from markupsafe import escape
from numpy.typing import NDArray

from poisonproof.core.certificate import UNSEEN, attack_sizes
from poisonproof.core.certify import Certificate, median_radii_against_targets
from poisonproof.core.metrics import UNSEEN_LABEL, Caution, ClassShare
from poisonproof.display import histogram, own_source, percent, render_page, shown, shown_lines, stairs, survival, ticks
from poisonproof.errors import PoisonproofError
from poisonproof.runs.manifest import Manifest
from poisonproof.runs.run import REPORT, Outcome, only_writer
from poisonproof.samples.convert import take_rows, to_samples
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples, TextSamples
from poisonproof.samples.schema import FEATURES
from poisonproof.system.files import sha256_of, write_bytes

MOST_TARGETS = 100  # classes beyond which the page does not certify against each of them
MOST_MISTAKES = 15
TITLES = {
    "finite-aggregation": "Theorem 2 (Finite Aggregation)",
    "dpa-bound": "DPA's bound on the same votes",
    "tight": "tight: overlap counted once",
    "run-off": "run-off election",
}


@dataclass(frozen=True)
class ClassRow:
    """One class of the test set; ``radii`` counts its right predictions by radius.

    ``target`` is the median radius of the predictions of other classes against being turned to this one.
    """

    name: str
    n: int
    right: int
    certified: int
    median: int | None
    radii: tuple[tuple[int, int], ...]
    target: int | None


def write_report(outcome: Outcome) -> Path:
    """Write ``report.html`` into the run's folder, and its digest into the manifest: it may go, but not change."""
    path, written = outcome.folder / REPORT, page(outcome).encode("utf-8", "replace")
    if outcome.manifest.files is None:  # no run that was written
        write_bytes(path, written)
        return path
    with only_writer(outcome.folder):
        manifest = Manifest.read(outcome.folder)
        if {**(manifest.files or {}), REPORT: ""} != {**outcome.manifest.files, REPORT: ""}:
            raise PoisonproofError(
                f"{outcome.folder} was changed meanwhile; the report is that of who changed it.", code="run.changed"
            )
        write_bytes(path, written)
        manifest.but(files={**outcome.manifest.files, REPORT: sha256_of(path)}).write(outcome.folder)
    return path


def page(outcome: Outcome) -> str:
    """The whole report as HTML. Names, labels and cells are data: they are escaped wherever they stand."""
    certificate, manifest, figures = outcome.certificate, outcome.manifest, outcome.figures
    right, size = figures.right, headline_size(outcome)
    classes = class_rows(outcome, size)
    filled = [row for row in classes if row.n]
    shelves = gallery(outcome)
    others = outcome.election.others(outcome.votes, certificate)
    strongest = int(certificate.radius.max(initial=0))
    top = 1 + max(strongest, size, *(int(other.radius.max(initial=0)) for other in others))
    sizes = sorted({*attack_sizes(certificate), size})
    summary = Summary(outcome, sizes)
    balanced = figures.certified_fraction_balanced(np.arange(top + 1))
    script, partitions = own_source("page.js"), outcome.partition_sizes
    return render_page(
        "page.html.j2",
        outcome=outcome,
        certificate=certificate,
        manifest=manifest,
        figures=figures,
        dataset=manifest.settings.name,
        unit={"one": certificate.unit.removesuffix("s"), "many": certificate.unit},
        n=len(certificate),
        size=size,
        top=top,
        strongest=strongest,
        right=int(right.sum()),
        held={at: int((right & (certificate.radius >= at)).sum()) for at in (size, 1)},
        summary=summary,
        remedy=summary.remedy.capitalize(),
        balanced=balanced,
        median=_median(certificate.radius),
        ticks=ticks(top),
        curve=survival(certificate.radius[right], len(certificate), top),
        balanced_curve=stairs(balanced),
        method=title_of(certificate),
        others=[_curve(other, outcome.y_test, sizes, top) for other in others],
        mistakes=mistakes(outcome),
        bars=histogram({"right": certificate.radius[right], "wrong": certificate.radius[~right]}, top, "radius"),
        classes=classes,
        most_targets=MOST_TARGETS,
        worst=min(filled, key=lambda row: row.certified / row.n),
        best=max(filled, key=lambda row: row.certified / row.n),
        shelves=shelves,
        sizes=list(zip(sizes, summary.certified, summary.balanced, strict=True)),
        planned=beside_plan(outcome),
        partitions=partitions,
        partition_median=None if partitions is None else _median(partitions),
        voters=certificate.voters,
        electorate=outcome.election.whose_votes(certificate),
        manifest_text=escape(shown_lines(json.dumps(manifest.as_dict(), indent=1, ensure_ascii=False))),
        data={
            "size": size,
            "top": top,
            "n": len(certificate),
            "wrong": int((~right).sum()),
            "labels": len(summary.by_class),
            "unit": certificate.unit,
            "unseen": UNSEEN,
            "classes": [{"n": row.n, "radii": row.radii} for row in classes],
            "tiles": [
                {name: value for name, value in tile.items() if name not in ("picture", "brief")}  # which stand already
                for shelf in shelves
                for tile in shelf["tiles"]
            ],
        },
        style=own_source("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _median(numbers: NDArray[np.int64]) -> int:
    return int(np.percentile(numbers, 50, method="lower"))


def class_rows(outcome: Outcome, size: int) -> list[ClassRow]:
    """What the test samples of each class came to, in the order of the classes; unseen labels, if any, stand last."""
    certificate, truth = outcome.certificate, outcome.figures.truth
    targets: dict[int, int | None] = {}
    if len(certificate.classes) <= MOST_TARGETS:
        targets = dict(enumerate(median_radii_against_targets(outcome.votes, certificate)))
    rows = []
    for code, name in enumerate(outcome.figures.labels):
        of_class = truth == code
        radii = certificate.radius[of_class & (certificate.prediction == code)]
        counted = zip(*(part.tolist() for part in np.unique(radii, return_counts=True)), strict=True)
        median = _median(certificate.radius[of_class]) if of_class.any() else None
        held = int((radii >= size).sum())
        target = targets.get(code)
        rows.append(ClassRow(str(name), int(of_class.sum()), len(radii), held, median, tuple(counted), target))
    return rows


def mistakes(outcome: Outcome) -> list[dict[str, Any]]:
    """Which class is most often taken for which: how often, of how many, and the largest radius of these."""
    certificate, figures = outcome.certificate, outcome.figures
    wrong = ~figures.right
    pairs, counts = np.unique(
        np.column_stack([figures.truth, certificate.prediction])[wrong], axis=0, return_counts=True
    )
    found = []
    for at in np.argsort(-counts, kind="stable")[:MOST_MISTAKES].tolist():
        true, predicted = pairs[at].tolist()
        of_pair = wrong & (figures.truth == true) & (certificate.prediction == predicted)
        found.append(
            {
                "truth": str(figures.labels[true]),
                "prediction": str(certificate.classes[predicted]),
                "count": int(counts[at]),
                "n": int((figures.truth == true).sum()),
                "firmest": int(certificate.radius[of_pair].max()),
            }
        )
    return found


# Other certificates on the same votes


def title_of(certificate: Certificate) -> str:
    """The method of a certificate, in words."""
    if certificate.method == "finite-aggregation" and certificate.ensemble.d == 1:
        return "Theorem 1 (DPA, d = 1)"
    return TITLES.get(certificate.method, certificate.method)


def _curve(other: Certificate, y: NDArray[Any], sizes: list[int], top: int) -> dict[str, Any]:
    figures = other.evaluate(y)
    return {
        "title": title_of(other),
        "path": stairs(figures.certified_fraction(np.arange(top + 1))),
        "shares": figures.certified_fraction(sizes).tolist(),
    }


# The test samples that a report shows, and what it shows of each

Cell = tuple[str, str]
PARTS = ("prediction", "true label", "runner-up")
LARGEST_SIDE, SMALLEST_SIDE = 64, 5
MOST_CELLS = 30
MOST_CLASSES = 10
LONGEST_CELL, LONGEST_TEXT, LONGEST_BRIEF = 300, 2000, 240


@dataclass(frozen=True)
class Limits:
    """How many samples each shelf of the gallery may hold."""

    ends: int
    between: int
    wrong: int


PICTURES = Limits(ends=16, between=48, wrong=24)
ROWS = Limits(ends=5, between=12, wrong=8)


def gallery(outcome: Outcome) -> list[dict[str, Any]]:
    """A limited choice that anyone would make again: the weakest, the strongest, those between, and the wrong.

    Shelves with a title and a sentence about it; the tiles say how a test sample looks, what was predicted and how
    firmly, and its votes: (class, count, its parts).
    """
    certificate, figures, dataset = outcome.certificate, outcome.figures, outcome.manifest.settings.name
    X = outcome.x_test.tocsr() if sp.issparse(outcome.x_test) else outcome.x_test
    limits = ROWS if pixels(take_rows(X, [0]), dataset) is None else PICTURES
    chosen = choose(certificate.radius, figures.right, limits)
    rows = np.concatenate([rows for _, _, rows in chosen])
    samples = None if outcome.test is None else outcome.test.subset(rows)
    looks = dict(zip(rows.tolist(), _looks(take_rows(X, rows), dataset, samples, _columns(outcome)), strict=True))
    names = [*(shown(str(name)) for name in certificate.classes.tolist()), UNSEEN]
    counts_of = dict(zip(rows.tolist(), outcome.election.tallied(outcome.votes, rows), strict=True))
    truth = np.where(figures.truth < len(certificate.classes), figures.truth, UNSEEN_LABEL)

    def tile(row: int) -> dict[str, Any]:
        codes = tuple(int(a[row]) for a in (certificate.prediction, truth, certificate.runner_up))
        counts, (picture, cells) = counts_of[row], looks[row]
        cells = tuple((shown(name), shown(value)) for name, value in cells)
        order = np.argsort(-counts[:-1], kind="stable").tolist()
        listed = [c for at, c in enumerate(order) if (at < MOST_CLASSES and counts[c]) or c in codes]
        tags = {code: [part for part, of in zip(PARTS, codes, strict=True) if of == code] for code in listed}
        return {
            "row": row,
            "prediction": names[codes[0]],
            "truth": names[codes[1]],
            "runner_up": names[codes[2]],
            "right": bool(figures.right[row]),
            "margin": int(certificate.margin[row]),
            "radius": int(certificate.radius[row]),
            "votes": [(names[code], int(counts[code]), tags[code]) for code in listed],
            "others": int(counts[:-1].sum() - counts[listed].sum()),
            "abstained": int(counts[-1]),
            "picture": picture,
            "cells": cells,
            "brief": _brief(cells),
        }

    return [
        {"title": title, "about": about, "tiles": [tile(row) for row in rows.tolist()]} for title, about, rows in chosen
    ]


def choose(
    radius: NDArray[np.int64], right: NDArray[np.bool_], limits: Limits
) -> list[tuple[str, str, NDArray[np.int64]]]:
    """Rows for each shelf that is not empty; a row stands in one shelf only. Equal radii go by row."""
    order = np.argsort(radius, kind="stable")
    held, wrong = order[right[order]], order[~right[order]][::-1]
    ends = min(limits.ends, -(-len(held) // 3))
    weakest, rest = held[:ends], held[ends:]
    strongest, between = rest[max(len(rest) - ends, 0) :], rest[: max(len(rest) - ends, 0)]
    steps = np.linspace(0, len(between) - 1, min(limits.between, len(between))).round().astype(np.int64)
    every = f"{len(steps):,} of the {len(between):,} between, evenly spaced in the order of their radius."
    shelves = [
        ("Weakest", "The right predictions with the smallest radius.", weakest),
        ("Between", every, between[steps]),
        ("Strongest", "The right predictions with the largest radius.", strongest),
        ("Wrong", f"{min(limits.wrong, len(wrong)):,} of {len(wrong):,}, the firmest first.", wrong[: limits.wrong]),
    ]
    return [shelf for shelf in shelves if len(shelf[2])]


def pixels(X: Any, dataset: str) -> NDArray[np.uint8] | None:
    """Samples as pictures, grey or RGB in 8 bits; None if they are something else."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "uifb":
        return None
    if dataset == "digits" and X.ndim == 2 and X.shape[1] == 64:
        X = X.reshape(-1, 8, 8) / 16
    if X.ndim == 4 and X.shape[-1] == 1:
        X = X[..., 0]
    is_picture = X.ndim == 3 or (X.ndim == 4 and X.shape[-1] == 3)
    if not is_picture or min(X.shape[1:3]) < SMALLEST_SIDE:
        return None
    if X.dtype == np.uint8:
        return X
    values = np.nan_to_num(X.astype(np.float64))
    lowest = min(values.min(), 0.0)
    return ((values - lowest) * (255 / ((values.max() - lowest) or 1.0))).astype(np.uint8)


def _columns(outcome: Outcome) -> list[str]:
    """The names of the features, if they came from a table."""
    schema = outcome.manifest.settings.schema or {}
    return [name for name, role in schema.get("columns", {}).items() if role in FEATURES]


def _looks(
    X: Any, dataset: str, samples: Samples | None, columns: Sequence[str]
) -> Iterable[tuple[str, tuple[Cell, ...]]]:
    pictures = pixels(X, dataset)
    if pictures is not None:
        return [(_png(picture), ()) for picture in pictures]
    return [("", cells) for cells in _cells(to_samples(X) if samples is None else samples, columns)]


def _png(picture: NDArray[np.uint8]) -> str:
    """A small picture as a data URI."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    body = BytesIO()
    image.save(body, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(body.getvalue()).decode()


def _cells(samples: Samples, names: Sequence[str]) -> list[tuple[Cell, ...]]:
    """The content of samples that are no pictures, as names and values; without names a number bears its place."""
    if isinstance(samples, TextSamples):
        return [(("text", _cut(text, LONGEST_TEXT)),) for text in samples.texts.tolist()]
    if isinstance(samples, TableSamples):
        columns, n = samples.columns[:MOST_CELLS], samples.n_features
        return [_named(((c.name, c.cell(row)) for c in columns), n) for row in range(len(samples))]
    if isinstance(samples, SparseSamples):
        rows = [samples.matrix[row] for row in range(len(samples))]
        return [_named(zip(row.indices[:MOST_CELLS].tolist(), row.data, strict=False), row.nnz) for row in rows]
    assert isinstance(samples, NumberSamples)
    flat = samples.values.reshape(len(samples), -1)
    names = names if len(names) == flat.shape[1] else [str(at) for at in range(flat.shape[1])]
    return [_named(zip(names[:MOST_CELLS], row, strict=False), len(row)) for row in flat]


def _named(cells: Iterable[tuple[Any, Any]], total: int) -> tuple[Cell, ...]:
    """Cells as texts, and how many more there are."""
    listed = [(str(name), _shown(value)) for name, value in cells]
    return (*listed, ("…", f"and {total - len(listed):,} more")) if total > len(listed) else tuple(listed)


def _shown(cell: Any) -> str:
    if cell is None or cell != cell:
        return "missing"
    return _cut(cell, LONGEST_CELL) if isinstance(cell, str) else f"{float(cell):.6g}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _brief(cells: Sequence[Cell]) -> str:
    """One line: a text as it stands, cells with their names."""
    words = [value if len(cells) == 1 else f"{name} {value}" for name, value in cells]
    return _cut(" · ".join(words), LONGEST_BRIEF)


# In a few lines

FAR_BEHIND = 0.2


@dataclass(frozen=True, eq=False)
class Summary:
    """The figures of a run at some attack sizes, with what a constant answer would get beside them.

    ``requested`` is the attack size that is never left out.
    """

    outcome: Outcome
    attack_sizes: list[int]
    requested: int | None = None

    @cached_property
    def certified(self) -> NDArray[np.float64]:
        """The certified fraction (pointwise) at each attack size."""
        return self.outcome.figures.certified_fraction(self.attack_sizes)

    @cached_property
    def balanced(self) -> NDArray[np.float64]:
        """The same as the mean over classes."""
        return self.outcome.figures.certified_fraction_balanced(self.attack_sizes)

    @cached_property
    def by_class(self) -> tuple[ClassShare, ...]:
        """The same of each class."""
        return self.outcome.figures.by_class(self.attack_sizes)

    @property
    def majority_label(self) -> str:
        """The most frequent class of the test samples."""
        return str(max(self.by_class, key=lambda one: one.n_test).label)

    @property
    def remedy(self) -> str:
        """What a person can do where a constant answer would do as well."""
        caution = self.outcome.figures.caution
        return "" if caution is None else _what_to_try(self.outcome, caution)

    @property
    def warning(self) -> str | None:
        """What must be said before any figure."""
        caution = self.outcome.figures.caution
        return None if caution is None else f"{caution.sentence}; {self.remedy}"

    @property
    def line(self) -> str:
        """The figures without an attack, of a constant answer, and of what was trained without a guarantee."""
        figures, models = self.outcome.figures, ""
        if self.outcome.undefended_accuracy is not None:
            models = f"; undefended, the same learner, {percent(self.outcome.undefended_accuracy)}"
        if self.outcome.strong_undefended is not None:
            accuracy, words = self.outcome.strong_undefended
            models += f"; {'strong' if models else 'undefended'}, {words}, {percent(accuracy)}"
        constant = f"'{self.majority_label}' alone {percent(figures.majority_share)}, {percent(1 / len(self.by_class))}"
        return (
            f"Right without an attack, %: {percent(figures.clean_accuracy)}, balanced "
            f"{percent(figures.balanced_accuracy)}; always {constant} at every attack size{models}."
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A column for each of at most six attack sizes, no wider than 80 characters."""
        sizes = self.attack_sizes
        few = {round(at) for at in np.linspace(0, len(sizes) - 1, min(5, len(sizes)))}
        few |= {at for at, size in enumerate(sizes) if size == self.requested}
        return ["attack size", *(f"{sizes[at]:,}" for at in sorted(few))], [
            ["certified, % (pointwise)", *(percent(self.certified[at]) for at in sorted(few))],
            ["balanced, % (classes)", *(percent(self.balanced[at]) for at in sorted(few))],
        ]

    @property
    def behind(self) -> str | None:
        """The class of which much less is certified than of all, at the requested or middle attack size."""
        sizes = self.attack_sizes
        at = sizes.index(self.requested) if self.requested in sizes else len(sizes) // 2
        worst = min(self.by_class, key=lambda one: float(one.certified_fraction[at]))
        share = float(worst.certified_fraction[at])
        if self.balanced[at] - share < FAR_BEHIND:
            return None
        return (
            f"Behind: '{worst.label}', {percent(share)} % of {worst.n_test:,} certified at attack size {sizes[at]:,}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a file."""
        figures = self.outcome.figures
        return {
            "clean_accuracy": figures.clean_accuracy,
            "balanced_accuracy": figures.balanced_accuracy,
            "majority_share": figures.majority_share,
            "majority_label": self.majority_label,
            "attack_size": self.attack_sizes,
            "certified_fraction": self.certified.tolist(),
            "certified_fraction_balanced": self.balanced.tolist(),
            "by_class": [one.as_dict() for one in self.by_class],
            "warning": self.warning,
        }


def _what_to_try(outcome: Outcome, caution: Caution) -> str:
    if caution.kind == "one label":
        return "give --test a file with all classes, or another --held-out"
    return outcome.election.remedy(outcome.certificate, outcome.manifest.n_train or 0)


def premises_in_short(outcome: Outcome) -> str:
    """How many premises there are, which were chosen from the data, and where they stand."""
    premises = outcome.manifest.premises or ()
    chosen = [premise.code for premise in premises if premise.declared is False]
    which = f", {len(chosen)} of them chosen from this data ({', '.join(chosen)})" if chosen else ""
    return f"{len(premises)} premises{which}: in report.html, and with --json"


# What a plan promised


@dataclass(frozen=True)
class PlannedFigure:
    """One promised share beside the obtained one."""

    name: str
    what: str
    predicted: float
    obtained: float

    def cells(self) -> list[str]:
        """Both in words, and how far apart they are."""
        points = 100 * (self.predicted - self.obtained)
        return [f"{100 * self.predicted:.1f} %", f"{100 * self.obtained:.1f} %", f"{points:+.1f} points"]


def beside_plan(outcome: Outcome) -> list[PlannedFigure]:
    """Clean accuracy and certified fractions, promised and obtained; nothing if no plan was followed."""
    followed = (outcome.manifest.recipe or {}).get("plan")
    if followed is None:
        return []
    figures, size = outcome.figures, followed["attack_size"]
    at, balanced = f"at attack size {size}", "the same, balanced (mean over classes)"
    fraction = float(figures.certified_fraction(size))
    of_classes = float(figures.certified_fraction_balanced(size))
    return [
        PlannedFigure("clean_accuracy", "clean accuracy", followed["clean"], figures.clean_accuracy),
        PlannedFigure("certified_fraction", f"certified fraction (pointwise) {at}", followed["certified"], fraction),
        PlannedFigure("certified_fraction_balanced", balanced, followed["certified_balanced"], of_classes),
    ]


def broken_promise(outcome: Outcome) -> str | None:
    """One sentence if a run came to less than two standard errors below what its plan promised, with what to try."""
    followed, figures = (outcome.manifest.recipe or {}).get("plan"), beside_plan(outcome)
    if followed is None or figures[-1].obtained >= figures[-1].predicted - 2 * followed["error"]:
        return None
    other = f"; the next best was `{followed['next_best']}`" if followed["next_best"] else ""
    return (
        f"the plan promised {100 * figures[-1].predicted:.1f} ± {100 * followed['error']:.1f} % certified on average "
        f"over classes at attack size {followed['attack_size']}, and {100 * figures[-1].obtained:.1f} % came out{other}"
    )


def asked_size(outcome: Outcome) -> int | None:
    """The attack size that the run was asked about, by --attack-size or by the plan that it follows."""
    asked = outcome.manifest.recipe or {}
    size = asked.get("attack_size", (asked.get("plan") or {}).get("attack_size"))
    return None if size is None else int(size)


def headline_size(outcome: Outcome) -> int:
    """The attack size that was asked about; else the largest at which half of the test set is right and certified.

    Half of the samples, and half of them on average over classes: a frequent class alone makes no headline.
    """
    asked = asked_size(outcome)
    return outcome.figures.headline_size if asked is None else asked
