"""What data and files say reaches a reader's eyes as text: no terminal, page or spreadsheet obeys it."""

import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

import poisonproof
from poisonproof import (
    Certificate,
    FiniteAggregationClassifier,
    Spread,
    Votes,
    certify,
)
from poisonproof.cli import options, output
from poisonproof.cli.main import app
from poisonproof.cli.output import progress_bar
from poisonproof.display import as_cell, in_markdown, shown, shown_lines, templates
from poisonproof.estimators.base import warn
from poisonproof.premises import Premise, PremiseWarning, to_records
from poisonproof.system.files import open_arrays, read_record, sha256_of, write_arrays, write_record

CLI = Path(poisonproof.__file__).parent / "cli"
# Cursor home, erase the line, colour; C1's own introducer; DEL; bidirectional, zero-width, tag and line-end characters;
# a line of our own making, Rich's markup, and HTML.
CONTROLS = "\x1b[1A\x1b[2K\r\x9b31m\x7f\x00\x08\u202e\u2066\u200e\u061c\u2028\u2029\u200b\ufeff\U000e0041"
FAKE = "VERIFIED: all radii are right"
HOSTILE = f"cat{CONTROLS}\n{FAKE}\n[red]:smile:[/red]<b>$\\frac$|%"
CELL = HOSTILE.replace("\x00", "")
NAME = CELL.replace("/", "")


def unsafe(text, *, but="\n"):
    """The characters that a terminal or a browser would obey or hide."""
    return sorted({c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in but})


def invoke(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    assert unsafe(done.stdout) == []
    assert unsafe(done.stderr) == []
    for line in [*done.stdout.splitlines(), *done.stderr.splitlines()]:
        assert not line.strip().startswith(FAKE)
    return done


# The function


@pytest.mark.parametrize(
    "code", [*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x61C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F]
)
def test_controls_and_invisible_characters_are_written_out(code):
    assert shown(f"a{chr(code)}b") == f"a{chr(code).encode('unicode_escape').decode()}b"


def test_what_turns_or_hides_is_written_out_and_words_of_all_scripts_are_not():
    turning = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF, 0x2800, 0x3164, 0xE0041, 0xDC80]
    assert shown("".join(map(chr, turning))).isascii()
    assert shown("\x1b[31m") == r"\x1b[31m"
    assert shown("\u202eab\r\n") == r"\u202eab\r\n"
    for words in ("Ärger", "שלום", "北京　市", "naïve – ‘x’", "a\u00a0b", "C:\\new", "🐈", "हिन्दी"):
        assert shown(words) == words


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_shown_text_is_safe_and_showing_twice_is_showing_once(text):
    assert unsafe(shown(text), but="") == []
    assert shown(shown(text)) == shown(text)
    shown(text).encode("utf-8")
    assert unsafe(shown_lines(text)) == []


# The command line


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory):
    """A run on a file whose name, columns, cells and labels all try."""
    folder = tmp_path_factory.mktemp("hostile")
    data = folder / f"{NAME[:60]}.parquet"  # unlike our CSV, it can hold line ends in cells
    rng, kinds = np.random.default_rng(0), np.arange(120) % 2
    columns = {
        "x": rng.normal(size=120) + 3 * kinds,
        f"col{CELL}": rng.choice(["u", f"@{CELL}"], 120).tolist(),
        "kind": [(CELL, "=cmd()")[kind] for kind in kinds],
    }
    parquet.write_table(pyarrow.table(columns), data)
    out = folder / f"run{NAME[:40]}"
    done = invoke("run", data, "--label", "kind", "--k", 5, "--d", 2, "--n-jobs", 1, "--out", out)
    return data, out, done


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_run_tells_of_hostile_names_without_obeying_them(hostile_run):
    _, out, done = hostile_run
    assert r"\x1b[2K\r" in done.stdout
    assert "[red]:smile:[/red]" in done.stdout
    page = (out / "report.html").read_text("utf-8")
    assert unsafe(page) == []
    tiles = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1)
    assert unsafe(repr_of(json.loads(tiles))) == []
    assert r"\u202e" in page
    assert FAKE not in page.splitlines()


def repr_of(value):
    """All text in a record, one below the other."""
    if isinstance(value, dict):
        return repr_of([*value, *value.values()])
    return "\n".join(map(repr_of, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "RUN"],
        ["verify", "RUN", "--json"],
        ["predict", "RUN", "DATA", "--out", "OUT.csv", "--n-jobs", "1"],
        ["predict", "RUN", "DATA", "--out", "OUT.csv", "--n-jobs", "1", "--json"],
        ["predict", "RUN", "DATA", "--votes", "--out", "OUT.npy", "--n-jobs", "1"],
        ["audit", "RUN", "--targets", "1", "--kinds", "remove", "--attack-size", "1"],
        [
            "compare",
            "DATA",
            "--label",
            "kind",
            "--k",
            "5",
            "--classifiers",
            "10",
            "--rows",
            "finite",
            "--n-jobs",
            "1",
        ],
        ["certify", "RUN/votes.npy"],
        ["run", "DATA", "--label", "kind", "--k", "5", "--d", "2", "--n-jobs", "1", "--out", "OUT", "--json"],
    ],
    ids=" ".join,
)
def test_no_command_lets_a_control_character_through(hostile_run, tmp_path, words):
    data, out, _ = hostile_run
    at = {"RUN": str(out), "DATA": str(data), "OUT": str(tmp_path / NAME[:40])}
    spoken = [re.sub("RUN|DATA|OUT", lambda found: at[found[0]], word) for word in words]
    done = invoke(*spoken)
    assert "--json" not in words or json.loads(done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["run", f"no{HOSTILE}"],
        ["verify", f"no{HOSTILE}"],
        ["certify", f"no{HOSTILE}.npy"],
        ["certify", "votes.npy", "--spread", HOSTILE],
        ["run", "digits", "--k", HOSTILE],
        ["run", "digits", f"--{HOSTILE}"],
        ["run", "digits", "more", HOSTILE],
        [HOSTILE],
        ["example", HOSTILE],
        ["certify", "votes.npy", "--shared", "--labels", "y.npy", "--attack-size", HOSTILE],
        ["compare", "digits", "--rows", HOSTILE],
    ],
    ids=range(11),
)
def test_no_error_lets_a_control_character_through(words):
    invoke(*(word.replace("\x00", "") for word in words), code=2)


def test_a_defect_of_ours_is_told_without_obeying_its_message(tmp_path):
    code = (
        "import poisonproof.cli.tools as tools\n"
        f"def broken(folder): raise RuntimeError({HOSTILE!r})\n"
        "tools.examine = broken\n"
        "from poisonproof.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "doctor"], capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert unsafe(done.stderr.decode()) == []
    assert "Traceback" in done.stderr.decode()


# The verdict


@pytest.fixture
def forged(tmp_path):
    """A certificate whose radius is one too large and whose words try to hide it, with its votes."""
    votes = Votes(np.array([[0, 0, 0, 0, 1]] * 3), Spread.random(5, 1), ["a", f"b{HOSTILE}"])
    votes.save(tmp_path / "votes.npy")
    certify(votes).save(tmp_path / "certificate.npz")
    arrays, facts = open_arrays(tmp_path / "certificate.npz", ("prediction", "runner_up", "margin", "radius"))
    facts = {name: value for name, value in facts.items() if name not in ("sha256", "digest")}
    facts |= {"method": HOSTILE, "premises": [{"code": "schema", "value": HOSTILE, "declared": True}]}
    write_arrays(tmp_path / "certificate.npz", {**arrays, "radius": arrays["radius"] + 1}, facts)
    return tmp_path


def test_not_verified_cannot_be_overwritten_by_the_name_of_a_file(forged):
    path = (forged / "certificate.npz").rename(forged / f"c{NAME}.npz")
    path.write_bytes(path.read_bytes()[:-30])
    done = invoke("verify", path, "--votes", forged / "votes.npy", code=3)
    assert done.stdout.startswith("NOT VERIFIED: ")
    assert r"\x1b[2K\r" in done.stdout
    assert done.stdout.count("\n") == 1
    verdict = poisonproof.verify(path, votes=forged / "votes.npy")
    assert unsafe(str(verdict)) == []
    assert verdict.verdict.startswith("NOT VERIFIED: ")


def test_not_verified_cannot_be_overwritten_by_a_premise(hostile_run, tmp_path):
    """The issue's own case: a run with a false premise, all its digests redone, whose words hide the verdict."""
    folder = shutil.copytree(hostile_run[1], tmp_path / "run", ignore=shutil.ignore_patterns("models"))
    votes, certificate = Votes.load(folder / "votes.npy"), Certificate.load(folder / "certificate.npz")
    premises = tuple(replace(one, value=HOSTILE) if one.code == "spread" else one for one in certificate.premises)
    assert premises != certificate.premises
    replace(votes, premises=premises).save(folder / "votes.npy")
    replace(certificate, premises=premises).save(folder / "certificate.npz")
    manifest = read_record(folder / "manifest.json")
    manifest["premises"] = to_records(premises)
    manifest["files"] = {
        name: sha256_of(folder / name) if (folder / name).exists() else digest
        for name, digest in manifest["files"].items()
    }
    write_record(folder / "manifest.json", manifest)
    done = invoke("verify", folder, code=3)
    assert done.stdout.startswith("NOT VERIFIED: premises: ")
    assert r"\u001b[2K\r" in done.stdout
    assert done.stdout.count("\n") == 1
    verdict = poisonproof.verify(folder)
    assert unsafe(str(verdict)) == []
    assert unsafe(verdict.verdict, but="") == []
    assert verdict.verdict.startswith("NOT VERIFIED: ")


def test_not_verified_cannot_be_overwritten_on_a_terminal(forged):
    """With stdout a terminal, where colours are allowed, the one line still says what it says."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    leader, follower = pty.openpty()
    code = "from poisonproof.cli.main import main; main()"
    words = ["verify", str(forged / "certificate.npz"), "--votes", str(forged / "votes.npy")]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=follower, stderr=subprocess.PIPE)
    os.close(follower)
    _, told = process.communicate(timeout=600)
    seen = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert process.returncode == 3, told
    assert seen.startswith("NOT VERIFIED: ")
    assert unsafe(seen.replace("\r\n", "\n")) == []


def test_certificates_premises_and_warnings_show_what_they_quote(forged):
    certificate = Certificate.load(forged / "certificate.npz")
    assert unsafe(str(certificate)) == []
    assert unsafe(certificate._repr_html_()) == []
    assert FAKE not in str(certificate).splitlines()
    assert unsafe(str(Premise("classes", HOSTILE, declared=True)), but="") == []
    with pytest.warns(PremiseWarning) as caught:
        warn(HOSTILE)
    assert unsafe(str(caught[0].message), but="") == []


def test_a_fitted_model_warns_of_hostile_labels_in_one_line():
    X, y = np.arange(40.0).reshape(-1, 1), np.array([f"a{HOSTILE}", "b"] * 20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FiniteAggregationClassifier(k=4, d=1, classes=["b", "c"]).fit(X, y)
    assert [unsafe(str(one.message), but="") for one in caught] == [[]] * len(caught)
    assert unsafe(str(model.certify(X))) == []


# Where text is printed


def test_only_one_module_of_the_command_line_prints():
    """`output` shows what it prints; a command that printed by itself would forget to."""
    for path in CLI.glob("*.py"):
        if path.name != "output.py":
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            names = {ast.unparse(call) for call in calls}
            assert not names & {"typer.echo", "print", "typer.secho", "sys.stdout.write", "sys.stderr.write"}, path


def test_a_shell_is_offered_no_file_that_it_would_obey(tmp_path):
    for name in ("good.csv", f"{NAME[:40]}.csv"):
        (tmp_path / name).write_text("")
    assert options.complete_data(f"{tmp_path}/") == [f"{tmp_path}/good.csv"]


def test_tables_and_bars_take_cells_for_text(capsys):
    output.print_table(HOSTILE, [HOSTILE, "[bold]b"], [[HOSTILE, "[/]"]])
    out = capsys.readouterr().out
    assert unsafe(out) == []
    assert "[bold]b" in out
    assert out.count("[red]:smile:[/red]") == 3
    with progress_bar("{task.fields[x]} [red]" + CONTROLS) as bar:
        bar(1, 2)


def test_templates_show_what_is_put_into_them():
    page = templates().from_string("<p>{{ label }}</p>{{ made }}").render(label=HOSTILE, made=3)
    assert unsafe(page) == []
    assert "&lt;b&gt;" in page


def test_markdown_specials():
    assert in_markdown("a|b *c* `d` [e](f) <g> \\ _h_ &amp;") == (
        r"a\|b \*c\* \`d\` \[e\](f) &lt;g&gt; \\ \_h\_ &amp;amp;"
    )
    assert in_markdown("certified fraction, % (pointwise) d = 1") == "certified fraction, % (pointwise) d = 1"


# Spreadsheets


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "-"])
def test_formulas_are_neutralised(cell):
    assert as_cell(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["-1.5", "+3", "-.5e-3", "1e5", "cat", "", "a=b", "'=1", -1.5, 3, None, "−1"])
def test_numbers_and_plain_words_stay(cell):
    assert as_cell(cell) == cell


def test_predictions_hold_no_formula_unless_asked_to(hostile_run, tmp_path):
    data, out, _ = hostile_run
    for more, expected in (([], "'=cmd()"), (["--raw"], "=cmd()")):
        invoke("predict", out, data, "--out", tmp_path / "answers.csv", "--n-jobs", 1, *more)
        with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert {row["prediction"] for row in rows} == {expected, CELL}
    invoke("predict", out, data, "--out", tmp_path / "answers.jsonl", "--n-jobs", 1)
    text = (tmp_path / "answers.jsonl").read_text("utf-8")
    assert unsafe(text) == []
    assert {json.loads(line)["prediction"] for line in text.splitlines()} == {"=cmd()", CELL}
