"""Image folders, npz files and svmlight rows of a user's own: each sample by itself, and nothing believed unseen."""

import io
import shutil
import struct
import zipfile
import zlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from PIL import Image
from sklearn.datasets import dump_svmlight_file, load_digits, load_svmlight_file

from poisonproof.data.arrays import read_arrays
from poisonproof.data.dataset import ReadReport
from poisonproof.data.images import ImageReader
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files, read_all, read_other
from poisonproof.samples.schema import ImageSchema, SparseSchema, schema_from_dict
from refused import refused

DIGITS = load_digits()


@pytest.fixture
def folder(tmp_path):
    """Forty grey digits of 8 × 8 pixels in two classes."""
    for at in np.flatnonzero(DIGITS.target < 2)[:40]:
        home = tmp_path / "images" / f"digit {DIGITS.target[at]}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray((DIGITS.images[at] * 15).astype(np.uint8)).save(home / f"{at}.png")
    return tmp_path / "images"


def test_a_folder_of_images(folder):
    dataset = open_files(folder, ReadOptions(held_out=0.3))
    assert dataset.dtype == "uint8"
    assert dataset.train.X.shape[1:] == (8, 8)
    assert set(dataset.train.labels) == {"digit 0", "digit 1"}
    assert len(dataset.train) + len(dataset.test) == 40
    assert dataset.schema == schema_from_dict(dataset.schema.as_dict()) == ImageSchema(8, 8, colour=False)
    words = "images of 8×8 pixels, grey; closest guess: 8×8 pixels; 40 odd images could have changed that"
    assert any(f"{words} (chosen from this data)" in str(premise) for premise in dataset.premises)
    given = open_files(folder, ReadOptions(held_out=0.3, image_size=(5, 4), colour=True))
    assert given.train.X.shape[1:] == (4, 5, 3)
    assert all(premise.declared for premise in given.premises)
    assert any("number of features: 60" in str(premise) for premise in given.premises)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def bomb():
    """A small PNG that states 2 million by 2 million pixels."""
    head = struct.pack(">IIBBBBB", 2_000_000, 2_000_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def picture(size, mode="L", kind="PNG"):
    body = io.BytesIO()
    Image.new(mode, size, 7).save(body, kind)
    return body.getvalue()


BAD = {
    "no image": (b"hello", "is not a whole image"),
    "cut": (picture((8, 8))[:-30], "is not a whole image"),
    "empty": (b"", "is not a whole image"),
    "another format": (picture((8, 8), kind="GIF"), "is not a whole image"),
    "bomb": (bomb(), "states more than 67108864 pixels and is not expanded"),
    "larger than bearable": (picture((9000, 8000), "1"), "states more than 67108864 pixels and is not expanded"),
    "another size": (picture((9, 8)), "has 9×8 pixels and most have 8×8: resize all by --image-size 8x8"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_image_is_left_out_alone_and_named(folder, what):
    clean = open_files(folder, ReadOptions(held_out=0.3))
    body, message = BAD[what]
    (folder / "digit 0" / "000.png").write_bytes(body)
    rest = open_files(folder, ReadOptions(held_out=0.3))
    assert rest.digests() == clean.digests()
    (note,) = rest.notes
    assert note.startswith(f"images: 1 images were left out; digit 0/000.png {message}")


def test_links_that_lead_outside_are_left_out(folder, tmp_path):
    outside = tmp_path / "secret.png"
    outside.write_bytes(picture((8, 8)))
    link = folder / "digit 0" / "link.png"
    link.symlink_to(outside)
    (note,) = open_files(folder, ReadOptions()).notes
    assert "1 images were left out; digit 0/link.png is a link that leads out of" in note
    link.unlink()
    link.symlink_to(folder / "digit 1" / next((folder / "digit 1").iterdir()).name)
    clean = open_files(folder, ReadOptions())
    assert clean.notes == ()
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(outside, tmp_path / "elsewhere")
    (folder / "digit 2").symlink_to(tmp_path / "elsewhere")
    (folder / "digit 3").symlink_to(folder / "digit 3")
    rest = open_files(folder, ReadOptions())
    assert rest.digests() == clean.digests()
    assert "1 images were left out; digit 2/secret.png is a link that leads out of" in rest.notes[0]


def test_one_file_of_another_kind_does_not_decide_what_a_folder_holds(folder, tmp_path):
    clean = open_files(folder, ReadOptions(held_out=0.3))
    frame = pd.DataFrame({"x": [float(at) for at in range(40)], "y": ["a", "b"] * 20})
    frame.to_parquet(folder / "odd.parquet")
    assert open_files(folder, ReadOptions(held_out=0.3)).digests() == clean.digests()
    frame.to_parquet(folder / "digit 0" / "odd.parquet")
    part = read_other(folder / "digit 0", clean.schema, ReadOptions(), ReadReport(), labelled=False)
    assert len(part) > 10
    tables = tmp_path / "tables"
    (tables / "odd").mkdir(parents=True)
    (tables / "odd.png").write_bytes(picture((8, 8)))
    frame.to_parquet(tables / "0.parquet")
    assert open_files(tables, ReadOptions(label="y")).schema.kind == "table"


def test_a_folder_that_is_none_of_classes(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with refused("images.none"):
        open_files(tmp_path / "empty", ReadOptions())
    with refused("data.too-large"):
        open_files(folder, ReadOptions(most_bytes=1000))
    schema = ImageSchema(8, 8, colour=False)
    part = read_all(ImageReader(folder / "digit 0", ReadOptions()), schema, ReadReport(), labelled=False)
    assert part.labels is None
    assert all(name.endswith(".png") for name in part.names)


def test_npz_of_ones_own(tmp_path):
    X, y = DIGITS.data[:200], DIGITS.target[:200]
    path = tmp_path / "own.npz"
    np.savez(path, x_train=X[:150], y_train=y[:150, None], x_test=X[150:], y_test=y[150:], who=np.arange(150) % 7)
    dataset = open_files(path, ReadOptions(group_column="who"))
    assert (X[:150] == dataset.train.X).all()
    assert dataset.test.labels.tolist() == [str(label) for label in y[150:]]
    assert set(dataset.train.groups) == set("0123456")
    images = DIGITS.images[:100].astype(np.uint8)
    np.savez(path, X=images, y=y[:100])
    dataset = open_files(path, ReadOptions())
    assert dataset.dtype == "uint8"
    assert len(dataset.train) + len(dataset.test) == 100
    assert schema_from_dict(dataset.schema.as_dict()) == dataset.schema
    np.savez(path, X=X, y=y)
    with refused("arrays.schema"):
        read_other(path, dataset.schema, ReadOptions(), ReadReport(), labelled=True)
    odd = X.copy()
    odd[3, 5] = np.inf
    np.savez(path, X=odd, y=np.where(np.arange(200) == 9, np.nan, y))
    dataset = open_files(path, ReadOptions(held_out=0.1))
    assert np.isnan(dataset.train.X).sum() + np.isnan(dataset.test.X).sum() == 1
    assert dataset.notes == ("own.npz: 1 rows without a label were left out; the first is row 9",)


def header_of(shape, kind="<f8"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (117 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (header_of("(1000000000000, 1000)"), "8000000000000000 bytes, and holds"),
        (header_of("(2,)", "|O") + b"\x80\x04N.", "holds Python objects, which only pickle could read"),
        (b"no array", "is not a whole npz file with X"),
        (np.zeros(3).tobytes(), "is not a whole npz file with X"),
    ],
)
def test_absurd_arrays_are_refused_before_memory_is_taken(tmp_path, body, message):
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", body)
        archive.writestr("y.npy", body)
    with pytest.raises(ValueError, match=message):
        open_files(path, ReadOptions())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header_of("(1000000, 1)") + bytes(8_000_000))
        archive.writestr("y.npy", body)
    with refused("file.damaged"):
        read_arrays(path, ["X"], 1_000_000)


def svm_lines(tmp_path, n=60):
    X = sp.random(n, 12, 0.4, "csr", random_state=np.random.default_rng(0))
    dump_svmlight_file(X, np.arange(n) % 2, str(tmp_path / "plain.svm"), zero_based=False)
    return (tmp_path / "plain.svm").read_bytes().splitlines()


def test_svmlight_is_read_as_scikit_learn_reads_it(tmp_path):
    svm_lines(tmp_path)
    path = tmp_path / "plain.svm"
    part = read_other(path, SparseSchema(13), ReadOptions(), ReadReport(), labelled=True)
    theirs, labels = load_svmlight_file(str(path), n_features=13, zero_based=True)
    assert (theirs != part.X).nnz == 0
    assert [float(label) for label in part.labels] == labels.tolist()
    dataset = open_files(path, ReadOptions())
    assert dataset.schema == SparseSchema(13)
    assert "number of features: 13 (chosen from this data)" in map(str, dataset.premises)
    given = open_files(path, ReadOptions(n_features=20))
    assert given.n_features == 20
    assert "number of features: 20 (declared)" in map(str, given.premises)


def test_absurd_svmlight_indices_are_dropped_however_many(tmp_path):
    lines = svm_lines(tmp_path)
    path = tmp_path / "t.svm"
    for n_absurd in (1, 7, 600):
        path.write_bytes(b"\n".join([*lines, *[b"1 999999999999:1"] * n_absurd]))
        dataset = open_files(path, ReadOptions())
        assert dataset.n_features == 13
        assert any(f"{n_absurd} entries lie beyond feature 12" in note for note in dataset.notes)
    path.write_bytes(b"\n".join([b"0 999999999999:1", b"1 999999999999:1"]))
    with refused("arrays.too-many"):
        open_files(path, ReadOptions())
    path.write_bytes(b"\n".join([*lines, b"1 999999999999:1"]))
    dataset = open_files(path, ReadOptions(n_features=13))
    assert any("1 entries lie beyond feature 12" in note for note in dataset.notes)
