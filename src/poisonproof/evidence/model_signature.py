"""The files of a run, signed as sigstore's model_signing signs models, with a key file and without a network.

People who deploy models check them with that tool: ``model_signing verify key RUN --signature model.sig …``. It covers
the files that the manifest of a run states, and leaves alone what may change beside them (reports, locks).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.evidence.facts import NotTrueError
from poisonproof.evidence.signing import PASSWORD

MODEL_SIGNATURE = "model.sig"
PURPOSE = "A signature of model_signing"


def sign_model(run: Path, names: Iterable[str], key: Path) -> bytes:
    """A sigstore bundle over these files of a run, signed with a private key on a NIST curve."""
    hashing, signing, _ = _library()
    from cryptography.hazmat.primitives.asymmetric import ec

    from poisonproof.evidence.signing import private_key

    if not isinstance(private_key(key), ec.EllipticCurvePrivateKey):
        raise PoisonproofError(
            f"model_signing signs with keys on the curves P-256, P-384 and P-521, and {key} holds an ed25519 key; "
            "`openssl ecparam -name prime256v1 -genkey -noout -out KEY` makes one."
        )
    signed = {run / name for name in names}
    others = [path for path in sorted(run.rglob("*")) if path.is_file() and path not in signed]
    how = hashing.Config().set_ignored_paths(paths=others, ignore_git_paths=True)
    config = signing.Config().set_hashing_config(how)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MODEL_SIGNATURE
        config.use_elliptic_key_signer(private_key=key, password=os.environ.get(PASSWORD)).sign(run, path)
        return path.read_bytes()


def check_model_signature(run: Path, path: Path, key: Any) -> str:
    """A clause about a bundle that was signed with this public key over these files; `NotTrueError` for any other.

    Without model_signing it says that nobody looked.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        _, _, verifying = _library()
    except ImportError:
        return f"{path.name} was not looked at, because model_signing is not installed"
    with tempfile.TemporaryDirectory() as folder:
        pem = Path(folder) / "key.pub"
        pem.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        try:
            config = verifying.Config().use_elliptic_key_verifier(public_key=pem).set_ignore_unsigned_files(True)
            config.verify(run, path)
        except Exception as error:  # the library raises what its own libraries raise
            raise NotTrueError(
                f"{path.name} is not model_signing's signature of {run} with this key ({error})."
            ) from None
    return f"{path.name} is model_signing's signature of its files"


def _library() -> tuple[Any, Any, Any]:
    try:
        from model_signing import hashing, signing, verifying
    except ImportError:
        raise missing_extra(PURPOSE, "model-signing", "model-signing") from None
    return hashing, signing, verifying
