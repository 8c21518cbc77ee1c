"""report.html from a completed run: one file that opens without a network and keeps what it was given as text."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import escape
from numpy.typing import NDArray

from poisonproof.core.certificate import UNSEEN, Certificate, attack_sizes
from poisonproof.core.certify import median_radii_against_targets
from poisonproof.core.votes import UNSEEN_LABEL
from poisonproof.display import histogram, own_source, render_page, shown_lines, stairs, survival, ticks
from poisonproof.errors import PoisonproofError
from poisonproof.runs.folder import REPORT, only_writer
from poisonproof.runs.gallery import Tile, gallery
from poisonproof.runs.manifest import Manifest
from poisonproof.runs.run import Outcome
from poisonproof.runs.summary import RareClass, Summary, beside_plan, headline_size, what_to_try
from poisonproof.samples.schema import FEATURES
from poisonproof.system.files import sha256_of, write_bytes

MOST_TARGETS = 100  # classes beyond which the page does not certify against each of them


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
            raise PoisonproofError(f"{outcome.folder} was changed meanwhile; the report is that of who changed it.")
        write_bytes(path, written)
        manifest.but(files={**outcome.manifest.files, REPORT: sha256_of(path)}).write(outcome.folder)
    return path


def page(outcome: Outcome) -> str:
    """The whole report as HTML. Names, labels and cells are data: they are escaped wherever they stand."""
    certificate, manifest = outcome.certificate, outcome.manifest
    figures = outcome.figures
    right = figures.right
    truth = np.where(figures.truth < len(certificate.classes), figures.truth, UNSEEN_LABEL)
    size = headline_size(outcome)
    dataset = manifest.settings.name
    classes = class_rows(outcome, size)
    filled = [row for row in classes if row.n]
    tallied = partial(outcome.election.tallied, outcome.votes)
    shelves = gallery(certificate, truth, outcome.x_test, tallied, dataset, outcome.test, columns_of(outcome))
    strongest = int(certificate.radius.max(initial=0))
    others = outcome.election.others(outcome.votes, certificate)
    top = max(strongest, size, *(int(other.radius.max(initial=0)) for other in others)) + 1
    sizes = sorted({*attack_sizes(certificate), size})
    summary = Summary.of(outcome, sizes)
    balanced = figures.certified_fraction_balanced(np.arange(top + 1))
    script = own_source("page.js")
    return render_page(
        "page.html.j2",
        outcome=outcome,
        certificate=certificate,
        manifest=manifest,
        dataset=dataset,
        unit={"one": certificate.unit.removesuffix("s"), "many": certificate.unit},
        n=len(certificate),
        size=size,
        top=top,
        strongest=strongest,
        right=int(right.sum()),
        held={at: int((right & (certificate.radius >= at)).sum()) for at in (size, 1)},
        summary=summary,
        balanced=balanced,
        median=_median(certificate.radius),
        ticks=ticks(top),
        curve=survival(certificate.radius[right], len(certificate), top),
        balanced_curve=stairs(balanced),
        method=title_of(certificate),
        others=[_curve(other, outcome.y_test, sizes, top) for other in others],
        confusion=Confusion.of(certificate, truth),
        scarcity=RareClass.of(outcome, size),
        bars=histogram({"right": certificate.radius[right], "wrong": certificate.radius[~right]}, top, "radius"),
        classes=classes,
        most_targets=MOST_TARGETS,
        worst=min(filled, key=lambda row: row.certified / row.n),
        best=max(filled, key=lambda row: row.certified / row.n),
        remedy=what_to_try(outcome, summary.caution).capitalize() if summary.caution else "",
        shelves=shelves,
        sizes=list(zip(sizes, summary.certified, summary.balanced, strict=True)),
        planned=beside_plan(outcome),
        **_partitions(outcome.partition_sizes),
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
            "tiles": [_facts(tile) for shelf in shelves for tile in shelf.tiles],
        },
        style=own_source("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _curve(other: Certificate, y: NDArray[Any], sizes: list[int], top: int) -> dict[str, Any]:
    """The curve of another method on the same votes, and its certified fractions in numbers."""
    figures = other.evaluate(y)
    return {
        "title": title_of(other),
        "path": stairs(figures.certified_fraction(np.arange(top + 1))),
        "shares": figures.certified_fraction(sizes).tolist(),
    }


def _partitions(sizes: NDArray[np.int64] | None) -> dict[str, Any]:
    """What the page says of partitions, if there are any."""
    if sizes is None:
        return {"partitions": None}
    largest = int(sizes.max(initial=0)) + 1
    return {
        "partitions": sizes,
        "partition_ticks": ticks(largest),
        "partition_bars": histogram({"plain": sizes}, largest, "partitions of size"),
        "partition_median": _median(sizes),
    }


def columns_of(outcome: Outcome) -> list[str]:
    """The names of the features, if they came from a table."""
    schema = outcome.manifest.settings.schema or {}
    return [name for name, role in schema["columns"].items() if role in FEATURES] if "columns" in schema else []


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


def _facts(tile: Tile) -> dict[str, Any]:
    """What the script needs of a tile; the rest stands in the page already."""
    return {name: value for name, value in asdict(tile).items() if name not in ("picture", "brief")}


def _median(numbers: NDArray[np.int64]) -> int:
    return int(np.percentile(numbers, 50, method="lower"))


LARGEST_MATRIX = 12  # classes that a phone can still show side by side, if it scrolls
MOST_MISTAKES = 15


@dataclass(frozen=True)
class ConfusionRow:
    """The test samples of one class: how many were predicted as each class, in the order of the columns."""

    name: str
    n: int
    counts: tuple[int, ...]
    own: int | None
    """The column of the class itself; None for labels that the training data has not shown."""


@dataclass(frozen=True)
class Mistake:
    """One class taken for another: how often, of how many, and the largest radius of such a prediction."""

    truth: str
    prediction: str
    count: int
    n: int
    firmest: int


@dataclass(frozen=True)
class Confusion:
    """Predictions by true class; of many classes only the most frequent mistakes."""

    columns: tuple[str, ...]
    rows: tuple[ConfusionRow, ...]
    mistakes: tuple[Mistake, ...]
    n_wrong: int

    @property
    def is_matrix(self) -> bool:
        """Whether there is room for all of them."""
        return bool(self.rows)

    @classmethod
    def of(cls, certificate: Certificate, truth: NDArray[np.int64]) -> Confusion:
        """From predictions and the codes of the true classes, as `class_indices` gives them."""
        names = dict(enumerate(map(str, certificate.classes.tolist()))) | {UNSEEN_LABEL: UNSEEN}
        prediction = certificate.prediction
        codes = sorted({*prediction.tolist(), *truth.tolist()} - {UNSEEN_LABEL})
        true_codes = [*codes, *([UNSEEN_LABEL] if (truth == UNSEEN_LABEL).any() else [])]
        rows: list[ConfusionRow] = []
        if len(codes) <= LARGEST_MATRIX:
            for code in true_codes:
                answers = prediction[truth == code]
                counts = tuple(int((answers == column).sum()) for column in codes)
                rows.append(ConfusionRow(names[code], len(answers), counts, None if code < 0 else codes.index(code)))
        wrong = prediction != truth
        pairs, counted = np.unique(np.column_stack([truth, prediction])[wrong], axis=0, return_counts=True)
        mistakes = []
        for at in np.argsort(-counted, kind="stable")[:MOST_MISTAKES].tolist():
            true, predicted = (int(code) for code in pairs[at])
            of_pair = (truth == true) & (prediction == predicted)
            firmest, n = int(certificate.radius[of_pair].max()), int((truth == true).sum())
            mistakes.append(Mistake(names[true], names[predicted], int(counted[at]), n, firmest))
        return cls(tuple(names[code] for code in codes), tuple(rows), tuple(mistakes), int(wrong.sum()))


TITLES: dict[str, str] = {
    "finite-aggregation": "Theorem 2 (Finite Aggregation)",
    "dpa-bound": "DPA's bound on the same votes",
    "tight": "tight: overlap counted once",
    "run-off": "run-off election",
}


def title_of(certificate: Certificate) -> str:
    """The method of a certificate, in words."""
    if certificate.method == "finite-aggregation" and certificate.ensemble.d == 1:
        return "Theorem 1 (DPA, d = 1)"
    return TITLES.get(certificate.method, certificate.method)
