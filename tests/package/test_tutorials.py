"""Every block of every tutorial and recipe is run, in the order of the page; what is shown as output must come out.

Commands of guides are run as well, on files made for them.

Numbers in shown output may differ from machine to machine and are not compared; words are.
"""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from poisonproof.cli.main import app

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
RECIPES = TUTORIALS.with_name("recipes")
GUIDE_PAGES = sorted(TUTORIALS.parent.glob("*.md"))
PAGES = [*sorted(TUTORIALS.glob("*.md")), *sorted(page for page in RECIPES.glob("*.md") if page.stem != "index")]
BLOCK = re.compile(r"^[ ]*```(\w+)\n(.*?)^[ ]*```$", re.M | re.S)
TEN_MINUTES = 600
NEEDS = {"torch": "import torch", "distributed": "from distributed"}
NEEDS |= {"onnxruntime": "efficientnet", "tokenizers": "wordllama"}


def guide(name):
    return TUTORIALS.with_name(f"{name}.md").read_text()


def run_commands(body):
    """The lines of a shell block, each a poisonproof command, in this process."""
    said = []
    for line in body.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "poisonproof", f"a tutorial shows a command that is not poisonproof's: {line}"
        with warnings.catch_warnings():
            done = CliRunner().invoke(app, words[1:])
        expected = 5 if "# CONSISTENT, exit code 5" in line or "--votes votes.npy" in line else 0
        assert done.exit_code == expected, f"{line}\n{done.stderr}\n{done.exception!r}"
        said.append(done.stdout)
    return "".join(said)


def my_files():
    """What guides call my.csv, photos/ and so on."""
    import pandas as pd
    from PIL import Image

    rng = np.random.default_rng(0)
    age, job, user = rng.integers(20, 70, 900), rng.integers(0, 3, 900), rng.integers(0, 300, 900)
    frame = pd.DataFrame({"age": age, "income": 1000.0 * age, "job": np.array(["a", "b", "c"])[job], "user": user})
    frame.iloc[:20].to_csv("fresh.csv", index=False)
    frame["class"] = np.where(age > 45, "yes", "no")
    for name in ("my.csv", "data.csv"):
        frame.to_csv(name, index=False)
    frame["class"] = np.array(["yes", "no", "maybe"])[age % 3]
    for name, rows in (("my.parquet", slice(0, 700)), ("new.parquet", slice(700, None))):
        frame[rows].to_parquet(name)
    Path("my.svm").write_text("".join(f"{at % 2} {at % 2}:1 {at % 4999}:2\n" for at in range(400)))
    for at in range(120):
        place = Path("photos", "ab"[at % 2], f"{at}.png")
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 128 + 127 * (at % 2), (32, 32), np.uint8)).save(place)


def my_run():
    """The run of the digits that guides verify and serve, and its loose files."""
    run_commands("poisonproof run digits --k 10 --d 2 --no-undefended --out runs/digits")
    for name in ("certificate.npz", "votes.npy", "votes.json"):
        Path(name).write_bytes((Path("runs/digits") / name).read_bytes())


def my_learner():
    """The module of which a guide shows the class, and numbers alone, which it takes."""
    code = next(body for language, body in BLOCK.findall(guide("base-classifiers")) if "NearestPrototype" in body)
    Path("prototypes.py").write_text(code.partition("\nX, y = ")[0])
    Path("my.csv").write_text("\n".join(["x,y,class", *(f"{at % 7},{at % 11},{at % 2}" for at in range(300))]))


GUIDES = {
    "base-classifiers": my_learner,
    "compare": my_files,
    "planning": my_files,
    "samples-that-vote": my_files,
    "verify": my_run,
    "your-own-data": my_files,
}
# Lines that run elsewhere: signatures in test_evidence, the checker in test_formal.
ELSEWHERE = ("--signature", "--formal")


@pytest.mark.parametrize("name", GUIDES)
def test_commands_of_a_guide_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    GUIDES[name]()
    lines = "\n".join(body for language, body in BLOCK.findall(guide(name)) if language in ("sh", "console"))
    lines = lines.replace("\\\n", " ").replace("$ poisonproof", "poisonproof").splitlines()
    lines = [line for line in lines if not any(sign in line for sign in ELSEWHERE)]
    assert lines
    for line in lines:
        run_commands(line)


def test_a_schema_is_printed_as_the_guide_says():
    (line,) = [body for language, body in BLOCK.findall(guide("json")) if language == "sh"]
    words = [sys.executable, *shlex.split(line)[1:]]
    assert json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["$schema"]


def test_every_command_of_the_guides_is_run_by_a_test():
    run = {*GUIDES, "evidence", "serving", "json", "machine-checked"}  # all but the guides by tests of their own
    shown = {page.stem for page in GUIDE_PAGES if re.search(r"^```(sh|console)?\n\$? ?\w", page.read_text(), re.M)}
    assert shown <= run


def run_python(body, names, page):
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(body, page.name, "exec"), names)
    return said.getvalue()


def masked(line):
    """A line without its numbers and its blanks."""
    return " ".join(re.sub(r"\d[\d.,]*", "#", line).split())


def missing_lines(shown, said):
    """The lines of a shown output that did not come out, in this order."""
    said = iter([masked(line) for line in said.splitlines()])
    return [line for line in map(masked, shown.splitlines()) if line and line not in said]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorial(page, tmp_path, monkeypatch):
    text = page.read_text()
    for module, sign in NEEDS.items():
        if sign in text and find_spec(module) is None:
            pytest.skip(f"TUTORIAL NOT RUN: {page.name} needs {module}, which is not installed here")
    monkeypatch.chdir(tmp_path)
    before = os.times()
    names, said = {"__name__": "__main__"}, ""
    for language, body in BLOCK.findall(text):
        body = textwrap.dedent(body)
        if language == "sh":
            said = run_commands(body)
        elif language == "python":
            said = run_python(body, names, page)
        else:
            assert language == "text", f"{page.name} has a block of {language}, which nobody runs"
            assert missing_lines(body, said) == [], said
    seconds = sum(os.times()[:4]) - sum(before[:4])  # of processors, workers too: what else runs here does not count
    assert seconds < TEN_MINUTES, f"{page.name} took {seconds:.0f} CPU seconds from nothing to its end"


def test_shown_output_is_compared():
    assert missing_lines("a 1.5\n\nb", "x\na  27 \nb") == []
    assert missing_lines("b\na 1", "a 1\nb") == ["a #"]
    assert missing_lines("a 1 c", "a 1") == ["a # c"]
    with pytest.raises(AssertionError, match="not poisonproof's"):
        run_commands("rm -r x")
    with pytest.raises(AssertionError, match="no data set 'nothing'"):
        run_commands("poisonproof run nothing  # comment")
