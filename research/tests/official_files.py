"""Tiny files in the official formats of MNIST, CIFAR-10 and GTSRB."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
from PIL import Image

from research.datasets import CIFAR_ARCHIVE, GTSRB_ARCHIVES, MNIST_FILES

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
