"""Whether signed evidence is about this run, and says of it what is true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poisonproof.certificates.certificate import Certificate
from poisonproof.errors import PoisonproofError
from poisonproof.evidence.attest import ENVELOPES, STATEMENT, TEST_RESULT
from poisonproof.evidence.facts import Facts, NotTrueError, artefacts_of
from poisonproof.evidence.model_signature import MODEL_SIGNATURE, check_model_signature
from poisonproof.evidence.signing import key_id, opened
from poisonproof.evidence.statement import PAYLOAD, of_the_data, of_the_run, violation
from poisonproof.system.archives import read_whole
from poisonproof.system.files import read_record, sha256_of

MOST_BYTES = 64 * 10**6


def check_sealed(run: Path, folder: Path, key: Any, facts: Facts | None) -> str:
    """One sentence if the evidence in a folder was signed with this public key and is true of the run.

    `NotTrueError` names what is false: the signature, a file of the run or of the evidence, a premise, a number.
    Figures are compared only if the data are at hand (``facts``).
    """
    stated, result = (_payload(folder, at, key) for at in range(2))
    if (folder / STATEMENT).exists() and _read(folder / STATEMENT) != stated:
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
    model = ""
    if MODEL_SIGNATURE in record["predicate"]["documents"]:
        model = f"; {check_model_signature(run, folder / MODEL_SIGNATURE, key)}"
    figures = "" if facts is not None else "; its figures were not compared, because the data are not at hand"
    return (
        f"The evidence in {folder} was signed with this key (SHA-256 {key_id(key)[:16]}…) and is true of the run: "
        f"{len(record['subject'])} files, {len(expected['premises'])} premises{model}{figures}."
    )


def _payload(folder: Path, at: int, key: Any) -> bytes:
    path = folder / ENVELOPES
    if not path.exists():
        raise PoisonproofError(
            f"{folder} holds no signed evidence ({ENVELOPES}); `poisonproof attest RUN --out {folder} --key KEY` "
            "writes it, and --evidence says where it is."
        )
    lines = _read(path).splitlines()
    if len(lines) != 2:
        raise NotTrueError(f"{ENVELOPES} in {folder} must hold two signed statements. It holds {len(lines)}.")
    return opened(_parsed(lines[at]), PAYLOAD, key)


def _read(path: Path) -> bytes:
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
    there = artefacts_of(run, read_record(run / "manifest.json"))
    if not set(stated.items()) & set(there.items()):
        raise NotTrueError(f"The statement is about another run: none of its files is a file of {run}.")
    differing = sorted(name for name in {*stated, *there} if stated.get(name) != there.get(name))
    if differing:
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        raise NotTrueError(f"{differing[0]} of {run} is not the file that was signed{more}.")


def _check_documents(folder: Path, stated: dict[str, str], result: bytes) -> None:
    for name, digest in stated.items():
        path = folder / name
        if path.name != name or not path.is_file():
            raise NotTrueError(f"{name!r}, which the statement names, is missing from {folder}.")
        if sha256_of(path) != digest:
            raise NotTrueError(f"{name} in {folder} is not the document that the signed statement names.")
    if TEST_RESULT not in stated or _read(folder / TEST_RESULT) != result:
        raise NotTrueError(f"{TEST_RESULT} in {folder} is not the one that was signed.")


def _check_premises(stated: list[dict[str, Any]], there: list[dict[str, Any]]) -> None:
    for premise in there:
        if premise not in stated:
            raise NotTrueError(f"The statement leaves out or changes the premise '{premise['what']}' of the run.")
    for premise in stated:
        if premise not in there:
            raise NotTrueError(f"The statement names the premise '{premise['what']}', which the run does not have.")


def _check_same(name: str, stated: Any, there: Any) -> None:
    """Equal as JSON; the first place where they are not is named."""
    if json.dumps(stated, sort_keys=True) == json.dumps(there, sort_keys=True):
        return
    if isinstance(stated, dict) and isinstance(there, dict) and set(stated) == set(there):
        for part in there:
            _check_same(f"{name}.{part}", stated[part], there[part])
    if isinstance(stated, list) and isinstance(there, list) and len(stated) == len(there):
        for at, part in enumerate(there):
            _check_same(f"{name}.{at}", stated[at], part)
    raise NotTrueError(f"The statement says {name} = {_short(stated)}, but the run gives {_short(there)}.")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"
