"""Text from data or files, for a reader's eyes: nothing in it can move the cursor, turn the line or hide.

A label, a premise or a file name may hold anything. Printed as it stands, an escape sequence, a carriage return or a
bidirectional control rewrites what stood on the line before it: "NOT VERIFIED" becomes "VERIFIED".

Numbers as people read them; nothing is ever rounded in our favour.

Text inside Markdown: it stays text, whatever it looks like.

Cells of CSV that somebody opens in a spreadsheet: text from data is text there too, never a formula.

Charts as plain geometry, in percent of the plot: the page draws them, in its own colours and at any width.

How certificates and models show themselves in a notebook: a few lines of HTML, everything in them escaped.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    import numpy as np
    from jinja2 import Environment
    from numpy.typing import NDArray

    from poisonproof.premises import Premise


# Controls, formats (bidirectional, zero-width, tags), lone surrogates, private and unassigned, line and paragraph ends.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks by category that draw nothing: joiners, fillers, variation selectors.
BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def shown(text: str) -> str:
    r"""One line in which every character can be seen; what cannot is written as Python writes it, ``\x1b``, ``\u202e``.

    Showing twice is showing once: a backslash stays one.
    """
    if text.isprintable() and not BLANK.search(text):
        return text
    return "".join(_escaped(char) if _is_unseen(char) else char for char in text)


def shown_lines(text: str) -> str:
    """Several lines of our own making, each shown; foreign text must have been shown before it was put into them."""
    return "\n".join(map(shown, text.split("\n")))


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in UNSEEN or BLANK.match(char) is not None


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def nearest(name: str, names: Sequence[str]) -> str:
    """What a name was probably meant to be, in words."""
    close = difflib.get_close_matches(name, names, 1, 0.5)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(names[:12])}{', …' * (len(names) > 12)}."


UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def percent(share: float | None) -> str:
    """A share in percent with one digit, never rounded up; "?" if it is not known."""
    return "?" if share is None else f"{math.floor(share * 1000 + 1e-9) / 10:.1f}"


def in_bytes(size: float, *, up: bool = False) -> str:
    """A number of bytes with three digits and its unit, such as ``2.56 kB``; ``up`` never says less than it is."""
    unit = next((name for name in reversed(UNITS) if size >= UNITS[name]), "B")
    amount = size / UNITS[unit]
    step = 10.0 ** (math.floor(math.log10(amount)) - 2) if amount > 0 else 1.0
    amount = (math.ceil(amount / step - 1e-9) if up else round(amount / step)) * step
    return f"{amount:,.0f} {unit}" if amount >= 1000 else f"{amount:.3g} {unit}"


def bytes_of(text: str) -> int:
    """What a person wrote: `4GB`, `500MB`, or a number of GB."""
    words = text.strip().upper()
    unit = words[-2:] if words[-2:] in ("GB", "MB") else "GB"
    try:
        size = int(float(words.removesuffix(unit)) * UNITS[unit])
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise PoisonproofError(f"--max-memory must be a size such as 4GB or 500MB. Got '{text}'.", code="options.value")
    return size


_MARKDOWN = str.maketrans(
    {**{char: f"\\{char}" for char in "\\`*_[]|~$#"}, "&": "&amp;", "<": "&lt;", ">": "&gt;"},
)


def in_markdown(text: str) -> str:
    """Text as Markdown that shows it; in a cell of a table too."""
    return shown(text).translate(_MARKDOWN)


# What a spreadsheet takes for the beginning of a formula, full-width forms included.
FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def as_cell(value: Any) -> Any:
    """A cell that no spreadsheet computes: an apostrophe stands before text that would be a formula.

    Numbers stay numbers, -1.5 too. Reading back, take one leading apostrophe off.
    """
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value


BARS = 40
GAP = 0.08


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Part:
    """A piece of a bar: what it counts, how far its upper end is from the top of the plot, and its height."""

    name: str
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """One bar of stacked parts."""

    left: float
    width: float
    parts: tuple[Part, ...]
    title: str


def ticks(top: int, about: int = 6) -> tuple[Tick, ...]:
    """Whole, round numbers from 0 to at most ``top``."""
    step = next(s for e in range(20) for s in (10**e, 2 * 10**e, 5 * 10**e) if top <= s * about)
    return tuple(Tick(100 * value / top, f"{value:,}") for value in range(0, top + 1, step))


def survival(radii: NDArray[np.int64], n_test: int, top: int) -> str:
    """An SVG path: at each attack size, the share of ``n_test`` samples whose radius, listed in ``radii``, reaches it.

    The share at attack size s holds from s to s + 1, so it falls behind the radius of a sample, never before.
    """
    import numpy as np

    values, counts = np.unique(radii, return_counts=True)
    left = np.r_[len(radii), len(radii) - np.cumsum(counts)]
    path = [f"M0 {_down(left[0], n_test)}"]
    for radius, held in zip(values, left[1:], strict=True):
        path.append(f"H{_short(100 * min(int(radius) + 1, top) / top)}V{_down(held, n_test)}")
    return "".join([*path, "H100"])


def stairs(shares: NDArray[np.float64]) -> str:
    """An SVG path of shares at the attack sizes 0, 1, … up to the last; each holds up to the next."""
    import numpy as np

    top = len(shares) - 1
    path = [f"M0 {_short(100 - 100 * float(shares[0]))}"]
    for size in np.flatnonzero(np.diff(shares)) + 1:
        path.append(f"H{_short(100 * int(size) / top)}V{_short(100 - 100 * float(shares[size]))}")
    return "".join([*path, "H100"])


def histogram(numbers: dict[str, NDArray[np.int64]], top: int, of: str) -> tuple[Bar, ...]:
    """Bars of whole numbers from 0 to below ``top``, one stacked on the other; empty bars are left out."""
    import numpy as np

    span = -(-top // BARS)
    counts = np.stack([np.bincount(some // span, minlength=-(-top // span)) for some in numbers.values()])
    share = 100 / max(int(counts.sum(axis=0).max()), 1)
    bars = []
    for at in np.flatnonzero(counts.sum(axis=0)).tolist():
        first, last = at * span, min((at + 1) * span, top) - 1
        below, parts = 0, []
        for name, count in zip(numbers, counts[:, at].tolist(), strict=True):
            below += count
            if count:
                parts.append(Part(name, round(100 - below * share, 2), round(count * share, 2)))
        where = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        left, width = first + GAP * span, last + 1 - first - 2 * GAP * span
        title = f"{of} {where}: {below:,}"
        bars.append(Bar(round(100 * left / top, 3), round(100 * width / top, 3), tuple(parts), title))
    return tuple(bars)


def _down(held: Any, n_test: int) -> str:
    return _short(100 - 100 * int(held) / n_test)


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


@cache
def templates(folder: str = "templates") -> Environment:
    """The templates in a folder of the package, each compiled once; whatever is put into them is shown and escaped."""
    from jinja2 import Environment, PackageLoader, select_autoescape

    environment = Environment(
        loader=PackageLoader("poisonproof", folder),
        autoescape=select_autoescape(["html", "j2"]),
        finalize=lambda value: shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, count=lambda number: f"{number:,}")
    return environment


def render_page(template: str, folder: str = "templates", **values: Any) -> str:
    """A page made of a template: text from data or files shown and escaped, markup of our own as it stands."""
    return templates(folder).get_template(template).render(values)


def own_source(name: str) -> Markup:
    """A style sheet or a script of our own, as it stands."""
    return Markup((Path(__file__).parent / "templates" / name).read_text("utf-8"))


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
    import numpy as np

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
