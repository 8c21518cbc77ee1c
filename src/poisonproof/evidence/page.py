"""evidence.html: the same facts for a person, in one file that opens without a network and runs no script."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from poisonproof.display import percent, shown, survival, ticks
from poisonproof.evidence.facts import ACTS, Facts


def page(facts: Facts) -> str:
    """The page. Names, labels and premises are data: they are shown and escaped wherever they stand."""
    certificate, figures = facts.certificate, facts.figures
    right = certificate.prediction == facts.truth
    top = int(certificate.radius.max(initial=0)) + 1
    environment = Environment(
        loader=PackageLoader("poisonproof", "evidence/templates"),
        autoescape=select_autoescape(["html", "j2"]),
        finalize=lambda value: shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, count=lambda number: f"{number:,}")
    given: dict[str, Any] = {
        "facts": facts,
        "figures": figures,
        "certificate": certificate,
        "voters": facts.voters,
        "unit": certificate.unit,
        "size": (size := facts.headline_size),
        "held": int((right & (certificate.radius >= size)).sum()),
        "balanced": facts.certified_fraction(size, balanced=True),
        "constant": 1 / sum(row.n_test > 0 for row in figures.classes),
        "caution": facts.caution,
        "acts": {ACTS[row.act]: row for row in figures.acts},
        "curve": survival(certificate.radius[right], len(certificate), top),
        "ticks": ticks(top),
        "covered": {act: cost for act, cost in facts.threat_model.items() if cost != "not covered"},
        "not_covered": [act for act, cost in facts.threat_model.items() if cost == "not covered"],
    }
    return environment.get_template("evidence.html.j2").render(given)
