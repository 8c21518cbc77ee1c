"""Files that lie about their size, bombs, links and pickles: refused in one sentence, before memory is taken."""

import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io  # noqa: F401  (imported here, so that its memory is not counted)
from sklearn.naive_bayes import GaussianNB

import poisonproof
from poisonproof import Dataset, FiniteAggregationClassifier, Spread, Votes
from poisonproof.cli.certify import _arrays as read_for_split
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.report import write_report
from poisonproof.runs.run import run
from poisonproof.system.archives import map_npy, read_npz
from poisonproof.system.files import reading, sha256_of, write_record
from poisonproof.training.model_files import load_state
from refused import refused

MOST_MEMORY = 120 << 20


@pytest.fixture(autouse=True)
def bounded_memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_MEMORY


def npy_header(shape, dtype="|u1"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_2_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def npz(path, members, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, body in members.items():
            archive.writestr(f"{name}.npy", body)


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 62, 1 << 62), (-1,), (-2, -3), (1 << 70, 0), (4,)])
def test_arrays_that_state_more_or_less_than_they_hold(tmp_path, shape):
    body = npy_header(shape) + b"abc"
    (tmp_path / "a.npy").write_bytes(body)
    npz(tmp_path / "a.npz", {"x_train": body})
    for read, name in ((map_npy, "a.npy"), (read_npz, "a.npz"), (read_for_split, "a.npy"), (read_for_split, "a.npz")):
        with refused("file.damaged"), reading(tmp_path / name):
            read(tmp_path / name)


class Evil:
    def __reduce__(self):
        return (Path("evil").touch, ())


def test_pickles_are_never_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.array([Evil()]), allow_pickle=True)
    Path("b.npy").write_bytes(pickle.dumps(Evil()))
    for path in ("a.npy", "b.npy"):
        with refused("file.damaged"), reading(path):
            map_npy(path)
    Path("model").mkdir()
    FiniteAggregationClassifier(GaussianNB(), k=2, d=1, classes=range(3)).fit(np.eye(6), [0, 1, 2] * 2).save("model")
    Path("model/members-00000.skops").write_bytes(pickle.dumps(Evil()))
    with refused("file.damaged"):
        FiniteAggregationClassifier.load("model")
    with refused("file.damaged"):
        load_state("model/members-00000.skops", ())
    assert not Path("evil").exists()


def test_a_model_that_is_a_bomb(tmp_path):
    path = tmp_path / "m.skops"
    for name, body in (("a.npy", npy_header((1 << 40,))), ("a.npz", npz_bytes({"data": npy_header((1 << 40,))}))):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, body)
            archive.writestr("schema.json", "{}")
        with refused("file.damaged"):
            load_state(path, ())


def npz_bytes(members):
    buffer = io.BytesIO()
    npz(buffer, members)
    return buffer.getvalue()


def test_votes_whose_record_agrees_with_a_file_that_lies(tmp_path):
    Votes(np.zeros((2, 3), int), Spread.random(3, 1), range(3)).save(tmp_path / "v.npy")
    record = poisonproof.system.files.read_record(tmp_path / "v.json")
    (tmp_path / "v.npy").write_bytes(npy_header((1 << 40, 3)))
    record["matrix"]["sha256"] = sha256_of(tmp_path / "v.npy")
    del record["digest"]
    write_record(tmp_path / "v.json", record)
    with refused("file.damaged"):
        Votes.load(tmp_path / "v.npy")


def test_class_names_cannot_reach_into_the_report(tmp_path):
    hostile = ["<img src=x onerror=alert(1)>", "</pre><script>alert(2)</script>"]
    X = np.arange(40.0).reshape(20, 2)
    y = np.array(hostile * 10)
    dataset = Dataset.of("</title><script>", X, y, X[:4], y[:4], np.array(hostile))
    model = FiniteAggregationClassifier(GaussianNB(), k=2, d=1, classes=hostile)
    text = write_report(run(dataset, model, tmp_path / "run", RunSettings(votes_only=True))).read_text()
    assert "&lt;img src=x" in text
    assert "<img src=x" not in text
    assert "<script>alert" not in text
    assert "</title><script>" not in text
    assert "</pre><script>" not in text
