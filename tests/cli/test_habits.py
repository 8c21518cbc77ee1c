"""Habits of the command line and of notebooks: completion, progress, doctor, examples, rich displays."""

import csv
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from command_line import COMMANDS
from poisonproof import (
    CertifiedBaggingClassifier,
    FiniteAggregationClassifier,
    Spread,
    Votes,
    certify,
    registry,
)
from poisonproof.auditing.attacks import ATTACKS
from poisonproof.ballots.options import VoterOptions
from poisonproof.cli import options, tools
from poisonproof.cli.main import app
from poisonproof.cli.run import EnsembleOptions, prepare
from poisonproof.cli.tools import WRITERS, write_example
from poisonproof.core.certify import Method
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.planning.compare import titles
from poisonproof.premises import Premise
from poisonproof.system.machine import memory
from poisonproof.system.progress import counted, watched
from poisonproof.system.threads import in_threads

POISONPROOF = str(Path(sys.executable).with_name("poisonproof"))
X, Y = load_iris(return_X_y=True)
HOSTILE = "<script>alert(1)</script>\"'&"


def invoke(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


# Help and completion


HEAVY = ("scipy", "sklearn", "numba", "matplotlib", "pandas", "torch", "PIL", "jinja2", "joblib", "pyarrow", "skops")
VOTES = ("certify", "votes.npy", "--spread", "paper:5,3", "--classes", "3", "--labels", "labels.npy")


def run_and_list(words, heavy, folder):
    """A command in a fresh process; what it imported of these stands last on stderr."""
    code = (
        "import sys; from poisonproof.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print(sorted(set(sys.modules) & set({heavy!r})), file=sys.stderr)"
    )
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], (*HEAVY, "numpy")),
        (["run", "--help"], (*HEAVY, "numpy")),
        (["--version"], (*HEAVY, "numpy")),
        ([*VOTES, "--json"], (*HEAVY, "rich.progress", "poisonproof.training")),
        ([*VOTES, "--method", "tight"], tuple(name for name in HEAVY if name not in ("numba", "scipy"))),
    ],
    ids=lambda given: " ".join(given[:2]),
)
def test_nothing_heavy_is_imported_where_it_is_not_needed(tmp_path, words, heavy):
    """Half a second for help, a bad word and a few votes: who brings votes need not wait for what trains."""
    np.save(tmp_path / "votes.npy", np.random.default_rng(0).integers(0, 3, (20, 15)))
    np.save(tmp_path / "labels.npy", np.zeros(20, int))
    done = run_and_list(words, heavy, tmp_path)
    assert done.stdout
    assert done.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "no.csv", "--label", "y"], "There is no data set 'no.csv'"),
        (["run", "my.csv", "--label", "z"], "my.csv has no column 'z'"),
        (["plan", "no.csv", "--attack-size", "3"], "There is no data set 'no.csv'"),
        (["compare", "no.csv"], "There is no data set 'no.csv'"),
        (["predict", "no", "my.csv"], "no holds no run"),
        (["update", "no"], "no holds no run"),
        (["run", "my.csv", "--lable", "y"], "No such option: --lable"),
    ],
)
def test_what_is_not_there_is_told_before_numpy_is_imported(tmp_path, words, said):
    """In a fifth of a second."""
    (tmp_path / "my.csv").write_text("x,y\n1,2\n")
    told, imported = run_and_list(words, ("numpy",), tmp_path).stderr.splitlines()
    assert told.startswith(f"poisonproof: {said}")
    assert imported == "[]"


def complete(line, folder):
    """What bash is told to complete, by the script that --show-completion prints."""
    words = line.split(" ")
    env = {
        **os.environ,
        "_POISONPROOF_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
    }
    done = subprocess.run([POISONPROOF], capture_output=True, text=True, env=env, cwd=folder, check=False)
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path):
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [POISONPROOF, "--show-completion", "bash"], capture_output=True, text=True, env=env, check=True
    )
    assert "complete -o default -F _poisonproof_completion poisonproof" in shown.stdout
    (tmp_path / "diabetes.csv").touch()
    assert complete("poisonproof doc", tmp_path) == ["doctor"]
    assert set(complete("poisonproof run di", tmp_path)) == {"digits", "diabetes.csv"}
    assert complete("poisonproof run digits --learner ta", tmp_path) == ["table"]


@pytest.mark.parametrize(
    ("command", "option", "known"),
    [
        ("run", "data", registry.LINES["datasets"]),
        ("compare", "data", registry.LINES["datasets"]),
        ("verify", "data", registry.LINES["datasets"]),
        ("update", "data", registry.LINES["datasets"]),
        ("run", "learner", registry.LINES["learners"]),
        ("compare", "learner", registry.LINES["learners"]),
        ("certify", "method", get_args(Method)),
        ("audit", "method", ("finite-aggregation", "tight")),
        ("audit", "kinds", ATTACKS),
        ("compare", "rows", titles()),
        ("example", "name", WRITERS),
        ("run", "split", ("content", "pixel-sum")),
        ("split", "dtype", ("float64", "uint8")),
    ],
)
def test_values_complete_to_what_the_command_accepts(tmp_path, monkeypatch, command, option, known):
    monkeypatch.chdir(tmp_path)
    found = COMMANDS[command]
    parameter = next(one for one in found.params if one.name == option)
    offered = [
        item.value for item in parameter.shell_complete(found.make_context(command, [], resilient_parsing=True), "")
    ]
    assert offered == list(known)


def test_spreads_files_and_lists_complete(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "a.txt", ".hidden.csv", "s.npz"):
        (tmp_path / name).touch()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "b.parquet").touch()
    assert options.complete_data("") == [*registry.names("datasets"), "a.csv", "runs/", "s.npz"]
    assert options.complete_data("runs/") == ["runs/b.parquet"]
    assert options.complete_data(".h") == [".hidden.csv"]
    assert options.complete_data("nowhere/") == []
    assert options.complete_spreads("pa") == ["paper:"]
    assert options.complete_spreads("s") == ["s.npz"]
    attacks = options.one_of(lambda: ATTACKS, several=True)
    assert attacks("remove,") == [f"remove,{kind}" for kind in ATTACKS if kind != "remove"]
    for spread in options.SPREADS:
        assert spread in options.FORMS


# Progress


def test_work_is_counted_for_who_watches_and_for_nobody_else():
    told = []
    with watched(lambda done, total: told.append((done, total))):
        assert list(counted("abc", 3)) == ["a", "b", "c"]
        in_threads(10, 4, lambda start, stop: None, 1)
        in_threads(10, 4, lambda start, stop: None, 2)
    assert told == [(1, 3), (2, 3), (3, 3)] * 3
    assert list(counted("ab", 2)) == ["a", "b"]
    assert len(told) == 9


def on_a_terminal(words, folder):
    """stdout and stderr of a command whose stderr is a terminal."""
    pty = pytest.importorskip("pty", reason="NO TERMINAL TO TEST WITH: this system has none that a program can open")
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(
        [POISONPROOF, *map(str, words)], stdout=subprocess.PIPE, stderr=follower, cwd=folder, env=env
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, seen.decode()
    return out.decode(), seen.decode()


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("votes")
    write_example("votes", folder)
    return folder


def test_long_work_shows_a_bar_with_time_left_on_a_terminal_and_nothing_in_a_pipe(votes):
    words = ("certify", "votes.npy", "--spread", "paper:20,4", "--classes", 10, "--method", "tight", "--json")
    out, seen = on_a_terminal(words, votes)
    assert "certifying" in seen
    assert re.search(r"\d+/\d+", seen)
    assert re.search(r"(-|\d+):[-\d]+:[-\d]+", seen)  # time left
    piped = subprocess.run([POISONPROOF, *map(str, words)], capture_output=True, text=True, cwd=votes, check=True)
    assert piped.stderr == ""
    assert json.loads(out) == json.loads(piped.stdout)


def test_a_run_shows_something_before_it_reads_and_while_it_does(tmp_path):
    rows = "".join(f"{i % 7},{i % 2}\n" for i in range(40))
    (tmp_path / "my.csv").write_text(f"a,y\n{rows}")
    _, seen = on_a_terminal(("run", "my.csv", "--label", "y", "--k", 2, "--no-undefended", "--n-jobs", 1), tmp_path)
    shown = [seen.index(what) for what in ("starting", "reading my.csv", "learner: auto", "training")]
    assert shown == sorted(shown)


def test_retraining_and_recomputing_are_counted(tmp_path):
    from poisonproof import Dataset, load, verify
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.run import run

    digits = load("digits")
    few = Dataset.of(
        "few", digits.train.X, digits.train.labels, digits.test.X[:9], digits.test.labels[:9], digits.classes
    )
    model = FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=range(10), n_jobs=1)
    run(few, model, tmp_path / "run", RunSettings(votes_only=True))
    told = []
    learner = GaussianNB()
    verdict = verify(tmp_path / "run", data=few, estimator=learner, retrain=3, progress=lambda *pair: told.append(pair))
    assert verdict.ok
    assert told == [(done, 9) for done in range(1, 10)] + [(1, 3), (2, 3), (3, 3)]


# poisonproof doctor


def test_doctor_says_what_is_there_and_what_to_type_for_the_rest(monkeypatch):
    stated = [
        "numpy>=2.0",
        "pandas>=2.2; extra == 'tables'",
        "torch-of-the-future>=9; extra == 'torch'",
        "x; extra == 'dev'",
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: stated)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    text = invoke("doctor").stdout
    assert f"numpy {np.__version__}" in text
    assert "missing torch-of-the-future: pip install '.[torch]'" in text
    assert re.search(r"\[tables\] +pandas \d", text)
    assert "[dev]" not in text
    assert "OMP_NUM_THREADS=3" in text
    assert re.search(r"memory +[\d.]+ GB, [\d.]+ GB free; [\d.]+ GB free on this disk", text)
    assert "the toy example has radius 1, as it must" in text
    assert "browser         none needed" in text
    record = json.loads(invoke("doctor", "--json").stdout)
    assert record["ok"]
    assert record["cores"] <= record["cores_in_all"]
    assert record["optional"][1] == {"name": "torch", "present": {}, "missing": ["torch-of-the-future"]}


def test_doctor_refuses_an_installation_that_cannot_count(monkeypatch):
    monkeypatch.setattr(tools, "_toy", lambda: (2, 0.1))
    done = invoke("doctor", code=2)
    assert "believe no radius from this installation" in done.stderr
    assert "NOT 1" in done.stdout


def test_memory_with_and_without_linux(monkeypatch):
    said = "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:    500 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda *args, **more: said)
    assert memory() == (2_048_000, 512_000)
    monkeypatch.setattr(Path, "read_text", lambda *args, **more: (_ for _ in ()).throw(OSError()))
    assert memory() == (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None)
    monkeypatch.delattr(os, "sysconf")
    assert memory() == (None, None)


# poisonproof example


@pytest.mark.parametrize("name", WRITERS)
def test_examples_are_the_same_each_time(tmp_path, name):
    def contents(folder):
        return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    first, second = (write_example(name, tmp_path / place) for place in ("one", "two"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert first.command.startswith("poisonproof ")
    assert first.path.exists()
    assert second.words == first.words


def test_example_table_has_what_it_promises(tmp_path):
    done = invoke("example", "table", tmp_path)
    assert f"Next: poisonproof run {tmp_path}/tumours.csv --label diagnosis" in done.stdout
    rows = list(csv.DictReader((tmp_path / "tumours.csv").open()))
    cells = [cell for row in rows for cell in row.values()]
    assert 0.01 < sum(cell in ("", "?") for cell in cells) / len(cells) < 0.1
    dataset = open_files(tmp_path / "tumours.csv", ReadOptions(label="diagnosis"))
    assert dataset.schema.named("category") == ["size", "dents"]
    assert len(dataset.schema.named("number")) == 6
    assert set(dataset.train.labels) == {"benign", "malignant"}


def test_example_texts_are_texts_of_several_topics(tmp_path):
    dataset = open_files(write_example("text", tmp_path).path, ReadOptions(label="topic"))
    assert dataset.schema.only_texts
    counts = {topic: list(dataset.train.labels).count(topic) for topic in set(dataset.train.labels)}
    assert len(counts) == 4
    assert min(counts.values()) > 100


def test_example_lists_its_choices_and_refuses_others(tmp_path):
    text, record = invoke("example").stdout, json.loads(invoke("example", "--json").stdout)
    assert list(record["examples"]) == list(WRITERS)
    assert all(re.search(rf"^{name} +{re.escape(words)}$", text, re.M) for name, words in record["examples"].items())
    assert "There is no example 'cats'; there are table, contributors" in invoke("example", "cats", code=2).stderr
    record = json.loads(invoke("example", "contributors", tmp_path / "new" / "folder", "--json").stdout)
    assert record["out"].endswith("tumours-by-clinic.csv")
    assert "--group-column clinic" in record["next"]


# Notebooks


class Balanced(HTMLParser):
    """Refuses tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in ("input", "br", "meta", "link", "img", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(html):
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser


def test_a_certificate_shows_itself():
    spread = Spread.paper(5, 3)
    matrix = np.random.default_rng(0).choice(4, (30, 15), p=[0.6, 0.2, 0.1, 0.1])
    premises = (Premise("learner", HOSTILE, declared=True),)
    certificate = certify(Votes(matrix, spread, range(4), premises=premises))
    html = certificate._repr_html_()
    page = parsed(html)
    text = " ".join(page.text)
    assert "Certificate (finite-aggregation) for 30 predictions" in text
    median = int(np.percentile(certificate.radius, 50, method="lower"))
    assert f"median {median}, smallest {certificate.radius.min()}, largest {certificate.radius.max()} training" in text
    assert "script" not in page.seen
    assert HOSTILE in text
    assert html.count("<svg") == 2
    assert len(html) < 5000
    empty = certify(Votes(np.zeros((0, 15), int), spread, range(4)))
    assert "svg" not in parsed(empty._repr_html_()).seen


def test_a_model_keeps_scikit_learns_diagram_and_says_what_is_certified():
    model = FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=range(3), n_jobs=1)
    before = model._repr_html_()
    assert "Not fitted. After fit(X, y), certify(X) gives a radius for every prediction." in before
    model.fit(X, Y)
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in html
        said = "10 base classifiers for 3 classes; a training sample reaches 2 of them (k = 5); certify(X) gives"
        assert html.count(said) == 1
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_stochastic_certificates_and_models_say_the_probability():
    model = CertifiedBaggingClassifier(GaussianNB(), subset_size=20, n_draws=100, alpha=0.01, seed=7, classes=range(3))
    certificate = model.fit(X[::2], Y[::2]).certify(X[1::2])
    text = " ".join(parsed(certificate._repr_html_()).text)
    assert "holds with probability at least 99 %" in text
    assert f"abstentions: {certificate.abstained.sum()}" in text
    assert "all true but with probability 0.01" in model._repr_html_()


@pytest.mark.parametrize(
    ("k", "d", "spread", "name"), [(20, 3, None, "digits-k20-d3"), (50, 16, "plane:4,12", "digits-k50.4-d5")]
)
def test_a_run_without_a_folder_is_named_after_what_it_trains(k, d, spread, name):
    made = prepare(EnsembleOptions("digits", k, d, spread=spread), VoterOptions(), ReadOptions())
    assert made.folder == Path("runs") / name
