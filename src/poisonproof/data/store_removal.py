"""Rows taken out of a partition store: only the partitions that held them are read and written again.

What stays is what a pass over the data without these rows would have written, but for the numbers of the rows, which
stay those of the data. Of a removed row nothing is left but its number, which the record keeps so that others keep
theirs. Who is killed in between leaves files that the old record does not state; they are made anew from the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.store import RECORD, PartitionStore, partition_file, rows_file
from poisonproof.data.store_writing import COMPLETE, DIGESTED, MARKER, write_partition, write_rows
from poisonproof.errors import PoisonproofError
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.labels import MOST_INFERRED, label_cells
from poisonproof.system.files import sha256_of_array, write_record, write_text

OF_FED = "partition"  # said of those rows only that base classifiers are fed


def gone_from(store: PartitionStore) -> NDArray[np.int64]:
    """The numbers of the rows that were removed, in increasing order."""
    return np.array(store.record.get("gone", []), np.int64)


def places_of(store: PartitionStore, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where rows of the data stand among those that are left; they must be among them."""
    return numbers - np.searchsorted(gone_from(store), numbers)


def check_rows(store: PartitionStore, numbers: Sequence[int]) -> NDArray[np.int64]:
    """Those of these rows of the data that are still there; a number that is none of the data is refused."""
    gone = gone_from(store)
    rows = np.unique(np.asarray(numbers, np.int64))
    n_rows = len(store.rows("x")) + len(gone)
    if len(rows) and (rows[0] < 0 or rows[-1] >= n_rows):
        raise PoisonproofError(
            f"Rows to remove must be rows of the training data, 0 … {n_rows - 1}. Got {list(numbers)!r}."
        )
    return np.setdiff1d(rows, gone)


def without_rows(store: PartitionStore, numbers: NDArray[np.int64], made_of: str, *, inferred: bool) -> PartitionStore:
    """The store without these rows of the data, in the same folder; ``made_of`` is what it is from now on made of.

    ``inferred`` says whether the classes are read off the labels: then none of them may be lost.
    """
    folder, record = store.folder, dict(store.record)
    places = places_of(store, numbers)
    touched, fed = _touched(store, numbers, places)
    counts = _counts_after(store, places)
    if inferred:
        _check_same_classes(counts)
    for j in touched.tolist():
        portion, rows = store.partition(j)
        stay = np.flatnonzero(~np.isin(rows, numbers))
        hashes = portion.samples.content_hashes[stay]
        sealed = write_partition(
            folder / partition_file(j), j, (portion.samples.subset(stay), hashes, portion.codes[stay], rows[stay]),
            record["form"], made_of,
        )  # fmt: skip
        for name, value in (
            ("sizes", sealed.n_samples),
            ("contents", sealed.content),
            ("bytes", sealed.file.size),
        ):
            record[name] = [*record[name][:j], value, *record[name][j + 1 :]]
        record["files"] = {**record["files"], partition_file(j): sealed.file.digest}
    for what in (name.removeprefix("rows-").removesuffix(".npy") for name in store.record["files"] if "rows-" in name):
        left = np.delete(store.rows(what), fed if what == OF_FED else places)

        def pieces(left: NDArray[Any] = left) -> Iterator[NDArray[Any]]:
            return iter([left])

        record["files"] = {
            **record["files"],
            rows_file(what): write_rows(folder / rows_file(what), pieces),
        }
        if what == COMPLETE:
            record["n_incomplete"] = int((~left).sum())
        if what in DIGESTED:
            record["digests"] = {**record["digests"], what: sha256_of_array(left)}
    gone = np.union1d(gone_from(store), numbers)
    record |= {
        "of": made_of,
        "labels": [label for label, count in counts.items() if count],
        "counts": [count for count in counts.values() if count],
        "n_read": record["n_read"] - len(numbers),
        "gone": gone.tolist(),
    }
    write_record(folder / RECORD, {name: value for name, value in record.items() if name != "digest"})
    write_text(folder / MARKER, made_of)
    return PartitionStore.open(folder)


def _touched(
    store: PartitionStore, numbers: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The partitions that hold these rows, and the places of the rows among those that base classifiers are fed."""
    if store.record["n_read"] == int(store.sizes.sum()):
        return np.unique(store.rows(OF_FED)[places]), places
    all_fed = np.sort(np.concatenate([store.partition(j)[1] for j in range(len(store))]))
    fed = np.searchsorted(all_fed, np.intersect1d(all_fed, numbers))
    return np.unique(store.rows(OF_FED)[fed]), fed


def _counts_after(store: PartitionStore, places: NDArray[np.int64]) -> dict[str, int]:
    """How many rows have each label afterwards."""
    labels: list[str] = store.record["labels"]
    known = cell_codes(label_cells(labels))
    counts = np.array(store.record["counts"], np.int64)
    for code in store.rows("y")[places]:
        counts[np.flatnonzero((known == code) | (np.isnan(known) & np.isnan(code)))] -= 1
    return dict(zip(labels, counts.tolist(), strict=True))


def _check_same_classes(counts: dict[str, int]) -> None:
    """Refuse a removal after which a pass over the data might read other classes off them, or name one otherwise."""
    cells = label_cells(counts)
    if all(counts.values()) and len(set(cells)) == len(cells) <= MOST_INFERRED:
        return
    raise PoisonproofError(
        "Without these rows other classes may be read off the labels; delete the rows from the file and say "
        "`poisonproof update RUN DATA`, which reads everything anew."
    )
