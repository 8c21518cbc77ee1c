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

# Nothing is verified unless the files, the spread (or the election, where samples vote) and each of these were found
# right …
ESSENTIAL = ("classes", "votes", "prediction", "radius")
# … and the votes were made again: saved base classifiers asked, some trained again, or the votes of samples counted.
REPLAYED = ("members", "retraining", "recount")
EXIT_CODES: dict[Word, int] = {"VERIFIED": 0, "NOT VERIFIED": 3, "CONSISTENT": 5}


class CheckFailed(Exception):  # noqa: N818 - an outcome
    """A check failed; the message is one sentence that names what is wrong."""


class CheckSkipped(Exception):  # noqa: N818 - an outcome
    """A check could not be made; the message says what it would take."""


class UnknownMethod(CheckSkipped):
    """A check could not be made because this checker does not know how these radii are proved, or who votes."""


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

        VERIFIED: base classifiers were trained again, or saved ones were asked, and voted as stated, on data with the
        digests that are stated; and nothing contradicts. CONSISTENT: nothing contradicts, but the votes are the
        maker's word, or the method is one that this checker does not know. NOT VERIFIED: something is false, or could
        not be checked at all.
        """
        if self.failed or any(not check.details.get("unknown") for check in self._open):
            return "NOT VERIFIED"
        made = {check.name for check in self.checks if check.outcome == "ok"}
        return "CONSISTENT" if self._open or not made & set(REPLAYED) else "VERIFIED"

    @property
    def _open(self) -> tuple[Check, ...]:
        """Essential checks that were not made or not reached; the machine-checked check too, if it was asked for."""
        by_name = {check.name: check for check in self.checks}
        of_voters = "election" if "election" in by_name else "spread"
        names = ("files", of_voters, *ESSENTIAL, *(("formal",) if "formal" in by_name else ()))
        checks = (by_name.get(name, Check(name, "not checked", "not reached")) for name in names)
        return tuple(check for check in checks if check.outcome == "not checked")

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
        if self.word == "NOT VERIFIED":
            return f"NOT VERIFIED: cannot check {self._open[0].name}: {self._open[0].words}"
        by_name = {check.name: check for check in self.checks}
        replayed = [by_name[name].words for name in REPLAYED if name in by_name and by_name[name].outcome == "ok"]
        how = f"On {self.data}, {' '.join(replayed)}" if replayed else "No vote was made again."
        formal = f" Machine-checked: {by_name['formal'].words}" if "formal" in by_name else ""
        radius = (self._open or (by_name["radius"],))[-1].words
        return f"{self.word}: {radius} {how}{formal} Not checked: {'; '.join(self.unchecked)}."

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


def run_check(name: str, check: Callable[[], str | Finding]) -> Check:
    """The check, carried out. Files may hold anything, so whatever it stumbles over counts as failed."""
    try:
        sentence = check()
    except CheckFailed as error:
        return Check(name, "failed", str(error))
    except (CheckSkipped, UnnamedFileError) as error:
        return Check(name, "not checked", str(error), {"unknown": True} if isinstance(error, UnknownMethod) else {})
    except MemoryError:  # the machine's fault, as far as anybody can tell
        raise
    except Exception as error:
        return Check(name, "failed", f"what the files hold could not be followed ({type(error).__name__}: {error}).")
    return Check(name, "ok", *sentence) if isinstance(sentence, Finding) else Check(name, "ok", sentence)


def detection_probability(total: int, bad: int, drawn: int) -> Fraction:
    """How likely ``drawn`` of ``total``, drawn without putting back, hold one of ``bad``: 1 − C(n−b, r) / C(n, r)."""
    if not 0 <= bad <= total or not 0 <= drawn <= total:
        raise PoisonproofError(
            f"Of {total}, 0 … {total} can be bad or drawn. Got {bad} bad and {drawn} drawn.", code="verify.bound"
        )
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
