"""Premises: what a proof takes as given.

Every global decision (class list, number of features, k, d, learner, …) is declared by the user,
a default of poisonproof, or chosen from the data at hand. An attacker who could change what was
chosen is outside what is proved. Premises travel with the model and the certificate and are
printed beside the radius.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from poisonproof.display import shown

ORIGINS = {True: "declared", None: "by default", False: "chosen from this data"}


class PremiseWarning(UserWarning):
    """Something about the data or the base classifiers that a reader of the certificate must know."""


@dataclass(frozen=True)
class Premise:
    """One thing that the certificate takes as given, and where it came from.

    ``declared`` is True for what the user gave (or named: a data set that is known by its name states its classes),
    None for what nobody had to give, the same whatever the data, and False for what was chosen from this data.
    """

    what: str
    value: str
    declared: bool | None = field(kw_only=True)

    @property
    def words(self) -> str:
        """The premise as files keep it, with whatever the data put into it; for eyes there is `str`."""
        return f"{self.what}: {self.value} ({ORIGINS[self.declared]})"

    def __str__(self) -> str:
        return shown(self.words)


def declared_if(given: bool) -> bool | None:
    """The origin of something that has a default: the user's word, or nobody's."""
    return True if given else None


def restated(premises: Iterable[Premise], others: Iterable[Premise]) -> tuple[Premise, ...]:
    """The premises with others in place of those of the same name, and besides the rest."""
    return tuple({premise.what: premise for premise in (*premises, *others)}.values())


def to_records(premises: Iterable[Premise]) -> list[list[str | bool | None]]:
    """Premises as files keep them."""
    return [[premise.what, premise.value, premise.declared] for premise in premises]


def from_records(records: Iterable[Any]) -> tuple[Premise, ...]:
    """The premises of `to_records`; ValueError for what it cannot have written."""
    premises = tuple(Premise(what, value, declared=declared) for what, value, declared in records)
    for premise in premises:
        if not (isinstance(premise.declared, bool | None) and isinstance(premise.what, str)):
            raise ValueError(f"a premise {premise.what!r} of origin {premise.declared!r}")
    return premises
