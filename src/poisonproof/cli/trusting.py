"""Rows that nobody can poison, beside the data of a run: they shape its map and class sizes, and do not vote.

The run keeps where they are and, among its premises, how many they are and their digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from poisonproof.cli import options
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import Dataset
    from poisonproof.maps.trusted_samples import TrustedSamples
    from poisonproof.premises import Premise

OF_TRUSTED = " trusted rows, SHA-256 "
PREMISE = "trusted samples"
SIZES = "trusted:"


def read_trusted(path: Path, dataset: Dataset, *, labelled: bool) -> TrustedSamples:
    """The rows of a file, by the schema of the data; with their labels if those are needed."""
    from poisonproof.maps.trusted_samples import TrustedSamples

    if not path.exists():
        raise PoisonproofError(f"--trusted {path}: No such file.")
    if dataset.schema is None:
        raise PoisonproofError(
            f"--trusted rows are read by the schema of files of your own; the data set '{dataset.name}' has none."
        )
    return TrustedSamples.read(path, schema=dataset.schema, labelled=labelled)


def with_trusted(dataset: Dataset, trusted: TrustedSamples) -> Dataset:
    """The data set that knows its trusted rows, with the premise; copies of them in the training data are told of."""
    from poisonproof.samples.canonical import to_samples
    from poisonproof.samples.hashing import among

    rows = to_samples(trusted.X, dtype=dataset.dtype, n_features=dataset.n_features)
    copies = int(among(dataset.train.content_hashes, rows.content_hashes).sum())
    if copies:
        options.note(
            f"{copies} training samples are copies of trusted ones and vote; whoever wrote them has seen those, so "
            "make sure that they cannot be touched"
        )
    return dataset.but(trusted=trusted, premises=(*dataset.premises, premise_of(trusted)))


def premise_of(trusted: TrustedSamples) -> Premise:
    """How many trusted rows there are, their digest, and that they do not vote."""
    from poisonproof.estimators.trusted_voters import trusted_premises
    from poisonproof.maps.trusted_samples import TrustedSamples

    return trusted_premises(TrustedSamples(trusted.X))[0]


def again(run: Path, dataset: Dataset, asked: dict[str, Any]) -> Dataset:
    """The data set of a run with its trusted rows as they are now; where their file is gone, with the premise alone."""
    from poisonproof.premises import Premise

    record = asked.get("trusted")
    if record is None:
        return dataset
    if not Path(record["file"]).exists():
        options.note(f"the trusted rows of {run} are not at {record['file']} any more; what it says of them is kept")
        return dataset.but(premises=(*dataset.premises, Premise(PREMISE, str(record["premise"]), declared=True)))
    trusted = read_trusted(Path(record["file"]), dataset, labelled=bool(record["labelled"]))
    return dataset.but(trusted=trusted, premises=(*dataset.premises, premise_of(trusted)))


def check_same(run: Path, dataset: Dataset, asked: dict[str, Any]) -> None:
    """Refuse to go on with a run whose trusted rows are others now: its map came from those that were."""
    record = asked.get("trusted")
    if record is not None and dataset.trusted is not None and premise_of(dataset.trusted).value != record["premise"]:
        raise PoisonproofError(
            f"{record['file']} does not hold the trusted rows that the run in {run} was made with: {record['premise']}."
        )
