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
class Drop:
    """At most ``most`` less than another run, on the same test samples."""

    other: Facts
    most: Fraction


@dataclass(frozen=True)
class Wanted:
    """What a gate asks for; ``certified`` are pairs of attack size and smallest certified fraction."""

    certified: tuple[tuple[int, Fraction], ...] = ()
    clean: Fraction | None = None
    balanced: bool = False
    drop: Drop | None = None
    verified: bool = False


@dataclass(frozen=True)
class Condition:
    """One thing that was asked for: what, how much, how much there is, and whether that is enough."""

    what: str
    wanted: str
    found: str
    met: bool


def conditions(facts: Facts, wanted: Wanted) -> list[Condition]:
    """Every condition of the gate, met or not."""
    if not wanted.certified and wanted.clean is None and wanted.drop is None and not wanted.verified:
        raise PoisonproofError(
            "The gate asks for nothing; give --attack-size with --certified-fraction, --clean, --max-drop-from or "
            "--require-verified."
        )
    form = "balanced, " if wanted.balanced else ""
    rows = []
    if wanted.verified:
        rows.append(Condition("verdict", "VERIFIED", facts.verdict.word, facts.verdict.ok))
    if wanted.clean is not None:
        rows.append(
            _at_least("balanced accuracy" if wanted.balanced else "clean accuracy", wanted.clean, _clean(facts, wanted))
        )
    for size, share in wanted.certified:
        what = f"certified fraction ({form}pointwise) at attack size {size}"
        rows.append(_at_least(what, share, facts.certified_fraction(size, balanced=wanted.balanced)))
    if wanted.drop is not None:
        rows += _drops(facts, wanted, wanted.drop)
    return rows


def _drops(facts: Facts, wanted: Wanted, drop: Drop) -> list[Condition]:
    other = drop.other
    tested = ("x_test", "y_test")
    if any(facts.digests.get(name) != other.digests.get(name) for name in tested):
        raise PoisonproofError(
            f"{facts.name} and {other.name} have different test samples, so their figures cannot be compared."
        )
    if facts.certificate.unit != other.certificate.unit:
        raise PoisonproofError(
            f"The radii of {facts.name} count {facts.certificate.unit}, those of {other.name} "
            f"{other.certificate.unit}; they cannot be compared."
        )
    form = "balanced, " if wanted.balanced else ""
    rows = [
        _at_least(f"clean accuracy, against {other.name}", _clean(other, wanted) - drop.most, _clean(facts, wanted))
    ]
    for size, _ in wanted.certified:
        then = other.certified_fraction(size, balanced=wanted.balanced) - drop.most
        what = f"certified fraction ({form}pointwise) at attack size {size}, against {other.name}"
        rows.append(_at_least(what, then, facts.certified_fraction(size, balanced=wanted.balanced)))
    return rows


def _clean(facts: Facts, wanted: Wanted) -> Fraction:
    return facts.certified_fraction(0, balanced=wanted.balanced)


def _at_least(what: str, wanted: Fraction, share: Fraction) -> Condition:
    least = max(wanted, Fraction(0))
    return Condition(what, f"≥ {float(least) * 100:.4g} %", f"{percent(float(share))} %", share >= least)


def as_record(facts: Facts, rows: Sequence[Condition]) -> dict[str, Any]:
    """The gate as plain values."""
    return {
        "run": facts.name,
        "met": all(condition.met for condition in rows),
        "verdict": facts.verdict.word,
        "majority_share": facts.figures.majority_share,
        "balanced_accuracy": facts.figures.balanced_accuracy,
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
