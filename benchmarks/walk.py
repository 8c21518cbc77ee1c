"""How many files and functions one CSV row passes on its way to a report: a profile of one small run.

    python benchmarks/walk.py [PACKAGE]

Counts, in this process and its threads, which files of ours are entered while a table is read, split, trained on,
certified and reported, how many functions of theirs run, and from how many files to how many others they are called.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

ROWS = 120


def write_table(path: Path) -> None:
    """A small table with a number, a category and a label."""
    lines = [f"{row % 17},{'red' if row % 3 else 'blue'},{'yes' if row % 5 < 2 else 'no'}" for row in range(ROWS)]
    path.write_text("\n".join(["size,colour,bought", *lines]) + "\n")


def _importing(frame: Any, home: str) -> bool:
    """Whether a module of ours is being imported around this call."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(home):
            return True
        frame = frame.f_back
    return False


def main() -> None:
    """Profile one run and print the three numbers."""
    package = sys.argv[1] if len(sys.argv) > 1 else "poisonproof"
    home = str(Path(str(importlib.import_module(package).__file__)).parent)
    command = importlib.import_module(f"{package}.cli").app
    functions: set[tuple[str, str]] = set()
    edges: set[tuple[str, str]] = set()

    def watch(frame: Any, event: str, _: Any) -> None:
        here = frame.f_code.co_filename
        if event != "call" or not here.startswith(home) or frame.f_code.co_name.startswith("<"):
            return  # bodies of modules and comprehensions are not steps of a row
        if _importing(frame, home):
            return  # nor is what modules do when they are first imported
        functions.add((here, f"{frame.f_code.co_name}:{frame.f_code.co_firstlineno}"))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(home):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != here:
            edges.add((caller.f_code.co_filename, here))

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        write_table(table)
        words = ["run", str(table), "--label", "bought", "--k", "4", "--d", "2", "--out", str(Path(folder) / "run")]
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            command(words, standalone_mode=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    files = {name for name, _ in functions}
    print(f"{len(files)} files, {len(functions)} functions, {len(edges)} calls from one file to another")


if __name__ == "__main__":
    main()
