"""Fuzzing of everything that reads a file: one sentence, or it opens; nothing else, and within bounds of memory.

`benchmarks/fuzz.py` goes on with the same targets for as long as one likes.
"""

import copy
import gzip
import hashlib
import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from poisonproof import Certificate, Dataset, FiniteAggregationClassifier, Spread, Votes
from poisonproof.cli.certify import _array as read_npy
from poisonproof.cli.certify import _arrays as read_for_split
from poisonproof.runs.election import read_block
from poisonproof.runs.manifest import Manifest, RunSettings
from poisonproof.runs.run import damage, open_folder, run
from poisonproof.system.archives import FREE
from poisonproof.system.files import SEAL, open_arrays, read_record, sha256_of, write_arrays, write_record
from poisonproof.training.engine import Block
from poisonproof.training.model_files import dumped
from research import datasets
from research.datasets import CIFAR_ARCHIVE, GTSRB_ARCHIVES, MNIST_FILES
from research.tests.official_files import GREY, TEN, write_cifar, write_gtsrb, write_mnist

ALLOWED = (ValueError, FileNotFoundError)
MOST_MEMORY = 3 * FREE
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("../../x"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["flip", "set", "cut", "insert", "repeat"]), st.floats(0, 1), st.binary(max_size=9)),
    min_size=1,
    max_size=5,
)
STRANGE = st.tuples(
    st.sampled_from(["|u1", "<i8", "<f8", "<U3", "|b1", "|S0", "<c16", "|V0"]),
    st.lists(st.integers(-2, 9) | st.sampled_from([1 << 31, 1 << 62, 1 << 64]), max_size=3),
    st.booleans(),
    st.binary(max_size=80),
)


def edited(body, edits):
    """The body after some flips, cuts, insertions and repetitions."""
    body = bytearray(body)
    for kind, where, some in edits:
        at = int(where * max(0, len(body) - 1))
        if kind == "flip" and body:
            body[at] ^= 1 << len(some) % 8
        elif kind == "set":
            body[at : at + len(some)] = some
        elif kind == "cut":
            del body[at : at + 1 + len(some) ** 3]
        elif kind == "insert":
            body[at:at] = some
        else:
            body[at:at] = body[at : at + 64] * (1 + len(some))
    return bytes(body)


def resealed(body):
    """An npz of ours with a seal that agrees, whatever the rest is."""
    body = body[: -64 - len(SEAL)] + SEAL
    return body + hashlib.sha256(body).hexdigest().encode()


def npy(dtype, shape, fortran, body):
    """A .npy file with this header."""
    buffer = io.BytesIO()
    header = {"descr": dtype, "fortran_order": fortran, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + body


def leaves(record, path=()):
    """Where the values of a JSON record stand."""
    yield path
    inside = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in inside:
        yield from leaves(value, (*path, key))


def with_value(record, where, value):
    """The record with another value at one place (or without that place)."""
    record = copy.deepcopy(record)
    places = [path for path in leaves(record) if path]
    *front, last = places[int(where * (len(places) - 1))]
    inside = record
    for key in front:
        inside = inside[key]
    if value == "../../x" and isinstance(inside, dict):
        del inside[last]
    else:
        inside[last] = value
    return record


def fine(opening):
    """Whether it opened; anything but one allowed sentence is passed on."""
    said = None
    tracemalloc.start()
    try:
        opening()
    except ALLOWED as error:
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MOST_MEMORY, f"{peak} bytes"
    assert said is None or (0 < len(said) < 1000 and "\n" not in said), said
    return said is None


class Place:
    """A folder with one of each file, and how each is opened."""

    def __init__(self, folder):
        self.folder = folder
        for name, write in (("mnist", write_mnist), ("cifar10", write_cifar), ("gtsrb", write_gtsrb)):
            (folder / name).mkdir()
            write(folder / name)
        (folder / "keras").mkdir()
        np.savez_compressed(folder / "keras" / "mnist.npz", x_train=GREY, y_train=TEN, x_test=GREY, y_test=TEN)
        np.save(folder / "plain.npy", GREY)
        X, y = np.arange(60.0).reshape(20, 3), np.arange(20) % 2
        dataset = Dataset.of("tiny", X, y, X[:4], y[:4], np.arange(2))
        model = FiniteAggregationClassifier(GaussianNB(), k=3, d=2, classes=range(2))
        self.run = folder / "run"
        run(dataset, model, self.run)
        self.identity = Manifest.read(self.run).settings
        whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.whole = {str(path.relative_to(folder)): body for path, body in whole.items()}

    def load(self, name):
        return datasets.load("mnist" if name == "keras" else name, self.folder / name)

    def block(self):
        read_block(self.run / "votes" / "block-00000.npz", Block(0, range(6), range(4)))

    def damage(self):
        if said := damage(self.run):
            raise ValueError(said[0])

    @property
    def openings(self):
        """The files to alter, and what opens them."""
        run, gz = self.run, f"mnist/{MNIST_FILES['x_train']}.gz"
        return {
            gz: lambda: self.load("mnist"),
            f"cifar10/{CIFAR_ARCHIVE}": lambda: self.load("cifar10"),
            **{f"gtsrb/{name}": lambda: self.load("gtsrb") for name in GTSRB_ARCHIVES},
            "keras/mnist.npz": lambda: (self.load("keras"), read_for_split(self.folder / "keras" / "mnist.npz")),
            "plain.npy": lambda: (read_npy(self.folder / "plain.npy"), read_for_split(self.folder / "plain.npy")),
            "run/votes.npy": lambda: Votes.load(run / "votes.npy"),
            "run/votes.json": lambda: Votes.load(run / "votes.npy"),
            "run/spread.npz": lambda: Spread.load(run / "spread.npz"),
            "run/certificate.npz": lambda: str(Certificate.load(run / "certificate.npz")),
            "run/manifest.json": lambda: (open_folder(run, self.identity, RunSettings()), self.damage()),
            "run/votes/block-00000.npz": lambda: (self.block(), self.damage()),
            "run/models/model.json": lambda: FiniteAggregationClassifier.load(run / "models"),
            "run/models/estimator.skops": lambda: FiniteAggregationClassifier.load(run / "models"),
        }

    def opens(self, name, body):
        """Whether the file opens when it has this body; then it is put back."""
        (self.folder / name).write_bytes(body)
        try:
            return fine(self.openings[name])
        finally:
            (self.folder / name).write_bytes(self.whole[name])


RECORDS = ("run/votes.json", "run/manifest.json", "run/models/model.json")
SEALED = ("run/spread.npz", "run/certificate.npz", "run/votes/block-00000.npz")
PACKED = (f"mnist/{MNIST_FILES['x_train']}.gz", f"cifar10/{CIFAR_ARCHIVE}")
PLACES = {}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return PLACES.setdefault("here", Place(tmp_path_factory.mktemp("fuzz")))


def names():
    """Every file that is altered."""
    return [*PACKED, *(f"gtsrb/{name}" for name in GTSRB_ARCHIVES), "keras/mnist.npz", "plain.npy", "run/votes.npy",
            *RECORDS, *SEALED, "run/models/estimator.skops"]  # fmt: skip


def examples(count):
    more = int(os.environ.get("POISONPROOF_FUZZ", "0"))  # benchmarks/fuzz.py asks for more, with a seed of its own
    return settings(
        max_examples=more or count, derandomize=not more, database=None, suppress_health_check=list(HealthCheck)
    )


def test_every_file_opens_as_it_is(place):
    assert set(place.openings) == set(names())
    for name in names():
        assert place.opens(name, place.whole[name]), name


@examples(500)
@given(st.data())
def test_altered_bytes(place, data):
    name = data.draw(st.sampled_from(names()))
    body = edited(place.whole[name], data.draw(EDITS))
    opened = place.opens(name, body)
    if name.startswith("run/") and body != place.whole[name]:
        assert not opened


@examples(100)
@given(st.data())
def test_random_bytes(place, data):
    place.opens(data.draw(st.sampled_from(names())), data.draw(st.binary(max_size=300)))


@examples(120)
@given(st.data())
def test_altered_bytes_inside_what_is_packed(place, data):
    name = data.draw(st.sampled_from(PACKED))
    place.opens(name, gzip.compress(edited(gzip.decompress(place.whole[name]), data.draw(EDITS)), 1))


@examples(250)
@given(st.data())
def test_records_with_other_values_and_a_digest_that_agrees(place, data):
    name = data.draw(st.sampled_from(RECORDS))
    record = read_record(place.folder / name)
    del record["digest"]
    other = with_value(record, data.draw(st.floats(0, 1)), data.draw(JSON))
    path = place.folder / "other.json"
    try:
        write_record(path, other)
    except UnicodeEncodeError:  # a lone surrogate cannot be written
        return
    place.opens(name, path.read_bytes())


@examples(250)
@given(st.data())
def test_sealed_files_with_other_contents_and_a_seal_that_agrees(place, data):
    name, path = data.draw(st.sampled_from(SEALED)), place.folder / "other.npz"
    arrays, facts = open_arrays(place.folder / name)
    what = data.draw(st.sampled_from(["bytes", "facts", "array"]))
    if what == "bytes":
        body = resealed(edited(place.whole[name], data.draw(EDITS)))
    elif what == "facts":
        try:
            write_arrays(path, arrays, with_value({**facts, "x": 0}, data.draw(st.floats(0, 1)), data.draw(JSON)))
        except UnicodeEncodeError:
            return
        body = path.read_bytes()
    else:
        chosen = data.draw(st.sampled_from(sorted([*arrays, "facts", "surprise"])))
        with zipfile.ZipFile(io.BytesIO(place.whole[name])) as source, zipfile.ZipFile(path, "w") as target:
            for info in source.infolist():
                if info.filename != f"{chosen}.npy":
                    target.writestr(info.filename, source.read(info))
            target.writestr(f"{chosen}.npy", npy(*data.draw(STRANGE)))
            target.comment = SEAL + b"0" * 64
        body = resealed(path.read_bytes())
    place.opens(name, body)


@examples(60)
@given(STRANGE)
def test_strange_headers_of_plain_arrays(place, strange):
    place.opens("plain.npy", npy(*strange))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            archive.writestr(f"{name}.npy", npy(*strange))
    place.opens("keras/mnist.npz", buffer.getvalue())


@examples(60)
@given(st.data())
def test_models_with_other_contents_and_digests_that_agree(place, data):
    """The schema of skops, mutated, with every digest made to agree."""
    folder = place.run / "models"
    record = read_record(folder / "model.json")
    del record["digest"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(dumped(GaussianNB()))) as source, zipfile.ZipFile(buffer, "w") as target:
        for info in source.infolist():
            target.writestr(info.filename, edited(source.read(info), data.draw(EDITS)))
    (folder / "estimator.skops").write_bytes(buffer.getvalue())
    try:
        record["files"]["estimator.skops"] = sha256_of(folder / "estimator.skops")
        write_record(folder / "model.json", record)
        fine(place.openings["run/models/model.json"])
    finally:
        for name in ("estimator.skops", "model.json"):
            (folder / name).write_bytes(place.whole[f"run/models/{name}"])
    assert not Path("x").exists()
