"""Archives of named data sets that lie about their size, bombs, links: refused before memory is taken."""

import gzip
import io
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest

from research import datasets
from research.datasets import CIFAR_ARCHIVE, GTSRB_ARCHIVES, MNIST_FILES, read_idx
from research.tests.official_files import GREY, TEN, idx, write_cifar, write_gtsrb, write_mnist

LARGE = 160 << 20
MOST_MEMORY = 120 << 20


@pytest.fixture(autouse=True)
def bounded_memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_MEMORY


def zeros(file, size):
    for _ in range(size >> 20):
        file.write(bytes(1 << 20))


def npy_header(shape, dtype="|u1"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_2_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def npz(path, members, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, body in members.items():
            archive.writestr(f"{name}.npy", body)


def test_an_idx_file_that_lies_and_one_that_is_a_bomb(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\x40\0\0\0" * 3 + b"few"))
    with pytest.raises(
        ValueError, match=r"x\.gz is damaged: it states 1237940039285380274899124224 bytes and holds 3\."
    ):
        read_idx(path)
    with gzip.open(path, "wb") as file:
        file.write(b"\0\0\x08\x01" + LARGE.to_bytes(4, "big"))
        zeros(file, LARGE)
    with pytest.raises(ValueError, match=r"states 167772160 bytes and holds 67108865 or more"):
        read_idx(path)


def test_an_npz_bomb(tmp_path):
    path = tmp_path / "mnist.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x_train.npy", "w") as file:
        file.write(npy_header((LARGE,)))
        zeros(file, LARGE)
    assert path.stat().st_size < 300_000
    with pytest.raises(ValueError, match=r"mnist\.npz is not a whole npz file .*would unpack to 167772\d\d\d"):
        datasets.load("mnist", tmp_path)
    npz(path, {"x_train": npy_header((0,))}, zipfile.ZIP_LZMA)
    with pytest.raises(ValueError, match="packed by method 14, which is not read"):
        datasets.load("mnist", tmp_path)


def tar_gz(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for info, body in members:
            archive.addfile(info, io.BytesIO(body))


def entry(name, size=0, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, target
    return info


def test_cifar_archives_with_links_bombs_and_strange_paths(tmp_path):
    path = tmp_path / CIFAR_ARCHIVE
    (tmp_path / "secret.bin").write_bytes(bytes(3073))
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    links = [(entry(name, kind=tarfile.SYMTYPE, target=str(tmp_path / "secret.bin")), b"") for name in names]
    tar_gz(path, *links)
    with pytest.raises(ValueError, match=r"data_batch_1\.bin is missing"):
        datasets.load("cifar10", tmp_path)
    before = sorted(tmp_path.parent.iterdir())
    tar_gz(path, *((entry(f"../../../{name}", 3073), bytes(3073)) for name in names))
    assert datasets.load("cifar10", tmp_path).train.X.shape == (5, 32, 32, 3)
    assert sorted(tmp_path.parent.iterdir()) == before
    for header in (entry("huge.bin", 1 << 40), entry("x", 1 << 33, tarfile.XHDTYPE), entry("x", 1 << 33, b"L")):
        path.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
        with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz is damaged.*states \d+ bytes; at most"):
            datasets.load("cifar10", tmp_path)
    tar_gz(path, *((entry(f"{i}"), b"") for i in range(1001)))
    with pytest.raises(ValueError, match="more than 1000 files"):
        datasets.load("cifar10", tmp_path)
    with gzip.open(path, "wb") as file:
        for number in range(5):
            file.write(entry(f"{number}", 20 << 20).tobuf(tarfile.GNU_FORMAT))
            zeros(file, 20 << 20)
    with pytest.raises(ValueError, match="'3' states 20971520 bytes"):
        datasets.load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"P6 9000 9000 255\n" + bytes(999), r"00000\.ppm states 9000 × 9000 pixels and has 1016 bytes"),
        (b"P6 999999999 999999999 255\n", "exceeds limit"),
        (b"\x89PNG\r\n\x1a\n", "cannot identify image file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "cannot identify image file"),
        (b"P6 4 4 255\nfew", "image"),
    ],
)
def test_pictures_that_lie(tmp_path, body, message):
    write_gtsrb(tmp_path)
    with zipfile.ZipFile(tmp_path / GTSRB_ARCHIVES[1], "w") as archive:
        archive.writestr("GTSRB/Final_Test/Images/00000.ppm", body)
    with pytest.raises(ValueError, match=rf"GTSRB_Final_Test_Images\.zip is damaged.*{message}"):
        datasets.load("gtsrb", tmp_path)


def test_sign_archives_that_are_bombs_or_have_strange_labels(tmp_path):
    for number in (0, 2):
        write_gtsrb(tmp_path)
        path = tmp_path / GTSRB_ARCHIVES[number]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.ppm", "w") as file:
            zeros(file, LARGE)
        with pytest.raises(ValueError, match=rf"{path.name} is damaged .*would unpack to 167772160"):
            datasets.load("gtsrb", tmp_path)
    write_gtsrb(tmp_path)
    for label in ("43", "-1", "9" * 50):
        with zipfile.ZipFile(tmp_path / GTSRB_ARCHIVES[2], "w") as archive:
            archive.writestr("GT.csv", f"head\n00000.ppm;{label}\n")
        with pytest.raises(ValueError, match=rf"has a label {label}; there are 43 classes"):
            datasets.load("gtsrb", tmp_path)


def test_images_and_labels_that_do_not_fit(tmp_path):
    write_mnist(tmp_path)
    for file, array in (("x_train", TEN), ("y_test", GREY[:2]), ("x_test", GREY[:2, :5])):
        write_mnist(tmp_path)
        (tmp_path / f"{MNIST_FILES[file]}.gz").write_bytes(gzip.compress(idx(array)))
        with pytest.raises(ValueError, match="they do not fit"):
            datasets.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN / 2, x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match=r"labels that are whole numbers\. Got float64"):
        datasets.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN.astype(int) - 2, x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match="has a label -1"):
        datasets.load("mnist", tmp_path)
    write_cifar(tmp_path)
    assert len(datasets.load("cifar10", tmp_path).test.X) == 6
