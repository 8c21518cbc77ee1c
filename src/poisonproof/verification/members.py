"""The saved base classifiers, asked again, and some trained again. This part needs poisonproof: its learners voted.

What was saved is opened by poisonproof's safe loader: no pickle, and no types that nobody vouched for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.votes import labels_from_json
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.prepared import Prepared, prepare
from poisonproof.learners.inspection import describe, fitted_parts, public_map_of
from poisonproof.learners.presets import preset
from poisonproof.premises import WIDTH, PremiseWarning
from poisonproof.samples.kinds import Samples
from poisonproof.system.archives import map_npy
from poisonproof.system.machine import environment
from poisonproof.system.progress import watched
from poisonproof.training.engine import Fitted, engine_named, engine_of, with_shared_texts
from poisonproof.training.model_files import ESTIMATOR, UntrustedTypesError, load_state, types_of
from poisonproof.training.pooled import FEATURES
from poisonproof.verification.checks import NOT_WANTED, premises_of, sample_rows
from poisonproof.verification.files import MODEL, RunFiles, same, short
from poisonproof.verification.verdict import CheckFailed, CheckSkipped, Finding, detection

if TYPE_CHECKING:
    from poisonproof.verification.ensemble import EnsembleChecks

ENCODED_ROWS = 20  # how many saved embeddings are computed again


class SavedEnsemble:
    """The ensemble that the files describe, on the data at hand; each part is made once."""

    def __init__(self, checks: EnsembleChecks) -> None:
        self.files, self.given = checks.files, checks.given
        self.checks, self.data = checks, checks.given.data
        if self.files.facts["split"] is None:
            raise CheckSkipped("the certificate does not say how the training data were split.")
        self.split = Split.from_dict(self.files.facts["split"])
        # Whoever gives a learner vouches for its types.
        self.trusted = [] if self.given.estimator is None else types_of(self.given.estimator)

    @cached_property
    def folder(self) -> Path:
        """Where the saved base classifiers are."""
        if self.files.folder is None or self.files.model is None:
            raise CheckSkipped("no base classifiers were kept.")
        return self.files.folder / "models"

    @property
    def stated(self) -> str | None:
        """The learner in the words of the files."""
        return self.files.settings.get("learner") or self.files.origin.get("learner")

    @cached_property
    def saved_learner(self) -> Any:
        """The learner that was saved with the base classifiers; it must be the one that is stated."""
        try:
            saved = load_state(self.folder / ESTIMATOR, self.trusted)
        except (UntrustedTypesError, ImportError) as error:
            raise CheckSkipped(f"{error} Or give estimator=.") from None
        if describe(saved) != self.stated:
            raise CheckFailed(f"the learner that was kept is {describe(saved)}, but the files state {self.stated}.")
        return saved

    @cached_property
    def learner(self) -> Any:
        """The learner that the files describe: the one given, a preset, or the one that was saved."""
        given = self.given.estimator
        if given is not None:
            if self.stated is not None and describe(given) != self.stated:
                raise CheckFailed(f"the learner at hand is {describe(given)}, but the files state {self.stated}.")
            return given
        for name in registry.names("learners"):
            if describe(preset(name)) == self.stated:
                return preset(name)
        if self.files.model is not None:
            return self.saved_learner
        raise CheckSkipped(
            f"the learner {self.stated or '(none stated)'} is no preset and was not kept; give estimator=."
        )

    @cached_property
    def prepared(self) -> Prepared:
        """The training data in its subsets."""
        facts, groups = self.files.facts, self.given.groups
        if self.split.kind == "group" and groups is None:
            raise CheckSkipped("the split is by contributor; give groups=.")
        classes = labels_from_json(facts["classes"]).tolist()
        model = FiniteAggregationClassifier(
            self.learner,
            spread=Spread.from_dict(facts["spread"]),
            split=self.split,
            classes=None if facts["classes_inferred"] else classes,
            trusted_state=True,  # the learner is the one that the files describe, with fitted parts and their digests
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            prepared = prepare(model, self.data.train.X, self.data.train.labels, groups)
        if prepared.classes.tolist() != classes:
            raise CheckFailed("the training labels at hand give other classes.")
        return prepared

    @cached_property
    def test(self) -> Samples:
        """The test samples at hand, as many as the votes are about."""
        samples = self.split.samples(self.data.test.X)
        if len(samples) != self.checks.n_test:
            raise CheckFailed(f"the data hold {len(samples)} test samples, but the votes {self.checks.n_test}.")
        return samples

    def check_record(self) -> str:
        """What models/model.json says of the training data follows from the data at hand."""
        if self.files.model is None:
            raise CheckSkipped("no base classifiers were kept.")
        prepared, record = self.prepared, self.files.model
        names = prepared.data.feature_names
        right = {
            "subset_digests": prepared.digests.tobytes().hex(),
            "feature_names": None if names is None else names.tolist(),
            "n_features_in_": prepared.data.n_features,
            "n_dropped_": prepared.n_dropped,
            "kind_of_samples_": prepared.data.samples.kind,
        }
        for name, value in right.items():
            if not same(record[name], value):
                raise CheckFailed(f"{MODEL}: {name} is not what the data at hand give.")
        return f"subset digests and {len(right) - 1} other statements follow from the data."

    def predict_again(self) -> Finding:
        """What every saved base classifier says of the test samples that are looked at, compared bit by bit."""
        if not self.given.ask:
            raise CheckSkipped(NOT_WANTED)
        checks, rows = self.checks, self.checks.rows
        n_test, n = checks.matrix.shape
        test = self.test if len(rows) == n_test else self.test.subset(rows)
        test = with_shared_texts(self.saved_learner, test, lambda: np.arange(len(rows)))
        asked, n_classes = 0, self.files.n_classes
        for members in self._members():
            columns = slice(asked, asked + len(members))
            if columns.stop > n:
                raise CheckFailed(f"more than {n} base classifiers were kept, but {n} vote.")
            self._compare("votes", members.ask(test, n_classes), checks.matrix[rows, columns], asked)
            if checks.rankings is not None:
                ranked = members.ask(test, n_classes, rankings=True)
                self._compare("rankings", ranked, checks.rankings[rows, columns], asked)
            asked = columns.stop
            self.given.progress(asked, n)
        if asked != n:
            raise CheckFailed(f"{asked} base classifiers were kept, but {n} vote.")
        words = f"the {n} kept base classifiers, asked about {checks.share()} test samples, vote as stated to the bit"
        return checks.finding(words, "rows of votes", "asked")

    def _members(self) -> Iterator[Fitted]:
        """The saved base classifiers, no more of them in memory than one file holds, each in its own place."""
        learner = self.saved_learner  # refused if it is not the learner that is stated
        record, first = self.files.model or {}, 0
        names = [name for name in record["files"] if name != ESTIMATOR]
        engine = engine_named(pooled=bool(record.get("pooled")))
        parts = engine.parts(self.folder, names, learner, self.files.n_classes, self.trusted)
        while True:
            try:
                members = next(parts, None)
            except (UntrustedTypesError, ImportError) as error:
                raise CheckSkipped(f"{error} Or give estimator=.") from None
            if members is None:
                return
            wrong = next((at for at, index in enumerate(members.indices, first) if index != at), None)
            if wrong is not None:
                raise CheckFailed(f"another base classifier stands in the place of number {wrong}.")
            yield members
            first += len(members)

    def _compare(self, name: str, answers: NDArray[Any], stated: NDArray[Any], first: int) -> None:
        wrong = _differing(answers, stated)
        at = np.flatnonzero(wrong)
        if len(at):
            raise CheckFailed(
                f"base classifier {first + at[0]} as kept, asked again, {'votes' if name == 'votes' else 'ranks'} "
                f"otherwise than the {name} state on {wrong[at[0]]} of {len(answers)} test samples; {len(at)} of "
                f"{len(wrong)} in its file do{other_environment(self.files)}."
            )

    def retrain(self) -> Finding:
        """Some base classifiers trained again on the data at hand: the only check that tells where votes come from."""
        if not self.given.retrain:
            raise CheckSkipped("retrain=R (--retrain) trains R base classifiers again.")
        checks, rankings = self.checks, self.checks.rankings
        n_test, n = checks.matrix.shape
        chosen = sample_rows(n, self.given.retrain, self.given.seed, 3).tolist()
        prepared = self.prepared
        with watched(self.given.progress):
            given = prepared.learner, prepared.source, chosen, self.test, self.files.n_classes
            votes = engine_of(prepared.learner).votes(*given, rankings=rankings is not None)
        differing = _differing(votes, (checks.matrix if rankings is None else rankings)[:, chosen])
        wrong = np.flatnonzero(differing)
        if len(wrong):
            raise CheckFailed(
                f"base classifier {chosen[wrong[0]]}, trained again, votes otherwise on {differing[wrong[0]]} of "
                f"{n_test} test samples; {len(wrong)} of {len(chosen)} do{other_environment(self.files)}."
            )
        chance = detection(n, len(chosen), "base classifiers")
        words = f"{len(chosen)} of {n} base classifiers, drawn at random and trained again, vote as stated to the bit"
        if fitted_parts(self.learner):
            words += " (with a part of the learner that was given fitted: what it was fitted on is the maker's word)"
        return Finding(f"{words}; {chance.words}.", {"base_classifiers": chosen, **chance.details})

    def check_encoder(self) -> str:
        """The encoder at hand is the one that the premises name, and its weights have the digest that they state.

        Of embeddings that were kept with base classifiers, some drawn at random are computed again, to the bit.
        """
        at_hand = None if public_map_of(self.learner) is None else public_map_of(self.prepared.data.learner)
        stated = [value for code, (value, _) in premises_of(self.files.facts).items() if code in ("encoder", WIDTH)]
        if at_hand is None:
            raise CheckFailed("the premises name an encoder, but the learner has none.")
        here = [premise.value for premise in at_hand.premises]
        if not same(here, stated):
            raise CheckFailed(f"the encoder at hand is {short(here)}, but the premises name {short(stated)}.")
        try:
            at_hand.runtime()
        except ImportError as error:
            raise CheckSkipped(str(error)) from None
        except PoisonproofError as error:
            raise CheckFailed(str(error)) from None
        digests = " and ".join(f"{digest[:16]}…" for digest in at_hand.weights.split(" and "))
        words = f"the weights have the SHA-256 on record, {digests}"
        kept = self.files.folder / "models" / FEATURES if self.files.folder else None
        if kept is None or not kept.exists():
            return f"{words}; no embeddings were kept."
        rows, samples = map_npy(kept), self.prepared.source.samples
        if len(rows) != len(samples):
            raise CheckFailed(f"{kept.name} holds {len(rows)} embeddings of {len(samples)} training samples.")
        chosen = np.sort(sample_rows(len(rows), min(ENCODED_ROWS, len(rows)), self.given.seed, 4))
        again = at_hand(samples.take(chosen))[:, 0]
        differing = int((again != rows[chosen]).any(axis=1).sum())
        if differing:
            raise CheckFailed(
                f"{differing} of {len(chosen)} training samples, encoded again, have other embeddings than "
                f"{kept.name}{other_environment(self.files)}."
            )
        return f"{words}; {len(chosen)} of {len(rows)} embeddings, drawn at random and computed again, are as kept."


def _differing(answers: NDArray[Any], stated: NDArray[Any]) -> NDArray[np.int64]:
    """For each base classifier, on how many test samples two answers differ."""
    return np.asarray((answers != stated).reshape(*answers.shape[:2], -1).any(axis=2).sum(axis=0))


def other_environment(files: RunFiles) -> str:
    """How the run's environment differs from this one, which may be why votes do."""
    manifest = files.manifest or {}
    stated = [manifest.get("environment") or files.origin.get("environment") or {}, *manifest.get("environments", ())]
    here = environment()
    differing = dict.fromkeys(
        f"{name} ({value} there, {here.get(name)} here)"
        for recorded in stated
        for name, value in recorded.items()
        if here.get(name) != value
    )
    if not differing:
        return ""
    return f"; the votes were made with another {', '.join(differing)}, which may be why: repeat this there"
