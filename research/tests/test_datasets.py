"""Data sets from tiny files in their official formats."""

import gzip

import numpy as np
import pytest
from PIL import Image

from research.datasets import (
    CIFAR_ARCHIVE,
    GTSRB_ARCHIVES,
    load,
    read_idx,
)
from research.tests.official_files import COLOUR, GREY, TEN, idx, write_cifar, write_gtsrb, write_mnist


def test_mnist_in_idx_files(tmp_path):
    write_mnist(tmp_path)
    mnist = load("mnist", tmp_path)
    assert (mnist.train.X == GREY).all()
    assert mnist.train.labels.tolist() == TEN.tolist()
    assert mnist.test.X.shape == (2, 28, 28)
    assert (mnist.dtype, len(mnist.classes)) == ("uint8", 10)


def test_keras_layout_wins_and_the_environment_names_the_folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN[:, None], x_test=GREY, y_test=TEN)
    monkeypatch.setenv("POISONPROOF_DATA", str(tmp_path))
    assert (load("mnist").train.X == GREY).all()
    assert load("mnist").train.labels.tolist() == TEN.tolist()


def test_cifar10_in_its_binary_archive(tmp_path):
    write_cifar(tmp_path)
    cifar = load("cifar10", tmp_path)
    assert cifar.train.X.shape == (30, 32, 32, 3)
    assert (cifar.train.X[:6] == COLOUR).all()
    assert cifar.test.labels.tolist() == TEN.tolist()


def test_gtsrb_in_its_zip_archives(tmp_path):
    write_gtsrb(tmp_path)
    signs = load("gtsrb", tmp_path)
    assert signs.train.X.shape == (4, 48, 48, 3)
    assert signs.train.labels.tolist() == [0, 0, 42, 42]
    assert signs.test.labels.tolist() == [7, 0, 42]
    expected = Image.fromarray(COLOUR[1]).resize((48, 48), Image.Resampling.BILINEAR)
    assert (signs.test.X[1] == np.asarray(expected)).all()


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
        load("mnist")
    with pytest.raises(ValueError, match=r"put mnist\.npz .*or the official train-images-idx3-ubyte\.gz"):
        load("mnist", tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"mnist\.npz is not a whole npz file"):
        load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY / 255, y_train=TEN, x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match=r"must hold uint8 images\. Got float64"):
        load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN + 1, x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match="has a label 10; it has 10 classes"):
        load("mnist", tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=GREY, y_train=TEN[:3], x_test=GREY, y_test=TEN)
    with pytest.raises(ValueError, match="6 images but 3 labels"):
        load("mnist", tmp_path)
    write_cifar(tmp_path, cut=5)
    with pytest.raises(ValueError, match=r"data_batch_1\.bin is missing or not a whole number of records"):
        load("cifar10", tmp_path)
    (tmp_path / CIFAR_ARCHIVE).write_bytes(b"no tar")
    with pytest.raises(ValueError, match="not a whole tar file"):
        load("cifar10", tmp_path)
    write_gtsrb(tmp_path)
    (tmp_path / GTSRB_ARCHIVES[1]).write_bytes((tmp_path / GTSRB_ARCHIVES[1]).read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"GTSRB_Final_Test_Images\.zip is damaged"):
        load("gtsrb", tmp_path)
