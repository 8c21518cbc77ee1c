"""Training data larger than memory: one pass over the files sorts their rows into partitions on disk.

The pass reads a bounded number of cells at a time. A row is read, held out and sent to its partition by the same
functions as in memory, and each of them looks at that row alone, so the result is the same data set: same digests, same
partitions, same order inside a subset. What is held in memory is the chunk at hand, the rows that wait to be spilled,
and the test samples; 24 bytes of every training row (hash, label, partition) lie in files that are mapped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from poisonproof.data.dataset import Dataset, held_out
from poisonproof.data.options import ReadOptions
from poisonproof.data.readers.lines import FREE_EXPANSION, MOST_EXPANSION
from poisonproof.data.readers.part import Part, texts
from poisonproof.data.readers.several import Notes, Position, check_columns, chunks_of
from poisonproof.data.readers.tables import Table
from poisonproof.data.user_files import (
    check_labels,
    held_out_premise,
    judged_test,
    kind_of,
    labels_of,
    more_premises,
    open_table,
    read_part,
    schema_for,
    share_of,
    table_files,
)
from poisonproof.display.numbers import in_bytes
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.partition.split import Split
from poisonproof.partition.store import PartitionStore, StoredSamples
from poisonproof.partition.store_writing import (
    LARGEST_BUFFER,
    ROWS,
    SMALLEST_BUFFER,
    TEST,
    Incoming,
    Sealing,
    Spiller,
    emptied,
    identity_of,
    seal,
    size_of,
)
from poisonproof.premises import Premise
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.kinds import Samples, to_samples
from poisonproof.samples.labels import label_cells, read_labels
from poisonproof.samples.packed import form_of_pack, joined, packed, packed_texts, unpacked, unpacked_texts
from poisonproof.samples.schema import FEATURES, TableSchema
from poisonproof.system.files import FULL, open_arrays, sha256_of, sha256_of_array, sweep, write_arrays
from poisonproof.system.memory import resident_bytes
from poisonproof.system.progress import progress

MOST_LABELS = 1 << 16
SHARE_FOR_TEST = 4  # of the bound, one part for the test samples
SHARE_FOR_SPILL = 8
SORTED = 6  # of a partition: as it is read, joined, in order, and as it is written
DISK = 2.5  # spills and partitions are there at the same time
LOCK = "store.lock"
ANY_SIZE = 1 << 60
FIRST_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """Files that are to be read in a pass: how, and what was decided about all rows at once."""

    path: Path
    options: ReadOptions
    schema: TableSchema
    declared: bool
    tables: tuple[Table, ...]

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Source:
        """The tables of a file or a folder; nothing but their headers, and what a schema is guessed from, is read."""
        if options.test is not None and options.held_out is not None:
            raise PoisonproofError("Give --test or --held-out, not both.")
        kind = kind_of(path)
        unbounded = replace(options, most_bytes=_allowed(path, options))
        schema, declared = schema_for(path, kind, unbounded)
        if not isinstance(schema, TableSchema):
            raise PoisonproofError(
                f"{path} holds {kind}; only tables (CSV, Parquet, a folder of Parquet files) may be larger than memory."
            )
        if not schema.named(*FEATURES):
            raise PoisonproofError(
                f"No column of {path} is a number, a category or a text; there is nothing to learn from."
            )
        tables = tuple(open_table(file, schema, unbounded) for file in table_files(path))
        check_columns(tables, schema)
        return cls(path, options, schema, declared, tables)

    @property
    def grouped(self) -> bool:
        """Whether rows have contributors."""
        return self.schema.group is not None

    def outline(self) -> Dataset:
        """A data set without samples: what there is to know before the pass."""
        nobody = np.zeros(0, object)
        premises = (
            Premise("schema", str(self.schema), self.declared),
            held_out_premise(self.options, False, self.grouped),
            *more_premises(self.schema, self.declared),
        )
        return Dataset(
            self.path.name,
            nobody,
            nobody,
            nobody,
            nobody,
            None if self.options.classes is None else np.array(list(self.options.classes), object),
            groups=nobody if self.grouped else None,
            schema=self.schema,
            premises=premises,
        )

    def made_of(self) -> dict[str, Any]:
        """What the rows are a function of, without reading them: files by name, size and time, and how to read them."""
        files = [[table.path.name, table.path.stat().st_size, table.path.stat().st_mtime_ns] for table in self.tables]
        test = self.options.test
        return {
            "files": files,
            "schema": self.schema.as_dict(),
            "held_out": None if test is not None else share_of(self.options),
            "classes": None if self.options.classes is None else list(self.options.classes),
        }

    def n_rows(self) -> int | None:
        """About how many rows there are, if the files say so or their first lines do."""
        counts = [_rows_in(table) for table in self.tables]
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True)
class StoredDataset(Dataset):
    """A data set whose training samples lie in a partition store; the test samples are in memory."""

    store: PartitionStore | None = None

    @property
    def stored(self) -> PartitionStore:
        """The store, which is always there."""
        assert self.store is not None
        return self.store

    @cached_property
    def train(self) -> Samples:
        """The training samples, in the order of the store."""
        return StoredSamples(self.stored)

    def samples_for(self, part: str, split: Split) -> Samples:
        """A part, as the pass read it; no other way of reading can be had of it."""
        if split.schema is not None or (split.dtype, split.n_features) != (self.dtype, self.n_features):
            raise PoisonproofError("Partitions on disk are read as they were written; leave 'split' as it was.")
        samples: Samples = getattr(self, part)
        return samples

    def digests(self, parts: Sequence[str] = ("train", "test")) -> dict[str, str]:
        """The same as in memory: of all rows, in the order of the files."""
        names = {"x": "x_train", "y": "y_train", "groups": "groups"}
        known = {names[name]: digest for name, digest in self.stored.record["digests"].items()}
        if "test" in parts:
            known |= {
                "x_test": sha256_of_array(self.test.content_hashes),
                "y_test": sha256_of_array(cell_codes(label_cells(self.y_test))),
            }
        wanted = [f"{letter}_{part}" for letter in "xy" for part in parts]
        return {name: known[name] for name in (*wanted, *(["groups"] if "groups" in known else []))}

    def without(self, rows: Any) -> Dataset:
        """Refused: the files are where rows are removed."""
        raise PoisonproofError("Rows of a data set on disk are removed from its files; then partitions are made anew.")


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
    made_of = identity_of(
        {**source.made_of(), "split": split.as_dict(), "n_partitions": n_partitions, "complete_only": complete_only}
    )
    with _only_writer(folder):
        emptied(folder, made_of)
        pass_ = Pass(source, split, n_partitions, folder, made_of, max_memory, complete_only, answer_bytes)
        store = _standing(folder, made_of)
        if store is None:
            store = pass_.whole()
        elif damaged := store.damaged():
            store = pass_.mended(store, damaged)
    return _dataset(source, outline or source.outline(), store)


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

    def whole(self) -> PartitionStore:
        """Read everything, and make the store of it."""
        spiller = Spiller(self.folder, self.made_of, self.buffer)
        with self._space_told():
            self._read(spiller)
            return self._sealed(spiller)

    def mended(self, store: PartitionStore, damaged: Sequence[int]) -> PartitionStore:
        """Read everything again, but make only the partitions anew whose files were damaged."""
        mending = Spiller(self.folder, f"{self.made_of} {damaged}", self.buffer, damaged)
        with self._space_told():
            self._read(mending)
            for number in damaged:
                (self.folder / f"partition-{number:05d}.npz").unlink(missing_ok=True)
            mended = self._sealed(mending)
        if mended.record["contents"] != store.record["contents"]:
            raise DamagedFileError(
                f"{self.source.path} is not what the partitions in {self.folder} were made of; remove that folder, and "
                "the same command makes it anew."
            )
        return mended

    def _read(self, spiller: Spiller) -> None:
        """Read on from the last spill to the end."""
        facts = spiller.facts
        if facts.get("ended"):
            return
        notes, labels, form = Notes(facts.get("notes")), list(facts.get("labels", ())), facts.get("form")
        places = {label: place for place, label in enumerate(labels)}
        n_test, test_bytes, done = facts.get("n_test", 0), facts.get("test_bytes", 0), facts.get("done", 0)
        aside: list[tuple[Samples, list[str]]] = []
        position = Position(*facts.get("position", ()))

        def so_far(ended: bool) -> dict[str, Any]:
            return {
                "position": list(position),
                "notes": notes.said,
                "labels": labels,
                "n_test": n_test,
                "test_bytes": test_bytes,
                "done": done,
                "form": form,
                "ended": ended,
            }

        for chunk in chunks_of(self.source.tables, self.source.schema, position, notes):
            part, position = chunk
            if len(part):
                samples = to_samples(part.X) if part.samples is None else part.samples
                form = form_of_pack(samples)
                test = self._held_out(samples, part.groups)
                train = np.flatnonzero(~test)
                here = np.flatnonzero(test)
                if len(here):
                    aside.append((samples.subset(here), labels_of(part)[here].tolist()))
                    n_test += len(here)
                    test_bytes += size_of(aside[-1][0])
                for label in labels_of(part)[train].tolist():
                    if label not in places:
                        places[label] = len(labels)
                        labels.append(label)
                self._check_labels(labels)
                full = spiller.add(self._incoming(samples, part, train, places))
                done += len(part)
                if not self.needed:
                    self._check_space(spiller.bytes / max(1, len(train)))
                self._check_test(test_bytes, n_test, done)
                if full:
                    spiller.spill(so_far(False), _test_set(aside))
                    aside = []
                if self.expected:
                    progress(min(done, self.expected), self.expected)
        spiller.spill(so_far(True), _test_set(aside))

    def _held_out(self, samples: Samples, groups: Any) -> NDArray[np.bool_]:
        if self.source.options.test is not None:
            return np.zeros(len(samples), np.bool_)
        return held_out(samples, share_of(self.source.options), groups=groups)

    def _incoming(self, samples: Samples, part: Any, rows: NDArray[np.int64], places: dict[str, int]) -> Incoming:
        own = samples.subset(rows)
        labels = labels_of(part)[rows]
        groups = None if part.groups is None else part.groups[rows]
        cells = label_cells(labels)
        about = {
            "x": own.content_hashes,
            "y": cell_codes(cells),
            "complete": own.complete(),
            **({} if groups is None else {"groups": cell_codes(label_cells(groups))}),
        }
        partition = self.split.partitions(own, self.n_partitions, cells, groups)
        codes = np.fromiter((places[label] for label in labels.tolist()), np.int64, len(labels))
        return Incoming(own, codes, partition, about)

    def _sealed(self, spiller: Spiller) -> PartitionStore:
        """Partitions, test samples, and what the pass found."""
        facts, declared = spiller.facts, self.source.options.classes
        labels, counts = facts["labels"], self._counts(spiller)
        self._check_partitions(spiller)
        check_labels(self.source.path, labels, int(counts.sum()), declared is not None)
        codes = read_labels(labels, declared).codes
        sealing = Sealing(codes, self.complete_only, facts["form"])
        tests = [arrays for spill in spiller.spills if (arrays := spill.read(TEST)) is not None]
        if tests:
            samples = joined([unpacked(sealing.form, arrays) for arrays in tests])
            texts = [text for arrays in tests for text in unpacked_texts(arrays, "label")]
            arrays = {**packed(samples), **packed_texts(texts, "label")}
            write_arrays(self.folder / f"{TEST}.npz", arrays, {"of": self.made_of, "form": sealing.form})
        incomplete = sum(
            int((~arrays["complete"]).sum()) for spill in spiller.spills if (arrays := spill.read(ROWS)) is not None
        )
        found = {
            "labels": labels,
            "counts": counts.tolist(),
            "notes": facts["notes"],
            "n_read": spiller.n_rows,
            "n_incomplete": incomplete if self.complete_only else 0,
        }
        return seal(spiller, sealing, self.n_partitions, self.made_of, found)

    def _counts(self, spiller: Spiller) -> NDArray[np.int64]:
        """How many training rows have each label."""
        counts = np.zeros(len(spiller.facts["labels"]), np.int64)
        for spill in spiller.spills:
            if (arrays := spill.read(ROWS)) is not None:
                counts += np.bincount(arrays["label"], minlength=len(counts))
        return counts

    def _check_partitions(self, spiller: Spiller) -> None:
        """Refuse a bound in which the largest partition cannot be sorted, and say which one would do."""
        lengths = np.zeros(self.n_partitions, np.int64)
        for spill in spiller.spills:
            for name, (_, length, _) in spill.places.items():
                if name.isdigit():
                    lengths[int(name)] += length
        need = resident_bytes() + SORTED * int(lengths.max())
        if need > self.max_memory:
            raise PoisonproofError(
                f"--max-memory {in_bytes(self.max_memory, up=True)} is not enough: the largest of {self.n_partitions} "
                f"partitions holds {in_bytes(lengths.max())}, and to sort it takes about {in_bytes(need, up=True)}; "
                "give at least that, or a larger k, which makes partitions smaller."
            )

    def _check_labels(self, labels: Sequence[str]) -> None:
        if len(labels) > MOST_LABELS:
            raise PoisonproofError(
                f"The training samples of {self.source.path} have more than {MOST_LABELS} different labels, such as "
                f"'{labels[0]}'; a label must name a class, so is this the right column?"
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
                "and the same command goes on."
            ) from error


def _test_set(aside: Sequence[tuple[Samples, list[str]]]) -> list[tuple[str, dict[str, NDArray[Any]]]]:
    """Test samples that came in since the last spill, as a set of arrays."""
    if not aside:
        return []
    labels = [label for _, own in aside for label in own]
    return [(TEST, {**packed(joined([samples for samples, _ in aside])), **packed_texts(labels, "label")})]


def _standing(folder: Path, made_of: str) -> PartitionStore | None:
    """A store of the same data, if there is one and all but its partitions is as it was written."""
    try:
        store = PartitionStore.open(folder)
    except (FileNotFoundError, DamagedFileError):
        return None
    others = [name for name in store.record["files"] if not name.startswith("partition-")]
    whole = all((folder / name).exists() and sha256_of(folder / name) == store.record["files"][name] for name in others)
    return store if whole and store.record["of"] == made_of else None


def _dataset(source: Source, outline: Dataset, store: PartitionStore) -> StoredDataset:
    """The data set of a store, with its test samples in memory."""
    options, record = source.options, store.record
    notes = Notes(record["notes"]).sentences()
    if options.test is not None:
        test = read_part(options.test, source.schema, labelled=True, options=options)
        notes += test.notes
    else:
        test = _test_of(store)
    test, more = judged_test(test, record["labels"], outline.classes, options.test or source.path)
    dataset = StoredDataset(
        outline.name,
        StoredSamples(store),
        np.zeros(0, object),
        test.X,
        labels_of(test),
        outline.classes,
        groups=outline.groups,
        schema=source.schema,
        premises=outline.premises,
        notes=notes + more,
        store=store,
    )
    vars(dataset)["test"] = to_samples(test.X) if test.samples is None else test.samples
    return dataset


def _test_of(store: PartitionStore) -> Part:
    """The samples that the pass held out."""
    path = store.folder / f"{TEST}.npz"
    if not path.exists():
        return Part(np.zeros((0, 1)), np.zeros(0, object), None, [])
    arrays, facts = open_arrays(path, ("label.bytes", "label.ends"))
    samples = unpacked(facts["form"], arrays)
    rows = np.arange(len(samples))
    X = samples.take(rows)
    return Part(
        X.tolist() if samples.kind == "texts" else X,
        texts(unpacked_texts(arrays, "label")),
        None,
        rows.tolist(),
        samples=samples,
    )


def _allowed(path: Path, options: ReadOptions) -> int:
    """How many bytes may be read: any number that is there, and of compressed files a bounded multiple."""
    if options.most_bytes is not None:
        return options.most_bytes
    if path.name.lower().endswith(".gz"):
        return max(FREE_EXPANSION, MOST_EXPANSION * path.stat().st_size)
    return ANY_SIZE


def _rows_in(table: Table) -> int | None:
    """How many rows a Parquet file states, or about how many lines of the first ones' length a file has."""
    if table.path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(table.path).num_rows)
    if table.path.suffix.lower() == ".gz":
        return None
    with table.path.open("rb") as file:
        first = file.read(FIRST_BYTES)
    return round(table.path.stat().st_size / max(1, len(first)) * max(1, first.count(b"\n")))


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(folder / LOCK).acquire(timeout=0)
    except Timeout:
        raise PoisonproofError(f"Another process is writing {folder}; wait for it or choose another --out.") from None
    with held:
        sweep(folder)
        yield
