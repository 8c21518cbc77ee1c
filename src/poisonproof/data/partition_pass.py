"""One pass over files that sorts their rows into partitions on disk, in bounded memory.

The pass reads a bounded number of cells at a time. A row is read, held out and sent to its partition by the same
functions as in memory, and each of them looks at that row alone, so the result is the same data set: same digests, same
partitions, same order inside a subset. What is held in memory is the chunk at hand, the rows that wait to be spilled,
and the test samples; 24 bytes of every training row (hash, label, partition) lie in files that are mapped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.data.dataset import LabelledSamples, ReadReport, held_out
from poisonproof.data.large_source import Source
from poisonproof.data.reading import check_not_empty, share_of
from poisonproof.data.store import PartitionStore, form_of_pack, joined, packed, packed_texts, unpacked, unpacked_texts
from poisonproof.data.store_writing import (
    COMPLETE,
    LARGEST_BUFFER,
    ROWS,
    SMALLEST_BUFFER,
    TEST,
    Incoming,
    Sealing,
    Spiller,
    seal,
    size_of,
)
from poisonproof.display import in_bytes
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import label_cells, label_digests, read_labels
from poisonproof.system.files import FULL, write_arrays
from poisonproof.system.machine import resident_bytes
from poisonproof.system.progress import progress

CELLS_PER_CHUNK = 1 << 19
SHARE_FOR_TEST = 4  # of the bound, one part for the test samples
SHARE_FOR_SPILL = 16  # what is spilled is there several times while it is joined and sorted
SORTED = 6  # of a partition: as it is read, joined, in order, and as it is written
DISK = 2.5  # spills and partitions are there at the same time


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
        """Read from the beginning to the end; what an interrupted pass has left begins again."""
        if spiller.facts.get("ended"):
            return
        spiller.begin_again()
        report, places, form = ReadReport(), dict[str | None, int](), None
        n_test, test_bytes, done = 0, 0, 0
        aside: list[tuple[Samples, list[str]]] = []

        def so_far(*, ended: bool) -> dict[str, Any]:
            return {"report": report.as_list(), "labels": list(places), "form": form, "ended": ended}

        rows = max(1, CELLS_PER_CHUNK // max(1, len(self.source.schema.columns)))
        for part, _ in self.source.reader.batches(self.source.schema, labelled=True, report=report, rows=rows):
            form = form_of_pack(part.samples)
            if len(part):
                test = self._held_out(part.samples, part.groups)
                train, here = np.flatnonzero(~test), np.flatnonzero(test)
                if len(here):
                    aside.append((part.samples.subset(here), part.labels[here].tolist()))
                    n_test += len(here)
                    test_bytes += size_of(aside[-1][0])
                full = spiller.add(self._incoming(part, train, places))
                done += len(part)
                if not self.needed:
                    self._check_space(spiller.bytes / max(1, len(train)))
                self._check_test(test_bytes, n_test, done)
                if full:
                    spiller.spill(so_far(ended=False), _test_set(aside))
                    aside = []
                if self.expected:
                    progress(min(done, self.expected), self.expected)
        spiller.spill(so_far(ended=True), _test_set(aside))

    def _held_out(self, samples: Samples, groups: Any) -> NDArray[np.bool_]:
        if self.source.options.test is not None:
            return np.zeros(len(samples), np.bool_)
        return held_out(samples, share_of(self.source.options), groups=groups)

    def _incoming(self, part: LabelledSamples, rows: NDArray[np.int64], places: dict[str | None, int]) -> Incoming:
        """Some rows as they are spilled; ``places`` gets labels that nobody had, None for all that are no label."""
        arriving, labels = part.samples.subset(rows), part.labels[rows]
        groups = None if part.groups is None else part.groups[rows]
        cells = label_cells(labels)
        about = {
            "x": arriving.content_hashes,
            "y": cell_codes(cells),
            COMPLETE: arriving.complete(),
            "x-content": arriving.content_digests,
            "y-content": label_digests(labels),
            **({} if groups is None else {"groups-content": label_digests(groups)}),
        }
        partition = self.split.partitions(arriving, self.n_partitions, cells, groups)
        read = (None if cell is None else label for label, cell in zip(labels.tolist(), cells, strict=True))
        codes = np.fromiter((places.setdefault(label, len(places)) for label in read), np.int64, len(labels))
        return Incoming(arriving, codes, partition, about)

    def _sealed(self, spiller: Spiller) -> PartitionStore:
        """Partitions, test samples, and what the pass found."""
        facts, declared = spiller.facts, self.source.options.classes
        labels, counts = facts["labels"], self._counts(spiller)
        self._check_partitions(spiller)
        check_not_empty(self.source.path, range(int(counts.sum())), ReadReport.from_list(facts["report"]))
        classes = self._classes(spiller, labels, counts) if declared is None else None
        codes = read_labels(labels, declared, known=classes).codes
        sealing = Sealing(codes, self.complete_only, facts["form"])
        tests = [arrays for spill in spiller.spills if (arrays := spill.read(TEST)) is not None]
        if tests:
            samples = joined([unpacked(sealing.form, arrays) for arrays in tests])
            texts = [text for arrays in tests for text in unpacked_texts(arrays, "label")]
            arrays = {**packed(samples), **packed_texts(texts, "label")}
            write_arrays(self.folder / f"{TEST}.npz", arrays, {"of": self.made_of, "form": sealing.form})
        incomplete = sum(
            int((~arrays[COMPLETE]).sum()) for spill in spiller.spills if (arrays := spill.read(ROWS)) is not None
        )
        sealed = {
            "labels": labels,
            "classes": classes,
            "counts": counts.tolist(),
            "report": facts["report"],
            "n_read": spiller.n_rows,
            "n_incomplete": incomplete if self.complete_only else 0,
        }
        return seal(spiller, sealing, self.n_partitions, self.made_of, sealed)

    def _counts(self, spiller: Spiller) -> NDArray[np.int64]:
        """How many training rows have each label."""
        counts = np.zeros(len(spiller.facts["labels"]), np.int64)
        for spill in spiller.spills:
            if (arrays := spill.read(ROWS)) is not None:
                counts += np.bincount(arrays["label"], minlength=len(counts))
        return counts

    def _classes(self, spiller: Spiller, labels: list[str | None], counts: NDArray[np.int64]) -> list[Any]:
        """The classes that are read off the labels: of most rows or, where there are contributors, of most of those."""
        uses: set[tuple[int, bytes]] = set()
        for spill in spiller.spills:
            arrays = spill.read(ROWS)
            if arrays is None or "groups-content" not in arrays:
                continue
            uses.update(zip(arrays["label"].tolist(), map(bytes, arrays["groups-content"]), strict=True))
        if not uses:
            return read_labels(labels, counts=counts.tolist()).classes.tolist()
        nobody = bytes(label_digests([None])[0])
        units = [None if unit == nobody else unit for _, unit in uses]
        return read_labels([labels[place] for place, _ in uses], units=units).classes.tolist()

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
    labels = [label for _, labels_of_part in aside for label in labels_of_part]
    return [(TEST, {**packed(joined([samples for samples, _ in aside])), **packed_texts(labels, "label")})]
