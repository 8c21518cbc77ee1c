"""The ensemble that the files describe, on the data at hand. This part needs poisonproof: its learners made the votes.

What was kept is opened by poisonproof's safe loader: no pickle, and no types that nobody vouched for.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.core.votes import labels_from_json
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.prepared import Prepared, prepare
from poisonproof.learners.inspection import describe
from poisonproof.learners.presets import preset
from poisonproof.premises import PremiseWarning
from poisonproof.samples.kinds import Samples
from poisonproof.system.machine import environment
from poisonproof.training.member_files import ESTIMATOR, UntrustedTypesError, load_state, types_of
from poisonproof.verification.checks import NO_DATA
from poisonproof.verification.evidence import MODEL, Evidence
from poisonproof.verification.records import same
from poisonproof.verification.verdict import NotCheckedError, NotTrueError


class Ensemble:
    """Learner, training data in subsets and test samples, each made once. ``estimator`` is the learner, if given."""

    def __init__(self, evidence: Evidence, data: Any, groups: Any, estimator: Any) -> None:
        if data is None:
            raise NotCheckedError(NO_DATA)
        if evidence.facts["split"] is None:
            raise NotCheckedError("the certificate does not say how the training data were split.")
        self.evidence, self.data, self.groups, self.estimator = evidence, data, groups, estimator

    @cached_property
    def models(self) -> Path:
        """The folder of the kept base classifiers."""
        if self.evidence.folder is None or self.evidence.model is None:
            raise NotCheckedError("no base classifiers were kept.")
        return self.evidence.folder / "models"

    @cached_property
    def trusted(self) -> list[str]:
        """Types that whoever gave the learner vouches for."""
        return [] if self.estimator is None else types_of(self.estimator)

    @property
    def stated(self) -> str | None:
        """The learner in the words of the files."""
        origin = self.evidence.facts.get("origin") or {}
        return self.evidence.settings.get("learner") or origin.get("learner")

    @cached_property
    def kept_learner(self) -> Any:
        """The learner that was kept with the base classifiers; it must be the one that is stated."""
        try:
            kept = load_state(self.models / ESTIMATOR, self.trusted)
        except (UntrustedTypesError, ImportError) as error:
            raise NotCheckedError(f"{error} Or give estimator=.") from None
        if describe(kept) != self.stated:
            raise NotTrueError(f"the learner that was kept is {describe(kept)}, but the files state {self.stated}.")
        return kept

    @cached_property
    def learner(self) -> Any:
        """The learner that the files describe: the one given, a preset, or the one that was kept."""
        if self.estimator is not None:
            if self.stated is not None and describe(self.estimator) != self.stated:
                raise NotTrueError(
                    f"the learner at hand is {describe(self.estimator)}, but the files state {self.stated}."
                )
            return self.estimator
        for name in registry.names("learners"):
            if describe(preset(name)) == self.stated:
                return preset(name)
        if self.evidence.model is not None:
            return self.kept_learner
        raise NotCheckedError(
            f"the learner {self.stated or '(none stated)'} is no preset and was not kept; give estimator=."
        )

    @cached_property
    def model(self) -> FiniteAggregationClassifier:
        """The classifier, not fitted."""
        facts = self.evidence.facts
        return FiniteAggregationClassifier(
            self.learner,
            spread=Spread.from_dict(facts["spread"]),
            split=Split.from_dict(facts["split"]),
            classes=None if facts["classes_inferred"] else labels_from_json(facts["classes"]).tolist(),
            trusted_state=True,  # the learner is the one that the files describe, with fitted parts and their digests
        )

    @cached_property
    def prepared(self) -> Prepared:
        """The training data in its subsets."""
        if self.evidence.facts["split"]["kind"] == "group" and self.groups is None:
            raise NotCheckedError("the split is by contributor; give groups=.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            prepared = prepare(self.model, self.data.train.X, self.data.train.labels, self.groups)
        if prepared.classes.tolist() != labels_from_json(self.evidence.facts["classes"]).tolist():
            raise NotTrueError("the training labels at hand give other classes.")
        return prepared

    @cached_property
    def test(self) -> Samples:
        """The test samples at hand, as many as the votes are about."""
        samples = Split.from_dict(self.evidence.facts["split"]).samples(self.data.test.X)
        if len(samples) != self.evidence.n_test:
            raise NotTrueError(f"the data hold {len(samples)} test samples, but the votes {self.evidence.n_test}.")
        return samples

    def model_record(self) -> str:
        """What models/model.json says of the training data follows from the data at hand."""
        if self.evidence.model is None:
            raise NotCheckedError("no base classifiers were kept.")
        prepared, record = self.prepared, self.evidence.model
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
                raise NotTrueError(f"{MODEL}: {name} is not what the data at hand give.")
        return f"subset digests and {len(right) - 1} other statements follow from the data."

    def other_environment(self) -> str:
        """How the run's environment differs from this one, which may be why votes do."""
        manifest, origin = self.evidence.manifest or {}, self.evidence.facts.get("origin") or {}
        stated = [manifest.get("environment") or origin.get("environment") or {}, *manifest.get("environments", ())]
        here = environment()
        differing = (
            f"{name} ({value} there, {here.get(name)} here)"
            for recorded in stated
            for name, value in recorded.items()
            if here.get(name) != value
        )
        moved = list(dict.fromkeys(differing))
        return (
            f"; the votes were made with another {', '.join(moved)}, which may be why: repeat this there"
            if moved
            else ""
        )
