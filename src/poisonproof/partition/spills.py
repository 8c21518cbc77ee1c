"""Spills: what a pass over the data could not hold any longer, on disk until it is sorted into partitions.

A spill holds many small sets of arrays by name (one for each partition it has rows of), so that whoever puts one
partition together reads its rows and nothing else. It is whole or absent, and every set has its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError
from poisonproof.system.archives import open_regular
from poisonproof.system.files import reading, write_whole

MAGIC = b"poisonproof spill 1\n"
LENGTH_BYTES = 8
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Spill:
    """A spill on disk: what it says about itself, and where each set of arrays lies."""

    path: Path
    facts: dict[str, Any]
    places: dict[str, tuple[int, int, str]]

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """One set of arrays; None if this spill has none of that name."""
        if name not in self.places:
            return None
        start, length, digest = self.places[name]
        with reading(self.path), open_regular(self.path) as file:
            file.seek(start)
            body = file.read(length)
            if len(body) != length or hashlib.sha256(body).hexdigest() != digest:
                raise DamagedFileError(f"{self.path} is altered: '{name}' does not have the digest that it states.")
            return _arrays_in(body)


def write_spill(path: Path, sets: Iterable[tuple[str, Mapping[str, NDArray[Any]]]], facts: Mapping[str, Any]) -> None:
    """Write sets of arrays, one after the other, none of which may hold Python objects."""

    def write(file: IO[bytes]) -> None:
        file.write(MAGIC)
        places, at = {}, len(MAGIC)
        for name, arrays in sets:
            body = _bytes_of(arrays)
            file.write(body)
            places[name] = (at, len(body), hashlib.sha256(body).hexdigest())
            at += len(body)
        index = json.dumps({"facts": facts, "places": places}, ensure_ascii=False).encode()
        file.write(index + hashlib.sha256(index).digest() + len(index).to_bytes(LENGTH_BYTES, "little"))

    write_whole(path, write)


def open_spill(path: Path) -> Spill:
    """A spill that `write_spill` wrote; one sentence that names it if it is damaged."""
    with reading(path), open_regular(path) as file:
        tail = DIGEST_BYTES + LENGTH_BYTES
        size = file.seek(0, 2)
        if size < len(MAGIC) + tail:
            raise DamagedFileError(f"{path} is damaged: it has only {size} bytes.")
        file.seek(size - tail)
        digest, length = file.read(DIGEST_BYTES), int.from_bytes(file.read(LENGTH_BYTES), "little")
        if length > size - tail:
            raise DamagedFileError(f"{path} is damaged: it states an index of {length} bytes.")
        file.seek(size - tail - length)
        index = file.read(length)
        if hashlib.sha256(index).digest() != digest:
            raise DamagedFileError(f"{path} is altered: its index does not have the digest that it states.")
        record = json.loads(index)
    return Spill(path, record["facts"], {name: tuple(place) for name, place in record["places"].items()})


def _bytes_of(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    header = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    names = json.dumps(header).encode()
    bodies = (np.ascontiguousarray(array).tobytes() for array in arrays.values())
    return b"".join((len(names).to_bytes(LENGTH_BYTES, "little"), names, *bodies))


def _arrays_in(body: bytes) -> dict[str, NDArray[Any]]:
    length = int.from_bytes(body[:LENGTH_BYTES], "little")
    at, arrays = LENGTH_BYTES + length, {}
    for name, (kind, shape) in json.loads(body[LENGTH_BYTES:at]).items():
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return arrays
