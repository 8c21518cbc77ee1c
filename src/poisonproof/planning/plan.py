"""Which method, which k and d? What a pilot's own votes certify on held-out training samples, and what that recommends.

A pilot is work, not time: the same data and question get the same plan on any machine, under any load. Its numbers are
estimates, and none of them enters a certificate. That a pilot chose from this data does, as a premise.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.certify import certify
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.votes import Votes
from poisonproof.data.dataset import Dataset
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.inspection import describe
from poisonproof.learners.table import TableClassifier
from poisonproof.premises import PremiseWarning
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.hashing import hash_numbers
from poisonproof.samples.labels import label_cells, one_by_one, read_labels
from poisonproof.system.files import read_record, write_record
from poisonproof.system.progress import counted

FORMAT = "poisonproof plan 4"
ENSEMBLE = "ensemble"
SEED = 0x70696C6F74
FEWEST_SAMPLES = 60
MOST_HELD_OUT = 2000
MOST_MEMBERS = 96  # base classifiers of one candidate, before they are doubled
MOST_SPREAD = 128  # base classifiers of a candidate with d > 1, which are all trained
DEGREES = (1, 4)
STEP = 1.5
GROUPS = 8  # of base classifiers, each left out once to tell how much depends on them
LARGE_ERROR = 0.03
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """One way to vote, and what the pilot found of it.

    ``clean`` and ``certified`` are shares of held-out samples, the latter at the plan's attack size (pointwise);
    ``clean_balanced`` and ``certified_balanced`` are means over classes, ``error`` the standard error of the last.
    ``n_members`` base classifiers were trained for it.
    """

    method: str
    parameters: dict[str, float]
    n_members: int
    clean: float
    certified: float
    clean_balanced: float
    certified_balanced: float
    error: float

    @property
    def words(self) -> str:
        """The method with its parameters."""
        return f"{self.method} ({', '.join(f'{name} = {value:g}' for name, value in self.parameters.items())})"

    @property
    def options(self) -> list[str]:
        """What to type for it."""
        named = ([f"--{name.replace('_', '-')}", f"{value:g}"] for name, value in self.parameters.items())
        return ["--method", self.method, *(word for words in named for word in words)]

    @property
    def rows_fed(self) -> float:
        """How often a run feeds a training row to a base classifier."""
        return self.parameters.get("d", 0.0)


@dataclass(frozen=True)
class Plan:
    """What `plan` found.

    Attributes
    ----------
    data : dict
        The name of the data set and the digests of its training samples.
    learner, learner_name : str
        In full, and as the command line calls it.
    attack_size : int
    unit : str
        What it counts.
    n_train, n_held_out, n_classes : int
    majority_share : float
        Of the training labels.
    constant : float
        What a constant answer certifies on average over classes, at every attack size.
    candidates : tuple of Candidate
        By one half of the held-out samples.
    chosen : int or None
        The number of the recommended one; None where nothing certifies more than a constant answer.
    promise : Candidate or None
        The same by the other half, which did not choose: the best of many is promised too high by what chose it.
    within_reach : int
        The largest attack size, up to this one, at which some candidate certifies more than a constant answer.
    """

    data: dict[str, str]
    learner: str
    learner_name: str | None
    attack_size: int
    unit: str
    n_train: int
    n_held_out: int
    n_classes: int
    majority_share: float
    constant: float
    candidates: tuple[Candidate, ...]
    chosen: int | None
    promise: Candidate | None
    within_reach: int

    @property
    def choice(self) -> Candidate:
        """The recommended way to vote; one sentence if there is none."""
        if self.promise is None:
            raise PoisonproofError(self.why_nothing, code="plan.nothing")
        return self.promise

    @property
    def why_nothing(self) -> str:
        """Why nothing is recommended, and what to try."""
        best = max(one.certified_balanced for one in self.candidates)
        smaller = f"--attack-size {self.within_reach}" if self.within_reach else "another learner"
        return (
            f"At attack size {self.attack_size} nothing certifies more than a constant answer does (on average over "
            f"classes at best {100 * best:.1f} %, a constant answer {100 * self.constant:.1f} %): try {smaller}, or "
            "more data of the rare classes; --k N runs anyway."
        )

    @property
    def why(self) -> str:
        """Why this was chosen, and what it promises."""
        one = self.choice
        others = [rival for rival in best_of_each(self.candidates) if rival.method != one.method]
        beside = "".join(f"; {rival.words} {100 * rival.certified_balanced:.1f} %" for rival in others)
        promise = f"{100 * one.certified_balanced:.1f} ± {100 * one.error:.1f} % on average over classes"
        return (
            f"{one.words}: on {self.n_held_out} held-out training samples it certifies {promise} at attack size "
            f"{self.attack_size} (estimated){beside}"
        )

    @property
    def remarks(self) -> list[str]:
        """What a reader must know of these figures."""
        if self.promise is None or self.promise.error <= LARGE_ERROR:
            return []
        return [
            f"The promise has a standard error of {100 * self.promise.error:.1f} points: {self.n_held_out} held-out "
            "samples, of classes this small, tell no more."
        ]

    def followed(self) -> dict[str, Any]:
        """What a run that follows this plan keeps of it."""
        rest = [one for at, one in enumerate(self.candidates) if at != self.chosen and one.method != self.choice.method]
        rest = rest or [one for at, one in enumerate(self.candidates) if at != self.chosen]
        next_best = " ".join(best_of_each(rest)[0].options) if rest else None
        return {"attack_size": self.attack_size, "why": self.why, "next_best": next_best, **asdict(self.choice)}

    def check(self, dataset: Dataset, estimator: Any = None) -> None:
        """Refuse training data that the pilot was not made on, and another learner of base classifiers."""
        if estimator is not None and describe(estimator) != self.learner:
            raise PoisonproofError(
                f"The plan was made with the learner {self.learner}. Got {describe(estimator)} instead.",
                code="plan.learner",
            )
        if dataset.digests(["train"]) != {name: value for name, value in self.data.items() if name != "name"}:
            raise PoisonproofError(
                f"The plan was made on other training data than {dataset.name} is now; make a new one with "
                "`poisonproof plan`, or give --k and --d yourself.",
                code="plan.data",
            )

    def save(self, path: str | Path) -> None:
        """Write the plan, with its digest."""
        write_record(path, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan; refuse one that was altered."""
        record = read_record(path)
        if record.get("format") != FORMAT:
            raise PoisonproofError(
                f"{path} is no plan; `poisonproof plan DATA --attack-size M --out {path}` writes one.",
                code="plan.format",
            )
        try:
            facts = {name: value for name, value in record.items() if name not in ("format", "digest")}
            facts["candidates"] = tuple(Candidate(**one) for one in facts["candidates"])
            facts["promise"] = None if facts["promise"] is None else Candidate(**facts["promise"])
            return cls(**facts)
        except (TypeError, KeyError) as error:
            raise DamagedFileError(f"{path} is no plan: {error}.") from None


def plan(
    data: Dataset,
    attack_size: int,
    estimator: Any = None,
    *,
    ks: Sequence[int] | None = None,
    ds: Sequence[int] = DEGREES,
    methods: Sequence[str] | None = None,
    features: Any = None,
    learner_name: str | None = None,
    n_jobs: int | None = None,
) -> Plan:
    """Try who should vote, and how, on held-out training samples; recommend one. Test samples are not looked at.

    A fifth of the training samples (at most 2,000), the ones with the smallest salted hashes of their content, is held
    out from every candidate. One half of it chooses: the best balanced certified fraction and, of those within its
    standard error, the one that feeds the fewest rows. The other half says what to expect.

    Base classifiers are tried at k = 2M + 1 and then at half as many again each time, up to 32 M or subsets of eight
    samples, until the figure has fallen twice. Of each k at most 96 are trained, on subsets as large as a run's, and
    more only while chance in them is larger than chance in the samples, and all that was trained stays below twice the
    base classifiers of that k. The votes of m of k base classifiers certify M poisons by a lead of 2 M m / k.

    Parameters
    ----------
    data : Dataset
    attack_size : int
        How many poisons predictions should withstand.
    estimator : scikit-learn classifier or pooled learner, optional
    ks, ds : sequences of int
        The k to try, otherwise as above; and the spread degrees, of which those above 1 are tried with few base
        classifiers only.
    methods : sequence of str, optional
        Who may vote, as ``--method`` names them; otherwise all there are.
    features : feature map, optional
        The map of samples that vote; otherwise the one for this kind of data.
    learner_name : str, optional
        What the command line calls the learner, for the run.
    n_jobs : int, optional
    """
    methods = registry.names("elections") if methods is None else methods
    pilot = _Pilot.of(data, attack_size, TableClassifier() if estimator is None else estimator, n_jobs)
    tried = list(pilot.others(features, methods))
    if ENSEMBLE in methods:
        tried += list(pilot.ensembles(_given_ks(ks, attack_size), ds))
    if not tried:
        raise PoisonproofError(
            f"No method can be tried at attack size {attack_size} with so few training samples.",
            code="plan.few-samples",
        )
    candidates = tuple(one.figures(pilot, attack_size, pilot.choosing) for one in tried)
    chosen = _chosen(candidates, pilot.constant)
    promise = None if chosen is None else tried[chosen].figures(pilot, attack_size, ~pilot.choosing)
    return Plan(
        {"name": data.name, **data.digests(["train"])},
        describe(pilot.estimator),
        learner_name,
        attack_size,
        "training samples" if data.train.groups is None else "contributors",
        len(data.train),
        len(pilot.held_out),
        len(pilot.classes),
        pilot.majority_share,
        pilot.constant,
        candidates,
        chosen,
        promise,
        attack_size if chosen is not None else _within_reach(tried, pilot, attack_size),
    )


def best_of_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best candidate of each method by the balanced figure, the best of all at the head."""
    best: dict[str, Candidate] = {}
    for one in sorted(candidates, key=lambda one: -one.certified_balanced):
        best.setdefault(one.method, one)
    return list(best.values())


def _given_ks(ks: Sequence[int] | None, attack_size: int) -> list[int] | None:
    if ks is None:
        return None
    if not ks or min(ks) <= 2 * attack_size:
        raise PoisonproofError(
            f"Every k must be {2 * attack_size + 1} or more, above twice the attack size, since nothing is certified "
            f"beyond k/2. Got {list(ks)}.",
            code="plan.k",
        )
    return sorted(set(ks))


def _chosen(candidates: Sequence[Candidate], constant: float) -> int | None:
    best = max(candidates, key=lambda one: one.certified_balanced)
    if best.certified_balanced - best.error <= constant:
        return None
    level = [at for at, one in enumerate(candidates) if one.certified_balanced >= best.certified_balanced - best.error]
    return min(level, key=lambda at: (candidates[at].rows_fed, -candidates[at].certified_balanced))


def _within_reach(tried: Sequence[Tried], pilot: _Pilot, attack_size: int) -> int:
    for size in range(attack_size - 1, 0, -1):
        if _chosen([one.figures(pilot, size, pilot.choosing) for one in tried], pilot.constant) is not None:
            return size
    return 0


@dataclass(frozen=True, eq=False)
class Tried:
    """What one candidate answers for the held-out samples, with estimated radii; and the standard error that too few
    base classifiers leave to its balanced figure."""

    method: str
    parameters: dict[str, float]
    n_members: int
    prediction: NDArray[np.int64]
    radius: NDArray[np.int64]
    member_error: float = 0.0

    def figures(self, pilot: _Pilot, attack_size: int, part: NDArray[np.bool_]) -> Candidate:
        """Its shares at an attack size, on a part of the held-out samples."""
        truth = pilot.truth[part]
        right = self.prediction[part] == truth
        certified = right & (self.radius[part] >= attack_size)
        sizes = np.bincount(truth)
        occur = np.flatnonzero(sizes)

        def by_class(which: NDArray[np.bool_]) -> NDArray[np.float64]:
            return np.asarray(np.bincount(truth, which, len(sizes))[occur] / sizes[occur])

        shares = by_class(certified)
        smoothed = (shares * sizes[occur] + 1) / (sizes[occur] + 2)  # a class that is wholly right is not certain
        of_rows = np.sqrt((smoothed * (1 - smoothed) / sizes[occur]).sum()) / len(occur)
        return Candidate(
            self.method,
            self.parameters,
            self.n_members,
            float(right.mean()),
            float(certified.mean()),
            float(by_class(right).mean()),
            float(shares.mean()),
            float(math.hypot(of_rows, self.member_error)),
        )


@dataclass(frozen=True, eq=False)
class _Pilot:
    """The training data of a pilot: which rows are trained on, in the order in which they are, and which held out.

    ``choosing`` marks the half of the held-out rows that chooses. With contributors, whole ones are held out.
    """

    data: Dataset
    attack_size: int
    estimator: Any
    n_jobs: int | None
    classes: list[Any]
    trained: NDArray[np.int64]
    owners: NDArray[np.int64]
    held_out: NDArray[np.int64]
    truth: NDArray[np.int64]
    choosing: NDArray[np.bool_]
    majority_share: float
    constant: float

    @classmethod
    def of(cls, data: Dataset, attack_size: int, estimator: Any, n_jobs: int | None) -> _Pilot:
        """Hold rows out, by a salted hash of what they or their contributors are; refuse what cannot be planned."""
        if attack_size < 1:
            raise PoisonproofError(
                f"The attack size must be at least 1, for at 0 there is nothing to plan. Got {attack_size}.",
                code="plan.attack-size",
            )
        declared = None if data.classes is None else data.classes.tolist()
        read = read_labels(data.train.labels, declared)
        if data.train.groups is None:
            hashes = data.train.samples.hashes(SEED)
        else:
            hashes = hash_numbers(cell_codes(label_cells(one_by_one(data.train.groups)))[:, None], SEED)
        _, owners = np.unique(hashes, return_inverse=True)  # rows of one contributor, or of the same content
        n_units = int(owners.max(initial=-1)) + 1
        _check(data, read.codes, attack_size, len(data.train) if data.train.groups is None else n_units)
        counts = np.bincount(read.codes[read.codes >= 0])
        order = np.argsort(owners, kind="stable")
        last = owners[order[min(MOST_HELD_OUT, len(order) // 5)]]
        held_out = order[(owners[order] < last) & (read.codes[order] >= 0)]
        return cls(
            data,
            attack_size,
            estimator,
            n_jobs,
            read.classes.tolist(),
            order[owners[order] >= last],
            owners,
            held_out,
            read.codes[held_out],
            owners[held_out] % 2 == 0,
            int(counts.max()) / int(counts.sum()),
            1 / int(np.count_nonzero(counts)),
        )

    def others(self, features: Any, methods: Sequence[str]) -> Iterator[Tried]:
        """Voters that are no base classifiers, by the pilots of the registry."""
        for name, pilot in registry.every("pilots"):
            if {*methods} - {ENSEMBLE}:
                log.info("pilot of %s", name)
                found = pilot(self.data, np.sort(self.trained), self.held_out, self.attack_size, features)
                yield from (one for one in found if one.method in methods)

    def ensembles(self, ks: Sequence[int] | None, ds: Sequence[int]) -> Iterator[Tried]:
        """Base classifiers, at the k given or at larger and larger ones until the figure has fallen twice."""
        tried_ks = _tried_ks(self.attack_size, len(self.data.train)) if ks is None else ks
        best, falls, spent = 0.0, 0, 0
        for k in counted(tried_ks, len(tried_ks)):
            found = [self._ensemble(k, 1, spent)] if 1 in ds or ks is None else []
            found += [self._ensemble(k, d, spent) for d in ds if d > 1 and (ks is not None or d * k <= MOST_SPREAD)]
            spent += sum(one.n_members for one in found)
            yield from found
            figure = max(one.figures(self, self.attack_size, self.choosing).certified_balanced for one in found)
            best, falls = max(best, figure), falls + 1 if figure < best else 0
            if ks is None and falls == 2:
                return

    def _ensemble(self, k: int, d: int, spent: int) -> Tried:
        """At most 96 of the base classifiers at this k, each on as many samples as it would have in a run.

        With d = 1 the subsets of m of k base classifiers hold the share m / k of all rows. With d > 1, all are trained.
        """
        n_rows = len(self.data.train)
        most = max(1, round(k * len(self.trained) / n_rows))
        m = min(most, MOST_MEMBERS) if d == 1 else most
        while True:
            log.info("pilot at k = %d, d = %d: %d base classifiers", k, d, m * d)
            rows = self.trained[: round(m * n_rows / k)] if m < most else self.trained
            votes = self._votes(rows, m, d)
            one = self._counted(votes, k, m, d)
            if m == most:
                return one
            groups = np.arange(m) % GROUPS
            folds = []
            for left_out in range(GROUPS):
                part = votes.matrix[:, groups != left_out]
                fewer = Votes(part, Spread.random(part.shape[1], 1), votes.classes)
                fold = self._counted(fewer, k, part.shape[1], 1)
                folds.append(fold.figures(self, self.attack_size, self.choosing).certified_balanced)
            variance = (GROUPS - 1) / GROUPS * float(((np.array(folds) - np.mean(folds)) ** 2).sum()) * (1 - m / most)
            of_rows = one.figures(self, self.attack_size, self.choosing).error
            spent += m
            if math.sqrt(variance) <= of_rows or spent + 2 * m > 2 * k:
                return replace(one, member_error=math.sqrt(variance))
            m = min(2 * m, most)

    def _votes(self, rows: NDArray[np.int64], m: int, d: int) -> Votes:
        """The votes of m·d base classifiers, trained on these rows, on the held-out ones."""
        part, data = self.data.train.take(np.sort(rows)), self.data
        model = FiniteAggregationClassifier(
            self.estimator,
            k=m,
            d=d,
            split=Split("content" if part.groups is None else "group", data.dtype, data.n_features),
            classes=self.classes,
            n_jobs=self.n_jobs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            model.fit(part.X, part.labels, part.groups)
            return model.votes(data.train.take(self.held_out).X)

    def _counted(self, votes: Votes, k: int, m: int, d: int) -> Tried:
        """Predictions, and the radii that k base classifiers would give whose votes are like those of these m."""
        votes = Votes(votes.matrix, votes.spread, votes.classes, classes_inferred=self.data.classes is None)
        certificate = certify(votes)
        by_theorem = certificate.radius * k // m
        by_lead = certificate.margin * k // (2 * m * d)
        return Tried(
            ENSEMBLE, {"k": k, "d": d}, m * d, certificate.prediction, np.maximum(by_theorem, by_lead).astype(np.int64)
        )


def _check(data: Dataset, codes: NDArray[np.int64], attack_size: int, n_units: int) -> None:
    if n_units < FEWEST_SAMPLES:
        units = "training samples" if data.train.groups is None else "contributors"
        raise PoisonproofError(
            f"A pilot needs at least {FEWEST_SAMPLES} {units}. {data.name} has {n_units}; --k N runs without one.",
            code="plan.few-samples",
        )
    if (n_classes := len(np.unique(codes[codes >= 0]))) < 2:
        raise PoisonproofError(
            f"A pilot needs training samples of two classes or more. {data.name} has {n_classes}.", code="plan.classes"
        )
    largest = (n_units // 2 - 1) // 2  # k exceeds twice the attack size, and a subset holds two samples on average
    if attack_size > largest:
        raise PoisonproofError(
            f"The largest attack size that {n_units} training samples can withstand usefully is {largest}, for k must "
            f"exceed twice the attack size, and subsets need two samples on average. Got {attack_size}; --k N runs "
            "anyway.",
            code="plan.out-of-reach",
        )


def _tried_ks(attack_size: int, n_train: int) -> list[int]:
    """From the smallest k that can certify the attack size, half as many again each time."""
    ks = [2 * attack_size + 1]
    while (k := math.ceil(STEP * ks[-1])) <= min(32 * attack_size, n_train // 8):
        ks.append(k)
    return ks
