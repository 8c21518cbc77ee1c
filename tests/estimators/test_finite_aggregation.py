import pickle
import warnings
from decimal import Decimal

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from ensembles import FirstSeen, first_seen
from oracle import theorem_2
from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    PremiseWarning,
    Split,
    Spread,
)
from refused import refused

X, Y = make_blobs(240, centers=4, n_features=5, random_state=3, cluster_std=4.0)
TRAIN, TEST = slice(0, 180), slice(180, 240)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "number": np.where(RNG.random(240) < 0.1, np.nan, X[:, 0]),
        "text": np.array(["red", "green", "blue", "grey"])[np.where(RNG.random(240) < 0.2, RNG.integers(0, 4, 240), Y)],
        "category": pd.Categorical(np.array(["a", "b"])[Y % 2]),
    }
)


def model(estimator=None, **options):
    return FiniteAggregationClassifier(estimator, **{"k": 6, "d": 3, **options})


def fitted(estimator=None, **options):
    return model(estimator, **options).fit(X[TRAIN], Y[TRAIN])


def test_certificate_is_that_of_the_votes_and_the_prediction_its_label():
    ensemble = fitted(GaussianNB(), classes=range(4))
    certificate = ensemble.certify(X[TEST])
    votes = ensemble.votes(X[TEST])
    table = ensemble.spread_.as_table()
    references = [theorem_2([int(v) for v in row], table, 4) for row in votes.matrix]
    assert certificate.radius.tolist() == [reference["radius"] for reference in references]
    assert ensemble.predict(X[TEST]).tolist() == certificate.labels.tolist()
    assert ensemble.score(X[TEST], Y[TEST]) == certificate.evaluate(Y[TEST]).clean_accuracy > 0.8
    shares = ensemble.predict_proba(X[TEST])
    assert np.allclose(shares.sum(axis=1), 1)
    assert (shares.argmax(axis=1) == certificate.prediction).all()
    assert certificate.radius.max() >= 2
    assert certificate.split == Split("content")
    assert ensemble.certify(X[TEST], "dpa-bound").method == "dpa-bound"


def test_each_member_sees_its_subset_in_canonical_order_and_nothing_else():
    """The slow path: every base classifier fitted by hand."""
    ensemble = fitted(DecisionTreeClassifier(max_features=2))
    split = Split("content")
    samples = split.samples(X[TRAIN])
    partition = split.partitions(samples, ensemble.spread_.n_partitions)
    hashes = samples.hashes()
    matrix = ensemble.votes(X[TEST]).matrix
    for i in range(ensemble.spread_.n_subsets):
        rows = [row for row in range(180) if partition[row] in ensemble.spread_.partitions_of(i)]
        rows.sort(key=lambda row: hashes[row])
        tree = DecisionTreeClassifier(max_features=2, random_state=i).fit(X[TRAIN][rows], Y[TRAIN][rows])
        assert matrix[:, i].tolist() == tree.predict(X[TEST]).tolist()
        assert ensemble.subset_sizes_[i] == len(rows)
    assert ensemble.partition_sizes_.sum() == 180


def test_a_learner_that_minds_the_order_of_its_rows_is_fed_them_by_their_content():
    ensemble = model(FirstSeen(), classes=range(4))
    expected = first_seen(X[TRAIN], Y[TRAIN], ensemble.fit(X[TRAIN], Y[TRAIN]).spread_, 60)
    assert len(np.unique(expected)) == 4
    assert np.array_equal(ensemble.votes(X[TEST]).matrix, expected)
    assert np.array_equal(ensemble.fit(X[TRAIN][::-1], Y[TRAIN][::-1]).votes(X[TEST]).matrix, expected)
    ensemble.update(remove=[3, 9], add=(X[TRAIN][[9, 3]], Y[TRAIN][[9, 3]]))
    ensemble.update(remove=range(100))
    kept = [*X[TRAIN][::-1][[row for row in range(180) if row not in (3, 9)]], *X[TRAIN][[9, 3]]][100:]
    codes = np.array([*Y[TRAIN][::-1][[row for row in range(180) if row not in (3, 9)]], *Y[TRAIN][[9, 3]]])[100:]
    assert np.array_equal(ensemble.votes(X[TEST]).matrix, first_seen(np.array(kept), codes, ensemble.spread_, 60))


class Global(ClassifierMixin, BaseEstimator):
    """Votes by the global generators, which the engine must seed per member and put back."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.choice_ = np.random.randint(len(self.classes_))
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.classes_[self.choice_])


def test_global_random_state_is_seeded_per_member_and_left_as_it_was():
    np.random.seed(5)
    expected = np.random.rand()
    np.random.seed(5)
    first = fitted(Global()).votes(X[TEST]).matrix
    assert np.random.rand() == expected
    np.random.seed(77)
    assert (fitted(Global()).votes(X[TEST]).matrix == first).all()
    assert len(set(first[0].tolist())) > 1


ESTIMATORS = [None, DecisionTreeClassifier(max_features=1), SGDClassifier(max_iter=20, tol=None)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_row_order_jobs_and_backends_change_no_vote(estimator):
    expected = fitted(estimator).votes(X[TEST]).matrix
    order = np.random.default_rng(1).permutation(180)
    assert (model(estimator).fit(X[TRAIN][order], Y[TRAIN][order]).votes(X[TEST]).matrix == expected).all()
    for backend in ("threading", "loky", *(["multiprocessing"] if estimator is None else [])):
        with joblib.parallel_config(backend, n_jobs=2):
            assert (fitted(estimator).votes(X[TEST]).matrix == expected).all()


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=str)
@pytest.mark.parametrize("label", [0, 99, -1])
def test_one_poisoned_row_moves_only_the_members_it_reaches(estimator, label):
    """Also with a label nobody has seen, which shifts every class code."""
    clean = fitted(estimator)
    poison = np.full((1, 5), 50.0)
    poisoned = model(estimator).fit(np.vstack([X[TRAIN], poison]), np.append(Y[TRAIN], label))
    partition = Split().partitions(Split().samples(poison), 18)[0]
    outside = np.setdiff1d(np.arange(18), clean.spread_.subsets_of(int(partition)))
    before, after = clean.votes(X[TEST]), poisoned.votes(X[TEST])
    assert (before.classes[before.matrix] == after.classes[after.matrix])[:, outside].all()


@pytest.mark.parametrize("estimator", [None, HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2)], ids=str)
def test_tables_with_texts_categories_and_missing_values(estimator):
    ensemble = model(estimator if estimator is None else make_pipeline(OneHot(), estimator))
    ensemble.fit(FRAME[TRAIN], Y[TRAIN])
    assert ensemble.score(FRAME[TEST], Y[TEST]) > 0.6
    assert ensemble.feature_names_in_.tolist() == ["number", "text", "category"]
    expected = ensemble.votes(FRAME[TEST]).matrix
    one_by_one = np.vstack([ensemble.votes(FRAME[i : i + 1]).matrix for i in range(180, 240)])
    assert (one_by_one == expected).all()
    assert any("category (chosen from this data)" in str(premise) for premise in ensemble.premises_)


class OneHot(BaseEstimator):
    """Encodes inside the subset, by its own values."""

    def fit(self, X, y=None):
        self.values_ = [sorted(set(X[name].dropna())) for name in X.columns]
        return self

    def transform(self, X):
        return np.column_stack(
            [X[name] == value for name, known in zip(X.columns, self.values_, strict=True) for value in known]
        )


@pytest.mark.parametrize(("column", "value"), [("number", "none"), ("text", 7), ("text", None), ("category", "a")])
def test_one_bad_cell_moves_only_the_members_it_reaches(column, value):
    clean = model().fit(FRAME[TRAIN], Y[TRAIN])
    poison = FRAME[:1].astype({column: object})
    poison[column] = [value]
    poison["category"] = pd.Categorical(poison["category"], categories=FRAME["category"].cat.categories)
    frame = pd.concat([FRAME[TRAIN], poison], ignore_index=True)
    poisoned = model().fit(frame, np.append(Y[TRAIN], 1))
    partition = Split().partitions(Split().samples(poison), 18)[0]
    outside = np.setdiff1d(np.arange(18), clean.spread_.subsets_of(int(partition)))
    assert (clean.votes(FRAME[TEST]).matrix == poisoned.votes(FRAME[TEST]).matrix)[:, outside].all()


def test_min_radius_answers_only_where_the_radius_is_large_enough():
    ensemble = fitted()
    certificate = ensemble.certify(X[TEST])
    largest = int(certificate.radius.max())
    answer = ensemble.predict(X[TEST], min_radius=largest)
    assert (np.ma.getmaskarray(answer) == (certificate.radius < largest)).all()
    assert 0 < answer.count() < 60
    assert (answer.compressed() == certificate.labels[certificate.radius >= largest]).all()
    assert ensemble.predict(X[TEST], min_radius=0).count() == 60


def test_contributors():
    groups = np.arange(180) // 6
    ensemble = model(split="group").fit(X[TRAIN], Y[TRAIN], groups=groups)
    certificate = ensemble.certify(X[TEST])
    assert certificate.unit == "contributors"
    assert (certificate.radius_against("modify") == certificate.radius).all()
    with refused("split.groups"):
        model(split="group").fit(X[TRAIN], Y[TRAIN])


def test_declared_classes_drop_other_labels_one_by_one():
    with pytest.warns(
        PremiseWarning, match="training samples have a label that is not one of the classes and were left out"
    ):
        ensemble = model(classes=[0, 1, 2]).fit(X[TRAIN], Y[TRAIN])
    kept = Y[TRAIN] != 3
    assert ensemble.n_dropped_ == (~kept).sum()
    clean = model(classes=[2, 1, 0]).fit(X[TRAIN][kept], Y[TRAIN][kept])
    assert (clean.votes(X[TEST]).matrix == ensemble.votes(X[TEST]).matrix).all()
    assert not ensemble.votes(X[TEST]).classes_inferred
    assert fitted().votes(X[TEST]).classes_inferred
    with_unused = model(classes=range(6)).fit(X[TRAIN], Y[TRAIN])
    assert with_unused.predict_proba(X[TEST]).shape == (60, 6)


def test_classes_that_are_named_after_the_fit_are_not_declared(tmp_path):
    ensemble = model().fit(X[TRAIN], Y[TRAIN])
    before = ensemble.certify(X[TEST])
    ensemble.set_params(classes=[0, 1, 2, 3])
    after = ensemble.certify(X[TEST])
    assert before.classes_inferred
    assert after.classes_inferred
    assert (before.radius == after.radius).all()
    assert before.premises == after.premises
    ensemble.save(tmp_path / "kept")
    assert FiniteAggregationClassifier.load(tmp_path / "kept").votes(X[TEST]).classes_inferred


def test_more_subsets_than_samples_works_and_says_so():
    with pytest.warns(PremiseWarning, match=r"\d+ of 800 subsets are empty, so their base classifiers abstain"):
        ensemble = FiniteAggregationClassifier().fit(X[:20], Y[:20])
    votes = ensemble.votes(X[TEST])
    empty = ensemble.subset_sizes_ == 0
    assert (votes.matrix[:, empty] == len(votes.classes)).all()
    assert empty.sum() > 100
    assert ensemble.certify(X[TEST]).radius.min() >= 0


class Fragile(GaussianNB):
    """Cannot stand large values."""

    def fit(self, X, y):
        if np.abs(X).max() > 1e3:
            raise RuntimeError("too large")
        return super().fit(X, y)


def test_a_member_that_raises_says_its_most_frequent_class_and_is_reported():
    poisoned = np.vstack([X[TRAIN], np.full((1, 5), 1e6)])
    labels = np.append(Y[TRAIN], 1)
    with pytest.warns(
        PremiseWarning, match="3 of 18 base classifiers raised .* the first said: RuntimeError: too large"
    ):
        ensemble = model(Fragile()).fit(poisoned, labels)
    failed = [member for member in ensemble.members_ if member.failure]
    assert [member.index for member in failed] == ensemble.spread_.subsets_of(
        int(Split().partitions(Split().samples(poisoned[-1:]), 18)[0])
    ).tolist()
    matrix = ensemble.votes(X[TEST]).matrix
    for member in failed:
        assert set(matrix[:, member.index]) == {member.fallback}
    clean = fitted(Fragile()).votes(X[TEST]).matrix
    sound = [member.index for member in ensemble.members_ if not member.failure]
    assert (clean[:, sound] == matrix[:, sound]).all()


class Broken(GaussianNB):
    def fit(self, X, y):
        raise RuntimeError("I never work")


class Failing(GaussianNB):
    """Raises what is no property of its subset."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error

    def fit(self, X, y):
        raise self.error("not here")


@pytest.mark.parametrize("error", [MemoryError, TimeoutError])
def test_what_is_not_the_subsets_fault_is_passed_on(error):
    with pytest.raises(error, match="not here"):
        fitted(Failing(error))


class Picky(GaussianNB):
    """Raises on some test samples; the vote on a sample must not depend on its neighbours."""

    def predict(self, X):
        if (np.abs(X[:, 0] * 37 + self.theta_[0, 0] * 101) % 10 < 2).any() or (X > 1e5).any():
            raise RuntimeError("I do not like that sample")
        return super().predict(X)


def test_a_learner_that_always_raises_is_the_users_to_know():
    with refused("member.all-failed"):
        fitted(Broken())


def test_raising_on_one_test_sample_does_not_change_the_others_votes():
    ensemble = fitted(Picky())
    expected = ensemble.votes(X[TEST][:20]).matrix
    one_by_one = np.vstack([ensemble.votes(X[TEST][i : i + 1]).matrix for i in range(20)])
    assert (one_by_one == expected).all()
    with pytest.raises(
        ValueError,
        match=r"None of the 18 base classifiers could answer any of the 1 samples; .*I do not like that sample",
    ):
        ensemble.votes(np.full((1, 5), 1e6))
    with pytest.warns(PremiseWarning, match=r"could answer 1 of the 21 samples, sample 20 for one; .* most frequent"):
        among_others = ensemble.votes(np.vstack([X[TEST][:20], np.full((1, 5), 1e6)])).matrix
    assert (among_others[:20] == expected).all()
    assert among_others[20].tolist() == [member.fallback for member in ensemble.members_]


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_one_class_subsets_vote_for_it():
    ensemble = model(k=30, d=2).fit(X[:60], Y[:60])
    single = [member for member in ensemble.members_ if len(member.codes) == 1]
    assert single
    matrix = ensemble.votes(X[TEST]).matrix
    for member in single:
        assert set(matrix[:, member.index]) == {int(member.codes[0])}


def test_strings_as_labels():
    names = np.array(["ant", "bee", "cat", "dog"])
    ensemble = model().fit(X[TRAIN], names[Y[TRAIN]])
    assert ensemble.classes_.tolist() == names.tolist()
    assert (ensemble.votes(X[TEST]).matrix == fitted().votes(X[TEST]).matrix).all()
    assert set(ensemble.predict(X[TEST])) <= set(names)


def test_citizen_of_scikit_learn():
    search = GridSearchCV(model(DecisionTreeClassifier()), {"estimator__max_depth": [1, 3], "k": [2, 3]}, cv=2)
    search.fit(X[TRAIN], Y[TRAIN])
    assert search.best_params_["estimator__max_depth"] == 3
    pipe = make_pipeline(FunctionTransformer(), model())
    assert pipe.fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST]) > 0.8
    ensemble = clone(fitted())
    assert not hasattr(ensemble, "members_")
    again = pickle.loads(pickle.dumps(fitted()))
    assert (again.votes(X[TEST]).matrix == fitted().votes(X[TEST]).matrix).all()
    iris = load_iris(return_X_y=True)
    assert FiniteAggregationClassifier(k=3, d=2).fit(*iris).score(*iris) > 0.9


def test_a_spread_of_the_users_own():
    spread = Spread.from_table([[0, 1], [0, 1], [2, 3], [2, 3]])
    ensemble = FiniteAggregationClassifier(GaussianNB(), spread=spread).fit(X[TRAIN], Y[TRAIN])
    assert ensemble.votes(X[TEST]).spread == spread
    with refused("spread.two-ks"):
        FiniteAggregationClassifier(GaussianNB(), spread=spread, k=3).fit(X[TRAIN], Y[TRAIN])
    with refused("type"):
        FiniteAggregationClassifier(spread=4).fit(X[TRAIN], Y[TRAIN])


def test_missing_values_belong_inside_the_base_pipeline():
    holes = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    with refused("samples.not-finite"):
        model(LogisticRegression()).fit(np.where(np.arange(5) == 2, np.nan, X[TRAIN]), Y[TRAIN])
    with refused("member.all-failed"):
        model(LogisticRegression()).fit(FRAME[TRAIN], Y[TRAIN])
    imputing = make_pipeline(SimpleImputer(), GaussianNB())
    for estimator in (None, imputing, HistGradientBoostingClassifier(max_iter=2)):
        assert model(estimator).fit(holes[TRAIN], Y[TRAIN]).predict(holes[TEST]).shape == (60,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: model(k=0).fit(X, Y), "'k' parameter of a spread must be a whole number ≥ 1. Got 0"),
        (lambda: model(d=1.5).fit(X, Y), "'d' parameter"),
        (lambda: model(split="random").fit(X, Y), "'split' parameter must be one of"),
        (lambda: model(classes=[1]).fit(X, Y), "at least two labels"),
        (lambda: model(classes=["a", "b"]).fit(X, Y), "None of the 240 labels is one of the declared classes"),
        (lambda: model().fit(X, Y[:-1]), "240 samples but 239 labels"),
        (lambda: model().fit(X, None), "requires y"),
        (lambda: model().fit(X, X[:, 0]), "continuous"),
        (lambda: model().fit(X[:, 0], Y), "2D array"),
        (lambda: model(StandardScaler()).fit(X, Y), "must be a classifier"),
        (lambda: fitted().predict(X[:, :3]), "3 features"),
        (lambda: model(GaussianNB()).fit(X, Y).predict(np.full((2, 5), np.nan)), "contains NaN"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_is_said_when_nothing_is_odd():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted().certify(X[TEST])


def numbers_then_spam(n_extra):
    """Labels 9 and 10: as texts "10" would come first."""
    rng = np.random.default_rng(0)
    samples, labels = rng.normal(size=(200, 3)), rng.integers(9, 11, 200).tolist()
    return np.vstack([samples, np.ones((n_extra, 3))]), labels + ["spam"] * n_extra


@pytest.mark.parametrize("split", [Split(), Split(hash_labels=True)], ids=["content", "labels-hashed"])
def test_one_odd_label_does_not_retype_or_reorder_the_others(split):
    ensembles = [model(KNeighborsClassifier(2), split=split).fit(*numbers_then_spam(extra)) for extra in (0, 1)]
    samples, labels = numbers_then_spam(1)
    partition = int(split.partitions(split.samples(samples), 18, labels)[-1])
    outside = np.setdiff1d(np.arange(18), ensembles[0].spread_.subsets_of(partition))
    clean, poisoned = (ensemble.votes(samples[:100]) for ensemble in ensembles)
    assert (clean.classes.astype(object)[clean.matrix] == poisoned.classes.astype(object)[poisoned.matrix])[
        :, outside
    ].all()
    assert poisoned.classes.tolist() == [9, 10, "spam"]


@pytest.mark.parametrize("odd", [np.nan, 0.5, None, "spam", pd.NA, ["nested"], 1j, True], ids=repr)
@pytest.mark.parametrize("at", [0, 180])
@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_an_odd_label_among_declared_ones_is_left_out_by_itself(odd, at):
    labels = [label + 2 for label in Y[TRAIN].tolist()]
    clean = model(classes=range(2, 6)).fit(X[TRAIN], labels)
    labels.insert(at, odd)
    poisoned = model(classes=range(2, 6)).fit(np.insert(X[TRAIN], at, 7.0, axis=0), labels)
    assert poisoned.n_dropped_ == 1
    assert (clean.votes(X[TEST]).matrix == poisoned.votes(X[TEST]).matrix).all()


def test_text_labels_with_a_missing_one():
    names = np.array(["ant", "bee", "cat", "dog"])[Y[TRAIN]]
    for odd in (None, np.nan, 1):
        labels = pd.Series([*names, odd], dtype=object)
        with pytest.warns(PremiseWarning, match="1 training samples have (a|no) label"):
            model(classes=["ant", "bee", "cat", "dog"]).fit(np.vstack([X[TRAIN], X[:1]]), labels)
    with refused("labels.unknown"):
        model(classes=["Ant", "Bee"]).fit(X[TRAIN], names)
    with refused("classes.equal"):
        model(classes=[1, 1.0, 2]).fit(X[TRAIN], Y[TRAIN])


def test_samples_of_another_kind_at_prediction_are_brought_into_the_models_form():
    dense, sparse, table = (model().fit(Z, Y) for Z in (X, sp.csr_matrix(X), pd.DataFrame(X)))
    for Z in (X, X.tolist(), sp.csr_matrix(X), pd.DataFrame(X)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (dense.predict(Z) == dense.predict(X)).all()
            assert (sparse.predict(Z) == sparse.predict(sp.csr_matrix(X))).all()
            if not sp.issparse(Z):
                assert (table.predict(Z) == table.predict(pd.DataFrame(X))).all()
    with refused("samples.kind"):
        table.predict(sp.csr_matrix(X))
    mixed = model().fit(FRAME, Y)
    assert (mixed.predict(FRAME.to_numpy(dtype=object).tolist()) == mixed.predict(FRAME)).all()
    with refused("samples.kind"):
        mixed.predict(["a", 3.0, "b"])
    with refused("samples.kind"):
        dense.predict(["a text"])


class Spoils(GaussianNB):
    """Changes what it is fed."""

    def predict(self, X):
        X *= 0.5
        return super().predict(X)


def test_a_base_classifier_that_changes_its_input_changes_nobody_elses():
    ensemble = fitted(Spoils())
    matrix = ensemble.votes(X[TEST]).matrix
    for member in ensemble.members_:
        expected = member.codes[GaussianNB.predict(member.model, X[TEST] * 0.5)]
        assert (matrix[:, member.index] == expected).all()


def test_settings_of_the_caller_reach_no_vote():
    expected = fitted(LogisticRegression(max_iter=3)).votes(X[TEST]).matrix
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for n_jobs in (1, 2):
            assert (fitted(LogisticRegression(max_iter=3), n_jobs=n_jobs).votes(X[TEST]).matrix == expected).all()


def test_threads_share_no_random_state_and_no_linear_algebra_threads():
    expected = fitted(Global()).votes(X[TEST]).matrix
    with joblib.parallel_config("threading", n_jobs=4):
        assert (fitted(Global()).votes(X[TEST]).matrix == expected).all()
        seen = fitted(CountsThreads()).votes(X[TEST]).matrix
    assert (seen == fitted(CountsThreads()).votes(X[TEST]).matrix).all()


class CountsThreads(ClassifierMixin, BaseEstimator):
    """Votes by how many threads linear algebra may use; with one, it votes for the first class."""

    def fit(self, X, y):
        from threadpoolctl import threadpool_info

        self.classes_ = np.unique(y)
        self.most_ = max((library["num_threads"] for library in threadpool_info()), default=1)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[min(self.most_, len(self.classes_)) - 1])


@pytest.mark.parametrize("make", [lambda: model(classes=None), lambda: BallotClassifier(near=3.0)])
@pytest.mark.parametrize(
    ("odd", "name"), [("odd\ud800", "odd\ufffd"), (np.timedelta64(3, "s"), 3_000_000), (Decimal("10.5"), 10.5)]
)
def test_a_label_that_no_file_holds_can_be_kept(tmp_path, make, odd, name):
    """`save` raised: no UTF-8 holds half a surrogate, and JSON neither times nor decimals."""
    labels = [*map(str, Y[TRAIN]), odd]
    fitted = make().fit(np.vstack([X[TRAIN], X[:1]]), labels)
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert loaded.classes_[-1] == name
    assert fitted.certify(X[:5]).evaluate(labels[:5]).by_class(1)
    fitted.certify(X[:5]).save(tmp_path / "certificate.npz")


def test_update_names_inferred_classes_as_a_fresh_fit_does():
    spelled = [*Y[TRAIN].tolist()[:-6], "1", 1.0, "1", 2.0, 2.0, "2"]
    learner = GaussianNB()
    rows = [row for row, label in enumerate(spelled) if label == 1 and type(label) is int]
    for remove in (rows, rows[1:], [len(spelled) - 6, len(spelled) - 4]):
        fitted = FiniteAggregationClassifier(learner, k=4, d=2).fit(X[TRAIN], spelled)
        fitted.update(remove=remove)
        left = np.delete(np.arange(len(spelled)), remove)
        fresh = FiniteAggregationClassifier(learner, k=4, d=2).fit(X[TRAIN][left], [spelled[row] for row in left])
        assert list(map(repr, fitted.classes_.tolist())) == list(map(repr, fresh.classes_.tolist()))
        assert (fitted.subset_digests_ == fresh.subset_digests_).all()


def test_update_keeps_the_premise_that_somebody_else_typed_the_labels():
    series, numbers = pd.Series(Y[TRAIN]), Y[TRAIN].tolist()
    for labels, more in ((series, numbers[:1]), (numbers, series[:1])):
        fitted = FiniteAggregationClassifier(GaussianNB(), k=4, d=2, classes=range(10)).fit(X[TRAIN], labels)
        fitted.update(add=(X[:1], more))
        assert [premise.declared for premise in fitted.premises_ if premise.code == "label-types"] == [False]
