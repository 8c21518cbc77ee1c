"""A model card in Markdown with YAML front matter, as model hubs read it."""

from __future__ import annotations

import json
from typing import Any

from poisonproof.display import in_markdown, percent, shown
from poisonproof.evidence.facts import ACTS, Facts

MOST_CLASSES = 50


def model_card(facts: Facts) -> str:
    """The card. Text from data is quoted in the front matter and escaped in tables."""
    certificate, figures = facts.certificate, facts.figures
    unit = certificate.unit
    lines = [
        *_front_matter(facts),
        f"# {_text(facts.name)}",
        "",
        f"{_text(facts.voters.sentence)}, made by poisonproof. "
        "Every prediction has a **radius**: whatever an attacker inserts into or removes from the training data, up to "
        f"that many {unit} in total, the prediction stays the same. The proof ({certificate.method}) has no "
        "probability of failure; it holds under the premises and within the threat model below, and says nothing about "
        "whether a prediction is right.",
        "",
        *([f"**{_text(facts.caution.headline)}**", ""] if facts.caution else []),
        f"Verdict of the independent checker: **{facts.verdict.word}**.",
        "",
        "## Figures",
        "",
        f"Test set: {figures.n_test} samples of {_text(facts.dataset)}. A constant answer, "
        f"{_text(str(figures.majority_label))}, is right on {percent(figures.majority_share)} % and cannot be poisoned "
        "either, so compare with that and with the balanced figures (mean over classes).",
        "",
        f"| attack size, {unit} | certified fraction, % (pointwise) | balanced, % |",
        "|---|---|---|",
        f"| clean | {percent(figures.clean_accuracy)} | {percent(figures.balanced_accuracy)} |",
        *(
            f"| {size} | {percent(figures.certified_fractions[at])} | {percent(figures.balanced[at])} |"
            for at, size in enumerate(figures.attack_sizes)
            if size
        ),
        "",
        "## By act",
        "",
        "The same for an attacker who does nothing but one kind of act; how many of them are withstood:",
        "",
        "| act | median radius | half of the test set, right besides |",
        "|---|---|---|",
        *(
            f"| {ACTS[row.act]} | {row.median_radius} | {'–' if row.half is None else row.half} |"
            for row in figures.acts
        ),
        "",
        "## By class",
        "",
        "The last column: half of the predictions of other classes need more poisons than that until they could become "
        "this class.",
        "",
        "| class | test samples | clean accuracy, % | median radius against being turned to it |",
        "|---|---|---|---|",
        *(
            f"| {_text(str(row.label))} | {row.n_test} | {percent(row.right / row.n_test) if row.n_test else '–'} | "
            f"{'–' if row.target_median is None else row.target_median} |"
            for row in figures.classes[:MOST_CLASSES]
        ),
        *([f"| … {len(figures.classes) - MOST_CLASSES} more | | | |"] if len(figures.classes) > MOST_CLASSES else []),
        "",
        "## Threat model",
        "",
        "| act | counts as |",
        "|---|---|",
        *(f"| {_text(act)} | {cost} |" for act, cost in facts.threat_model.items()),
        "",
        "## Premises",
        "",
        *(f"- {_text(premise.words)}" for premise in certificate.premises),
        "",
        "## Not checked",
        "",
        *(f"- {_text(words)}" for words in facts.verdict.unchecked),
        "",
        "## Digests (SHA-256)",
        "",
        "| what | digest |",
        "|---|---|",
        *(f"| {_text(name)} | `{digest}` |" for name, digest in {**facts.digests, **facts.artefacts}.items()),
        "",
    ]
    return "\n".join(lines)


def _front_matter(facts: Facts) -> list[str]:
    """What hubs index. JSON strings are YAML strings, so nothing in a name can end the line or the block."""
    figures = facts.figures
    results: list[tuple[str, str, float]] = [
        ("accuracy", "clean accuracy", figures.clean_accuracy),
        ("balanced_accuracy", "balanced accuracy (mean over classes)", figures.balanced_accuracy),
        *(
            ("certified_fraction", f"certified fraction (pointwise), attack size {size}", share)
            for size, share in zip(figures.attack_sizes, figures.certified_fractions, strict=True)
            if size
        ),
    ]
    return [
        "---",
        "library_name: poisonproof",
        "tags: [classification, data-poisoning, certified-robustness]",
        f"datasets: [{_yaml(facts.dataset)}]",
        "metrics: [accuracy, balanced_accuracy, certified_fraction]",
        "model-index:",
        f"- name: {_yaml(facts.name)}",
        "  results:",
        "  - task: {type: classification}",
        f"    dataset: {{name: {_yaml(facts.dataset)}, type: {_yaml(facts.dataset)}}}",
        "    metrics:",
        *(f"    - {{type: {kind}, name: {_yaml(name)}, value: {value!r}}}" for kind, name, value in results),
        "---",
        "",
    ]


def _yaml(text: str) -> str:
    return json.dumps(shown(text))


def _text(text: Any) -> str:
    return in_markdown(str(text))
