"""A run whose training samples lie in partitions on disk, once more: only what changes is read.

As long as the files are those that the partitions were made of, rows are taken out of the partitions that hold them.
Other files are read in one pass, as for `poisonproof run --max-memory`, and the old partitions are removed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisonproof.cli import encoding, following, output, reading
from poisonproof.cli.learning import with_learner
from poisonproof.cli.reopening import Reopened, begun, checked_learner
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.large import Removal, StoredDataset
    from poisonproof.runs.removal import LeftOut

DEFAULT_BOUND = "4GB"


def bound_of(asked: dict[str, Any]) -> int:
    """The bytes that the run was allowed to take."""
    from poisonproof.display import bytes_of

    return bytes_of(asked.get("max_memory") or DEFAULT_BOUND)


def reopen_partitions(
    run: Path, data: str | None, remove: list[int], n_jobs: int, learner: str | None, encoder: str | None
) -> Reopened | None:
    """The run with its data as they should be now, without these rows; None if it has no partitions."""
    from poisonproof import FiniteAggregationClassifier, Split, Spread
    from poisonproof.data.large import Removal
    from poisonproof.estimators.base import accepts_nan
    from poisonproof.runs.folder import PARTITIONS
    from poisonproof.runs.removal import LeftOut

    if not (run / PARTITIONS).is_dir():
        return None
    manifest, asked, read = begun(run)
    source = reading.large_source(data or asked["data"], read)
    if source is None:
        return None
    name = checked_learner(run, asked["learner"], learner)
    of_run = encoding.checked_again(run, asked.get("encoder"), encoder)
    left_out = LeftOut.from_dict(asked["left_out"]) if data is None and "left_out" in asked else None
    stated = manifest.settings.digests if data is None else None
    spread, split = Spread.load(run / "spread.npz"), Split.from_dict(manifest.settings.split)
    outline, estimator = with_learner(source.outline(), name, of_run, quiet=True)
    outline = replace(following.with_premises(outline, asked.get("plan")), name=manifest.settings.name)
    removal = Removal(source, split, spread.n_partitions, run / PARTITIONS, not accepts_nan(estimator))
    if (standing := removal.opened(_words(left_out), outline)) is not None:
        dataset = standing
    else:
        dataset, left_out = _read_again(removal, left_out, outline, bound_of(asked), stated)
    if remove and of_run is not None:
        raise PoisonproofError(
            f"The run in {run} keeps embeddings of its rows besides its partitions; delete the rows from the file and "
            f"say `poisonproof update {run} DATA`."
        )
    if remove:
        dataset, left_out = _less(removal, dataset, left_out, remove, outline)
    classes = None if outline.classes is None else outline.classes.tolist()
    model = FiniteAggregationClassifier(estimator, spread=spread, split=split, classes=classes, n_jobs=n_jobs)
    return Reopened(manifest, dataset, model, dataset, left_out)


def _read_again(
    removal: Removal, left_out: LeftOut | None, outline: Dataset, max_memory: int, stated: dict[str, str] | None
) -> tuple[StoredDataset, LeftOut | None]:
    """The data set as the run has it, from a pass over the files."""
    from poisonproof.data.large import open_large

    dataset = open_large(
        removal.source,
        removal.split,
        removal.n_partitions,
        removal.folder,
        max_memory=max_memory,
        complete_only=removal.complete_only,
        outline=outline,
    )
    for note in dataset.notes:
        output.note(note)
    if left_out is None or dataset.digests() == stated:
        return dataset, None
    rows = left_out.rows_among(dataset.stored.rows("x"))
    smaller = removal.less(dataset, rows, _words(left_out) or "", outline)
    if stated is not None and smaller.digests() != stated:
        raise PoisonproofError(
            f"{removal.source.path} is not what it was when rows were removed from it; give the data as it should be "
            f"now: `poisonproof update {removal.folder.parent} DATA`."
        )
    return smaller, left_out


def _less(
    removal: Removal, dataset: StoredDataset, left_out: LeftOut | None, remove: list[int], outline: Dataset
) -> tuple[StoredDataset, LeftOut | None]:
    from poisonproof.data.store_removal import check_rows, places_of
    from poisonproof.runs.removal import LeftOut

    rows = check_rows(dataset.stored, remove)
    if not len(rows):
        output.note("these rows were left out already")
        return dataset, left_out
    hashes, places = dataset.stored.rows("x"), places_of(dataset.stored, rows)
    more = (left_out or LeftOut.nothing()).and_present(hashes, places)
    return removal.less(dataset, rows, _words(more) or "", outline), more


def _words(left_out: LeftOut | None) -> str | None:
    return None if left_out is None else json.dumps(left_out.as_dict(), sort_keys=True)
