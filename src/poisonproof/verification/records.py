"""Reading poisonproof's files without poisonproof: SHA-256 digests, JSON records, npz archives. No pickle, and nothing
unbounded.

Whoever sends a run may send a link, a pipe, a device, a file with holes or an archive that swells. So only regular
files are opened, their sizes are added up before they are read, and no archive is unpacked: poisonproof writes its
arrays plain, so an array never takes more memory than its file has bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.verdict import NotCheckedError, NotTrueError

FACTS = "facts"
MOST_BYTES = 8 * 10**9
# Which share of that a file may have that is read and not mapped: JSON takes up to some 40 times its bytes.
SHARE_OF_RECORD, SHARE_OF_ARCHIVE, SHARE_OF_WORK = 64, 8, 8
# Flags that a system does not know are left out: Windows has no pipes in folders.
NO_LINKS = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class Archive(NamedTuple):
    """An npz file: named arrays, and a JSON record about them."""

    arrays: dict[str, NDArray[Any]]
    facts: dict[str, Any]


class Reader:
    """Opens regular files, and no more than ``most`` bytes of them in all."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.sizes: dict[Path, int] = {}

    def sha256(self, path: Path) -> str:
        """SHA-256 of a file's bytes."""
        digest = hashlib.sha256()
        with self._open(path, self.most) as file:
            left = self.sizes[path]
            while left and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left -= len(piece)
        return digest.hexdigest()

    def json(self, path: Path) -> dict[str, Any]:
        """A JSON object whose "digest" is that of the rest, written exactly as poisonproof writes it."""
        body = self._read(path, self.most // SHARE_OF_RECORD)
        record = parsed(body, path.name)
        _check_digest(path, record)
        if (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode() != body:
            raise NotTrueError(f"{path.name} is not written the way poisonproof writes it.")
        return dict(record)

    def plain_json(self, path: Path) -> Any:
        """JSON that has no digest of its own."""
        return parsed(self._read(path, self.most // SHARE_OF_RECORD), path.name)

    def npz(self, path: Path) -> Archive:
        """Arrays and facts of an npz file, sealed: its last 64 bytes are the SHA-256 of all before, in hexadecimal."""
        whole = self._read(path, self.most // SHARE_OF_ARCHIVE)
        if hashlib.sha256(memoryview(whole)[:-64]).hexdigest().encode() != whole[-64:]:
            raise NotTrueError(f"{path.name} was altered: its bytes do not have the digest that it states.")
        try:
            arrays = _unzipped(whole, path.name)
            body = arrays.pop(FACTS).tobytes()
        except (NotTrueError, MemoryError):
            raise
        except Exception as error:  # a damaged archive raises almost anything
            raise NotTrueError(f"{path.name} cannot be read ({type(error).__name__}: {error}).") from None
        if len(body) > self.most // SHARE_OF_RECORD:
            raise NotCheckedError(f"the facts of {path.name} have {len(body)} bytes{self._limit(SHARE_OF_RECORD)}")
        facts = parsed(body, path.name)
        if not isinstance(facts, dict) or json.dumps(facts, ensure_ascii=False).encode() != body:
            raise NotTrueError(f"{path.name}: its facts are not written the way poisonproof writes them.")
        return Archive(arrays, facts)

    def npy(self, path: Path) -> NDArray[Any]:
        """A plain array, mapped."""
        with self._open(path, self.most) as file:
            try:
                shape, fortran, dtype = _header(file, self.sizes[path], path.name)
                return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")
            except NotTrueError:
                raise
            except Exception as error:
                raise NotTrueError(f"{path.name} cannot be read ({type(error).__name__}: {error}).") from None

    def check_room(self, n_bytes: int, what: str) -> None:
        """Refuse work that would take more memory than its share."""
        if n_bytes > self.most // SHARE_OF_WORK:
            raise NotCheckedError(f"{what} would take {n_bytes} bytes of memory{self._limit(SHARE_OF_WORK)}")

    def _read(self, path: Path, most: int) -> bytes:
        with self._open(path, most) as file:
            return file.read(self.sizes[path])

    def _open(self, path: Path, most: int) -> IO[bytes]:
        """A file whose size is known and allowed; a link, a pipe or a device is refused and never waited for."""
        try:
            handle = os.open(path, NO_LINKS)
        except OSError as error:
            if path.is_symlink():
                raise NotTrueError(f"{path.name} is a link; only regular files are read.") from None
            raise NotTrueError(f"{path.name} cannot be read ({error.strerror}).") from None
        status = os.fstat(handle)
        size = status.st_size
        self.sizes[path] = size
        total = sum(self.sizes.values())
        if stat.S_ISREG(status.st_mode) and size <= most and total <= self.most:
            return os.fdopen(handle, "rb")
        os.close(handle)
        if not stat.S_ISREG(status.st_mode):
            raise NotTrueError(f"{path.name} is no regular file; pipes, devices and folders are not read.")
        if size > most:
            raise NotCheckedError(f"{path.name} has {size} bytes{self._limit(self.most // max(1, most))}")
        raise NotCheckedError(f"with {path.name} the files have {total} bytes{self._limit(1)}")

    def _limit(self, share: int) -> str:
        part = "" if share == 1 else f", a share of the {self.most} that verify may use"
        return (
            f"; at most {self.most // share} are allowed{part}: raise max_bytes= (--max-size) if you trust the maker."
        )


def parsed(body: bytes, name: str) -> Any:
    """What JSON says."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotTrueError(f"{name} cannot be read ({error}).") from None


def check_folder(path: Path) -> None:
    """Refuse a folder of a run that is a link: what lies there would not be the run's."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise NotTrueError(f"{path.name} is a link or no folder; a run's own folders are neither.")


def sha256_of_array(array: NDArray[Any]) -> str:
    """SHA-256 of "dtype shape " and the bytes in C order, little endian."""
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return hashlib.sha256(f"{plain.dtype.str} {plain.shape} ".encode() + plain.tobytes()).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1, 1.0, True and "1" are four different things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def short(value: Any) -> str:
    """A value as JSON, of 80 characters at most."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def _unzipped(whole: bytes, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of an archive whose members are not packed and lie side by side, so that they fit in its bytes."""
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = archive.infolist()
        if len({member.filename for member in members}) != len(members):
            raise NotTrueError(f"{name} holds an array twice.")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise NotTrueError(
                f"{name} holds packed arrays, which poisonproof does not write and this checker does not unpack."
            )
        if sum(member.file_size for member in members) > len(whole):
            raise NotTrueError(f"{name} states arrays of more bytes than it has.")
        for member in members:
            body = archive.read(member)
            file = io.BytesIO(body)
            shape, fortran, dtype = _header(file, len(body), member.filename)
            array = np.frombuffer(body, dtype, offset=file.tell())
            arrays[member.filename.removesuffix(".npy")] = array.reshape(shape, order="F" if fortran else "C")
    return arrays


def _header(file: IO[bytes], size: int, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an npy file, if they describe exactly the bytes that follow."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise NotTrueError(f"{name} is of npy version {version}; this checker reads 1 and 2.")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.kind not in "biuf":
        raise NotTrueError(f"{name} holds {dtype}, not numbers.")
    held = size - file.tell()
    if prod(shape) * dtype.itemsize != held or not all(0 <= length <= size for length in shape):
        raise NotTrueError(f"{name} states an array {shape} of {dtype}, and holds {held} bytes.")
    return shape, fortran, dtype


def _check_digest(path: Path, record: Any) -> None:
    if not isinstance(record, dict):
        raise NotTrueError(f"{path.name} does not hold a record.")
    rest = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    if record.get("digest") != hashlib.sha256(text.encode()).hexdigest():
        raise NotTrueError(f"{path.name} was altered: its record does not have the digest that it states.")
