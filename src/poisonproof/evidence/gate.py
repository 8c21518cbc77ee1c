"""A gate for build servers: whether the figures of a verified run reach what somebody asks for, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any
from xml.etree import ElementTree

from poisonproof.display import percent, shown
from poisonproof.errors import PoisonproofError
from poisonproof.evidence.facts import Facts


@dataclass(frozen=True)
class Baseline:
    """At most ``most`` less than another run, on the same test samples."""

    other: Facts
    most: Fraction


@dataclass(frozen=True)
class Thresholds:
    """What a gate asks for; ``certified`` are pairs of attack size and smallest certified fraction.

    Shares are means over the classes of the test set, or with ``plain`` shares of all test samples. Whatever share is
    asked for must also be more than a constant answer has, unless ``allow_constant``: nothing can poison that.
    """

    certified: tuple[tuple[int, Fraction], ...] = ()
    clean: Fraction | None = None
    plain: bool = False
    allow_constant: bool = False
    baseline: Baseline | None = None
    verified: bool = False


@dataclass(frozen=True)
class Condition:
    """One thing that was asked for: what, how much, how much there is, and whether that is enough."""

    what: str
    wanted: str
    found: str
    met: bool


def conditions(facts: Facts, thresholds: Thresholds) -> list[Condition]:
    """Every condition of the gate, met or not; shares are compared exactly."""
    plain, baseline = thresholds.plain, thresholds.baseline
    shares = [(0, _measure(None, plain), thresholds.clean)] if thresholds.clean is not None else []
    shares += [(size, _measure(size, plain), share) for size, share in thresholds.certified]
    if not shares and baseline is None and not thresholds.verified:
        raise PoisonproofError(
            "The gate asks for nothing; give --attack-size with --certified-fraction, --clean, --max-drop-from or "
            "--require-verified.",
            code="gate.empty",
        )
    rows = []
    if thresholds.verified:
        rows.append(Condition("verdict", "VERIFIED", facts.verdict.word, facts.verdict.ok))
    constant = facts.evaluation.constant_share(balanced=not plain)
    for size, what, least in shares:
        share = facts.evaluation.exact_fraction(size, balanced=not plain)
        if least > constant or thresholds.allow_constant:
            rows.append(_at_least(what, least, share))
        else:
            wanted = f"> {percent(float(constant))} % (a constant answer)"
            rows.append(Condition(what, wanted, f"{percent(float(share))} %", share > constant))
    return rows if baseline is None else rows + _against_baseline(facts, thresholds, baseline)


def _measure(attack_size: int | None, plain: bool) -> str:
    """What is compared, in words; no attack size means right at all."""
    if attack_size is None:
        return "clean accuracy" if plain else "balanced accuracy"
    return f"certified fraction ({'' if plain else 'balanced, '}pointwise) at attack size {attack_size}"


def _against_baseline(facts: Facts, thresholds: Thresholds, baseline: Baseline) -> list[Condition]:
    other, plain = baseline.other, thresholds.plain
    if any(facts.digests.get(name) != other.digests.get(name) for name in ("x_test", "y_test")):
        raise PoisonproofError(
            f"{facts.name} and {other.name} have different test samples, so their figures cannot be compared.",
            code="gate.other-test-samples",
        )
    if facts.certificate.unit != other.certificate.unit:
        raise PoisonproofError(
            f"The radii of {facts.name} count {facts.certificate.unit}, those of {other.name} "
            f"{other.certificate.unit}; they cannot be compared.",
            code="gate.other-unit",
        )
    rows = []
    for size in (None, *(size for size, _ in thresholds.certified)):
        then, now = (one.evaluation.exact_fraction(size or 0, balanced=not plain) for one in (other, facts))
        rows.append(_at_least(f"{_measure(size, plain)}, against {other.name}", then - baseline.most, now))
    return rows


def _at_least(what: str, wanted: Fraction, share: Fraction) -> Condition:
    least = max(wanted, Fraction(0))
    return Condition(what, f"≥ {float(least) * 100:.4g} %", f"{percent(float(share))} %", share >= least)


def as_record(facts: Facts, rows: Sequence[Condition]) -> dict[str, Any]:
    """The gate as plain values."""
    return {
        "run": facts.name,
        "met": all(condition.met for condition in rows),
        "verdict": facts.verdict.word,
        "majority_share": facts.evaluation.majority_share,
        "balanced_accuracy": facts.evaluation.balanced_accuracy,
        "conditions": [{"what": row.what, "wanted": row.wanted, "found": row.found, "met": row.met} for row in rows],
    }


def as_junit(facts: Facts, rows: Sequence[Condition]) -> bytes:
    """The gate as JUnit XML by Ant's schema: one test case for each condition; when it was asked, in UTC."""
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        {
            "name": shown(facts.name),
            "package": "poisonproof.gate",
            "id": "0",
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            "hostname": "localhost",  # a report may be published, and the machine is nobody's business
            "tests": str(len(rows)),
            "failures": str(sum(not condition.met for condition in rows)),
            "errors": "0",
            "time": "0",
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    record = as_record(facts, rows)
    for name in ("verdict", "majority_share", "balanced_accuracy"):
        ElementTree.SubElement(properties, "property", {"name": name, "value": str(record[name])})
    for condition in rows:
        names = {"classname": "poisonproof.gate", "name": shown(condition.what), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", names)
        if not condition.met:
            message = f"wanted {condition.wanted}, found {condition.found}"
            ElementTree.SubElement(case, "failure", {"message": message, "type": "gate"}).text = message
    for stream in ("system-out", "system-err"):
        ElementTree.SubElement(suite, stream)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="utf-8") + b"\n"
