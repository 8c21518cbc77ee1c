"""Training samples on disk, so that nobody has to hold them all: rows that were spilled, sorted by partition.

A partition is a slice of every column of every spill, mapped, read when it is needed and put into canonical order; a
subset is the partitions of its spread, in the order that it would have in memory, so that votes are the same to the
bit. Whoever reads a partition checks its digest. Samples travel as the name of their folder.

Partitions stay in memory once they were read, as far as there is room: each is fed to d base classifiers. Which of them
stay changes nothing but time.

Cells of a table that are not numbers are written once each and named by their place, so that a column of categories
takes 4 bytes a row. Nothing about a sample is lost: what comes back has the same content, hashes and form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.spread import Spread
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.samples.cells import utf8
from poisonproof.samples.columns import MISSING, Column
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples, TrainingSet, concat
from poisonproof.samples.partitions import canonical_rank, partition_digest
from poisonproof.system.archives import map_npy
from poisonproof.system.files import read_record

FORMAT = "poisonproof partitions 4"
RECORD = "store.json"


class Portion(NamedTuple):
    """Samples in memory, in canonical order, with the codes of their labels."""

    samples: Samples
    codes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PartitionStore:
    """A complete store, whose partitions have the digests that the record states.

    Attributes
    ----------
    folder : path
    record : dict
        What ``store.json`` says: ``sizes``, ``bytes`` and ``contents`` (a digest of all that base classifiers are fed)
        of each partition, ``files`` with their SHA-256, ``form`` and ``layout`` of the samples, and what was found.
    """

    folder: Path
    record: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> PartitionStore:
        """The store in a folder; its files are checked as they are read."""
        record = read_record(folder / RECORD)
        check_format(folder, record.get("format"), FORMAT)
        return cls(folder, record)

    def __len__(self) -> int:
        return len(self.record["sizes"])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each partition holds."""
        return np.array(self.record["sizes"], np.int64)

    @cached_property
    def bytes(self) -> NDArray[np.int64]:
        """About how many bytes each partition takes."""
        return np.array(self.record["bytes"], np.int64)

    @property
    def samples(self) -> StoredSamples:
        """All training samples, in the order of the store."""
        return StoredSamples(self)

    @cached_property
    def spills(self) -> list[Spill]:
        """What the pass spilled, in its order."""
        return [Spill(self.folder, name) for name in self.record["spills"]]

    def partition(self, number: int) -> Portion:
        """The samples of one partition; damage is told."""
        try:
            portion = assembled(self.spills, number, self.record)
        except FileNotFoundError as error:
            raise DamagedFileError(
                f"{error.filename} is missing here: the same command again makes it anew, and workers on other "
                "machines must see the folder of the run under the same name."
            ) from None
        except Exception as error:  # bytes that were changed may make anything raise
            raise self._damaged(number) from error
        if content_of(portion) != self.record["contents"][number]:
            raise self._damaged(number)
        return portion

    def _damaged(self, number: int) -> DamagedFileError:
        return DamagedFileError(
            f"{self.folder} is damaged: partition {number} is not what it was when it was written; the same command "
            "again makes it anew from the data."
        )

    def rows(self, what: str) -> NDArray[Any]:
        """Something about every training row, in the order of the data, mapped from its file."""
        array: NDArray[Any] = np.load(self.folder / rows_file(what), mmap_mode="r", allow_pickle=False)
        return array


class Spill:
    """Rows on disk, sorted by partition: one file for each column, mapped when it is asked for."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._arrays: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            self._arrays[name] = map_npy(self.path(name))
        return self._arrays[name]

    def __len__(self) -> int:
        return len(self["label"])

    def path(self, column: str) -> Path:
        """The file of a column."""
        return self.folder / f"{self.name}.{column}.npy"

    def part(self, start: int, stop: int, form: Mapping[str, Any]) -> Samples:
        """The samples from and up to a place."""

        def texts(name: str, places: Sequence[int]) -> list[str]:
            ends, body = self[f"{name}.ends"], self[f"{name}.bytes"]
            return [bytes(body[ends[at - 1] if at else 0 : ends[at]]).decode() for at in places]

        if form["kind"] == NumberSamples.kind:
            return NumberSamples(np.array(self["values"][start:stop]))
        if form["kind"] == TextSamples.kind:
            cells = np.empty(stop - start, object)
            cells[:] = texts("texts", range(start, stop))
            return TextSamples(cells)
        columns = []
        for at, (name, plain, numeric, categorical) in enumerate(form["columns"]):
            held = np.array(self[f"c{at}"][start:stop])
            if plain:
                columns.append(Column.of_numbers(name, held, numeric=numeric))
                continue
            different, codes = np.unique(held, return_inverse=True)
            missing = int(len(different) > 0 and different[0] == MISSING)
            cells_here = texts(f"c{at}", different[missing:].tolist())
            columns.append(Column.of_codes(name, codes - missing, cells_here, categorical=categorical))
        return TableSamples(tuple(columns), stop - start)


def assembled(spills: Sequence[Spill], number: int, facts: Mapping[str, Any]) -> Portion:
    """One partition out of all spills, in canonical order, less what base classifiers are not fed.

    ``facts``: the ``form`` of samples, the ``codes`` of labels by their place, -1 for those to leave out, and whether
    samples with missing numbers are left out, ``complete_only``.
    """
    parts, labels = [empty_of(facts["form"])], [np.zeros(0, np.int64)]
    for spill in spills:
        start, stop = spill["starts"][number : number + 2].tolist()
        if start < stop:
            samples = known_by(spill.part(start, stop, facts["form"]), np.array(spill["hash"][start:stop]))
            parts.append(samples)
            labels.append(np.array(spill["label"][start:stop], np.int64))
    samples, codes = concat(parts[len(parts) > 1 :]), np.array(facts["codes"], np.int64)[np.concatenate(labels)]
    stays = codes >= 0
    if facts["complete_only"]:
        stays &= samples.complete()
    rows = np.flatnonzero(stays)
    hashes = samples.content_hashes
    samples, codes = known_by(samples.subset(rows), hashes[rows]), codes[rows]
    order = np.argsort(canonical_rank(samples, codes))
    return Portion(known_by(samples.subset(order), samples.content_hashes[order]), codes[order])


def content_of(portion: Portion) -> str:
    """The digest of all that base classifiers are fed of a partition."""
    return partition_digest(portion.codes, [portion.samples.keys(np.arange(len(portion.codes)))]).hex()


def put_together(parts: Sequence[Portion]) -> Portion:
    """The samples of several partitions, in the order that a subset of them has in memory."""
    samples, codes = concat([part.samples for part in parts]), np.concatenate([part.codes for part in parts])
    order = np.argsort(canonical_rank(samples, codes))
    return Portion(samples.subset(order), codes[order])


def rows_file(what: str) -> str:
    """The name of the file that says something about every training row, in the order of the data."""
    return f"rows-{what}.npy"


def known_by(samples: Samples, hashes: NDArray[np.uint64]) -> Samples:
    """Samples whose hashes somebody has computed already."""
    vars(samples)["content_hashes"] = hashes
    return samples


@lru_cache(maxsize=1)
def _samples_in(folder: str, digest: str, most_bytes: int) -> StoredSamples:
    """What a worker makes of the name of a folder; all its tasks on one store share the partitions that it keeps."""
    store = PartitionStore.open(Path(folder))
    if store.record["digest"] != digest:
        raise PoisonproofError(f"{folder} holds other partitions than those that work was begun with; begin again.")
    return StoredSamples(store, most_bytes)


class StoredSamples(Samples):
    """Training samples in a store: partition after partition, and in each of them in canonical order.

    Whoever asks for rows is given these rows from the files that hold them; of what was read, ``most_bytes`` at most
    stay in memory.
    """

    def __init__(self, store: PartitionStore, most_bytes: int = 0) -> None:
        self.store, self.memory = store, PartitionMemory(store, most_bytes)
        self.kind = store.record["form"]["kind"]
        self.n_features = store.record["n_features"]

    def __reduce__(self) -> tuple[Any, ...]:
        return _samples_in, (str(self.store.folder.absolute()), self.store.record["digest"], self.memory.most_bytes)

    def __len__(self) -> int:
        return int(self.store.sizes.sum())

    @property
    def n_bytes(self) -> int:
        """What the record of the store takes, which travels; the samples themselves are on disk."""
        return 200 * len(self.store)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate(([0], np.cumsum(self.store.sizes)))

    def subset(self, rows: ArrayLike) -> Samples:
        """These samples in memory, from the partitions that hold them."""
        rows = np.asarray(rows, np.int64)
        if not len(rows):
            return self.memory.partition(0).samples.subset(rows)
        inside = np.searchsorted(self._starts, rows, side="right") - 1
        parts, places = [], np.empty(len(rows), np.int64)
        taken = 0
        for j in np.unique(inside):
            here = np.flatnonzero(inside == j)
            parts.append(self.memory.partition(int(j)).samples.subset(rows[here] - self._starts[j]))
            places[here] = np.arange(taken, taken + len(here))
            taken += len(here)
        return concat(parts).subset(places)

    def of_partitions(self, numbers: Iterable[int]) -> TrainingSet:
        """The samples of these partitions together, in canonical order, with the codes of their labels."""
        samples, codes = put_together([self.memory.partition(int(j)) for j in numbers])
        return TrainingSet(samples, codes, np.arange(len(samples)))

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        """Of all samples, partition by partition."""
        parts = (self.memory.partition(j).samples for j in range(len(self.store)))
        return np.concatenate([part.hashes(seed) if seed else part.content_hashes for part in parts])

    def key(self, row: int) -> bytes:
        """The whole content of one sample."""
        return self.subset([row]).key(0)

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        """These samples as a base classifier is fed them."""
        samples = self.subset(rows)
        return samples.take(np.arange(len(samples)), form)

    def form_of(self, rows: ArrayLike) -> Any:
        """What a base classifier trained on these samples must know about their form."""
        samples = self.subset(rows)
        return samples.form_of(np.arange(len(samples)))

    @property
    def layout(self) -> str:
        """What all samples have in common."""
        return str(self.store.record["layout"])


@dataclass(frozen=True)
class StoredSource:
    """A training source on disk: which partitions of a store feed which base classifier."""

    spread: Spread
    samples: StoredSamples

    @property
    def store(self) -> PartitionStore:
        """The partitions."""
        return self.samples.store

    @property
    def partition_sizes(self) -> NDArray[np.int64]:
        """How many samples each partition holds."""
        return self.store.sizes

    @property
    def partition(self) -> NDArray[np.int64]:
        """The partition of each training sample that is not left out, in the order of the data; mapped from a file."""
        return self.store.rows("partition")

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each subset holds."""
        return self._sums(self.store.sizes)

    @cached_property
    def n_bytes(self) -> int:
        """How many bytes of partitions the largest subset holds."""
        return int(self._sums(self.store.bytes).max())

    @property
    def whole_bytes(self) -> int:
        """Bytes of all partitions."""
        return int(self.store.bytes.sum())

    def _sums(self, of_partition: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.spread.as_table(), of_partition[:, None])
        return total

    def subset(self, i: int) -> TrainingSet:
        """What base classifier i is trained on, in the canonical order that it would have in memory."""
        return self.samples.of_partitions(sorted(self.spread.partitions_of(i)))

    def whole(self) -> TrainingSet:
        """All training samples, in memory."""
        return self.samples.of_partitions(range(self.spread.n_partitions))

    def seed(self, subset: int) -> int:
        """The seed of the base classifier: its index, and nothing else."""
        return subset

    def contents(self) -> list[bytes]:
        """A digest of all that base classifiers are fed of each partition, the same as in memory."""
        return [bytes.fromhex(content) for content in self.store.record["contents"]]

    def __len__(self) -> int:
        return self.spread.n_subsets


OF_A_COLUMN = 2_000  # bytes that a column takes besides its cells: arrays, lists of its different cells


class PartitionMemory:
    """The partitions of a store, of which those stay in memory that were read first, up to so many bytes.

    The first, not the last: base classifiers go through all partitions in turns, so the one that was used longest ago
    is as likely as any other to be the next.
    """

    def __init__(self, store: PartitionStore, most_bytes: int = 0) -> None:
        self.store, self.most_bytes = store, most_bytes
        self.bytes = 0
        self._kept: dict[int, Portion] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def partition(self, number: int) -> Portion:
        """The samples of one partition, which nobody may change, with the codes of their labels."""
        portion = self._kept.get(number)
        if portion is not None:
            return portion
        portion = self.store.partition(number)
        size = bytes_of(portion) if self.bytes < self.most_bytes else 0
        with self._lock:
            if number not in self._kept and 0 < size <= self.most_bytes - self.bytes:
                self._kept[number] = portion
                self.bytes += size
        return portion


def bytes_of(portion: Portion) -> int:
    """How much memory a partition takes, from above."""
    samples = portion.samples
    return samples.n_bytes + portion.codes.nbytes + samples.content_hashes.nbytes + OF_A_COLUMN * samples.n_features


Arrays = dict[str, NDArray[Any]]


def form_of_pack(samples: Samples) -> dict[str, Any]:
    """What arrays of such samples do not say themselves, as plain values; the same for any part of them."""
    if isinstance(samples, NumberSamples):
        return {"kind": samples.kind, "dtype": samples.values.dtype.str, "shape": list(samples.values.shape[1:])}
    if isinstance(samples, TextSamples):
        return {"kind": samples.kind}
    if isinstance(samples, TableSamples):
        return {
            "kind": samples.kind,
            "columns": [
                [column.name, column.codes is None, column.numeric, column.categorical] for column in samples.columns
            ],
        }
    raise PoisonproofError(f"Only tables, numbers and texts are kept by partition. Got {samples.kind}.")


def packed(samples: Samples) -> Arrays:
    """The samples as arrays without Python objects."""
    if isinstance(samples, NumberSamples):
        return {"values": samples.take(np.arange(len(samples)))}
    if isinstance(samples, TextSamples):
        return packed_texts(samples.texts.tolist(), "texts")
    if isinstance(samples, TableSamples):
        arrays: Arrays = {}
        for at, column in enumerate(samples.columns):
            arrays |= _packed_column(column, f"c{at}")
        return arrays
    raise PoisonproofError(f"Only tables, numbers and texts are kept by partition. Got {samples.kind}.")


def empty_of(form: Mapping[str, Any]) -> Samples:
    """No samples, of this form."""
    if form["kind"] == NumberSamples.kind:
        return NumberSamples(np.empty((0, *form["shape"]), form["dtype"]))
    if form["kind"] == TextSamples.kind:
        return TextSamples(np.empty(0, object))
    columns = (
        Column.of_numbers(name, np.empty(0), numeric=numeric)
        if plain
        else Column.of_codes(name, np.empty(0, np.int32), [], categorical=categorical)
        for name, plain, numeric, categorical in form["columns"]
    )
    return TableSamples(tuple(columns), 0)


def packed_texts(texts: Sequence[str], name: str) -> Arrays:
    """Texts as one string of bytes and where each of them ends."""
    pieces = [utf8(text) for text in texts]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(pieces), np.uint8), f"{name}.ends": ends}


def _packed_column(column: Column, name: str) -> Arrays:
    """Numbers as they are; of cells those that occur, in their order, and which of them each is."""
    if column.codes is None:
        return {name: column.values}
    present, places = np.unique(column.codes, return_inverse=True)
    first = int(len(present) > 0 and present[0] < 0)
    texts = column.cells.values[present[first:]].tolist()
    if any(not isinstance(text, str) for text in texts):
        raise PoisonproofError(f"Column '{column.name}' holds numbers among texts; only texts are kept by partition.")
    return {name: (places - first).astype(np.int32), **packed_texts(texts, name)}
