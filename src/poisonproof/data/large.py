"""Training data larger than memory: a data set whose training samples lie in partitions on disk.

One pass over the files makes them (`poisonproof.data.partition_pass`); later the same folder is opened again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.core.split import Split
from poisonproof.data.dataset import Dataset, LabelledSamples, ReadReport
from poisonproof.data.large_source import Source
from poisonproof.data.partition_pass import Pass
from poisonproof.data.reading import drop_undeclared_test_labels, note_labels, read_other, records_premise
from poisonproof.data.store import FORMAT, PartitionStore, StoredSamples, empty_of, unpacked, unpacked_texts
from poisonproof.data.store_writing import DIGESTED, TEST, emptied, identity_of
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.samples.labels import label_digests
from poisonproof.system.files import open_arrays, sha256_of, sha256_of_array, sole_writer

LOCK = "store.lock"


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
        known = {DIGESTED[name]: digest for name, digest in self.stored.record["digests"].items()}
        if "test" in parts:
            known |= {
                "x_test": sha256_of_array(self.test.samples.content_digests),
                "y_test": sha256_of_array(label_digests(self.test.labels)),
            }
        wanted = [f"{letter}_{part}" for letter in "xy" for part in parts]
        return {name: known[name] for name in (*wanted, *(["groups"] if "groups" in known else []))}

    def without(self, rows: Any) -> Dataset:
        """Refused: the files are where rows are removed."""
        raise PoisonproofError(
            "Rows of a data set on disk are removed by `poisonproof update`, partition by partition."
        )


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
        emptied(folder, made_of)
        pass_ = Pass(source, split, n_partitions, folder, made_of, max_memory, complete_only, answer_bytes)
        store = _standing(folder, made_of)
        if store is None:
            store = pass_.whole()
        elif damaged := store.damaged():
            store = pass_.mended(store, damaged)
    return _dataset(source, outline or source.outline(), store)


def _identity(source: Source, split: Split, n_partitions: int, complete_only: bool) -> str:
    """What partitions are made of."""
    facts = {"format": FORMAT, "split": split.as_dict(), "n_partitions": n_partitions, "complete_only": complete_only}
    return identity_of({**source.made_of(), **facts})


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
    report = ReadReport.from_list(record["report"])
    premises = records_premise(report, source.reader, source.schema) + outline.premises
    test = _test_of(store) if options.test is None else read_other(options.test, source.schema, options, report)
    note_labels(report, outline.name, record["labels"], sum(record["counts"]), declared=outline.classes is not None)
    test = drop_undeclared_test_labels(test, record["labels"], outline.classes, options.test or source.path, report)
    train = LabelledSamples(StoredSamples(store), np.zeros(0, object), outline.train.groups)
    return StoredDataset(outline.name, train, test, outline.classes, source.schema, premises, report, store=store)


def _test_of(store: PartitionStore) -> LabelledSamples:
    """The samples that the pass held out."""
    path = store.folder / f"{TEST}.npz"
    if not path.exists():
        return LabelledSamples(empty_of(store.record["form"]), np.zeros(0, object))
    arrays, facts = open_arrays(path, ("label.bytes", "label.ends"))
    samples, labels = unpacked(facts["form"], arrays), np.empty(len(arrays["label.ends"]), object)
    labels[:] = unpacked_texts(arrays, "label")
    return LabelledSamples(samples, labels)
