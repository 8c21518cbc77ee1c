"""The documents of the evidence about a run: the same facts in four forms, and a statement that names them all.

In-toto statements (v1), ours with every fact by ``certificate-v2.schema.json`` and one of a vetted type with the
verifier's verdict; a CycloneDX 1.6 bill of materials, validated against the schema that ``cyclonedx-python-lib`` ships
(which has no class for ``modelCard`` yet); a model card in Markdown with YAML front matter, as model hubs read it; and
a page that opens without a network.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from uuid import uuid4

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from poisonproof import __version__
from poisonproof.core.certificate import Certificate
from poisonproof.display import in_markdown, percent, shown, survival, ticks
from poisonproof.errors import missing_extra
from poisonproof.evidence.facts import ACTS, Facts, threats_of, voters_of
from poisonproof.premises import to_records

STATEMENT, TEST_RESULT = "statement.json", "test-result.json"
BOM, CARD, PAGE = "bom.cdx.json", "model-card.md", "evidence.html"
DOCUMENTS = (BOM, CARD, PAGE, TEST_RESULT)
IN_TOTO = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:poisonproof:predicate:certificate:v2"
TEST_RESULT_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
TRAINING, TEST = "training-data", "test-data"
SHA_256 = re.compile(r"[0-9a-f]{64}")
MOST_CLASSES = 50  # of a card


def render(facts: Facts) -> dict[str, bytes]:
    """Everything but the statement itself, by file; only the bill of materials has a number and a time of its own."""
    return {
        BOM: bom(facts).encode(),
        CARD: card(facts).encode(),
        PAGE: page(facts).encode("utf-8", "replace"),
        TEST_RESULT: as_json(test_result(facts)),
    }


def as_json(record: dict[str, Any]) -> bytes:
    """A record as a file."""
    return (json.dumps(record, indent=1) + "\n").encode()


def subjects(facts: Facts) -> list[dict[str, Any]]:
    """The files of the run by their SHA-256."""
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in facts.artefacts.items()]


def statement(facts: Facts, documents: dict[str, str]) -> dict[str, Any]:
    """Everything about the run; ``documents`` are the other files of the evidence, by their SHA-256."""
    return {
        "_type": IN_TOTO,
        "subject": subjects(facts),
        "predicateType": PREDICATE,
        "predicate": {**predicate(facts), "documents": documents},
    }


def predicate(facts: Facts) -> dict[str, Any]:
    """Method, parameters, threat model, premises, data, figures and the verifier's verdict."""
    verification = {name: value for name, value in facts.verdict.as_dict().items() if name != "subject"}
    return {
        "tool": {"name": "poisonproof", "version": __version__},
        **of_the_run(facts.certificate, facts.manifest),
        **of_the_data(facts),
        "verification": verification | {"seed": str(facts.verdict.seed)},  # above 2⁵³, where JSON readers round
    }


def of_the_run(certificate: Certificate, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the files of a run say without its data."""
    facts = certificate.facts()
    return {
        "certificate": {
            "method": certificate.method,
            **voters_of(certificate, manifest).parameters,
            "split": facts["split"],
            "learner": manifest["settings"]["learner"],
            "classes": facts["classes"]["values"],
            "classes_inferred": facts["classes_inferred"],
            "unit": certificate.unit,
            "deterministic": True,
        },
        "threat_model": threats_of(certificate, manifest),
        "premises": to_records(certificate.premises),
    }


def of_the_data(facts: Facts) -> dict[str, Any]:
    """What follows from the run and its data together."""
    training = {name: digest for name, digest in facts.digests.items() if not name.endswith("_test")}
    test = {name: digest for name, digest in facts.digests.items() if name.endswith("_test")}
    return {
        "training": {"dataset": facts.dataset, "samples": facts.manifest["n_train"], "sha256": training},
        "evaluation": {"dataset": facts.dataset, "sha256": test, **facts.figures},
    }


def test_result(facts: Facts) -> dict[str, Any]:
    """The verdict as a test result: PASSED if VERIFIED, WARNED if no more than CONSISTENT."""
    verdict = facts.verdict
    return {
        "_type": IN_TOTO,
        "subject": subjects(facts),
        "predicateType": TEST_RESULT_TYPE,
        "predicate": {
            "result": "PASSED" if verdict.ok else "WARNED",
            "configuration": [{"name": "manifest.json", "digest": {"sha256": facts.artefacts["manifest.json"]}}],
            "passedTests": [check.name for check in verdict.checks if check.outcome == "ok"],
            "warnedTests": [check.name for check in verdict.not_checked],
            "failedTests": [],
        },
    }


def schema() -> dict[str, Any]:
    """The JSON schema of our statement."""
    return dict(json.loads((files("poisonproof.evidence") / "certificate-v2.schema.json").read_text()))


def violation(stated: Any) -> str | None:
    """Where a statement is not of our schema, in words; None if it is."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        raise missing_extra("Checking a statement against its schema", "jsonschema", "evidence") from None
    errors = sorted(Draft202012Validator(schema()).iter_errors(stated), key=lambda error: list(error.path))
    if not errors:
        return None
    return f"{'.'.join(map(str, errors[0].path)) or 'the whole'}: {errors[0].message[:200]}"


def bom(facts: Facts) -> str:
    """The bill of materials as JSON, valid by the schema; a defect of ours if it is not."""
    try:
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.spdx import is_supported_id
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError:
        raise missing_extra("A CycloneDX bill of materials", "cyclonedx-python-lib", "evidence") from None

    def hashed(digest: str) -> dict[str, Any]:
        return {"hashes": [{"alg": "SHA-256", "content": digest}]} if SHA_256.fullmatch(digest) else {}

    def properties(given: dict[str, str]) -> list[dict[str, str]]:
        return [{"name": f"poisonproof:{name}", "value": value} for name, value in sorted(given.items())]

    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": facts.name,
        "description": f"{facts.voters.sentence}, whose predictions carry a proof against training-data poisoning "
        f"({facts.certificate.method}); radii count {facts.certificate.unit}.",
        **hashed(facts.artefacts["manifest.json"]),
        "components": [
            {"type": "file", "bom-ref": f"file:{name}", "name": name, **hashed(digest)}
            for name, digest in facts.artefacts.items()
        ],
        "properties": properties(
            {
                "method": facts.certificate.method,
                **_flat(facts.voters.parameters),
                "unit": facts.certificate.unit,
                "verdict": facts.verdict.word,
            }
        ),
        "modelCard": _bom_card(facts),
    }
    parts: list[dict[str, Any]] = [
        {
            "type": "data",
            "bom-ref": reference,
            "name": f"{facts.dataset}, {words}",
            "properties": properties(
                {
                    f"sha256:{name}": digest
                    for name, digest in facts.digests.items()
                    if name.endswith("_test") == (reference == TEST)
                }
            ),
        }
        for reference, words in ((TRAINING, "training samples"), (TEST, "test samples"))
    ]
    for encoder in (premise.value for premise in facts.certificate.premises if premise.code == "encoder"):
        licence = encoder["licence"]
        parts.append(
            {
                "type": "machine-learning-model",
                "bom-ref": f"encoder:{encoder['name']}",
                "name": encoder["name"],
                "version": encoder["version"],
                "description": f"{encoder['source']}; trained on {encoder['trained_on']}",
                **hashed(encoder["weights"]),
                "licenses": [{"license": {"id" if is_supported_id(licence) else "name": licence}}],
            }
        )
    tool = {"type": "library", "bom-ref": "poisonproof", "name": "poisonproof", "version": __version__}
    record = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid4().urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(),
            "tools": {"components": [{**tool, "licenses": [{"license": {"id": "BSD-3-Clause"}}]}]},
            "component": model,
        },
        "components": parts,
        "dependencies": [{"ref": "model", "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if errors:
        raise RuntimeError(f"the bill of materials is not valid CycloneDX 1.6: {errors}")
    return text


def _flat(values: dict[str, Any], above: str = "") -> dict[str, str]:
    """Names with dots for a record inside a record, for forms that know names and texts only."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": str(value)}
    return flat


def _bom_card(facts: Facts) -> dict[str, Any]:
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
                f"Clean accuracy {percent(facts.evaluation.clean_accuracy)} %; a constant answer reaches "
                f"{percent(facts.evaluation.majority_share)} % and cannot be poisoned either."
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


def metrics(figures: dict[str, Any]) -> list[dict[str, str]]:
    """Clean, balanced and majority figures, certified fractions by attack size, and the same per class."""
    rows = [
        ("clean accuracy", repr(figures["clean_accuracy"]), "test set"),
        ("balanced accuracy", repr(figures["balanced_accuracy"]), "test set, mean over classes"),
        ("share of the largest class", repr(figures["majority"]["share"]), "test set, a constant answer"),
    ]
    for row in figures["certified"]:
        where = f"attack size {row['attack_size']}"
        rows.append(("certified fraction (pointwise)", repr(row["certified_fraction"]), where))
        rows.append(("balanced certified fraction (pointwise)", repr(row["balanced"]), where))
    for one in figures["classes"]:
        label, target = one["label"], one["median_radius_of_others_against_this_target"]
        if one["samples"]:
            rows.append(("clean accuracy", repr(one["right"] / one["samples"]), f"class {label}"))
            for row, count in zip(figures["certified"], one["right_and_certified"], strict=True):
                where = f"class {label}, attack size {row['attack_size']}"
                rows.append(("certified fraction (pointwise)", repr(count / one["samples"]), where))
        if target is not None:
            rows.append(("median radius against being turned to this class", str(target), f"target {label}"))
    rows += [("median radius", str(row["median_radius"]), f"act: {ACTS[row['act']]}") for row in figures["acts"]]
    return [{"type": name, "value": value, "slice": where} for name, value, where in rows]


def card(facts: Facts) -> str:
    """The card. Text from data is quoted in the front matter and escaped elsewhere."""
    # JSON strings are YAML strings, so nothing in a name can end the line or the block.
    filters = {"yaml": lambda text: Markup(json.dumps(shown(text)))}
    given = {"most_classes": MOST_CLASSES, "digests": {**facts.digests, **facts.artefacts}}
    return _rendered("model-card.md.j2", in_markdown, filters, facts, given) + "\n"


def page(facts: Facts) -> str:
    """The page. Names, labels and premises are data: they are shown and escaped wherever they stand."""
    certificate, size = facts.certificate, facts.evaluation.headline_size
    right = facts.evaluation.right
    top, threats = int(certificate.radius.max(initial=0)) + 1, facts.threat_model
    given = {
        "size": size,
        "held": int((right & (certificate.radius >= size)).sum()),
        "balanced": facts.evaluation.exact_fraction(size, balanced=True),
        "constant": facts.evaluation.constant_share(balanced=True),
        "caution": facts.evaluation.caution,
        "curve": survival(certificate.radius[right], len(certificate), top),
        "ticks": ticks(top),
        "covered": {act: cost for act, cost in threats.items() if cost != "not covered"},
        "not_covered": [act for act, cost in threats.items() if cost == "not covered"],
    }
    return _rendered("evidence.html.j2", shown, {"count": lambda number: f"{number:,}"}, facts, given)


def _rendered(template: str, escaped: Any, filters: dict[str, Any], facts: Facts, given: dict[str, Any]) -> str:
    """A template, in which every text that is not markup is escaped."""
    environment = Environment(
        loader=PackageLoader("poisonproof", "evidence/templates"),
        autoescape=template.endswith(".html.j2"),
        finalize=lambda value: escaped(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, **filters)
    return environment.get_template(template).render(
        facts=facts,
        figures=facts.figures,
        certificate=facts.certificate,
        voters=facts.voters,
        unit=facts.certificate.unit,
        acts={ACTS[row["act"]]: row for row in facts.figures["acts"]},
        **given,
    )
