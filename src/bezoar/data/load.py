"""Data sets by name, from embedded data or from files in a local folder.

A folder holds either a keras-layout file (``mnist.npz`` with x_train, y_train, x_test, y_test) or the official
distribution under its own names. Nothing here reads pickle, and every size a file states is checked against the
bytes it has before memory is taken for it.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.data.dataset import Dataset, held_out
from bezoar.data.npz import read_arrays

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
GTSRB_SIDE = 48
MNIST_FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
GTSRB_ARCHIVES = ("GTSRB_Final_Training_Images.zip", "GTSRB_Final_Test_Images.zip", "GTSRB_Final_Test_GT.zip")
CLASSES = {"mnist": 10, "cifar10": 10, "gtsrb": 43}
DATASETS = ("digits", *CLASSES)


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """A data set by name.

    Parameters
    ----------
    name : "digits", "mnist", "cifar10" or "gtsrb"
        ``digits`` is embedded; the others are read from files.
    folder : path, optional
        Where the files lie; otherwise the environment variable BEZOAR_DATA.
    """
    if name == "digits":
        return _digits()
    if name not in CLASSES:
        raise ValueError(f"There is no data set '{name}'; there are {', '.join(DATASETS)}.")
    place = folder or os.environ.get("BEZOAR_DATA")
    if not place:
        raise ValueError(f"'{name}' is read from files: say where they are with --data-dir or BEZOAR_DATA.")
    x_train, y_train, x_test, y_test = _read(name, Path(place))
    labels = np.arange(CLASSES[name])
    for part, y, x in (("training", y_train, x_train), ("test", y_test, x_test)):
        if len(x) != len(y):
            raise ValueError(f"The {part} set of '{name}' has {len(x)} images but {len(y)} labels.")
        if len(y) and int(y.max()) >= len(labels):
            raise ValueError(f"The {part} set of '{name}' has a label {int(y.max())}; it has {len(labels)} classes.")
    return Dataset(name, x_train, y_train.astype(np.int64), x_test, y_test.astype(np.int64), labels, "uint8")


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    test = held_out(X, share=0.2)
    return Dataset("digits", X[~test], y[~test], X[test], y[test], np.arange(10))


def _read(name: str, folder: Path) -> Arrays:
    if (folder / f"{name}.npz").exists():
        return _keras(folder / f"{name}.npz")
    readers: dict[str, tuple[list[str], Callable[[Path], Arrays]]] = {
        "mnist": ([f"{file}.gz" for file in MNIST_FILES.values()], _mnist),
        "cifar10": ([CIFAR_ARCHIVE], _cifar10),
        "gtsrb": (list(GTSRB_ARCHIVES), _gtsrb),
    }
    needed, read = readers[name]
    missing = [file for file in needed if not (folder / file).exists()]
    if missing:
        raise ValueError(
            f"'{name}' is not in {folder}: put {name}.npz (keras layout) there, or the official {', '.join(missing)}."
        )
    return read(folder)


def _keras(path: Path) -> Arrays:
    """x_train, y_train, x_test, y_test from an npz file."""
    x_train, y_train, x_test, y_test = read_arrays(path, list(MNIST_FILES)).values()
    for images in (x_train, x_test):
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise ValueError(f"{path} must hold uint8 images. Got {images.dtype} of shape {images.shape}.")
    return x_train, y_train.ravel(), x_test, y_test.ravel()


def _mnist(folder: Path) -> Arrays:
    x_train, y_train, x_test, y_test = (read_idx(folder / f"{file}.gz") for file in MNIST_FILES.values())
    return x_train, y_train, x_test, y_test


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes from a gzipped IDX file: two zeros, type 8, number of axes, their lengths, the bytes."""
    try:
        body = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise ValueError(f"{path} is damaged: it is not a whole gzip file ({error}).") from None
    if len(body) < 4 or body[:3] != b"\0\0\x08" or not 1 <= body[3] <= 4 or len(body) < 4 + 4 * body[3]:
        raise ValueError(f"{path} is not an IDX file of bytes.")
    axes = body[3]
    shape = [int.from_bytes(body[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes)]
    expected = int(np.prod(shape, dtype=object))
    if len(body) - 4 - 4 * axes != expected:
        raise ValueError(f"{path} is damaged: it states {expected} bytes and holds {len(body) - 4 - 4 * axes}.")
    return np.frombuffer(body, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _cifar10(folder: Path) -> Arrays:
    """The binary distribution: records of one label byte and 3 × 32 × 32 pixel bytes."""
    path = folder / CIFAR_ARCHIVE
    record, parts = 1 + 3 * 32 * 32, {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = Path(member.name).name
                if member.isfile() and name.endswith(".bin") and member.size <= record * 10_000:
                    file = archive.extractfile(member)
                    parts[name] = file.read() if file else b""
    except (OSError, EOFError, tarfile.TarError) as error:
        raise ValueError(f"{path} is damaged: it is not a whole tar file ({error}).") from None
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for name in names:
        if name not in parts or len(parts[name]) % record:
            raise ValueError(f"{path} is damaged: {name} is missing or not a whole number of records.")

    def decoded(some: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rows = np.frombuffer(b"".join(parts[name] for name in some), np.uint8).reshape(-1, record)
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images), rows[:, 0].copy()

    return (*decoded(names[:5]), *decoded(names[5:]))


def _gtsrb(folder: Path) -> Arrays:
    """The official zip archives of PPM images, brought to 48 × 48."""
    training, test, truth = (folder / name for name in GTSRB_ARCHIVES)
    images, labels = [], []
    for name, picture in _pictures(training):
        images.append(picture)
        labels.append(int(Path(name).parent.name))
    table = dict(_ground_truth(truth))
    found = {Path(name).name: picture for name, picture in _pictures(test)}
    missing = sorted(set(table) - set(found))
    if missing:
        raise ValueError(f"{test} is not whole: {missing[0]} is missing.")
    names = sorted(table)
    return (
        np.array(images, np.uint8),
        np.array(labels),
        np.array([found[name] for name in names], np.uint8),
        np.array([table[name] for name in names]),
    )


def _pictures(path: Path) -> list[tuple[str, NDArray[np.uint8]]]:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("Reading GTSRB's pictures needs Pillow: pip install 'bezoar[images]'.") from None
    pictures = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(info.filename for info in archive.infolist() if info.filename.endswith(".ppm")):
                with Image.open(io.BytesIO(archive.read(name))) as picture:
                    small = picture.convert("RGB").resize((GTSRB_SIDE, GTSRB_SIDE), Image.Resampling.BILINEAR)
                    pictures.append((name, np.asarray(small)))
    except (OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from None
    return pictures


def _ground_truth(path: Path) -> list[tuple[str, int]]:
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".csv"))
            lines = archive.read(name).decode().split()[1:]
        return [(cells[0], int(cells[-1])) for cells in (line.split(";") for line in lines)]
    except (OSError, EOFError, zipfile.BadZipFile, ValueError, StopIteration, IndexError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from None
