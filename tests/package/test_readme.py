"""What the README and the docs show is run as it stands."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


DOCS = "".join(
    page.read_text()
    for page in [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "proofs").glob("*.md"))]
)


def fenced(language, text=README):
    return [textwrap.dedent(body) for body in re.findall(rf"^[ ]*```{language}\n(.*?)```", text, re.M | re.S)]


@pytest.mark.parametrize("code", fenced("python") + fenced("python", DOCS), ids=lambda code: code.split("\n")[0][:40])
def test_python_in_readme_and_docs_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})


def test_commands_in_the_readme_run(tmp_path):
    np.savez(tmp_path / "train.npz", x_train=np.random.default_rng(0).random((200, 3)))
    np.save(tmp_path / "votes.npy", np.zeros((5, 80), np.uint8))
    commands = [line for body in fenced("sh") for line in body.splitlines() if line.startswith("poisonproof")]
    assert len(commands) == 6
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for line in commands:
        subprocess.run(
            line, shell=True, check=True, capture_output=True, cwd=tmp_path, env={**os.environ, "PATH": path}
        )


def test_make_targets_in_the_readme_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {"help", "run", "test", "check", "format", "docs", "bench"} <= targets
    assert set(re.findall(r"`?make ([a-z]+)", README)) <= targets | {"it"}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_files_that_the_architecture_names_exist():
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(named) > 50
    assert [name for name in named if not (ROOT / "src" / "poisonproof" / name).exists()] == []


def test_api_is_what_all_names():
    import poisonproof

    for name in poisonproof.__all__:
        assert getattr(poisonproof, name).__doc__, name
    assert set(poisonproof.__all__) <= set(dir(poisonproof))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = poisonproof.nothing
