"""Who votes in a run, as each form of the evidence says it: base classifiers, or the training samples themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poisonproof.core.certificate import Certificate


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
