"""A Croissant reference for the data of a run: what they are called, how many there are, and their digests.

Croissant (MLCommons) describes data sets in JSON-LD. We hold no data, so this is a reference, not a description of
columns: the name, the digests that the run states, and how poisonproof computes them.
"""

from __future__ import annotations

from typing import Any

from poisonproof.evidence.facts import Facts

CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "sha256": "cr:sha256",
    "distribution": "sc:distribution",
}
MEANINGS = {
    "x_train": "content hashes of the training samples, in order",
    "y_train": "labels of the training samples, in order",
    "x_test": "content hashes of the test samples, in order",
    "y_test": "labels of the test samples, in order",
    "groups": "contributors of the training samples, in order",
}


def croissant(facts: Facts) -> dict[str, Any]:
    """The reference as JSON-LD."""
    counts = {"train": facts.manifest["n_train"], "test": facts.figures.n_test}
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.dataset,
        "description": (
            f"The data that the run {facts.name} was trained on ({counts['train']} samples) and tested on "
            f"({counts['test']} samples). The data are not included; the digests are of poisonproof's canonical form."
        ),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "description": f"SHA-256 of the {MEANINGS.get(name, name)}.",
                "encodingFormat": "application/octet-stream",
                "sha256": digest,
            }
            for name, digest in facts.digests.items()
        ],
    }
