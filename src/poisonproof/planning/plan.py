"""Which k, d and spread? What a small pilot on the training data predicts for each, and which of them it recommends.

All numbers here are estimates, and none of them enters a certificate. That k and d were chosen from this data does: a
run that follows a plan says so among its premises.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.data import Dataset
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.inspection import describe
from poisonproof.learners.table import TableClassifier
from poisonproof.planning.costs import Site, bill
from poisonproof.planning.forecast import predicted_fraction
from poisonproof.planning.pilot import Bench, Pilot
from poisonproof.samples.convert import take_rows
from poisonproof.samples.labels import label_cells, one_by_one
from poisonproof.system.files import read_record, write_record
from poisonproof.system.machine import resident_bytes
from poisonproof.system.progress import counted
from poisonproof.training.engine import engine_of

FORMAT = "poisonproof plan 3"  # 2: digests of 64-bit hashes
FEWEST_SAMPLES = 60
DEGREES = (1, 4, 16)
DESIGN_DEGREE = 8
MOST_DESIGNED = 6000  # base classifiers; the tight certificate of larger designs takes long to predict
STEPS = 7
MOST_PILOTS = 8
SECONDS = 90.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """One ensemble that could be trained, and what is predicted of it.

    ``clean`` and ``certified`` are shares of test samples, the latter at the plan's attack size (pointwise);
    ``clean_balanced`` and ``certified_balanced`` are the same as means over classes. ``error`` is the standard error of
    ``certified_balanced`` that the pilot leaves, test samples not counted.
    """

    k: float
    d: int
    spread: str
    method: str
    n_members: int
    subset_size: float
    piloted: bool
    clean: float
    certified: float
    clean_balanced: float
    certified_balanced: float
    error: float
    seconds: float
    memory: float
    disk: float


@dataclass(frozen=True)
class PilotRow:
    """What was trained to predict all that."""

    k: int
    n_members: int
    n_asked: int
    base_accuracy: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What `make_plan` found: rows in increasing k, and the number of the recommended one.

    None is recommended where no row is predicted to certify more, on average over classes, than a constant answer
    does: ``constant`` of it, at every attack size. ``majority_share`` is that of the training labels.
    """

    data: dict[str, str]
    learner: str
    learner_name: str | None
    attack_size: int
    unit: str
    n_train: int
    n_test: int
    n_classes: int
    keep_members: bool
    pilots: tuple[PilotRow, ...]
    rows: tuple[Row, ...]
    recommended: int | None
    majority_share: float
    constant: float
    remarks: tuple[str, ...]

    @property
    def choice(self) -> Row:
        """The recommended row, if there is one."""
        if self.recommended is None:
            raise PoisonproofError(f"The plan recommends nothing: {self.why_nothing}")
        return self.rows[self.recommended]

    @property
    def why_nothing(self) -> str:
        """Why no row is recommended, and what to try."""
        best = max(row.certified_balanced for row in self.rows)
        return (
            f"at attack size {self.attack_size} no k is predicted to certify more than a constant answer does (on "
            f"average over classes at best {100 * best:.1f} %, a constant answer {100 * self.constant:.1f} %); try a "
            "smaller attack size, another learner, or more data of the rare classes."
        )

    def followed(self) -> dict[str, Any]:
        """What a run that follows this plan keeps of it: the attack size and the recommended row."""
        return {"attack_size": self.attack_size, **asdict(self.choice)}

    def check(self, dataset: Dataset, estimator: Any) -> None:
        """Refuse training data that the pilot was not made on, and another learner."""
        if describe(estimator) != self.learner:
            raise PoisonproofError(
                f"The plan was made with the learner {self.learner}. Got {describe(estimator)} instead."
            )
        if dataset.digests(["train"]) != {name: value for name, value in self.data.items() if name != "name"}:
            raise PoisonproofError(
                f"The plan was made on other training data than {dataset.name} is now; make a new one with "
                "`poisonproof plan`, or give --k and --d yourself."
            )

    def save(self, path: str | Path) -> None:
        """Write the plan, with its digest."""
        write_record(path, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan; refuse one that was altered."""
        return cls.from_dict(read_record(path), str(path))

    @classmethod
    def from_dict(cls, record: dict[str, Any], where: str) -> Plan:
        """The plan of a record, wherever it stood."""
        if record.get("format", FORMAT) != FORMAT:
            raise PoisonproofError(
                f"{where} is no plan; `poisonproof plan DATA --attack-size M --out {where}` writes one."
            )
        try:
            facts = {name: value for name, value in record.items() if name not in ("format", "digest")}
            parts = {"pilots": PilotRow, "rows": Row}
            facts |= {name: tuple(make(**part) for part in facts[name]) for name, make in parts.items()}
            plan = cls(**{**facts, "remarks": tuple(facts["remarks"])})
            plan.rows[plan.recommended or 0]  # is there
        except (TypeError, KeyError, IndexError) as error:
            raise DamagedFileError(f"{where} is no plan: {error}.") from None
        return plan


def make_plan(
    dataset: Dataset,
    estimator: Any = None,
    *,
    attack_size: int,
    learner_name: str | None = None,
    ks: Sequence[int] | None = None,
    ds: Sequence[int] = DEGREES,
    designs: bool = True,
    keep_members: bool = True,
    seconds: float = SECONDS,
    n_jobs: int = -1,
) -> Plan:
    """Predict clean accuracy, certified fraction, time, memory and disk for a grid of (k, d, spread); recommend one.

    A few base classifiers are trained at several k, on subsets of the size that they would have in a run, and asked
    about training samples that they were not trained on. Test samples are counted, never looked at.

    Parameters
    ----------
    dataset : Dataset
    estimator : scikit-learn classifier or pooled learner, optional
    attack_size : int
        How many poisons predictions should withstand.
    learner_name : str, optional
        What the command line calls the learner, kept for the run.
    ks : sequence of int, optional
        The k to consider; otherwise some from just above twice the attack size upwards.
    ds : sequence of int
        The spread degrees to consider.
    designs : bool
        Whether to consider designed spreads with the tight certificate as well.
    keep_members : bool
        Whether the run will keep its base classifiers.
    seconds : float
        About how long the pilot may take.
    n_jobs : int
        Workers, of the pilot and of the run.
    """
    learner = TableClassifier() if estimator is None else estimator
    n_train = _check(dataset, attack_size, ks, ds, seconds)
    wanted = _grid(attack_size, n_train) if ks is None else _checked_ks(ks, attack_size, n_train)
    forecast, remarks = run_pilots(
        dataset, learner, attack_size, wanted, keep_members=keep_members, seconds=seconds, n_jobs=n_jobs
    )
    site, pilots = forecast.site, forecast.pilots
    log.info("predicting")
    rows = forecast.rows([k for k in wanted if k >= pilots[0].k], sorted(set(ds)), designs)
    constant = 1 / _labels_that_occur(dataset)
    return Plan(
        {"name": dataset.name, **dataset.digests(["train"])},
        describe(learner),
        learner_name,
        attack_size,
        "training samples" if dataset.train.groups is None else "contributors",
        n_train,
        site.n_test,
        site.n_classes,
        keep_members and not engine_of(learner).pooled,
        tuple(PilotRow(p.k, p.n_members, p.n_asked, p.base_accuracy, p.seconds) for p in pilots),
        tuple(rows),
        _best(rows, constant),
        _majority_share(dataset),
        constant,
        tuple(remarks),
    )


def run_pilots(
    dataset: Dataset,
    learner: Any,
    attack_size: int,
    ks: Sequence[int],
    *,
    keep_members: bool = True,
    seconds: float = SECONDS,
    n_jobs: int = -1,
) -> tuple[Forecast, list[str]]:
    """Pilots at some of these k, and what could not be tried."""
    n_train, resident = len(dataset.train), resident_bytes()
    bench = Bench(
        learner,
        dataset.train.X,
        dataset.train.labels,
        dataset.train.groups,
        None if dataset.classes is None else dataset.classes.tolist(),
        Split("content" if dataset.train.groups is None else "group", dataset.dtype, dataset.n_features),
        len(dataset.test),
        n_jobs,
        keep_members and not engine_of(learner).pooled,
    )
    start = bench.start(ks[-1])
    pilots, remarks = _pilots(bench, ks, seconds)
    n_classes = pilots[0].shares.n_classes
    return Forecast(pilots, attack_size, _site(bench, n_train, n_classes, resident, start)), remarks


def _check(dataset: Dataset, attack_size: int, ks: Sequence[int] | None, ds: Sequence[int], seconds: float) -> int:
    n_train = len(dataset.train)
    if attack_size < 1:
        raise PoisonproofError(
            f"The attack size must be at least 1, for at 0 there is nothing to plan. Got {attack_size}."
        )
    if n_train < FEWEST_SAMPLES:
        raise PoisonproofError(
            f"A pilot needs at least {FEWEST_SAMPLES} training samples. {dataset.name} has {n_train}."
        )
    n_classes = _labels_that_occur(dataset)
    if n_classes < 2:
        raise PoisonproofError(
            f"A pilot needs training samples of two classes or more. {dataset.name} has {n_classes}."
        )
    if not len(dataset.test):
        raise PoisonproofError(f"{dataset.name} has no test samples; there would be nothing to certify.")
    if not ks and 2 * attack_size + 1 > n_train // 2:
        raise PoisonproofError(
            f"The attack size must be below a quarter of the {n_train} training samples: k must exceed twice the "
            f"attack size, and subsets need two samples on average. Got {attack_size}."
        )
    if not ds or min(ds) < 1:
        raise PoisonproofError(f"Spread degrees must be whole numbers of 1 or more. Got {list(ds)}.")
    if not seconds > 0:
        raise PoisonproofError(f"The seconds for a pilot must be more than 0. Got {seconds}.")
    return n_train


def _labels_that_occur(dataset: Dataset) -> int:
    held = set(label_cells(one_by_one(dataset.train.labels))) - {None}
    return len(held if dataset.classes is None else held & set(label_cells(dataset.classes.tolist())))


def _majority_share(dataset: Dataset) -> float:
    counts = Counter(label_cells(one_by_one(dataset.train.labels)))
    return max(counts.values()) / counts.total()


def _grid(attack_size: int, n_train: int) -> list[int]:
    """From a little above twice the attack size up to 32 times, in equal steps of log k, with subsets of 8 or more."""
    low = 2 * attack_size + max(1, attack_size // 2)
    high = min(32 * attack_size, n_train // 8)
    if high <= low:
        low, high = 2 * attack_size + 1, n_train // 2
    return sorted({round(k) for k in np.geomspace(low, high, STEPS)})


def _checked_ks(ks: Sequence[int], attack_size: int, n_train: int) -> list[int]:
    chosen = sorted(set(ks))
    if not chosen or chosen[0] <= 2 * attack_size:
        raise PoisonproofError(
            f"Every k must be {2 * attack_size + 1} or more, above twice the attack size, since nothing is certified "
            f"beyond k/2. Got {list(ks)}."
        )
    if chosen[-1] > n_train // 2:
        log.warning("with k = %d subsets have fewer than two of the %d training samples", chosen[-1], n_train)
    return chosen


def _pilots(bench: Bench, wanted: Sequence[int], seconds: float) -> tuple[list[Pilot], list[str]]:
    """Pilots at every k, of many at every second one, small k (large subsets) first. What is not tried is said."""
    chosen = list(wanted) if len(wanted) <= MOST_PILOTS else sorted({*wanted[::2], wanted[-1]})
    pilots: list[Pilot] = []
    untried: list[tuple[int, str]] = []
    left = seconds
    for at, k in enumerate(counted(chosen, len(chosen))):
        log.info("pilot at k = %d", k)
        started = time.perf_counter()
        try:
            pilot = bench.pilot(k, left / (len(chosen) - at), insist=not pilots and k == chosen[-1])
        except MemoryError as error:
            untried.append((k, f"one base classifier takes too much memory ({error})"))
            continue
        left -= time.perf_counter() - started
        if pilot is not None:
            pilots.append(pilot)
        else:
            untried.append((k, "its base classifiers take too long for this pilot; more --seconds would reach them"))
    if not pilots:
        raise PoisonproofError(f"No k can be tried: at k = {untried[-1][0]}, {untried[-1][1]}.")
    smaller = [(k, why) for k, why in untried if k < pilots[0].k]
    return pilots, [f"k below {pilots[0].k} was not tried: at k = {k}, {why}." for k, why in smaller[-1:]]


@dataclass(frozen=True)
class Forecast:
    """What the pilots say about any ensemble within their range."""

    pilots: Sequence[Pilot]
    attack_size: int
    site: Site

    def rows(self, ks: Sequence[int], ds: Sequence[int], designs: bool) -> list[Row]:
        """Random spreads with every k and d, and the designed spread nearest to each k."""
        piloted = {pilot.k for pilot in self.pilots}
        rows = []
        for k in ks:
            error = self._error(k)
            rows += [self._row(Spread.random(k, d), "random", error, piloted=k in piloted) for d in ds]
        named = {design.name: design for k in ks if designs for design in Spread.suggest(k, DESIGN_DEGREE)[:1]}
        for name, design in named.items():
            if design.n_subsets <= MOST_DESIGNED and 0.9 * ks[0] <= design.k <= 1.1 * ks[-1]:
                rows.append(self._row(Spread.designed(design), name, self._error(round(design.k)), piloted=False))
        return sorted(rows, key=lambda row: (row.k, row.d))

    def _near(self, k: float) -> list[tuple[Pilot, float]]:
        """The pilots on both sides of k, each with its weight by log k."""
        at = int(np.searchsorted([pilot.k for pilot in self.pilots], k))
        if at == 0 or at == len(self.pilots) or self.pilots[at].k == k:
            return [(self.pilots[min(at, len(self.pilots) - 1)], 1.0)]
        low, high = self.pilots[at - 1], self.pilots[at]
        weight = float(np.log(k / low.k) / np.log(high.k / low.k))
        return [(low, 1 - weight), (high, weight)]

    def fractions(
        self, spread: Spread, name: str, attack_sizes: Sequence[int], *, balanced: bool = False
    ) -> NDArray[np.float64]:
        """The certified fraction (pointwise) at these attack sizes, balanced or not; at 0, the clean accuracy."""
        method = "dpa-bound" if name == "random" else "tight"
        parts = [
            weight
            * predicted_fraction(pilot.balanced if balanced else pilot.shares, spread, attack_sizes, method=method)
            for pilot, weight in self._near(spread.k)
        ]
        return np.asarray(np.sum(parts, axis=0))

    def _row(self, spread: Spread, name: str, error: float, *, piloted: bool) -> Row:
        sizes = [0, self.attack_size]
        clean, certified = self.fractions(spread, name, sizes)
        clean_balanced, certified_balanced = self.fractions(spread, name, sizes, balanced=True)
        return Row(
            spread.k,
            spread.d,
            name,
            "finite-aggregation" if name == "random" else "tight",
            spread.n_subsets,
            self.site.n_train / spread.k,
            piloted,
            float(clean),
            float(certified),
            float(clean_balanced),
            float(certified_balanced),
            error,
            **asdict(bill(self.pilots, spread.n_subsets, spread.k, self.site)),
        )

    def _error(self, k: int) -> float:
        """Standard error from the samples asked and, by leaving parts of the base classifiers out, from the latter."""
        variance = 0.0
        for pilot, weight in self._near(k):
            plain = Spread.random(k, 1)
            folds = np.array([predicted_fraction(fold, plain, [self.attack_size])[0] for fold in pilot.folds])
            members = (len(folds) - 1) / len(folds) * ((folds - folds.mean()) ** 2).sum()
            variance += weight**2 * (folds.mean() * (1 - folds.mean()) / pilot.n_effective + members)
        return float(np.sqrt(variance))


def _best(rows: Sequence[Row], constant: float) -> int | None:
    """The largest balanced certified fraction; of those within its standard error, the one that trains fastest.

    None if even that is not above what a constant answer has.
    """
    best = max(rows, key=lambda row: row.certified_balanced)
    floor = max(best.certified_balanced - best.error, constant)
    level = [at for at, row in enumerate(rows) if row.certified_balanced >= floor]
    if best.certified_balanced <= constant:
        return None
    return min(level, key=lambda at: (rows[at].seconds, -rows[at].certified_balanced))


def _site(bench: Bench, n_train: int, n_classes: int, resident: int, start: float) -> Site:
    samples = bench.split.samples(take_rows(bench.X, np.arange(min(100, n_train))))
    sample_bytes = float(np.mean([len(samples.key(row)) for row in range(len(samples))]))
    resident = max(1 << 26, int(resident - (n_train + bench.n_test) * sample_bytes))
    workers = effective_n_jobs(bench.n_jobs)
    return Site(n_train, bench.n_test, n_classes, sample_bytes, workers, start, resident)
