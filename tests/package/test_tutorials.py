"""Every block of every tutorial and recipe is run, in the order of the page; what is shown as output must come out.

Numbers in shown output may differ from machine to machine and are not compared; words are.
"""

import io
import os
import re
import shlex
import textwrap
import warnings
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from poisonproof.cli.main import app

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
RECIPES = TUTORIALS.with_name("recipes")
PAGES = [*sorted(TUTORIALS.glob("*.md")), *sorted(page for page in RECIPES.glob("*.md") if page.stem != "index")]
BLOCK = re.compile(r"^[ ]*```(\w+)\n(.*?)^[ ]*```$", re.M | re.S)
TEN_MINUTES = 600
NEEDS = {"torch": "import torch", "distributed": "from distributed"}
NEEDS |= {"onnxruntime": "efficientnet", "tokenizers": "wordllama"}


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
        expected = 5 if "# CONSISTENT, exit code 5" in line else 0
        assert done.exit_code == expected, f"{line}\n{done.stderr}\n{done.exception!r}"
        said.append(done.stdout)
    return "".join(said)


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


def test_there_are_the_tutorials_that_were_promised():
    promised = {"tabular", "text", "images", "votes-from-pytorch", "contributors", "unlearning"}
    promised |= {"encoder-images", "encoder-texts", "embeddings-from-a-gpu"}
    assert promised <= {page.stem for page in PAGES}
    for name in promised:
        assert "```python\n" in (TUTORIALS / f"{name}.md").read_text()


@pytest.mark.parametrize("name", ["retrieval", "federated", "crowd", "lora"])
def test_a_recipe_says_its_catch_first_and_what_it_does_not_cover(name):
    text = (RECIPES / f"{name}.md").read_text()
    assert text.split("\n\n")[1].startswith("**The catch first.**")
    assert "What is **not** covered:" in text
    assert "certify" in text
    assert f"({name}.md)" in (RECIPES / "index.md").read_text()
