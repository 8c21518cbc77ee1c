"""Downloads from a server of our own: checked, whole or absent, and told of in one sentence."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from poisonproof.errors import DamagedFileError
from research import download
from research.datasets import CIFAR_ARCHIVE, GTSRB_ARCHIVES, MNIST_FILES, load
from research.tests.official_files import GREY, write_cifar, write_gtsrb, write_mnist


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        self.server.asked.append(self.path)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Tiny files in the official formats, served, with their own checksums."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    for write in (write_mnist, write_cifar, write_gtsrb):
        write(folder)
    sums = {p.name: hashlib.md5(p.read_bytes(), usedforsecurity=False).hexdigest() for p in folder.iterdir()}
    monkeypatch.setattr(download, "SOURCES", {name: ("http://official.invalid", sum_) for name, sum_ in sums.items()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("POISONPROOF_MIRROR", f"http://127.0.0.1:{server.server_port}/")
    yield folder, server
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_official_file_has_a_source_and_a_checksum():
    needed = {*(f"{file}.gz" for file in MNIST_FILES.values()), CIFAR_ARCHIVE, *GTSRB_ARCHIVES}
    assert set(download.SOURCES) == needed
    assert len({md5 for _, md5 in download.SOURCES.values()}) == len(needed)
    assert all(len(bytes.fromhex(md5)) == 16 for _, md5 in download.SOURCES.values())


def test_what_is_missing_is_fetched_and_what_is_there_is_not(mirror, tmp_path):
    _, server = mirror
    place = tmp_path / "data"
    assert (load("mnist", place, download=True).train.X == GREY).all()
    assert len(server.asked) == 4
    assert sorted(path.name for path in place.iterdir()) == sorted(f"{file}.gz" for file in MNIST_FILES.values())
    load("mnist", place, download=True)
    load("mnist", place)
    (place / "t10k-labels-idx1-ubyte.gz").unlink()
    load("mnist", place, download=True)
    assert server.asked[4:] == ["/t10k-labels-idx1-ubyte.gz"]
    assert len(load("cifar10", place, download=True).train.X) == 30
    assert len(load("gtsrb", place, download=True).test.X) == 3


def test_without_a_folder_there_is_a_cache(mirror, tmp_path, monkeypatch):
    monkeypatch.delenv("POISONPROOF_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
    load("mnist", download=True)
    assert len(list((tmp_path / "cache" / "poisonproof").iterdir())) == 4


def test_a_file_that_is_not_the_official_one_is_removed_and_named(mirror, tmp_path):
    folder, _ = mirror
    body = (folder / CIFAR_ARCHIVE).read_bytes()
    (folder / CIFAR_ARCHIVE).write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    with pytest.raises(
        DamagedFileError, match=r"gave is not cifar-10-binary\.tar\.gz: its MD5 is not \w{32}\. It was re"
    ):
        load("cifar10", tmp_path / "data", download=True)
    assert list((tmp_path / "data").iterdir()) == []


def test_no_network_says_where_to_put_the_file(mirror, tmp_path, monkeypatch):
    (mirror[0] / "GTSRB_Final_Test_GT.zip").unlink()
    with pytest.raises(
        ConnectionError, match=r"GTSRB_Final_Test_GT\.zip could not be fetched .*put it into .*data yours"
    ):
        load("gtsrb", tmp_path / "data", download=True)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted(GTSRB_ARCHIVES[:2])
    monkeypatch.setenv("POISONPROOF_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(
        ConnectionError, match=r"GTSRB_Final_Test_GT\.zip could not be fetched from http://127\.0\.0\.1:9/"
    ):
        load("gtsrb", tmp_path / "data", download=True)
