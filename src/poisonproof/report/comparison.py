"""The table of a comparison, for a terminal and for a file."""

from __future__ import annotations

import math

from poisonproof.comparison import BY_SAMPLES, PROOF, Comparison, Row
from poisonproof.display import in_markdown, percent


def title(comparison: Comparison) -> str:
    """What was compared, and what attack sizes count."""
    return (
        f"{comparison.dataset}, {comparison.learner.partition('(')[0]}: {comparison.n_train} training and "
        f"{len(comparison.y_test)} test samples, k = {comparison.k}, up to {comparison.n_classifiers} base "
        f"classifiers. Certified fraction (pointwise) in % at attack sizes, which count {comparison.unit}"
    )


def header(comparison: Comparison) -> list[str]:
    """The names of the columns."""
    facts = ["", "holds", "classifiers", "k", "d", "clean, %", "balanced, %", "mean radius"]
    return [*facts, *map(str, _sizes(comparison)), "train, s", "certify, ms"]


def cells(comparison: Comparison, row: Row) -> list[str]:
    """One row as text, no number rounded to the better side."""
    if row.certificate is None:
        return [row.title, row.guarantee, *["—"] * (len(header(comparison)) - 2)]
    assert row.seconds_to_train is not None
    assert row.ms_per_sample is not None
    figures = row.certificate.evaluate(comparison.y_test)
    fractions = figures.certified_fraction(_sizes(comparison))
    return [
        row.title,
        PROOF if row.proves else "99.9 %",
        "—" if row.n_classifiers is None else str(row.n_classifiers),
        "—" if row.k is None else f"{row.k:.4g}",
        "—" if row.d is None else str(row.d),
        percent(figures.clean_accuracy),
        percent(figures.balanced_accuracy),
        f"{math.floor(100 * row.certificate.radius.mean() + 1e-9) / 100:.2f}",
        *map(percent, fractions),
        f"{row.seconds_to_train:.1f}",
        f"{row.ms_per_sample:.3f}",
    ]


def remarks(comparison: Comparison) -> list[str]:
    """What a reader must know besides, one sentence each."""
    sentences = [
        f"Balanced: mean over classes. Always answering the most frequent class is right on "
        f"{percent(comparison.majority_share)} % at every attack size."
    ]
    for row in comparison.rows:
        if row.certificate is not None and (caution := row.certificate.evaluate(comparison.y_test).caution) is not None:
            sentences.append(f"WARNING, {row.title}: {caution.sentence}.")
    sentences += [f"{row.title} does not apply: {row.why_not}." for row in comparison.rows if row.why_not]
    sentences += [
        f"The designed spread has k = {row.k:.4g}, the nearest there is; a larger k alone gives larger radii."
        for row in comparison.rows[::-1]
        if row.k is not None and row.k > comparison.k
    ][:1]
    samples = [row for row in comparison.rows if row.name in BY_SAMPLES and row.certificate is not None]
    if samples:
        sentences.append(
            f"In {' and '.join(row.name for row in samples)} the training samples vote through a fixed map, which is a "
            "premise, and nothing is trained; parameters by a pilot were chosen from this data."
        )
    chancy = next((row for row in comparison.rows if row.certificate is not None and not row.proves), None)
    if chancy is not None:
        sentences.append(f"99.9 %: {chancy.guarantee}; an abstention counts as wrong and as radius 0.")
    return sentences


def markdown(comparison: Comparison) -> str:
    """The table as Markdown."""
    names = header(comparison)
    rows = ([*map(in_markdown, cells(comparison, row))] for row in comparison.rows)
    lines = [names, ["---", "---", *["--:"] * (len(names) - 2)], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([f"{in_markdown(title(comparison))}.", table, *map(in_markdown, remarks(comparison))]) + "\n"


def _sizes(comparison: Comparison) -> list[int]:
    """The attack sizes with a column; at 0 the certified fraction is the clean accuracy."""
    return [size for size in comparison.attack_sizes if size > 0]
