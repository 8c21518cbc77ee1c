"""What classifiers share in which the training samples themselves vote, through a fixed map.

BallotClassifier: every training sample casts a ballot about x, for its label if near and against it if far.

NeighborVoteClassifier: the K nearest training samples vote, with the exact certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from poisonproof.ballots.distances import limit_of
from poisonproof.ballots.maps import TableFeatures, is_default
from poisonproof.ballots.tallies import Ballots, Neighbours, Voices
from poisonproof.ballots.voters import Described, Known, Map, Voters, count_cells, nearest_voters
from poisonproof.core.certificate import Certificate
from poisonproof.core.split import Split
from poisonproof.core.votes import labels_from_json, labels_to_json, vote_dtype
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.estimators.base import CertifiedClassifier, outline, warn
from poisonproof.estimators.prepared import data_premises, label_faults, left_out_words, table_premises
from poisonproof.learners.inspection import describe
from poisonproof.premises import WIDTH, Premise, PublicMap, declared_if, from_records, to_records
from poisonproof.samples.cells import order_of_cell
from poisonproof.samples.frames import as_frame
from poisonproof.samples.labels import (
    Cell,
    class_array,
    id_cells,
    label_cells,
    places_of,
    read_labels,
    typed_premises,
)
from poisonproof.system.files import read_record, reading, sha256_of, write_bytes, write_record
from poisonproof.system.threads import at_most_threads

FORMAT = "poisonproof voters 2"
RECORD, VOTERS, MAP = "model.json", "voters.npz", "map.skops"
PLAIN = ("n_features_in_", "n_dropped_", "kind_of_samples_", "classes_inferred_")
DEFAULT_SCALE = 64.0
OF_THE_RULE = ("map", "near", "class-sizes", "votes-per-contributor", "number-of-neighbors")
"""Premises whose parameters are read when the vote is held."""


class Heard(NamedTuple):
    """What the voters say of some test samples, in whole numbers: all that depends on those samples.

    ``said``: counts by class, or labels in order of distance. ``own``: whether a copy of a test sample would be near
    it, or come first: then its radius is exact.
    """

    said: NDArray[Any]
    own: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[Heard]) -> Heard:
        """What was heard of several lots of samples, one after the other."""
        return cls(np.concatenate([part.said for part in parts]), np.concatenate([part.own for part in parts]))


class SampleVoteClassifier(CertifiedClassifier):
    """A classifier whose voters are its training samples.

    Subclasses have the parameters ``features``, ``scale``, ``split``, ``classes`` and ``n_jobs``, and say
    what voters near and far count for.
    """

    _chosen_by: ClassVar = CertifiedClassifier._chosen_by | {
        "map": ("features", "scale"),
        "near": ("near",),
        "number-of-neighbors": ("n_neighbors",),
        "class-sizes": ("class_sizes", "one_sided"),
        "votes-per-contributor": ("voices",),
    }
    method: ClassVar[str]
    """What the command line calls this way to vote."""
    _kept_parameters: ClassVar[tuple[str, ...]]
    """Those that stand in a saved model as they are."""
    features: Any
    scale: float
    split: str | Split
    n_jobs: int | None
    voters_: Voters
    map_: Map
    split_: Split
    contributors_: dict[Cell, int]
    """The number of each contributor's id; empty where samples vote by themselves."""
    places_: NDArray[np.int64]
    """Where the voter of each row of the training data stands; -1 for rows that were left out."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Describe the training samples by the map and keep them: they are the voters.

        Parameters
        ----------
        X : array (n_samples, …), sparse matrix, DataFrame (pandas, Polars, PyArrow), or list of strings
        y : array (n_samples,)
        groups : array (n_samples,), optional
            Contributor ids. Then contributors vote, and radii count them.
        """
        with at_most_threads(self.n_jobs):
            return self._fit(X, y, groups)

    def _fit(self, X: Any, y: Any, groups: Any = None, known: Known | None = None) -> Self:
        """As `fit`; samples whose features are known are not described again. They must be this map's."""
        self._check_parameters()
        if y is None:
            raise PoisonproofError(
                f"{type(self).__name__} requires y to be passed, but the target y is None.", code="labels.missing"
            )
        split, typed = self._split_for(groups), typed_premises(y, groups)
        X = as_frame(X)
        samples = split.samples(X)
        validate_data(self, outline(X, samples), skip_check_array=True)
        declared = self._declared_classes()
        ids = id_cells(groups)
        self.classes_, codes, cells = read_labels(y, declared, ids)
        self.classes_inferred_ = declared is None
        self.split_, self.kind_of_samples_ = split, samples.kind
        self.map_ = Map.of(self.features, self.scale, samples)
        self._check_classes()
        for what, given in (("labels", codes), ("groups", ids)):
            if given is not None and len(given) != len(samples):
                raise PoisonproofError(
                    f"There are {len(samples)} samples and {len(given)} {what}; give one each.", code="labels.count"
                )
        described = self.map_.describe(samples, twice=True) if known is None else self.map_.describe_new(samples, known)
        named = np.array([ids is None or ids[row] is not None for row in range(len(samples))], np.bool_)
        faults = {
            **label_faults(codes, cells),
            "have no contributor": ~named,
            "cannot be read by the feature map": ~described.readable,
        }
        words = [left_out_words(fault, rows) for fault, rows in faults.items()]
        oddities = [*samples.oddities, *filter(None, words)]
        kept = np.flatnonzero((codes >= 0) & named & described.readable)
        if len(kept) == 0:
            raise PoisonproofError(
                f"None of the {len(codes)} training samples can vote: {'; '.join(oddities)}.", code="ballots.no-voter"
            )
        self.contributors_, owners = {}, np.zeros(len(kept), np.int64)
        for at, row in enumerate(kept if ids is not None else ()):
            owners[at] = self.contributors_.setdefault(ids[row], len(self.contributors_))  # type: ignore[index]
        self.places_ = np.full(len(codes), -1, np.int64)
        self.places_[kept] = np.arange(len(kept))
        taken = slice(None) if len(kept) == len(codes) else kept
        hashes = samples.content_hashes[taken].copy()
        self.voters_ = Voters(described.rows[taken], described.lengths[taken], codes[taken].copy(), hashes, owners)
        self.n_dropped_ = len(codes) - len(kept)
        if self.classes_inferred_ and self.n_dropped_:
            self._settle_classes()
            self._check_classes()
        of_data = data_premises(self.classes_, declared is not None, samples, split)
        self.premises_ = (*self._own_premises(), *of_data, *table_premises(samples, split), *typed)
        self._warn_of(oddities)
        self._see_surroundings(
            "in front of the vote; one poisoned sample can move every other one that way, and then no radius holds; "
            "use a fixed map (features=) instead."
        )
        return self

    def certify(self, X: Any) -> Certificate:
        """Prediction, runner-up, margin and radius for every sample."""
        raise NotImplementedError

    def _heard(self, X: Any) -> Heard:
        """What the voters say of these samples; `_votes_of` makes of it what a certificate needs."""
        raise NotImplementedError

    def _votes_of(self, heard: Heard) -> Ballots | Neighbours:
        """What was heard with all that a certificate needs to know about it; to keep or to send."""
        raise NotImplementedError

    def _scores(self, X: Any) -> NDArray[np.int64]:
        """What decides: the class with the largest score wins, ties go to the smaller one; an array (n, classes)."""
        raise NotImplementedError

    def predict(self, X: Any, min_radius: int | None = None) -> NDArray[Any]:
        """The label that wins the vote on each sample.

        With ``min_radius`` the answer is a masked array: it answers only where the radius is at least
        that, and is masked elsewhere.
        """
        check_is_fitted(self, "voters_")
        if min_radius is None:
            return self.classes_[self._scores(X).argmax(axis=1)]
        certificate = self.certify(X)
        answer: NDArray[Any] = np.ma.masked_array(certificate.labels, certificate.radius < min_radius)
        return answer

    def save(self, path: str | Path) -> None:
        """Keep the fitted model in a folder, without pickle; `load` serves it again.

        It holds the features, the label and a hash of every training sample: whoever may read it may read those;
        deleting a sample means fitting without it and writing the model again.
        """
        from poisonproof.training.model_files import dumped

        check_is_fitted(self, "voters_")
        folder, features = Path(path), self.map_.features
        folder.mkdir(parents=True, exist_ok=True)
        self.voters_.save(folder / VOTERS, self.places_)
        write_bytes(folder / MAP, dumped(features.without_cache() if isinstance(features, PublicMap) else features))
        names = getattr(self, "feature_names_in_", None)
        write_record(
            folder / RECORD,
            {
                "format": FORMAT,
                "type": type(self).__name__,
                "parameters": {name: getattr(self, name) for name in self._kept_parameters},
                "sizes": None if getattr(self, "class_sizes", None) is None else self.sizes_.tolist(),
                "steps_per_unit": self.map_.scale,
                "classes": labels_to_json(self.classes_),
                "split": self.split_.as_dict(),
                "contributors": [[cell, number] for cell, number in self.contributors_.items()],
                "feature_names": None if names is None else [str(name) for name in names],
                "premises": to_records(self.premises_),
                "files": {name: sha256_of(folder / name) for name in (VOTERS, MAP)},
                **{name: getattr(self, name) for name in PLAIN},
            },
        )

    @classmethod
    def load(cls, path: str | Path, trusted: Sequence[str] = ()) -> Self:
        """Open a saved model; refuse one that was altered or whose map holds types nobody vouched for.

        Parameters
        ----------
        path : path
        trusted : sequence of str
            Full names of types of your own (a feature map) that may be loaded.
        """
        folder = Path(path)
        record = read_record(folder / RECORD)
        check_format(folder, record.get("format"), FORMAT)
        if record.get("type") != cls.__name__:
            raise PoisonproofError(
                f"{folder} holds a {record.get('type')}; load it with {record.get('type')}.load.", code="file.kind"
            )
        with reading(folder / RECORD):
            if set(record["files"]) != {VOTERS, MAP}:
                raise DamagedFileError(f"{folder / RECORD} is altered: it states {', '.join(sorted(record['files']))}.")
            for name, stated in record["files"].items():
                if sha256_of(folder / name) != stated:
                    raise DamagedFileError(
                        f"{folder / name} is altered or truncated: it does not have the SHA-256 that {RECORD} states."
                    )
            model = cls._of_record(record, folder, trusted)
        if isinstance(model.map_.features, PublicMap):
            model.map_.features.check_unchanged()
        return model

    @classmethod
    def _of_record(cls, record: dict[str, Any], folder: Path, trusted: Sequence[str]) -> Self:
        from poisonproof.training.model_files import load_state

        features = load_state(folder / MAP, trusted)
        classes, sizes, parameters = labels_from_json(record["classes"]), record["sizes"], dict(record["parameters"])
        if sizes is not None:
            parameters["class_sizes"] = dict(zip(classes.tolist(), sizes, strict=True))
        declared = None if record["classes_inferred_"] else classes.tolist()
        model: Self = cls(features, split=Split.from_dict(record["split"]), classes=declared, **parameters)
        for name in PLAIN:
            setattr(model, name, record[name])
        model.classes_, model.split_ = classes, model.split  # type: ignore[assignment]
        model.contributors_ = {cell: int(number) for cell, number in record["contributors"]}
        model.premises_ = from_records(record["premises"])
        if record["feature_names"] is not None:
            model.feature_names_in_ = np.array(record["feature_names"], object)
        model.voters_, model.places_ = Voters.load(folder / VOTERS, len(classes))
        model.map_ = Map(features, float(record["steps_per_unit"]), model.voters_.width)
        model._check_parameters()
        model._check_classes()
        return model

    # What subclasses say

    def _check_parameters(self) -> None:
        """Refuse what the caller cannot mean, before anything is read."""

    def _declared_classes(self) -> Sequence[Any] | None:
        """The class list, if it is declared."""
        return self.classes

    def _check_classes(self) -> None:
        """Settle what depends on the class list."""

    def _own_premises(self) -> list[Premise]:
        """Map and rule of the vote."""
        features = self.map_.features
        chosen = isinstance(features, TableFeatures) and not features.trusted
        words = features.words if isinstance(features, TableFeatures) else describe(features)
        value = f"{words}, {self.map_.scale:g} steps per unit"
        premises = [Premise("map", value, declared=False if chosen else declared_if(not is_default(features)))]
        if isinstance(features, PublicMap):
            premises.append(replace(features.premises[0], declared=declared_if(not is_default(features))))
        return [*premises, *([Premise(WIDTH, self.map_.measured_by, declared=False)] if self.map_.measured_by else [])]

    @property
    def _premises_in_use(self) -> tuple[Premise, ...]:
        """Those of the fit, with the rule of the vote as it stands now: what `certify` asks for may be set after it."""
        now = {premise.code: premise for premise in self._own_premises() if premise.code in OF_THE_RULE}
        rule = [(premise, now.get(premise.code, premise)) for premise in self.premises_]
        return tuple(before if before.value == after.value else after for before, after in rule)

    @property
    def _rule(self) -> dict[str, Any]:
        """How nearness is measured, for what is kept or sent."""
        return {"steps_per_unit": self.map_.scale}

    # Reading

    def _describe_test(self, X: Any) -> Described:
        """Test samples by the map; those that it cannot read are told of, and described by zeros."""
        check_is_fitted(self, "voters_")
        samples = self._read_test(X, self.split_)
        with at_most_threads(self.n_jobs):
            described = self.map_.describe(samples)
        if not described.readable.all():
            n = int((~described.readable).sum())
            warn(f"{n} samples to be answered cannot be read by the feature map and count as zeros.")
        return described

    def _split_for(self, groups: Any) -> Split:
        split = Split.of(self.split)
        if split is None or split.kind == "pixel-sum" or split.hash_labels:
            raise PoisonproofError(
                f"The 'split' of {type(self).__name__} says how samples are read; it is 'content' or 'group', labels "
                f"not hashed. Got {self.split!r} instead.",
                code="split.kind",
            )
        if split.kind == "group" and groups is None:
            raise PoisonproofError(
                "The 'group' split needs groups: one contributor id per training sample.", code="split.groups"
            )
        return split if groups is None else replace(split, kind="group")

    def _settle_classes(self) -> None:
        """With inferred classes: those that voters have, in their order."""
        names = self.classes_.tolist()
        codes, cells = self.voters_.codes, label_cells(names)
        held = np.flatnonzero(np.bincount(codes, minlength=len(names))).tolist()
        held.sort(key=lambda code: order_of_cell(cells[code]))
        self.voters_.codes[:] = places_of(range(len(names)), held)[codes]
        self.classes_ = class_array([names[code] for code in held])

    def _warn_of(self, oddities: Sequence[str]) -> None:
        for oddity in oddities:
            warn(f"{oddity}.")


class BallotClassifier(SampleVoteClassifier):
    """A classifier without training whose predictions withstand thousands of poisoned samples.

    Every training sample votes about x: +1 for its label if it is near, −1 if it is far, through a map that does not
    depend on the training data. One insertion or removal changes a lead by 1 at most, so the radius is the lead over
    the runner-up, and it is exact. The catch: **the map must be fixed**. Whatever was learned or tuned on samples that
    an attacker could touch is a premise, printed beside the radius.

    Parameters
    ----------
    features : callable, optional
        The map from samples to small whole numbers: `GlyphFeatures`,
        `VectorFeatures`, `HashedFeatures`, `TableFeatures`, an encoder (`poisonproof.encoder`), or any function of one
        sample that gives numbers. Without one, plain numbers are rounded to 1/scale, texts and sparse rows are hashed,
        and tables with categories get units from these rows, which is a premise (`TableFeatures.declared` avoids it).
    near : float
        The greatest distance that counts as near, in the map's own units.
    class_sizes : dict of label to size, optional
        How many samples of each class there should be, **from outside**: public facts about the data, trusted rows.
        Its keys are the class list. Without sizes all classes count as equally large, which costs nothing on balanced
        data and much on others.
    class_sizes_from : str, optional
        Where the sizes come from, for the premise.
    one_sided : bool
        Far samples count 0 instead of −1: radius neighbours, as Jia, Liu, Cao and Gong (2022) certify them. It needs no
        sizes and has half the radius.
    classes : sequence, optional
        The labels that may occur. The strict way. Otherwise they are read off ``y``, which is a premise, and every
        certificate reckons with one more class, of score 0: with two-sided ballots that costs nearly everything.
    voices : int
        With contributors (``groups`` of `fit`): what the ballots of each are cut to, in sum. Class sizes then count
        voices.
    scale : float
        Steps per unit to which plain numbers are rounded.
    split : str or Split
        How samples are read (declared dtype, schema of a table); "group" demands contributors.
    n_jobs : int, optional
        Workers of a cluster, as in joblib; on this machine threads do the work.

    Attributes
    ----------
    classes_ : array
        The labels, in increasing order.
    voters_ : Voters
        Features and labels of all training samples; a saved model holds them.
    n_dropped_ : int
        Training samples left out: their label is not one of the classes, they have no contributor, or the map cannot
        read them.
    premises_ : tuple of Premise
        What every certificate of this model takes as given.
    """

    method = "ballots"
    _kept_parameters = ("near", "class_sizes_from", "one_sided", "voices", "scale")
    sizes_: NDArray[np.int64]
    """Declared sizes in the order of the classes."""

    def __init__(
        self,
        features: Any = None,
        *,
        near: float,
        class_sizes: Mapping[Any, int] | None = None,
        class_sizes_from: str | None = None,
        one_sided: bool = False,
        classes: Sequence[Any] | None = None,
        voices: int = 1,
        scale: float = DEFAULT_SCALE,
        split: str | Split = "content",
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.near = near
        self.class_sizes = class_sizes
        self.class_sizes_from = class_sizes_from
        self.one_sided = one_sided
        self.classes = classes
        self.voices = voices
        self.scale = scale
        self.split = split
        self.n_jobs = n_jobs

    def ballots(self, X: Any) -> Ballots:
        """What all training samples say about every sample, ready to certify, to keep or to send."""
        return self._votes_of(self._heard(X))

    def _heard(self, X: Any) -> Heard:
        """Near samples of every class, and whether a copy of each sample would be near it."""
        test, limit = self._describe_test(X), self._limit()
        cells, n_cells, _, _ = self._cells()
        with at_most_threads(self.n_jobs):
            near = count_cells(self.voters_, cells, n_cells, test, limit)
        return Heard(near, test.readable)

    def _votes_of(self, heard: Heard) -> Ballots:
        """Ballots of what was heard."""
        _, _, totals, voices = self._cells()
        limit = self._limit()
        return Ballots(
            heard.said,
            totals,
            self.sizes_,
            self.classes_,
            heard.own,
            one_sided=bool(self.one_sided),
            classes_inferred=self.classes_inferred_,
            split=self.split_,
            voices=voices,
            rule={**self._rule, "near": float(self.near), "limit": limit},
            premises=self._premises_in_use,
        )

    def certify(self, X: Any) -> Certificate:
        """Prediction, runner-up, margin and exact radius for every sample; docs/proofs/ballots.md has the proof."""
        certificate: Certificate = self.ballots(X).certify()
        return certificate

    def _scores(self, X: Any) -> NDArray[np.int64]:
        """Ballots of each class, near less far, with its declared size; an array (n, classes)."""
        return self.ballots(X).class_scores()

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Shares of the ballots that speak for each class; no probabilities.

        For a class speak its near samples and the far samples of all others, and its declared size. Uniform where
        nothing speaks at all.
        """
        scores = self._scores(X)
        most = self.voices * len(self.contributors_) if self.contributors_ else len(self.voters_)
        least = 0 if self.one_sided else most
        speaking = scores + least
        total = speaking.sum(axis=1, keepdims=True)
        return np.where(total > 0, speaking / np.maximum(total, 1), 1 / scores.shape[1])

    def _cells(self) -> tuple[NDArray[np.int64], int, NDArray[np.int64], Voices | None]:
        """What is counted together: classes, or what each contributor has of each class."""
        voters, n_classes = self.voters_, len(self.classes_)
        codes = voters.codes
        if self.split_.kind != "group":
            return codes, n_classes, np.bincount(codes, minlength=n_classes).astype(np.int64), None
        pairs = voters.owners * n_classes + codes
        held, cells, totals = np.unique(pairs, return_inverse=True, return_counts=True)
        starts = np.append(np.unique(held // n_classes, return_index=True)[1], len(held)).astype(np.int64)
        voices = Voices(int(self.voices), (held % n_classes).astype(np.int64), starts)
        return cells.astype(np.int64), len(held), totals.astype(np.int64), voices

    def _limit(self) -> int:
        return limit_of(self.near, self.map_.scale)

    def _check_parameters(self) -> None:
        """Refuse what the caller cannot mean, before anything is read."""
        if isinstance(self.voices, bool) or not isinstance(self.voices, int | np.integer) or self.voices < 1:
            raise PoisonproofError(
                f"The 'voices' parameter must be a whole number above 0. Got {self.voices!r} instead.",
                code="ballots.parameter",
            )
        self._check_near()
        sizes = self.class_sizes
        if sizes is None:
            return
        if not isinstance(sizes, Mapping):
            raise PoisonproofError(
                f"The 'class_sizes' parameter must be sizes by label. Got {type(sizes).__name__} instead.",
                code="ballots.class-sizes",
            )
        if self.one_sided:
            raise PoisonproofError(
                "One-sided ballots need no class sizes; leave 'class_sizes' or 'one_sided'.", code="ballots.parameter"
            )
        for label, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
                raise PoisonproofError(
                    f"The size of class {label!r} must be a whole number from 0 on. Got {size!r}.",
                    code="ballots.class-sizes",
                )

    def _check_near(self) -> None:
        limit_of(self.near, 1.0)

    def _declared_classes(self) -> Sequence[Any] | None:
        """The class list: as given, or the keys of the declared sizes."""
        if self.class_sizes is None:
            return self.classes
        keys = list(self.class_sizes)
        if self.classes is not None and set(label_cells(self.classes)) != set(label_cells(keys)):
            raise PoisonproofError(
                f"The keys of 'class_sizes' must be the classes, {list(self.classes)!r}. Got {keys!r} instead.",
                code="ballots.class-sizes",
            )
        return keys

    def _check_classes(self) -> None:
        """Put declared sizes in the order of the classes."""
        given = self.class_sizes or {}
        sizes = dict(zip(label_cells(given), given.values(), strict=True))
        self.sizes_ = np.array([sizes.get(cell, 0) for cell in label_cells(self.classes_.tolist())], np.int64)

    def _own_premises(self) -> list[Premise]:
        """Map, threshold, class sizes, and what a contributor may say."""
        premises = [*super()._own_premises(), self._near_premise(), self._sizes_premise()]
        if self.split_.kind == "group":
            premises.append(Premise("votes-per-contributor", self.voices, declared=declared_if(self.voices != 1)))
        return premises

    def _sizes_premise(self) -> Premise:
        sizes: Any = None
        if self.one_sided:
            sizes = {}
        elif self.sizes_.any():
            pairs = zip(self.classes_.tolist(), self.sizes_.tolist(), strict=True)
            sizes = {"sizes": [list(pair) for pair in pairs], "source": self.class_sizes_from}
        return Premise("class-sizes", sizes, declared=declared_if(sizes is not None))

    def _near_premise(self) -> Premise:
        return Premise("near", {"distance": float(self.near), "squared_steps": int(self._limit())}, declared=True)


class NeighborVoteClassifier(SampleVoteClassifier):
    """K nearest neighbours that know how many poisoned training samples each prediction withstands.

    The K nearest training samples vote, through a map that does not depend on the training data; of samples at the same
    distance, those with the smaller hash of their content. Better than `BallotClassifier` against small attacks, and
    without anything to say beyond K/2. The catch is the same: **the map must be fixed**.

    Parameters
    ----------
    features : callable, optional
        The map from samples to small whole numbers; see `BallotClassifier`.
    n_neighbors : int
        How many vote: K. All samples where there are fewer.
    classes : sequence, optional
        The labels that may occur. The strict way. Otherwise they are read off ``y``, which is a premise, and every
        certificate reckons with one more class, without votes.
    scale : float
        Steps per unit to which plain numbers are rounded.
    split : str or Split
        How samples are read (declared dtype, schema of a table); "group" demands contributors. With contributors each
        of them is heard by its nearest sample only, and radii count them.
    n_jobs : int, optional
        Workers of a cluster, as in joblib; on this machine threads do the work.

    Attributes
    ----------
    classes_ : array
        The labels, in increasing order.
    voters_ : Voters
        Features and labels of all training samples; a saved model holds them.
    n_dropped_ : int
        Training samples left out.
    premises_ : tuple of Premise
        What every certificate of this model takes as given.
    """

    method = "neighbours"
    _kept_parameters = ("n_neighbors", "scale")

    def __init__(
        self,
        features: Any = None,
        *,
        n_neighbors: int,
        classes: Sequence[Any] | None = None,
        scale: float = DEFAULT_SCALE,
        split: str | Split = "content",
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.n_neighbors = n_neighbors
        self.classes = classes
        self.scale = scale
        self.split = split
        self.n_jobs = n_jobs

    def neighbours(self, X: Any, n_listed: int | None = None) -> Neighbours:
        """The labels of the nearest training samples of every sample, ready to certify, to keep or to send.

        ``n_listed``: how many stand in the list; 2K by default, which is all that a certificate asks for.
        """
        return self._votes_of(self._heard(X, n_listed))

    def _heard(self, X: Any, n_listed: int | None = None) -> Heard:
        """Labels of the nearest voters in order, and whether a copy of each sample would come before all of them."""
        test = self._describe_test(X)
        most = max(self.n_neighbors, n_listed or 2 * self.n_neighbors)
        with at_most_threads(self.n_jobs):
            nearest = nearest_voters(self.voters_, test, most, one_per_owner=self._grouped)
        first = nearest.distances[:, 0] > 0
        return Heard(nearest.codes.astype(vote_dtype(len(self.classes_))), first & test.readable)

    def _votes_of(self, heard: Heard) -> Neighbours:
        """Neighbours as they were heard."""
        return Neighbours(
            heard.said,
            heard.own,
            int(self.n_neighbors),
            self._n_voters,
            self.classes_,
            contributors=self._grouped,
            classes_inferred=self.classes_inferred_,
            split=self.split_,
            rule=self._rule,
            premises=self._premises_in_use,
        )

    def certify(self, X: Any) -> Certificate:
        """Prediction, runner-up, margin and radius for every sample; docs/proofs/ballots.md has the proof."""
        certificate: Certificate = self.neighbours(X).certify()
        return certificate

    @property
    def _grouped(self) -> bool:
        return self.split_.kind == "group"

    @property
    def _n_voters(self) -> int:
        voters = self.voters_
        return len(np.unique(voters.owners)) if self._grouped else len(voters)

    def _scores(self, X: Any) -> NDArray[np.int64]:
        """Votes of each class among the K nearest; an array (n, classes)."""
        return self.neighbours(X, self.n_neighbors).scores()

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Share of each class among the votes; no probabilities."""
        votes = self._scores(X)
        return votes / votes.sum(axis=1, keepdims=True)

    def _check_parameters(self) -> None:
        """Refuse what the caller cannot mean, before anything is read."""
        count = self.n_neighbors
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise PoisonproofError(
                f"The 'n_neighbors' parameter must be a whole number above 0. Got {count!r} instead.",
                code="ballots.parameter",
            )

    def _warn_of(self, oddities: Sequence[str]) -> None:
        super()._warn_of(oddities)
        count = self._n_voters
        if count < self.n_neighbors:
            warn(
                f"There are fewer voters, {count}, than n_neighbors, {self.n_neighbors}: all of them vote about every "
                "sample, and the most frequent label always wins."
            )

    def _own_premises(self) -> list[Premise]:
        """Map and number of neighbours."""
        return [*super()._own_premises(), Premise("number-of-neighbors", self.n_neighbors, declared=True)]
