"""What an ensemble or ballots on a cluster would take of storage, network, processors and memory: estimated, not run.

Every figure follows from constants that were measured on runs of 10⁵ to 10⁷ samples (`MEASURED`, each with its source),
by formulas that see no data. They hold for tables from Parquet files through partitions on shared storage and the
learner `table`; other learners may cost far more. docs/scale.md says what was run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from poisonproof.display.numbers import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.planning.formulas import CLUSTER_CORES, TEST_SAMPLES
from poisonproof.training.member_files import MEMBERS_PER_FILE
from poisonproof.training.member_memory import FED, PROCESS_BYTES
from poisonproof.votes.votes import vote_dtype

HOUR = 3600
COUNT_BYTES = 8
MOST = 10**18
BOUND = 4 * 10**9  # --max-memory, as in the run of 10⁷ rows


@dataclass(frozen=True)
class Constant:
    """A number that was measured, and where."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Measured:
    """What the formulas go by. Sources are tables of benchmarks/RESULTS.md; numbers are rounded up."""

    start: Constant = Constant(
        6.1,
        "CPU s of a run whatever its rows",
        "10⁶ rows × 20 columns, k = 20, d = 1: 16.1 CPU s, less ten million cells' share of the 106.5 of 10⁷ rows",
    )
    sort_cell: Constant = Constant(
        2.1e-7,
        "CPU s to read a cell and sort it into its partition",
        "10⁷ rows × 20 columns, k = 20, d = 1: 106.5 CPU s, less start and training",
    )
    train_cell: Constant = Constant(
        3.0e-7,
        "CPU s of the learner `table` for a cell that a base classifier is fed",
        "10⁶ rows × 20 columns: 104.5 CPU s at k = 50, d = 16 against 16.1 at k = 20, d = 1",
    )
    ask_cell: Constant = Constant(
        8e-10,
        "CPU s to ask a base classifier, for a cell of a test sample",
        "10,000 predictions of 800 base classifiers, 64 numbers each: 0.40 s",
    )
    certify_vote: Constant = Constant(
        1.9e-9, "CPU s to certify, for a vote", "Theorem 2 on 12,630 × 1,600 votes: 2.9 CPU µs per sample"
    )
    source_cell: Constant = Constant(
        2.9, "bytes of a cell in the Parquet files", "10⁶ rows × 20 columns of benchmarks/large_data.py: 57.2 MB"
    )
    partition_cell: Constant = Constant(
        6.8,
        "bytes of a cell in a partition (8 of a number, 4 of a category)",
        "the same, 14 columns of numbers and 6 of categories: a run of 189.0 MB",
    )
    partition_row: Constant = Constant(20, "bytes of a row in a partition, besides", "the same")
    listed_row: Constant = Constant(32, "bytes of a row in lists of hashes, labels and partitions", "the same")
    model_cell: Constant = Constant(
        89, "bytes of a base classifier for each column", "the same: 35.4 kB for 20 base classifiers"
    )
    compare: Constant = Constant(
        4.5e-9,
        "CPU s to compare a test sample with a voter, whatever its numbers",
        "a million voters of 256 numbers: 10.0 CPU ms per prediction, less its numbers",
    )
    compare_number: Constant = Constant(
        2.2e-11,
        "CPU s of it for each number",
        "MNIST, 10,000 × 60,000 ballots of 980 numbers: 15.4 CPU s to certify, against those of 256",
    )
    map_number: Constant = Constant(
        9.1e-8,
        "CPU s to map a training sample, for each number",
        "MNIST, 60,000 samples of 980 numbers: 5.3 CPU s to fit",
    )
    voter_number: Constant = Constant(
        4.5, "bytes of a voter in memory, for each number", "a million voters of 256 numbers: 1.13 GB at most"
    )


MEASURED = Measured()


@dataclass(frozen=True)
class Scene:
    """What is asked about: so many samples in files of so many rows, and workers of one core each."""

    samples: int
    rows_per_file: int
    columns: int = 20
    workers: int = CLUSTER_CORES
    classes: int = 2
    tests: int = TEST_SAMPLES

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 1 <= value <= MOST:
                words = field.name.replace("_", " ")
                raise PoisonproofError(f"The number of {words} must lie in 1 … {MOST:.0e}. Got {value}.")

    @property
    def files(self) -> int:
        """In how many files the samples stand."""
        return -(-self.samples // self.rows_per_file)


@dataclass(frozen=True)
class Needs:
    """What one way of voting takes. Everything is estimated.

    Attributes
    ----------
    who : str
    k, d : int or None
        None where the training samples vote.
    storage, network : float
        Bytes on shared storage at the worst moment, the data files included, and bytes to and from it and workers.
    cpu_hours, hours : float
        Of all processors together, and until the end: what one process does alone today, then the workers.
    worker_memory, caller_memory : float
        Bytes in a worker, and in the process that starts and ends the work.
    """

    who: str
    k: int | None
    d: int | None
    storage: float
    network: float
    cpu_hours: float
    hours: float
    worker_memory: float
    caller_memory: float
    estimated: bool = True


def ensemble(scene: Scene, k: int, d: int, measured: Measured = MEASURED) -> Needs:
    """Base classifiers on partitions in shared storage: one process sorts the rows, workers train and ask."""
    if k < 1 or d < 1 or k * d > scene.samples:
        raise PoisonproofError(
            f"k and d must be at least 1 and k·d at most {scene.samples}, a sample for each partition. Got {k} and {d}."
        )
    members, cells = k * d, scene.samples * scene.columns
    votes, asked = scene.tests * members, scene.tests * scene.columns * measured.partition_cell.value
    source = cells * measured.source_cell.value
    partitions = cells * measured.partition_cell.value + scene.samples * measured.partition_row.value
    lists, models = scene.samples * measured.listed_row.value, members * scene.columns * measured.model_cell.value
    results = models + 2.0 * votes * vote_dtype(scene.classes)().itemsize
    alone = measured.start.value + cells * measured.sort_cell.value + votes * measured.certify_vote.value
    shared = cells * d * measured.train_cell.value + votes * scene.columns * measured.ask_cell.value
    blocks = -(-members // MEMBERS_PER_FILE)
    busy = min(scene.workers, blocks)
    longest = min(1.0, -(-blocks // busy) * MEMBERS_PER_FILE / members)
    return Needs(
        "ensemble",
        k,
        d,
        # Until all partitions are written, the rows stand in spills too.
        storage=source + 2 * partitions + lists + results,
        network=source + (3 + d) * partitions + lists + busy * asked + results,
        cpu_hours=(alone + shared) / HOUR,
        hours=(alone + shared * longest) / HOUR,
        worker_memory=PROCESS_BYTES + FED * partitions / k + 3 * asked,
        caller_memory=max(BOUND, PROCESS_BYTES + FED * partitions / members) + results,
    )


def ballots(scene: Scene, measured: Measured = MEASURED) -> Needs:
    """Training samples that vote: one process maps and holds them all, each worker gets a shard and returns counts."""
    cells = float(scene.samples * scene.columns)
    source, voters = cells * measured.source_cell.value, cells * measured.voter_number.value
    asked = scene.tests * scene.columns * measured.voter_number.value
    counts = 2.0 * scene.tests * scene.classes * COUNT_BYTES
    pair = measured.compare.value + scene.columns * measured.compare_number.value
    alone = measured.start.value + cells * (measured.sort_cell.value + measured.map_number.value)
    shared = float(scene.samples) * scene.tests * pair
    busy = min(scene.workers, scene.samples)
    return Needs(
        "ballots",
        None,
        None,
        storage=source + voters,
        network=source + voters + busy * (asked + counts),
        cpu_hours=(alone + shared) / HOUR,
        hours=(alone + shared / busy) / HOUR,
        worker_memory=PROCESS_BYTES + voters / busy + asked + counts,
        caller_memory=PROCESS_BYTES + cells * measured.partition_cell.value + voters + asked + busy * counts,
    )


def assumptions(scene: Scene) -> tuple[str, ...]:
    """What the figures rest on, one sentence each."""
    return (
        "Estimated, not run: straight lines through runs of 10⁶ and 10⁷ rows on one machine, "
        f"{scene.samples / 1e7:,.3g} times beyond the largest."
        if scene.samples > 10**7
        else "Estimated, not run: straight lines through runs of 10⁶ and 10⁷ rows on one machine.",
        f"Tables of {scene.columns:,} columns from {scene.files:,} Parquet file(s), {scene.tests:,} test samples, "
        f"{scene.classes:,} classes, the learner `table` (others may cost far more), ballots on as many numbers as "
        "columns.",
        "One process reads all files and sorts rows into partitions, or maps and holds all voters, while the workers "
        f"wait; then a worker trains {MEMBERS_PER_FILE} base classifiers at a time, so that no more than k·d / "
        f"{MEMBERS_PER_FILE} workers are busy.",
        "Memory of a worker is reckoned as `--max-memory` reckons it, eight times a subset; the other process is given "
        f"{in_bytes(BOUND)}. Waiting for storage and network, and repeated work, are not in it.",
    )
