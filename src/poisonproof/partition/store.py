"""The partition store: training samples on disk, one file for each partition, so that nobody has to hold them all.

A file holds what base classifiers are fed of its partition: canonical samples in canonical order with the codes of
their labels. A subset is the partitions of its spread, read when it is needed and put into the order that it would have
in memory, so that votes are the same to the bit. Samples travel as the name of their folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.partition.spread import Spread
from poisonproof.partition.store_memory import PartitionMemory
from poisonproof.samples.canonical import canonical_rank
from poisonproof.samples.kinds import Samples
from poisonproof.samples.packed import joined, unpacked
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

    def portion(self, codes: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[Samples, NDArray[np.int64], Any]:
        """What a base classifier is fed, whose ``rows`` are its partitions; the codes come from the same files."""
        samples, places = put_together([self.memory.partition(int(j)) for j in rows])
        return samples, places, np.arange(len(samples))

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
class StoredSubsets:
    """Which partitions of a store feed which base classifier."""

    spread: Spread
    store: PartitionStore

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
    def n_bytes(self) -> NDArray[np.int64]:
        """How many bytes of partitions each base classifier is fed."""
        return self._sums(self.store.bytes)

    def _sums(self, of_partition: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.spread.as_table(), of_partition[:, None])
        return total

    def rows(self, subset: int) -> NDArray[np.int64]:
        """The partitions of one subset; `StoredSamples.portion` reads them in the canonical order of the whole."""
        return np.array(sorted(self.spread.partitions_of(subset)), np.int64)

    def seed(self, subset: int) -> int:
        """The seed of the base classifier: its index, and nothing else."""
        return subset

    def contents(self) -> list[bytes]:
        """A digest of all that base classifiers are fed of each partition, the same as in memory."""
        return [bytes.fromhex(content) for content in self.store.record["contents"]]

    def __len__(self) -> int:
        return self.spread.n_subsets
