"""Writing a partition store: rows come in any order and amount, spills take them, and partitions are sealed one by one.

Everything is whole or absent. Who is killed while rows come in goes on after the last spill; who is killed while
partitions are sealed goes on with the next of them; and whatever the interruptions, the files end with the same bytes,
because a partition is sorted by content before it is written.

Spills: what a pass over the data could not hold any longer, on disk until it is sorted into partitions.

A spill holds many small sets of arrays by name (one for each partition it has rows of), so that whoever puts one
partition together reads its rows and nothing else. It is whole or absent, and every set has its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.store import (
    FORMAT,
    RECORD,
    PartitionStore,
    empty_of,
    joined,
    known_by,
    packed,
    partition_file,
    rows_file,
    unpacked,
)
from poisonproof.errors import DamagedFileError
from poisonproof.samples.kinds import Samples
from poisonproof.samples.partitions import canonical_rank, partition_digest
from poisonproof.system.archives import open_regular
from poisonproof.system.files import (
    Written,
    open_arrays,
    reading,
    sha256_of,
    sha256_of_array,
    write_arrays,
    write_record,
    write_text,
    write_whole,
)

ROWS = "rows"
COMPLETE = "complete"
TEST = "test"
DIGESTED = {"x-content": "x_train", "y-content": "y_train", "groups-content": "groups"}
MARKER = "made-of.txt"
OWN = (RECORD, MARKER, f"{TEST}.npz", "partition-*.npz", "rows-*.npy", "spill-*")
SMALLEST_BUFFER = 1 << 22
LARGEST_BUFFER = 1 << 30


@dataclass(frozen=True, eq=False)
class Incoming:
    """Some training rows: what base classifiers may be fed of them, and where each of them belongs.

    ``labels`` are places in a list of labels; ``about`` says more of every row, in the order of the data: numbers
    that are kept for all rows together.
    """

    samples: Samples
    labels: NDArray[np.int64]
    partition: NDArray[np.int64]
    about: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bytes(self) -> int:
        """About how much memory they take."""
        return size_of(self.samples) + 24 * len(self)


def size_of(samples: Samples) -> int:
    """How many bytes samples take, as files keep them."""
    return sum(array.nbytes for array in packed(samples).values())


class Spiller:
    """Takes rows as they come, and spills them whenever they take more than so many bytes.

    ``wanted`` are the partitions whose rows are kept; of the others only what is said about every row.
    """

    def __init__(self, folder: Path, made_of: str, most_bytes: int, wanted: Collection[int] | None = None) -> None:
        self.folder, self.made_of, self.most_bytes = folder, made_of, most_bytes
        self.wanted = None if wanted is None else np.array(sorted(wanted), np.int64)
        self.spills = _spills_of(folder, made_of)
        self.incoming: list[Incoming] = []
        self.bytes = 0
        self.n_rows: int = self.spills[-1].facts["n_rows"] if self.spills else 0

    @property
    def facts(self) -> dict[str, Any]:
        """What the last spill says about all rows up to its end; nothing if there is none."""
        return dict(self.spills[-1].facts) if self.spills else {}

    def begin_again(self) -> None:
        """Forget what was spilled."""
        for spill in self.spills:
            spill.path.unlink()
        self.spills, self.n_rows = [], 0

    def add(self, rows: Incoming) -> bool:
        """Take some rows; whether it is time to spill."""
        self.incoming.append(rows)
        self.bytes += rows.bytes
        return self.bytes > self.most_bytes

    def spill(self, facts: Mapping[str, Any], more: Sequence[tuple[str, Mapping[str, NDArray[Any]]]] = ()) -> None:
        """Write what came in since the last spill; ``facts`` are about all rows so far."""
        path = self.folder / f"spill-{len(self.spills):05d}"
        n_rows = self.n_rows + sum(map(len, self.incoming))
        write_spill(path, (*self._sets(), *more), {**facts, "of": self.made_of, "n_rows": n_rows})
        self.spills.append(open_spill(path))
        self.incoming, self.bytes, self.n_rows = [], 0, n_rows

    def _sets(self) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        if not self.incoming:
            return
        names = self.incoming[0].about
        about = {name: np.concatenate([rows.about[name] for rows in self.incoming]) for name in names}
        labels = np.concatenate([rows.labels for rows in self.incoming]).astype(np.int32)
        partition = np.concatenate([rows.partition for rows in self.incoming]).astype(np.int32)
        yield ROWS, {**about, "label": labels, "partition": partition}
        samples = joined([rows.samples for rows in self.incoming])
        hashes = np.concatenate([rows.samples.content_hashes for rows in self.incoming])
        order = np.argsort(partition, kind="stable")
        if self.wanted is not None:
            order = order[np.isin(partition[order], self.wanted)]
        ends = np.flatnonzero(np.diff(partition[order], append=-1)) + 1
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False):
            here = order[start:end]
            columns = {"hash": hashes[here], "label": labels[here], "row": here + self.n_rows}
            yield str(int(partition[here[0]])), {**packed(samples.subset(here)), **columns}


def _spills_of(folder: Path, made_of: str) -> list[Spill]:
    """The spills that an interrupted pass over the same data left, from the first on; others are removed."""
    spills: list[Spill] = []
    for number, path in enumerate(sorted(folder.glob("spill-*"))):
        try:
            spill = open_spill(path)
            stands = path.name == f"spill-{number:05d}" and len(spills) == number and spill.facts["of"] == made_of
        except DamagedFileError:
            stands = False
        if stands:
            spills.append(spill)
        else:
            path.unlink()
    return spills


@dataclass(frozen=True, eq=False)
class Sealing:
    """How rows become what base classifiers are fed: which labels count, and whether missing numbers do.

    Attributes
    ----------
    codes : array
        The code of each label, by its place in the list of labels; -1 for those to leave out.
    complete_only : bool
        Whether samples with missing numbers are left out.
    form : dict
        Of the samples; see `form_of_pack`.
    """

    codes: NDArray[np.int64]
    complete_only: bool
    form: dict[str, Any]

    def stays(self, labels: NDArray[np.int64], complete: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows base classifiers are fed, each by itself."""
        stays: NDArray[np.bool_] = self.codes[labels] >= 0
        return stays & complete if self.complete_only else stays

    def write(self, path: Path, number: int, spills: Sequence[Spill], made_of: str) -> SealedFile:
        """Put one partition together and write it in canonical order."""
        parts = [arrays for spill in spills if (arrays := spill.read(str(number))) is not None]
        samples, codes, rows = empty_of(self.form), np.zeros(0, np.int64), np.zeros(0, np.int64)
        hashes = np.zeros(0, np.uint64)
        if parts:
            samples = joined([unpacked(self.form, arrays) for arrays in parts])
            hashes, labels, rows = (
                np.concatenate([arrays[name] for arrays in parts]) for name in ("hash", "label", "row")
            )
            stays = np.flatnonzero(self.stays(labels, samples.complete()))
            samples, hashes, rows = samples.subset(stays), hashes[stays], rows[stays]
            codes = self.codes[labels[stays]]
        known_by(samples, hashes)
        # Rows of equal content and label are interchangeable, but each has a number: the smaller comes first.
        order = np.lexsort((rows, canonical_rank_of_equals(samples, codes)))
        sealed = (samples.subset(order), hashes[order], codes[order], rows[order])
        return write_partition(path, number, sealed, self.form, made_of, lasting=False)


Sealed = tuple[Samples, NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]
"""Samples in canonical order with their hashes, the codes of their labels and the rows of the data that they were."""


class SealedFile(NamedTuple):
    """The file of a partition: how many samples it holds, the digest of what base classifiers are fed of it, and what
    the file itself is.
    """

    n_samples: int
    content: str
    file: Written


def write_partition(
    path: Path, number: int, sealed: Sealed, form: Mapping[str, Any], made_of: str, *, lasting: bool = True
) -> SealedFile:
    """Write the file of a partition; one that is not ``lasting`` may be lost with the power, and is made anew then."""
    samples, hashes, codes, rows = sealed
    content = partition_digest(codes, [samples.keys(np.arange(len(codes)))]).hex()
    arrays = {**packed(samples), "hash": hashes, "code": codes.astype(np.int32), "row": rows}
    facts = {"partition": number, "form": form, "of": made_of, "content": content}
    return SealedFile(len(codes), content, write_arrays(path, arrays, facts, lasting=lasting))


def canonical_rank_of_equals(samples: Samples, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each sample in canonical order, one place for all that are equal in content and label."""
    order = np.argsort(canonical_rank(samples, codes))
    hashes, sorted_codes = samples.content_hashes[order], codes[order]
    new = np.ones(len(order), np.bool_)
    for at in np.flatnonzero((hashes[1:] == hashes[:-1]) & (sorted_codes[1:] == sorted_codes[:-1])) + 1:
        new[at] = samples.key(int(order[at])) != samples.key(int(order[at - 1]))
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(new)
    return places


def seal(
    spiller: Spiller,
    sealing: Sealing,
    n_partitions: int,
    made_of: str,
    facts: Mapping[str, Any],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PartitionStore:
    """Make partitions of all spills; those that are there already stay. Spills are removed in the end."""
    folder, spills = spiller.folder, spiller.spills
    sizes, contents, lengths, files = [], [], [], {}
    for number in range(n_partitions):
        path = folder / partition_file(number)
        sealed = _sealed(path, number, made_of)
        if sealed is None:
            sealed = sealing.write(path, number, spills, made_of)
        sizes.append(sealed.n_samples)
        contents.append(sealed.content)
        lengths.append(sealed.file.size)
        files[path.name] = sealed.file.digest
        progress(number + 1, n_partitions)
    for name, pieces in rows_of(spills, sealing).items():
        files[rows_file(name)] = write_rows(folder / rows_file(name), pieces)
    example = empty_of(sealing.form)
    record = {
        "format": FORMAT,
        "of": made_of,
        "form": sealing.form,
        "layout": example.layout,
        "n_features": example.n_features,
        "sizes": sizes,
        "bytes": lengths,
        "contents": contents,
        "files": files,
        "digests": {
            name: sha256_of_array(np.load(folder / rows_file(name), mmap_mode="r", allow_pickle=False))
            for name in DIGESTED
            if rows_file(name) in files
        },
        **facts,
    }
    write_record(folder / RECORD, record)
    for spill in spills:
        spill.path.unlink()
    return PartitionStore.open(folder)


def _sealed(path: Path, number: int, made_of: str) -> SealedFile | None:
    """The file of a partition that an earlier sealing of the same data left; None if there is none."""
    if not path.exists():
        return None
    try:
        arrays, facts = open_arrays(path, ("hash", "code", "row"))
    except DamagedFileError:
        return None
    if (facts.get("partition"), facts.get("of")) != (number, made_of):
        return None
    return SealedFile(len(arrays["hash"]), facts["content"], Written(sha256_of(path), path.stat().st_size))


Pieces = Callable[[], Iterator[NDArray[Any]]]


def rows_of(spills: Sequence[Spill], sealing: Sealing) -> dict[str, Pieces]:
    """What is said about every row, spill by spill; the partition only of rows that base classifiers are fed."""

    def pieces(name: str) -> Pieces:
        return lambda: (
            arrays[name].astype(np.int64) if name == "label" else arrays[name]
            for spill in spills
            if (arrays := spill.read(ROWS)) is not None
        )

    def partitions() -> Iterator[NDArray[np.int64]]:
        for spill in spills:
            if (arrays := spill.read(ROWS)) is not None:
                stays = sealing.stays(arrays["label"], arrays[COMPLETE])
                yield arrays["partition"][stays].astype(np.int64)

    first = next((arrays for spill in spills if (arrays := spill.read(ROWS)) is not None), {})
    kept = () if sealing.complete_only else (COMPLETE,)  # who removes rows must know which of them were left out
    names = [name for name in first if name not in ("partition", "label", *kept)]
    return {**{name: pieces(name) for name in names}, "partition": partitions}


def write_rows(path: Path, pieces: Pieces) -> str:
    """Write pieces of one array as one npy file; its SHA-256."""
    lengths = [(len(piece), piece.dtype) for piece in pieces()]
    dtype = lengths[0][1] if lengths else np.dtype(np.int64)
    header = {"descr": dtype.str, "fortran_order": False, "shape": (sum(length for length, _ in lengths),)}

    def write(file: IO[bytes]) -> None:
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces():
            file.write(np.ascontiguousarray(piece).tobytes())

    write_whole(path, write)
    return sha256_of(path)


def identity_of(facts: Mapping[str, Any]) -> str:
    """A digest of what a store is made of."""
    return sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def emptied(folder: Path, made_of: str) -> None:
    """Make room for a store: files that were made of something else are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / MARKER
    if marker.exists() and marker.read_text() == made_of:
        return
    for item in (item for pattern in OWN for item in folder.glob(pattern)):
        item.unlink()
    write_text(marker, made_of)


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
