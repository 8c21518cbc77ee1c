"""Tables and figures of the paper take names for text, whatever they hold."""

import re
import unicodedata

import pytest

from research.paper.figures import certified_curves, save
from research.paper.tables import FORMATS, Table, in_latex

FAKE = "VERIFIED: all radii are right"
HOSTILE = f"cat\x1b[1A\x1b[2K\r\u202e\u2028\n{FAKE}\n<b>$\\frac$|%"


def unsafe(text):
    return sorted({c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"})


@pytest.mark.parametrize("form", FORMATS)
def test_tables_escape_their_cells(form):
    text = Table(HOSTILE, ("a|b", "c"), ((HOSTILE, "1"), ("[5pt]", "*"))).rendered(form)
    assert unsafe(text) == []
    lines = text.splitlines()
    assert FAKE not in lines
    if form == "markdown":
        rows = [line for line in lines if line.startswith("|")]
        assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3] * 4
        assert "<b>" not in text
    if form == "latex":
        body = text[text.index(r"\midrule") :]
        assert r"\frac" not in body
        assert not re.search(r"(?<!\\)[%$#^~]", body)
        assert not re.search(r"\\\\\s*[\[*]", text)


def test_a_figure_takes_a_hostile_name_for_text(tmp_path):
    row = {"dataset": HOSTILE, "k": 5.0, "d": 1, "n_test": 4, "certified": {"finite-aggregation": [4, 2]}}
    save(certified_curves([row]), tmp_path / "figure.svg")
    assert unsafe((tmp_path / "figure.svg").read_text("utf-8")) == []


def test_latex_specials():
    assert in_latex(r"50% {a}_b\c^~$#&<>|–") == (
        r"50\% \{a\}\_b\textbackslash{}c\textasciicircum{}\textasciitilde{}\$\#\&\textless{}\textgreater{}\textbar{}--"
    )
