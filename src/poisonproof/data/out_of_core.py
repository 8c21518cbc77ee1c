"""Training data larger than memory: one pass spills rows sorted by partition, and the spills are the store.

The pass reads a bounded number of cells at a time. A row is read, held out and sent to its partition by the same
functions as in memory, and each of them looks at that row alone, so the result is the same data set: same digests, same
partitions, same order inside a subset. What is held in memory is the chunk at hand, the rows that wait to be spilled,
and the test samples. A pass that is killed begins again: there is a store once its record is written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
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
from poisonproof.data.store import (
    FORMAT,
    RECORD,
    PartitionStore,
    Spill,
    StoredSamples,
    assembled,
    content_of,
    empty_of,
    form_of_pack,
    packed,
    packed_texts,
    rows_file,
)
from poisonproof.display import in_bytes
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.samples.kinds import Samples, TextSamples
from poisonproof.samples.labels import class_array, label_cells, label_digests, read_labels
from poisonproof.samples.schema import FEATURES, TableSchema
from poisonproof.system.files import (
    FULL,
    sha256_of,
    sha256_of_array,
    sole_writer,
    write_record,
    write_whole,
)
from poisonproof.system.machine import resident_bytes
from poisonproof.system.progress import progress

LOCK = "store.lock"
ANY_SIZE = 1 << 60
FIRST_BYTES = 1 << 20
CELLS_PER_CHUNK = 1 << 19
SHARE_FOR_TEST = 4  # of the bound, one part for the test samples
SHARE_FOR_SPILL = 16  # what is spilled is there several times while it is joined and sorted
SMALLEST_BUFFER, LARGEST_BUFFER = 1 << 22, 1 << 30
SORTED = 6  # of a partition: as it is read, joined, in order, and as it is fed
DISK = 1.25
OWN = (RECORD, "rows-*", "spill-*", "test.*")
OF_EVERY_ROW = {"x-content": "x_train", "y-content": "y_train", "groups-content": "groups"}  # and where it is digested


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
                f"{path} holds {kind}; only tables (CSV, Parquet, a folder of Parquet files) may be larger than memory."
            )
        unbounded = replace(options, most_bytes=_allowed(path, options))
        reader, schema = open_with_schema(path, unbounded, ReadReport())
        assert isinstance(reader, TableSource)
        assert isinstance(schema, TableSchema)
        if not schema.named(*FEATURES):
            raise PoisonproofError(
                f"No column of {path} is a number, a category or a text; there is nothing to learn from."
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
        premises = schema_premises(self.schema, self.options, grouped=self.grouped)
        return Dataset(
            self.path.name,
            empty,
            empty,
            None if self.options.classes is None else class_array(self.options.classes),
            schema=self.schema,
            premises=premises,
        )

    @cached_property
    def files(self) -> list[list[str]]:
        """Names and SHA-256 of the files."""
        return [[file.name, sha256_of(file)] for file in table_files(self.path)]

    def made_of(self) -> dict[str, Any]:
        """What the rows are a function of: files by name and content, and how to read them."""
        test = self.options.test
        return {
            "files": self.files,
            "schema": self.schema.as_dict(),
            "held_out": None if test is not None else share_of(self.options),
            "classes": None if self.options.classes is None else list(self.options.classes),
        }

    def n_rows(self) -> int | None:
        """About how many rows there are, if the files say so or their first lines do."""
        counts = [_rows_in(file) for file in table_files(self.path)]
        return None if None in counts else sum(count for count in counts if count is not None)


def _allowed(path: Path, options: ReadOptions) -> int:
    """How many bytes may be read: any number that is there, and of compressed files a bounded multiple."""
    if options.most_bytes is not None:
        return options.most_bytes
    if is_gzip(path):
        return max(FREE_EXPANSION, MOST_EXPANSION * path.stat().st_size)
    return ANY_SIZE


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
            known |= {
                "x_test": sha256_of_array(self.test.samples.content_digests),
                "y_test": sha256_of_array(label_digests(self.test.labels)),
            }
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
    made_of = _identity(source, split, n_partitions, complete_only)
    with sole_writer(folder, LOCK):
        pass_ = Pass(source, split, n_partitions, folder, made_of, max_memory, complete_only, answer_bytes)
        store = _standing(folder, made_of) or pass_.whole()
    return _dataset(source, outline or source.outline(), store)


def _identity(source: Source, split: Split, n_partitions: int, complete_only: bool) -> str:
    """What partitions are made of."""
    facts = {"format": FORMAT, "split": split.as_dict(), "n_partitions": n_partitions, "complete_only": complete_only}
    return hashlib.sha256(
        json.dumps({**source.made_of(), **facts}, sort_keys=True, ensure_ascii=False).encode()
    ).hexdigest()


def _standing(folder: Path, made_of: str) -> PartitionStore | None:
    """A store of the same data, if there is one and all its files are as they were written."""
    try:
        store = PartitionStore.open(folder)
    except (FileNotFoundError, DamagedFileError):
        return None
    files = store.record["files"]
    whole = all((folder / name).exists() and sha256_of(folder / name) == files[name] for name in files)
    return store if whole and store.record["of"] == made_of else None


def _dataset(source: Source, outline: Dataset, store: PartitionStore) -> StoredDataset:
    """The data set of a store, with its test samples in memory."""
    options, record = source.options, store.record
    report = ReadReport.from_list(record["report"])
    premises = records_premise(report, source.reader, source.schema) + outline.premises
    test = _test_of(store) if options.test is None else read_other(options.test, source.schema, options, report)
    note_labels(report, outline.name, record["labels"], sum(record["counts"]), declared=outline.classes is not None)
    test = drop_undeclared_test_labels(test, record["labels"], outline.classes, options.test or source.path, report)
    train = LabelledSamples(StoredSamples(store), np.zeros(0, object), outline.train.groups)
    return StoredDataset(outline.name, train, test, outline.classes, source.schema, premises, report, store=store)


def _test_of(store: PartitionStore) -> LabelledSamples:
    """The samples that the pass held out."""
    form = store.record["form"]
    if "test" not in store.record["spills_besides"]:
        return LabelledSamples(empty_of(form), np.zeros(0, object))
    spill = Spill(store.folder, "test")
    labels, ends, body = np.empty(len(spill["label.ends"]), object), spill["label.ends"], spill["label.bytes"]
    starts = [0, *ends.tolist()]
    labels[:] = [bytes(body[start:stop]).decode() for start, stop in zip(starts, ends.tolist(), strict=False)]
    return LabelledSamples(spill.part(0, len(labels), form), labels)


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

    def whole(self) -> PartitionStore:
        """Read everything, and make the store of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for item in (item for pattern in OWN for item in self.folder.glob(pattern)):
            item.unlink()
        with self._space_told():
            return self._sealed(*self._read())

    def _read(self) -> tuple[ReadReport, list[str | None], dict[str, Any], list[LabelledSamples]]:
        """What reading reported, the different labels, the form of samples, and those held out."""
        report, places, form = ReadReport(), dict[str | None, int](), dict[str, Any]()
        waiting, waiting_bytes, aside, test_bytes, done = list[LabelledSamples](), 0, list[LabelledSamples](), 0, 0
        rows = max(1, CELLS_PER_CHUNK // max(1, len(self.source.schema.columns)))
        for part, _ in self.source.reader.batches(self.source.schema, labelled=True, report=report, rows=rows):
            form = form_of_pack(part.samples)
            test = self._held_out(part)
            train, here = part.take(np.flatnonzero(~test)), part.take(np.flatnonzero(test))
            done += len(part)
            if len(here):
                aside.append(here)
                test_bytes += size_of(here.samples)
                self._check_test(test_bytes, sum(map(len, aside)), done)
            if len(train):
                waiting.append(train)
                waiting_bytes += size_of(train.samples) + 24 * len(train)
                if not self.needed:
                    self._check_space(waiting_bytes / len(train))
            if waiting_bytes > self.buffer:
                self._spill(LabelledSamples.joined(waiting), places)
                waiting, waiting_bytes = [], 0
            if self.expected:
                progress(min(done, self.expected), self.expected)
        if waiting:
            self._spill(LabelledSamples.joined(waiting), places)
        return report, list(places), form, aside

    def _held_out(self, part: LabelledSamples) -> NDArray[np.bool_]:
        if self.source.options.test is not None:
            return np.zeros(len(part), np.bool_)
        return held_out(part.samples, share_of(self.source.options), groups=part.groups)

    def _spill(self, rows: LabelledSamples, places: dict[str | None, int]) -> None:
        """Write rows sorted by partition; ``places`` gets labels that nobody had, None for all that are no label."""
        cells, samples = label_cells(rows.labels), rows.samples
        partition = self.split.partitions(samples, self.n_partitions, cells, rows.groups)
        read = (None if cell is None else label for label, cell in zip(rows.labels.tolist(), cells, strict=True))
        labels = np.fromiter((places.setdefault(label, len(places)) for label in read), np.int32, len(rows))
        order = np.argsort(partition, kind="stable")
        about = {
            "x-content": samples.content_digests,
            "y-content": label_digests(rows.labels),
            **({} if rows.groups is None else {"groups-content": label_digests(rows.groups)}),
            "complete": samples.complete(),
        }
        sorted_by_partition = {
            **packed(samples.subset(order)),
            "hash": samples.content_hashes[order],
            "label": labels[order],
            "starts": np.searchsorted(partition[order], np.arange(self.n_partitions + 1)),
            "row": order,
        }
        name = f"spill-{len(self.spills):05d}"
        self.spills.append(self._write(name, {**sorted_by_partition, **about}))

    def _write(self, name: str, arrays: dict[str, NDArray[Any]]) -> Spill:
        spill = Spill(self.folder, name)
        for what, array in arrays.items():
            path = spill.path(what)
            write_whole(path, lambda file, array=array: np.save(file, array, allow_pickle=False), lasting=False)  # type: ignore[misc]
            if what not in OF_EVERY_ROW:
                self.files[path.name] = sha256_of(path)
        return spill

    def _sealed(
        self, report: ReadReport, labels: list[str | None], form: dict[str, Any], aside: list[LabelledSamples]
    ) -> PartitionStore:
        """The record of the store: what was found, and the digests of partitions."""
        declared, counts = self.source.options.classes, np.zeros(len(labels), np.int64)
        for spill in self.spills:
            counts += np.bincount(spill["label"], minlength=len(counts))
        check_not_empty(self.source.path, range(int(counts.sum())), report)
        self._check_partitions(form)
        classes = self._classes(labels, counts) if declared is None else None
        codes = read_labels(labels, declared, known=classes).codes
        facts = {"form": form, "codes": codes.tolist(), "complete_only": self.complete_only}
        if aside:
            test = LabelledSamples.joined(aside)
            self._write("test", {**packed(test.samples), **packed_texts(test.labels.tolist(), "label")})
        sizes, lengths, contents = [], [], []
        for number in range(self.n_partitions):
            portion = assembled(self.spills, number, facts)
            sizes.append(len(portion.codes))
            lengths.append(size_of(portion.samples) + 16 * len(portion.codes))
            contents.append(content_of(portion))
        digests = {digest: self._digest(name) for name, digest in OF_EVERY_ROW.items() if self._is_known(name)}
        partition = self._partition_of_rows(codes)
        path = self.folder / rows_file("partition")
        write_whole(path, lambda file: np.save(file, partition))
        self.files[path.name] = sha256_of(path)
        example = empty_of(form)
        incomplete = sum(int((~spill["complete"]).sum()) for spill in self.spills) if self.complete_only else 0
        record = {
            "format": FORMAT,
            "of": self.made_of,
            **facts,
            "layout": example.layout,
            "n_features": example.n_features,
            "sizes": sizes,
            "bytes": lengths,
            "contents": contents,
            "files": self.files,
            "spills": [spill.name for spill in self.spills],
            "spills_besides": ["test"] if aside else [],
            "digests": digests,
            "labels": labels,
            "classes": classes,
            "counts": counts.tolist(),
            "report": report.as_list(),
            "n_read": int(counts.sum()),
            "n_incomplete": incomplete,
        }
        write_record(self.folder / RECORD, record)
        for spill in self.spills:
            for name in OF_EVERY_ROW:
                spill.path(name).unlink(missing_ok=True)
        return PartitionStore.open(self.folder)

    def _is_known(self, name: str) -> bool:
        return bool(self.spills) and self.spills[0].path(name).exists()

    def _digest(self, name: str) -> str:
        """What `sha256_of_array` gives of something about all rows, in the order of the data."""
        digest = hashlib.sha256(f"{self.spills[0][name].dtype.str} {(sum(map(len, self.spills)),)} ".encode())
        for spill in self.spills:
            digest.update(np.ascontiguousarray(spill[name]).view(np.uint8).data)
        return digest.hexdigest()

    def _partition_of_rows(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The partition of every row that base classifiers are fed, in the order of the data."""
        pieces = [np.zeros(0, np.int64)]
        for spill in self.spills:
            partition, stays = np.empty(len(spill), np.int64), np.empty(len(spill), np.bool_)
            partition[spill["row"]] = np.repeat(np.arange(self.n_partitions), np.diff(spill["starts"]))
            stays[spill["row"]] = codes[spill["label"]] >= 0
            pieces.append(partition[stays & spill["complete"]] if self.complete_only else partition[stays])
        return np.concatenate(pieces)

    def _classes(self, labels: list[str | None], counts: NDArray[np.int64]) -> list[Any]:
        """The classes that are read off the labels: of most rows or, where there are contributors, of most of those."""
        if not self._is_known("groups-content"):
            return read_labels(labels, counts=counts.tolist()).classes.tolist()
        uses: set[tuple[int, bytes]] = set()
        for spill in self.spills:
            groups = spill["groups-content"][spill["row"]]
            uses.update(zip(spill["label"].tolist(), map(bytes, groups), strict=True))
        nobody = bytes(label_digests([None])[0])
        units = [None if unit == nobody else unit for _, unit in uses]
        return read_labels([labels[place] for place, _ in uses], units=units).classes.tolist()

    def _check_partitions(self, form: dict[str, Any]) -> None:
        """Refuse a bound in which the largest partition cannot be sorted, and say which one would do."""
        rows = np.zeros(self.n_partitions, np.int64)
        for spill in self.spills:
            rows += np.diff(spill["starts"])
        n_bytes = sum(path.stat().st_size for path in self.folder.glob("spill-*"))
        largest = int(n_bytes * rows.max() / max(1, rows.sum()))
        need = resident_bytes() + SORTED * largest
        if need > self.max_memory:
            raise PoisonproofError(
                f"--max-memory {in_bytes(self.max_memory, up=True)} is not enough: the largest of {self.n_partitions} "
                f"partitions holds {in_bytes(largest)}, and to sort it takes about {in_bytes(need, up=True)}; "
                "give at least that, or a larger k, which makes partitions smaller."
            )

    def _check_space(self, row_bytes: float) -> None:
        """Refuse a disk that cannot hold the partitions, as soon as the first rows tell how much they take."""
        self.needed = DISK * row_bytes * self.expected if self.expected else 0.0
        free = shutil.disk_usage(self.folder).free
        if self.needed > free:
            raise PoisonproofError(
                f"The partitions of {self.source.path} need about {in_bytes(self.needed, up=True)} in {self.folder}, "
                f"where {in_bytes(free)} are free; choose an --out on a larger disk."
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
                f"{in_bytes(self.max_memory)}; hold out less, --held-out {share:.1g}, or give --test."
            )

    @contextmanager
    def _space_told(self) -> Iterator[None]:
        """A disk that is full in the middle is told of with what is needed."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            need = f" of about {in_bytes(self.needed, up=True)} that they need" if self.needed else ""
            raise PoisonproofError(
                f"There is no space left for the partitions of {self.source.path} in {self.folder}{need}; make room, "
                "and say the same again."
            ) from error


def size_of(samples: Samples) -> int:
    """How many bytes samples take, as files keep them."""
    return sum(array.nbytes for array in packed(samples).values())
