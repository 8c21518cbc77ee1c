"""Tallies of training samples that vote: ballots, in whole numbers, and the labels of the nearest neighbours.

This is to samples that vote what `poisonproof.Votes` is to base classifiers: everything a certificate needs, to be
kept, sent and certified by somebody else.

Certified accuracy of ballots: what one attack leaves right, if the same poisons face all test samples. Every insertion
or removal concerns one sample, and so one class: it moves the score of that class, and of no other, by 1 at most,
whatever the test sample. An attack spends r_y of its acts on class y, and Σ r_y is its size. The lead of p over c falls
by r_p + r_c at most, so a test sample stays right if r_p + r_c ≤ m_c for all its rivals c. The most that any division
of the acts among the classes puts at risk is found by branch and bound, in integers; wherever it stops, the largest
bound that is left is sound. Proof: docs/proofs/ballots.md, Theorem 8.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import Counts, Leads, Radii, by_ballots, by_neighbours, certify_counts, certify_voices
from poisonproof.core.certificate import Certificate, TargetCertificate
from poisonproof.core.certify import TargetRadii, target_code
from poisonproof.core.shared_attack import CertifiedAccuracy, attack_size_of
from poisonproof.core.split import Split
from poisonproof.core.votes import labels_from_json, labels_to_json
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import open_arrays, reading, write_arrays


@dataclass(frozen=True, eq=False)
class Voices:
    """Whose samples stand in which cell, where contributors vote.

    Parameters
    ----------
    most : int
        What a contributor's ballots are cut to: the sum of their magnitudes.
    classes : array (n_cells,)
        The class of each cell.
    starts : array (n_contributors + 1,)
        Where the cells of each contributor begin.
    """

    most: int
    classes: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("classes", "starts"):  # kernels index by them, so nobody may write into them after the check
            copied = np.array(getattr(self, name), np.int64)
            copied.flags.writeable = False
            object.__setattr__(self, name, copied)

    def divide(self, n_cells: int, n_classes: int) -> bool:
        """Whether the cells of contributors are these, from the first to the last, each of one of these classes."""
        if self.classes.shape != (n_cells,) or self.starts.ndim != 1 or not len(self.starts):
            return False
        known = ((self.classes >= 0) & (self.classes < n_classes)).all()
        return bool(known and self.starts[0] == 0 and self.starts[-1] == n_cells and (np.diff(self.starts) >= 0).all())


class Division(NamedTuple):
    """The most test samples that some division of the acts puts at risk (or a bound of it), and one that does it to
    ``shown`` of them.
    """

    most: int
    shown: int
    acts: Counts


class TalliesOfSamples:
    """What `Ballots` and `Neighbours` share: the certificates, whose radii each of them knows, and the file.

    ``ARRAYS`` and ``FACTS`` are what stands in the file.
    """

    FORMAT: ClassVar[str]
    ARRAYS: ClassVar[tuple[str, ...]]
    FACTS: ClassVar[tuple[str, ...]]
    classes: NDArray[Any]
    classes_inferred: bool
    split: Split | None
    premises: tuple[Premise, ...]

    def certify(self, method: str | None = None, *, target: Any = None, reachable: Any = None, n_jobs: int = -1) -> Any:
        """The certificate: how many poisons each prediction withstands, or it takes to turn it to a target, a label.

        There is one method, so ``method`` says nothing; partitions (``reachable``) are base classifiers' alone.
        """
        if reachable is not None:
            raise PoisonproofError(
                "'reachable' asks about votes of base classifiers, and here samples vote.", code="certify.reachable"
            )
        election = self.election
        common: dict[str, Any] = {
            "method": election["kind"],
            "classes": self.classes,
            "split": self.split,
            "classes_inferred": self.classes_inferred,
            "premises": self.premises,
            "election": election,
        }
        if target is not None:
            code = target_code(self.classes, target)
            return TargetCertificate(target=code, **self._against(code, n_jobs)._asdict(), **common)
        found, exact = self._radii(n_jobs)
        return Certificate(
            prediction=found.prediction,
            runner_up=found.runner_up,
            margin=found.margin,
            radius=found.insert_remove,
            exact=found.exact & exact,
            radii=found.others,
            **common,
        )

    @property
    def election(self) -> dict[str, Any]:
        """How samples vote, and how many, as plain values."""
        raise NotImplementedError

    def _radii(self, n_jobs: int) -> tuple[Radii, NDArray[np.bool_]]:
        """All radii, and where a copy of the test sample would do the most harm: then they are exact."""
        raise NotImplementedError

    def _against(self, target: int, n_jobs: int) -> TargetRadii:
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write a self-describing npz file with digests."""
        plain = {
            "classes": labels_to_json(self.classes),
            "split": self.split.as_dict() if self.split else None,
            "premises": to_records(self.premises),
        }
        arrays, facts = ({name: getattr(self, name) for name in names} for names in (self.ARRAYS, self.FACTS))
        facts |= plain
        if (voices := facts.get("voices")) is not None:
            arrays |= {"cell_classes": voices.classes, "starts": voices.starts}
            facts["voices"] = voices.most
        write_arrays(path, arrays, {"format": self.FORMAT, **facts})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; refuse it if anything was altered."""
        arrays, facts = open_arrays(path, cls.ARRAYS)
        check_format(path, facts.get("format"), cls.FORMAT)
        with reading(path):
            given = {name: facts[name] for name in cls.FACTS}
            if given.get("voices") is not None:
                given["voices"] = Voices(given["voices"], arrays.pop("cell_classes"), arrays.pop("starts"))
            if set(arrays) != set(cls.ARRAYS):
                raise DamagedFileError(f"{path} is altered: it holds {', '.join(sorted(arrays))}.")
            given["classes"] = labels_from_json(given["classes"])
            given["split"] = Split.from_dict(given["split"]) if given["split"] else None
            given["premises"] = from_records(given["premises"])
            return cls(**arrays, **given)


@dataclass(frozen=True, eq=False)
class Ballots(TalliesOfSamples):
    """Near samples and all samples of every class, for every test sample.

    Parameters
    ----------
    near : array (n_test, n_cells)
        How many training samples of each cell are near. A cell is a class; with ``voices`` it is what one contributor
        has of one class.
    totals : array (n_cells,)
        How many training samples each cell has.
    sizes : array (n_classes,)
        Declared class sizes, zero if there are none.
    classes : array (n_classes,)
        Labels, in increasing order.
    self_near : array (n_test,) of bool
        Whether a copy of the test sample would be near it: then radii are exact.
    one_sided : bool
        Whether far samples count 0 instead of −1.
    classes_inferred : bool
        Whether the class list was read off the training data.
    """

    FORMAT: ClassVar[str] = "poisonproof ballots 2"
    ARRAYS: ClassVar = ("near", "totals", "sizes", "self_near")
    FACTS: ClassVar = ("classes", "one_sided", "classes_inferred", "split", "voices", "rule", "premises")

    near: NDArray[np.int64]
    totals: NDArray[np.int64]
    sizes: NDArray[np.int64]
    classes: NDArray[Any]
    self_near: NDArray[np.bool_]
    one_sided: bool = False
    classes_inferred: bool = False
    split: Split | None = None
    voices: Voices | None = None
    rule: dict[str, Any] = field(default_factory=dict, repr=False)
    premises: tuple[Premise, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        cells, n_classes = len(self.totals), len(self.classes)
        shapes = {"near": (len(self.near), cells), "sizes": (n_classes,), "self_near": (len(self.near),)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise PoisonproofError(
                    f"The '{name}' of ballots is {getattr(self, name).shape} instead of {shape}.", code="ballots.shape"
                )
        if (self.near < 0).any() or (self.near > self.totals).any() or (self.sizes < 0).any():
            raise PoisonproofError(
                "Ballots must count from 0 to the samples there are, and class sizes from 0 on.", code="ballots.counts"
            )
        if (self.voices is None and cells != n_classes) or (self.classes_inferred and self.sizes.any()):
            raise PoisonproofError(
                "Ballots need a count for every class, and no class sizes unless classes are declared.",
                code="ballots.counts",
            )
        if self.voices is not None and not self.voices.divide(cells, n_classes):
            raise PoisonproofError(
                f"The cells of contributors must divide {cells} counts among {n_classes} classes. Got "
                f"{len(self.voices.classes)} classes and {len(self.voices.starts)} beginnings.",
                code="ballots.counts",
            )

    @property
    def n_test(self) -> int:
        """Number of test samples."""
        return len(self.near)

    @property
    def n_voices(self) -> int:
        """What all voters together can say for or against a class: one each, or the voices of each contributor."""
        if self.voices is not None:
            return self.voices.most * (len(self.voices.starts) - 1)
        return int(self.totals.sum())

    @property
    def election(self) -> dict[str, Any]:
        """How samples vote, and how many, as plain values."""
        voters = "contributors" if self.voices else "training samples"
        count = len(self.voices.starts) - 1 if self.voices else int(self.totals.sum())
        return {
            "kind": "one-sided ballots" if self.one_sided else "ballots",
            "words": f"{count} {voters} vote, near +1 and far {0 if self.one_sided else -1}",
            "n_voters": count,
            "sizes": self.sizes.tolist(),
            "voices": self.voices.most if self.voices else None,
            **self.rule,
        }

    def scores_and_radii(self, *, n_jobs: int = -1) -> tuple[NDArray[np.int64], Radii]:
        """The score of every class, an array (n_test, n_classes), and all radii."""
        rule: dict[str, Any] = {"one_sided": self.one_sided, "inferred": self.classes_inferred}
        counts = (self.near, self.totals, self.sizes)
        if self.voices is None:
            return self.class_scores(), certify_counts(*counts, **rule)
        return certify_voices(*counts, self.voices, **rule, n_jobs=n_jobs)

    def class_scores(self) -> NDArray[np.int64]:
        """Ballots of each class, near less far, with its declared size; an array (n_test, n_classes)."""
        if self.voices is not None:
            return self.scores_and_radii()[0]
        return np.asarray((self.near if self.one_sided else 2 * self.near - self.totals) + self.sizes)

    def scores(self) -> NDArray[np.int64]:
        """Votes that speak for each class, an array (n_test, n_classes); who leads by them leads the election.

        The near samples of a class, the far ones of all others, and its declared size.
        """
        return self.class_scores() + (0 if self.one_sided else self.n_voices)

    def take(self, rows: NDArray[np.int64]) -> Ballots:
        """Those of these test samples alone."""
        return replace(self, near=self.near[rows], self_near=self.self_near[rows])

    def _radii(self, n_jobs: int) -> tuple[Radii, NDArray[np.bool_]]:
        return self.scores_and_radii(n_jobs=n_jobs)[1], self.self_near

    def _against(self, target: int, n_jobs: int) -> TargetRadii:
        return by_ballots(self, target, n_jobs)

    def certified_accuracy(
        self, y: ArrayLike, attack_size: Any, *, time_limit: float = 60.0, **limits: Any
    ) -> CertifiedAccuracy:
        """How many test samples stay right under any one attack of a size; see `poisonproof.certified_accuracy`.

        The best attack found is copies of one test sample, so the upper count says little.
        """
        started = monotonic()
        size, limit = attack_size_of(attack_size, time_limit)
        if self.n_test == 0:
            raise PoisonproofError(
                "A certified accuracy needs at least one test sample. Got none.", code="certificate.no-test"
            )
        if self.voices is not None:
            raise PoisonproofError(
                "A certified accuracy (one shared attack) of contributors' ballots is not known; ask about single "
                "samples.",
                code="accuracy.contributors",
            )
        right = self.certify().evaluate(y).right
        standing = Leads.of(self.class_scores(), self.classes_inferred)
        at_risk, clean = np.flatnonzero(right & (standing.margin < size)), int(right.sum())
        leads = standing.leads[at_risk]
        division = worst_division(leads, standing.prediction[at_risk], size, started + limit)
        whole = "the worst division" if division.most == division.shown else "a bound of the worst division"
        proved = f"{whole} of the attack among the classes puts {division.most} at risk"
        if not len(leads):
            proved = "no prediction that is right can be changed by an attack of that size (pointwise)"
        return CertifiedAccuracy(
            attack_size=size,
            n_test=self.n_test,
            lower_count=clean - division.most,
            upper_count=clean - bool(self.self_near[at_risk].any()),  # copies of one of them
            certified_count=clean - len(leads),
            clean_count=clean,
            attack=np.zeros(0, np.int64),
            method="ballots",
            proved=proved,
            seconds=monotonic() - started,
            classes_inferred=self.classes_inferred,
            premises=self.premises,
        )


@dataclass(frozen=True, eq=False)
class Neighbours(TalliesOfSamples):
    """The nearest training samples of every test sample, by label.

    Parameters
    ----------
    order : array (n_test, n_listed) of class codes
        Nearest first; the first ``n_neighbors`` vote, the others stand ready.
    first : array (n_test,) of bool
        Whether a copy of the test sample would come before all of them: then radii are exact.
    n_neighbors : int
        How many vote.
    n_samples : int
        How many training samples, or contributors, there are in all.
    classes : array (n_classes,)
        Labels, in increasing order.
    contributors : bool
        Whether each voter is a contributor, heard by its nearest sample.
    """

    FORMAT: ClassVar[str] = "poisonproof neighbours 2"
    ARRAYS: ClassVar = ("order", "first")
    FACTS: ClassVar = (
        *("n_neighbors", "n_samples", "contributors", "classes", "classes_inferred", "split", "rule", "premises"),
    )

    order: NDArray[Any]
    first: NDArray[np.bool_]
    n_neighbors: int
    n_samples: int
    classes: NDArray[Any]
    contributors: bool = False
    classes_inferred: bool = False
    split: Split | None = None
    rule: dict[str, Any] = field(default_factory=dict, repr=False)
    premises: tuple[Premise, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.order.ndim != 2 or self.first.shape != self.order.shape[:1]:
            raise PoisonproofError(
                f"The order of neighbours must be a table. Got shape {self.order.shape}.", code="ballots.shape"
            )
        if self.order.size and not 0 <= int(self.order.min()) <= int(self.order.max()) < len(self.classes):
            raise PoisonproofError(f"Neighbours must be class codes below {len(self.classes)}.", code="ballots.counts")
        if self.n_neighbors < 1 or not min(self.n_neighbors, self.n_samples) <= self.order.shape[1] <= self.n_samples:
            raise PoisonproofError(
                f"There must be at least {self.n_neighbors} neighbours in order, or all {self.n_samples} samples. "
                f"Got {self.order.shape[1]}.",
                code="ballots.shape",
            )

    @property
    def n_test(self) -> int:
        """Number of test samples."""
        return len(self.order)

    @property
    def election(self) -> dict[str, Any]:
        """How samples vote, and how many, as plain values."""
        voters = "contributors" if self.contributors else "training samples"
        return {
            "kind": "neighbours",
            "words": f"the {self.n_neighbors} nearest of {self.n_samples} {voters} vote",
            "n_voters": self.n_samples,
            "n_neighbors": self.n_neighbors,
            **self.rule,
        }

    def take(self, rows: NDArray[np.int64]) -> Neighbours:
        """Those of these test samples alone."""
        return replace(self, order=self.order[rows], first=self.first[rows])

    def _radii(self, n_jobs: int) -> tuple[Radii, NDArray[np.bool_]]:
        facts: dict[str, Any] = {"inferred": self.classes_inferred, "contributors": self.contributors, "n_jobs": n_jobs}
        voting = (self.order, self.n_neighbors, self.n_samples, len(self.classes))
        return certify_order(*voting, **facts), self.first

    def _against(self, target: int, n_jobs: int) -> TargetRadii:
        return by_neighbours(self, target, n_jobs)

    def certified_accuracy(self, y: ArrayLike, attack_size: Any, **limits: Any) -> CertifiedAccuracy:
        """Not known of neighbours."""
        raise PoisonproofError(
            "A certified accuracy (one shared attack) of neighbours is not known; ask about single samples.",
            code="accuracy.neighbors",
        )

    def scores(self) -> NDArray[np.int64]:
        """Votes for each class, an array (n_test, n_classes)."""
        voting = self.order[:, : self.n_neighbors]
        return np.stack([(voting == c).sum(axis=1) for c in range(len(self.classes))], axis=1).astype(np.int64)


def worst_division(leads: Counts, prediction: Counts, size: int, stop: float) -> Division:
    """How many test samples the worst division of so many acts among the classes puts at risk.

    Parameters
    ----------
    leads : array (n, n_classes)
        Leads of test samples over every class, as in `Leads`.
    prediction : array (n,)
    size : int
        Acts in all.
    stop : float
        When to stop, by the monotonic clock.
    """
    n_classes = leads.shape[1]
    rivals = np.arange(n_classes) != prediction[:, None]
    best = Division(0, 0, np.zeros(n_classes, np.int64))
    for c in range(n_classes):  # all acts on one class
        acts = np.zeros(n_classes, np.int64)
        acts[c] = size
        best = max(
            best, Division(0, _reached(leads, prediction, rivals, acts), acts), key=lambda division: division.shown
        )
    least, most = np.zeros(n_classes, np.int64), np.full(n_classes, size, np.int64)
    everything = _reachable(leads, prediction, rivals, least, most, size)
    heap: list[tuple[int, int, Counts, Counts]] = [(-everything, 0, least, most)]
    made = 0
    while heap:
        bound, _, least, most = heap[0]
        if -bound <= best.shown:
            return best._replace(most=best.shown)
        if monotonic() > stop:
            return best._replace(most=-bound)
        heapq.heappop(heap)
        most = np.minimum(most, least + size - least.sum())
        widest = int((most - least).argmax())
        if most[widest] == least[widest]:  # one division is left
            best = max(best, Division(0, -bound, least), key=lambda division: division.shown)
            continue
        middle = (least[widest] + most[widest]) // 2
        below, above = most.copy(), least.copy()
        below[widest], above[widest] = middle, middle + 1
        for low, high in ((least, below), (above, most)):
            at_risk = _reachable(leads, prediction, rivals, low, high, size)
            if at_risk > best.shown:
                made += 1
                heapq.heappush(heap, (-at_risk, made, low, high))
    return best._replace(most=best.shown)


def _reached(leads: Counts, prediction: Counts, rivals: NDArray[np.bool_], acts: Counts) -> int:
    """How many test samples a division puts at risk."""
    spent = acts[prediction][:, None] + acts
    return int(((spent > leads) & rivals).any(axis=1).sum())


def _reachable(leads: Any, prediction: Any, rivals: Any, least: Counts, most: Counts, size: int) -> int:
    """A bound of what all divisions between two put at risk; what other classes take at least is not left for two."""
    left = size - int(least.sum())
    if left < 0:
        return -1
    most = np.minimum(most, least + left)
    spent = np.minimum(most[prediction][:, None] + most, left + least[prediction][:, None] + least)
    return int(((spent > leads) & rivals).any(axis=1).sum())
