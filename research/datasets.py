"""MNIST, CIFAR-10 and GTSRB by name, from files in a local folder; importing this adds them to the registry.

A folder holds either a keras-layout file (``mnist.npz`` with x_train, y_train, x_test, y_test) or the official
distribution under its own names. Nothing here reads pickle, and every size a file states is checked against the
bytes it has before memory is taken for it.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

import poisonproof
from poisonproof import registry
from poisonproof.data.arrays import read_arrays
from poisonproof.data.dataset import Dataset
from poisonproof.data.reading import SCHEMAS
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.samples.schema import ImageSchema
from poisonproof.system.archives import limit_of, open_regular, open_zip
from poisonproof.system.files import reading
from research.download import cache, fetch

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
GTSRB_SIDE = 48
MOST_FILES = 1000  # of an archive
PIXELS_PER_BYTE = 8  # the densest of Pillow's PPM family, the bitmap
MNIST_FILES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
GTSRB_ARCHIVES = ("GTSRB_Final_Training_Images.zip", "GTSRB_Final_Test_Images.zip", "GTSRB_Final_Test_GT.zip")
OFFICIAL = {
    "mnist": tuple(f"{file}.gz" for file in MNIST_FILES.values()),
    "cifar10": (CIFAR_ARCHIVE,),
    "gtsrb": GTSRB_ARCHIVES,
}
CLASSES = {"mnist": 10, "cifar10": 10, "gtsrb": 43}
SCHEMAS |= {
    "mnist": ImageSchema(28, 28, colour=False),
    "cifar10": ImageSchema(32, 32, colour=True),
    "gtsrb": ImageSchema(GTSRB_SIDE, GTSRB_SIDE, colour=True),
}


def load(name: str, folder: str | Path | None = None, *, download: bool = False) -> Dataset:
    """A data set by name.

    Parameters
    ----------
    name : "mnist", "cifar10" or "gtsrb"; any other is left to `poisonproof.load`
    folder : path, optional
        Where the files lie; otherwise the environment variable POISONPROOF_DATA.
    download : bool
        Whether to fetch what is missing there, from where it was published (without a folder, into a cache).
    """
    if name not in CLASSES:
        return poisonproof.load(name, folder)
    place = folder or os.environ.get("POISONPROOF_DATA") or (cache() if download else None)
    if not place:
        raise PoisonproofError(f"'{name}' is read from files: say where they are with --data-dir or POISONPROOF_DATA.")
    x_train, y_train, x_test, y_test = _read(name, Path(place), download)
    labels = np.arange(CLASSES[name])
    for part, y, x in (("training", y_train, x_train), ("test", y_test, x_test)):
        if x.ndim not in (3, 4) or y.ndim != 1 or x.shape[1:] != x_train.shape[1:]:
            raise PoisonproofError(
                f"The {part} set of '{name}' has images {x.shape} and labels {y.shape}; they do not fit."
            )
        if len(x) != len(y):
            raise PoisonproofError(f"The {part} set of '{name}' has {len(x)} images but {len(y)} labels.")
        for label in (int(y.min(initial=0)), int(y.max(initial=0))):
            if not 0 <= label < len(labels):
                raise PoisonproofError(f"The {part} set of '{name}' has a label {label}; it has {len(labels)} classes.")
    y_train, y_test = y_train.astype(np.int64), y_test.astype(np.int64)
    return Dataset.of(name, x_train, y_train, x_test, y_test, labels, dtype="uint8")


for _name in CLASSES:
    registry.LINES["datasets"].setdefault(_name, partial(load, _name))


def _read(name: str, folder: Path, download: bool) -> Arrays:
    if (folder / f"{name}.npz").exists():
        return _keras(folder / f"{name}.npz")
    readers: dict[str, Callable[[Path], Arrays]] = {"mnist": _mnist, "cifar10": _cifar10, "gtsrb": _gtsrb}
    missing = missing_files(name, folder)
    if missing and download:
        fetch(missing, folder)
    elif missing:
        raise PoisonproofError(
            f"'{name}' is not in {folder}: put {name}.npz (keras layout) there, or the official {', '.join(missing)}."
        )
    return readers[name](folder)


def missing_files(name: str, folder: Path) -> list[str]:
    """The official files of a data set that a folder lacks; none where its keras-layout file lies there."""
    if (folder / f"{name}.npz").exists():
        return []
    return [file for file in OFFICIAL[name] if not (folder / file).exists()]


def _keras(path: Path) -> Arrays:
    """x_train, y_train, x_test, y_test from an npz file."""
    x_train, y_train, x_test, y_test = read_arrays(path, list(MNIST_FILES)).values()
    for images in (x_train, x_test):
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise PoisonproofError(f"{path} must hold uint8 images. Got {images.dtype} of shape {images.shape}.")
    for labels in (y_train, y_test):
        if labels.dtype.kind not in "iu":
            raise PoisonproofError(f"{path} must hold labels that are whole numbers. Got {labels.dtype}.")
    return x_train, y_train.ravel(), x_test, y_test.ravel()


def _mnist(folder: Path) -> Arrays:
    x_train, y_train, x_test, y_test = (read_idx(folder / f"{file}.gz") for file in MNIST_FILES.values())
    return x_train, y_train, x_test, y_test


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes from a gzipped IDX file: two zeros, type 8, number of axes, their lengths, the bytes."""
    with reading(path, "is damaged: it is not a whole gzip file"), gzip.open(path) as file:
        head = file.read(4)
        axes = head[3] if len(head) == 4 and head[:3] == b"\0\0\x08" else 0
        lengths = file.read(4 * axes)
        if not 1 <= axes <= 4 or len(lengths) < 4 * axes:
            raise DamagedFileError(f"{path} is not an IDX file of bytes.")
        shape = [int.from_bytes(lengths[4 * axis : 4 * axis + 4], "big") for axis in range(axes)]
        expected, limit = prod(shape), limit_of(path.stat().st_size)
        body = file.read(min(expected, limit) + 1)
        if len(body) != expected:
            more = " or more" if len(body) > min(expected, limit) else ""
            raise DamagedFileError(f"{path} is damaged: it states {expected} bytes and holds {len(body)}{more}.")
        return np.frombuffer(body, np.uint8).reshape(shape)


def _cifar10(folder: Path) -> Arrays:
    """The binary distribution: records of one label byte and 3 × 32 × 32 pixel bytes."""
    path = folder / CIFAR_ARCHIVE
    record = 1 + 3 * 32 * 32
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    with reading(path, "is damaged: it is not a whole tar file"):
        parts = tar_files(path, names, largest=10_000 * record)
    for name in names:
        if name not in parts or len(parts[name]) % record:
            raise PoisonproofError(f"{path} is damaged: {name} is missing or not a whole number of records.")

    def decoded(some: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rows = np.frombuffer(b"".join(parts[name] for name in some), np.uint8).reshape(-1, record)
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images), rows[:, 0].copy()

    return (*decoded(names[:5]), *decoded(names[5:]))


def _gtsrb(folder: Path) -> Arrays:
    """The official zip archives of PPM images, brought to 48 × 48."""
    training, test, truth = (folder / name for name in GTSRB_ARCHIVES)
    images, labels = [], []
    with reading(training, "is damaged"):
        for name, picture in _pictures(training):
            images.append(picture)
            labels.append(_sign(training, PurePosixPath(name).parent.name))
    table = _ground_truth(truth)
    with reading(test, "is damaged"):
        pictures = {PurePosixPath(name).name: picture for name, picture in _pictures(test)}
    missing = sorted(set(table) - set(pictures))
    if missing:
        raise DamagedFileError(f"{test} is not whole: {missing[0]} is missing.")
    names = sorted(table)
    shape = (-1, GTSRB_SIDE, GTSRB_SIDE, 3)
    return (
        np.array(images, np.uint8).reshape(shape),
        np.array(labels, np.int64),
        np.array([pictures[name] for name in names], np.uint8).reshape(shape),
        np.array([table[name] for name in names], np.int64),
    )


def _pictures(path: Path) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """The pictures of an archive by name, in the order of their names; none states more pixels than it can hold."""
    from PIL import Image

    with open_zip(path) as archive:
        for name in sorted(info.filename for info in archive.infolist() if info.filename.endswith(".ppm")):
            body = archive.read(name)
            with Image.open(io.BytesIO(body), formats=["PPM"]) as picture:
                if picture.width * picture.height > PIXELS_PER_BYTE * len(body):
                    raise DamagedFileError(
                        f"{path} is damaged: {name} states {picture.width} × {picture.height} pixels "
                        f"and has {len(body)} bytes."
                    )
                small = picture.convert("RGB").resize((GTSRB_SIDE, GTSRB_SIDE), Image.Resampling.BILINEAR)
                yield name, np.asarray(small)


def _ground_truth(path: Path) -> dict[str, int]:
    with reading(path, "is damaged"), open_zip(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".csv")]
        if not names:
            raise DamagedFileError(f"{path} is damaged: it holds no .csv file.")
        lines = archive.read(names[0]).decode().split()[1:]
        return {cells[0]: _sign(path, cells[-1]) for cells in (line.split(";") for line in lines)}


def _sign(path: Path, text: str) -> int:
    label = int(text)
    if not 0 <= label < CLASSES["gtsrb"]:
        raise DamagedFileError(f"{path} is damaged: it has a label {text}; there are {CLASSES['gtsrb']} classes.")
    return label


def tar_files(path: str | Path, names: Collection[str], largest: int) -> dict[str, bytes]:
    """Plain files of a gzipped tar archive, those of these names in whatever folder; nothing is written to disk.

    Links, devices and folders are passed over. An archive with a file beyond ``largest`` bytes is refused.
    """
    files = {}
    with (
        open_regular(path) as packed,
        gzip.open(packed) as unpacked,
        tarfile.open(fileobj=_Pieces(unpacked, largest), mode="r:") as archive,
    ):
        limit = limit_of(os.fstat(packed.fileno()).st_size)
        for count, member in enumerate(archive):
            if count >= MOST_FILES:
                raise PoisonproofError(f"it holds more than {MOST_FILES} files")
            if member.size > largest or member.offset_data + member.size > limit:
                raise PoisonproofError(f"'{member.name}' states {member.size} bytes; at most {largest} are read")
            name = PurePosixPath(member.name).name
            if member.isreg() and name in names and (file := archive.extractfile(member)):
                files[name] = file.read()
    return files


class _Pieces(io.RawIOBase):
    """A stream that is never asked for more than the largest file at once, whatever a header states."""

    def __init__(self, file: gzip.GzipFile, largest: int) -> None:
        self.file, self.largest = file, largest

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.largest + tarfile.RECORDSIZE:
            raise PoisonproofError(f"a header states {size} bytes; at most {self.largest} are read")
        return self.file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()
