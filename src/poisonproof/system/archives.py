"""Other people's files, opened without harm: no pickle, no pipes, and no memory for more than a file can hold.

Every size a file states is compared with the bytes it has before memory is taken for it. An archive may unpack
to at most `MOST` times its size, or to `FREE` bytes: data sets stay far below, bombs far above.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError

FREE = 1 << 26
MOST = 200
LARGEST_RECORD = 1 << 30  # of text that is read at once
LONGEST_HEADER = 10_000  # of an array; what NumPy reads of one
LOCAL_HEADER = 30  # bytes of a zip archive before the name of a member
Header = tuple[tuple[int, ...], bool, np.dtype[Any]]
"""Shape of an array, whether it stands there column by column, and its type."""


class NoRegularFileError(ValueError):
    """A pipe, a device or a folder where a file is expected; one sentence that names it."""


def open_regular(path: str | Path) -> io.BufferedReader:
    """A regular file, open for reading; a pipe or a device is refused and never waited for. Links are followed."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise NoRegularFileError(f"{path} is no regular file; pipes, devices and folders are not read.")


def read_whole(path: str | Path, most: int = LARGEST_RECORD) -> bytes:
    """The bytes of a file that has at most so many."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise PoisonproofError(f"it has {size} bytes, and at most {most} are read at once")
        return file.read(size)


def limit_of(packed: int) -> int:
    """How many bytes an archive of this size may unpack to."""
    return max(FREE, MOST * packed)


@contextmanager
def open_zip(path: str | Path | io.BytesIO) -> Iterator[zipfile.ZipFile]:
    """A zip archive that states no more than it may unpack to; reading a member never gives more than it states."""
    with (
        path if isinstance(path, io.BytesIO) else open_regular(path) as file,
        zipfile.ZipFile(file) as archive,
    ):
        for info in archive.infolist():
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise PoisonproofError(f"'{info.filename}' is packed by method {info.compress_type}, which is not read")
        packed = file.seek(0, io.SEEK_END)
        unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > limit_of(packed):
            raise PoisonproofError(
                f"its {packed} bytes would unpack to {unpacked}, more than {MOST} times as much, and are not unpacked"
            )
        yield archive


def check_arrays(archive: zipfile.ZipFile) -> None:
    """Refuse an archive with an array, also one in an archive inside it, that states more than it holds."""
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            with archive.open(info) as member:
                _checked_header(member, info.file_size, info.filename)
        elif info.filename.endswith(".npz"):
            with open_zip(io.BytesIO(archive.read(info))) as inner:
                check_arrays(inner)


def read_npz(path: str | Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file, all of them or those of these names that it holds."""
    arrays = {}
    with open_zip(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if names is None or name in names:
                with archive.open(info) as member:
                    arrays[name] = _read_npy(member, info.file_size, name)
    return arrays


def npz_in(body: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file whose bytes are known to be those that were written: no checksum is looked at again."""
    arrays, plain = {}, memoryview(body)
    with open_zip(io.BytesIO(body)) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if info.compress_type != zipfile.ZIP_STORED:
                arrays[name] = _read_npy(io.BytesIO(archive.read(info)), info.file_size, name)
                continue
            lengths = plain[info.header_offset + LOCAL_HEADER - 4 : info.header_offset + LOCAL_HEADER]
            start = info.header_offset + LOCAL_HEADER
            start += int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            head = io.BytesIO(plain[start : min(start + info.file_size, start + 2 * LONGEST_HEADER)])
            shape, fortran, dtype = _checked_header(head, info.file_size, name)
            array = np.frombuffer(body, dtype, prod(shape), start + head.tell()).copy()
            arrays[name] = array.reshape(shape, order="F" if fortran else "C")
    return arrays


def map_npy(path: str | Path, *, private: bool = False) -> NDArray[Any]:
    """The array of an npy file, memory-mapped, so that only what is used of it takes memory.

    A ``private`` map may be written to, and the file stays as it is: compiled code need not know another kind of array.
    """
    with open_regular(path) as file:
        _checked_header(file, os.fstat(file.fileno()).st_size, Path(path).name)
    return np.lib.format.open_memmap(path, mode="c" if private else "r")


def _read_npy(file: IO[bytes], size: int, name: str) -> NDArray[Any]:
    shape, fortran, dtype = _checked_header(file, size, name)
    return _filled(file, shape, dtype, name).reshape(shape, order="F" if fortran else "C")


def _filled(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """The next so many numbers of a file, flat."""
    array = np.empty(prod(shape), dtype)
    room, at = array.view(np.uint8).data, 0
    while at < len(room):
        read = file.readinto(room[at:])  # type: ignore[attr-defined]
        if not read:
            raise PoisonproofError(f"'{name}' ends early")
        at += read
    return array


@lru_cache(maxsize=1 << 10)
def _header(version: tuple[int, int], text: bytes) -> Header:
    """What a header says; arrays of one file often have the same, and NumPy takes longer to read it than an array."""
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(io.BytesIO(text))


def npy_rows(file: IO[bytes], size: int, name: str, rows: int) -> Iterator[NDArray[Any]]:
    """The array of an npy file of so many bytes, so many rows at a time; nothing else of it is in memory.

    An array that stands there column by column cannot be had in rows, and comes whole.
    """
    shape, fortran, dtype = _checked_header(file, size, name)
    if (fortran and len(shape) > 1) or not shape:
        yield _filled(file, shape, dtype, name).reshape(shape, order="F")
        return
    for start in range(0, shape[0], rows):
        some = (min(rows, shape[0] - start), *shape[1:])
        yield _filled(file, some, dtype, name).reshape(some)
    if not shape[0]:
        yield np.empty(shape, dtype)


def _checked_header(file: IO[bytes], size: int, name: str) -> Header:
    """Shape, order and type, if they describe exactly the bytes that follow."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise PoisonproofError(f"'{name}' is of npy version {version}; versions 1 and 2 are read")
    length = file.read(2 if version == (1, 0) else 4)
    shape, fortran, dtype = _header(version, length + file.read(min(int.from_bytes(length, "little"), LONGEST_HEADER)))
    if dtype.hasobject:
        raise PoisonproofError(f"'{name}' holds Python objects, which only pickle could read; it is never used")
    stated, held = prod(shape) * dtype.itemsize, size - file.tell()
    possible = dtype.itemsize > 0 and all(0 <= length <= size for length in shape)
    if stated != held or not possible:
        raise PoisonproofError(f"'{name}' states an array {shape} of {dtype}, {stated} bytes, and holds {held}")
    return shape, fortran, dtype
