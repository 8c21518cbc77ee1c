"""Pooled learners: together or alone, in any block, batch or thread, the same votes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.kernel_ridge import KernelRidge

import poisonproof.learners.kernel_ridge as kernel_ridge
import poisonproof.training.pooled as pooled
from poisonproof import FiniteAggregationClassifier, Split, check_estimator_purity
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import GlyphFeatures, VectorFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier, squared_lengths
from poisonproof.learners.presets import preset
from poisonproof.system.files import open_arrays, write_arrays
from poisonproof.system.threads import n_cores
from poisonproof.training.members import fit_member, vote_of
from poisonproof.training.pooled import (
    COEFFICIENTS,
    FEATURES,
    POOL,
    load_pooled,
    save_pooled,
)

DIGITS = load_digits()
IMAGES = (DIGITS.images[:500] * 15).astype(np.uint8)
LABELS = DIGITS.target[:500]
TRAIN, TEST = slice(0, 400), slice(400, 500)
WINE, KINDS = load_wine(return_X_y=True)
WINE = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)
LEARNER = {
    "glyphs": preset("glyphs"),
    "glyphs, 9 copies": KernelRidgeClassifier(GlyphFeatures(copies=9), gamma=2.0),
    "rbf": KernelRidgeClassifier(gamma=0.05),
    "laplace": KernelRidgeClassifier(VectorFeatures(unit=2.0), kernel="laplace", gamma=0.5),
    "linear": KernelRidgeClassifier(kernel="linear", ridge=1.0),
}


def data_for(name):
    if name.startswith("glyphs"):
        return IMAGES, LABELS, Split(dtype="uint8")
    return WINE, KINDS, Split()


def ensemble(name, **options):
    _, y, split = data_for(name)
    settings = {"k": 10, "d": 4, "split": split, "classes": np.unique(y)}
    return FiniteAggregationClassifier(LEARNER[name], **{**settings, **options})


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("name", LEARNER)
def test_pooled_votes_are_those_of_plain_fits(name):
    """Every seventh of 40 subsets fitted by itself, through the path of any scikit-learn classifier."""
    X, y, _ = data_for(name)
    model = ensemble(name)
    source = prepare(model, X, y).source
    matrix = model.fit(X, y).votes(X[:60]).matrix
    test = model.split_.samples(X[:60])
    for i in range(0, 40, 7):
        member = fit_member(LEARNER[name], i, source.subset(i))
        assert member.failure is None
        alone = vote_of(member, test.take(np.arange(60), member.form), 60, len(model.classes_))[0]
        assert matrix[:, i].tolist() == alone.tolist()
    assert model.score(X[:60], y[:60]) > 0.8


@pytest.mark.parametrize("name", LEARNER)
def test_blocks_batches_and_threads_change_no_vote(name, monkeypatch):
    X, y, _ = data_for(name)
    expected = ensemble(name).fit(X[:150], y[:150]).votes(X[:50]).matrix
    order = np.random.default_rng(0).permutation(150)
    monkeypatch.setattr(pooled, "KERNEL_BYTES", 1)
    monkeypatch.setattr(pooled, "SUBSETS_PER_TASK", 3)
    monkeypatch.setattr(kernel_ridge, "ROWS_PER_PRODUCT", 37)
    model = ensemble(name).fit(X[:150][order], y[:150][order])
    assert (model.votes(X[:50]).matrix == expected).all()
    assert (np.vstack([model.votes(X[i : i + 1]).matrix for i in range(50)]) == expected).all()
    for module in ("poisonproof.system.threads.n_cores",):
        monkeypatch.setattr(module, lambda: 1 + n_cores())
    assert (ensemble(name).fit(X[:150], y[:150]).votes(X[:50]).matrix == expected).all()


@pytest.mark.parametrize("name", ["glyphs", "rbf"])
def test_pooled_learners_pass_the_purity_check(name):
    X, y, _ = data_for(name)
    report = check_estimator_purity(LEARNER[name], np.asarray(X[:160], float), y[:160])
    assert report.pure, str(report)


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_empty_and_one_class_subsets():
    model = FiniteAggregationClassifier(LEARNER["rbf"], k=60, d=2, classes=[0, 1, 2]).fit(WINE[:90], KINDS[:90])
    plain = prepare(model, WINE[:90], KINDS[:90]).source
    votes = model.votes(WINE[90:])
    for i in range(120):
        held = np.unique(plain.codes[plain.rows(i)])
        if len(held) < 2:
            assert set(votes.matrix[:, i]) == {int(held[0]) if len(held) else len(votes.classes)}
    assert (model.subset_sizes_ == 0).any()
    assert 0 < model.members_.trained.sum() < 120


@pytest.mark.parametrize("kernel", ["rbf", "laplace", "linear"])
def test_kernel_ridge_is_kernel_ridge(kernel):
    """Against scikit-learn's, on the same rounded features."""
    learner = KernelRidgeClassifier(VectorFeatures(), kernel=kernel, gamma=0.1, ridge=0.3, balance=0.0)
    scores = learner.fit(WINE, KINDS).decision_function(WINE)
    rows = VectorFeatures()(WINE)[:, 0] / 64.0
    distance = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))
    gram = {"rbf": np.exp(-0.1 * distance**2), "laplace": np.exp(-0.1 * distance), "linear": rows @ rows.T}[kernel]
    other = KernelRidge(alpha=0.3, kernel="precomputed").fit(gram, np.eye(3)[KINDS]).predict(gram)
    assert np.allclose(scores, other, atol=5e-3)
    assert (learner.predict(WINE) == other.argmax(axis=1)).mean() > 0.99


def test_balance_gives_rare_classes_more_weight():
    rare = np.flatnonzero((KINDS != 2) | (np.arange(len(KINDS)) % 12 == 0))
    found = [
        (
            KernelRidgeClassifier(gamma=0.02, ridge=2.0, balance=balance).fit(WINE[rare], KINDS[rare]).predict(WINE)
            == 2
        ).sum()
        for balance in (0.0, 1.0)
    ]
    assert found[1] > found[0]


@pytest.mark.parametrize("copies", [1, 3, 9])
def test_glyph_features_are_a_function_of_one_image(copies):
    features = GlyphFeatures(copies=copies)
    together = features(IMAGES[:40], training=True)
    assert together.shape == (40, copies, features.n_features)
    assert together.dtype == np.int8
    alone = np.concatenate([features(IMAGES[i : i + 1], training=True) for i in range(40)])
    assert (alone == together).all()
    assert (features(IMAGES[:40])[:, 0] == together[:, 0]).all()
    assert (features(IMAGES[:40, :, :, None], training=True) == together).all()
    lengths = np.sqrt(squared_lengths(together.reshape(-1, features.n_features)))
    assert np.allclose(lengths, 1024, rtol=0.02)


def test_glyph_features_forgive_place_size_and_slant():
    """The same stroke, moved and enlarged, keeps its features; another stroke does not."""
    y, x = np.mgrid[:40, :40]

    def ring(cy, cx, r):
        return (255 * np.exp(-(((np.hypot(y - cy, x - cx) - r) / 1.5) ** 2))).astype(np.uint8)

    bar = (255 * np.exp(-(((x - 20) / 1.5) ** 2)) * (abs(y - 20) < 10)).astype(np.uint8)
    images = np.array([ring(20, 20, 8), ring(16, 22, 11), bar])
    first, second, third = GlyphFeatures()(images)[:, 0].astype(float) / 1024
    assert ((first - second) ** 2).sum() < 0.25 < ((first - third) ** 2).sum()
    assert not GlyphFeatures()(np.zeros((1, 28, 28), np.uint8)).any()


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize(("name", "options"), [("glyphs, 9 copies", {}), ("rbf", {"k": 60, "d": 2}), ("linear", {})])
def test_a_saved_pooled_model_votes_the_same_and_can_be_updated(name, options, tmp_path):
    X, y, _ = data_for(name)
    model = ensemble(name, **options).fit(X[:150], y[:150])
    model.save(tmp_path)
    back = FiniteAggregationClassifier.load(tmp_path)
    expected = model.votes(X[:60], rankings=True)
    assert (back.votes(X[:60], rankings=True).rankings == expected.rankings).all()
    assert back.certify(X[:60]).facts() == model.certify(X[:60]).facts()
    assert back.members_.trained.sum() == model.members_.trained.sum()
    again = back.update(remove=[3, 70], data=(X[:150], y[:150])).retrained
    assert again.tolist() == model.update(remove=[3, 70]).retrained.tolist()
    assert (back.votes(X[:60]).matrix == model.votes(X[:60]).matrix).all()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("samples", lambda a: a + np.uint32(160), "its samples do not fit"),
        ("sizes", lambda a: a[:-1], "is damaged"),
        ("sizes", lambda a: np.roll(a * np.uint32(2), 1), "do not fit"),
        ("codes", lambda a: a + np.uint32(9), "its codes do not fit"),
        ("n_codes", lambda a: a * np.uint32(0), "do not fit"),
        ("fallback", lambda a: a + 3, "its fallback do not fit"),
        ("fallback", lambda a: a - 9, "its fallback do not fit"),
        ("copies", lambda copies: copies + 1, "its samples do not fit"),
        ("copies", lambda copies: 0, "its copies do not fit"),
        (COEFFICIENTS, lambda a: a[:-3], "its coefficients do not fit"),
        (COEFFICIENTS, lambda a: a.astype(np.float64), "its coefficients do not fit"),
        (FEATURES, lambda a: a[:-1], "its samples do not fit"),
        (FEATURES, lambda a: a.astype(np.float32), "its features do not fit"),
        (FEATURES, lambda a: a[0], "its features do not fit"),
    ],
)
def test_forged_members_are_refused_whatever_their_digests(name, change, message, tmp_path):
    """Votes are read off arrays without looking at bounds, so opening looks at them."""
    model = ensemble("rbf", k=4, d=2).fit(WINE[:160], KINDS[:160])
    save_pooled(tmp_path, model.members_, model.subset_digests_)
    load_pooled(tmp_path, LEARNER["rbf"], 3)
    arrays, facts = open_arrays(tmp_path / POOL)
    if name in arrays:
        write_arrays(tmp_path / POOL, {**arrays, name: change(arrays[name])}, facts)
    elif name == "copies":
        write_arrays(tmp_path / POOL, arrays, {**facts, "copies": change(1)})
    else:
        np.save(tmp_path / name, change(np.load(tmp_path / name)))
    with pytest.raises(ValueError, match=message):
        load_pooled(tmp_path, LEARNER["rbf"], 3)


def test_extreme_and_missing_numbers_stay_numbers():
    rows = VectorFeatures()(np.array([[1e300, -1e300, np.nan, 0.3]]))
    assert rows.tolist() == [[[1000, -1000, 0, 19]]]


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, 15.0])
def test_one_row_of_extreme_values_stops_nobody(value):
    """Long rows are shortened by themselves: a radius would be worth little if one row could stop training."""
    X, y = np.random.default_rng(0).normal(size=(90, 40)), np.arange(90) % 3
    learner = KernelRidgeClassifier(gamma=0.05)
    model = FiniteAggregationClassifier(learner, k=5, d=2, classes=[0, 1, 2]).fit(X, y)
    poisoned = np.vstack([X, np.full((1, 40), value)])
    if np.isfinite(value):
        other = FiniteAggregationClassifier(learner, k=5, d=2, classes=[0, 1, 2]).fit(poisoned, [*y, 0])
        assert (other.votes(X).matrix != model.votes(X).matrix).any(axis=0).sum() <= 2
    rows = VectorFeatures()(poisoned)
    assert (rows[:-1] == VectorFeatures()(X)).all()
    assert 0.99 * 2**24 < squared_lengths(rows[-1:, 0])[0] <= 2**24
    assert len(set(rows[-1, 0].tolist())) == 1, "the direction stays"


def test_too_many_rows_for_one_solve_say_how_much_they_need(monkeypatch):
    monkeypatch.setattr(kernel_ridge, "MOST_ROWS", 100)
    with pytest.raises(MemoryError, match=r"178 rows \(1 copies of 178 samples\) needs .* [kMG]B; a larger k"):
        KernelRidgeClassifier().fit(WINE, KINDS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: preset("cats"), "There is no 'cats' among the learners"),
        (lambda: KernelRidgeClassifier(kernel="cubic").fit(WINE, KINDS), "'kernel' parameter must be one of"),
        (lambda: KernelRidgeClassifier(gamma=0).fit(WINE, KINDS), "'gamma' and 'ridge' must be positive"),
        (lambda: KernelRidgeClassifier(ridge=-1).fit(WINE, KINDS), "'gamma' and 'ridge' must be positive"),
        (lambda: KernelRidgeClassifier().fit(WINE, np.zeros(len(WINE), int)), "at least 2 classes"),
        (
            lambda: KernelRidgeClassifier(VectorFeatures(scale=9000, limit=9000)).fit(WINE, KINDS),
            "'limit' of vector features must be from 1 to 4095",
        ),
        (lambda: GlyphFeatures(copies=5)(IMAGES[:2]), r"must be in \[1, 3, 9\]. Got 5"),
        (lambda: GlyphFeatures()(IMAGES[0]), r"need grey images, \(n, height, width\)"),
        (lambda: GlyphFeatures()(np.zeros((2, 8, 8, 3), np.uint8)), r"Got shape \(2, 8, 8, 3\)"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
