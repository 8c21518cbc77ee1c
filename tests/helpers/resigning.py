"""Makers who lie about a run: they hold the key, or write every digest anew."""

import base64
import json

from poisonproof.evidence import signing
from poisonproof.evidence.signing import ENVELOPES
from poisonproof.system.files import read_record, write_record


def signed_anew(evidence, key, change):
    """The statement, changed and signed again with the same key."""
    lines = (evidence / ENVELOPES).read_text().splitlines()
    record = json.loads(base64.b64decode(json.loads(lines[0])["payload"]))
    change(record)
    body = (json.dumps(record, indent=1) + "\n").encode()
    (evidence / "statement.json").write_bytes(body)
    lines[0] = json.dumps(signing.sign(body, key))
    (evidence / ENVELOPES).write_text("\n".join(lines) + "\n")


def rewritten(folder, change):
    """The manifest, changed, with a digest that fits."""
    manifest = {name: value for name, value in read_record(folder / "manifest.json").items() if name != "digest"}
    change(manifest)
    write_record(folder / "manifest.json", manifest)
