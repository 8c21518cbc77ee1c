"""The facts about a verified run: recomputed from its votes and the test labels, never copied from a log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.certificate import Act, Certificate, attack_sizes
from poisonproof.core.certify import certify, median_radii_against_targets
from poisonproof.core.metrics import Evaluation, number_that_withstand, plain
from poisonproof.core.votes import Votes
from poisonproof.data.dataset import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.runs.election import Election, election_named
from poisonproof.system.files import read_record, sha256_of
from poisonproof.verification.verdict import CheckFailed, Verdict


@dataclass(frozen=True)
class Voters:
    """One kind of voters in words and in fields.

    ``sentence`` opens a card; ``parameters`` are what decides an election, as plain values, and nothing that decides
    nothing, because no checker could tell whether it is true; ``if_verified`` and ``if_consistent`` say what a verdict
    of VERIFIED, and of no more than CONSISTENT, means for them.
    """

    sentence: str
    architecture: str
    parameters: dict[str, Any]
    if_verified: str
    if_consistent: str

    @property
    def flat(self) -> dict[str, str]:
        """The parameters for forms that know names and texts only."""
        return {name: str(value) for name, value in _flattened(self.parameters)}


def voters_of(certificate: Certificate, manifest: dict[str, Any]) -> Voters:
    """The voters of a run."""
    learner = str(manifest["settings"]["learner"])
    if certificate.spread is None:
        return _samples(certificate, manifest, learner)
    spread = certificate.spread
    return Voters(
        f"An ensemble of {spread.n_subsets:,} base classifiers (k = {spread.k:g}, d = {spread.d}, learner {learner})",
        "ensemble by Finite Aggregation",
        {
            "k": spread.k,
            "d": spread.d,
            "base_classifiers": spread.n_subsets,
            "spread_digest": spread.digest,
        },
        "base classifiers voted again as stated",
        "the votes themselves are the maker's word",
    )


def _samples(certificate: Certificate, manifest: dict[str, Any], learner: str) -> Voters:
    election, settings = certificate.election, dict(manifest["settings"]["election"])
    assert election is not None
    if manifest["settings"]["split"]["kind"] != "group":
        settings.pop("voices", None)  # of contributors alone
    if not isinstance(settings.get("class_sizes"), list):
        settings.pop("class_sizes_from", None)  # of sizes that there are
    return Voters(
        f"A classifier without training, in which {election['words']} ({learner})",
        f"training samples that vote through a fixed map ({certificate.method})",
        {
            "election": {
                "voters": election["n_voters"],
                "words": election["words"],
                **settings,
            }
        },
        "the training samples were counted again, in the map that is stated, and voted as stated",
        "how the training samples voted is the maker's word",
    )


def _flattened(values: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Names with dots, for a record inside a record."""
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        rows += _flattened(value, f"{above}{name}.") if isinstance(value, dict) else [(f"{above}{name}", value)]
    return rows


MANIFEST = "manifest.json"
ACTS: dict[Act, str] = {
    "insert_remove": "insert and remove",
    "insert": "insert only",
    "remove": "remove only",
    "label_flip": "flip labels only",
    "modify": "change samples in any way",
}


@dataclass(frozen=True)
class ClassFigures:
    """The test samples of one class: how many, how many are right, and right with a radius of each attack size.

    ``target_median`` is the median radius of all other predictions against being turned to this class; None where
    there are none, and for labels that are no class.
    """

    label: Any
    n_test: int
    right: int
    certified: tuple[int, ...]
    target_median: int | None


@dataclass(frozen=True)
class ActFigures:
    """An attacker who does nothing but one kind of act: how many of them half of the predictions withstand.

    ``half`` is how many of them half of the test set withstands and is right besides; None if less than half is right.
    """

    act: Act
    median_radius: int
    half: int | None


@dataclass(frozen=True)
class Figures:
    """Counts over the test set, and what a constant answer would reach.

    ``certified[s]`` test samples are right and have a radius of at least ``attack_sizes[s]`` (pointwise); ``balanced``
    is the mean over the classes of the test set of the same share, ``majority_share`` that of its largest class.
    """

    n_test: int
    right: int
    attack_sizes: tuple[int, ...]
    certified: tuple[int, ...]
    balanced: tuple[float, ...]
    balanced_accuracy: float
    majority_label: Any
    majority_share: float
    median_radius: int
    acts: tuple[ActFigures, ...]
    classes: tuple[ClassFigures, ...]

    @property
    def clean_accuracy(self) -> float:
        """Share of test samples that are right."""
        return self.right / self.n_test

    @property
    def half(self) -> int | None:
        """The attack size, insertions and removals together, that half of the test set withstands and is right."""
        return next(row.half for row in self.acts if row.act == "insert_remove")

    @property
    def certified_fractions(self) -> tuple[float, ...]:
        """Share of test samples that are right and have a radius of each attack size (pointwise)."""
        return tuple(count / self.n_test for count in self.certified)


@dataclass(frozen=True)
class Facts:
    """Everything that evidence is made from.

    ``artefacts`` are the files of the run with their SHA-256, ``digests`` those of the data that were at hand,
    ``y`` the labels of the test samples.
    """

    name: str
    manifest: dict[str, Any]
    certificate: Certificate
    figures: Figures
    artefacts: dict[str, str]
    digests: dict[str, str]
    y: Any
    verdict: Verdict

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the certificate says about the test set."""
        return self.certificate.evaluate(self.y)

    @property
    def dataset(self) -> str:
        """The name that the run gives its data."""
        return str(self.manifest["settings"]["dataset"]["name"])

    @property
    def voters(self) -> Voters:
        """Who votes, in words and in fields."""
        return voters_of(self.certificate, self.manifest)

    @property
    def threat_model(self) -> dict[str, int | str]:
        """What each act of an attacker costs."""
        return threats_of(self.certificate, self.manifest)


def gather(folder: Path, data: Dataset | None, verdict: Verdict) -> Facts:
    """The facts about a run that a verification found nothing wrong with; `CheckFailed` for any other."""
    if not verdict.consistent:
        raise CheckFailed(verdict.verdict)
    if data is None:
        raise PoisonproofError(
            f"Certified fractions need the labels of the test samples, and the data of {folder} are not at hand; give "
            "--dataset or --data-dir."
        )
    manifest = read_record(folder / MANIFEST)
    artefacts = artefacts_of(folder, manifest)
    votes = _election_of(manifest).tallies(folder)
    certificate = certify(votes, manifest["method"]) if isinstance(votes, Votes) else certify(votes)
    stated = Certificate.load(folder / "certificate.npz")
    if not _same(certificate, stated):
        raise CheckFailed(f"The predictions and radii of {folder} do not follow from its votes.")
    if certificate.split is None:
        raise PoisonproofError(f"The votes of {folder} do not say how the training samples were split.")
    return Facts(
        folder.resolve().name,
        manifest,
        certificate,
        figures(votes, certificate, certificate.evaluate(data.test.labels)),
        artefacts,
        data.digests(),
        data.test.labels,
        verdict,
    )


def _same(certificate: Certificate, stated: Certificate) -> bool:
    """Whether a stated certificate has the predictions and radii of the recomputed one, against every act."""
    computed, claimed = (
        {"prediction": one.prediction, "radius": one.radius, **(one.radii or {})} for one in (certificate, stated)
    )
    return computed.keys() == claimed.keys() and all(np.array_equal(computed[name], claimed[name]) for name in computed)


def _election_of(manifest: dict[str, Any]) -> type[Election]:
    """Who voted in a run; `CheckFailed` for voters that are not known here, whose verification only saw digests."""
    election = manifest["settings"].get("election")
    try:
        return election_named(None if election is None else str(election["method"]))
    except PoisonproofError as error:
        raise CheckFailed(str(error)) from None


def threats_of(certificate: Certificate, manifest: dict[str, Any]) -> dict[str, int | str]:
    """What each act of an attacker costs, against who voted and how the training samples were split."""
    assert certificate.split is not None
    return _election_of(manifest).threats(certificate.split)


def artefacts_of(folder: Path, manifest: dict[str, Any]) -> dict[str, str]:
    """Every file that the manifest, or the record of the kept base classifiers, names; as it is, and as it says."""
    stated = dict(manifest["files"])
    record = folder / "models" / "model.json"
    if record.exists():
        stated |= {f"models/{name}": digest for name, digest in read_record(record)["files"].items()}
    present = {name: digest for name, digest in stated.items() if (folder / name).exists()}
    for name, digest in present.items():
        if sha256_of(folder / name) != digest:
            raise CheckFailed(f"{name} of {folder} was altered: it does not have the SHA-256 that is stated.")
    return {MANIFEST: sha256_of(folder / MANIFEST), **dict(sorted(present.items()))}


def figures(votes: Any, certificate: Certificate, found: Evaluation) -> Figures:
    """The figures of the certificate, and how each class stands as a target."""
    sizes = attack_sizes(certificate)
    medians = dict(enumerate(median_radii_against_targets(votes, certificate)))
    classes = []
    for code, label in enumerate(found.labels):
        of_class = found.truth == code
        radii = found.radius[of_class & found.right]
        certified = tuple(number_that_withstand(radii, sizes).tolist())
        classes.append(ClassFigures(plain(label), int(of_class.sum()), len(radii), certified, medians.get(code)))
    against = {act: certificate.radius_against(act) for act in ACTS}
    return Figures(
        len(certificate),
        int(found.right.sum()),
        tuple(sizes),
        tuple(number_that_withstand(found.radius[found.right], sizes).tolist()),
        tuple(found.certified_fraction_balanced(sizes).tolist()),
        found.balanced_accuracy,
        max(classes, key=lambda one: one.n_test).label,
        found.majority_share,
        _median(certificate.radius),
        tuple(ActFigures(act, _median(radius), found.half(radius)) for act, radius in against.items()),
        tuple(classes),
    )


def _median(radius: NDArray[np.int64]) -> int:
    return int(np.percentile(radius, 50, method="lower"))


def folder_beside(run: Path) -> Path:
    """Where evidence goes by default: beside the run, whose folder holds nothing that its manifest does not know."""
    return run.resolve().with_name(f"{run.resolve().name}-evidence")
