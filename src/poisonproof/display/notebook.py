"""How certificates and models show themselves in a notebook: a few lines of HTML, everything in them escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from poisonproof.display.charts import survival, ticks
from poisonproof.display.text import shown

if TYPE_CHECKING:
    from poisonproof.premises import Premise

BOX = Markup(
    '<div style="display:inline-block;max-width:34em;padding:.6em .9em;border:1px solid #8886;border-radius:6px;'
    'font:14px/1.45 system-ui,sans-serif">{}</div>'
)
SOFT = Markup('<span style="opacity:.7">{}</span>')
CURVE = Markup(
    '<svg viewBox="-1 -2 322 92" width="320" height="90" role="img" aria-label="{label}" '
    'style="display:block;margin:.5em 0 .2em"><svg x="0" y="0" width="320" height="68" viewBox="0 0 100 100" '
    'preserveAspectRatio="none"><path d="{path}V100H0Z" fill="#0b6e4f" fill-opacity=".14"/><path d="{path}" '
    'fill="none" stroke="#0b6e4f" stroke-width="2" vector-effect="non-scaling-stroke"/></svg>{ticks}</svg>'
)
TICK = Markup(
    '<text x="{at}" y="82" font-size="11" fill="currentColor" opacity=".7" text-anchor="{anchor}">{label}</text>'
)
ROW = Markup("<div>{}</div>")
TITLE = Markup("<div><b>{}</b></div>")
AXIS = "share of the predictions, right or wrong, that withstand an attack of each size"
DETAILS = Markup('<details style="margin-top:.3em"><summary>{}</summary><ul style="margin:.2em 0">{}</ul></details>')
ITEM = Markup("<li>{}</li>")


def certificate_html(
    title: str, radii: NDArray[np.int64], n_test: int, unit: str, lines: Sequence[str], premises: Sequence[Premise]
) -> str:
    """Counts, median radius and a small curve: which share of all predictions withstands each attack size."""
    parts = [TITLE.format(shown(title))]
    if n_test and len(radii):
        top = int(radii.max()) + 1
        median = int(np.percentile(radii, 50, method="lower"))
        words = f"radius: median {median:,}, smallest {int(radii.min()):,}, largest {int(radii.max()):,} {unit}"
        parts += [ROW.format(words), _curve(radii, n_test, top), ROW.format(SOFT.format(AXIS))]
    parts += [ROW.format(SOFT.format(shown(line))) for line in lines]
    if premises:
        parts.append(DETAILS.format(f"{len(premises)} premises", _items(premises)))
    return str(BOX.format(Markup("").join(parts)))


def model_html(model: Any) -> str:
    """A line on what an ensemble certifies, to stand beneath scikit-learn's diagram."""
    return str(BOX.format(ROW.format(_in_words(model))))


def _in_words(model: Any) -> str:
    gives = "certify(X) gives a radius for every prediction"
    if hasattr(model, "voters_"):
        unit = "contributors" if model.contributors_ else "training samples"
        return (
            f"{len(model.contributors_) or len(model.voters_)} {unit} vote on {len(model.classes_)} classes; {gives}."
        )
    if not hasattr(model, "members_"):
        return f"Not fitted. After fit(X, y), {gives}."
    ensemble = f"{len(model.subset_sizes_)} base classifiers for {len(model.classes_)} classes"
    if not hasattr(model, "spread_"):
        return f"{ensemble} on random subsets; {gives}, all true but with probability {model.alpha:g}."
    spread, unit = model.spread_, "contributor" if model.split_.kind == "group" else "training sample"
    return f"{ensemble}; a {unit} reaches {spread.d} of them (k = {spread.k:g}); {gives}."


def _curve(radii: NDArray[np.int64], n_test: int, top: int) -> Markup:
    marks = Markup("").join(
        TICK.format(at=round(3.2 * tick.at, 1), label=tick.label, anchor="start" if tick.at == 0 else "middle")
        for tick in ticks(top)
        if tick.at < 97
    )
    return CURVE.format(label="share of predictions by attack size", path=survival(radii, n_test, top), ticks=marks)


def _items(premises: Sequence[Premise]) -> Markup:
    return Markup("").join(ITEM.format(str(premise)) for premise in premises)
