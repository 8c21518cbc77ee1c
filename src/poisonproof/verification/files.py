"""Opening the files of a run or a certificate that somebody else made: no pickle, and nothing unbounded.

Whoever sends a run may send a link, a pipe, a device, a file with holes or an archive that swells. So only regular
files are opened, their sizes are added up before they are read, and no archive is unpacked: poisonproof writes its
arrays plain, so an array never takes more memory than its file has bytes. Every digest, name and format is looked at.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.verdict import CheckFailed, CheckSkipped

MODEL, SCHEMA, REPORT = "models/model.json", "schema.json", "report.html"
CERTIFICATE_FORMAT, RUN_FORMAT = "poisonproof certificate 2", "poisonproof run 4"
WITHOUT_DIGEST = ("manifest.json", REPORT, "run.lock", "audit.json")
MOST_FILES = 100_000
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
            raise CheckFailed(f"{path.name} is not written the way poisonproof writes it.")
        return dict(record)

    def plain_json(self, path: Path) -> Any:
        """JSON that has no digest of its own."""
        return parsed(self._read(path, self.most // SHARE_OF_RECORD), path.name)

    def npz(self, path: Path) -> Archive:
        """Arrays and facts of an npz file, sealed: its last 64 bytes are the SHA-256 of all before, in hexadecimal."""
        whole = self._read(path, self.most // SHARE_OF_ARCHIVE)
        if hashlib.sha256(memoryview(whole)[:-64]).hexdigest().encode() != whole[-64:]:
            raise CheckFailed(f"{path.name} was altered: its bytes do not have the digest that it states.")
        try:
            arrays = _unzipped(whole, path.name)
            body = arrays.pop(FACTS).tobytes()
        except (CheckFailed, MemoryError):
            raise
        except Exception as error:  # a damaged archive raises almost anything
            raise CheckFailed(f"{path.name} cannot be read ({type(error).__name__}: {error}).") from None
        if len(body) > self.most // SHARE_OF_RECORD:
            raise CheckSkipped(f"the facts of {path.name} have {len(body)} bytes{self._limit(SHARE_OF_RECORD)}")
        facts = parsed(body, path.name)
        if not isinstance(facts, dict) or json.dumps(facts, ensure_ascii=False).encode() != body:
            raise CheckFailed(f"{path.name}: its facts are not written the way poisonproof writes them.")
        return Archive(arrays, facts)

    def npy(self, path: Path) -> NDArray[Any]:
        """A plain array, mapped."""
        with self._open(path, self.most) as file:
            try:
                shape, fortran, dtype = _header(file, self.sizes[path], path.name)
                return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")
            except CheckFailed:
                raise
            except Exception as error:
                raise CheckFailed(f"{path.name} cannot be read ({type(error).__name__}: {error}).") from None

    def check_room(self, n_bytes: int, what: str) -> None:
        """Refuse work that would take more memory than its share."""
        if n_bytes > self.most // SHARE_OF_WORK:
            raise CheckSkipped(f"{what} would take {n_bytes} bytes of memory{self._limit(SHARE_OF_WORK)}")

    def _read(self, path: Path, most: int) -> bytes:
        with self._open(path, most) as file:
            return file.read(self.sizes[path])

    def _open(self, path: Path, most: int) -> IO[bytes]:
        """A file whose size is known and allowed; a link, a pipe or a device is refused and never waited for."""
        try:
            handle = os.open(path, NO_LINKS)
        except OSError as error:
            if path.is_symlink():
                raise CheckFailed(f"{path.name} is a link; only regular files are read.") from None
            raise CheckFailed(f"{path.name} cannot be read ({error.strerror}).") from None
        status = os.fstat(handle)
        size = status.st_size
        self.sizes[path] = size
        total = sum(self.sizes.values())
        if stat.S_ISREG(status.st_mode) and size <= most and total <= self.most:
            return os.fdopen(handle, "rb")
        os.close(handle)
        if not stat.S_ISREG(status.st_mode):
            raise CheckFailed(f"{path.name} is no regular file; pipes, devices and folders are not read.")
        if size > most:
            raise CheckSkipped(f"{path.name} has {size} bytes{self._limit(self.most // max(1, most))}")
        raise CheckSkipped(f"with {path.name} the files have {total} bytes{self._limit(1)}")

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
        raise CheckFailed(f"{name} cannot be read ({error}).") from None


def _check_folder(path: Path) -> None:
    """Refuse a folder of a run that is a link: what lies there would not be the run's."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise CheckFailed(f"{path.name} is a link or no folder; a run's own folders are neither.")


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
            raise CheckFailed(f"{name} holds an array twice.")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise CheckFailed(
                f"{name} holds packed arrays, which poisonproof does not write and this checker does not unpack."
            )
        if sum(member.file_size for member in members) > len(whole):
            raise CheckFailed(f"{name} states arrays of more bytes than it has.")
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
        raise CheckFailed(f"{name} is of npy version {version}; this checker reads 1 and 2.")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.kind not in "biuf":
        raise CheckFailed(f"{name} holds {dtype}, not numbers.")
    held = size - file.tell()
    if prod(shape) * dtype.itemsize != held or not all(0 <= length <= size for length in shape):
        raise CheckFailed(f"{name} states an array {shape} of {dtype}, and holds {held} bytes.")
    return shape, fortran, dtype


def _check_digest(path: Path, record: Any) -> None:
    if not isinstance(record, dict):
        raise CheckFailed(f"{path.name} does not hold a record.")
    rest = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    if record.get("digest") != hashlib.sha256(text.encode()).hexdigest():
        raise CheckFailed(f"{path.name} was altered: its record does not have the digest that it states.")


class Layout(NamedTuple):
    """The files that a family of voters writes into a run; ``formats`` are those of its records."""

    required: tuple[str, ...]
    optional: re.Pattern[str]
    of_model: re.Pattern[str]
    formats: dict[str, str]


@dataclass
class RunFiles:
    """A run, or a certificate by itself, opened; nothing in it is believed yet.

    ``records`` describe the same voters, by file. ``missing`` are files that the manifest names and that are gone,
    ``unlisted`` files that no digest covers.
    """

    certificate: Archive
    reader: Reader
    manifest: dict[str, Any] | None = None
    folder: Path | None = None
    missing: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    archives: dict[str, Archive] = field(default_factory=dict)
    tables: dict[str, NDArray[Any]] = field(default_factory=dict)
    message: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """What the certificate says about itself."""
        return self.certificate.facts

    @property
    def model(self) -> dict[str, Any] | None:
        """The record of the saved model, if there is one."""
        return self.records.get(MODEL)

    @property
    def settings(self) -> dict[str, Any]:
        """What the manifest says was asked for; empty without one."""
        return dict(self.manifest["settings"]) if self.manifest else {}

    @property
    def origin(self) -> dict[str, Any]:
        """What the certificate says it comes from."""
        return dict(self.facts.get("origin") or {})

    @property
    def n_classes(self) -> int:
        """Number of classes that the certificate names."""
        return len(self.facts["classes"]["values"])

    def listed(self, prefix: str) -> list[str]:
        """Files of this prefix that the manifest names and that are there."""
        return [name for name in (self.manifest or {})["files"] if name.startswith(prefix) and name not in self.missing]


def open_manifest(folder: Path, reader: Reader) -> dict[str, Any]:
    """The manifest of a complete run."""
    manifest = reader.json(folder / "manifest.json")
    check_format(manifest, RUN_FORMAT, "manifest.json")
    if manifest.get("status") != "complete":
        raise CheckFailed(f"the run is not complete: the manifest's status is {manifest.get('status')!r}.")
    return manifest


def open_certificate(path: Path, reader: Reader) -> RunFiles:
    """A certificate by itself."""
    certificate = reader.npz(path)
    check_format(certificate.facts, CERTIFICATE_FORMAT, path.name)
    message = f"the arrays of {path.name} have the digests that it states"
    return RunFiles(certificate, reader, records={"certificate.npz": certificate.facts}, message=message)


def open_run(folder: Path, manifest: dict[str, Any], reader: Reader, layout: Layout) -> RunFiles:
    """A run; the first file that is not what the manifest says is named."""
    for name in ("votes", "models"):
        _check_folder(folder / name)
    stated = manifest["files"]
    for name in stated:
        if name not in layout.required and not layout.optional.fullmatch(name):
            raise CheckFailed(f"the manifest names {name!r}, which is no file of a run.")
    for name in layout.required:
        if name not in stated:
            raise CheckFailed(f"the manifest does not name {name}.")
    missing = [name for name in stated if name not in layout.required and not os.path.lexists(folder / name)]
    for name in (name for name in stated if name not in missing):
        check_file(reader, folder, name, stated[name], "manifest.json")
    certificate = reader.npz(folder / "certificate.npz")
    check_format(certificate.facts, CERTIFICATE_FORMAT, "certificate.npz")
    files = RunFiles(certificate, reader, manifest, folder, missing, records={"certificate.npz": certificate.facts})
    if MODEL in layout.formats and os.path.lexists(folder / MODEL):
        files.records[MODEL] = _open_model(folder / MODEL, reader, layout)
    _check_schema(files)
    known = {*stated, *(f"models/{name}" for name in (files.model or {}).get("files", ()))}
    files.unlisted = sorted(name for name in _files_in(folder) if name not in known)
    strange = [name for name in files.unlisted if name not in WITHOUT_DIGEST]
    files.message = (
        f"{len(stated) - len(missing)} files have the digests that the manifest states, and it has its own"
        + (f"; {len(missing)} that it names are gone" if missing else "")
        + (f"; {len(strange)} others were not looked at ({strange[0]!r})" if strange else "")
        + "."
    )
    return files


def _files_in(folder: Path) -> Iterator[str]:
    """Every name below a folder; links are names too and are not followed."""
    count = 0
    for place, folders, names in os.walk(folder):
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*names, *linked):
            count += 1
            if count > MOST_FILES:
                raise CheckSkipped(f"the folder holds more than {MOST_FILES} files; a run has fewer.")
            yield (Path(place) / name).relative_to(folder).as_posix()


def _open_model(path: Path, reader: Reader, layout: Layout) -> dict[str, Any]:
    """The record of the saved model; its files have the digests that it states."""
    record = reader.json(path)
    check_format(record, layout.formats[MODEL], MODEL)
    for name, digest in record["files"].items():
        if not layout.of_model.fullmatch(name):
            raise CheckFailed(f"{MODEL} names {name!r}, which is no file of a model.")
        check_file(reader, path.parent, name, digest, MODEL)
    present = (other.name for suffix in ("skops", "npy") for other in path.parent.glob(f"*.{suffix}"))
    unnamed = set(present) - set(record["files"])
    if unnamed:
        raise CheckFailed(f"{MODEL} does not name {min(unnamed)}.")
    return record


def _check_schema(files: RunFiles) -> None:
    assert files.folder is not None
    if (SCHEMA in (files.manifest or {})["files"]) != ("schema" in files.settings):
        raise CheckFailed(f"the manifest states a schema without {SCHEMA}, or the other way round.")
    if "schema" not in files.settings or SCHEMA in files.missing:
        return
    if not same(files.reader.plain_json(files.folder / SCHEMA), files.settings["schema"]):
        raise CheckFailed(f"{SCHEMA} is not the schema that the manifest states.")


def check_file(reader: Reader, folder: Path, name: str, stated: str, by: str) -> None:
    """An error if a file does not have the digest that another states."""
    if reader.sha256(folder / name) != stated:
        raise CheckFailed(f"{name} was altered: it does not have the SHA-256 that {by} states.")


def check_format(record: dict[str, Any], known: str, name: str) -> None:
    """An error if a record is of another format than this checker knows."""
    if record.get("format") != known:
        raise CheckFailed(f"{name} is of format {record.get('format')!r}; this checker knows '{known}'.")


def check_blocks(files: RunFiles, whole_of: Callable[[str, NDArray[Any]], NDArray[Any] | None]) -> None:
    """Votes that were written in blocks on the way are those of the whole, which ``whole_of`` gives for an array."""
    assert files.folder is not None
    for name in files.listed("votes/"):
        arrays, facts = files.reader.npz(files.folder / name)
        for what, part in arrays.items():
            whole = whole_of(what, part)
            if whole is None:
                continue
            rows, first = whole[facts["first_sample"] :][: len(part)], facts.get("first_subset", 0)
            if not np.array_equal(part, rows if part.ndim == 1 else rows[:, first : first + part.shape[1]]):
                raise CheckFailed(f"{name} holds other {what} than the whole.")
