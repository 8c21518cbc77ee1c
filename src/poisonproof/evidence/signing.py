"""Signed evidence: envelopes (DSSE, by securesystemslib), and whether what was signed is true of a run.

Keys are PEM files: ed25519, or ECDSA on the NIST curves.
"""

from __future__ import annotations

import hashlib
import json
import os
from copy import deepcopy
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from poisonproof import __version__, registry
from poisonproof.core.certificate import Certificate
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.evidence.documents import (
    BOM,
    DOCUMENTS,
    STATEMENT,
    TEST_RESULT,
    as_json,
    of_the_data,
    of_the_run,
    render,
    statement,
    violation,
)
from poisonproof.evidence.facts import MANIFEST, Facts, artefacts_of
from poisonproof.runs.run import REPORT
from poisonproof.system.archives import read_whole
from poisonproof.system.files import read_record, sha256_of, write_bytes
from poisonproof.verification.files import same, short
from poisonproof.verification.verdict import CheckFailed, Verdict

PASSWORD = "POISONPROOF_KEY_PASSWORD"
ENVELOPES = "evidence.intoto.jsonl"
PAYLOAD = "application/vnd.in-toto+json"
CURVES = ("secp256r1", "secp384r1", "secp521r1")
MOST_BYTES = 64 * 10**6


def write(facts: Facts, folder: Path, key: Any = None) -> dict[str, str]:
    """Write the evidence, signed if a private key is given; the SHA-256 of every file.

    Whatever stood there under these names is replaced; signatures of earlier evidence are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bodies = render(facts)
    stated = as_json(statement(facts, {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}))
    bodies[STATEMENT] = stated
    (folder / ENVELOPES).unlink(missing_ok=True)
    if key is not None:
        envelopes = [sign(body, key) for body in (stated, bodies[TEST_RESULT])]
        bodies[ENVELOPES] = "".join(json.dumps(envelope) + "\n" for envelope in envelopes).encode()
    for name, body in bodies.items():
        write_bytes(folder / name, body)
    return {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}


def sign(payload: bytes, key: Any) -> dict[str, Any]:
    """An envelope around an in-toto statement, signed with a private key."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]

    envelope = Envelope(payload, PAYLOAD, {})
    envelope.sign(CryptoSigner(key, _public(key.public_key())))
    signed: dict[str, Any] = envelope.to_dict()
    return signed


def open_envelope(envelope: Any, key: Any) -> bytes:
    """The statement in an envelope that was signed with this public key; `CheckFailed` for any other."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import FormatError, VerificationError

    try:
        opened = Envelope.from_dict(deepcopy(envelope))  # which it writes into
        if opened.payload_type != PAYLOAD:
            raise CheckFailed(f"The envelope holds {opened.payload_type!r}, not {PAYLOAD!r}.")
        opened.verify([_public(key)], 1)
    except VerificationError:
        raise CheckFailed(
            f"The statement was not signed with this key (SHA-256 {key_id(key)[:16]}…), or was altered since."
        ) from None
    except (FormatError, KeyError, TypeError, ValueError, AttributeError):
        raise CheckFailed("The signed statement is not a DSSE envelope.") from None
    return bytes(opened.payload)


def _public(key: Any) -> Any:
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

    return SSlibKey.from_crypto(key, keyid=key_id(key))  # of other keys' signatures it looks at none


def key_id(key: Any) -> str:
    """SHA-256 of a public key in DER form."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def private_key(path: Path) -> Any:
    """A private key from a PEM file; its password, if it has one, stands in POISONPROOF_KEY_PASSWORD."""
    password = os.environ.get(PASSWORD)
    remedy = f"give a PEM file, and its password, if it has one, in {PASSWORD}"
    return _opened(path, "private", remedy, password.encode() if password else None)


def public_key(path: Path) -> Any:
    """A public key from a PEM file."""
    return _opened(path, "public", "give a PEM file, as `openssl pkey -in KEY -pubout` writes it")


def _opened(path: Path, kind: str, remedy: str, *password: bytes | None) -> Any:
    try:
        import securesystemslib.dsse  # noqa: F401 - what signs needs it
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    except ImportError:
        raise missing_extra("Signing", "securesystemslib[crypto]", "evidence") from None
    if not path.is_file():
        raise PoisonproofError(
            f"{path} is no file; a key is a PEM file." if path.exists() else f"{path}: No such file.",
            code="evidence.key-file",
        )
    load = serialization.load_pem_private_key if kind == "private" else serialization.load_pem_public_key
    try:
        key: Any = load(path.read_bytes(), *password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PoisonproofError(
            f"{path} is no {kind} key that can be opened ({error}); {remedy}.", code=f"evidence.{kind}-key"
        ) from None
    on_curve = isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey) and key.curve.name in CURVES
    if not on_curve and not isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise PoisonproofError(
            f"{path} must hold an ed25519 key, or one on the curve P-256, P-384 or P-521.", code="evidence.key-kind"
        )
    return key


def check_signed(run: Path, folder: Path, key: Any, facts: Facts | None) -> str:
    """One sentence if the evidence in a folder was signed with this public key and is true of the run.

    `CheckFailed` names what is false: the signature, a file of the run or of the evidence, a premise, a number.
    Figures are compared only if the data are at hand (``facts``).
    """
    stated, result = (_payload(folder, at, key) for at in range(2))
    if os.path.lexists(folder / STATEMENT) and _read(folder / STATEMENT) != stated:
        raise CheckFailed(f"{STATEMENT} in {folder} is not the statement that was signed.")
    record = _parsed(stated)
    wrong = violation(record)
    if wrong is not None:
        raise CheckFailed(f"What was signed is no statement of ours ({wrong}).")
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
            "writes it, and --evidence says where it is.",
            code="evidence.unsigned",
        )
    lines = _read(path).splitlines()
    if len(lines) != 2:
        raise CheckFailed(f"{ENVELOPES} in {folder} must hold two signed statements. It holds {len(lines)}.")
    return open_envelope(_parsed(lines[at]), key)


def _read(path: Path) -> bytes:
    if path.is_symlink():
        raise CheckFailed(f"{path.name} in {path.parent} is a link; what it leads to may be something else tomorrow.")
    if path.stat().st_size > MOST_BYTES:
        raise PoisonproofError(
            f"{path} has more than {MOST_BYTES} bytes; no statement of ours has.", code="data.too-large"
        )
    return read_whole(path)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise CheckFailed("What was signed cannot be read as JSON.") from None


def _check_subjects(run: Path, record: dict[str, Any]) -> None:
    """The files that were signed are the files of this run, all of them and no others."""
    stated = {subject["name"]: subject["digest"]["sha256"] for subject in record["subject"]}
    artefacts = artefacts_of(run, read_record(run / "manifest.json"))
    names = {MANIFEST, "certificate.npz", *(kind.result for _, kind in registry.every("elections"))} & set(artefacts)
    if not any(stated.get(name) == artefacts[name] for name in names):
        raise CheckFailed(f"The statement is about another run: {', '.join(sorted(names))} of {run} are other files.")
    names = {*stated, *artefacts} - ({REPORT} - set(artefacts))  # people take the page away before they share a run
    differing = sorted(name for name in names if stated.get(name) != artefacts.get(name))
    if differing:
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        raise CheckFailed(f"{differing[0]} of {run} is not the file that was signed{more}.")


def _check_documents(folder: Path, stated: dict[str, str], result: bytes) -> None:
    for name in DOCUMENTS:
        if name not in stated:
            raise CheckFailed(f"The statement does not name {name}, so nobody signed what it says.")
    for name, digest in stated.items():
        path = folder / name
        if path.is_symlink():
            raise CheckFailed(f"{name} in {folder} is a link; what it leads to may be something else tomorrow.")
        if path.name != name or not path.is_file():
            raise CheckFailed(f"{name!r}, which the statement names, is missing from {folder}.")
        if sha256_of(path) != digest:
            raise CheckFailed(f"{name} in {folder} is not the document that the signed statement names.")
    if _read(folder / TEST_RESULT) != result:
        raise CheckFailed(f"{TEST_RESULT} in {folder} is not the one that was signed.")


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
        raise CheckFailed(f"{BOM} in {folder} is no bill of materials of ours.") from None
    for file, body in render(replace(facts, name=name, verdict=verdict)).items():
        written = _read(folder / file)
        if file == BOM:
            _check_same(file, _without_marks(json.loads(written)), _without_marks(json.loads(body)), "document")
        elif written != body:
            pairs = zip_longest(written.decode(errors="replace").splitlines(), body.decode().splitlines())
            wrong, right = next(((one, other) for one, other in pairs if one != other), ("", ""))
            raise CheckFailed(f"{file} in {folder} says {short(wrong)}, but the run gives {short(right)}.")
    return ""


def _verdict_of(stated: dict[str, Any]) -> Verdict:
    """The verdict whose checks a statement lists; `CheckFailed` if its word does not follow from them."""
    try:
        verdict = Verdict.from_dict(stated)
        follows = (verdict.word, verdict.ok, verdict.verdict) == (stated["word"], stated["ok"], stated["verdict"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckFailed("What the statement says about its verification cannot be followed.") from None
    if not follows or not verdict.consistent:
        raise CheckFailed(f"The statement says {stated['word']}, which does not follow from the checks that it lists.")
    return verdict


def _without_marks(record: dict[str, Any]) -> dict[str, Any]:
    """A bill of materials without its serial number and the time it was written."""
    metadata = {name: value for name, value in record["metadata"].items() if name != "timestamp"}
    return {name: value for name, value in record.items() if name != "serialNumber"} | {"metadata": metadata}


def _check_premises(stated: list[dict[str, Any]], actual: list[dict[str, Any]]) -> None:
    for premise in actual:
        if premise not in stated:
            raise CheckFailed(f"The statement leaves out or changes the premise '{premise['code']}' of the run.")
    for premise in stated:
        if premise not in actual:
            raise CheckFailed(f"The statement names the premise '{premise['code']}', which the run does not have.")


def _check_same(name: str, stated: Any, actual: Any, who: str = "statement") -> None:
    """Equal as JSON; the first place where they are not is named."""
    if same(stated, actual):
        return
    if isinstance(stated, dict) and isinstance(actual, dict) and set(stated) == set(actual):
        for part in actual:
            _check_same(f"{name}.{part}", stated[part], actual[part], who)
    if isinstance(stated, list) and isinstance(actual, list) and len(stated) == len(actual):
        for at, part in enumerate(actual):
            _check_same(f"{name}.{at}", stated[at], part, who)
    raise CheckFailed(f"The {who} says {name} = {short(stated)}, but the run gives {short(actual)}.")
