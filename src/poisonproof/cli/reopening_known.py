"""A run whose file is still what it was made from, to the byte: only the rows that a change touches are read."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisonproof.cli import encoding, options
from poisonproof.cli.learning import with_learner
from poisonproof.cli.reopening import Reopened, begun, checked_learner, with_choices
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import Dataset, ReadOptions
    from poisonproof.data.known import KnownDataset, KnownRows, TableFile
    from poisonproof.partition.spread import Spread
    from poisonproof.runs.manifest import Manifest
    from poisonproof.runs.removal import LeftOut

log = logging.getLogger(__name__)


def reopen_known(run: Path, remove: list[int], n_jobs: int, learner: str | None) -> Reopened | None:
    """The run with its data without these rows; None where everything has to be read."""
    from poisonproof import FiniteAggregationClassifier, Split, Spread
    from poisonproof.runs.kept_rows import read_rows
    from poisonproof.runs.layout import ROWS

    manifest, asked, read = begun(run)
    file = _same_table(manifest, asked, read)
    kept = None if file is None else read_rows(run, file.path, (manifest.files or {}).get(ROWS))
    left_out = _left_out(asked)
    if file is None or kept is None or kept[0].stated() != manifest.settings.digests:
        return None
    rows, notes = kept
    if not _same_files(file, rows, left_out):
        return None
    name = checked_learner(run, asked["learner"], learner)
    outline, estimator = with_learner(_outline(file), name, quiet=True)
    outline = with_choices(outline, asked)
    spread, split = Spread.load(run / "spread.npz"), Split.from_dict(manifest.settings.split)
    gone = _present(rows, remove)
    if remove and not len(gone):
        options.note("these rows were left out already")
    changed = rows.partition[gone]
    if len(gone):
        left_out = left_out.and_present(rows.hashes, gone)
        rows = rows.less(gone)
    dataset = _dataset(file, rows, outline, notes, spread, sorted(set(changed.tolist())))
    if dataset is None:
        return None
    for note in notes:
        options.note(note)
    classes = None if dataset.classes is None else dataset.classes.tolist()
    model = FiniteAggregationClassifier(estimator, spread=spread, split=split, classes=classes, n_jobs=n_jobs)
    return Reopened(manifest, dataset, model, dataset, left_out if left_out.marks else None)


def _same_table(manifest: Manifest, asked: dict[str, Any], read: ReadOptions) -> TableFile | None:
    """The table of the run, by the schema that it states; None of other kinds of data."""
    from poisonproof import data
    from poisonproof.data.known import TableFile
    from poisonproof.samples.schema import TableSchema, schema_from_dict

    settings, path = manifest.settings, Path(asked["data"])
    if settings.election is not None or settings.schema is None or asked["data"] in data.DATASETS:
        return None
    plain = asked.get("encoder") in (None, encoding.NONE) and "trusted" not in asked
    if not plain or not path.exists() or data.kind_of(path) != "table":
        return None
    schema = schema_from_dict(settings.schema)
    assert isinstance(schema, TableSchema)
    return TableFile(path, replace(schema, guessed=read.schema is None), read)


def _same_files(file: TableFile, rows: KnownRows, left_out: LeftOut) -> bool:
    """Whether the files are what they were: to the byte, and in rows that are left out by the marks of these."""
    import numpy as np

    origin = rows.origin
    try:
        if origin.digests() != origin.files:
            return False
        if not len(origin.gone):
            return not left_out.marks
        gone = file.read(origin, origin.every[origin.gone]).samples
    except PoisonproofError:
        return False
    assert gone is not None
    hashes = np.empty(len(origin.every), np.uint64)
    hashes[origin.gone] = gone.content_hashes
    hashes[np.delete(np.arange(len(hashes)), origin.gone)] = rows.hashes
    return left_out.are(origin.gone, hashes)


def _outline(file: TableFile) -> Dataset:
    """A data set without samples: what there is to know before anything is read."""
    import numpy as np

    from poisonproof.data import Dataset
    from poisonproof.data.user_files import schema_premises

    nobody = np.zeros(0, object)
    read, schema = file.options, file.schema
    return Dataset(
        file.path.name, nobody, nobody, nobody, nobody,
        None if read.classes is None else np.array(list(read.classes), object),
        schema=schema, premises=schema_premises(schema, read, declared=not schema.guessed),
    )  # fmt: skip


def _left_out(asked: dict[str, Any]) -> LeftOut:
    from poisonproof.runs.removal import LeftOut

    return LeftOut.from_dict(asked["left_out"]) if "left_out" in asked else LeftOut.nothing()


def _present(rows: KnownRows, remove: list[int]) -> Any:
    """Where those of these rows stand that are still there; a number that is none of the data is refused."""
    import numpy as np

    numbers, gone = np.unique(np.asarray(remove, np.int64)), rows.origin.gone
    n_rows = len(rows) + len(gone)
    if len(numbers) and (numbers[0] < 0 or numbers[-1] >= n_rows):
        raise PoisonproofError(f"Rows to remove must be rows of the training data, 0 … {n_rows - 1}. Got {remove!r}.")
    left = np.setdiff1d(numbers, gone)
    return left - np.searchsorted(gone, left)


def _dataset(
    file: TableFile, rows: KnownRows, outline: Dataset, notes: tuple[str, ...], spread: Spread, changed: list[int]
) -> KnownDataset | None:
    """The data set with its test samples and the rows that are fed again; None if they are not what they were."""
    import numpy as np

    from poisonproof.data.known import KnownDataset, KnownSamples
    from poisonproof.data.user_files import judged_test, labels_of, read_part
    from poisonproof.samples.canonical import to_samples

    present = np.bincount(rows.labels, minlength=len(rows.names))
    if not len(rows) or (outline.classes is None and not present.all()):
        return None  # the classes that are read off the data are others
    try:
        if file.options.test is not None:
            test = read_part(file.options.test, file.schema, labelled=True, options=file.options)
        else:
            assert rows.origin.test is not None
            test = file.read(rows.origin, rows.origin.test)
        test, _ = judged_test(test, rows.names, outline.classes, file.options.test or file.path)
        asked = to_samples(test.X) if test.samples is None else test.samples
        samples = KnownSamples(rows, file, asked)
        if changed:
            samples.hold(_fed_with(rows, spread, changed))
    except PoisonproofError as error:
        log.warning("%s All rows are read.", error)
        return None
    dataset = KnownDataset(
        outline.name, samples, np.array(rows.names, object)[rows.labels], test.X, labels_of(test), outline.classes,
        schema=file.schema, premises=outline.premises, notes=notes, origin=rows.origin, rows=rows,
        changed=tuple(changed),
    )  # fmt: skip
    dataset.knowing(None, asked)
    return dataset if _same_test(dataset) else None


def _fed_with(rows: KnownRows, spread: Spread, changed: list[int]) -> Any:
    """The rows of all base classifiers that are fed from these partitions."""
    import numpy as np

    subsets = np.unique(spread.as_table()[changed])
    partitions = {j for subset in subsets.tolist() for j in spread.partitions_of(subset)}
    return np.flatnonzero(np.isin(rows.partition, sorted(partitions)))


def _same_test(dataset: KnownDataset) -> bool:
    """Whether the test samples have the digests that they had."""
    from poisonproof.samples.canonical import digest_of
    from poisonproof.samples.labels import label_digests
    from poisonproof.system.files import sha256_of_array

    stated = dataset.known.test
    return (
        digest_of(dataset.test) == stated["test"] and sha256_of_array(label_digests(dataset.y_test)) == stated["y_test"]
    )
