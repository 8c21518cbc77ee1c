"""Data sets from tiny files in their official formats."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from poisonproof import data
from poisonproof.data.named import (
    CIFAR_ARCHIVE,
    GTSRB_ARCHIVES,
    MNIST_FILES,
    read_idx,
)

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
TEN = np.array([3, 1, 4, 1, 5, 9], np.uint8)


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def write_mnist(folder):
    arrays = {"x_train": GREY, "y_train": TEN, "x_test": GREY[:2], "y_test": TEN[:2]}
    for name, file in MNIST_FILES.items():
        (folder / f"{file}.gz").write_bytes(gzip.compress(idx(arrays[name])))


def write_cifar(folder, cut=0):
    with tarfile.open(folder / CIFAR_ARCHIVE, "w:gz") as archive:
        for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            body = b"".join(bytes([y]) + x.transpose(2, 0, 1).tobytes() for x, y in zip(COLOUR, TEN, strict=True))
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(body) - cut
            archive.addfile(info, io.BytesIO(body[: len(body) - cut]))


def ppm(array):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PPM")
    return buffer.getvalue()


def write_gtsrb(folder):
    training, test, truth = (folder / name for name in GTSRB_ARCHIVES)
    with zipfile.ZipFile(training, "w") as archive:
        for label in (0, 42):
            for frame in range(2):
                archive.writestr(f"GTSRB/Final_Training/Images/{label:05d}/00000_{frame:05d}.ppm", ppm(COLOUR[frame]))
            archive.writestr(f"GTSRB/Final_Training/Images/{label:05d}/GT-{label:05d}.csv", "Filename;ClassId\n")
    with zipfile.ZipFile(test, "w") as archive:
        for number in range(3):
            archive.writestr(f"GTSRB/Final_Test/Images/{number:05d}.ppm", ppm(COLOUR[number]))
    with zipfile.ZipFile(truth, "w") as archive:
        rows = "\n".join(f"{number:05d}.ppm;32;32;1;1;30;30;{label}" for number, label in enumerate((7, 0, 42)))
        archive.writestr("GT-final_test.csv", f"Filename;Width;Height;X1;Y1;X2;Y2;ClassId\n{rows}\n")


def test_mnist_in_idx_files(tmp_path):
    write_mnist(tmp_path)
    mnist = data.load("mnist", tmp_path)
    assert (mnist.x_train == GREY).all()
    assert mnist.y_train.tolist() == TEN.tolist()
    assert mnist.x_test.shape == (2, 28, 28)
    assert (mnist.dtype, len(mnist.classes)) == ("uint8", 10)


def test_keras_layout_wins_and_the_environment_names_the_folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN[:, None], x_test=GREY, y_test=TEN)
    monkeypatch.setenv("POISONPROOF_DATA", str(tmp_path))
    assert (data.load("mnist").x_train == GREY).all()
    assert data.load("mnist").y_train.tolist() == TEN.tolist()


def test_cifar10_in_its_binary_archive(tmp_path):
    write_cifar(tmp_path)
    cifar = data.load("cifar10", tmp_path)
    assert cifar.x_train.shape == (30, 32, 32, 3)
    assert (cifar.x_train[:6] == COLOUR).all()
    assert cifar.y_test.tolist() == TEN.tolist()


def test_gtsrb_in_its_zip_archives(tmp_path):
    write_gtsrb(tmp_path)
    signs = data.load("gtsrb", tmp_path)
    assert signs.x_train.shape == (4, 48, 48, 3)
    assert signs.y_train.tolist() == [0, 0, 42, 42]
    assert signs.y_test.tolist() == [7, 0, 42]
    expected = Image.fromarray(COLOUR[1]).resize((48, 48), Image.Resampling.BILINEAR)
    assert (signs.x_test[1] == np.asarray(expected)).all()


@pytest.mark.parametrize("keep", [0, 3, 20, -1])
def test_cut_and_absurd_idx_files_are_refused(tmp_path, keep):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx(GREY)[:keep]))
    with pytest.raises(ValueError, match=r"x\.gz is (damaged|not an IDX)"):
        read_idx(path)
    path.write_bytes(gzip.compress(idx(GREY))[:-9])
    with pytest.raises(ValueError, match=r"not a whole gzip file"):
        read_idx(path)
    path.write_bytes(gzip.compress(b"\0\0\x08\x04" + b"\xff" * 16))
    with pytest.raises(ValueError, match="states 340282366604025813516997721482669850625 bytes and holds 0"):
        read_idx(path)


def test_missing_and_damaged_files_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("POISONPROOF_DATA", raising=False)
    with pytest.raises(ValueError, match="say where they are with --data-dir or POISONPROOF_DATA"):
        data.load("mnist")
    with pytest.raises(ValueError, match=r"put mnist\.npz .*or the official train-images-idx3-ubyte\.gz"):
        data.load("mnist", tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"mnist\.npz is not a whole npz file"):
        data.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY / 255, y_train=TEN, x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match=r"must hold uint8 images\. Got float64"):
        data.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN + 1, x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match="has a label 10; it has 10 classes"):
        data.load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN[:3], x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match="6 images but 3 labels"):
        data.load("mnist", tmp_path)
    write_cifar(tmp_path, cut=5)
    with pytest.raises(ValueError, match=r"data_batch_1\.bin is missing or not a whole number of records"):
        data.load("cifar10", tmp_path)
    (tmp_path / CIFAR_ARCHIVE).write_bytes(b"no tar")
    with pytest.raises(ValueError, match="not a whole tar file"):
        data.load("cifar10", tmp_path)
    write_gtsrb(tmp_path)
    (tmp_path / GTSRB_ARCHIVES[1]).write_bytes((tmp_path / GTSRB_ARCHIVES[1]).read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"GTSRB_Final_Test_Images\.zip is damaged"):
        data.load("gtsrb", tmp_path)
