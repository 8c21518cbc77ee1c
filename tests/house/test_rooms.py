"""The rooms of the house: the direction of imports is a contract, and the drawing of it is true."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))

import draw_rooms  # noqa: E402


def test_the_drawing_of_the_rooms_is_made_from_the_imports():
    assert (ROOT / "docs" / "rooms.svg").read_text("utf-8") == draw_rooms.draw()


def test_no_room_bears_the_name_of_a_public_function():
    import poisonproof

    assert not set(draw_rooms.rooms()) & set(poisonproof.__all__)


@pytest.mark.parametrize(
    ("contract", "file", "line"),
    [
        ("A room imports only rooms above it", "system/memory.py", "from poisonproof.runs import run"),
        ("Inside a room, files do not import each other in a circle", "partition/spread.py", "from . import subsets"),
        (
            "The verifier recomputes; it does not ask the code it checks",
            "verification/theorem.py",
            "from poisonproof.certificates import kernels",
        ),
    ],
    ids=["layers", "circles", "verifier"],
)
def test_an_import_against_a_contract_is_found(tmp_path, contract, file, line):
    pytest.importorskip("importlinter", reason="CONTRACTS NOT CHECKED: pip install '.[dev]'")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    broken = tmp_path / "src" / "poisonproof" / file
    broken.write_text(f"{broken.read_text('utf-8')}\n{line}  # noqa\n", "utf-8")
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{contract} BROKEN" in " ".join(done.stdout.split())


def test_what_make_check_runs_includes_the_contracts():
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    assert all(f"$(BIN)/{tool}" in recipe for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports"))
