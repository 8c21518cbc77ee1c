"""Whether signed evidence is about this run, and says of it what is true."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from poisonproof import __version__, registry
from poisonproof.core.certificate import Certificate
from poisonproof.errors import PoisonproofError
from poisonproof.evidence.attest import BOM, DOCUMENTS, ENVELOPES, STATEMENT, TEST_RESULT, documents
from poisonproof.evidence.facts import MANIFEST, Facts, NotTrueError, artefacts_of
from poisonproof.evidence.signing import key_id, opened
from poisonproof.evidence.statement import PAYLOAD, of_the_data, of_the_run, violation
from poisonproof.runs.folder import REPORT
from poisonproof.system.archives import read_whole
from poisonproof.system.files import read_record, sha256_of
from poisonproof.verification.verdict import Verdict

MOST_BYTES = 64 * 10**6


def check_sealed(run: Path, folder: Path, key: Any, facts: Facts | None) -> str:
    """One sentence if the evidence in a folder was signed with this public key and is true of the run.

    `NotTrueError` names what is false: the signature, a file of the run or of the evidence, a premise, a number.
    Figures are compared only if the data are at hand (``facts``).
    """
    stated, result = (_payload(folder, at, key) for at in range(2))
    if os.path.lexists(folder / STATEMENT) and _read(folder / STATEMENT) != stated:
        raise NotTrueError(f"{STATEMENT} in {folder} is not the statement that was signed.")
    record = _parsed(stated)
    wrong = violation(record)
    if wrong is not None:
        raise NotTrueError(f"What was signed is no statement of ours ({wrong}).")
    _check_subjects(run, record)
    _check_documents(folder, record["predicate"]["documents"], result)
    certificate = Certificate.load(run / "certificate.npz")
    expected = of_the_run(certificate, read_record(run / "manifest.json"))
    expected |= {} if facts is None else of_the_data(facts)
    _check_premises(record["predicate"]["premises"], expected["premises"])
    for name, value in expected.items():
        _check_same(name, record["predicate"][name], value)
    others = "" if facts is None else _check_what_documents_say(folder, record["predicate"], facts)
    figures = "" if facts is not None else "; its figures were not compared, because the data are not at hand"
    return (
        f"The evidence in {folder} was signed with this key (SHA-256 {key_id(key)[:16]}…) and is true of the run: "
        f"{len(record['subject'])} files, {len(expected['premises'])} premises{figures}{others}."
    )


def _payload(folder: Path, at: int, key: Any) -> bytes:
    path = folder / ENVELOPES
    if not os.path.lexists(path):
        raise PoisonproofError(
            f"{folder} holds no signed evidence ({ENVELOPES}); `poisonproof attest RUN --out {folder} --key KEY` "
            "writes it, and --evidence says where it is."
        )
    lines = _read(path).splitlines()
    if len(lines) != 2:
        raise NotTrueError(f"{ENVELOPES} in {folder} must hold two signed statements. It holds {len(lines)}.")
    return opened(_parsed(lines[at]), PAYLOAD, key)


def _read(path: Path) -> bytes:
    if path.is_symlink():
        raise NotTrueError(f"{path.name} in {path.parent} is a link; what it leads to may be something else tomorrow.")
    if path.stat().st_size > MOST_BYTES:
        raise PoisonproofError(f"{path} has more than {MOST_BYTES} bytes; no statement of ours has.")
    return read_whole(path)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NotTrueError("What was signed cannot be read as JSON.") from None


def _check_subjects(run: Path, record: dict[str, Any]) -> None:
    """The files that were signed are the files of this run, all of them and no others."""
    stated = {subject["name"]: subject["digest"]["sha256"] for subject in record["subject"]}
    artefacts = artefacts_of(run, read_record(run / "manifest.json"))
    names = {MANIFEST, "certificate.npz", *(kind.result for _, kind in registry.every("elections"))} & set(artefacts)
    if not any(stated.get(name) == artefacts[name] for name in names):
        raise NotTrueError(f"The statement is about another run: {', '.join(sorted(names))} of {run} are other files.")
    names = {*stated, *artefacts} - ({REPORT} - set(artefacts))  # people take the page away before they share a run
    differing = sorted(name for name in names if stated.get(name) != artefacts.get(name))
    if differing:
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        raise NotTrueError(f"{differing[0]} of {run} is not the file that was signed{more}.")


def _check_documents(folder: Path, stated: dict[str, str], result: bytes) -> None:
    for name in DOCUMENTS:
        if name not in stated:
            raise NotTrueError(f"The statement does not name {name}, so nobody signed what it says.")
    for name, digest in stated.items():
        path = folder / name
        if path.is_symlink():
            raise NotTrueError(f"{name} in {folder} is a link; what it leads to may be something else tomorrow.")
        if path.name != name or not path.is_file():
            raise NotTrueError(f"{name!r}, which the statement names, is missing from {folder}.")
        if sha256_of(path) != digest:
            raise NotTrueError(f"{name} in {folder} is not the document that the signed statement names.")
    if _read(folder / TEST_RESULT) != result:
        raise NotTrueError(f"{TEST_RESULT} in {folder} is not the one that was signed.")


def _check_what_documents_say(folder: Path, stated: dict[str, Any], facts: Facts) -> str:
    """Every document is, word for word, what is written about this run and the verdict that is stated.

    A clause about what was not compared: another version may have other words for the same facts.
    """
    verdict = _verdict_of(stated["verification"])
    if stated["tool"]["version"] != __version__:
        return (
            f"; its documents are those of poisonproof {stated['tool']['version']}, and their words were not compared"
        )
    parts = _parsed(_read(folder / BOM))
    try:
        name = str(parts["metadata"]["component"]["name"])  # the folder may have another name by now
    except (KeyError, TypeError):
        raise NotTrueError(f"{BOM} in {folder} is no bill of materials of ours.") from None
    for file, body in documents(replace(facts, name=name, verdict=verdict)).items():
        written = _read(folder / file)
        if file == BOM:
            _check_same(file, _without_marks(json.loads(written)), _without_marks(json.loads(body)), "document")
        elif written != body:
            pairs = zip_longest(written.decode(errors="replace").splitlines(), body.decode().splitlines())
            wrong, right = next(((one, other) for one, other in pairs if one != other), ("", ""))
            raise NotTrueError(f"{file} in {folder} says {_short(wrong)}, but the run gives {_short(right)}.")
    return ""


def _verdict_of(stated: dict[str, Any]) -> Verdict:
    """The verdict whose checks a statement lists; `NotTrueError` if its word does not follow from them."""
    try:
        verdict = Verdict.from_dict(stated)
        follows = (verdict.word, verdict.ok, verdict.verdict) == (stated["word"], stated["ok"], stated["verdict"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NotTrueError("What the statement says about its verification cannot be followed.") from None
    if not follows or not verdict.consistent:
        raise NotTrueError(f"The statement says {stated['word']}, which does not follow from the checks that it lists.")
    return verdict


def _without_marks(record: dict[str, Any]) -> dict[str, Any]:
    """A bill of materials without its serial number and the time it was written."""
    metadata = {name: value for name, value in record["metadata"].items() if name != "timestamp"}
    return {name: value for name, value in record.items() if name != "serialNumber"} | {"metadata": metadata}


def _check_premises(stated: list[dict[str, Any]], actual: list[dict[str, Any]]) -> None:
    for premise in actual:
        if premise not in stated:
            raise NotTrueError(f"The statement leaves out or changes the premise '{premise['code']}' of the run.")
    for premise in stated:
        if premise not in actual:
            raise NotTrueError(f"The statement names the premise '{premise['code']}', which the run does not have.")


def _check_same(name: str, stated: Any, actual: Any, who: str = "statement") -> None:
    """Equal as JSON; the first place where they are not is named."""
    if json.dumps(stated, sort_keys=True) == json.dumps(actual, sort_keys=True):
        return
    if isinstance(stated, dict) and isinstance(actual, dict) and set(stated) == set(actual):
        for part in actual:
            _check_same(f"{name}.{part}", stated[part], actual[part], who)
    if isinstance(stated, list) and isinstance(actual, list) and len(stated) == len(actual):
        for at, part in enumerate(actual):
            _check_same(f"{name}.{at}", stated[at], part, who)
    raise NotTrueError(f"The {who} says {name} = {_short(stated)}, but the run gives {_short(actual)}.")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"
