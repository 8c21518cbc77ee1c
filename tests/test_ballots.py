"""Samples that vote: radii against brute force, exact nearness, one engine, estimators, files, updates."""

import math
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ballot_cases import FAMILIES, Verdict
from ballot_oracle import cut_slowly
from poisonproof import BallotClassifier, Certificate, NeighborVoteClassifier, PremiseWarning, Split, certify
from poisonproof.certificates.ballots import certify_counts
from poisonproof.certificates.contributors import cut
from poisonproof.maps.hashed import HashedFeatures
from poisonproof.maps.objects import ObjectFeatures
from poisonproof.maps.tables import TableFeatures
from poisonproof.votes import voters as engine
from poisonproof.votes.ballots import Ballots
from poisonproof.votes.nearness import FARTHEST, STEPS, Nearness, squared_lengths, write_distances
from poisonproof.votes.neighbours import Neighbours
from poisonproof.votes.voters import Described, Voters, count_cells, merged, nearest_voters

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
THREATS = ("insert_remove", "insert", "remove", "label_flip", "modify")


# Radii


@pytest.mark.parametrize(("family", "n_cases"), [(name, 60 if "contrib" in name else 250) for name in FAMILIES])
def test_no_attack_breaks_a_radius_and_exact_ones_are_exact(family, n_cases):
    verdict = Verdict()
    for seed in range(n_cases):
        FAMILIES[family](seed, verdict)
    assert verdict.checked >= n_cases
    assert verdict.broken == []
    assert verdict.loose_though_exact == []


def test_brute_force_would_see_a_radius_that_is_one_too_large():
    verdict = Verdict()
    verdict.compare(radius=2, attack=2, most=4, exact=True, what="too large")
    verdict.compare(radius=0, attack=3, most=4, exact=True, what="too small")
    verdict.compare(radius=2, attack=3, most=4, exact=True, what="right")
    assert verdict.broken == ["too large"]
    assert verdict.loose_though_exact == ["too small"]


def test_radii_of_a_worked_example():
    """MNIST in small: 10 near and 2 far samples of p = 0, 3 near and 9 far of class 1; F = 8 and −6."""
    radii = certify_counts(np.array([[10, 3]]), np.array([12, 12]), np.array([0, 0]), one_sided=False, inferred=False)
    assert [int(getattr(radii, threat)[0]) for threat in THREATS] == [14, 14, 14, 7, 7]
    declared = certify_counts(
        np.array([[10, 3]]), np.array([12, 12]), np.array([12, 30]), one_sided=False, inferred=False
    )
    assert (declared.prediction[0], declared.insert_remove[0]) == (1, 3)  # 20 against 24, and a tie goes to 0


@pytest.mark.parametrize("seed", range(40))
def test_voices_are_cut_by_largest_remainder(seed):
    random = np.random.default_rng(seed)
    ballots = random.integers(-9, 10, random.integers(1, 6))
    voices = int(random.integers(1, 8))
    expected = cut_slowly(ballots.tolist(), voices)
    given = ballots.copy()
    cut(given, voices)
    assert tuple(given.tolist()) == expected
    assert np.abs(given).sum() == min(voices, np.abs(ballots).sum())


# Nearness


def slow_distance(a, b, metric, mirrored):
    half = len(a) // 2
    twins = [b, np.concatenate([b[half:], b[:half]])] if mirrored else [b]
    products = [int(a @ twin) for twin in twins]
    left, right = int(a @ a), int(b @ b)
    if metric == "euclidean":
        return min(left + right - 2 * product for product in products)
    if left == 0 or right == 0:
        return FARTHEST
    product = max(products)
    whole = math.isqrt(product * product * STEPS * STEPS // (left * right))
    if product >= 0:
        return STEPS - whole
    return STEPS + whole + (whole * whole * left * right != product * product * STEPS * STEPS)


def odd_vectors(n, width, seed=0):
    """Small whole numbers with zeros, duplicates, multiples and opposites among them."""
    random = np.random.default_rng(seed)
    rows = random.integers(-60, 61, (n, width))
    rows[0], rows[1], rows[2], rows[3] = 0, rows[4], -rows[5], 2 * rows[6]
    rows[7] = 0
    rows[7, 0] = 4096
    return rows.astype(np.int16)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_distances_are_exact_by_matrices_and_by_rows(metric, mirrored, monkeypatch):
    rows = odd_vectors(40, 6)
    rows[7] = np.minimum(rows[7], 2048 if mirrored else 4096)
    nearness = Nearness(metric, mirrored)
    lengths, short = squared_lengths(rows, mirrored)
    assert short.all()
    expected = [[slow_distance(a, b, metric, mirrored) for b in rows.astype(object)] for a in rows.astype(object)]
    products = nearness.products(nearness.fed(rows), nearness.fed(rows))
    out = np.empty(products.shape, np.int32)
    write_distances(products, lengths, lengths, nearness.cosine, out)
    assert out.tolist() == expected
    assert (np.diag(out) == nearness.own(lengths)).all()
    codes, hashes = np.arange(40) % 3, np.random.default_rng(1).integers(0, 9, 40).astype(np.uint64)
    voters = Voters(rows, lengths, codes, hashes, np.zeros(40, np.int64), 40)
    for at_once in (1, 40):  # a few samples go by rows, many by matrices
        few = Described(rows[:at_once], lengths[:at_once], short[:at_once])
        nearest = nearest_voters(voters, few, nearness, 40)
        for t in range(at_once):
            order = sorted(range(40), key=lambda j: (expected[t][j], hashes[j], codes[j]))
            assert nearest.codes[t].tolist() == codes[order].tolist()
            assert nearest.distances[t].tolist() == [expected[t][j] for j in order]
    for limit in (0, 40, 5000, STEPS // 2):
        counted = count_cells(voters, codes, 3, Described(rows, lengths, short), nearness, limit)
        slow = [
            [sum(expected[t][j] <= limit and codes[j] == c for j in range(40)) for c in range(3)] for t in range(40)
        ]
        assert counted.tolist() == slow
    monkeypatch.setattr(engine, "NUMBERS_PER_BLOCK", 64 * 6)
    monkeypatch.setattr(engine, "TESTS_AT_ONCE", 7)
    monkeypatch.setattr(engine, "DISTANCE_BYTES", 1000)
    test = Described(rows, lengths, short)
    assert (
        count_cells(voters, codes, 3, test, nearness, 5000) == count_cells(voters, codes, 3, test, nearness, 5000)
    ).all()
    whole = nearest_voters(voters, test, nearness, 9)
    parts = [nearest_voters(voters.part(*part), test, nearness, 9) for part in ((0, 13), (13, 14), (14, 40))]
    for array, other in zip(whole, merged(parts, 9), strict=True):
        assert (array == other).all()


def test_a_threshold_is_exactly_what_was_declared():
    assert Nearness().limit(0.1, 10.0) == 1  # 0.1 as a float is a little more than a tenth
    assert Nearness().limit(0.3, 10.0) == 8  # and 0.3 a little less than three tenths
    assert Nearness().limit(2.0, 3) == 36
    assert Nearness("cosine").limit(1.0, 1) == 0
    assert Nearness("cosine").limit(0.5, 1) == STEPS // 2
    assert Nearness("cosine").limit(-1, 1) == 2 * STEPS


def test_the_nearest_sample_of_each_contributor():
    rows = np.array([[0], [1], [1], [5], [3]], np.int8)
    lengths = (rows.astype(np.int64) ** 2).ravel()
    voters = Voters(
        rows, lengths, np.array([0, 1, 0, 1, 1]), np.arange(5, dtype=np.uint64), np.array([2, 2, 0, 0, 4]), 5
    )
    test = Described(rows[:1], lengths[:1], np.ones(1, np.bool_))
    nearest = nearest_voters(voters, test, Nearness(), 9, one_per_owner=True)
    assert nearest.distances.tolist() == [[0, 1, 9]]
    assert nearest.codes.tolist() == [[0, 0, 1]]


# Estimators

TRAIN, TEST = slice(0, 1200), slice(1200, None)
MODELS = {
    "ballots": lambda **more: BallotClassifier(near=0.85, metric="cosine", **({"classes": range(10)} | more)),
    "sizes": lambda **more: BallotClassifier(near=1.9, class_sizes=dict.fromkeys(range(10), 120), **more),
    "one-sided": lambda **more: BallotClassifier(near=1.6, one_sided=True, **more),
    "neighbours": lambda **more: NeighborVoteClassifier(n_neighbors=15, **more),
    "cosine neighbours": lambda **more: NeighborVoteClassifier(n_neighbors=15, metric="cosine", **more),
}


def same(one: Certificate, other: Certificate):
    for name in ("prediction", "runner_up", "margin", "radius", "exact"):
        assert (getattr(one, name) == getattr(other, name)).all(), name
    for threat in THREATS:
        assert (one.radius_against(threat) == other.radius_against(threat)).all(), threat
    assert one.classes.tolist() == other.classes.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_estimators_learn_nothing_and_still_classify(name):
    model = MODELS[name]().fit(DIGITS[TRAIN], LABELS[TRAIN])
    certificate = model.certify(DIGITS[TEST])
    assert certificate.clean_accuracy(LABELS[TEST]) > 0.8
    assert (certificate.labels == model.predict(DIGITS[TEST])).all()
    assert certificate.labels.tolist() == model.classes_[model.predict_proba(DIGITS[TEST]).argmax(axis=1)].tolist()
    assert (model.predict(DIGITS[TEST], min_radius=5).mask == (certificate.radius < 5)).all()
    assert certificate.radius_against("insert_remove") is certificate.radius
    for threat in ("insert", "remove"):
        assert (certificate.radius_against(threat) >= certificate.radius).all()
    assert (certificate.radius_against("modify") <= certificate.radius).all()
    assert certificate.exact.any()
    assert certificate.unit == "training samples"
    assert "vote" in str(certificate)
    assert "vote" in certificate._repr_html_()
    assert "1200 training samples vote" in model._repr_html_()


def test_neighbours_agree_with_scikit_learn_where_there_are_no_ties():
    ours = NeighborVoteClassifier(n_neighbors=7, scale=16).fit(DIGITS[TRAIN], LABELS[TRAIN])  # digits are 16ths: exact
    theirs = KNeighborsClassifier(7, algorithm="brute").fit(DIGITS[TRAIN], LABELS[TRAIN])
    distances = theirs.kneighbors(DIGITS[TEST], 8)[0]
    clear = (distances[:, 7] - distances[:, 6] > 1e-9) & (np.sort(theirs.predict_proba(DIGITS[TEST]))[:, -1] > 0.5)
    assert clear.mean() > 0.9
    assert (ours.predict(DIGITS[TEST]) == theirs.predict(DIGITS[TEST]))[clear].all()


@pytest.mark.parametrize("name", MODELS)
def test_order_batch_and_company_do_not_matter(name):
    model = MODELS[name]().fit(DIGITS[TRAIN], LABELS[TRAIN])
    expected = model.certify(DIGITS[1200:1260])
    shuffled = np.random.default_rng(0).permutation(1200)
    same(expected, MODELS[name]().fit(DIGITS[shuffled], LABELS[shuffled]).certify(DIGITS[1200:1260]))
    alone = [int(model.certify(DIGITS[row : row + 1]).radius[0]) for row in range(1200, 1215)]
    assert alone == expected.radius[:15].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_update_gives_what_a_fit_would_give(name):
    """Rows leave and come, a class dies out and another appears; nothing of a removed row stays."""
    chosen = LABELS != 9
    X, y = DIGITS[chosen][:300], LABELS[chosen][:300]
    model = MODELS[name]().fit(X, y)
    keeping = np.flatnonzero((y != 4) & (np.arange(300) % 7 > 0))
    leaving = np.setdiff1d(np.arange(300), keeping)
    new_X, new_y = DIGITS[600:650], LABELS[600:650]
    change = model.update(add=(new_X, new_y), remove=leaving)
    assert (change.removed, change.added) == (len(leaving), 50)
    X, y = np.concatenate([X[keeping], new_X]), np.concatenate([y[keeping], new_y])
    fresh = MODELS[name]().fit(X, y)
    same(model.certify(DIGITS[TEST]), fresh.certify(DIGITS[TEST]))
    assert [str(p) for p in model.premises_] == [str(p) for p in fresh.premises_]
    model.update(remove=np.arange(len(y)) == 3)
    same(model.certify(DIGITS[TEST]), MODELS[name]().fit(np.delete(X, 3, 0), np.delete(y, 3)).certify(DIGITS[TEST]))
    assert len(model.voters_) == len(y) - 1
    assert not model.voters_.rows[len(y) - 1 :].any()
    with pytest.raises(ValueError, match="at least one training sample must stay"):
        model.update(remove=np.arange(len(y) - 1))
    assert len(model.voters_) == len(y) - 1
    with pytest.raises(ValueError, match="'remove' must hold row numbers"):
        model.update(remove=[len(y)])


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_serve_again_and_can_be_updated(name, tmp_path):
    model = MODELS[name]().fit(DIGITS[TRAIN], LABELS[TRAIN])
    model.save(tmp_path / "model")
    opened = type(model).load(tmp_path / "model")
    same(model.certify(DIGITS[TEST]), opened.certify(DIGITS[TEST]))
    assert [str(p) for p in opened.premises_] == [str(p) for p in model.premises_]
    for one in (model, opened):
        one.update(add=(DIGITS[1200:1203], LABELS[1200:1203]), remove=[0, 5])
    same(model.certify(DIGITS[TEST]), opened.certify(DIGITS[TEST]))
    assert "pickle" not in " ".join(path.suffix for path in (tmp_path / "model").iterdir())


def test_altered_models_and_other_types_are_refused(tmp_path):
    MODELS["ballots"]().fit(DIGITS[TRAIN], LABELS[TRAIN]).save(tmp_path)
    with pytest.raises(ValueError, match=r"load it with BallotClassifier\.load"):
        NeighborVoteClassifier.load(tmp_path)
    voters = tmp_path / "voters.npz"
    body = bytearray(voters.read_bytes())
    body[len(body) // 2] ^= 1
    voters.write_bytes(body)
    with pytest.raises(ValueError, match="altered"):
        BallotClassifier.load(tmp_path)


def rounded(X):
    """A user's own map."""
    return np.asarray(X) * 2.0


def test_a_map_of_the_users_own_must_be_vouched_for(tmp_path):
    model = BallotClassifier(rounded, near=3.8, classes=range(10)).fit(DIGITS[TRAIN], LABELS[TRAIN])
    model.save(tmp_path)
    with pytest.raises(ValueError, match=r"not known to be safe: .*rounded"):
        BallotClassifier.load(tmp_path)
    opened = BallotClassifier.load(tmp_path, trusted=[f"{__name__}.rounded"])
    same(model.certify(DIGITS[TEST]), opened.certify(DIGITS[TEST]))


@pytest.mark.parametrize("name", ["ballots", "neighbours"])
def test_counts_can_be_kept_and_certified_by_somebody_else(name, tmp_path):
    model = MODELS[name]().fit(DIGITS[TRAIN], LABELS[TRAIN])
    kept = model.ballots(DIGITS[TEST]) if name == "ballots" else model.neighbours(DIGITS[TEST])
    kept.save(tmp_path / "counts.npz")
    expected = model.certify(DIGITS[TEST])
    same(expected, certify(type(kept).load(tmp_path / "counts.npz")))
    expected.save(tmp_path / "certificate.npz")
    opened = Certificate.load(tmp_path / "certificate.npz")
    same(expected, opened)
    assert opened.election == expected.election
    assert opened.method == name


def test_counts_that_cannot_be_are_refused():
    whole = {"totals": np.array([2, 2]), "sizes": np.zeros(2, np.int64), "classes": np.arange(2)}
    self_near = np.ones(1, np.bool_)
    with pytest.raises(ValueError, match="must count from 0 to the samples there are"):
        Ballots(np.array([[3, 0]]), **whole, self_near=self_near)
    with pytest.raises(ValueError, match="no class sizes unless classes are declared"):
        Ballots(
            np.array([[1, 0]]), **(whole | {"sizes": np.ones(2, np.int64)}), self_near=self_near, classes_inferred=True
        )
    with pytest.raises(ValueError, match="at least 3 neighbours in order"):
        Neighbours(np.zeros((1, 2), np.uint8), self_near, 3, 9, np.arange(2))


# Attackers who insert, remove and relabel real samples


@pytest.mark.parametrize("name", ["ballots", "sizes", "one-sided", "neighbours"])
def test_real_attacks_succeed_one_beyond_the_radius_and_never_within(name):
    X, y = DIGITS[:200], LABELS[:200]
    model = MODELS[name]().fit(X, y)
    certificate = model.certify(DIGITS[300:330])
    assert certificate.exact.all()
    turned = 0
    for t in range(30):
        x, r = DIGITS[300 + t : 301 + t], int(certificate.radius[t])
        rival, own = int(certificate.runner_up[t]), certificate.labels[t]
        label = -1 if rival == len(certificate.classes) else certificate.classes[rival]  # -1: invented, and first
        for size in sorted({0, r // 2, r, r + 1}):
            copies, labels = np.repeat(x, size, axis=0), np.full(size, label)
            attacked = MODELS[name]().fit(np.concatenate([X, copies]), np.concatenate([y, labels]))
            answer = attacked.predict(x)[0]
            assert answer == own or size > r, (t, size)
            turned += answer != own
    if name != "neighbours":  # there the best attack may need removals too
        assert turned == 30


# Contributors


def test_a_contributor_has_one_voice_however_much_it_sends():
    X, y, groups = DIGITS[:400], LABELS[:400], np.arange(400) % 80
    model = BallotClassifier(near=0.85, metric="cosine", classes=range(10), voices=2).fit(X, y, groups)
    x = DIGITS[1200:1240]
    certificate = model.certify(x)
    assert certificate.unit == "contributors"
    assert certificate.radius.max() > 0
    t = int(certificate.radius.argmax())
    rival = certificate.classes[certificate.runner_up[t]]
    flood = 300
    for n_malicious in (int(certificate.radius[t]), 0):
        ids = np.repeat([f"new {i}" for i in range(n_malicious)], flood)
        everybody = [*map(str, groups), *ids]
        copies = np.repeat(x[t : t + 1], len(ids), axis=0)
        attacked = clone(model).fit(np.concatenate([X, copies]), [*y, *[rival] * len(ids)], everybody)
        assert attacked.predict(x[t : t + 1]) == certificate.labels[t]
    samples = BallotClassifier(near=0.85, metric="cosine", classes=range(10)).fit(X, y).certify(x)
    assert not np.array_equal(samples.radius, certificate.radius)


@pytest.mark.parametrize("make", [MODELS["ballots"], MODELS["neighbours"]])
def test_contributors_are_updated_and_kept_too(make, tmp_path):
    X, y, groups = DIGITS[:200], LABELS[:200], [f"user {i % 40}" for i in range(200)]
    model = make().fit(X, y, groups)
    assert make().fit(X, y).certify(DIGITS[TEST]).unit == "training samples"
    leaving = [row for row in range(200) if row % 40 in (3, 4)]
    model.update(add=(DIGITS[200:210], LABELS[200:210], ["late"] * 10), remove=leaving)
    assert "user 3" not in model.contributors_
    keeping = np.setdiff1d(np.arange(210), leaving)
    everybody = [*groups, *["late"] * 10]
    fresh = make().fit(DIGITS[:210][keeping], LABELS[:210][keeping], [everybody[row] for row in keeping])
    same(model.certify(DIGITS[TEST]), fresh.certify(DIGITS[TEST]))
    model.save(tmp_path)
    opened = type(model).load(tmp_path)
    same(opened.certify(DIGITS[TEST]), fresh.certify(DIGITS[TEST]))
    assert opened.certify(DIGITS[1200:1201]).unit == "contributors"
    with pytest.raises(ValueError, match="for all training samples or for none"):
        model.update(add=(DIGITS[:1], LABELS[:1]))
    with pytest.raises(ValueError, match="needs groups"):
        make(split="group").fit(X, y)


# One row never stops everything


@pytest.mark.parametrize("make", [MODELS["ballots"], MODELS["neighbours"]])
def test_odd_rows_are_left_out_one_by_one(make):
    X, y = DIGITS[:60].astype(object), LABELS[:60].astype(object)
    X[3, 0], X[4, 1], y[5] = "what", np.inf, None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = make(classes=range(10)).fit(X, y)
    words = " ".join(str(one.message) for one in told if one.category is PremiseWarning)
    assert "1 training samples have a label that is not one of the classes and were left out" in words
    assert "1 cells are no numbers" in words
    assert model.n_dropped_ == 1
    assert len(model.predict(DIGITS[TEST])) == len(DIGITS[TEST])


def test_few_samples_and_one_class_are_answered():
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
        (lambda X: np.ones((len(X), 3 + int(X[0, 5] == DIGITS[512, 5] != DIGITS[0, 5]))), "as many for every sample"),
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
        ({"near": 1.2, "metric": "cosine"}, "from -1 to 1"),
        ({"near": 1, "metric": "manhattan"}, "'metric' parameter must be one of"),
        ({"near": 1, "class_sizes": {0: 3, 1: -1}}, "size of class 1 must be a whole number"),
        ({"near": 1, "class_sizes": {0: 3, 1: 4}, "classes": [0, 2]}, "keys of 'class_sizes' must be the classes"),
        ({"near": 1, "class_sizes": {0: 3, 1: 4}, "one_sided": True}, "need no class sizes"),
        ({"near": 1, "class_sizes": "guess"}, "must be sizes by label, or 'rows'"),
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
        with pytest.raises(ValueError, match="'n_neighbors' parameter must be a whole number above 0"):
            NeighborVoteClassifier(n_neighbors=count).fit(DIGITS[:20], LABELS[:20])


# Sizes and classes


def test_sizes_read_off_the_rows_are_the_one_sided_form():
    rows = BallotClassifier(near=1.6, class_sizes="rows").fit(DIGITS[TRAIN], LABELS[TRAIN])
    same(rows.certify(DIGITS[TEST]), MODELS["one-sided"]().fit(DIGITS[TRAIN], LABELS[TRAIN]).certify(DIGITS[TEST]))
    assert rows.certify(DIGITS[1200:1201]).method == "one-sided ballots"


def test_declared_sizes_are_a_premise_that_says_from_where():
    model = BallotClassifier(near=1.9, class_sizes={c: 100 + c for c in range(10)}, class_sizes_from="the paper")
    model.fit(DIGITS[TRAIN], LABELS[TRAIN])
    premises = {p.what: p for p in model.premises_}
    assert premises["class sizes"].value.startswith("0: 100, 1: 101")
    assert premises["class sizes"].value.endswith("from the paper")
    assert premises["classes"].declared
    plain = {p.what: p.value for p in MODELS["ballots"]().fit(DIGITS[TRAIN], LABELS[TRAIN]).premises_}
    assert plain["class sizes"].startswith("none declared")
    assert plain["near"].startswith("cosine ≥ 0.85")


def test_inferred_classes_reckon_with_an_invented_one():
    strict = MODELS["one-sided"](classes=range(10)).fit(DIGITS[TRAIN], LABELS[TRAIN]).certify(DIGITS[TEST])
    loose = MODELS["one-sided"]().fit(DIGITS[TRAIN], LABELS[TRAIN]).certify(DIGITS[TEST])
    assert (loose.radius <= strict.radius).all()
    assert not loose.classes_inferred < strict.classes_inferred
    assert {p.what: p.declared for p in loose.premises}["classes"] is False


# Maps


def test_text_and_sparse_rows_are_hashed():
    texts = ["the cat sat on the mat", "cats and mats", "stocks fell today", "markets and stocks rose"] * 5
    labels = ["pets", "pets", "money", "money"] * 5
    model = NeighborVoteClassifier(n_neighbors=5, metric="cosine", classes=["pets", "money"]).fit(texts, labels)
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
    premise = {p.what: p for p in model.premises_}["map"]
    assert premise.declared
    assert "age in units of 10" in premise.value
    odd = pd.DataFrame({"age": ["n/a"], "job": ["never seen"], "id": [1]})
    assert model.certify(odd).radius.shape == (1,)
    assert model.predict(frame).tolist()[:2] == [0, 0]
    guessed = NeighborVoteClassifier(n_neighbors=5, classes=[0, 1]).fit(frame, labels)
    premise = {p.what: p for p in guessed.premises_}["map"]
    assert not premise.declared
    assert "from 40 these training samples" in premise.value
    trusted = TableFeatures.from_rows(frame[:10], trusted=True)
    model = NeighborVoteClassifier(trusted, n_neighbors=5, classes=[0, 1]).fit(frame, labels)
    assert {p.what: p for p in model.premises_}["map"].declared
    with pytest.raises(ValueError, match="'age' needs a unit above 0"):
        TableFeatures.declared({"age": 0})
    with pytest.raises(ValueError, match="could read no sample; it said: The table lacks the columns age"):
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


def test_the_mirror_image_of_a_sample_is_at_distance_zero():
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3)).astype(np.uint8)
    model = BallotClassifier(ObjectFeatures(), near=0.2, classes=[0, 1], split=Split(dtype="uint8")).fit(
        images, np.arange(12) % 2
    )
    ballots = model.ballots(images[:3, :, ::-1].copy())
    assert ballots.near.tolist() == [[1, 0], [0, 1], [1, 0]]


# Surroundings and workers


def test_a_search_and_a_scaler_in_front_are_seen():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(NeighborVoteClassifier(n_neighbors=3, classes=range(3)), {"n_neighbors": [3, 9]}, cv=3)
    best = search.fit(X, y).best_estimator_
    assert not {p.what: p.declared for p in best.premises_}["number of neighbours"]
    with pytest.warns(PremiseWarning, match="in front of the vote"):
        make_pipeline(StandardScaler(), MODELS["neighbours"]()).fit(X, y)


def test_dask_workers_count_shards(tmp_path):
    distributed = pytest.importorskip("distributed")
    expected = {name: make().fit(DIGITS[TRAIN], LABELS[TRAIN]).certify(DIGITS[TEST]) for name, make in MODELS.items()}
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)
        for name in ("ballots", "neighbours"):
            model = MODELS[name](n_jobs=2).fit(DIGITS[TRAIN], LABELS[TRAIN])
            same(model.certify(DIGITS[TEST]), expected[name])
