"""DSSE envelopes, signed and checked with key files: ed25519, or ECDSA on the NIST curves.

A DSSE envelope is twenty lines (https://github.com/secure-systems-lab/dsse), so it is written here; the mathematics is
that of the ``cryptography`` package. The tests let ``securesystemslib`` read what is written and the other way round.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.evidence.facts import NotTrueError

PASSWORD = "POISONPROOF_KEY_PASSWORD"


def pre_authentication(payload: bytes, payload_type: str) -> bytes:
    """What is signed: type and content, each with its length, so that neither can pass for the other."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, payload_type: str, key: Any) -> dict[str, Any]:
    """An envelope around the payload, signed with a private key."""
    signature = _signed(pre_authentication(payload, payload_type), key)
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }


def opened(envelope: Any, payload_type: str, key: Any) -> bytes:
    """The payload of an envelope that was signed with this public key; `NotTrueError` for any other."""
    try:
        payload = base64.b64decode(envelope["payload"], validate=True)
        kind = str(envelope["payloadType"])
        signatures = [base64.b64decode(entry["sig"], validate=True) for entry in envelope["signatures"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise NotTrueError("The signed statement is not a DSSE envelope.") from None
    if kind != payload_type:
        raise NotTrueError(f"The envelope holds {kind!r}, not {payload_type!r}.")
    if not any(_is_signed(pre_authentication(payload, kind), signature, key) for signature in signatures):
        raise NotTrueError(
            f"The statement was not signed with this key (SHA-256 {key_id(key)[:16]}…), or was altered since."
        )
    return payload


def key_id(key: Any) -> str:
    """SHA-256 of a public key in DER form."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def private_key(path: Path) -> Any:
    """A private key from a PEM file; its password, if it has one, stands in POISONPROOF_KEY_PASSWORD."""
    serialization = _serialization()
    password = os.environ.get(PASSWORD)
    try:
        key = serialization.load_pem_private_key(_body(path), password.encode() if password else None)
    except (ValueError, TypeError, _unsupported()) as error:
        raise PoisonproofError(
            f"{path} is no private key that can be opened ({error}); give a PEM file, and its password, if it has one, "
            f"in {PASSWORD}."
        ) from None
    return _known(key, path)


def public_key(path: Path) -> Any:
    """A public key from a PEM file."""
    serialization = _serialization()
    try:
        key = serialization.load_pem_public_key(_body(path))
    except (ValueError, _unsupported()) as error:
        raise PoisonproofError(
            f"{path} is no public key that can be opened ({error}); give a PEM file, as "
            "`openssl pkey -in KEY -pubout` writes it."
        ) from None
    return _known(key, path)


def _body(path: Path) -> bytes:
    if not path.is_file():
        raise PoisonproofError(
            f"{path} is no file; a key is a PEM file." if path.exists() else f"{path}: No such file."
        )
    return path.read_bytes()


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise missing_extra("Signing", "cryptography", "evidence") from None
    return serialization


def _unsupported() -> type[Exception]:
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _known(key: Any, path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    kinds = (
        ed25519.Ed25519PrivateKey,
        ed25519.Ed25519PublicKey,
        ec.EllipticCurvePrivateKey,
        ec.EllipticCurvePublicKey,
    )
    if not isinstance(key, kinds) or (isinstance(key, kinds[2:]) and key.curve.name not in _hashes()):
        raise PoisonproofError(f"{path} must hold an ed25519 key, or one on the curve P-256, P-384 or P-521.")
    return key


def _hashes() -> dict[str, Any]:
    from cryptography.hazmat.primitives import hashes

    return {"secp256r1": hashes.SHA256(), "secp384r1": hashes.SHA384(), "secp521r1": hashes.SHA512()}


def _signed(message: bytes, key: Any) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec

    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(_hashes()[key.curve.name]))
    return bytes(key.sign(message))


def _is_signed(message: bytes, signature: bytes, key: Any) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, message, ec.ECDSA(_hashes()[key.curve.name]))
        else:
            key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
