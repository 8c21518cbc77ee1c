"""Files that are whole or absent, and that say when they were altered.

Everything is written to a temporary name in the same folder, flushed to disk and renamed, so a
reader never meets half a file; one process at a time writes into a folder. Nothing here reads or writes pickle.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import IO, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError, UnnamedFileError, WrongTypeError
from poisonproof.system.archives import NoRegularFileError, npz_in, open_regular, read_whole

FACTS = "facts"
PART = ".part"
SEAL = b"sha256 "
FULL = (errno.ENOSPC, errno.EDQUOT)


class Written(NamedTuple):
    """A file that was written: its SHA-256 and how many bytes it has."""

    digest: str
    size: int


def write_whole(path: str | Path, write: Callable[[IO[bytes]], object], *, lasting: bool = True) -> None:
    """Call ``write`` on a temporary file and rename it to ``path`` once it is on disk.

    What stood under that name stays if anything fails; a full disk is told of by the name of the file. A file that is
    not ``lasting`` is whole for all processes too, but may be lost with the machine's power: for many small ones whose
    digests are compared before they are used, and which can be made again.
    """
    path = Path(path)
    handle, name = None, None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
        if lasting:
            _sync_folder(path.parent)
    except BaseException as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
        raise


def _sync_folder(folder: Path) -> None:
    """Have a rename reach the disk. Windows opens no folders; there, NTFS keeps its own journal of names."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: str | Path, body: bytes) -> None:
    """Write a file, whole or not at all."""
    write_whole(path, lambda file: file.write(body))


def sweep(folder: Path) -> None:
    """Remove what writers left that were killed; only for the holder of the folder's lock. No link is followed."""
    for place, _, names in os.walk(folder, followlinks=False):
        for name in names:
            if name.startswith(".") and name.endswith(PART):
                Path(place, name).unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_array(array: NDArray[Any]) -> str:
    """SHA-256 of an array's dtype, shape and bytes (C order, little endian)."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{plain.dtype.str} {plain.shape} ".encode())
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def reading(path: str | Path, otherwise: str = "is damaged or was not written by poisonproof") -> Iterator[None]:
    """Whatever a parser raises on a damaged file becomes one sentence that names the file.

    That a file is absent or may not be read, and a lack of memory, are passed on as they are.
    """
    try:
        yield
    except (DamagedFileError, NoRegularFileError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: it sought nowhere
            raise
        words = " ".join(f"{error}".split()) or type(error).__name__
        raise DamagedFileError(f"{path} {otherwise} ({words if len(words) <= 200 else words[:197] + '…'}).") from None


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
    with reading(path, "is damaged: it is not a record of poisonproof's"):
        text = read_whole(path).decode()
        record = json.loads(text)
        whole = isinstance(record, dict) and record.get("digest") == _digest_of_record(record)
        whole = whole and _render(record) == text
    if not whole:
        raise DamagedFileError(f"{path} is altered: its content does not have the digest that it states.")
    return dict(record)


def write_arrays(
    path: str | Path, arrays: Mapping[str, Any], facts: Mapping[str, Any], *, lasting: bool = True
) -> Written:
    """Write named arrays and a JSON record of facts as npz, sealed: its last bytes are the SHA-256 of all before.

    The seal is the comment of the zip archive, so that any reader of npz files reads it too.
    """
    members: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    members[FACTS] = np.frombuffer(json.dumps(facts, ensure_ascii=False).encode(), np.uint8)
    for name, array in members.items():
        if array.dtype.hasobject:
            raise WrongTypeError(
                f"Array '{name}' holds Python objects, which only pickle could write; it is never used."
            )
    buffer = io.BytesIO()
    np.savez(buffer, **members)
    body, tail = buffer.getbuffer()[:-2], (len(SEAL) + 64).to_bytes(2, "little") + SEAL
    digest = hashlib.sha256(body)
    digest.update(tail)
    seal = digest.hexdigest().encode()

    def write(file: IO[bytes]) -> None:
        file.write(body)
        file.write(tail + seal)

    write_whole(path, write, lasting=lasting)
    digest.update(seal)
    return Written(digest.hexdigest(), len(body) + len(tail) + len(seal))


def open_arrays(
    path: str | Path, required: Iterable[str] = (), stated: str | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote; one sentence that names the file if a single bit of it is amiss.

    ``stated`` is the SHA-256 of the whole file, where somebody else states it.
    """
    with reading(path):
        with open_regular(path) as file:
            body = file.read(os.fstat(file.fileno()).st_size)
        if stated is not None and hashlib.sha256(body).hexdigest() != stated:
            raise DamagedFileError(f"{path} is altered: it does not have the SHA-256 that the manifest states.")
        sealed = memoryview(body)[: max(0, len(body) - 64)]
        if sealed[-len(SEAL) :] != SEAL:
            raise DamagedFileError(
                f"{path} is damaged or was not written by poisonproof (it does not end with a seal)."
            )
        if stated is None and hashlib.sha256(sealed).hexdigest().encode() != body[-64:]:
            raise DamagedFileError(f"{path} is altered: its bytes do not have the digest that it states.")
        arrays = npz_in(body)
        facts = json.loads(arrays.pop(FACTS).tobytes())
        if not isinstance(facts, dict) or not set(required) <= set(arrays):
            raise DamagedFileError(f"{path} is altered: it does not hold {', '.join(required)} and facts about them.")
        return arrays, facts


@contextmanager
def sole_writer(folder: Path, lock: str) -> Iterator[None]:
    """Hold the lock of a folder, made if it is absent; a second process is told so.

    What killed writers left in the folder is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(folder / lock).acquire(timeout=0)
    except Timeout:
        raise PoisonproofError(
            f"Another process is writing {folder}; wait for it or choose another --out.", code="folder.busy"
        ) from None
    with held:
        sweep(folder)
        yield


P = ParamSpec("P")
T = TypeVar("T")
PACKAGE = "package:"  # in front of a place inside an installed package
PARTS = ("encoder", "features", "beside")
_named: ContextVar[frozenset[str] | None] = ContextVar("named files", default=None)


@contextmanager
def opening_only(at_hand: Any) -> Iterator[None]:
    """Within, no encoder opens a file but weights in installed packages and the files of encoders that are at hand.

    ``at_hand`` is an encoder, a learner behind one, or anything else, which names none. What a stranger's run names may
    lie anywhere.
    """
    parts, places = [at_hand], set()
    while parts:
        part = parts.pop()
        places.add(getattr(part, "place", None))
        parts += [inner for name in PARTS if (inner := getattr(part, name, None)) is not None]
    token = _named.set(frozenset(place for place in places if isinstance(place, str)))
    try:
        yield
    finally:
        _named.reset(token)


def opens_only_the_estimators(function: Callable[P, T]) -> Callable[P, T]:
    """A function within which only files of the encoder in its argument ``estimator`` are opened."""

    @wraps(function)
    def careful(*args: P.args, **more: P.kwargs) -> T:
        with opening_only(more.get("estimator")):
            return function(*args, **more)

    return careful


def check_may_open(place: str | Path) -> None:
    """Refuse a file of an encoder that nobody at hand has named; see `opening_only`."""
    named, place = _named.get(), str(place)
    in_package = place.startswith(PACKAGE) and ".." not in place
    if named is not None and place not in named and not in_package:
        raise UnnamedFileError(
            f"The run names the encoder's file {place}, and nothing is opened because a run says so; if it is yours, "
            f"name it: --encoder {Path(place).name} (estimator= in Python)."
        )
