"""The facts about a verified run: recomputed from its votes and the test labels, never copied from a log."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.core.certificate import Act, Certificate, attack_sizes
from poisonproof.core.certify import certify, median_radii_against_targets
from poisonproof.core.metrics import (
    Caution,
    balanced_shares,
    caution,
    counts_by_class,
    labels_of_codes,
    plain,
    share_of_majority,
)
from poisonproof.core.votes import Votes, own_codes
from poisonproof.data.dataset import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.runs.election import Election, election_named
from poisonproof.system.files import read_record, sha256_of
from poisonproof.verification.verdict import CheckFailed, Verdict


@dataclass(frozen=True)
class Voters:
    """One kind of voters in words and in fields.

    ``sentence`` opens a card; ``parameters`` are what decides an election, as plain values, and nothing that decides
    nothing, because no checker could tell whether it is true; ``heard`` and ``unheard`` say what a verdict of VERIFIED,
    and of no more than CONSISTENT, means for them.
    """

    sentence: str
    architecture: str
    parameters: dict[str, Any]
    heard: str
    unheard: str

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
    ``truth`` the code of every test label (see `own_codes`), ``labels`` the label of each code.
    """

    name: str
    manifest: dict[str, Any]
    certificate: Certificate
    figures: Figures
    artefacts: dict[str, str]
    digests: dict[str, str]
    truth: NDArray[np.int64]
    labels: list[Any]
    verdict: Verdict

    def certified_fraction(self, attack_size: int, *, balanced: bool = False) -> Fraction:
        """Share of test samples that are right and have this radius (pointwise), or its mean over classes; exact."""
        right = self.certificate.prediction == self.truth
        _, counts, held = counts_by_class(self.truth, right, self.certificate.radius, attack_size)
        if not balanced:
            return Fraction(int(held.sum()), int(counts.sum()))
        shares = [Fraction(*pair) for pair in zip(held.tolist(), counts.tolist(), strict=True)]
        return sum(shares, Fraction(0)) / len(shares)

    def constant_share(self, *, balanced: bool = False) -> Fraction:
        """What always answering the most frequent class has of the same, whatever the attack size; exact."""
        _, counts = np.unique(self.truth, return_counts=True)
        return Fraction(1, len(counts)) if balanced else Fraction(int(counts.max()), len(self.truth))

    @property
    def headline_size(self) -> int:
        """The largest attack size at which half is right and certified, of the test set and on average over classes.

        0 if there is none: a frequent class alone makes no headline.
        """
        low, high = 0, int(self.certificate.radius.max(initial=0))
        while low < high:
            size = (low + high + 1) // 2
            enough = min(self.certified_fraction(size), self.certified_fraction(size, balanced=True)) * 2 >= 1
            low, high = (size, high) if enough else (low, size - 1)
        return low

    @property
    def caution(self) -> Caution | None:
        """What must be said before any figure: that a constant answer would do as well, or is what is given."""
        prediction = self.certificate.prediction
        return caution(prediction, self.truth, prediction == self.truth, self.labels)

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
    truth = own_codes(data.test.labels, votes.classes, inferred=votes.classes_inferred)
    labels = labels_of_codes(votes.classes, data.test.labels, truth)
    return Facts(
        folder.resolve().name,
        manifest,
        certificate,
        figures(votes, certificate, truth, labels),
        artefacts,
        data.digests(),
        truth,
        labels,
        verdict,
    )


def _same(certificate: Certificate, stated: Certificate) -> bool:
    """Whether a stated certificate has the predictions and radii of the recomputed one, against every act."""
    computed, claimed = (
        {"prediction": one.prediction, "radius": one.radius, **(one.radii or {})} for one in (certificate, stated)
    )
    return computed.keys() == claimed.keys() and all(np.array_equal(computed[name], claimed[name]) for name in computed)


def _election_of(manifest: dict[str, Any]) -> type[Election]:
    return election_named((manifest["settings"].get("election") or {}).get("method"))


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


def figures(
    votes: Votes | Ballots | Neighbours, certificate: Certificate, truth: NDArray[np.int64], labels: list[Any]
) -> Figures:
    """The figures of the certificate, as `poisonproof.core.metrics` counts them, from the code of every test
    label (see `own_codes`) and the label of each code.
    """
    right, radius = certificate.prediction == truth, certificate.radius
    sizes = attack_sizes(certificate)
    codes, counts, held = counts_by_class(truth, right, radius, [0, *sizes])
    counted = dict(zip(codes.tolist(), zip(counts.tolist(), held.tolist(), strict=True), strict=True))
    medians = dict(enumerate(median_radii_against_targets(votes, certificate)))
    classes = []
    for code, label in enumerate(labels):
        n_test, (n_right, *certified) = counted.get(code, (0, [0] * (1 + len(sizes))))
        classes.append(ClassFigures(plain(label), n_test, n_right, tuple(certified), medians.get(code)))
    n_right, *certified = held.sum(axis=0).tolist()
    return Figures(
        len(certificate),
        n_right,
        tuple(sizes),
        tuple(certified),
        tuple(balanced_shares(truth, right, radius, sizes).tolist()),
        float(balanced_shares(truth, right, radius, 0)),
        classes[int(codes[counts.argmax()])].label,
        share_of_majority(truth),
        _median(radius),
        tuple(
            ActFigures(act, _median(certificate.radius_against(act)), half_of(right, certificate.radius_against(act)))
            for act in ACTS
        ),
        tuple(classes),
    )


def _median(radius: NDArray[np.int64]) -> int:
    return int(np.percentile(radius, 50, method="lower"))


def half_of(right: NDArray[np.bool_], radius: NDArray[np.int64]) -> int | None:
    """The largest radius that half of the test samples have and are right; None if fewer are right."""
    held = np.sort(radius[right])[::-1]
    needed = (len(right) + 1) // 2
    return int(held[needed - 1]) if len(held) >= needed else None


def folder_beside(run: Path) -> Path:
    """Where evidence goes by default: beside the run, whose folder holds nothing that its manifest does not know."""
    return run.resolve().with_name(f"{run.resolve().name}-evidence")
