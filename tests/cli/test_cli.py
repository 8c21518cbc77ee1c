"""The command line as a person meets it: real processes, real files."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from command_line import COMMANDS, POISONPROOF
from command_line import as_process as poisonproof
from oracle import theorem_2
from poisonproof import Certificate, Spread, TargetCertificate, Votes, certify
from poisonproof.cli.main import main


@pytest.fixture
def votes(tmp_path):
    spread = Spread.paper(5, 3)
    matrix = np.random.default_rng(0).choice(4, (30, 15), p=[0.6, 0.2, 0.1, 0.1])
    np.save(tmp_path / "votes.npy", matrix)
    np.save(tmp_path / "labels.npy", np.zeros(30, int))
    return tmp_path / "votes.npy", matrix, spread


def test_every_command_has_help_with_an_example():
    for name, command in COMMANDS.items():
        text = poisonproof(name, "--help").stdout
        assert "Example: poisonproof" in text.replace("`", "")
        assert command.help


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rum"], "There is no 'rum' among the commands; did you mean 'run'?"),
        (["--rum"], "No such option: --rum; see `poisonproof --help`."),
        (["run"], "Missing argument 'DATA'; see `poisonproof run --help`."),
        (["run", "digits", "--lable", "y"], "No such option: --lable"),
        (["run", "digits", "--k", "x"], "Invalid value for '--k': "),
    ],
)
def test_words_that_cannot_be_read_are_one_line(words, said):
    done = poisonproof(*words, code=2)
    assert done.stderr.startswith(f"poisonproof: {said}")
    assert done.stderr.count("\n") == 1


def test_version_and_bare_call():
    from poisonproof import __version__

    assert poisonproof("--version").stdout.strip() == __version__


def test_certify_raw_votes(votes, tmp_path):
    path, matrix, spread = votes
    done = poisonproof(
        "certify",
        path,
        "--spread",
        "paper:5,3",
        "--classes",
        "4",
        "--labels",
        tmp_path / "labels.npy",
        "--json",
    )
    record = json.loads(done.stdout)
    references = [theorem_2([int(v) for v in row], spread.as_table(), 4) for row in matrix]
    for name in ("prediction", "runner_up", "margin", "radius"):
        assert record[name] == [reference[name] for reference in references]
    right = [reference["prediction"] == 0 and reference["radius"] >= 1 for reference in references]
    assert record["certified_fraction"][record["attack_size"].index(1)] == pytest.approx(np.mean(right))
    assert done.stderr.count("\n") == 1
    assert "WARNING: all test samples are '0'" in done.stderr


def test_certify_against_a_target(votes, tmp_path):
    path, matrix, spread = votes
    words = ("certify", path, "--spread", "paper:5,3", "--classes", "4", "--target")
    record = json.loads(poisonproof(*words, "2", "--json", "--out", tmp_path / "t.npz").stdout)
    found = certify(Votes(matrix, spread, range(4)), target=2)
    assert record["radius"] == found.radius.tolist() == TargetCertificate.load(tmp_path / "t.npz").radius.tolist()
    assert record["share_that_cannot_become_target"] == found.certified_share(record["attack_size"]).tolist()
    shown = poisonproof(*words, "2", "--labels", tmp_path / "labels.npy").stdout
    assert f"{(~found.already).sum()} predictions that are not 2" in shown
    assert "of other classes, % (pointwise)" in shown
    assert "--target '7' must name one of the 4 classes (0, 1, 2, 3)" in poisonproof(*words, "7", code=2).stderr


def test_certify_without_classes_reckons_with_one_more(votes):
    path, matrix, spread = votes
    done = poisonproof("certify", path, "--spread", "paper:5,3")
    assert "attack size" in done.stdout
    assert "chosen from this data" in done.stderr
    record = json.loads(poisonproof("certify", path, "--spread", "paper:5,3", "--json").stdout)
    assert record["radius"] == [
        theorem_2([int(v) for v in row], spread.as_table(), 4, True)["radius"] for row in matrix
    ]


def test_certify_by_spread_file_method_and_out(votes, tmp_path):
    path, _, spread = votes
    spread.save(tmp_path / "spread.npz")
    words = ("certify", path, "--classes", "4", "--json", "--spread")
    by_name = json.loads(poisonproof(*words, "paper:5,3").stdout)
    by_file = json.loads(poisonproof(*words, tmp_path / "spread.npz", "--out", tmp_path / "c.npz").stdout)
    assert by_file["radius"] == by_name["radius"] == Certificate.load(tmp_path / "c.npz").radius.tolist()
    bound = json.loads(poisonproof(*words, "paper:5,3", "--method", "dpa-bound").stdout)
    assert np.less_equal(bound["radius"], by_name["radius"]).all()
    tight = json.loads(poisonproof(*words, "paper:5,3", "--method", "tight").stdout)
    assert np.greater_equal(tight["radius"], by_name["radius"]).all()
    assert any(tight["exact"])
    assert "exact" not in by_name
    dpa = json.loads(poisonproof(*words, "dpa:15").stdout)
    assert dpa["d"] == 1
    assert dpa["k"] == 15


def test_designed_spreads_by_name(tmp_path):
    for name, spread in {
        "plane:2,3": Spread.planes(2, 3),
        "difference:7,3,0,1,3": Spread.planes(2, 3),
        "quartic:37,2": Spread.quartic(37, 2),
    }.items():
        np.save(tmp_path / "designed.npy", np.zeros((1, spread.n_subsets), np.uint8))
        words = ("certify", tmp_path / "designed.npy", "--spread", name, "--classes", 2, "--method", "tight", "--json")
        assert json.loads(poisonproof(*words).stdout)["spread_digest"] == spread.digest


def test_saved_votes_know_their_spread(votes, tmp_path):
    _, matrix, spread = votes
    Votes(matrix, spread, ["a", "b", "c", "d"]).save(tmp_path / "own.npy")
    record = json.loads(
        poisonproof("certify", tmp_path / "own.npy", "--labels", tmp_path / "labels.npy", "--json").stdout
    )
    assert record["spread_digest"] == spread.digest
    assert record["clean_accuracy"] > 0.5
    poisonproof("certify", tmp_path / "own.npy", "--spread", "paper:5,3")
    done = poisonproof("certify", tmp_path / "own.npy", "--spread", "random:5,3", code=2)
    assert "was made with another spread" in done.stderr
    for option, value in (("classes", 7), ("split", "group")):
        done = poisonproof("certify", tmp_path / "own.npy", f"--{option}", value, code=2)
        assert f"was made with another {option} than --{option} says" in done.stderr
    for wrong in (-1, 4):
        np.save(tmp_path / "wrong.npy", np.full(30, wrong))
        done = poisonproof("certify", tmp_path / "own.npy", "--labels", tmp_path / "wrong.npy", code=2)
        assert f"Label {wrong} is not one of the 4 classes" in done.stderr


def test_split_gives_the_subsets_the_estimator_uses(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    from poisonproof import FiniteAggregationClassifier, load

    digits = load("digits")
    np.savez(tmp_path / "train.npz", x_train=digits.train.X, y_train=digits.train.labels[:, None])
    words = (
        "split",
        tmp_path / "train.npz",
        "--k",
        10,
        "--d",
        3,
        "--out",
        tmp_path / "subsets.npz",
        "--json",
    )
    summary = json.loads(poisonproof(*words).stdout)
    assert summary["subsets"] == 30
    file = np.load(tmp_path / "subsets.npz")
    model = FiniteAggregationClassifier(GaussianNB(), k=10, d=3, classes=range(10)).fit(
        digits.train.X, digits.train.labels
    )
    columns = []
    for i in range(30):
        rows = file["rows"][file["starts"][i] : file["starts"][i + 1]]
        assert len(rows) == model.subset_sizes_[i]
        columns.append(GaussianNB().fit(digits.train.X[rows], digits.train.labels[rows]).predict(digits.test.X))
    np.save(tmp_path / "votes.npy", np.array(columns).T)
    words = ("certify", tmp_path / "votes.npy", "--classes", 10, "--spread")
    ours, found = model.certify(digits.test.X), json.loads(poisonproof(*words, summary["out"], "--json").stdout)
    assert (found["radius"], found["split"]) == (ours.radius.tolist(), ours.split.as_dict())
    assert summary["spread"] == f"random, {ours.spread}"
    assert Spread.load(summary["out"]) == ours.spread
    by_hand = Votes.from_subsets(np.array(columns).T, summary["out"], range(10))
    assert certify(by_hand).facts() == certify(Votes.load(saved(by_hand, tmp_path))).facts()
    assert (certify(by_hand).radius == ours.radius).all()
    typed = poisonproof(*words, "paper:10,3", "--split", "content")
    assert f"premise: spread: {Spread.paper(10, 3)}; the subsets were made with this spread (declared)" in typed.stderr
    assert f"premise: spread: {ours.spread}; as it was written with the subsets (declared)" in (
        poisonproof(*words, summary["out"]).stderr
    )
    assert "another split" in poisonproof(*words, summary["out"], "--split", "group", code=2).stderr


def saved(votes, folder):
    votes.save(folder / "known.npy")
    return folder / "known.npy"


def test_run_digits(tmp_path):
    done = poisonproof("run", "digits", "--k", 10, "--d", 2, "--out", "here", cwd=tmp_path)
    assert "certified, %" in done.stdout
    assert "(pointwise)" in done.stdout
    assert re.search(r"\d+ premises", done.stderr)
    assert (tmp_path / "here" / "report.html").exists()
    again = json.loads(
        poisonproof("run", "digits", "--k", 10, "--d", 2, "--out", "here", "--json", cwd=tmp_path).stdout
    )
    assert again["certified_fraction"][0] == again["clean_accuracy"] > 0.85
    assert again["certified_fraction_balanced"][0] == again["balanced_accuracy"] > 0.85
    assert 0.1 < again["majority_share"] < 0.15
    assert again["warning"] is None
    assert again["undefended_accuracy"] > again["clean_accuracy"]
    odd = poisonproof("run", "digits", "--k", 1200, "--d", 1, "--out", "odd", "--votes-only", cwd=tmp_path)
    assert "of 1200 subsets are empty" in odd.stderr


def test_interrupt_leaves_a_run_that_goes_on(tmp_path):
    """Ctrl-C in the middle: exit code 130, one sentence, and the rest is computed next time."""
    words = [
        POISONPROOF,
        "run",
        "digits",
        "--k",
        "50",
        "--d",
        "16",
        "--out",
        str(tmp_path / "run"),
        "--n-jobs",
        "1",
        "--votes-only",
    ]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("run/votes/block-*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "interrupted. What was finished is kept" in stderr
    assert not (tmp_path / "run" / "votes.npy").exists()
    assert not list((tmp_path / "run").rglob(".*"))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "going on with the run" in done.stderr
    assert (tmp_path / "run" / "votes.npy").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("certify", "votes.npy"), "does not say which spread made it"),
        (("certify", "votes.npy", "--spread", "paper:5"), "is not a spread"),
        (("certify", "votes.npy", "--spread", "nowhere.npz"), "neither a file nor a spread"),
        (
            ("certify", "votes.npy", "--spread", "votes.npy"),
            "votes.npy is damaged or was not written by poisonproof",
        ),
        (
            ("certify", "votes.npy", "--spread", "paper:5,4"),
            "15 columns, but the spread has 20 subsets (k = 5, d = 4)",
        ),
        (("certify", "votes.npy", "--spread", "paper:5,3", "--classes", "2"), "or 2 to abstain. Got 3"),
        (("certify", "votes.npy", "--spread", "paper:5,3", "--method", "magic"), "'method' of certify"),
        (
            ("certify", "votes.npy", "--spread", "paper:5,3", "--labels", "odd.npy", "--classes", "4"),
            "None of the 30 labels is one",
        ),
        (
            ("certify", "votes.npy", "--spread", "paper:5,3", "--labels", "few.npy"),
            "30 predictions but 2 labels",
        ),
        (("certify", "short.npy", "--spread", "paper:5,3"), "short.npy is not a whole .npy file"),
        (("certify", "missing.npy", "--spread", "paper:5,3"), "missing.npy: No such file"),
        (("run", "cats"), "no data set 'cats'"),
        (("run", "cats"), "`poisonproof example table` writes a small one to try"),
        (("run", "vote.npy"), "did you mean 'votes.npy'?"),
        (("run", "digits", "--k", "0"), "'k' parameter"),
        (("run", "digits", "--learner", "cats"), "no 'cats' among the learners"),
        (("run", "digits", "--learner", "glyphs", "--votes-only", "--out", "new"), "need grey images"),
        (("run", "digits", "--out", "occupied"), "not empty and holds no run"),
        (("split", "empty.npz", "--out", "s.npz"), "it must hold x_train or X"),
        (("split", "votes.npy", "--dtype", "uint8", "--out", "s.npz"), "declared as uint8"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(votes, tmp_path, words, message):
    path, _, _ = votes
    np.save(tmp_path / "odd.npy", np.full(30, 9))
    np.save(tmp_path / "few.npy", np.zeros(2, int))
    np.savez(tmp_path / "empty.npz", z=np.zeros(3))
    (tmp_path / "short.npy").write_bytes(path.read_bytes()[:-100])
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "x").touch()
    before = sorted(item.name for item in tmp_path.iterdir())
    done = poisonproof(*words, code=2, cwd=tmp_path)
    assert message in done.stderr
    assert sorted(item.name for item in tmp_path.iterdir()) == before


def test_read_only_folder(tmp_path, monkeypatch, capsys):
    """Simulated, because the superuser may write anywhere."""

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "somewhere")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    monkeypatch.setattr(sys, "argv", ["poisonproof", "run", "digits", "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "poisonproof: somewhere: Permission denied.\n"


def test_an_output_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    assert "Not a directory" in poisonproof("run", "digits", "--out", tmp_path / "file" / "run", code=2).stderr
    assert "file: File exists" in poisonproof("run", "digits", "--out", tmp_path / "file", code=2).stderr
