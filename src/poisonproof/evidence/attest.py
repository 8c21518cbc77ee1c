"""The evidence about a run, written into a folder; the last file states the digests of all others."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from poisonproof.evidence.bom import bom
from poisonproof.evidence.facts import Facts
from poisonproof.evidence.model_card import model_card
from poisonproof.evidence.page import page
from poisonproof.evidence.signing import sign
from poisonproof.evidence.statement import PAYLOAD, statement, test_result
from poisonproof.system.files import write_bytes

STATEMENT, TEST_RESULT, ENVELOPES = "statement.json", "test-result.json", "evidence.intoto.jsonl"
BOM, CARD, PAGE = "bom.cdx.json", "model-card.md", "evidence.html"
DOCUMENTS = (BOM, CARD, PAGE, TEST_RESULT)


def attest(facts: Facts, folder: Path, key: Any = None) -> dict[str, str]:
    """Write the evidence, signed if a private key is given; the SHA-256 of every file.

    Whatever stood there under these names is replaced; signatures of earlier evidence are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bodies = documents(facts)
    result = bodies[TEST_RESULT]
    stated = _json(statement(facts, {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}))
    bodies[STATEMENT] = stated
    (folder / ENVELOPES).unlink(missing_ok=True)
    if key is not None:
        envelopes = [sign(body, PAYLOAD, key) for body in (stated, result)]
        bodies[ENVELOPES] = "".join(json.dumps(envelope) + "\n" for envelope in envelopes).encode()
    for name, body in bodies.items():
        write_bytes(folder / name, body)
    return {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}


def documents(facts: Facts) -> dict[str, bytes]:
    """Everything but the statement itself, by file; only the bill of materials has a number and a time of its own."""
    return {
        BOM: bom(facts).encode(),
        CARD: model_card(facts).encode(),
        PAGE: page(facts).encode("utf-8", "replace"),
        TEST_RESULT: _json(test_result(facts)),
    }


def folder_beside(run: Path) -> Path:
    """Where evidence goes by default: beside the run, whose folder holds nothing that its manifest does not know."""
    return run.resolve().with_name(f"{run.resolve().name}-evidence")


def _json(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=1) + "\n").encode()
