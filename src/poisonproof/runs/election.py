"""Who votes in a run, and all that only those voters know: base classifiers here, others in slices.

`poisonproof.runs.run.run` walks one way whoever votes: voters are prepared on the data, asked about the test samples,
kept, and opened again. Each kind of voters is a class, found by the name of its method in `poisonproof.registry`.
"""

from __future__ import annotations

import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.certify import Certificate, Method, certify
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.subsets import DIGEST_BYTES
from poisonproof.core.votes import Votes, rankings_file, vote_dtype
from poisonproof.data.dataset import Dataset
from poisonproof.data.out_of_core import StoredSamples, StoredSource
from poisonproof.display import shown
from poisonproof.errors import DamagedFileError, PoisonproofError, WrongTypeError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier, fitted_but_for_members
from poisonproof.estimators.prepared import prepare_dataset, spread_premise
from poisonproof.learners.inspection import describe
from poisonproof.premises import Premise, PremiseWarning
from poisonproof.runs.manifest import Identity, RunSettings
from poisonproof.runs.undefended import TOO_LARGE, Undefended
from poisonproof.samples.convert import digest_of
from poisonproof.samples.kinds import Samples
from poisonproof.samples.labels import class_array
from poisonproof.system.files import open_arrays, read_record, reading, write_arrays, write_whole
from poisonproof.system.machine import environment
from poisonproof.system.progress import progress
from poisonproof.training.engine import (
    Block,
    Known,
    Refusal,
    Resources,
    Saved,
    VoteBlock,
    VoteJob,
    each_once,
    engine_named,
    engine_of,
)
from poisonproof.training.members import UnansweredError, check_answered, failure_notices
from poisonproof.training.model_files import ESTIMATOR, RECORD, save_model_record

ENSEMBLE = "ensemble"
SCRATCH = "scratch"
RANKINGS = rankings_file(Path("votes.npy")).name
log = logging.getLogger(__name__)
ROWS_AT_ONCE = 1 << 12
MOST_VOTES = 1_000_000  # beyond which "tight" is not worked out for a picture: some seconds
NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)


class Election(ABC):
    """The voters of one run, prepared on its data; whatever is wrong with them or the data is said here.

    Attributes
    ----------
    identity : Identity
        What the run is a run of.
    test : Samples
        The test samples in canonical form.
    written : dict
        SHA-256 of files that were written, where it is known, by their names in the folder of the run.
    """

    result: ClassVar[str]
    """The file that holds what the voters said."""
    kept: ClassVar[tuple[str, ...]]
    """Files about the training data that this kind of voters leaves in the folder, besides votes/ and models/."""
    trains: ClassVar[bool] = False
    """Whether voters are trained by a learner, and so may differ in the last bit on another machine."""
    identity: Identity
    split: Split
    n_train: int
    test: Samples

    @abstractmethod
    def __init__(self, dataset: Dataset, model: Any, settings: RunSettings) -> None:
        self.dataset, self.model, self.settings = dataset, model, settings
        self.written: dict[str, str] = {}

    def _identity(self, learner: str, classes: NDArray[Any], **more: Any) -> Identity:
        dataset, schema = self.dataset, self.dataset.schema
        return Identity(
            {"name": dataset.name, **dataset.digests()},
            split=self.split.as_dict(),
            learner=learner,
            classes=classes.tolist(),
            votes_only=self.settings.votes_only,
            schema=None if schema is None else schema.as_dict(),
            **more,
        )

    @abstractmethod
    def vote(self, folder: Path, stale: Callable[[int], None]) -> Any:
        """What the voters say of the test samples: what is on disk and still true of the data, the rest made now.

        ``stale`` is told once, before any work, how many voters have to be trained.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Keep the voters, unless the run keeps votes only, and what they have in common."""

    def facts(self, folder: Path) -> dict[str, Any]:
        """What the manifest says of these voters alone: where they were made, and how many have nothing to learn."""
        return {"environments": [environment()], "made_in": []}

    @staticmethod
    @abstractmethod
    def tallies(folder: Path) -> Any:
        """What the voters of a run said, from its folder."""

    def undefended(self) -> Undefended:
        """What the same data give without a proof: where nothing is trained that could be, a strong learner alone."""
        return Undefended.strong_alone(self.dataset, self.split, class_array(self.identity.classes))

    def beside(self, tallies: Any) -> dict[str, Any]:
        """What only these voters have to say in an outcome."""
        return {}

    @staticmethod
    def threats(split: Split) -> dict[str, int | str]:
        """What each act of an attacker costs in units of attack size, in words."""
        return threat_model(split)

    @staticmethod
    @abstractmethod
    def files(folder: Path, identity: Identity) -> list[str]:
        """Results of a complete run that only these voters write, of which its manifest states digests."""

    @staticmethod
    @abstractmethod
    def open(folder: Path, trusted: Sequence[str], n_jobs: int | None, method: str | None) -> Fitted:
        """The voters that a run kept; ``method`` is its certificate's."""

    @staticmethod
    @abstractmethod
    def model_of(
        folder: Path,
        identity: Identity,
        classes: Sequence[Any] | None,
        *,
        n_jobs: int | None,
        estimator: Any,
        encoder: Any,
    ) -> Any:
        """The classifier of a run, not fitted: with the learner or the encoder that the user named again, if any."""

    @staticmethod
    def chosen(parameters: dict[str, Any]) -> list[Premise]:
        """The premises of parameters that a pilot chose from the training data."""
        return []

    # What is said of a run

    @staticmethod
    def tallied(tallies: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Votes by class for these test samples, and behind them the abstentions."""
        return np.column_stack([tallies.take(rows).scores(), np.zeros(len(rows), np.int64)])

    @staticmethod
    def others(tallies: Any, certificate: Certificate) -> list[Certificate]:
        """The certificates that the same votes carry besides this one."""
        return []

    @staticmethod
    def whose_votes(certificate: Certificate) -> str:
        """Whose votes a table beside a test sample shows."""
        return f"Votes: {certificate.voters}"

    @staticmethod
    def in_title(certificate: Certificate) -> str:
        """Who voted, in a title."""
        return certificate.voters

    @staticmethod
    def in_json(certificate: Certificate) -> dict[str, Any]:
        """Who voted, as plain values."""
        return {"method": certificate.method, "election": certificate.election}

    @staticmethod
    def remedy(certificate: Certificate, n_train: int) -> str:
        """What a person can try where a constant answer would do as well."""
        return "try another --method, or more data of the rare classes"

    @staticmethod
    def again(folder: Path, identity: Identity) -> str:
        """That a run did not keep its voters, and how to keep them."""
        return (
            f"The run in {folder} kept no voters (--votes-only); run the same command without it, with another --out."
        )

    @staticmethod
    def updated(certificate: Certificate, n_train: int, change: dict[str, Any] | None) -> str:
        """What an update did; ``change`` is its entry in the manifest, if it changed anything."""
        return f"{certificate.voters}; nothing was trained, all votes are counted."

    @staticmethod
    def in_evidence(certificate: Certificate, manifest: dict[str, Any]) -> VotersInEvidence:
        """What signed evidence says of the voters of a run."""
        assert certificate.election is not None
        return VotersInEvidence(
            f"A classifier without training, in which {certificate.election['words']} "
            f"({manifest['settings']['learner']})",
            certificate.method,
            {"election": dict(manifest["settings"]["election"])},
        )


class VotersInEvidence(NamedTuple):
    """One kind of voters in words and in fields.

    ``sentence`` opens a card; ``parameters`` are what decides an election, as plain values, and nothing that decides
    nothing, because no checker could tell whether it is true.
    """

    sentence: str
    architecture: str
    parameters: dict[str, Any]


class Fitted(ABC):
    """The voters that a run kept, opened to answer about new samples."""

    def __init__(self, model: Any, method: str | None = None) -> None:
        self.model, self.method = model, method

    @property
    @abstractmethod
    def n_voters(self) -> int:
        """How many voters answer about each sample."""

    @abstractmethod
    def ask(self, X: Any) -> Any:
        """What the voters say of some samples, to be put together by `tallies`."""

    @abstractmethod
    def tallies(self, parts: Sequence[Any]) -> Any:
        """Several answers of `ask` as one, ready to certify, to keep or to send."""

    def certify(self, tallies: Any) -> Certificate:
        """The certificate of these tallies, by the run's method."""
        return certify(tallies)

    @abstractmethod
    def shares(self, tallies: Any) -> NDArray[np.float64]:
        """The share of votes for each class, an array (n_test, n_classes); the largest is the prediction's."""


def election_of(model: Any) -> type[Election]:
    """The kind of voters that a classifier has; one sentence if no run can be made of it."""
    name = ENSEMBLE if isinstance(model, FiniteAggregationClassifier) else getattr(type(model), "method", None)
    if name not in registry.names("elections"):
        raise WrongTypeError(
            f"A run is made of a FiniteAggregationClassifier, or of one whose method is among "
            f"{', '.join(registry.names('elections')[1:])}. Got {type(model).__name__}.",
            code="run.classifier",
        )
    kind: type[Election] = registry.find("elections", name)
    return kind


def election_named(method: str | None) -> type[Election]:
    """The kind of voters of a method; of base classifiers if there is none."""
    kind: type[Election] = registry.find("elections", method or ENSEMBLE)
    return kind


def threat_model(split: Split) -> dict[str, int | str]:
    """What each act of an attacker costs, in words, where base classifiers vote."""
    if split.kind == "group":
        covered = {
            "change anything in the training samples of one contributor": 1,
            "move a training sample from one contributor to another": 2,
        }
    else:
        covered = {
            "insert a training sample": split.cost("insert_remove"),
            "remove a training sample": split.cost("insert_remove"),
            "flip the label of a training sample": split.cost("label_flip"),
            "change a training sample in any other way": split.cost("modify"),
        }
    return {**covered, **dict.fromkeys(NOT_COVERED, "not covered")}


class EnsembleElection(Election):
    """Base classifiers, trained on subsets."""

    trains = True
    result = "votes.npy"
    kept = ("votes.npy", "votes.json", "split.npy", RANKINGS, f"models/{RECORD}", f"models/{ESTIMATOR}")
    threats = staticmethod(threat_model)

    def __init__(self, dataset: Dataset, model: FiniteAggregationClassifier, settings: RunSettings) -> None:
        super().__init__(dataset, model, settings)
        self.ensemble = ensemble = prepare_dataset(model, dataset)
        self.split, self.n_train, learner = ensemble.split, ensemble.n_train, ensemble.learner
        engine, n_classes = engine_of(learner), len(ensemble.classes)
        self.identity = self._identity(
            describe(learner),
            ensemble.classes,
            k=ensemble.spread.k,
            d=ensemble.spread.d,
            spread_digest=ensemble.spread.digest,
            rankings=settings.rankings or None,
            pooled=(engine.pooled and not settings.votes_only) or None,
        )
        # A learner for another kind of sample says so here, before a file is written.
        self.test, bound = self.split.samples(dataset.test.samples), settings.max_memory
        self.memory = engine.memory(learner, ensemble.source, self.test, n_classes, rankings=settings.rankings)
        self.memory.check_machine()
        self.resources = Resources(model.n_jobs) if bound is None else self.memory.within(bound, model.n_jobs)
        source = ensemble.source
        if bound is not None and isinstance(source, StoredSource) and ensemble.spread.d > 1:  # else each is read once
            spare = self.memory.spare(bound, self.resources.n_jobs, undefended=settings.undefended)
            stored = replace(source, samples=StoredSamples(source.store, spare))
            self.ensemble = replace(ensemble, source=stored)

    def vote(self, folder: Path, stale: Callable[[int], None]) -> Votes:
        """The votes of all base classifiers; those that are missing are trained."""
        ensemble, settings = self.ensemble, self.settings
        job = VoteJob(
            ensemble.learner,
            ensemble.source,
            ensemble.digests,
            self.test,
            len(ensemble.classes),
            settings.rankings,
            None if settings.votes_only else folder / "models",
            self.resources._replace(scratch=folder / SCRATCH),
        )
        self.cache = VoteCache(job, folder / "votes")
        votes = ensemble.votes(self.cache.complete(stale))
        self.written = self.cache.digests
        return votes

    cache: VoteCache

    def save(self, folder: Path) -> None:
        """Write spread, split, and the record of the base classifiers that are kept."""
        ensemble = self.ensemble
        ensemble.spread.save(folder / "spread.npz")
        write_whole(folder / "split.npy", lambda file: np.save(file, ensemble.subsets.partition))
        self.written["votes.npy"] = read_record(folder / "votes.json")["matrix"]["sha256"]
        if not self.settings.votes_only:
            save_model_record(fitted_but_for_members(self.model, ensemble), folder / "models")

    def facts(self, folder: Path) -> dict[str, Any]:
        """Where base classifiers were trained and voted, and how many subsets are empty."""
        return {**self.cache.environments(), "empty_subsets": int((self.ensemble.source.sizes == 0).sum())}

    def undefended(self) -> Undefended:
        """The same learner, and a strong one, on all data; not where that takes more memory than is allowed."""
        bound = self.settings.max_memory
        if bound is not None and self.memory.undefended > bound:
            log.warning("the undefended learner was not trained on all data: %s", TOO_LARGE)
            return Undefended(no_undefended=TOO_LARGE)
        return Undefended.of(self.ensemble, self.dataset)

    def beside(self, tallies: Votes) -> dict[str, Any]:
        """Accuracy of base classifiers, and sizes of partitions."""
        return {
            "base_accuracy": _base_accuracy(tallies, self.dataset.test.labels),
            "partition_sizes": self.ensemble.subsets.partition_sizes,
        }

    @staticmethod
    def files(folder: Path, identity: Identity) -> list[str]:
        """Votes, spread and split, and the files of base classifiers."""
        names = ["votes.npy", "votes.json", "spread.npz", "split.npy", *([RANKINGS] if identity.rankings else [])]
        if not identity.votes_only:
            files = engine_named(pooled=bool(identity.pooled)).files(identity.n_subsets, folder / "models")
            names += [f"models/{name}" for name in (ESTIMATOR, *files, RECORD)]
        return names

    @staticmethod
    def tallies(folder: Path) -> Votes:
        """The votes of a run."""
        return Votes.load(folder / "votes.npy")

    @staticmethod
    def open(folder: Path, trusted: Sequence[str], n_jobs: int | None, method: str | None) -> FittedEnsemble:
        """The base classifiers of a run."""
        model = FiniteAggregationClassifier.load(folder / "models", trusted=trusted)
        return FittedEnsemble(model.set_params(n_jobs=n_jobs), method)

    @staticmethod
    def model_of(
        folder: Path,
        identity: Identity,
        classes: Sequence[Any] | None,
        *,
        n_jobs: int | None,
        estimator: Any,
        encoder: Any,
    ) -> FiniteAggregationClassifier:
        """An ensemble like that of a run."""
        spread, split = Spread.load(folder / "spread.npz"), Split.from_dict(identity.split)
        return FiniteAggregationClassifier(estimator, spread=spread, split=split, classes=classes, n_jobs=n_jobs)

    @staticmethod
    def chosen(parameters: dict[str, Any]) -> list[Premise]:
        """The spread, if there was a pilot."""
        if not parameters:
            return []
        spread = Spread.random(int(parameters["k"]), int(parameters["d"]))
        return [spread_premise(spread, declared=False)]

    @staticmethod
    def tallied(tallies: Votes, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Votes by class for these test samples, and behind them the abstentions."""
        abstention = len(tallies.classes)
        codes = np.minimum(tallies.matrix[rows], abstention)
        return np.stack([np.bincount(row, minlength=abstention + 1) for row in codes])

    @staticmethod
    def others(tallies: Votes, certificate: Certificate) -> list[Certificate]:
        """By all methods that say something else."""
        methods: list[Method] = []
        if tallies.spread.d > 1:  # with d = 1 all three are the same, and exact
            methods += ["dpa-bound", "finite-aggregation"]
            if tallies.matrix.size <= MOST_VOTES:
                methods.append("tight")
        if tallies.rankings is not None:
            methods.append("run-off")
        return [certify(tallies, method) for method in methods if method != certificate.method]

    @staticmethod
    def whose_votes(certificate: Certificate) -> str:
        """How many base classifiers voted."""
        return f"Votes of {certificate.ensemble.n_subsets:,} base classifiers"

    @staticmethod
    def in_title(certificate: Certificate) -> str:
        """With k and d."""
        spread = certificate.ensemble
        return f"{spread.n_subsets} base classifiers (k = {spread.k:g}, d = {spread.d})"

    @staticmethod
    def in_json(certificate: Certificate) -> dict[str, Any]:
        """By k and d."""
        return {"method": certificate.method, "k": certificate.ensemble.k, "d": certificate.ensemble.d}

    @staticmethod
    def remedy(certificate: Certificate, n_train: int) -> str:
        """A smaller k, another learner, more data."""
        k = certificate.ensemble.k
        each = f"(at k = {k:g} a base classifier learns from about {round(n_train / k):,} samples)"
        smaller = f"a smaller --k {each}, " if k >= 4 else ""
        return f"try {smaller}another --learner, or more data of the rare classes"

    @staticmethod
    def again(folder: Path, identity: Identity) -> str:
        """How to train them again."""
        schema = "" if identity.schema is None else f"--schema {folder / 'schema.json'} "
        return (
            f"The run in {folder} kept no base classifiers (--votes-only); train them with "
            f"`poisonproof run {identity.name} {schema}--k {identity.k:g} --d {identity.d} --out {folder}-models`."
        )

    @staticmethod
    def updated(certificate: Certificate, n_train: int, change: dict[str, Any] | None) -> str:
        """How many base classifiers were trained again."""
        last = change or {"retrained": 0, "of": certificate.ensemble.n_subsets}
        return (
            f"{n_train} training samples; {last['retrained']} of {last['of']} base classifiers were trained again, the "
            "others stand."
        )

    @staticmethod
    def in_evidence(certificate: Certificate, manifest: dict[str, Any]) -> VotersInEvidence:
        """The spread and the learner."""
        spread, learner = certificate.ensemble, str(manifest["settings"]["learner"])
        return VotersInEvidence(
            f"An ensemble of {spread.n_subsets:,} base classifiers (k = {spread.k:g}, d = {spread.d}, learner "
            f"{learner})",
            "ensemble by Finite Aggregation",
            {"k": spread.k, "d": spread.d, "base_classifiers": spread.n_subsets, "spread_digest": spread.digest},
        )


class FittedEnsemble(Fitted):
    """Base classifiers."""

    model: FiniteAggregationClassifier

    @property
    def n_voters(self) -> int:
        """How many base classifiers there are."""
        return self.model.spread_.n_subsets

    def ask(self, X: Any) -> NDArray[Any]:
        """The matrix of votes; no sample is refused because no base classifier can answer it."""
        if self.model.n_jobs == 1:
            return self.model._asked(X).matrix
        try:
            return self.model.votes(X).matrix
        except UnansweredError as error:  # a block may hold nothing but such samples, and the file others
            warnings.warn(str(error), PremiseWarning, stacklevel=2)
            return self.model._asked(X).matrix

    def tallies(self, parts: Sequence[NDArray[Any]]) -> Votes:
        """Votes of all base classifiers."""
        return self.model._votes_of(np.concatenate(parts))

    def certify(self, tallies: Votes) -> Certificate:
        """By the method of the run."""
        return certify(tallies, self.method or "finite-aggregation")  # type: ignore[call-overload]

    def shares(self, tallies: Votes) -> NDArray[np.float64]:
        """Of all base classifiers; those that abstain vote for no class."""
        return tallies.counts() / tallies.spread.n_subsets


def _base_accuracy(votes: Votes, y_test: NDArray[Any]) -> float:
    """The share of all votes that are right."""
    truth, matrix, right = votes.indices_of(y_test), votes.matrix, 0
    labelled = np.flatnonzero(truth >= 0)  # others are labels that no vote can be for
    for start in range(0, len(labelled), ROWS_AT_ONCE):
        rows = labelled[start : start + ROWS_AT_ONCE]
        right += int(np.count_nonzero(matrix[rows] == truth[rows, None].astype(matrix.dtype)))
    return right / matrix.size


# Votes on disk

ARRAYS = ("votes", "subsets", "trained", "refusals")


class VoteCache:
    """The votes of one run, in blocks on disk, each column known by what its base classifier is a function of.

    So whatever happened to a run (it was killed, a block was damaged, the training data changed), what is still true of
    the data at hand stays and the rest is computed again. A block is a rectangle of base classifiers and test samples,
    whichever engine made it: the engine chooses its shape, and nothing else here knows the engine.
    """

    def __init__(self, job: VoteJob, folder: Path) -> None:
        n_test, n_subsets = len(job.test), len(job.digests)
        self.job, self.engine = job, engine_of(job.learner)
        shape = (n_test, n_subsets, *([job.n_classes] if job.rankings else []))
        self.votes = np.empty(shape, vote_dtype(job.n_classes))
        self.blocks: dict[Block, CachedBlock] = {}
        tests: dict[range, str] = {}
        for block in self.engine.grid(n_subsets, n_test):
            if block.samples not in tests:
                tests[block.samples] = digest_of(job.test.subset(np.arange(block.samples.start, block.samples.stop)))
            path = folder / block_file(block.number)
            self.blocks[block] = CachedBlock(
                path, block, job.digests[block.cut[1]], tests[block.samples], self.votes[block.cut]
            )
        for path in set(folder.glob("*.npz")) - {cached.path for cached in self.blocks.values()}:
            path.unlink()  # votes on test samples that are no longer there

    def complete(self, stale: Callable[[int], None] = lambda count: None) -> NDArray[Any]:
        """Train what is missing, let it vote, keep the votes; all votes, with a warning of what a reader must know.

        ``stale`` is told once, before any training, how many base classifiers have to be trained.
        """
        saved = Saved.nothing(len(self.job.digests))
        if self.job.models is not None:
            known = [Known(cached.content, cached.same) for cached in self.blocks.values() if cached.same.any()]
            saved = self.engine.saved(self.job, known)
        missing = self._missing(saved)
        wanted = {i for indices in missing.values() for i in indices}
        stale(len(wanted) if self.job.models is None else int((~saved.current).sum()))
        done, total = len(self.blocks) - len(missing), len(self.blocks)
        progress(done, total)
        for part in self.engine.vote(self.job, missing, saved):
            self.blocks[part.block].add(part)
            done += 1
            progress(done, total)
        return self._checked()

    def _missing(self, saved: Saved) -> dict[Block, list[int]]:
        """What differs in its subset, its test samples or its saved form, by block."""
        missing = {}
        for block, cached in self.blocks.items():
            current = cached.same & cached.of_these_samples
            if self.job.models is not None:
                current &= saved.current[block.cut[1]]
            if not current.all():
                missing[block] = [block.subsets[column] for column in np.flatnonzero(~current)]
        return missing

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the blocks that were written, by their names in the folder of the run."""
        written = (cached for cached in self.blocks.values() if cached.written is not None)
        return {f"votes/{cached.path.name}": str(cached.written) for cached in written}

    def environments(self) -> dict[str, Any]:
        """Where base classifiers were made, for a manifest: ``environments``, each once, and ``made_in``.

        The latter lists [places among them, how many base classifiers in a row], …
        """
        made: list[frozenset[str]] = [frozenset()] * len(self.job.digests)
        parts = [(block.subsets, cached.content.environments) for block, cached in self.blocks.items()]
        for subsets, places in parts or [(range(len(made)), [environment()])]:  # no test samples: all trained here
            texts = {json.dumps(one, sort_keys=True, ensure_ascii=False) for one in places}
            for i in subsets:
                made[i] |= texts
        each = sorted(frozenset[str]().union(*made))
        numbers = {text: at for at, text in enumerate(each)}
        runs = [[sorted(numbers[text] for text in texts), len(list(alike))] for texts, alike in groupby(made)]
        return {"environments": [json.loads(text) for text in each], "made_in": runs}

    def _checked(self) -> NDArray[Any]:
        n_test, n_subsets = self.votes.shape[:2]
        trained, failures, refusals = np.zeros(n_subsets, np.bool_), {}, []
        for block, part in ((block, cached.content) for block, cached in self.blocks.items()):
            trained[block.cut[1]] |= part.trained
            failures.update(part.failures)
            for refusal in part.refusals.values():
                samples = np.zeros(n_test, np.bool_)
                samples[block.cut[0]] = refusal.samples
                refusals.append(Refusal(samples, refusal.reason))
        for notice in failure_notices([failures[i] for i in sorted(failures)], int(trained.sum()), n_subsets):
            warnings.warn(shown(notice), PremiseWarning, stacklevel=3)
        check_answered(refusals, int(trained.sum()), n_test)
        return self.votes


class CachedBlock:
    """One block of a run, in memory and on disk.

    ``same`` says which of its base classifiers on disk are those of the subsets at hand, ``of_these_samples`` whether
    they were asked about the test samples at hand.
    """

    def __init__(self, path: Path, block: Block, digests: NDArray[np.uint8], test: str, votes: NDArray[Any]) -> None:
        count = len(block.subsets)
        self.path, self.block, self.digests, self.test = path, block, digests, test
        self.content = VoteBlock(block, block.subsets, votes, np.zeros(count, np.bool_), [])
        self.same, self.of_these_samples = np.zeros(count, np.bool_), False
        self.written: str | None = None
        if path.exists():
            try:
                self._read()
            except ValueError as error:
                log.warning("%s It is computed again.", error)

    def _read(self) -> None:
        on_disk = read_block(self.path, self.block)
        same = (on_disk.digests == self.digests).all(axis=1)
        if not same.any():
            raise PoisonproofError(f"{self.path} is of other training data.", code="run.other-data")
        votes = self.content.votes
        if on_disk.test == self.test:
            if on_disk.content.votes.shape != votes.shape:
                raise DamagedFileError(
                    f"{self.path} is damaged: it holds votes of shape {on_disk.content.votes.shape}."
                )
            votes[:] = on_disk.content.votes
        self.same, self.of_these_samples = same, on_disk.test == self.test
        self.content = replace(on_disk.content, votes=votes)

    def add(self, fresh: VoteBlock) -> None:
        """Put votes in their places, and the block on disk."""
        whole, first = self.content, self.block.subsets.start
        places = np.asarray(fresh.indices, np.int64) - first
        whole.votes[:, places] = fresh.votes
        whole.trained[places] = fresh.trained
        earlier = [] if len(fresh.indices) == len(self.block.subsets) else whole.environments
        whole.environments = each_once([*earlier, *fresh.environments])
        for i in fresh.indices:
            whole.failures.pop(i, None)
            whole.refusals.pop(i, None)
        whole.failures.update(fresh.failures)
        whole.refusals.update(fresh.refusals)
        whole.members = fresh.members
        self.written = write_block(self.path, OnDisk(whole, self.digests, self.test))


class OnDisk(NamedTuple):
    """What a file holds: votes, the digests of their base classifiers, and that of the test samples."""

    content: VoteBlock
    digests: NDArray[np.uint8]
    test: str


def block_file(number: int) -> str:
    """The name of the file that holds a block of votes."""
    return f"block-{number:05d}.npz"


def write_block(path: Path, what: OnDisk) -> str:
    """Write the votes of a block; the SHA-256 of the file."""
    part = what.content
    refusing = sorted(part.refusals)
    arrays = {
        "votes": part.votes,
        "subsets": what.digests,
        "trained": part.trained,
        "refusals": np.array([part.refusals[i].samples for i in refusing], np.bool_),
    }
    facts = {
        "first_subset": part.block.subsets.start,
        "first_sample": part.block.samples.start,
        "failures": {str(i): part.failures[i] for i in sorted(part.failures)},
        "refused_because": {str(i): part.refusals[i].reason for i in refusing},
        "test": what.test,
        "members": part.members,
        "environments": part.environments,
    }
    return write_arrays(path, arrays, facts).digest


def read_block(path: Path, block: Block) -> OnDisk:
    """Read them again; one sentence if the file is damaged or is not this block."""
    arrays, facts = open_arrays(path, ARRAYS)
    votes, subsets, trained, count = arrays["votes"], arrays["subsets"], arrays["trained"], len(block.subsets)
    with reading(path):
        places = (facts["first_subset"], facts["first_sample"])
        if votes.ndim < 2 or votes.shape[1] != count or places != (block.subsets.start, block.samples.start):
            raise DamagedFileError(
                f"{path} is not the block of base classifiers {block.subsets.start} … {block.subsets.stop - 1} and "
                f"test samples from {block.samples.start}."
            )
        if subsets.shape != (count, DIGEST_BYTES) or trained.shape != (count,) or trained.dtype != np.bool_:
            raise DamagedFileError(f"{path} is damaged: it does not say what each base classifier is.")
        refusals = {
            int(i): Refusal(samples, reason)
            for (i, reason), samples in zip(facts["refused_because"].items(), arrays["refusals"], strict=True)
        }
        failures = {int(i): str(failure) for i, failure in facts["failures"].items()}
        made = [dict(one) for one in facts["environments"]]
        part = VoteBlock(block, block.subsets, votes, trained.copy(), made, failures, refusals, facts["members"])
        return OnDisk(part, subsets, facts["test"])


def other_environments(first: Mapping[str, Any], more: Iterable[Mapping[str, Any]]) -> list[str]:
    """In what the environments of a run, as its manifest states them, differ from this one."""
    here = environment()
    return list(dict.fromkeys(name for one in (first, *more) for name, value in one.items() if here.get(name) != value))
