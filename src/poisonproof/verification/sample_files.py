"""The files of a run in which training samples vote, or of such a certificate by itself, opened as strangers' files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.verification.evidence import (
    MODEL,
    Evidence,
    check_file,
    check_format,
    check_schema,
    tell_files,
)
from poisonproof.verification.records import Archive, Reader, check_folder
from poisonproof.verification.verdict import NotCheckedError, NotTrueError

COUNTS = {"ballots": "ballots.npz", "neighbours": "neighbours.npz"}
FORMATS = {"ballots.npz": "poisonproof ballots 1", "neighbours.npz": "poisonproof neighbours 1"}
OF_MODEL = ("model.json", "voters.npz", "map.skops")
VOTERS_FORMAT = "poisonproof voters 1"
BLOCKS_FORMAT = "poisonproof counts 1"
MAY_BE_ABSENT = re.compile(
    r"votes/block-\d{5,}\.npz|models/(model\.json|voters\.npz|map\.skops)|schema\.json|report\.html"
)


@dataclass
class SampleEvidence(Evidence):
    """What the files say where samples vote: ``counts`` is ballots.npz or neighbours.npz."""

    counts: Archive | None = None

    @property
    def kind(self) -> str:
        """Ballots or neighbours, as the certificate says."""
        kind = str(self.facts["election"]["kind"]).removeprefix("one-sided ")
        if kind not in COUNTS:
            raise NotCheckedError(f"this checker does not know the election {kind!r}.")
        return kind

    @property
    def heard(self) -> Archive:
        """The counts, which must be there."""
        if self.counts is None:
            raise NotCheckedError("the certificate comes without votes; give votes=FILE (--votes).")
        return self.counts

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """The records that describe the same election, by file."""
        records = {COUNTS[self.kind]: None if self.counts is None else self.counts.facts, "certificate.npz": self.facts}
        return {name: record for name, record in records.items() if record is not None}

    @property
    def n_test(self) -> int:
        """Number of test samples that the votes are about."""
        return len(self.heard.arrays["near" if self.kind == "ballots" else "order"])


def is_of_samples(certificate: Archive) -> bool:
    """Whether a certificate says that training samples voted."""
    return certificate.facts.get("election") is not None


def open_sample_run(folder: Path, manifest: dict[str, Any], reader: Reader) -> SampleEvidence:
    """A run directory; the first file that is not what the manifest says is named."""
    for name in ("votes", "models"):
        check_folder(folder / name)
    method = manifest["settings"]["election"].get("method")
    if method not in COUNTS:
        raise NotCheckedError(f"this checker does not know the method {method!r}.")
    required, stated = (COUNTS[method], "certificate.npz"), manifest["files"]
    for name in stated:
        if name not in required and not MAY_BE_ABSENT.fullmatch(name):
            raise NotTrueError(f"the manifest names {name!r}, which is no file of such a run.")
    for name in required:
        if name not in stated:
            raise NotTrueError(f"the manifest does not name {name}.")
    absent = [name for name in stated if name not in required and not os.path.lexists(folder / name)]
    for name in (name for name in stated if name not in absent):
        check_file(reader, folder, name, stated[name], "manifest.json")
    counts, certificate = reader.npz(folder / COUNTS[method]), reader.npz(folder / "certificate.npz")
    check_format(certificate.facts, "certificate.npz")
    if not is_of_samples(certificate):
        raise NotTrueError("the manifest says that samples vote, and certificate.npz that base classifiers do.")
    evidence = SampleEvidence(certificate, reader, manifest, folder=folder, absent=absent, counts=counts)
    _check_counts(evidence, COUNTS[method])
    evidence.model = _model(folder, reader)
    check_schema(evidence)
    _check_blocks(evidence, [name for name in stated if name.startswith("votes/") and name not in absent])
    tell_files(evidence, folder, len(stated), stated)
    return evidence


def open_sample_certificate(path: Path, certificate: Archive, votes: Path | None, reader: Reader) -> SampleEvidence:
    """A loose certificate, with the ballots or neighbours it was made from if they are given."""
    evidence = SampleEvidence(certificate, reader)
    evidence.words = f"the arrays of {path.name} have the digests that it states"
    if votes is not None:
        evidence.counts = reader.npz(votes)
        _check_counts(evidence, COUNTS[evidence.kind])
        evidence.words += f", and so do those of {votes.name}"
    evidence.words += "."
    return evidence


def _check_counts(evidence: SampleEvidence, name: str) -> None:
    facts = evidence.heard.facts
    if facts.get("format") != FORMATS[name] or COUNTS[evidence.kind] != name:
        raise NotTrueError(f"the votes are of format {facts.get('format')!r}; {evidence.kind} are '{FORMATS[name]}'.")


def _model(folder: Path, reader: Reader) -> dict[str, Any] | None:
    """The record of the kept voters; their files have the digests it states."""
    if not os.path.lexists(folder / MODEL):
        return None
    record = reader.json(folder / MODEL)
    if record.get("format") != VOTERS_FORMAT:
        raise NotTrueError(f"{MODEL} is of format {record.get('format')!r}; this checker knows '{VOTERS_FORMAT}'.")
    for name, digest in record["files"].items():
        if name not in OF_MODEL[1:]:
            raise NotTrueError(f"{MODEL} names {name!r}, which is no file of such a model.")
        check_file(reader, folder / "models", name, digest, MODEL)
    return record


def _check_blocks(evidence: SampleEvidence, names: list[str]) -> None:
    """Counts that were kept in blocks on the way are those of the whole."""
    assert evidence.folder is not None
    whole = evidence.heard.arrays
    name_of_votes, name_of_own = ("near", "self_near") if evidence.kind == "ballots" else ("order", "first")
    for name in names:
        arrays, facts = evidence.reader.npz(evidence.folder / name)
        if facts.get("format") != BLOCKS_FORMAT:
            raise NotTrueError(f"{name} is of format {facts.get('format')!r}; this checker knows '{BLOCKS_FORMAT}'.")
        part = slice(facts["first_sample"], facts["first_sample"] + len(arrays["votes"]))
        if not np.array_equal(arrays["votes"], whole[name_of_votes][part]) or not np.array_equal(
            arrays["own"], whole[name_of_own][part]
        ):
            raise NotTrueError(f"{name} holds other votes than {COUNTS[evidence.kind]}.")
