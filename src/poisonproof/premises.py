"""Premises: what a proof takes as given.

Every global decision (class list, number of features, k, d, learner, …) is declared by the user,
a default of poisonproof, or chosen from the data at hand. An attacker who could change what was
chosen is outside what is proved. Premises travel with the model and the certificate and are
printed beside the radius.

Files keep a premise as code, value and origin; `Premise.words` is the one place that makes English of it, and nothing
reads that back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ORIGINS = {True: "declared", None: "by default", False: "chosen from this data"}
LONGEST_LIST = 12


class PremiseWarning(UserWarning):
    """Something about the data or the base classifiers that a reader of the certificate must know."""


@dataclass(frozen=True)
class Premise:
    """One thing that the certificate takes as given, and where it came from.

    ``code`` says what: ``"number-of-features"``. ``value`` is plain data as JSON has them: a text, or the numbers and
    lists from which `words` makes one. ``declared`` is True for what the user gave (or named: a data set that is known
    by its name states its classes), None for what nobody had to give, the same whatever the data, and False for what
    was chosen from this data.
    """

    code: str
    value: Any
    declared: bool | None = field(kw_only=True)

    @property
    def text(self) -> str:
        """The value in words."""
        return self.value if isinstance(self.value, str) else WORDS.get(self.code, str)(self.value)

    @property
    def words(self) -> str:
        """The premise in words, with whatever the data put into it; for eyes there is `str`."""
        return f"{self.code.replace('-', ' ')}: {self.text} ({ORIGINS[self.declared]})"

    def __str__(self) -> str:
        from poisonproof.display import shown  # only texts need it

        return shown(self.words)


def declared_if(given: bool) -> bool | None:
    """The origin of something that has a default: the user's word, or nobody's."""
    return True if given else None


def restated(premises: Iterable[Premise], others: Iterable[Premise]) -> tuple[Premise, ...]:
    """The premises with others in place of those of the same code, and besides the rest."""
    return tuple({premise.code: premise for premise in (*premises, *others)}.values())


def to_records(premises: Iterable[Premise]) -> list[dict[str, Any]]:
    """Premises as files keep them."""
    return [{"code": premise.code, "value": premise.value, "declared": premise.declared} for premise in premises]


def from_records(records: Iterable[Any]) -> tuple[Premise, ...]:
    """The premises of `to_records`; ValueError for what it cannot have written."""
    premises = tuple(Premise(**record) for record in records)
    for premise in premises:
        if not (isinstance(premise.declared, bool | None) and isinstance(premise.code, str)):
            raise ValueError(f"a premise {premise.code!r} of origin {premise.declared!r}")
        premise.text  # noqa: B018 - a value that its code cannot have raises here, not where it is printed
    return premises


def _spread(value: Any) -> str:
    note = f"; {value['note']}" if "note" in value else ""
    return f"k = {value['k']:g}, d = {value['d']}, digest {value['digest'][:16]}{note}"


def _split(value: Any) -> str:
    if value is None:
        return "not known"
    return f"{value['kind']}, {value['dtype']}{', labels hashed' if value['hash_labels'] else ''}"


def _learner(value: Any) -> str:
    chosen = f", because {value['because']}" if "because" in value else ""
    return value["learner"] + chosen + (f", given as {value['given_as']}" if "given_as" in value else "")


def _classes(labels: Any) -> str:
    return f"{len(labels)} labels, {_some(map(str, labels), len(labels))}"


def _near(value: Any) -> str:
    if isinstance(value, str):
        return value  # a rule of a classifier of one's own
    return f"distance ≤ {value['distance']:g}, squared ≤ {value['squared_steps']} steps"


def _class_sizes(value: Any) -> str:
    if value is None:
        return "none declared: all classes count as equally large"
    if not value:
        return "none needed: far samples count 0"
    listed = (f"{label}: {size}" for label, size in value["sizes"])
    return f"{_some(listed, len(value['sizes']))}; from {value['source'] or 'the caller, outside this data'}"


def _reachable(value: Any) -> str:
    places, names = value["partitions"], []
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(places), 1) if b > a + 1), len(places)]
    for start, stop in pairwise(breaks) if places else ():
        names.append(str(places[start]) if stop == start + 1 else f"{places[start]}–{places[stop - 1]}")
    return f"{len(places)} of {value['n']}: {', '.join(names) or 'none'}"


def _encoder(value: Any) -> str:
    width = f"{value['width']} numbers, " if "width" in value else ""
    return (
        f"{value['name']} {value['version']}, {value['source']}, licence {value['licence']}, "
        f"weights sha256 {value['weights']}, {value['preprocessing']}, {width}{value['length']:g} steps per "
        f"unit; trained on {value['trained_on']}"
    )


def _some(names: Iterable[str], count: int) -> str:
    first = [name for name, _ in zip(names, range(LONGEST_LIST), strict=False)]
    return ", ".join(first) + (", …" if count > LONGEST_LIST else "")


WORDS: dict[str, Callable[[Any], str]] = {
    "spread": _spread,
    "split": _split,
    "learner": _learner,
    "classes": _classes,
    "fitted-before-the-split": lambda steps: "; ".join(steps) or "nothing, as far as can be seen",
    "reachable-partitions": _reachable,
    "encoder": _encoder,
    "near": _near,
    "class-sizes": _class_sizes,
    "votes-per-contributor": lambda votes: f"{votes} for each contributor; ids are authenticated",
}


WIDTH = "width-of-the-map"


class PublicMap(ABC):
    """A map made elsewhere, out of the attacker's reach, and named with a digest: an encoder.

    It is a premise, and no fitted state that a learner brings along. So it is known by this class alone: attributes
    anybody's object could carry.

    Attributes
    ----------
    measured_width : int or None
        How many numbers stand for a sample, where nobody declares it and training samples had to say.
    measured_by : str
        The same in words, for a premise.
    """

    measured_width: int | None
    measured_by: str

    @property
    @abstractmethod
    def premises(self) -> tuple[Premise, ...]:
        """What certificates take as given: the map itself, and how wide it is if training samples had to say so."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A text that is equal exactly for equal maps, in every process."""

    @property
    @abstractmethod
    def spec(self) -> str | None:
        """What makes it again: a name or a file; None if nothing does."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of what it is."""

    @property
    @abstractmethod
    def weights(self) -> str:
        """SHA-256 of what it was made from."""

    @property
    @abstractmethod
    def is_default(self) -> bool:
        """Whether some kind of data gets this map if nobody names one."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """What counts as length 1."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers stand for a sample."""

    @property
    @abstractmethod
    def needs_width(self) -> bool:
        """Whether only samples can say how many numbers stand for one."""

    @abstractmethod
    def __call__(self, X: Any, *, training: bool = False) -> NDArray[np.int16]:
        """Whole numbers (n, 1, width) for samples, each by itself."""

    @abstractmethod
    def checked(self, samples: Any) -> Self:
        """This map for these training samples: refuses a kind that it does not take, and settles its width."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Refuse a map whose code is not the one on its record any more."""

    @abstractmethod
    def without_cache(self) -> Self:
        """The map as it may be saved: where something lies on this machine is nobody else's business."""

    @abstractmethod
    def delete(self, X: Any) -> int:
        """Delete what a cache holds of these samples; how many there were."""

    @abstractmethod
    def runtime(self) -> str:
        """What runs it here, as far as last bits may depend on it; opens and checks the weights."""
