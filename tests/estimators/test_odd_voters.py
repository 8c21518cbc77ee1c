"""Samples that vote: odd rows cost only themselves, odd parameters are refused; sizes, classes, maps."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    KernelRidgeClassifier,
    NeighborVoteClassifier,
    PremiseWarning,
    Split,
    encoder,
)
from poisonproof.ballots.maps import HashedFeatures, TableFeatures
from poisonproof.ballots.voters import Map
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.samples.convert import to_samples
from refused import refused
from sample_voters import DIGITS, LABELS, MODELS, TEST, TRAIN, same

# One row never stops everything


@pytest.mark.parametrize("make", [MODELS["ballots"], MODELS["neighbours"]])
def test_odd_rows_are_left_out_one_by_one(make):
    X, y = DIGITS[:60].astype(object), LABELS[:60].astype(object)
    X[3, 0], X[4, 1], y[5] = "what", np.inf, None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = make(classes=range(10)).fit(X, y)
    words = " ".join(str(one.message) for one in told if one.category is PremiseWarning)
    assert "1 training samples have no label (it is missing" in words
    assert "1 cells are no numbers" in words
    assert model.n_dropped_ == 1
    assert len(model.predict(DIGITS[TEST])) == len(DIGITS[TEST])


def test_few_samples_and_one_class_are_answered():
    with pytest.warns(PremiseWarning, match=r"fewer voters, 3, than n_neighbors, 50"):
        few = NeighborVoteClassifier(n_neighbors=50, classes=range(10)).fit(DIGITS[:3], LABELS[:3])
    assert few.certify(DIGITS[TEST]).radius.max() <= 3
    one = BallotClassifier(near=9.0).fit(DIGITS[:5], np.zeros(5))
    certificate = one.certify(DIGITS[5:7])
    assert certificate.radius.tolist() == [4, 4]
    assert certificate.runner_up.tolist() == [1, 1]  # a class that nobody has shown


def failing(X):
    """A map that cannot read some rows: it raises on one and gives NaN for another."""
    X = np.asarray(X)
    if (X[:, 0] == 7).any():
        raise RuntimeError("sevens")
    return np.where(X[:, :1] == 5, np.nan, X)


class LastBits:
    """A user's map whose whole numbers are the last bits of a matrix product: what company changes, it shows."""

    scale, copies, n_features = 8, 2, 6
    weights = np.random.default_rng(0).normal(size=(64, 6))

    def __call__(self, X, training=False):
        bits = np.ascontiguousarray(np.asarray(X, float).reshape(len(X), -1) @ self.weights).view(np.int64) % 7
        return np.repeat(bits[:, None].astype(np.int8), 2 if training else 1, axis=1)


class Derived(VectorFeatures):
    """Derived from a map of ours, whose mark is not its own."""

    def __call__(self, X, *, training=False):
        return LastBits()(X, training=training)


def vectors(features):
    if isinstance(features, KernelRidgeClassifier):
        pool = features.share(DIGITS[:2])
        return lambda X: pool.test_features(np.asarray(X))
    described = Map.of(features, 1.0, to_samples(DIGITS[:40]))
    return lambda X: described.describe(to_samples(X)).rows


@pytest.mark.parametrize(
    "features",
    [LastBits(), Derived(), lambda X: LastBits()(X), KernelRidgeClassifier(LastBits())],
    ids=["map", "derived", "function", "kernel ridge"],
)
def test_no_company_changes_what_a_users_map_says_of_a_sample(features):
    ask = vectors(features)
    expected = ask(DIGITS[:41])
    assert len(np.unique(expected)) > 3
    for rows in ([*range(40)], [*range(40, -1, -1)], [3], [5, 9, 11], [*range(41), 7]):
        assert np.array_equal(ask(DIGITS[rows]), expected[rows])


def test_a_map_of_ours_is_asked_at_once_wherever_its_file_lies(monkeypatch):
    asked = []
    plain = VectorFeatures.__call__
    monkeypatch.setattr(VectorFeatures, "__module__", "somewhere.else_now")
    monkeypatch.setattr(VectorFeatures, "__call__", lambda self, X: asked.append(len(X)) or plain(self, X))
    described = Map.of(VectorFeatures(), 1.0, to_samples(DIGITS[:40]))
    asked.clear()
    described.describe(to_samples(DIGITS[:40]))
    assert asked == [40]


def widths(X):
    """A function that gives one number more about bright samples, and a stranger's row is very bright."""
    return np.asarray(X)[:, : 9 if X[0].max() > 99 else 8] + 1.0


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_the_samples_with_the_smallest_hashes_say_how_many_numbers_a_function_gives():
    X, y = np.random.default_rng(0).normal(size=(80, 12)), np.arange(80) % 2
    X[::9, 0] = 100.0
    for model in (
        BallotClassifier(widths, near=9.0, classes=[0, 1]),
        NeighborVoteClassifier(encoder(widths), n_neighbors=9),
    ):
        fits = [
            model.fit(X[order], y[order]) and model.certify(X[:20]) for order in (slice(None), slice(None, None, -1))
        ]
        assert fits[0].facts() == fits[1].facts()
        (premise,) = [premise for premise in fits[0].premises if premise.code == "width-of-the-map"]
        assert premise.value.startswith("8 numbers, as 2")
        assert "of the 32 training samples with the smallest hashes have it" in premise.value
        assert not premise.declared
        assert len(model.voters_) == (71 if model.features is widths else 80)  # an encoder gives zeros instead
        assert model.certify(X[9:10]).radius.shape == (1,)


def test_a_row_that_the_map_cannot_read_costs_only_itself():
    X, y = DIGITS[:80].copy(), LABELS[:80]
    X[3, 0], X[4, 0] = 7, 5
    with pytest.warns(PremiseWarning, match="2 training samples cannot be read by the feature map and were left out"):
        model = NeighborVoteClassifier(failing, n_neighbors=5).fit(X, y)
    others = np.delete(np.arange(80), [3, 4])
    alone = NeighborVoteClassifier(failing, n_neighbors=5).fit(DIGITS[:80][others], y[others])
    same(model.certify(DIGITS[TEST]), alone.certify(DIGITS[TEST]))
    with pytest.warns(PremiseWarning, match="1 samples to be answered cannot be read"):
        certificate = model.certify(X[3:6:2])
    assert certificate.exact.tolist() == [False, False] or not certificate.exact[0]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (lambda X: np.full((len(X), 2), np.nan), "no usable numbers for any sample"),
        (lambda X: np.random.default_rng().normal(size=(len(X), 4)), "other numbers when it was asked"),
        (lambda X: np.ones(len(X)), "must give a row of numbers"),
        (lambda X: np.array([["a"]] * len(X)), "must give a row of numbers"),
        (object(), "must be a feature map"),
        (lambda X: np.full((len(X), 9), 10**6), "vectors longer than"),
    ],
)
def test_maps_that_are_none_are_refused(features, message):
    with pytest.raises(ValueError, match=message):
        BallotClassifier(features, near=1.0).fit(DIGITS, LABELS)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"near": -1}, "a number from 0 on"),
        ({"near": np.nan}, "a number from 0 on"),
        ({"near": None}, "a number from 0 on"),
        ({"near": 1, "class_sizes": {0: 3, 1: -1}}, "size of class 1 must be a whole number"),
        ({"near": 1, "class_sizes": {0: 3, 1: 4}, "classes": [0, 2]}, "keys of 'class_sizes' must be the classes"),
        ({"near": 1, "class_sizes": {0: 3, 1: 4}, "one_sided": True}, "need no class sizes"),
        ({"near": 1, "class_sizes": "rows"}, "must be sizes by label"),
        ({"near": 1, "class_sizes": [3, 4]}, "must be sizes by label"),
        ({"near": 1, "voices": 0}, "'voices' parameter must be a whole number above 0"),
        ({"near": 1, "scale": 0}, "'scale' parameter must be a number of steps"),
        ({"near": 1, "split": "pixel-sum"}, "it is 'content' or 'group'"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        BallotClassifier(**parameters).fit(DIGITS[:20], LABELS[:20])


def test_the_number_of_neighbours_is_checked():
    for count in (0, 2.5, True):
        with refused("ballots.parameter"):
            NeighborVoteClassifier(n_neighbors=count).fit(DIGITS[:20], LABELS[:20])


# Sizes and classes


def test_declared_sizes_are_a_premise_that_says_from_where():
    model = BallotClassifier(near=1.9, class_sizes={c: 100 + c for c in range(10)}, class_sizes_from="the paper")
    model.fit(DIGITS[TRAIN], LABELS[TRAIN])
    premises = {p.code: p for p in model.premises_}
    assert premises["class-sizes"].text.startswith("0: 100, 1: 101")
    assert premises["class-sizes"].text.endswith("from the paper")
    assert premises["classes"].declared
    plain = {p.code: p.text for p in MODELS["ballots"]().fit(DIGITS[TRAIN], LABELS[TRAIN]).premises_}
    assert plain["class-sizes"].startswith("none declared")
    assert plain["near"].startswith("distance ≤ 2")


def test_inferred_classes_reckon_with_an_invented_one():
    strict = MODELS["one-sided"](classes=range(10)).fit(DIGITS[TRAIN], LABELS[TRAIN]).certify(DIGITS[TEST])
    loose = MODELS["one-sided"]().fit(DIGITS[TRAIN], LABELS[TRAIN]).certify(DIGITS[TEST])
    assert (loose.radius <= strict.radius).all()
    assert not loose.classes_inferred < strict.classes_inferred
    assert {p.code: p.declared for p in loose.premises}["classes"] is False


# Maps


def test_text_and_sparse_rows_are_hashed():
    texts = ["the cat sat on the mat", "cats and mats", "stocks fell today", "markets and stocks rose"] * 5
    labels = ["pets", "pets", "money", "money"] * 5
    model = NeighborVoteClassifier(n_neighbors=5, classes=["pets", "money"]).fit(texts, labels)
    assert model.predict(["a cat on a mat", "stocks rose today"]).tolist() == ["pets", "money"]
    wide = sp.random(30, 5000, 0.02, random_state=0, format="csr")
    assert HashedFeatures()(wide).shape == (30, 1, 1024)
    assert HashedFeatures()(wide[:, :600]).shape == (30, 1, 600)
    assert (HashedFeatures()(wide)[7] == HashedFeatures()(wide[7])[0]).all()


def test_tables_have_units_and_categories():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"age": [20.0, 30.0, np.nan, 50.0] * 10, "job": ["clerk", "baker", None, "clerk"] * 10, "id": range(40)}
    )
    labels = [0, 0, 1, 1] * 10
    features = TableFeatures.declared({"age": 10, "job": "category"})
    given = features(frame)[:, 0].astype(int)
    assert given.shape == (40, 2 + 32)
    assert (given[:, 0] == np.array([128, 192, 0, 320] * 10)).all()
    assert (given[:, 1] > 0).tolist() == [False, False, True, False] * 10
    model = NeighborVoteClassifier(features, n_neighbors=5, classes=[0, 1]).fit(frame, labels)
    premise = {p.code: p for p in model.premises_}["map"]
    assert premise.declared
    assert "age in units of 10" in premise.value
    odd = pd.DataFrame({"age": ["n/a"], "job": ["never seen"], "id": [1]})
    assert model.certify(odd).radius.shape == (1,)
    assert model.predict(frame).tolist()[:2] == [0, 0]
    guessed = NeighborVoteClassifier(n_neighbors=5, classes=[0, 1]).fit(frame, labels)
    premise = {p.code: p for p in guessed.premises_}["map"]
    assert not premise.declared
    assert "from 40 these training samples" in premise.value
    trusted = TableFeatures.from_rows(frame[:10], trusted=True)
    model = NeighborVoteClassifier(trusted, n_neighbors=5, classes=[0, 1]).fit(frame, labels)
    assert {p.code: p for p in model.premises_}["map"].declared
    with refused("map.units"):
        TableFeatures.declared({"age": 0})
    with refused("map.output"):
        NeighborVoteClassifier(features, n_neighbors=5).fit(frame[["job", "id"]], labels)


def test_a_schema_says_how_cells_are_read():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": ["20", "30", "40", "50"] * 5, "job": ["a", "b", "a", "b"] * 5})
    split = Split(schema={"age": "number", "job": "category"})
    model = NeighborVoteClassifier(
        TableFeatures.declared({"age": 10, "job": "category"}), n_neighbors=3, classes=[0, 1], split=split
    ).fit(frame, [0, 0, 1, 1] * 5)
    assert model.map_.features(model.split_.samples(frame).take([0]))[0, 0, 0] == 128
    assert len(model.predict(frame[:3])) == 3


class Picky:
    """A user's map that states its width and has no answer, or an odd one, for some samples."""

    scale, n_features = 8, 64

    def __call__(self, X, *, training=False):
        rows = np.asarray(X, float)
        if rows[0, 0] == 7:
            raise RuntimeError("sevens")
        answer = rows[:, None, : 63 if rows[0, 0] == 6 else 64].astype(np.int64)
        return answer * 10**12 if rows[0, 0] == 5 else answer


@pytest.mark.parametrize("odd", [7, 6, 5])
def test_no_sample_stops_kernel_ridge_on_a_map_of_ones_own(odd):
    X, y = DIGITS[:120], LABELS[:120]  # whose first pixel is 0
    row = np.full((1, X.shape[1]), odd, float)
    model = FiniteAggregationClassifier(KernelRidgeClassifier(Picky()), k=6, d=2, classes=range(10))
    plain = model.fit(X, y).votes(X[:9]).matrix
    with_row = model.fit(np.vstack([X, row]), np.append(y, 3))
    fed = with_row.spread_.subsets_of(int(with_row.split_.partitions(with_row.split_.samples(row), 12)[0]))
    others = np.setdiff1d(np.arange(12), fed)
    assert (with_row.votes(X[:9]).matrix[:, others] == plain[:, others]).all()
    assert len(with_row.predict(np.vstack([X[:2], row]))) == 3


class Huge:
    """A user's map, of numbers that no product holds."""

    scale = 8

    def __call__(self, X, *, training=False):
        return np.full((len(X), 1, 4), 10**12)


def test_numbers_that_no_product_holds_are_refused():
    """They had wrapped around and were looked up far outside the table of kernel values."""
    with refused("map.too-long"):
        KernelRidgeClassifier(Huge()).fit(DIGITS[:9], LABELS[:9])
