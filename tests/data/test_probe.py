"""What is wrong with names of files and columns is told before anything heavy is imported."""

import subprocess
import sys

import pytest

from poisonproof.data.options import ReadOptions, check
from refused import refused

CASES = [
    ("nothing.csv", {}, "file.missing"),
    ("odd.xyz", {}, "file.kind"),
    ("t.csv", {"label": "kind"}, "schema.unknown-column"),
    ("t.csv", {"label": "y", "test": "other.csv"}, "file.missing"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text('x,"y"\n1,a\n')
    (tmp_path / "odd.xyz").touch()


@pytest.mark.parametrize(("name", "how", "code"), CASES)
def test_wrong_names_are_refused(folder, name, how, code):
    with refused(code):
        check(name, ReadOptions.from_dict(how))


@pytest.mark.parametrize("how", [{"label": "y"}, {"label": "x"}, {}])
def test_right_ones_are_not(folder, how):
    check("t.csv", ReadOptions.from_dict(how))
    check("digits", ReadOptions())


def test_neither_numpy_nor_rich_is_imported(folder):
    program = """
import sys
from poisonproof.data.options import ReadOptions, check
try:
    check("t.csv", ReadOptions(label="kind"))
except ValueError as error:
    print(error.code, sorted({"numpy", "rich", "pandas", "typer"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "schema.unknown-column []"
