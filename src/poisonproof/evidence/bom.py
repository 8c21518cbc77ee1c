"""A CycloneDX 1.6 machine-learning bill of materials: the model, its data and the software that made it.

Components, hashes, licences and dependencies are written by ``cyclonedx-python-lib``. That library has no class for
``modelCard`` yet, so the card is put into its output, and the whole is validated against the schema that it ships.
"""

from __future__ import annotations

import json
import re
from typing import Any

from poisonproof import __version__
from poisonproof.display import percent
from poisonproof.errors import missing_extra
from poisonproof.evidence.facts import ACTS, Facts, Figures

MODEL, TRAINING, TEST = "model", "training-data", "test-data"
SHA_256 = re.compile(r"[0-9a-f]{64}")


def bom(facts: Facts) -> str:
    """The bill of materials as JSON, valid by the schema; a defect of ours if it is not."""
    try:
        from cyclonedx.output import make_outputter
        from cyclonedx.schema import OutputFormat, SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        raise missing_extra("A CycloneDX bill of materials", "cyclonedx-python-lib", "evidence") from None
    plain = make_outputter(_components(facts), OutputFormat.JSON, SchemaVersion.V1_6).output_as_string()
    record = json.loads(plain)
    record["metadata"]["component"]["modelCard"] = model_card(facts)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if errors:
        raise RuntimeError(f"the bill of materials is not valid CycloneDX 1.6: {errors}")
    return text


def _components(facts: Facts) -> Any:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType

    def hashed(digest: str) -> HashType:
        return HashType(alg=HashAlgorithm.SHA_256, content=digest)

    licence = LicenseFactory()
    tool = Component(
        name="poisonproof",
        version=__version__,
        type=ComponentType.LIBRARY,
        bom_ref="poisonproof",
        licenses=[licence.make_from_string("BSD-3-Clause")],
    )
    artefacts = [
        Component(name=name, type=ComponentType.FILE, bom_ref=f"file:{name}", hashes=[hashed(digest)])
        for name, digest in facts.artefacts.items()
    ]
    model = Component(
        name=facts.name,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref=MODEL,
        description=_summary(facts),
        hashes=[hashed(facts.artefacts["manifest.json"])],
        components=artefacts,
        properties=[
            Property(name=f"poisonproof:{name}", value=value)
            for name, value in {
                "method": facts.certificate.method,
                **facts.voters.flat,
                "unit": facts.certificate.unit,
                "verdict": facts.verdict.word,
            }.items()
        ],
    )
    data = [
        Component(
            name=f"{facts.dataset}, {words}",
            type=ComponentType.DATA,
            bom_ref=reference,
            properties=[
                Property(name=f"poisonproof:sha256:{name}", value=digest)
                for name, digest in facts.digests.items()
                if name.endswith("_test") == (reference == TEST)
            ],
        )
        for reference, words in ((TRAINING, "training samples"), (TEST, "test samples"))
    ]
    encoders = [
        Component(
            name=encoder["name"],
            version=encoder["version"],
            type=ComponentType.MACHINE_LEARNING_MODEL,
            bom_ref=f"encoder:{encoder['name']}",
            licenses=[licence.make_from_string(encoder["licence"])],
            hashes=[hashed(encoder["weights"])] if SHA_256.fullmatch(encoder["weights"]) else [],
            description=f"{encoder['source']}; trained on {encoder['trained_on']}",
        )
        for encoder in _encoders(facts)
    ]
    record = Bom(components=[*data, *encoders])
    record.metadata.component = model
    record.metadata.tools.components.add(tool)
    record.register_dependency(model, [*data, *encoders])
    return record


def _encoders(facts: Facts) -> list[dict[str, str]]:
    """Encoders that stand in front of the voters, as the premises of the certificate name them."""
    return [premise.value for premise in facts.certificate.premises if premise.code == "encoder"]


def _summary(facts: Facts) -> str:
    certificate = facts.certificate
    return (
        f"{facts.voters.sentence}, whose predictions carry a proof against training-data poisoning "
        f"({certificate.method}); radii count {certificate.unit}."
    )


def model_card(facts: Facts) -> dict[str, Any]:
    """CycloneDX's model card: parameters, figures, and what is and is not covered."""
    threats = facts.threat_model
    return {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "classification",
            "architectureFamily": facts.voters.architecture,
            "modelArchitecture": str(facts.manifest["settings"]["learner"]),
            "datasets": [{"ref": TRAINING}, {"ref": TEST}],
        },
        "quantitativeAnalysis": {"performanceMetrics": metrics(facts.figures)},
        "considerations": {
            "useCases": ["Classification where some of the training samples may come from an attacker."],
            "technicalLimitations": [
                *(f"Premise of the proof: {premise}" for premise in facts.certificate.premises),
                *(f"Not covered by the proof: {act}." for act, cost in threats.items() if cost == "not covered"),
                *(f"Not checked by the verifier: {words}." for words in facts.verdict.unchecked),
                "A radius says nothing about whether a prediction is right.",
            ],
            "performanceTradeoffs": [
                f"Clean accuracy {percent(facts.figures.clean_accuracy)} %; a constant answer reaches "
                f"{percent(facts.figures.majority_share)} % and cannot be poisoned either."
            ],
            "ethicalConsiderations": [
                {
                    "name": f"Training-data poisoning: an attacker who can {act}",
                    "mitigationStrategy": f"Counts {cost} towards the attack size that a radius is compared with.",
                }
                for act, cost in threats.items()
                if cost != "not covered"
            ],
        },
    }


def metrics(figures: Figures) -> list[dict[str, str]]:
    """Clean, balanced and majority figures, certified fractions by attack size, and the same per class."""
    rows = [
        ("clean accuracy", figures.clean_accuracy, "test set"),
        ("balanced accuracy", figures.balanced_accuracy, "test set, mean over classes"),
        ("share of the largest class", figures.majority_share, "test set, a constant answer"),
    ]
    for at, size in enumerate(figures.attack_sizes):
        rows.append(("certified fraction (pointwise)", figures.certified_fractions[at], f"attack size {size}"))
        rows.append(("balanced certified fraction (pointwise)", figures.balanced[at], f"attack size {size}"))
    for row in figures.classes:
        if not row.n_test:
            continue
        rows.append(("clean accuracy", row.right / row.n_test, f"class {row.label}"))
        for at, size in enumerate(figures.attack_sizes):
            share = row.certified[at] / row.n_test
            rows.append(("certified fraction (pointwise)", share, f"class {row.label}, attack size {size}"))
    entries = [{"type": name, "value": repr(value), "slice": where} for name, value, where in rows]
    entries += [
        {"type": "median radius", "value": str(row.median_radius), "slice": f"act: {ACTS[row.act]}"}
        for row in figures.acts
    ]
    return entries + [
        {
            "type": "median radius against being turned to this class",
            "value": str(row.target_median),
            "slice": f"target {row.label}",
        }
        for row in figures.classes
        if row.target_median is not None
    ]
