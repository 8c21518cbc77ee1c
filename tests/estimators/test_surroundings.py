"""What stands around a fit: searches and pipelines are seen where they can be, and stated as premises."""

import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from drawn import binomial
from poisonproof import (
    BallotClassifier,
    CertifiedBaggingClassifier,
    FiniteAggregationClassifier,
    NeighborVoteClassifier,
    PremiseWarning,
    Split,
    Spread,
    check_pipeline,
)
from poisonproof.cli.run import EnsembleOptions
from poisonproof.learners.feature_maps import VectorFeatures
from refused import refused

X, Y = (part[:150] for part in load_digits(return_X_y=True))
OURS = FiniteAggregationClassifier(DecisionTreeClassifier(), k=3, d=1, classes=range(10))
NOTHING = "fitted before the split: nothing, as far as can be seen (by default)"


def stated(model):
    return {premise.code: str(premise) for premise in model.premises_}


GIVEN = {"classes": range(10), "split": Split("content", n_features=64)}
NOBODY_ASKED = {"fitted-before-the-split": None, "split": None}
OF_SAMPLES = {"fitted-before-the-split": None, "classes": True, "number-of-features": True, "map": None}
ORIGINS = {
    "defaults": (
        FiniteAggregationClassifier(),
        {**NOBODY_ASKED, "spread": None, "learner": None, "classes": False, "number-of-features": False},
    ),
    "those of the command line": (
        FiniteAggregationClassifier(GaussianNB(), k=EnsembleOptions.k, d=EnsembleOptions.d),
        {**NOBODY_ASKED, "spread": None, "learner": True, "classes": False, "number-of-features": False},
    ),
    "all given": (
        FiniteAggregationClassifier(GaussianNB(), k=5, d=2, **GIVEN),
        {**NOBODY_ASKED, "spread": True, "learner": True, "classes": True, "number-of-features": True},
    ),
    "another split": (
        FiniteAggregationClassifier(k=50, spread=Spread.random(50, 16, 1), split="pixel-sum"),
        {**NOBODY_ASKED, "spread": True, "split": True, "learner": None, "classes": False, "number-of-features": False},
    ),
    "neighbours": (NeighborVoteClassifier(n_neighbors=5, **GIVEN), {**OF_SAMPLES, "number-of-neighbors": True}),
    "ballots": (BallotClassifier(near=1, **GIVEN), {**OF_SAMPLES, "near": True, "class-sizes": None}),
    "a map and sizes": (
        BallotClassifier(VectorFeatures(unit=2.0), near=1, class_sizes=dict.fromkeys(range(10), 9)),
        {**OF_SAMPLES, "map": True, "near": True, "class-sizes": True, "number-of-features": False},
    ),
    "draws": (
        binomial(GaussianNB()),
        {
            "fitted-before-the-split": None,
            **{"draws": None, "seed": None, "learner": True},
            **dict.fromkeys(("classes", "number-of-features"), False),
        },
    ),
    "a seed": (
        CertifiedBaggingClassifier(GaussianNB(), subset_size=9, n_draws=30, seed=5, classes=range(10), n_features=64),
        {
            "fitted-before-the-split": None,
            **dict.fromkeys(("draws", "seed", "learner", "classes", "number-of-features"), True),
        },
    ),
}


@pytest.mark.parametrize("case", ORIGINS)
@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_nothing_is_called_declared_that_the_user_did_not_give(case):
    """Every premise that is printed, and whose word it is; what is not listed here fails too."""
    model, origins = ORIGINS[case]
    stated = {premise.code: premise.declared for premise in clone(model).fit(X, Y).premises_}
    assert stated == origins


@pytest.mark.parametrize(
    ("search", "best"),
    [
        (GridSearchCV(OURS, {"k": [2, 3]}, cv=2), lambda search: search.best_estimator_),
        (GridSearchCV(OURS, {"d": [1, 2]}, cv=2), lambda search: search.best_estimator_),
        (RandomizedSearchCV(OURS, {"k": [2, 3]}, n_iter=1, cv=2), lambda search: search.best_estimator_),
        (
            GridSearchCV(make_pipeline(Normalizer(), OURS), {"finiteaggregationclassifier__k": [2, 3]}, cv=2),
            lambda search: search.best_estimator_[-1],
        ),
        (
            make_pipeline(Normalizer(), GridSearchCV(OURS, {"k": [2, 3]}, cv=2)),
            lambda pipe: pipe[-1].best_estimator_,
        ),
    ],
    ids=["k", "d", "randomised", "over a pipeline", "in a pipeline"],
)
def test_what_a_search_chose_is_chosen_from_this_data(search, best):
    model = best(search.fit(X, Y))
    assert stated(model)["spread"].endswith("(chosen from this data)")
    assert stated(model)["learner"].endswith("(declared)")
    assert stated(model)["fitted-before-the-split"] == NOTHING
    model.update(remove=[0])
    assert stated(model)["spread"].endswith("(chosen from this data)")
    check_pipeline(search)


def test_a_learner_that_a_search_chose():
    search = GridSearchCV(OURS, {"estimator__max_depth": [1, 3]}, cv=2).fit(X, Y)
    assert stated(search.best_estimator_)["learner"].endswith("(chosen from this data)")
    assert stated(search.best_estimator_)["spread"].endswith("(declared)")
    again = search.best_estimator_.fit(X, Y)
    assert stated(again)["learner"].endswith("(declared)"), "outside the search it is the caller's word again"


def test_an_update_states_what_was_set_since_and_not_what_a_search_chose_then():
    model = GridSearchCV(OURS, {"k": [2, 3]}, cv=2).fit(X, Y).best_estimator_
    model.set_params(k=4, classes=[*range(10), "none"]).update(remove=[0])
    fresh = clone(model).fit(X[1:], Y[1:])
    assert stated(model) == stated(fresh)
    assert stated(model)["spread"].startswith("spread: k = 4, ")


def test_a_step_that_learns_before_us_is_told_of_and_stated():
    pipe = make_pipeline(StandardScaler(), OURS)
    with pytest.warns(PremiseWarning, match=r"step 'standardscaler' \(StandardScaler\) was fitted on all training"):
        pipe.fit(X, Y)
    said = stated(pipe[-1])["fitted-before-the-split"]
    assert said.endswith("(StandardScaler) was fitted on all training samples (chosen from this data)")
    pipe[-1].update(remove=[0])
    assert stated(pipe[-1])["fitted-before-the-split"] == said


def test_a_step_that_learns_is_seen_through_searches_and_pipelines():
    inner = Pipeline([("again", FunctionTransformer()), ("ours", OURS)])
    outer = make_pipeline(StandardScaler(), GridSearchCV(inner, {"ours__k": [2, 3]}, cv=2))
    with pytest.warns(PremiseWarning, match="step 'standardscaler'"):
        outer.fit(X, Y)
    model = outer[-1].best_estimator_[-1]
    assert "standardscaler" in stated(model)["fitted-before-the-split"]
    assert stated(model)["spread"].endswith("(chosen from this data)")


@pytest.mark.filterwarnings("error")
def test_pipelines_that_learn_nothing_are_silent():
    pipe = make_pipeline(Normalizer(), OURS).fit(X, Y)
    assert stated(pipe[-1])["fitted-before-the-split"] == NOTHING
    other = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    FiniteAggregationClassifier(other, k=3, d=1, classes=range(10)).fit(X, Y)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_a_search_is_checked_with_every_step_it_would_put_in():
    check_pipeline(GridSearchCV(OURS, {"k": [2, 3]}))
    check_pipeline(make_pipeline(Normalizer(), GridSearchCV(OURS, {"k": [2, 3]})))
    with refused("pipeline.leak"):
        check_pipeline(GridSearchCV(make_pipeline(StandardScaler(), OURS), {"finiteaggregationclassifier__k": [2]}))
    with refused("pipeline.leak"):
        check_pipeline(
            GridSearchCV(make_pipeline(Normalizer(), OURS), {"normalizer": [Normalizer(), StandardScaler()]})
        )
    with refused("type"):
        check_pipeline(GridSearchCV(GaussianNB(), {}))
    with refused("pipeline.memory"):
        check_pipeline(Pipeline([("n", Normalizer()), ("o", OURS)], memory="somewhere"))
    assert cross_val_score(OURS, X, Y, cv=2).shape == (2,)
