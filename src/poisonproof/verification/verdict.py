"""What a check found, what all of them say together, and how likely a sampled check is to miss a forgery."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Self

from poisonproof.errors import PoisonproofError, UnnamedFileError

Outcome = Literal["ok", "failed", "not checked"]
Word = Literal["VERIFIED", "CONSISTENT", "NOT VERIFIED"]

# Nothing is verified unless each of these was checked and found right …
ESSENTIAL = ("files", "spread", "classes", "votes", "prediction", "radius")
# … and base classifiers said again what they are said to have said: kept ones, asked, or some trained again.
HEARD = ("members", "retraining")
# The same where training samples vote: there is an election instead of a spread, and votes are counted again.
ESSENTIAL_OF_SAMPLES = ("files", "election", "classes", "votes", "prediction", "radius")
HEARD_OF_SAMPLES = ("recount",)
EXIT_CODES: dict[Word, int] = {"VERIFIED": 0, "NOT VERIFIED": 3, "CONSISTENT": 5}


class NotTrueError(Exception):
    """A check failed; the message is one sentence that names what is wrong."""


class NotCheckedError(Exception):
    """A check could not be made; the message says what it would take."""


class Finding(NamedTuple):
    """What a check that passed has to say, with numbers for a machine."""

    words: str
    details: dict[str, Any]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: "ok", "failed" or "not checked", and one sentence."""

    name: str
    outcome: Outcome
    words: str
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Words quote files: no escape sequence in them may reach a terminal and rewrite the verdict.
        seen = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in self.words)
        object.__setattr__(self, "words", "".join(seen))


@dataclass(frozen=True)
class Verdict:
    """What `poisonproof.verify` found.

    Attributes
    ----------
    subject : str
        The run or certificate.
    checks : tuple of Check
    seed : int
        Of the random choices; with the same seed the same samples and base classifiers are looked at.
    unchecked : tuple of str
        What none of the checks looked at, in words; nothing if one of them failed.
    data : str
        Which data were at hand.
    """

    subject: str
    checks: tuple[Check, ...]
    seed: int
    unchecked: tuple[str, ...] = ()
    data: str = "no data"

    @property
    def word(self) -> Word:
        """What was found.

        VERIFIED: base classifiers were trained again, or kept ones were asked, and voted as stated, on data with the
        digests that are stated; and nothing contradicts. CONSISTENT: nothing contradicts, but the votes are the
        maker's word. NOT VERIFIED: something is false, or could not be checked at all.
        """
        made = {check.name for check in self.checks if check.outcome == "ok"}
        if self.failed or not set(self.essential) <= made:
            return "NOT VERIFIED"
        return "VERIFIED" if made & set(self.heard) else "CONSISTENT"

    @property
    def essential(self) -> tuple[str, ...]:
        """What must have been found right; the machine-checked check too, if it was asked for."""
        names = {check.name for check in self.checks}
        essential = ESSENTIAL_OF_SAMPLES if "election" in names else ESSENTIAL
        return (*essential, "formal") if "formal" in names else essential

    @property
    def heard(self) -> tuple[str, ...]:
        """The checks of which one at least must have heard the voters themselves."""
        return HEARD_OF_SAMPLES if any(check.name == "election" for check in self.checks) else HEARD

    @property
    def ok(self) -> bool:
        """Whether it is VERIFIED."""
        return self.word == "VERIFIED"

    @property
    def consistent(self) -> bool:
        """Whether it is VERIFIED or CONSISTENT: nothing that was looked at is false."""
        return self.word != "NOT VERIFIED"

    @property
    def exit_code(self) -> int:
        """Of `poisonproof verify`: 0 VERIFIED, 3 NOT VERIFIED, 5 CONSISTENT."""
        return EXIT_CODES[self.word]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    @property
    def not_checked(self) -> tuple[Check, ...]:
        """The checks that could not be made."""
        return tuple(check for check in self.checks if check.outcome == "not checked")

    @property
    def verdict(self) -> str:
        """One line."""
        if self.failed:
            more = f" (and {len(self.failed) - 1} more)" if len(self.failed) > 1 else ""
            return f"NOT VERIFIED: {self.failed[0].name}: {self.failed[0].words}{more}"
        by_name = {check.name: check for check in self.checks}
        if self.word == "NOT VERIFIED":
            name = next(name for name in self.essential if name not in by_name or by_name[name].outcome != "ok")
            return f"NOT VERIFIED: cannot check {name}: {by_name[name].words if name in by_name else 'not reached'}"
        heard = [by_name[name].words for name in self.heard if by_name[name].outcome == "ok"]
        nobody = (
            "No vote was counted again." if "election" in by_name else "No base classifier was asked or trained again."
        )
        how = f"On {self.data}, {' '.join(heard)}" if heard else nobody
        formal = f" Machine-checked: {by_name['formal'].words}" if "formal" in by_name else ""
        return f"{self.word}: {by_name['radius'].words} {how}{formal} Not checked: {'; '.join(self.unchecked)}."

    def as_dict(self) -> dict[str, Any]:
        """The verdict as plain values, for JSON."""
        checks = [
            {"name": check.name, "outcome": check.outcome, "words": check.words, **check.details}
            for check in self.checks
        ]
        return {
            "subject": self.subject,
            "word": self.word,
            "ok": self.ok,
            "verdict": self.verdict,
            "data": self.data,
            "seed": self.seed,
            "not_checked": list(self.unchecked),
            "checks": checks,
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """What `as_dict` wrote; what follows from the checks is not read, but follows again."""
        checks = []
        for stated in record["checks"]:
            details = {name: value for name, value in stated.items() if name not in ("name", "outcome", "words")}
            checks.append(Check(stated["name"], stated["outcome"], stated["words"], details))
        not_checked = tuple(record["not_checked"])
        return cls(str(record.get("subject", "")), tuple(checks), int(record["seed"]), not_checked, record["data"])

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  {c.outcome:<11}  {c.name}: {c.words}" for c in self.checks)])


def made(name: str, check: Callable[[], str | Finding]) -> Check:
    """The check, carried out. Files may hold anything, so whatever it stumbles over counts as failed."""
    try:
        sentence = check()
    except NotTrueError as error:
        return Check(name, "failed", str(error))
    except (NotCheckedError, UnnamedFileError) as error:
        return Check(name, "not checked", str(error))
    except MemoryError:  # the machine's fault, as far as anybody can tell
        raise
    except Exception as error:
        return Check(name, "failed", f"what the files hold could not be followed ({type(error).__name__}: {error}).")
    return Check(name, "ok", *sentence) if isinstance(sentence, Finding) else Check(name, "ok", sentence)


def detection_probability(total: int, bad: int, drawn: int) -> Fraction:
    """How likely ``drawn`` of ``total``, drawn without putting back, hold one of ``bad``: 1 − C(n−b, r) / C(n, r)."""
    if not 0 <= bad <= total or not 0 <= drawn <= total:
        raise PoisonproofError(f"Of {total}, 0 … {total} can be bad or drawn. Got {bad} bad and {drawn} drawn.")
    few, many = sorted((bad, drawn))  # C(n−b, r) / C(n, r) = C(n−r, b) / C(n, b)
    return 1 - Fraction(math.comb(total - many, few), math.comb(total, few))


def detection(total: int, drawn: int, what: str) -> Finding:
    """The detection probability for 1 bad, 1 % and 10 % of them, in words and numbers, rounded down."""
    bad = sorted({1, -(-total // 100), -(-total // 10)}) if total else []
    chances = {b: detection_probability(total, b, drawn) for b in bad}
    words = ", ".join(f"{b} with {_floor(chance, 1000) / 10:.1f} %" for b, chance in chances.items())
    details = {
        "total": total,
        "drawn": drawn,
        "found_with": {str(b): _floor(c, 10**6) / 10**6 for b, c in chances.items()},
    }
    return Finding(f"of false {what}, this finds {words}", details)


def _floor(chance: Fraction, parts: int) -> int:
    return chance.numerator * parts // chance.denominator
