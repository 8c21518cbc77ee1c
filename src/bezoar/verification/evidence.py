"""The files of a run or of a loose certificate, opened: every digest, name and format version is looked at here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar.verification.records import Archive, read_json, read_npy, read_npz, sha256_of_file
from bezoar.verification.theorem import SpreadMap
from bezoar.verification.verdict import NotCheckedError, NotTrueError

MODEL = "models/model.json"
FORMATS = {
    "manifest.json": "bezoar run 1",
    "votes.json": "bezoar votes 1",
    "certificate.npz": "bezoar certificate 1",
    MODEL: "bezoar model 2",
}
REQUIRED = ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy")
MAY_BE_ABSENT = re.compile(
    r"votes/(block|samples)-\d{5,}\.npz|models/(model\.json|estimator\.skops|members-(\d{5,}\.skops|pool\.npz|features\.npy|coefficients\.npy))"
    r"|schema\.json|votes\.rankings\.npy"
)
MODEL_FILE = re.compile(r"estimator\.skops|members-(\d{5,}\.skops|pool\.npz|features\.npy|coefficients\.npy)")
WITHOUT_DIGEST = ("manifest.json", "report.html", "run.lock", "audit.json", "audit.svg")


@dataclass
class Evidence:
    """What the files say. None where a loose certificate comes without that file."""

    certificate: Archive
    manifest: dict[str, Any] | None = None
    votes: NDArray[Any] | None = None
    votes_record: dict[str, Any] | None = None
    spread_file: Archive | None = None
    partition: NDArray[Any] | None = None
    model: dict[str, Any] | None = None
    folder: Path | None = None
    words: str = ""
    found_spread: SpreadMap | None = None
    votes_in_range: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        """What the certificate says about itself."""
        return self.certificate.facts

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """The records that describe the same ensemble, by file."""
        found = {"votes.json": self.votes_record, "certificate.npz": self.facts, MODEL: self.model}
        return {name: record for name, record in found.items() if record is not None}

    @property
    def settings(self) -> dict[str, Any]:
        """What the manifest says was asked for; empty without one."""
        return dict(self.manifest["settings"]) if self.manifest else {}

    @property
    def matrix(self) -> NDArray[Any]:
        """The votes, which must be there."""
        if self.votes is None:
            raise NotCheckedError("the certificate comes without votes; give votes=FILE (--votes).")
        return self.votes

    @property
    def n_test(self) -> int:
        """Number of test samples that the votes are about."""
        return len(self.matrix)

    @property
    def spread(self) -> SpreadMap:
        """The spread, which must have been found right."""
        if self.found_spread is None:
            raise NotCheckedError("the spread could not be established.")
        return self.found_spread

    @property
    def n_classes(self) -> int:
        """Number of classes that the certificate names."""
        return len(self.facts["classes"]["values"])


def open_run(folder: Path) -> Evidence:
    """A run directory; the first file that is not what the manifest says is named."""
    manifest = read_json(folder / "manifest.json")
    _check_format(manifest, "manifest.json")
    if manifest.get("status") != "complete":
        raise NotTrueError(f"the run is not complete: the manifest's status is {manifest.get('status')!r}.")
    stated = manifest["files"]
    for name in stated:
        if name not in REQUIRED and not MAY_BE_ABSENT.fullmatch(name):
            raise NotTrueError(f"the manifest names {name!r}, which is no file of a run.")
    for name in REQUIRED:
        if name not in stated:
            raise NotTrueError(f"the manifest does not name {name}.")
    absent = [name for name in stated if name not in REQUIRED and not (folder / name).exists()]
    for name in (name for name in stated if name not in absent):
        _check_file(folder, name, stated[name], "manifest.json")
    votes_record, certificate = read_json(folder / "votes.json"), read_npz(folder / "certificate.npz")
    _check_format(votes_record, "votes.json")
    _check_format(certificate.facts, "certificate.npz")
    _check_matrix(votes_record, folder / "votes.npy")
    evidence = Evidence(
        certificate,
        manifest,
        read_npy(folder / "votes.npy"),
        votes_record,
        read_npz(folder / "spread.npz"),
        read_npy(folder / "split.npy"),
        _open_model(folder),
        folder,
    )
    _check_parts(evidence, [name for name in stated if name.startswith("votes/") and name not in absent])
    others = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    known = {*stated, *WITHOUT_DIGEST, *(f"models/{name}" for name in (evidence.model or {}).get("files", ()))}
    strange = [name for name in others if name not in known]
    evidence.words = (
        f"{len(stated) - len(absent)} files have the digests that the manifest states, and it has its own"
        + (f"; {len(absent)} that it names are gone" if absent else "")
        + (f"; {len(strange)} others were not looked at ({strange[0]})" if strange else "")
        + "; no digest covers report.html."
    )
    return evidence


def open_certificate(path: Path, votes: Path | None) -> Evidence:
    """A loose certificate, with the votes it was made from if they are given."""
    evidence = Evidence(read_npz(path))
    _check_format(evidence.facts, "certificate.npz", path.name)
    evidence.words = f"the arrays of {path.name} have the digests that it states"
    if votes is not None:
        evidence.votes = read_npy(votes)
        if votes.with_suffix(".json").exists():
            evidence.votes_record = read_json(votes.with_suffix(".json"))
            _check_format(evidence.votes_record, "votes.json")
            _check_matrix(evidence.votes_record, votes)
            evidence.words += f", and so does {votes.name}"
        else:
            evidence.words += f"; {votes.name} comes without a record"
    evidence.words += "."
    return evidence


def _open_model(folder: Path) -> dict[str, Any] | None:
    """The record of the base classifiers, if they were kept; their files have the digests it states."""
    path = folder / MODEL
    if not path.exists():
        return None
    record = read_json(path)
    _check_format(record, MODEL)
    for name, digest in record["files"].items():
        if not MODEL_FILE.fullmatch(name):
            raise NotTrueError(f"{MODEL} names {name!r}, which is no file of a model.")
        _check_file(folder / "models", name, digest, MODEL)
    unnamed = {other.name for other in path.parent.glob("*.skops")} - set(record["files"])
    if unnamed:
        raise NotTrueError(f"{MODEL} does not name {min(unnamed)}.")
    return record


def _check_file(folder: Path, name: str, stated: str, by: str) -> None:
    try:
        found = sha256_of_file(folder / name)
    except OSError as error:
        raise NotTrueError(f"{name} cannot be read ({error.strerror}).") from None
    if found != stated:
        raise NotTrueError(f"{name} was altered: it does not have the SHA-256 that {by} states.")


def _check_format(record: dict[str, Any], kind: str, name: str | None = None) -> None:
    if record.get("format") != FORMATS[kind]:
        raise NotTrueError(
            f"{name or kind} is of format {record.get('format')!r}; this checker knows '{FORMATS[kind]}'."
        )


def _check_matrix(record: dict[str, Any], path: Path) -> None:
    if record["matrix"]["file"] != path.name:
        raise NotTrueError(f"{path.stem}.json describes {record['matrix']['file']!r}, not {path.name}.")
    _check_file(path.parent, path.name, record["matrix"]["sha256"], f"{path.stem}.json")


def _check_parts(evidence: Evidence, names: list[str]) -> None:
    """Votes that were kept in blocks on the way are those of votes.npy."""
    assert evidence.folder is not None
    for name in names:
        arrays, facts = read_npz(evidence.folder / name)
        part, whole = arrays["votes"], evidence.matrix
        part = part if part.ndim == 2 else part[..., 0]  # rankings, of which the first place is the vote
        if "first_subset" in facts:
            whole = whole[:, facts["first_subset"] :][:, : part.shape[1]]
        else:
            whole = whole[facts["first_sample"] :][: len(part)]
        if not np.array_equal(part, whole):
            raise NotTrueError(f"{name} holds other votes than votes.npy.")
