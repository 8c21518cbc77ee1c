"""In-toto statements (v1) about a run: ours with every fact, and one of a vetted type with the verifier's verdict.

Their subjects are the files of the run by SHA-256. Our predicate is described by ``certificate-v1.schema.json``, which
ships with the package; the other one is in-toto's test result. Both are plain JSON: no library is needed to make them.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from poisonproof import __version__
from poisonproof.core.certificate import Certificate
from poisonproof.errors import missing_extra
from poisonproof.evidence.facts import Facts, threats_of
from poisonproof.evidence.voters import voters_of
from poisonproof.premises import to_records

STATEMENT = "https://in-toto.io/Statement/v1"
CERTIFICATE = "urn:poisonproof:predicate:certificate:v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD = "application/vnd.in-toto+json"


def subjects(facts: Facts) -> list[dict[str, Any]]:
    """The files of the run by their SHA-256."""
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in facts.artefacts.items()]


def statement(facts: Facts, documents: dict[str, str]) -> dict[str, Any]:
    """Everything about the run; ``documents`` are the other files of the evidence, by their SHA-256."""
    return {
        "_type": STATEMENT,
        "subject": subjects(facts),
        "predicateType": CERTIFICATE,
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
    figures = facts.figures
    training = {name: digest for name, digest in facts.digests.items() if not name.endswith("_test")}
    test = {name: digest for name, digest in facts.digests.items() if name.endswith("_test")}
    return {
        "training": {"dataset": facts.dataset, "samples": facts.manifest["n_train"], "sha256": training},
        "evaluation": {
            "dataset": facts.dataset,
            "samples": figures.n_test,
            "sha256": test,
            "right": figures.right,
            "clean_accuracy": figures.clean_accuracy,
            "balanced_accuracy": figures.balanced_accuracy,
            "majority": {"label": figures.majority_label, "share": figures.majority_share},
            "median_radius": figures.median_radius,
            "acts": [
                {"act": row.act, "median_radius": row.median_radius, "half_of_the_test_set": row.half}
                for row in figures.acts
            ],
            "certified": [
                {"attack_size": size, "right_and_certified": count, "certified_fraction": share, "balanced": balanced}
                for size, count, share, balanced in zip(
                    figures.attack_sizes,
                    figures.certified,
                    figures.certified_fractions,
                    figures.balanced,
                    strict=True,
                )
            ],
            "classes": [
                {
                    "label": row.label,
                    "samples": row.n_test,
                    "right": row.right,
                    "right_and_certified": list(row.certified),
                    "median_radius_of_others_against_this_target": row.target_median,
                }
                for row in figures.classes
            ],
        },
    }


def test_result(facts: Facts) -> dict[str, Any]:
    """The verdict as a test result: PASSED if VERIFIED, WARNED if no more than CONSISTENT."""
    verdict = facts.verdict
    return {
        "_type": STATEMENT,
        "subject": subjects(facts),
        "predicateType": TEST_RESULT,
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
    return dict(json.loads((files("poisonproof.evidence") / "certificate-v1.schema.json").read_text()))


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
