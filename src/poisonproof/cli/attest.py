"""poisonproof attest: evidence about a run, for auditors, regulators and build servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poisonproof.cli import encoding, options, output
from poisonproof.cli.facts import Brought, DataName, Retrain, verified_facts
from poisonproof.cli.reopening import Learner, Run, Test

EXAMPLES = "Example: `poisonproof attest runs/digits --out runs/digits-evidence --key key.pem`"


def command(
    run: Run,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write into; by default RUN-evidence, beside the run.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", help="Private key (PEM; ed25519 or ECDSA) to sign with. See docs/evidence.md."),
    ] = None,
    dataset: DataName = None,
    test: Test = None,
    data_dir: options.DataDir = None,
    learner: Learner = None,
    encoder: encoding.Again = None,
    retrain: Retrain = 0,
    json: options.Json = False,
) -> None:
    """Verify a run, compute every figure again, and write evidence about it.

    `statement.json` (in-toto statement v1), `test-result.json` (the verdict, in-toto test result), `bom.cdx.json`
    (CycloneDX 1.6 with a model card), `model-card.md`, `evidence.html` and, with `--key`, `evidence.intoto.jsonl`,
    both statements signed (DSSE). Base classifiers may have voted or the training samples themselves. A run about which
    something is false yields no evidence: exit code 3.
    """
    from poisonproof.evidence.facts import folder_beside
    from poisonproof.evidence.signing import private_key, write

    signer = None if key is None else private_key(key)
    facts = verified_facts(run, dataset, data_dir, retrain, Brought(learner, encoder, test))
    folder = folder_beside(run) if out is None else out
    written = write(facts, folder, signer)
    if json:
        output.print_json({"out": str(folder), "verdict": facts.verdict.word, "sha256": written})
        return
    rows = [[name, digest] for name, digest in written.items()]
    output.print_table(
        f"{facts.verdict.word}: evidence about {facts.name} in {folder}", ["file", "SHA-256"], rows, left=2
    )
    if key is None:
        output.note("the evidence is not signed; --key FILE signs it.")
