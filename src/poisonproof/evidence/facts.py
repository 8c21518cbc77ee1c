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
from poisonproof.data.dataset import Dataset
from poisonproof.errors import PoisonproofError
from poisonproof.runs.election import Election, VotersInEvidence, election_named
from poisonproof.system.files import read_record, sha256_of
from poisonproof.verification.verdict import CheckFailed, Verdict

MANIFEST = "manifest.json"
ACTS: dict[Act, str] = {
    "insert_remove": "insert and remove",
    "insert": "insert only",
    "remove": "remove only",
    "label_flip": "flip labels only",
    "modify": "change samples in any way",
}


@dataclass(frozen=True)
class Facts:
    """Everything that evidence is made from.

    ``figures`` are what every form says of the test set (see `figures`), ``artefacts`` the files of the run with their
    SHA-256, ``digests`` those of the data that were at hand, ``y`` the labels of the test samples.
    """

    name: str
    manifest: dict[str, Any]
    certificate: Certificate
    figures: dict[str, Any]
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
    def voters(self) -> VotersInEvidence:
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
            "--dataset or --data-dir.",
            code="labels.missing",
        )
    manifest = read_record(folder / MANIFEST)
    artefacts = artefacts_of(folder, manifest)
    votes = _election_of(manifest).tallies(folder)
    certificate = certify(votes, manifest["method"])
    stated = Certificate.load(folder / "certificate.npz")
    if not _same(certificate, stated):
        raise CheckFailed(f"The predictions and radii of {folder} do not follow from its votes.")
    if certificate.split is None:
        raise PoisonproofError(
            f"The votes of {folder} do not say how the training samples were split.", code="run.no-split"
        )
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


def voters_of(certificate: Certificate, manifest: dict[str, Any]) -> VotersInEvidence:
    """The voters of a run, in words and in fields."""
    return _election_of(manifest).in_evidence(certificate, manifest)


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


def figures(votes: Any, certificate: Certificate, found: Evaluation) -> dict[str, Any]:
    """Counts over the test set and what a constant answer would reach, as plain values; pointwise.

    ``acts``: how many of one kind of act alone half of the predictions withstand, and half of the test set, which is
    right besides (None if less is right). ``classes`` have the median radius of all other predictions against being
    turned to each; None where there are none, and for labels that are no class.
    """
    sizes = attack_sizes(certificate)
    medians = dict(enumerate(median_radii_against_targets(votes, certificate)))
    counts = number_that_withstand(found.radius[found.right], sizes).tolist()
    balanced = found.certified_fraction_balanced(sizes).tolist()
    classes = []
    for code, label in enumerate(found.labels):
        of_class = found.truth == code
        radii = found.radius[of_class & found.right]
        classes.append(
            {
                "label": plain(label),
                "samples": int(of_class.sum()),
                "right": len(radii),
                "right_and_certified": number_that_withstand(radii, sizes).tolist(),
                "median_radius_of_others_against_this_target": medians.get(code),
            }
        )
    against = {act: certificate.radius_against(act) for act in ACTS}
    return {
        "samples": len(found),
        "right": int(found.right.sum()),
        "clean_accuracy": found.clean_accuracy,
        "balanced_accuracy": found.balanced_accuracy,
        "majority": {"label": max(classes, key=lambda one: one["samples"])["label"], "share": found.majority_share},
        "median_radius": _median(certificate.radius),
        "acts": [
            {"act": act, "median_radius": _median(radius), "half_of_the_test_set": found.half(radius)}
            for act, radius in against.items()
        ],
        "certified": [
            {"attack_size": size, "right_and_certified": count, "certified_fraction": count / len(found), "balanced": b}
            for size, count, b in zip(sizes, counts, balanced, strict=True)
        ],
        "classes": classes,
    }


def _median(radius: NDArray[np.int64]) -> int:
    return int(np.percentile(radius, 50, method="lower"))


def folder_beside(run: Path) -> Path:
    """Where evidence goes by default: beside the run, whose folder holds nothing that its manifest does not know."""
    return run.resolve().with_name(f"{run.resolve().name}-evidence")
