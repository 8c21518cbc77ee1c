"""Embeddings kept on disk: by the content of the sample and by the encoder that made them.

One folder for each encoder. A file holds keys and embeddings of some samples, all of one width, which is 0 where the
encoder has no numbers for them. It is written whole or not at all, its name is the digest of its content, and it is
checked when it is opened, and again when it has changed, and then mapped. So runs share what they have, an interrupted
encoding goes on, and a file that was altered is deleted and its samples are encoded again. A key is a digest of a
sample: who holds the sample can confirm it. What is forgotten is gone: the files that held it are written anew.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.system.archives import map_npy
from poisonproof.system.files import sha256_of_array, write_whole

KEY_BYTES = 16
KEY = np.dtype(f"V{KEY_BYTES}")
SUFFIX = ".embeddings.npy"
_lock = threading.RLock()
_opened: dict[Path, EmbeddingCache] = {}
log = logging.getLogger(__name__)


def sample_keys(samples: Sequence[Any]) -> NDArray[np.void]:
    """A key of 128 bits for each sample, from its content alone."""
    keys = b"".join(hashlib.blake2b(_content(sample), digest_size=KEY_BYTES).digest() for sample in samples)
    return np.frombuffer(keys, KEY)


def _content(sample: Any) -> bytes:
    if isinstance(sample, str):
        return b"text " + sample.encode("utf-8", "surrogatepass")
    array = np.ascontiguousarray(sample)
    if array.dtype.hasobject:  # whose bytes are addresses
        return f"cells {array.shape} {array.tolist()!r}".encode("utf-8", "surrogatepass")
    return f"array {array.dtype.newbyteorder('<').str} {array.shape} ".encode() + array.tobytes()


class EmbeddingCache:
    """The embeddings of one encoder in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[Path, NDArray[np.uint8]] = {}
        self._stamps: dict[Path, tuple[int, ...]] = {}
        self._places: dict[bytes, tuple[Path, int]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.refresh()

    @classmethod
    def of(cls, folder: str | Path, identity: str) -> EmbeddingCache:
        """The cache of one encoder, known by its identity, among others in a folder; opened once in a process."""
        place = Path(folder).absolute() / identity[:32]
        with _lock:
            if place not in _opened:
                _opened[place] = cls(place)
            elif place.is_dir():
                _opened[place].refresh()
            else:
                _opened[place] = cls(place)
            return _opened[place]

    def __len__(self) -> int:
        return len(self._places)

    def refresh(self) -> None:
        """See what others have written since, and what they have removed."""
        present = {path: _stamp(path) for path in self.folder.glob(f"*{SUFFIX}")}
        for path in [path for path in self._files if present.get(path) != self._stamps[path]]:
            self._drop(path)
        for path in sorted(present.keys() - self._files.keys()):
            table = _checked(path)
            if table is None:
                log.warning("%s is altered or damaged. It is deleted, and its samples are encoded again.", path)
                path.unlink(missing_ok=True)
            else:
                self._add(path, table)

    def holds(self, keys: NDArray[np.void]) -> NDArray[np.bool_]:
        """Which of these samples are in it."""
        return np.array([key.tobytes() in self._places for key in keys], np.bool_)

    def rows(self, keys: NDArray[np.void]) -> list[NDArray[np.int16]]:
        """The embeddings of these samples, all of which it holds."""
        places = [self._places[key.tobytes()] for key in keys]
        return [self._files[path][row, KEY_BYTES:].view("<i2") for path, row in places]

    def keep(self, keys: NDArray[np.void], answers: Sequence[NDArray[np.int16]]) -> None:
        """Write embeddings down, whole or not at all."""
        widths = np.array([len(answer) for answer in answers])
        with _lock:
            for width in set(widths.tolist()):
                same = np.flatnonzero(widths == width).tolist()
                rows = np.array([answers[at] for at in same], "<i2").reshape(len(same), width)
                self._write(_bytes_of(keys[same]), rows.view(np.uint8).reshape(len(same), 2 * width))

    def delete(self, keys: NDArray[np.void]) -> int:
        """Delete the embeddings of these samples: files that hold any are written anew without them, then removed."""
        gone, count = {key.tobytes() for key in keys}, 0
        with _lock:
            for path, table in list(self._files.items()):
                stay = np.array([row.tobytes() not in gone for row in table[:, :KEY_BYTES]], np.bool_)
                if stay.all():
                    continue
                count += int((~stay).sum())
                if stay.any():
                    self._write(table[stay, :KEY_BYTES], table[stay, KEY_BYTES:])
                self._drop(path)
                path.unlink(missing_ok=True)
            self._places = {}
            for path, table in self._files.items():
                self._add(path, table)
        return count

    def _write(self, keys: NDArray[np.uint8], rows: NDArray[np.uint8]) -> None:
        table = np.concatenate([keys, rows], axis=1)
        path = self.folder / f"{sha256_of_array(table)}{SUFFIX}"
        write_whole(path, lambda file: np.save(file, table))
        self._add(path, map_npy(path))

    def _add(self, path: Path, table: NDArray[np.uint8]) -> None:
        self._files[path], self._stamps[path] = table, _stamp(path)
        keys = np.ascontiguousarray(table[:, :KEY_BYTES]).tobytes()
        for row in range(len(table)):
            self._places[keys[row * KEY_BYTES : (row + 1) * KEY_BYTES]] = (path, row)

    def _drop(self, path: Path) -> None:
        del self._files[path]
        self._places = {key: place for key, place in self._places.items() if place[0] != path}


def _bytes_of(keys: NDArray[np.void]) -> NDArray[np.uint8]:
    return np.frombuffer(keys.tobytes(), np.uint8).reshape(len(keys), KEY_BYTES)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except FileNotFoundError:  # another process was quicker
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _checked(path: Path) -> NDArray[np.uint8] | None:
    """What a file holds, mapped; None if it is not what its name says."""
    try:
        table: NDArray[np.uint8] = map_npy(path)
        whole = table.ndim == 2 and table.dtype == np.uint8 and table.shape[1] >= KEY_BYTES and len(table) > 0
        whole = whole and table.shape[1] % 2 == 0 and path.name == f"{sha256_of_array(table)}{SUFFIX}"
    except (ValueError, OSError, EOFError):
        return None
    return table if whole else None
