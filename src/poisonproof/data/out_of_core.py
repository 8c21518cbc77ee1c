"""Training data larger than memory: one pass spills rows sorted by partition, and the spills are the store.

The pass reads a bounded number of cells at a time. A row is read, held out and sent to its partition by the same
functions as in memory, and each of them looks at that row alone, so the result is the same data set: same digests, same
partitions, same order inside a subset. What is held in memory is the chunk at hand, the rows that wait to be spilled,
and the test samples. A pass that is killed begins again: there is a store once its record is written.

A partition is a slice of every array of every spill, mapped, read when it is needed and put into canonical order; a
subset is the partitions of its spread, in the order that it would have in memory, so that votes are the same to the
bit. Whoever reads a partition checks its digest. Samples travel as the name of their folder. Partitions stay in memory
once they were read, as far as there is room: each is fed to d base classifiers. Which of them stay changes nothing but
time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.data.dataset import Dataset, LabelledSamples, ReadReport, held_out
from poisonproof.data.files import FREE_EXPANSION, MOST_EXPANSION, is_gzip
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import (
    TableSource,
    check_not_empty,
    drop_undeclared_test_labels,
    kind_of,
    note_labels,
    open_with_schema,
    read_other,
    records_premise,
    schema_premises,
    share_of,
    table_files,
)
from poisonproof.data.tables import samples_of
from poisonproof.display import in_bytes
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.samples.cells import utf8
from poisonproof.samples.columns import MISSING, Column
from poisonproof.samples.hashing import DIGEST
from poisonproof.samples.kinds import (
    NumberSamples,
    Samples,
    TableSamples,
    TextSamples,
    TrainingSet,
    canonical_rank,
    concat,
    partition_digest,
)
from poisonproof.samples.labels import class_array, label_cells, label_digests, read_labels
from poisonproof.samples.schema import FEATURES, TableSchema, schema_from_dict
from poisonproof.system.archives import map_npy
from poisonproof.system.files import (
    FULL,
    read_record,
    sha256_of,
    sha256_of_array,
    sole_writer,
    write_record,
    write_whole,
)
from poisonproof.system.machine import resident_bytes
from poisonproof.system.progress import progress

FORMAT = "poisonproof partitions 5"
RECORD, LOCK = "store.json", "store.lock"
PARTITION_OF_ROWS = "rows-partition.npy"
OWN = (RECORD, "rows-*", "spill-*", "test.*")
ANY_SIZE = 1 << 60
FIRST_BYTES = 1 << 20
CELLS_PER_CHUNK = 1 << 19
SHARE_FOR_TEST = 4  # of the bound, one part for the test samples
SHARE_FOR_SPILL = 16  # what is spilled is there several times while it is joined and sorted
SMALLEST_BUFFER, LARGEST_BUFFER = 1 << 22, 1 << 30
SORTED = 6  # of a partition: as it is read, joined, in order, and as it is fed
DISK = 1.25
OF_A_COLUMN = 2_000  # bytes of memory that a column takes besides its cells: arrays, lists of its different cells
ROW = np.dtype(
    [("x", DIGEST), ("y", DIGEST), ("group", DIGEST), ("partition", "<i8"), ("label", "<i4"), ("complete", "?")]
)
"""What is noted of every training row, in the order of the data, while a pass goes on."""
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """Files that are to be read in a pass: how, and what was decided about all rows at once."""

    path: Path
    options: ReadOptions
    schema: TableSchema
    reader: TableSource

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Source:
        """The tables of a file or a folder; nothing but their headers, and what a schema is guessed from, is read."""
        if options.test is not None and options.held_out is not None:
            raise PoisonproofError("Give --test or --held-out, not both.", code="options.test-twice")
        kind = kind_of(path, options)
        if kind != "table":
            raise PoisonproofError(
                f"{path} holds {kind}; only tables (CSV, Parquet, a folder of Parquet files) may exceed memory.",
                code="data.kind",
            )
        allowed = options.most_bytes or ANY_SIZE  # of compressed files a bounded multiple
        if options.most_bytes is None and is_gzip(path):
            allowed = max(FREE_EXPANSION, MOST_EXPANSION * path.stat().st_size)
        reader, schema = open_with_schema(path, replace(options, most_bytes=allowed), ReadReport())
        assert isinstance(reader, TableSource)
        assert isinstance(schema, TableSchema)
        if not schema.named(*FEATURES):
            raise PoisonproofError(
                f"No column of {path} is a number, a category or a text; there is nothing to learn from.",
                code="schema.no-feature",
            )
        reader.table(schema)
        return cls(path, options, schema, reader)

    @property
    def grouped(self) -> bool:
        """Whether rows have contributors."""
        return self.schema.group is not None

    def outline(self) -> Dataset:
        """A data set without samples: what there is to know before the pass."""
        nobody = np.zeros(0, object)
        empty = LabelledSamples(TextSamples(nobody), nobody, nobody if self.grouped else None)
        classes = None if self.options.classes is None else class_array(self.options.classes)
        premises = schema_premises(self.schema, self.options, grouped=self.grouped)
        return Dataset(self.path.name, empty, empty, classes, self.schema, premises)

    def made_of(self) -> dict[str, Any]:
        """What the rows are a function of: files by name and content, and how to read them."""
        options = self.options
        return {
            "files": [[file.name, sha256_of(file)] for file in table_files(self.path)],
            "schema": self.schema.as_dict(),
            "held_out": None if options.test is not None else share_of(options),
            "classes": None if options.classes is None else list(options.classes),
        }

    def n_rows(self) -> int | None:
        """About how many rows there are, if the files say so or their first lines do."""
        counts = [_rows_in(file) for file in table_files(self.path)]
        return None if None in counts else sum(count for count in counts if count is not None)


def _rows_in(path: Path) -> int | None:
    """How many rows a Parquet file states, or about how many lines of the first ones' length a file has."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    if is_gzip(path):
        return None
    with path.open("rb") as file:
        first = file.read(FIRST_BYTES)
    return round(path.stat().st_size / max(1, len(first)) * max(1, first.count(b"\n")))


@dataclass(frozen=True, eq=False)
class StoredDataset(Dataset):
    """A data set whose training samples lie in a partition store; the test samples are in memory."""

    store: PartitionStore | None = None

    @property
    def stored(self) -> PartitionStore:
        """The store, which is always there."""
        assert self.store is not None
        return self.store

    def digests(self, parts: Sequence[str] = ("train", "test")) -> dict[str, str]:
        """The same as in memory: of all rows, in the order of the files."""
        known = dict(self.stored.record["digests"])
        if "test" in parts:
            known["x_test"] = sha256_of_array(self.test.samples.content_digests)
            known["y_test"] = sha256_of_array(label_digests(self.test.labels))
        wanted = [f"{letter}_{part}" for letter in "xy" for part in parts]
        return {name: known[name] for name in (*wanted, *(["groups"] if "groups" in known else []))}


def open_large(
    source: Source,
    split: Split,
    n_partitions: int,
    folder: Path,
    *,
    max_memory: int,
    answer_bytes: int = 0,
    complete_only: bool = False,
    outline: Dataset | None = None,
) -> StoredDataset:
    """The data set of a source, its training samples in partitions on disk; what is there already is kept.

    Parameters
    ----------
    source : Source
    split : Split
    n_partitions : int
    folder : path
        Of the store; what other data left there is removed.
    max_memory : int
        Bytes that the whole process may take, of which the pass takes a part.
    answer_bytes : int
        What the votes on one test sample will take.
    complete_only : bool
        Leave out training samples with missing numbers, for learners that take none.
    outline : Dataset, optional
        Name and premises in place of the source's own.
    """
    facts = {"format": FORMAT, "split": split.as_dict(), "n_partitions": n_partitions, "complete_only": complete_only}
    made_of = json.dumps({**source.made_of(), **facts}, sort_keys=True, ensure_ascii=False)
    with sole_writer(folder, LOCK):
        digest = hashlib.sha256(made_of.encode()).hexdigest()
        pass_ = Pass(source, split, n_partitions, folder, digest, max_memory, complete_only, answer_bytes)
        store = _standing(folder, digest) or pass_.whole()
    outline, options, record = outline or source.outline(), source.options, store.record
    report = ReadReport.from_list(record["report"])
    premises = records_premise(report, source.reader, source.schema) + outline.premises
    test = store.test if options.test is None else read_other(options.test, source.schema, options, report)
    note_labels(report, outline.name, record["labels"], sum(record["counts"]), declared=outline.classes is not None)
    test = drop_undeclared_test_labels(test, record["labels"], outline.classes, options.test or source.path, report)
    train = LabelledSamples(store.samples, np.zeros(0, object), outline.train.groups)
    return StoredDataset(outline.name, train, test, outline.classes, source.schema, premises, report, store=store)


def _standing(folder: Path, made_of: str) -> PartitionStore | None:
    """A store of the same data, if there is one and all its files are as they were written."""
    try:
        store = PartitionStore.open(folder)
    except (FileNotFoundError, DamagedFileError):
        return None
    files = store.record["files"]
    whole = all((folder / name).exists() and sha256_of(folder / name) == files[name] for name in files)
    return store if whole and store.record["of"] == made_of else None


class Pass:
    """One pass over a source, into a store."""

    def __init__(
        self,
        source: Source,
        split: Split,
        n_partitions: int,
        folder: Path,
        made_of: str,
        max_memory: int,
        complete_only: bool,
        answer_bytes: int,
    ) -> None:
        self.source, self.split, self.n_partitions = source, split, n_partitions
        self.folder, self.made_of, self.complete_only = folder, made_of, complete_only
        self.max_memory, self.answer_bytes = max_memory, answer_bytes
        self.buffer = min(LARGEST_BUFFER, max(SMALLEST_BUFFER, max_memory // SHARE_FOR_SPILL))
        self.expected = source.n_rows()
        self.needed = 0.0
        self.spills: list[Spill] = []
        self.files: dict[str, str] = {}
        self.report, self.aside, self.rows = ReadReport(), list[LabelledSamples](), folder / "rows-noted"
        self.labels: dict[str | None, int] = {}  # different ones, None for all that are no label, and their places
        self.counts, self.uses = Counter[int](), set[tuple[int, bytes]]()  # of each label, and whose they are
        self.sizes = np.zeros(n_partitions, np.int64)  # of partitions, with what is left out

    def whole(self) -> PartitionStore:
        """Read everything, and make the store of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for item in (item for pattern in OWN for item in self.folder.glob(pattern)):
            item.unlink()
        try:
            self._read()
            return self._sealed()
        except OSError as error:
            if error.errno not in FULL:
                raise
            need = f" of about {in_bytes(self.needed, up=True)} that they need" if self.needed else ""
            raise PoisonproofError(
                f"There is no space left for the partitions of {self.source.path} in {self.folder}{need}; make room, "
                "and say the same again.",
                code="disk.full",
            ) from error

    def _read(self) -> None:
        """Spill all training rows, and set aside those to test on."""
        source, waiting, waiting_bytes, test_bytes, done = self.source, list[LabelledSamples](), 0, 0, 0
        rows = max(1, CELLS_PER_CHUNK // max(1, len(source.schema.columns)))
        for part, _ in source.reader.batches(source.schema, labelled=True, report=self.report, rows=rows):
            test = np.zeros(len(part), np.bool_)
            if source.options.test is None:
                test = held_out(part.samples, share_of(source.options), groups=part.groups)
            train, here = part.take(np.flatnonzero(~test)), part.take(np.flatnonzero(test))
            done += len(part)
            if len(here):
                self.aside.append(here)
                test_bytes += size_of(here.samples)
                self._check_test(test_bytes, sum(map(len, self.aside)), done)
            if len(train):
                waiting.append(train)
                waiting_bytes += size_of(train.samples) + 24 * len(train)
                if not self.needed:
                    self._check_space(waiting_bytes / len(train))
            if waiting_bytes > self.buffer:
                self._spill(LabelledSamples.joined(waiting))
                waiting, waiting_bytes = [], 0
            if self.expected:
                progress(min(done, self.expected), self.expected)
        if waiting:
            self._spill(LabelledSamples.joined(waiting))

    def _spill(self, rows: LabelledSamples) -> None:
        """Write rows sorted by partition, and note of each what is said about all of them later."""
        cells, samples, noted = label_cells(rows.labels), rows.samples, np.zeros(len(rows), ROW)
        read = (None if cell is None else label for label, cell in zip(rows.labels.tolist(), cells, strict=True))
        noted["label"] = [self.labels.setdefault(label, len(self.labels)) for label in read]
        noted["partition"] = self.split.partitions(samples, self.n_partitions, cells, rows.groups)
        noted["x"], noted["y"], noted["complete"] = (
            samples.content_digests,
            label_digests(rows.labels),
            samples.complete(),
        )
        self.counts.update(noted["label"].tolist())
        self.sizes += np.bincount(noted["partition"], minlength=self.n_partitions)
        if rows.groups is not None:
            noted["group"] = label_digests(rows.groups)
            self.uses.update(zip(noted["label"].tolist(), map(bytes, noted["group"]), strict=True))
        with self.rows.open("ab") as file:
            file.write(noted.tobytes())
        order = np.argsort(noted["partition"], kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(noted["partition"], minlength=self.n_partitions))))
        arrays = {"hash": samples.content_hashes[order], "label": noted["label"][order], "starts": starts}
        self.spills.append(self._write(f"spill-{len(self.spills):05d}", packed(samples.subset(order)) | arrays))

    def _write(self, name: str, arrays: Arrays) -> Spill:
        spill = Spill(self.folder, name)
        for what, array in arrays.items():
            self._save(spill.path(what), array, lasting=False)
        return spill

    def _save(self, path: Path, array: NDArray[Any], *, lasting: bool = True) -> None:
        write_whole(path, lambda file: np.save(file, array, allow_pickle=False), lasting=lasting)
        self.files[path.name] = sha256_of(path)

    def _sealed(self) -> PartitionStore:
        """The record of the store: what was found, and the digests of partitions."""
        labels, counts = list(self.labels), [self.counts[place] for place in range(len(self.labels))]
        check_not_empty(self.source.path, range(sum(counts)), self.report)
        self._check_partitions()
        declared = self.source.options.classes
        classes = self._classes(labels, counts) if declared is None else None
        codes = read_labels(labels, declared, known=classes).codes
        facts = {"schema": self.source.schema.as_dict(), "codes": codes.tolist(), "complete_only": self.complete_only}
        if self.aside:
            test = LabelledSamples.joined(self.aside)
            self._write("test", {**packed(test.samples), **packed_texts(test.labels.tolist(), "label")})
        stored = PartitionStore(self.folder, {**facts, "spills": [spill.name for spill in self.spills]})
        sizes, lengths, contents = [], [], []
        for number in range(self.n_partitions):
            samples, codes_here, _ = part = stored.assembled(number)
            sizes.append(len(codes_here))
            lengths.append(size_of(samples) + 16 * len(codes_here))
            contents.append(content_of(part))
        digests, partition, n_incomplete = self._of_all_rows(codes, sum(counts))
        self._save(self.folder / PARTITION_OF_ROWS, partition)
        example = self.spills[0].part(0, 0, self.source.schema)
        record = {
            **stored.record,
            "format": FORMAT,
            "of": self.made_of,
            "kind": example.kind,
            "layout": example.layout,
            "n_features": example.n_features,
            "sizes": sizes,
            "bytes": lengths,
            "contents": contents,
            "files": self.files,
            "digests": digests,
            "labels": labels,
            "classes": classes,
            "counts": counts,
            "report": self.report.as_list(),
            "n_read": sum(counts),
            "n_incomplete": n_incomplete if self.complete_only else 0,
        }
        self.rows.unlink()
        write_record(self.folder / RECORD, record)
        return PartitionStore.open(self.folder)

    def _of_all_rows(self, codes: NDArray[np.int64], n_rows: int) -> tuple[dict[str, str], NDArray[np.int64], int]:
        """In the order of the data: what `sha256_of_array` gives of contents, labels and contributors, the partition of
        every row that base classifiers are fed, and how many rows have missing numbers."""
        names = {"x": "x_train", "y": "y_train"} | ({"group": "groups"} if self.source.grouped else {})
        digests = {name: hashlib.sha256(f"{np.dtype(DIGEST).str} {(n_rows,)} ".encode()) for name in names}
        partitions, n_incomplete = [], 0
        with self.rows.open("rb") as file:
            while len(rows := np.fromfile(file, ROW, CELLS_PER_CHUNK)):
                for name, digest in digests.items():
                    digest.update(rows[name].tobytes())
                stays = codes[rows["label"]] >= 0
                partitions.append(rows["partition"][stays & rows["complete"] if self.complete_only else stays])
                n_incomplete += int((~rows["complete"]).sum())
        return {names[name]: digests[name].hexdigest() for name in names}, np.concatenate(partitions), n_incomplete

    def _classes(self, labels: list[str | None], counts: list[int]) -> list[Any]:
        """The classes that are read off the labels: of most rows or, where there are contributors, of most of those."""
        if not self.source.grouped:
            return read_labels(labels, counts=counts).classes.tolist()
        nobody = bytes(label_digests([None])[0])
        units = [None if unit == nobody else unit for _, unit in self.uses]
        return read_labels([labels[place] for place, _ in self.uses], units=units).classes.tolist()

    def _check_partitions(self) -> None:
        """Refuse a bound in which the largest partition cannot be sorted, and say which one would do."""
        n_bytes = sum(path.stat().st_size for path in self.folder.glob("spill-*"))
        largest = int(n_bytes * self.sizes.max() / max(1, self.sizes.sum()))
        need = resident_bytes() + SORTED * largest
        if need > self.max_memory:
            raise PoisonproofError(
                f"--max-memory {in_bytes(self.max_memory, up=True)} is not enough: the largest of {self.n_partitions} "
                f"partitions holds {in_bytes(largest)}, and to sort it takes about {in_bytes(need, up=True)}; "
                "give at least that, or a larger k, which makes partitions smaller.",
                code="memory.too-small",
            )

    def _check_space(self, row_bytes: float) -> None:
        """Refuse a disk that cannot hold the partitions, as soon as the first rows tell how much they take."""
        self.needed = DISK * row_bytes * self.expected if self.expected else 0.0
        free = shutil.disk_usage(self.folder).free
        if self.needed > free:
            raise PoisonproofError(
                f"The partitions of {self.source.path} need about {in_bytes(self.needed, up=True)} in {self.folder}, "
                f"where {in_bytes(free)} are free; choose an --out on a larger disk.",
                code="disk.full",
            )

    def _check_test(self, test_bytes: float, n_test: int, done: int) -> None:
        """Refuse test samples that will not fit into their part of the memory, and say how many do."""
        total = max(done, self.expected or 0)
        most = self.max_memory / SHARE_FOR_TEST
        wanted = (test_bytes + n_test * self.answer_bytes) / done * total
        if wanted > most:
            share = share_of(self.source.options) * most / wanted
            raise PoisonproofError(
                f"About {n_test / done * total:.0f} samples of {self.source.path} would be held out to test on, and "
                f"take {in_bytes(wanted)} with their votes, more than a quarter of --max-memory "
                f"{in_bytes(self.max_memory)}; hold out less, --held-out {share:.1g}, or give --test.",
                code="memory.too-small",
            )


@dataclass(frozen=True, eq=False)
class PartitionStore:
    """A complete store, whose partitions have the digests that the record states.

    Attributes
    ----------
    folder : path
    record : dict
        What ``store.json`` says: ``sizes``, ``bytes`` and ``contents`` (a digest of all that base classifiers are fed)
        of each partition, ``files`` with their SHA-256, ``schema`` and ``layout`` of the samples, ``codes`` of labels
        by their place (-1 for those to leave out), whether samples with missing numbers are left out
        (``complete_only``), and what was found.
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

    @cached_property
    def schema(self) -> TableSchema:
        """How the samples were read, and so of what form they are."""
        schema = schema_from_dict(self.record["schema"])
        assert isinstance(schema, TableSchema)
        return schema

    @property
    def samples(self) -> StoredSamples:
        """All training samples, in the order of the store."""
        return StoredSamples(self)

    @property
    def test(self) -> LabelledSamples:
        """The samples that the pass held out."""
        spill = Spill(self.folder, "test")
        if not spill.path("label.ends").exists():
            return LabelledSamples(self._spills[0].part(0, 0, self.schema), np.zeros(0, object))
        labels = np.empty(len(spill["label.ends"]), object)
        labels[:] = spill.texts(range(len(labels)), "label")
        return LabelledSamples(spill.part(0, len(labels), self.schema), labels)

    @cached_property
    def _spills(self) -> list[Spill]:
        return [Spill(self.folder, name) for name in self.record["spills"]]

    def assembled(self, number: int) -> TrainingSet:
        """One partition out of all spills, in canonical order, less what base classifiers are not fed."""
        held = [(spill, *spill["starts"][number : number + 2].tolist()) for spill in self._spills]
        parts, labels = [], []
        for spill, start, stop in [one for one in held if one[1] < one[2]] or held[:1]:
            parts.append(spill.part(start, stop, self.schema))
            vars(parts[-1])["content_hashes"] = np.array(spill["hash"][start:stop])
            labels.append(spill["label"][start:stop])
        samples, codes = concat(parts), np.array(self.record["codes"], np.int64)[np.concatenate(labels)]
        stays = codes >= 0
        if self.record["complete_only"]:
            stays &= samples.complete()
        rows = np.flatnonzero(stays)
        return _in_order(samples.subset(rows), codes[rows])

    def partition(self, number: int) -> TrainingSet:
        """The samples of one partition; damage is told."""
        try:
            part = self.assembled(number)
        except FileNotFoundError as error:
            raise DamagedFileError(
                f"{error.filename} is missing here: the same command again makes it anew, and workers on other "
                "machines must see the folder of the run under the same name."
            ) from None
        except Exception as error:  # bytes that were changed may make anything raise
            raise self._damaged(number) from error
        if content_of(part) != self.record["contents"][number]:
            raise self._damaged(number)
        return part

    def _damaged(self, number: int) -> DamagedFileError:
        return DamagedFileError(
            f"{self.folder} is damaged: partition {number} is not what it was when it was written; the same command "
            "again makes it anew from the data."
        )


class Spill:
    """Rows on disk, sorted by partition: a few arrays, mapped when they are asked for."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._arrays: Arrays = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            self._arrays[name] = map_npy(self.path(name))
        return self._arrays[name]

    def path(self, array: str) -> Path:
        """The file of an array."""
        return self.folder / f"{self.name}.{array}.npy"

    def texts(self, places: Iterable[int], name: str = "texts") -> list[str]:
        """Those of these places."""
        ends, body = self[f"{name}.ends"], self[f"{name}.bytes"]
        return [bytes(body[ends[at - 1] if at else 0 : ends[at]]).decode() for at in places]

    def part(self, start: int, stop: int, schema: TableSchema) -> Samples:
        """The samples from and up to a place; what `packed` made of them."""
        n_numbers, n_columns = len(schema.named("number")), len(schema.named(*FEATURES))
        nothing = np.empty((stop - start, 0))  # whose file, of rows without cells, no reader opens
        numbers = np.array(self["numbers"][start:stop]) if n_numbers else nothing
        if n_numbers == n_columns:
            return NumberSamples(numbers)
        codes = self["codes"][start:stop]
        columns, plain, coded = [], iter(numbers.T), iter(codes.T)
        for name, role in schema.columns:
            if role == "number":
                columns.append(Column.of_numbers(name, np.ascontiguousarray(next(plain))))
            elif role in FEATURES:
                different, places = np.unique(next(coded), return_inverse=True)
                missing = int(len(different) > 0 and different[0] == MISSING)
                texts = self.texts(different[missing:].tolist())
                columns.append(Column.of_codes(name, places - missing, texts, categorical=role == "category"))
        return samples_of(schema, columns)


def packed(samples: Samples) -> Arrays:
    """Samples as arrays without Python objects: numbers, and places of texts, each of which is written once."""
    numbers, codes, texts = list[NDArray[Any]](), list[NDArray[Any]](), list[str]()
    if isinstance(samples, NumberSamples):
        numbers = list(samples.values.T)
    elif isinstance(samples, TextSamples):
        texts, codes = samples.texts.tolist(), [np.arange(len(samples))]
    else:
        assert isinstance(samples, TableSamples)
        for column in samples.columns:
            if column.codes is None:
                numbers.append(column.values)
                continue
            present, places = np.unique(column.codes, return_inverse=True)
            missing = int(len(present) > 0 and present[0] == MISSING)
            codes.append(np.where(places < missing, MISSING, places - missing + len(texts)))
            texts += column.cells.values[present[missing:]].tolist()
    tables = {"numbers": (numbers, np.float64), "codes": (codes, np.int32)}
    arrays = {name: np.empty((len(samples), len(columns)), dtype) for name, (columns, dtype) in tables.items()}
    for name, (columns, _) in tables.items():
        for at, column_of in enumerate(columns):
            arrays[name][:, at] = column_of
    return arrays | packed_texts(texts)


def packed_texts(texts: Sequence[str], name: str = "texts") -> Arrays:
    """Texts as one string of bytes and where each of them ends."""
    pieces = [utf8(text) for text in texts]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(pieces), np.uint8), f"{name}.ends": ends}


def size_of(samples: Samples) -> int:
    """How many bytes samples take, as files keep them."""
    return sum(array.nbytes for array in packed(samples).values())


def content_of(part: TrainingSet) -> str:
    """The digest of all that base classifiers are fed of a partition."""
    return partition_digest(part.codes, part.samples.keys(part.rows)).hex()


def _in_order(samples: Samples, codes: NDArray[np.int64]) -> TrainingSet:
    """Samples in the order that they have in memory, with the codes of their labels."""
    order = np.argsort(canonical_rank(samples, codes))
    return TrainingSet(samples.subset(order), codes[order], np.arange(len(codes)))


@lru_cache(maxsize=1)
def _samples_in(folder: str, digest: str, most_bytes: int) -> StoredSamples:
    """What a worker makes of the name of a folder; all its tasks on one store share the partitions that it keeps."""
    store = PartitionStore.open(Path(folder))
    if store.record["digest"] != digest:
        raise PoisonproofError(
            f"{folder} holds other partitions than those that work was begun with; begin again.",
            code="partitions.other",
        )
    return StoredSamples(store, most_bytes)


class StoredSamples(Samples):
    """Training samples in a store: partition after partition, and in each of them in canonical order.

    Whoever asks for rows is given these rows from the files that hold them. Of the partitions that were read,
    ``most_bytes`` at most stay in memory: those that were read first, for base classifiers go through all partitions in
    turns, so the one that was used longest ago is as likely as any other to be the next.
    """

    def __init__(self, store: PartitionStore, most_bytes: int = 0) -> None:
        self.store, self.most_bytes, self.kept_bytes = store, most_bytes, 0
        self.kind, self.n_features = store.record["kind"], store.record["n_features"]
        self.kept: dict[int, TrainingSet] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _samples_in, (str(self.store.folder.absolute()), self.store.record["digest"], self.most_bytes)

    def __len__(self) -> int:
        return int(self.store.sizes.sum())

    @property
    def n_bytes(self) -> int:
        """What the record of the store takes, which travels; the samples themselves are on disk."""
        return 200 * len(self.store)

    @property
    def layout(self) -> str:
        """What all samples have in common."""
        return str(self.store.record["layout"])

    def partition(self, number: int) -> TrainingSet:
        """The samples of one partition, which nobody may change, with the codes of their labels."""
        if (known := self.kept.get(number)) is not None:
            return known
        part = self.store.partition(number)
        size = bytes_of(part) if self.kept_bytes < self.most_bytes else 0
        with self._lock:
            if number not in self.kept and 0 < size <= self.most_bytes - self.kept_bytes:
                self.kept[number] = part
                self.kept_bytes += size
        return part

    def of_partitions(self, numbers: Iterable[int]) -> TrainingSet:
        """The samples of these partitions together, in canonical order, with the codes of their labels."""
        parts = [self.partition(int(j)) for j in numbers]
        return _in_order(concat([part.samples for part in parts]), np.concatenate([part.codes for part in parts]))

    def subset(self, rows: ArrayLike) -> Samples:
        """These samples in memory, from the partitions that hold them."""
        rows = np.asarray(rows, np.int64)
        starts = np.concatenate(([0], np.cumsum(self.store.sizes)))
        inside = np.searchsorted(starts, rows, side="right") - 1
        held = np.unique(inside) if len(rows) else [0]
        parts = [self.partition(int(j)).samples.subset(rows[inside == j] - starts[j]) for j in held]
        return concat(parts).subset(np.argsort(np.argsort(inside, kind="stable"), kind="stable"))

    def hashes(self, seed: int = 0) -> NDArray[np.uint64]:
        """Of all samples, partition by partition."""
        parts = (self.partition(j).samples for j in range(len(self.store)))
        return np.concatenate([part.hashes(seed) if seed else part.content_hashes for part in parts])

    def key(self, row: int) -> bytes:
        """The whole content of one sample."""
        return self.subset([row]).key(0)

    def take(self, rows: ArrayLike, form: Any = None) -> Any:
        """These samples as a base classifier is fed them."""
        samples = self.subset(rows)
        return samples.take(np.arange(len(samples)), form)


def bytes_of(part: TrainingSet) -> int:
    """How much memory a partition takes, from above."""
    samples = part.samples
    return samples.n_bytes + part.codes.nbytes + samples.content_hashes.nbytes + OF_A_COLUMN * samples.n_features


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
        return map_npy(self.store.folder / PARTITION_OF_ROWS)

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
