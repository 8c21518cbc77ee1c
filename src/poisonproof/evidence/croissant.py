"""A Croissant reference for the data of a run: what they are called, how many there are, and their digests.

Croissant (MLCommons) describes data sets in JSON-LD. We hold no data, so this is a reference, not a description of
columns: the name, the digests that the run states, and how poisonproof computes them. Where Croissant wants an address,
it gets a name: the digest as an ``ni:`` URI (RFC 6920), which says what is meant and not where it lies.
"""

from __future__ import annotations

import base64
from typing import Any

from poisonproof.evidence.facts import Facts

OWN_TERMS = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet", "format"),
    *("includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
CONTEXT = {  # that of Croissant 1.0, whole: readers compare it with theirs
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{term: f"cr:{term}" for term in OWN_TERMS},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
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
                "contentUrl": _named(digest),
                "encodingFormat": "application/octet-stream",
                "sha256": digest,
            }
            for name, digest in facts.digests.items()
        ],
    }


def _named(digest: str) -> str:
    """A SHA-256 as a URI that names what has it."""
    return f"ni:///sha-256;{base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip('=')}"
