"""Draw docs/rooms.svg: every room of the package, what it is for, and which rooms it imports, from the imports.

    python docs/draw_rooms.py

Rooms stand in the order of the contract in pyproject.toml, the lowest first. A number is how many imports a room's
files make from the room of that column; the contract says that nothing stands to the right of the diagonal.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from html import escape
from pathlib import Path

from poisonproof import HOMES

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "poisonproof"
LINE, LEFT, TOP, CELL = 24, 500, 110, 30


def rooms() -> list[str]:
    """The rooms in the order of the contract, the lowest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [name.strip() for layer in reversed(layers) for name in layer.split(":")]


def files_of(room: str) -> list[Path]:
    """The files of a room."""
    folder = SOURCE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def imports_of(path: Path) -> Counter[str]:
    """How often a file imports from each room, inside functions and for type checkers too."""
    counts: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module == "poisonproof":  # a public name: it lives in a room too
            counts.update(HOMES[alias.name].split(".")[0] for alias in node.names if alias.name in HOMES)
        elif node.module.startswith("poisonproof."):
            counts[node.module.split(".")[1]] += 1
    return counts


def draw() -> str:
    """The drawing as SVG."""
    names = rooms()
    width, height = LEFT + CELL * len(names) + 20, TOP + LINE * len(names) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        "<style>text{fill:#222}.for{fill:#666}.n{text-anchor:middle}.d{fill:#e8e8e8}.c{fill:#cfe3f7}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.for{fill:#999}.n{fill:#111}.d{fill:#444}}</style>",
    ]
    for at, room in enumerate(names):
        y, x = TOP + LINE * at, LEFT + CELL * at
        files = files_of(room)
        purpose = str(ast.get_docstring(ast.parse((files[0]).read_text("utf-8")))).splitlines()[0]
        purpose = purpose if len(purpose) <= 58 else purpose[:57] + "…"
        counts: Counter[str] = sum((imports_of(path) for path in files), Counter())
        lines.append(f'<text x="8" y="{y + 16}" font-weight="bold">{room}</text>')
        lines.append(f'<text class="for" x="112" y="{y + 16}">{escape(purpose)}</text>')
        lines.append(f'<rect class="d" x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{LINE - 2}"/>')
        lines.append(f'<text transform="translate({x + 19},{TOP - 6}) rotate(-60)">{room}</text>')
        for column, other in enumerate(names):
            if counts[other] and other != room:
                left = LEFT + CELL * column
                lines.append(
                    f'<rect class="c" x="{left + 1}" y="{y + 1}" width="{CELL - 2}" height="{LINE - 2}" rx="3"/>'
                    f'<text class="n" x="{left + CELL / 2:g}" y="{y + 16}">{counts[other]}</text>'
                )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("rooms.svg").write_text(draw(), "utf-8")
