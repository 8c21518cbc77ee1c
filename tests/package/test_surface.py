"""What people see of the package: public names, what estimators and learners offer, and where to report what."""

import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import poisonproof
from poisonproof import registry

ROOT = Path(__file__).parents[2]
NEEDED = {
    *("FiniteAggregationClassifier", "Votes", "Spread", "Split", "Certificate", "certify", "certified_accuracy"),
    *("Premise", "PremiseWarning", "read", "run", "plan", "compare", "verify", "audit", "load", "Dataset"),
    *("ReadOptions", "preset", "TableClassifier", "TextClassifier", "KernelRidgeClassifier"),
    *("PoisonproofError", "DamagedFileError", "MissingExtraError", "WrongTypeError"),
}
# Beyond scikit-learn's own: what users call on a fitted model. `method` names the certificate.
SAVED = {"certify", "update", "save", "load"}
DRAWN = {"certify", "certify_matrix", "vote_matrix", "method"}
OFFERED = {
    "FiniteAggregationClassifier": {*SAVED, "votes"},
    "BallotClassifier": {*SAVED - {"update"}, "ballots", "method"},
    "NeighborVoteClassifier": {*SAVED - {"update"}, "neighbours", "method"},
    "InfiniteAggregationClassifier": DRAWN - {"method"},  # a parameter
    "CertifiedBaggingClassifier": DRAWN,
}
# Beyond scikit-learn's own: what training engines call on a learner; a user's own may offer it too.
CALLED = {
    "TableClassifier": {"answers_one_by_one", "takes_columns"},
    "TextClassifier": {"answers_one_by_one", "takes_columns", "takes_texts", "readings"},
    "KernelRidgeClassifier": {"share", "pool_of"},
    "TorchClassifier": {"answers_one_by_one"},
}
SCORES = {"predict_proba", "decision_function"}


def test_what_people_need_is_exported():
    assert set(poisonproof.__all__) >= NEEDED
    for name in poisonproof.__all__:
        assert getattr(poisonproof, name).__doc__, name


@pytest.mark.parametrize("name", OFFERED)
def test_an_estimator_offers_what_scikit_learn_users_expect_and_little_more(name):
    assert offered(getattr(poisonproof, name)) == OFFERED[name] | {"fit", "predict", "predict_proba"}


@pytest.mark.parametrize("name", CALLED)
def test_a_learner_offers_what_scikit_learn_users_expect_and_what_engines_call(name):
    assert offered(getattr(poisonproof, name)) - SCORES == CALLED[name] | {"fit", "predict"}


def test_the_surface_of_every_estimator_is_known():
    classes = (name for name in poisonproof.__all__ if inspect.isclass(getattr(poisonproof, name)))
    assert {name for name in classes if issubclass(getattr(poisonproof, name), BaseEstimator)} == {*OFFERED, *CALLED}


def offered(kind):
    """Public names that are not scikit-learn's, no parameters and nothing that was fitted."""
    public = {each for each in dir(kind) if not each.startswith("_") and not each.endswith("_")}
    public -= {*dir(BaseEstimator), *dir(ClassifierMixin), *inspect.signature(kind).parameters}
    return {each for each in public if not re.fullmatch(r"set_\w+_request", each)}


def test_presets_are_a_table():
    assert registry.names("learners") == [
        *("table", "text", "auto", "forest", "boosting", "bayes", "ridge", "glyphs", "head")
    ]


def test_a_wrong_radius_is_reported_by_its_own_way():
    words = (ROOT / "SECURITY.md").read_text("utf-8")
    assert "most serious bug" in words
    templates = {path.name: path.read_text("utf-8") for path in (ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()}
    assert set(templates) == {"bug.yml", "idea.yml", "config.yml"}
    assert "SECURITY.md" in templates["bug.yml"] + templates["config.yml"]
