"""The files of a run or of a loose certificate, opened: every digest, name and format version is looked at here."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification import claims
from poisonproof.verification.records import (
    Archive,
    Reader,
    check_folder,
    same,
)
from poisonproof.verification.theorem import SpreadMap
from poisonproof.verification.verdict import NotCheckedError, NotTrueError

MODEL = "models/model.json"
FORMATS = {
    "manifest.json": "poisonproof run 3",
    "votes.json": "poisonproof votes 1",
    "certificate.npz": "poisonproof certificate 1",
    MODEL: "poisonproof model 2",
}
RANKINGS = "votes.rankings.npy"
SCHEMA, REPORT = "schema.json", "report.html"
REQUIRED = ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy")
MAY_BE_ABSENT = re.compile(
    r"votes/block-\d{5,}\.npz|models/(model\.json|estimator\.skops|members-(\d{5,}\.(?:skops|npy)|pool\.npz|features\.npy|coefficients\.npy))"
    r"|schema\.json|votes\.rankings\.npy|report\.html"
)
MODEL_FILE = re.compile(r"estimator\.skops|members-(\d{5,}\.(?:skops|npy)|pool\.npz|features\.npy|coefficients\.npy)")
WITHOUT_DIGEST = ("manifest.json", "report.html", "run.lock", "audit.json", "audit.svg")
MOST_FILES = 100_000


@dataclass
class Evidence:
    """What the files say. None where a loose certificate comes without that file.

    ``absent`` are files that the manifest names and that are gone, ``others`` files that no digest covers.
    """

    certificate: Archive
    reader: Reader
    manifest: dict[str, Any] | None = None
    votes: NDArray[Any] | None = None
    votes_record: dict[str, Any] | None = None
    spread_file: Archive | None = None
    partition: NDArray[Any] | None = None
    model: dict[str, Any] | None = None
    rankings: NDArray[Any] | None = None
    folder: Path | None = None
    absent: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
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
        records = {"votes.json": self.votes_record, "certificate.npz": self.facts, MODEL: self.model}
        return {name: record for name, record in records.items() if record is not None}

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

    @cached_property
    def reachable(self) -> NDArray[np.bool_] | None:
        """Which partitions can be poisoned, by a premise; None means all."""
        stated = claims.values(self.facts, claims.REACHABLE)
        return claims.reachable(stated, self.spread.n) if stated else None

    @property
    def n_classes(self) -> int:
        """Number of classes that the certificate names."""
        return len(self.facts["classes"]["values"])


def open_manifest(folder: Path, reader: Reader) -> dict[str, Any]:
    """The manifest of a complete run."""
    manifest = reader.json(folder / "manifest.json")
    check_format(manifest, "manifest.json")
    if manifest.get("status") != "complete":
        raise NotTrueError(f"the run is not complete: the manifest's status is {manifest.get('status')!r}.")
    return manifest


def open_run(folder: Path, manifest: dict[str, Any], reader: Reader) -> Evidence:
    """A run directory; the first file that is not what the manifest says is named."""
    for name in ("votes", "models"):
        check_folder(folder / name)
    stated = manifest["files"]
    _check_names(stated)
    absent = [name for name in stated if name not in REQUIRED and not os.path.lexists(folder / name)]
    for name in (name for name in stated if name not in absent):
        check_file(reader, folder, name, stated[name], "manifest.json")
    votes_record, certificate = reader.json(folder / "votes.json"), reader.npz(folder / "certificate.npz")
    check_format(votes_record, "votes.json")
    check_format(certificate.facts, "certificate.npz")
    _check_matrix(reader, votes_record["matrix"], folder / "votes.npy")
    evidence = Evidence(
        certificate,
        reader,
        manifest,
        reader.npy(folder / "votes.npy"),
        votes_record,
        reader.npz(folder / "spread.npz"),
        reader.npy(folder / "split.npy"),
        _open_model(folder, reader),
        _open_rankings(folder / RANKINGS, votes_record, reader),
        folder,
        absent,
    )
    check_schema(evidence)
    _check_parts(evidence, [name for name in stated if name.startswith("votes/") and name not in absent])
    known = {*stated, *(f"models/{name}" for name in (evidence.model or {}).get("files", ()))}
    tell_files(evidence, folder, len(stated), known)
    return evidence


def tell_files(evidence: Evidence, folder: Path, n_stated: int, known: Container[str]) -> None:
    """Put into words how many files of a run have the digest that its manifest states, and which others lie there."""
    evidence.others = sorted(name for name in files_in(folder) if name not in known)
    strange = [name for name in evidence.others if name not in WITHOUT_DIGEST]
    evidence.words = (
        f"{n_stated - len(evidence.absent)} files have the digests that the manifest states, and it has its own"
        + (f"; {len(evidence.absent)} that it names are gone" if evidence.absent else "")
        + (f"; {len(strange)} others were not looked at ({strange[0]!r})" if strange else "")
        + "."
    )


def open_certificate(path: Path, certificate: Archive, votes: Path | None, reader: Reader) -> Evidence:
    """A loose certificate, with the votes it was made from if they are given."""
    evidence = Evidence(certificate, reader)
    check_format(evidence.facts, "certificate.npz", path.name)
    evidence.words = f"the arrays of {path.name} have the digests that it states"
    if votes is not None:
        evidence.votes = reader.npy(votes)
        if os.path.lexists(votes.with_suffix(".json")):
            evidence.votes_record = reader.json(votes.with_suffix(".json"))
            check_format(evidence.votes_record, "votes.json")
            _check_matrix(reader, evidence.votes_record["matrix"], votes)
            evidence.rankings = _open_rankings(votes.with_suffix(".rankings.npy"), evidence.votes_record, reader)
            evidence.words += f", and so does {votes.name}"
        else:
            evidence.words += f"; {votes.name} comes without a record"
    evidence.words += "."
    return evidence


def _check_names(stated: dict[str, Any]) -> None:
    for name in stated:
        if name not in REQUIRED and not MAY_BE_ABSENT.fullmatch(name):
            raise NotTrueError(f"the manifest names {name!r}, which is no file of a run.")
    for name in REQUIRED:
        if name not in stated:
            raise NotTrueError(f"the manifest does not name {name}.")


def files_in(folder: Path) -> Iterator[str]:
    """Every name below a folder; links are names too and are not followed."""
    count = 0
    for place, folders, names in os.walk(folder):
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*names, *linked):
            count += 1
            if count > MOST_FILES:
                raise NotCheckedError(f"the folder holds more than {MOST_FILES} files; a run has fewer.")
            yield (Path(place) / name).relative_to(folder).as_posix()


def _open_model(folder: Path, reader: Reader) -> dict[str, Any] | None:
    """The record of the base classifiers, if they were kept; their files have the digests it states."""
    path = folder / MODEL
    if not os.path.lexists(path):
        return None
    record = reader.json(path)
    check_format(record, MODEL)
    for name, digest in record["files"].items():
        if not MODEL_FILE.fullmatch(name):
            raise NotTrueError(f"{MODEL} names {name!r}, which is no file of a model.")
        check_file(reader, folder / "models", name, digest, MODEL)
    present = (other.name for suffix in ("skops", "npy") for other in path.parent.glob(f"*.{suffix}"))
    unnamed = set(present) - set(record["files"])
    if unnamed:
        raise NotTrueError(f"{MODEL} does not name {min(unnamed)}.")
    return record


def _open_rankings(path: Path, votes_record: dict[str, Any], reader: Reader) -> NDArray[Any] | None:
    """The rankings, if the votes' record says that there are any."""
    if "rankings" not in votes_record:
        if os.path.lexists(path):
            raise NotTrueError(f"votes.json does not name {path.name}.")
        return None
    _check_matrix(reader, votes_record["rankings"], path)
    return reader.npy(path)


def check_schema(evidence: Evidence) -> None:
    """schema.json is the schema that the manifest states."""
    assert evidence.folder is not None
    if (SCHEMA in (evidence.manifest or {})["files"]) != ("schema" in evidence.settings):
        raise NotTrueError(f"the manifest states a schema without {SCHEMA}, or the other way round.")
    if "schema" not in evidence.settings or SCHEMA in evidence.absent:
        return
    if not same(evidence.reader.plain_json(evidence.folder / SCHEMA), evidence.settings["schema"]):
        raise NotTrueError(f"{SCHEMA} is not the schema that the manifest states.")


def check_file(reader: Reader, folder: Path, name: str, stated: str, by: str) -> None:
    """An error if a file does not have the digest that another states."""
    if reader.sha256(folder / name) != stated:
        raise NotTrueError(f"{name} was altered: it does not have the SHA-256 that {by} states.")


def check_format(record: dict[str, Any], kind: str, name: str | None = None) -> None:
    """An error if a record is of another format than this checker knows."""
    if record.get("format") != FORMATS[kind]:
        raise NotTrueError(
            f"{name or kind} is of format {record.get('format')!r}; this checker knows '{FORMATS[kind]}'."
        )


def _check_matrix(reader: Reader, stated: dict[str, Any], path: Path) -> None:
    record = f"{path.name.split('.')[0]}.json"
    if stated["file"] != path.name:
        raise NotTrueError(f"{record} describes {stated['file']!r}, not {path.name}.")
    check_file(reader, path.parent, path.name, stated["sha256"], record)


def _check_parts(evidence: Evidence, names: list[str]) -> None:
    """Votes, or rankings, that were kept in blocks on the way are those of votes.npy and votes.rankings.npy."""
    assert evidence.folder is not None
    for name in names:
        arrays, facts = evidence.reader.npz(evidence.folder / name)
        part, whole = arrays["votes"], evidence.matrix
        if part.ndim == 3:
            if evidence.rankings is None:
                raise NotTrueError(f"{name} holds rankings, but votes.json names none.")
            whole = evidence.rankings
        whole = whole[facts["first_sample"] :, facts["first_subset"] :][: len(part), : part.shape[1]]
        if not np.array_equal(part, whole):
            raise NotTrueError(f"{name} holds other {'rankings' if part.ndim == 3 else 'votes'} than votes.npy.")
