"""Reading bezoar's files without bezoar: SHA-256 digests, JSON records, npz archives. No pickle."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bezoar.verification.verdict import NotTrueError

FACTS = "facts"


class Archive(NamedTuple):
    """An npz file: named arrays, and a JSON record about them."""

    arrays: dict[str, NDArray[Any]]
    facts: dict[str, Any]


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_array(array: NDArray[Any]) -> str:
    """SHA-256 of "dtype shape " and the bytes in C order, little endian."""
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return hashlib.sha256(f"{plain.dtype.str} {plain.shape} ".encode() + plain.tobytes()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object whose "digest" is that of the rest, written exactly as bezoar writes it."""
    try:
        body = path.read_bytes()
        record = json.loads(body)
    except (OSError, ValueError) as error:
        raise NotTrueError(f"{path.name} cannot be read ({error}).") from None
    _check_digest(path, record)
    if (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode() != body:
        raise NotTrueError(f"{path.name} is not written the way bezoar writes it.")
    return dict(record)


def read_npz(path: Path) -> Archive:
    """Arrays and facts of an npz file, sealed: its last 64 bytes are the SHA-256 of all before, in hexadecimal."""
    try:
        whole = path.read_bytes()
        if hashlib.sha256(whole[:-64]).hexdigest().encode() != whole[-64:]:
            raise NotTrueError(f"{path.name} was altered: its bytes do not have the digest that it states.")
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        body = arrays.pop(FACTS).tobytes()
        facts = json.loads(body)
    except NotTrueError:
        raise
    except Exception as error:  # a damaged archive raises almost anything
        raise NotTrueError(f"{path.name} cannot be read ({type(error).__name__}: {error}).") from None
    if not isinstance(facts, dict) or json.dumps(facts, ensure_ascii=False).encode() != body:
        raise NotTrueError(f"{path.name}: its facts are not written the way bezoar writes them.")
    if len(names) != len(set(names)):
        raise NotTrueError(f"{path.name} holds an array twice.")
    return Archive(arrays, facts)


def read_npy(path: Path) -> NDArray[Any]:
    """A plain array, mapped."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        raise NotTrueError(f"{path.name} cannot be read ({type(error).__name__}: {error}).") from None
    if not isinstance(array, np.ndarray):
        raise NotTrueError(f"{path.name} is not a plain .npy file.")
    return array


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1, 1.0, True and "1" are four different things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check_digest(path: Path, record: Any) -> None:
    if not isinstance(record, dict):
        raise NotTrueError(f"{path.name} does not hold a record.")
    rest = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    if record.get("digest") != hashlib.sha256(text.encode()).hexdigest():
        raise NotTrueError(f"{path.name} was altered: its record does not have the digest that it states.")
