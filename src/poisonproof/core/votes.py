"""Votes: what every base classifier says about every test sample, with the spread that made them.

Rankings: the classes of each base classifier from best to worst, its vote in first place.

``rankings[t, i, r]`` is the class that base classifier i puts in place r for test sample t. A base classifier ranks the
classes it has seen; the places behind them hold the number of classes, which stands for "nothing more". So an
abstention is a ranking of nothing, and every base classifier's first place is its vote. Of two classes that a base
classifier does not rank it prefers neither; it prefers a class it ranks to one it does not.

Unseen classes are left out and not put last in the order of their names, for this reason: a label that an attacker
invents would find its place among them by its name, so it could stand above another class in base classifiers that no
poison reaches. Left out, it gains nothing there.

Of many classes the first places are enough: ``rankings`` may hold fewer places than there are classes. Then a row whose
last place still names a class is *cut*, and what came behind it is unknown: that base classifier prefers the classes it
names to all others, and of two that it does not name nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.errors import DamagedFileError, PoisonproofError, WrongTypeError, check_format
from poisonproof.premises import Premise, from_records, restated, to_records
from poisonproof.samples.labels import class_array, different_classes
from poisonproof.system.archives import map_npy
from poisonproof.system.files import open_arrays, read_record, reading, sha256_of, write_record, write_whole
from poisonproof.system.threads import in_threads

FORMAT = "poisonproof votes 2"
ROWS_PER_CHECK = 4096


@runtime_checkable
class Tallies(Protocol):
    """What voters other than base classifiers said of test samples: a slice's own class, which the registry knows.

    ``scores()`` is an array (n_test, n_classes); the largest wins, ties to the smaller class.
    """

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, in the order of their codes."""

    @property
    def n_test(self) -> int:
        """Number of test samples."""

    @property
    def election(self) -> dict[str, Any]:
        """Who votes, and how, as plain values; ``"words"`` says it in one clause."""

    def scores(self) -> NDArray[np.int64]:
        """What speaks for each class."""

    def take(self, rows: NDArray[np.int64]) -> Any:
        """The tallies of these test samples alone."""

    def certify(self, method: Any = None, *, target: Any = None, reachable: Any = None, n_jobs: int = -1) -> Any:
        """A `Certificate`, or against a target a `TargetCertificate`."""

    def certified_accuracy(self, y: ArrayLike, attack_size: Any, **limits: Any) -> Any:
        """A `CertifiedAccuracy`; one sentence if none is known."""

    def save(self, path: str | Path) -> None:
        """Write a file that describes itself, whose format the registry knows."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Vote matrix, classes and spread: everything a certificate needs, and nothing else.

    Parameters
    ----------
    matrix : array (n_test, n_subsets) of integers
        ``matrix[t, i]`` is the class index that base classifier i gives test sample t. Column i is
        always subset i. The number of classes as a code means that the base classifier abstains.
        Kept as uint8, or uint16 above 255 classes; a memory-mapped matrix stays mapped.
    spread : Spread
        The spread that the subsets were made with. Never guessed.
    classes : sequence
        The label of each class index, at least two unless inferred.
    split : Split or str, optional
        The split that the subsets were made with; it says what a label flip or a feature change costs.
    classes_inferred : bool
        Whether the class list was read off the training data. Then an attacker could add a class, and
        every certificate counts one more rival, without votes, that wins ties.
    premises : sequence of Premise
        What the certificate takes as given. Votes that poisonproof made state their spread among them; for any others
        spread, split, classes and where votes come from are added.
    rankings : array (n_test, n_subsets, places) of integers, optional
        The classes of each base classifier from best to worst (see `poisonproof.core.votes`); the first is its
        vote. As many places as classes, or fewer: what was not kept is then reckoned against the prediction. Only
        `certify` with method "run-off" reads them. They too must be functions of subset, index and sample;
        with inferred classes, no base classifier may rank a class that its subset does not hold.
    """

    matrix: NDArray[Any]
    spread: Spread
    classes: NDArray[Any]
    split: Split | None = None
    classes_inferred: bool = False
    premises: tuple[Premise, ...] = field(default=(), repr=False)
    rankings: NDArray[Any] | None = field(default=None, repr=False)

    def __init__(
        self,
        matrix: ArrayLike,
        spread: Spread,
        classes: Sequence[Any] | NDArray[Any],
        split: Split | str | None = None,
        *,
        classes_inferred: bool = False,
        premises: Sequence[Premise] = (),
        rankings: ArrayLike | None = None,
    ) -> None:
        if not isinstance(spread, Spread):
            raise WrongTypeError(f"The 'spread' of votes must be a poisonproof.Spread. Got {spread!r} instead.")
        labels, how = _checked_classes(classes, classes_inferred), Split.of(split)
        checked = _checked_matrix(matrix, spread, len(labels))
        for name, value in {
            "matrix": checked,
            "spread": spread,
            "classes": labels,
            "split": how,
            "classes_inferred": bool(classes_inferred),
            "premises": _of_votes(tuple(premises), spread, how, labels, inferred=classes_inferred),
            "rankings": None if rankings is None else checked_rankings(rankings, checked, len(labels)),
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_subsets(cls, matrix: ArrayLike, subsets: str | Path, classes: Sequence[Any], **more: Any) -> Votes:
        """Votes of base classifiers that were trained on the subsets in a file of ``poisonproof split``.

        Spread and split are those of the file; ``more`` are the other parameters.
        """
        from poisonproof.core.subsets import made_with

        spread, split = made_with(subsets)
        stated = Premise("spread", spread.facts | {"note": "as it was written with the subsets"}, declared=True)
        return cls(matrix, spread, classes, split, **{**more, "premises": (stated, *more.get("premises", ()))})

    @property
    def n_test(self) -> int:
        """Number of test samples."""
        return int(self.matrix.shape[0])

    def counts(self) -> NDArray[np.int64]:
        """Votes for each class, an array (n_test, n_classes); abstentions are not counted."""
        from poisonproof.core.theorem2 import count_rows

        counts = np.zeros((self.n_test, len(self.classes) + 1), np.int64)
        in_threads(self.n_test, 256, lambda start, stop: count_rows(self.matrix[start:stop], counts[start:stop]))
        return counts[:, :-1]

    def indices_of(self, y: ArrayLike) -> NDArray[np.int64]:
        """Class index of each label; see `poisonproof.core.metrics.class_indices`."""
        from poisonproof.core.metrics import class_indices

        return class_indices(y, self.classes, inferred=self.classes_inferred)

    def save(self, path: str | Path) -> None:
        """Write ``path`` (a plain .npy file) and, beside it, a .json file with all the rest and digests.

        Rankings, if there are any, go beside it too, as a plain ``….rankings.npy``.
        """
        path = _npy(path)
        write_whole(path, lambda file: np.save(file, self.matrix, allow_pickle=False))
        extra = {}
        if self.rankings is not None:
            ranked, rankings = rankings_file(path), self.rankings
            write_whole(ranked, lambda file: np.save(file, rankings, allow_pickle=False))
            extra["rankings"] = {"file": ranked.name, "sha256": sha256_of(ranked)}
        write_record(
            path.with_suffix(".json"),
            {
                "format": FORMAT,
                "matrix": {"file": path.name, "sha256": sha256_of(path)},
                "spread": self.spread.as_dict(),
                "spread_digest": self.spread.digest,
                "classes": labels_to_json(self.classes),
                "classes_inferred": self.classes_inferred,
                "split": self.split.as_dict() if self.split else None,
                "premises": to_records(self.premises),
                **extra,
            },
        )

    @classmethod
    def load(cls, path: str | Path) -> Votes:
        """Open saved votes with the matrix memory-mapped; refuse them if anything was altered."""
        path = _npy(path)
        side = path.with_suffix(".json")
        if not side.exists():
            raise FileNotFoundError(
                f"{side} is missing: {path.name} alone does not say which spread made it. "
                "Use Votes.from_subsets(np.load(...), 'subsets.npz', classes), or name the spread: Votes(np.load(...), "
                "spread, classes)."
            )
        record = read_record(side)
        check_format(side, record.get("format"), FORMAT)
        with reading(side):
            matrix, ranked = _mapped(path, record["matrix"], side), record.get("rankings")
            spread = Spread.from_dict(record["spread"])
            if spread.digest != record["spread_digest"]:
                raise DamagedFileError(f"{side} is altered: its spread does not have the digest that it states.")
            return cls(
                matrix,
                spread,
                labels_from_json(record["classes"]),
                Split.from_dict(record["split"]) if record["split"] else None,
                classes_inferred=record["classes_inferred"],
                premises=from_records(record["premises"]),
                rankings=None if ranked is None else _mapped(rankings_file(path), ranked, side),
            )


def load_tallies(path: str | Path) -> Any:
    """What training samples said, as a run keeps it, by the format that the file states; refused if it was altered."""
    from poisonproof import registry

    stated = open_arrays(path)[1].get("format")
    if stated not in registry.names("tallies"):
        raise PoisonproofError(
            f"{path} is of format {stated!r}; what samples said is kept by `poisonproof run --method …` in OUT, as "
            "METHOD.npz.",
            code="file.format",
        )
    return registry.find("tallies", stated).load(path)


def rankings_file(path: Path) -> Path:
    """Where the rankings of the votes in ``path`` lie."""
    return path.with_suffix(".rankings.npy")


def vote_dtype(n_classes: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every class code and the abstention."""
    return np.uint8 if n_classes <= 255 else np.uint16


def labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    """Labels as plain values with their kind, so that 1, 1.0, True and "1" stay apart."""
    texts = len(labels) and all(isinstance(label, str) for label in labels.tolist())
    return {"kind": "U" if texts else labels.dtype.kind, "values": labels.tolist()}


def labels_from_json(record: dict[str, Any]) -> NDArray[Any]:
    """The labels that `labels_to_json` wrote."""
    if record.get("kind") not in tuple("iufbUO"):
        raise PoisonproofError(f"Labels of kind {record.get('kind')!r} are not supported.", code="labels.kind")
    return class_array(record["values"])


def _checked_classes(classes: Sequence[Any] | NDArray[Any], inferred: bool) -> NDArray[Any]:
    labels = class_array(classes)
    different_classes(labels.tolist(), "The 'classes' of votes")
    if len(labels) < (1 if inferred else 2):
        raise PoisonproofError(
            f"A certificate needs at least two classes: with one there is nothing to defend. Got {len(labels)}.",
            code="classes.few",
        )
    return labels


def _of_votes(
    given: tuple[Premise, ...], spread: Spread, split: Split | None, classes: NDArray[Any], *, inferred: bool
) -> tuple[Premise, ...]:
    """The premises of votes; of those that no estimator made, what nobody can see in a matrix, too."""
    if any(premise.code == "learner" for premise in given):
        return given
    made_elsewhere = (
        "made elsewhere: column i is a function of subset i, of i and of the test sample alone, and nothing was fitted "
        "on training samples before they were split"
    )
    standing = (
        Premise("spread", spread.facts | {"note": "the subsets were made with this spread"}, declared=True),
        Premise("split", None if split is None else split.facts, declared=None if split is None else True),
        Premise("classes", classes.tolist(), declared=not inferred),
        Premise("votes", made_elsewhere, declared=None),
    )
    return restated(standing, given)


def _checked_matrix(matrix: ArrayLike, spread: Spread, n_classes: int) -> NDArray[Any]:
    votes = np.asanyarray(matrix)
    if votes.ndim != 2:
        raise PoisonproofError(
            f"Votes must have two dimensions, (test samples, base classifiers). Got an array of shape {votes.shape}.",
            code="votes.shape",
        )
    if votes.shape[1] != spread.n_subsets:
        raise PoisonproofError(
            f"The votes have {votes.shape[1]} columns, but the spread has {spread.n_subsets} subsets "
            f"(k = {spread.k:g}, d = {spread.d}); column i must be base classifier i.",
            code="votes.shape",
        )
    if not np.issubdtype(votes.dtype, np.integer):
        if np.issubdtype(votes.dtype, np.floating) and np.isnan(votes).any():
            raise PoisonproofError(
                "The votes hold NaN; a base classifier that abstains has the number of classes as its code.",
                code="votes.codes",
            )
        raise PoisonproofError(
            f"Votes must be whole numbers, class indices. Got dtype {votes.dtype}.", code="votes.codes"
        )
    for start in range(0, len(votes), ROWS_PER_CHECK):
        part = votes[start : start + ROWS_PER_CHECK]
        for wrong in (int(part.min()), int(part.max())):
            if not 0 <= wrong <= n_classes:
                raise PoisonproofError(
                    f"Votes must be class indices 0 … {n_classes - 1}, or {n_classes} to abstain. Got {wrong}.",
                    code="votes.codes",
                )
    return votes.astype(vote_dtype(n_classes), copy=False)


def _mapped(path: Path, stated: dict[str, str], side: Path) -> NDArray[Any]:
    """The array of a file, memory-mapped; refused if the file is not the one that its record describes."""
    digest = sha256_of(path)
    if digest != stated["sha256"]:
        raise DamagedFileError(
            f"{path} is altered or truncated: its SHA-256 is {digest[:16]}…, "
            f"but {side.name} states {stated['sha256'][:16]}…."
        )
    with reading(path, "is not a whole .npy file"):
        return map_npy(path)


def _npy(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix != ".npy":
        raise PoisonproofError(f"Votes are saved as .npy with a .json beside it. Got '{path.name}'.", code="file.kind")
    return path


WRONG = {
    1: "holds {named}, but classes are 0 … {last} and {abstention} stands for nothing more; declare all",
    2: "names class {named} twice",
    3: "goes on with class {named} after a place that holds nothing",
    4: "begins with {named}, but the vote is {vote}; the first place must be the vote, {abstention} for an abstention",
}


def checked_rankings(rankings: ArrayLike, matrix: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """The rankings in the type of the votes, or one sentence that says why they do not belong to these votes."""
    from poisonproof.core.runoff import first_wrong

    ranked = np.asanyarray(rankings)
    if ranked.shape[:-1] != matrix.shape or not 1 <= ranked.shape[-1] <= n_classes:
        raise PoisonproofError(
            f"Rankings must have the shape (test samples, base classifiers, classes), here "
            f"{(*matrix.shape, n_classes)}, or fewer places from the first on. Got {ranked.shape}.",
            code="rankings.shape",
        )
    if not np.issubdtype(ranked.dtype, np.integer):
        raise PoisonproofError(
            f"Rankings must be whole numbers, class indices. Got dtype {ranked.dtype}.", code="rankings.codes"
        )
    for t in range(len(ranked)):
        wrong, i, place = first_wrong(ranked[t], matrix[t], n_classes)
        if wrong:
            fault = WRONG[wrong].format(
                named=ranked[t, i, place], last=n_classes - 1, abstention=n_classes, vote=matrix[t, i]
            )
            raise PoisonproofError(
                f"The ranking of base classifier {i} on test sample {t} {fault}.", code="rankings.codes"
            )
    return ranked.astype(matrix.dtype, copy=False)
