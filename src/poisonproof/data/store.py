"""The partition store: training samples on disk, one file for each partition, so that nobody has to hold them all.

A file holds what base classifiers are fed of its partition: canonical samples in canonical order with the codes of
their labels. A subset is the partitions of its spread, read when it is needed and put into the order that it would have
in memory, so that votes are the same to the bit. Samples travel as the name of their folder.

Partitions that stay in memory once they were read: each is fed to d base classifiers, and read once if it fits.

How much room there is, whoever declared a bound says. Which partitions are kept changes nothing but time.

Samples as plain arrays and back, for files that hold a part of the training data; and parts put together again.

Cells of a table that are not numbers are written once each and named by their place, so that a column of categories
takes 4 bytes a row. Nothing about a sample is lost: what comes back has the same content, hashes and form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.spread import Spread
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.samples.cells import utf8
from poisonproof.samples.columns import MISSING, Column
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples, TrainingSet
from poisonproof.samples.partitions import canonical_rank
from poisonproof.system.archives import read_whole
from poisonproof.system.files import arrays_in, read_record, reading, sha256_of

FORMAT = "poisonproof partitions 3"  # 1: digests of 64-bit hashes; 2: labels "1" and "1.0" were two
RECORD = "store.json"


class Portion(NamedTuple):
    """Samples in memory, in canonical order, with the codes of their labels."""

    samples: Samples
    codes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PartitionStore:
    """A complete store: every partition is a file with the digest that the record states.

    Attributes
    ----------
    folder : path
    record : dict
        What ``store.json`` says: ``sizes`` and ``contents`` (a digest of all that base classifiers are fed) of each
        partition, ``files`` with their SHA-256, ``form`` and ``layout`` of the samples, and what the pass found.
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
        """How many bytes each partition takes on disk."""
        return np.array(self.record["bytes"], np.int64)

    @property
    def samples(self) -> StoredSamples:
        """All training samples, in the order of the store."""
        return StoredSamples(self)

    def partition(self, number: int) -> tuple[Portion, NDArray[np.int64]]:
        """The samples of one partition, and the row of the data that each of them was; damage is told by name."""
        path = self.folder / partition_file(number)
        try:
            whole = path.stat().st_size == self.record["bytes"][number]
            body = read_whole(path, self.record["bytes"][number]) if whole else b""
        except FileNotFoundError:
            raise DamagedFileError(
                f"{path} is missing here: the same command again makes it anew, and workers on other machines must see "
                "the folder of the run under the same name."
            ) from None
        if sha256(body).hexdigest() != self.record["files"][path.name]:
            raise DamagedFileError(f"{path} is damaged: the same command again makes it anew from the data.")
        arrays, facts = arrays_in(body, path, ("hash", "code", "row"))
        with reading(path):
            samples = unpacked(facts["form"], arrays)
        return Portion(known_by(samples, arrays["hash"]), arrays["code"].astype(np.int64)), arrays["row"]

    def damaged(self) -> list[int]:
        """The partitions whose files are not as they were written."""
        stated = self.record["files"]
        return [
            j
            for j in range(len(self))
            if not (path := self.folder / partition_file(j)).exists() or sha256_of(path) != stated.get(path.name)
        ]

    def rows(self, what: str) -> NDArray[Any]:
        """Something about every training row, in the order of the data, mapped from its file."""
        array: NDArray[Any] = np.load(self.folder / rows_file(what), mmap_mode="r", allow_pickle=False)
        return array


def put_together(parts: Sequence[Portion]) -> Portion:
    """The samples of several partitions, in the order that a subset of them has in memory."""
    samples = known_by(
        joined([part.samples for part in parts]),
        np.concatenate([part.samples.content_hashes for part in parts]),
    )
    codes = np.concatenate([part.codes for part in parts])
    order = np.argsort(canonical_rank(samples, codes))
    return Portion(samples.subset(order), codes[order])


def partition_file(number: int) -> str:
    """The name of the file of a partition."""
    return f"partition-{number:05d}.npz"


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
        return joined(parts).subset(places)

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
        portion = self.store.partition(number)[0]
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


def unpacked(form: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Samples:
    """The samples that `packed` wrote."""
    if form["kind"] == NumberSamples.kind:
        values = arrays["values"]
        if values.dtype.str != form["dtype"] or list(values.shape[1:]) != form["shape"]:
            raise PoisonproofError(f"it holds numbers {values.dtype} {values.shape[1:]}")
        return NumberSamples(values)
    if form["kind"] == TextSamples.kind:
        texts = np.empty(len(arrays["texts.ends"]), object)
        texts[:] = unpacked_texts(arrays, "texts")
        return TextSamples(texts)
    columns = tuple(_unpacked_column(described, arrays, f"c{at}") for at, described in enumerate(form["columns"]))
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise PoisonproofError(f"its columns have {sorted(lengths)} rows")
    return TableSamples(columns, lengths.pop())


def empty_of(form: Mapping[str, Any]) -> Samples:
    """No samples, of this form."""
    if form["kind"] == NumberSamples.kind:
        return NumberSamples(np.empty((0, *form["shape"]), form["dtype"]))
    if form["kind"] == TextSamples.kind:
        return TextSamples(np.empty(0, object))
    nothing = {
        f"c{at}": np.empty(0, np.float64 if column[1] else np.int32) for at, column in enumerate(form["columns"])
    }
    texts = [packed_texts([], f"c{at}") for at in range(len(form["columns"]))]
    return unpacked(form, nothing | {name: array for arrays in texts for name, array in arrays.items()})


def joined(parts: Sequence[Samples]) -> Samples:
    """The samples of several parts of one form, one part after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, NumberSamples):
        return NumberSamples(np.concatenate([part.values for part in parts]))  # type: ignore[attr-defined]
    if isinstance(first, TextSamples):
        return TextSamples(np.concatenate([part.texts for part in parts]))  # type: ignore[attr-defined]
    assert isinstance(first, TableSamples)
    columns = tuple(
        _joined_columns([part.columns[at] for part in parts if isinstance(part, TableSamples)])
        for at in range(first.n_features)
    )
    return TableSamples(columns, sum(map(len, parts)))


def packed_texts(texts: Sequence[str], name: str) -> Arrays:
    """Texts as one string of bytes and where each of them ends."""
    pieces = [utf8(text) for text in texts]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(pieces), np.uint8), f"{name}.ends": ends}


def unpacked_texts(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    """The texts that `packed_texts` wrote."""
    body, start, texts = arrays[f"{name}.bytes"].tobytes(), 0, []
    for end in arrays[f"{name}.ends"].tolist():
        texts.append(body[start:end].decode("utf-8", "surrogatepass"))
        start = end
    return texts


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


def _unpacked_column(described: Sequence[Any], arrays: Mapping[str, NDArray[Any]], name: str) -> Column:
    called, plain, numeric, categorical = described
    if plain:
        return Column.of_numbers(called, arrays[name], numeric=numeric)
    return Column.of_codes(called, arrays[name], unpacked_texts(arrays, name), categorical=categorical)


def _joined_columns(parts: Sequence[Column]) -> Column:
    first = parts[0]
    if first.codes is None:
        return Column.of_numbers(first.name, np.concatenate([part.values for part in parts]), numeric=first.numeric)
    codes = [part.codes for part in parts if part.codes is not None]
    cells = [part.cells.values.tolist() for part in parts]
    if all(one == cells[0] for one in cells):
        return replace(first, codes=np.concatenate(codes), n_unreadable=0)
    known: dict[Any, int] = {}
    for at, one in enumerate(cells):
        places = [*(known.setdefault(cell, len(known)) for cell in one), MISSING]
        codes[at] = np.array(places, np.int32)[codes[at]]
    return Column.of_codes(first.name, np.concatenate(codes), list(known), categorical=first.categorical)
