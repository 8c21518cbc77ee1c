"""Text inside Markdown and LaTeX: it stays text, whatever it looks like."""

from __future__ import annotations

from poisonproof.display.text import shown

_MARKDOWN = str.maketrans(
    {**{char: f"\\{char}" for char in "\\`*_[]|~$#"}, "&": "&amp;", "<": "&lt;", ">": "&gt;"},
)
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


def in_markdown(text: str) -> str:
    """Text as Markdown that shows it; in a cell of a table too."""
    return shown(text).translate(_MARKDOWN)


def in_latex(text: str) -> str:
    """Text as LaTeX that sets it; in a cell of a table too."""
    return shown(text).translate(_LATEX)
