"""Premises: what a proof takes as given.

Every global decision (class list, number of features, k, d, learner, …) is either declared by the
user or chosen from the data at hand. The second kind is a premise of the certificate: an attacker
who could change it is outside what is proved. Premises travel with the model and the certificate
and are printed beside the radius.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from poisonproof.display.text import shown


class PremiseWarning(UserWarning):
    """Something about the data or the base classifiers that a reader of the certificate must know."""


@dataclass(frozen=True)
class Premise:
    """One thing that the certificate takes as given, and where it came from."""

    what: str
    value: str
    declared: bool = field(kw_only=True)

    @property
    def words(self) -> str:
        """The premise as files keep it, with whatever the data put into it; for eyes there is `str`."""
        origin = "declared" if self.declared else "chosen from this data"
        return f"{self.what}: {self.value} ({origin})"

    def __str__(self) -> str:
        return shown(self.words)


def to_records(premises: Iterable[Premise]) -> list[list[str | bool]]:
    """Premises as files keep them."""
    return [[premise.what, premise.value, premise.declared] for premise in premises]


def from_records(records: Iterable[Any]) -> tuple[Premise, ...]:
    """The premises of `to_records`."""
    return tuple(Premise(what, value, declared=declared) for what, value, declared in records)
