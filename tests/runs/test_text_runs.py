"""A run on texts keeps its base classifiers as arrays; run, predict, update and verify say what each says alone."""

import numpy as np
import pytest

import poisonproof.training.engine as shared_texts
import poisonproof.training.stacked as stacked
from command_line import as_process, poisonproof
from poisonproof.runs.answers import SavedRun
from tables import write_csv

TOPICS = {
    "sport": "match goal team win coach",
    "money": "bank share price market fall",
    "sky": "star moon orbit comet sun",
}
OPTIONS = ("--k", 3, "--d", 2, "--n-jobs", 1, "--no-undefended")


def rows(n, *, columns):
    rng = np.random.default_rng(n)
    written = []
    for _ in range(n):
        topic = rng.choice(list(TOPICS))
        words = rng.choice([*TOPICS[topic].split(), *(f"word{i}" for i in range(30))], rng.integers(6, 14))
        text = " ".join(words) if rng.random() > 0.05 else ""
        more = [rng.choice(["north", "south", ""]), round(float(rng.normal()), 3)] if columns else []
        written.append([topic, text, *more])
    return written


@pytest.fixture(scope="module", params=["texts", "columns"])
def table(request, tmp_path_factory):
    """A file of texts, alone or among other columns, and how it is read."""
    folder, columns = tmp_path_factory.mktemp(request.param), request.param == "columns"
    names = ["topic", "text", *(["place", "size"] if columns else [])]
    (folder / "schema.json").write_text(
        '{"format": "poisonproof schema 2", "kind": "table", "columns": {"topic": "label", "text": "text"'
        + (', "place": "category", "size": "number"' if columns else "")
        + "}}"
    )
    return write_csv(folder / "own.csv", names, rows(150, columns=columns)), folder / "schema.json"


def run_of(table, out, *more):
    poisonproof("run", table[0], "--schema", table[1], *OPTIONS, *more, "--out", out)
    return out


@pytest.fixture(scope="module")
def whole(table, tmp_path_factory):
    return run_of(table, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def alone(table, tmp_path_factory):
    """The slow reference: nothing is stacked and no word is shared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "NAMES", {})
        patch.setattr(shared_texts, "MOST_BYTES", -1)
        return run_of(table, tmp_path_factory.mktemp("runs") / "alone")


def same_votes(one, other):
    return (one / "votes.npy").read_bytes() == (other / "votes.npy").read_bytes()


def test_votes_and_answers_are_those_of_each_alone(table, whole, alone):
    assert len(np.unique(np.load(whole / "votes.npy"))) == 3
    assert same_votes(whole, alone)
    assert [path.name for path in (whole / "models").glob("members-*")] == ["members-00000.npy"]
    assert [path.name for path in (alone / "models").glob("members-*")] == ["members-00000.skops"]
    assert SavedRun.open(whole).fitted.model.members_.stacks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "NAMES", {})
        saved = SavedRun.open(alone)
        assert not saved.fitted.model.members_.stacks
        slow = poisonproof("predict", alone, table[0], "--n-jobs", 1).stdout
    assert poisonproof("predict", whole, table[0], "--n-jobs", 1).stdout == slow
    assert poisonproof("predict", alone, table[0], "--n-jobs", 1).stdout == slow


def test_it_is_verified_and_a_changed_file_is_not(whole):
    assert "vote as stated to the bit" in poisonproof("verify", whole).stdout
    path = whole / "models" / "members-00000.npy"
    body = path.read_bytes()
    try:
        path.write_bytes(body[:-400] + bytes(400))
        done = poisonproof("verify", whole, code=3)
        assert "members-00000.npy" in done.stdout + done.stderr
    finally:
        path.write_bytes(body)


def test_an_update_is_the_run_on_what_is_left(table, whole, tmp_path):
    folder = run_of(table, tmp_path / "run")
    lines = table[0].read_text().splitlines(keepends=True)
    (tmp_path / "less.csv").write_text("".join(lines[:6] + lines[9:]))
    poisonproof("update", folder, tmp_path / "less.csv", "--n-jobs", 1)
    fresh = run_of((tmp_path / "less.csv", table[1]), tmp_path / "fresh")
    assert same_votes(folder, fresh)
    name = "models/members-00000.npy"
    assert (folder / name).read_bytes() == (fresh / name).read_bytes() != (whole / name).read_bytes()
    poisonproof("update", folder, "--remove", "0,1", "--n-jobs", 1)
    assert (folder / name).read_bytes() != (fresh / name).read_bytes()
    assert "vote as stated to the bit" in poisonproof("verify", folder).stdout


def test_training_samples_on_disk_give_the_same(table, whole, tmp_path):
    bounded = tmp_path / "bounded"  # by a process of its own: this one may hold more than the bound already
    as_process("run", table[0], "--schema", table[1], *OPTIONS, "--max-memory", "2GB", "--out", bounded)
    assert same_votes(bounded, whole)
