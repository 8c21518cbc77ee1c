"""``rows.npz``: what a run keeps of the rows of its table, so that a change of a few of them reads no others.

No cell of a row is in it, but its digest is, and its label. Whoever has the folder and guesses a whole row can confirm
that it was trained on. It may be deleted: then the next update reads everything, and writes it again.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data import Dataset
from poisonproof.data.known import KnownDataset, KnownRows
from poisonproof.data.origin import Origin, stats_of
from poisonproof.errors import DamagedFileError, check_format
from poisonproof.estimators.prepared import Prepared
from poisonproof.partition.subsets import Subsets
from poisonproof.runs.layout import ROWS
from poisonproof.samples.canonical import digest_of
from poisonproof.samples.hashing import DIGEST
from poisonproof.system.files import open_arrays, reading, write_arrays
from poisonproof.training.engine import engine_of

FORMAT = "poisonproof rows 1"
BYTES = 32
ARRAYS = ("digest", "hash", "label", "partition", "rank", "numbers", "every", "gone", "contents")
OF_TEST = ("x_test", "y_test", "test")
log = logging.getLogger(__name__)


def keep_rows(folder: Path, dataset: Dataset, ensemble: Prepared) -> dict[str, str]:
    """Write what is to be known of the rows of a data set; nothing where an update would need more than that.

    The SHA-256 of what was written, by its name.
    """
    rows = known_of(dataset, ensemble)
    origin = None if rows is None else rows.origin.settled()
    if rows is None or origin is None:
        (folder / ROWS).unlink(missing_ok=True)
        return {}
    arrays = {
        "digest": rows.digests.view(np.uint8).reshape(-1, BYTES),
        "hash": rows.hashes,
        "label": _short(rows.labels),
        "partition": _short(rows.partition),
        "rank": _short(rows.rank),
        "every": _short(origin.every),
        "numbers": _short(origin.numbers),
        "gone": _short(origin.gone),
        "contents": np.frombuffer(b"".join(rows.contents), np.uint8).reshape(-1, BYTES),
        **({} if origin.test is None else {"test": _short(origin.test)}),
    }
    facts = {
        "format": FORMAT,
        "files": origin.files,
        "labels": rows.names,
        "notes": list(dataset.notes),
        "test": rows.test,
        "of": rows.stated(),
    }
    return {ROWS: write_arrays(folder / ROWS, arrays, facts).digest}


def known_of(dataset: Dataset, ensemble: Prepared) -> KnownRows | None:
    """What is known of the rows; None where single ones cannot be read again, or where some are told of or left out."""
    if isinstance(dataset, KnownDataset):
        return dataset.known.with_contents(list(ensemble.contents))
    subsets, pooled = ensemble.subsets, engine_of(ensemble.training.estimator).pooled
    if dataset.origin is None or dataset.groups is not None or pooled or not isinstance(subsets, Subsets):
        return None
    if ensemble.n_dropped or ensemble.data.oddities:
        return None
    stated, labels = dataset.digests(), dataset.y_train.tolist()
    places = {label: place for place, label in enumerate(sorted(set(labels)))}
    return KnownRows(
        dataset.origin,
        dataset.train.content_digests,
        dataset.train.content_hashes,
        np.fromiter(map(places.__getitem__, labels), np.int64, len(labels)),
        list(places),
        subsets.partition,
        subsets.rank,
        list(ensemble.contents),
        {"x_test": stated["x_test"], "y_test": stated["y_test"], "test": digest_of(dataset.test)},
    )


def read_rows(folder: Path, path: Path, stated: str | None = None) -> tuple[KnownRows, tuple[str, ...]] | None:
    """What was kept of a table, and what its reader noted; None, and a word about it, if it is not as it was.

    ``stated`` is the SHA-256 that the file should have, where the manifest says so.
    """
    kept = folder / ROWS
    if not kept.exists():
        return None
    try:
        arrays, facts = open_arrays(kept, ARRAYS, stated)
        with reading(kept):
            check_format(kept, facts["format"], FORMAT)
            rows = _rows_in(path, arrays, facts)
            if _misfit(rows) or rows.stated() != facts["of"]:
                raise DamagedFileError(f"{kept} is damaged: it does not fit the data that it states.")
            return rows, tuple(map(str, facts["notes"]))
    except DamagedFileError as error:
        log.warning("%s All rows are read, and it is written again.", error)
        return None


def _rows_in(path: Path, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> KnownRows:
    plain = {name: array.astype(np.int64) for name, array in arrays.items() if array.dtype == np.int32}
    arrays = {**arrays, **plain}
    origin = Origin(
        path,
        stats_of(path),
        {str(name): str(digest) for name, digest in facts["files"].items()},
        arrays["numbers"],
        arrays["every"],
        arrays["gone"],
        arrays.get("test"),
    )
    digests = np.ascontiguousarray(arrays["digest"]).reshape(-1).view(DIGEST)
    contents = [bytes(content) for content in arrays["contents"]]
    return KnownRows(
        origin, digests, arrays["hash"], arrays["label"], [str(name) for name in facts["labels"]], arrays["partition"],
        arrays["rank"], contents, {name: str(facts["test"][name]) for name in OF_TEST},
    )  # fmt: skip


def _misfit(rows: KnownRows) -> bool:
    """Whether something does not fit the rest, so that it could not have been written."""
    origin, n = rows.origin, len(rows)
    per_row = (rows.digests, rows.hashes, rows.partition, rows.rank)
    ranges = [
        (rows.labels, len(rows.names)),
        (rows.partition, len(rows.contents)),
        (origin.every, len(origin.numbers)),
        (origin.gone, len(origin.every)),
    ]
    if origin.test is not None:
        ranges.append((origin.test, len(origin.numbers)))
    return (
        any(len(part) != n for part in per_row)
        or len(origin.every) - len(origin.gone) != n
        or any(part.min(initial=0) < 0 or part.max(initial=-1) >= end for part, end in ranges)
        or any((np.diff(part) <= 0).any() for part in (origin.numbers, origin.every, origin.gone))
    )


def _short(values: NDArray[Any]) -> NDArray[Any]:
    """In half the space, where they fit."""
    return values.astype(np.int32 if values.max(initial=0) <= np.iinfo(np.int32).max else np.int64)
