"""Files that are whole or absent, and that say when they were altered.

Everything is written to a temporary name in the same folder, flushed to disk and renamed, so a
reader never meets half a file. Nothing here reads or writes pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

FACTS = "facts"


def write_whole(path: str | Path, write: Callable[[IO[bytes]], None]) -> None:
    """Call ``write`` on a temporary file and rename it to ``path`` once it is on disk."""
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""

    def write(file: IO[bytes]) -> None:
        file.write(text.encode())

    write_whole(path, write)


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_array(array: NDArray[Any]) -> str:
    """SHA-256 of an array's dtype, shape and bytes (C order, little endian)."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{plain.dtype.str} {plain.shape} ".encode())
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _digest_of_record(record: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in record.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _render(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def write_record(path: str | Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object with its own digest."""
    write_text(path, _render({**record, "digest": _digest_of_record(record)}))


def read_record(path: str | Path) -> dict[str, Any]:
    """Read a JSON object; refuse one of which a single byte is not as it was written."""
    try:
        text = Path(path).read_bytes().decode()
        record = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: it is not JSON ({error}).") from None
    if not isinstance(record, dict) or record.get("digest") != _digest_of_record(record) or _render(record) != text:
        raise ValueError(f"{path} is altered: its content does not have the digest that it states.")
    return record


def write_arrays(path: str | Path, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Write named arrays and a JSON record of facts, digests of the arrays among them, as npz."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    record: dict[str, Any] = {
        **facts,
        "sha256": {name: sha256_of_array(array) for name, array in arrays.items()},
    }
    record["digest"] = _digest_of_record(record)
    text = np.frombuffer(json.dumps(record, ensure_ascii=False).encode(), np.uint8)
    members: dict[str, Any] = {**arrays, FACTS: text}
    write_whole(path, lambda file: np.savez(file, **members))


def open_arrays(path: str | Path, required: Iterable[str] = ()) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote; one sentence that names the file if anything in it is amiss."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        facts = json.loads(arrays.pop(FACTS).tobytes())
        stated = dict(facts["sha256"])
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged zip archive raises almost anything
        raise ValueError(f"{path} is damaged or was not written by bezoar ({error}).") from None
    if facts.get("digest") != _digest_of_record(facts):
        raise ValueError(f"{path} is altered: its facts do not have the digest that it states.")
    if set(stated) != set(arrays) or not set(required) <= set(arrays):
        raise ValueError(f"{path} is altered: the arrays in it are not the ones that it lists.")
    for name, array in arrays.items():
        if sha256_of_array(array) != stated[name]:
            raise ValueError(f"{path} is altered: array '{name}' does not have the digest that the file states.")
    return arrays, facts
