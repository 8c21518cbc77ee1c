"""The rooms of the house: the direction of imports is a contract, and the drawing of it is true."""

from __future__ import annotations

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


def test_an_import_against_the_contract_is_found(tmp_path):
    pytest.importorskip("importlinter", reason="CONTRACTS NOT CHECKED: pip install '.[dev]'")
    for folder in ("src", "pyproject.toml"):
        subprocess.run(["cp", "-r", str(ROOT / folder), str(tmp_path / folder)], check=True)
    broken = tmp_path / "src" / "poisonproof" / "system" / "memory.py"
    broken.write_text(broken.read_text() + "\nfrom poisonproof.runs import run  # noqa\n")
    command = [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"]
    environment = {"PYTHONPATH": str(tmp_path / "src"), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "poisonproof.system is not allowed to import poisonproof.runs" in " ".join(done.stdout.split())
