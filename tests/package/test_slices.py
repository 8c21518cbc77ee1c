"""A slice can be deleted: its folder, and its lines of the registry; the rest works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
WORKS = """
import importlib, pkgutil, sys
import poisonproof
assert poisonproof.__file__.startswith(sys.argv[1]), poisonproof.__file__
for module in pkgutil.walk_packages(poisonproof.__path__, "poisonproof."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from poisonproof.cli.main import app
for words in (
    ["--help"],
    ["run", "digits", "--k", "3", "--d", "1", "--no-undefended", "--n-jobs", "1", "--out", "run"],
    ["verify", "run"],
):
    assert app(words, standalone_mode=False) in (None, 0), words
"""


@pytest.mark.parametrize("name", ["ballots", "encoders", "evidence", "serving", "stochastic"])
def test_a_slice_can_be_deleted(name, tmp_path):
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    package = tmp_path / "src" / "poisonproof"
    shutil.rmtree(package / name)
    registry = package / "registry.py"
    lines = registry.read_text("utf-8").splitlines(keepends=True)
    registry.write_text("".join(line for line in lines if f"poisonproof.{name}." not in line), "utf-8")
    code = [sys.executable, "-c", WORKS, str(tmp_path)]
    done = subprocess.run(
        code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "VERIFIED" in done.stdout
