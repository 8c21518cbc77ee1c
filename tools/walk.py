"""How many files and functions one CSV row passes on its way to a certificate and to a report: a profile of one run.

    python tools/walk.py [PACKAGE] [--list]

Counts, in this process and its threads, which files of ours are entered while a table is read, split, trained on,
certified and reported, how many functions of theirs run, and from how many files to how many others they are called:
once until the certificate is there (the row's own walk), once for the whole run, which then saves, compares with
undefended models, reports and prints. ``--list`` names the functions of the row's own walk.
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


class Walk:
    """Functions of one package that were entered, and calls between its files, until the certificate and in all."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.functions: set[tuple[str, str]] = set()
        self.edges: set[tuple[str, str]] = set()
        self.known: set[tuple[Any, Any]] = set()
        self.until_certified: tuple[set[tuple[str, str]], set[tuple[str, str]]] | None = None

    def watch(self, frame: Any, event: str, _: Any) -> None:
        """What `sys.setprofile` calls."""
        code = frame.f_code
        if not code.co_filename.startswith(self.home) or code.co_name.startswith("<"):
            return  # bodies of modules and comprehensions are not steps of a row
        if event == "return" and code.co_name == "certify" and self.until_certified is None:
            self.until_certified = set(self.functions), set(self.edges)
        caller = frame.f_back
        pair = code, None if caller is None else caller.f_code
        if event != "call" or pair in self.known or self._importing(frame):
            return  # nor is what modules do when they are first imported
        if caller is not None and caller.f_code.co_filename.startswith(self.home):
            self.known.add(pair)
        self.functions.add((code.co_filename, f"{code.co_qualname}:{code.co_firstlineno}"))
        while caller is not None and not caller.f_code.co_filename.startswith(self.home):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.edges.add((caller.f_code.co_filename, code.co_filename))

    def _importing(self, frame: Any) -> bool:
        """Whether a module of ours is being imported around this call."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self.home):
                return True
            frame = frame.f_back
        return False


def counted(functions: set[tuple[str, str]], edges: set[tuple[str, str]]) -> str:
    """The three numbers."""
    files = {name for name, _ in functions}
    return f"{len(files)} files, {len(functions)} functions, {len(edges)} calls from one file to another"


def main() -> None:
    """Profile one run and print the numbers."""
    names = [word for word in sys.argv[1:] if not word.startswith("--")]
    package = names[0] if names else "poisonproof"
    walk = Walk(str(Path(str(importlib.import_module(package).__file__)).parent))
    command = importlib.import_module(f"{package}.cli.main").app
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        write_table(table)
        words = ["run", str(table), "--label", "bought", "--k", "4", "--d", "2", "--n-jobs", "2"]
        words += ["--out", str(Path(folder) / "run")]
        threading.setprofile(walk.watch)
        sys.setprofile(walk.watch)
        try:
            command(words, standalone_mode=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    assert walk.until_certified is not None
    if "--list" in sys.argv:
        for name, function in sorted(walk.until_certified[0]):
            print(f"{name.removeprefix(walk.home)} {function}")
    print(f"until the certificate: {counted(*walk.until_certified)}")
    print(f"the whole run:         {counted(walk.functions, walk.edges)}")


if __name__ == "__main__":
    main()
