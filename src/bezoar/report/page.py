"""report.html from a completed run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from bezoar.files import write_text
from bezoar.report.figures import certified_fraction_curve
from bezoar.run import Outcome, attack_sizes


def write_report(outcome: Outcome) -> Path:
    """Write ``report.html`` into the run's folder."""
    certificate = outcome.certificate
    sizes = attack_sizes(certificate)
    fractions = certificate.certified_fraction(outcome.y_test, sizes)
    headline = headline_size(outcome)
    environment = Environment(
        loader=PackageLoader("bezoar", "report/templates"), autoescape=select_autoescape(["html", "j2"])
    )
    page = environment.get_template("page.html.j2").render(
        outcome=outcome,
        certificate=certificate,
        manifest=outcome.manifest,
        curve=Markup(certified_fraction_curve(certificate, outcome.y_test, outcome.undefended_accuracy)),
        table=list(zip(sizes, (percent(fraction) for fraction in fractions), strict=True)),
        headline=headline,
        held=int((certificate.right(outcome.y_test) & (certificate.radius >= headline)).sum()),
        clean=percent(certificate.clean_accuracy(outcome.y_test)),
        undefended=percent(outcome.undefended_accuracy),
        base=percent(outcome.base_accuracy),
        median=int(np.percentile(certificate.radius, 50, method="lower")),
        manifest_text=json.dumps(outcome.manifest, indent=1, ensure_ascii=False),
    )
    path = outcome.folder / "report.html"
    write_text(path, page)
    return path


def headline_size(outcome: Outcome) -> int:
    """The largest attack size at which half of the test set is still right and certified."""
    certificate = outcome.certificate
    sizes = np.arange(int(certificate.radius.max(initial=0)) + 1)
    enough = certificate.certified_fraction(outcome.y_test, sizes) >= 0.5
    return int(sizes[enough].max(initial=0))


def percent(share: float | None) -> str:
    """A share in percent with one digit, never rounded up; "?" if it is not known."""
    return "?" if share is None else f"{np.floor(share * 1000 + 1e-9) / 10:.1f}"
