"""Object features: exact whatever the batch, mirrored by swapping halves, and the kernel that averages over both."""

from dataclasses import replace

import numpy as np
import pytest

import poisonproof.learners.kernel_ridge as kernel_ridge
import poisonproof.training.pooled as pooled
import research.maps.objects as objects
from poisonproof import FiniteAggregationClassifier, Split, check_estimator_purity
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import grid_weights
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier, squared_lengths
from poisonproof.training.members import fit_member, vote_of
from research.maps.counts import ROOT_LIMIT
from research.maps.dead_leaves import dead_leaves
from research.maps.objects import Bank, ObjectFeatures
from research.maps.patches import (
    EXACT,
    MIDDLE,
    analytic_whitening,
    choose_patches,
    gather,
    inverse_lengths,
    leaf_filters,
    mirror_coordinates,
    pool,
    shrunk,
)

SMALL = ObjectFeatures(
    banks=(
        Bank(side=6, filters=16, threshold=0.15, grid=4, weight=1.2, directions=24),
        Bank(side=3, filters=8, threshold=0.25, grid=3, weight=0.5, directions=12),
        Bank(side=4, filters=8, threshold=0.2, grid=3, weight=0.5, directions=12, shrink=2),
    ),
    scale=250.0,
)
LEARNER = KernelRidgeClassifier(SMALL, kernel="rbf", gamma=0.25, ridge=0.03, balance=1.0)


def scenes(count, seed):
    """Leaves in three kinds of light, so that there is something to learn, and noise."""
    rng = np.random.default_rng(seed)
    images = dead_leaves(count, 32, 100 + seed).astype(int)
    kind = rng.integers(0, 3, count)
    ramp = np.linspace(-60, 60, 32)
    lights = np.stack([np.tile(ramp, (32, 1)).T, np.tile(abs(ramp) - 30, (32, 1)), -np.tile(ramp, (32, 1)).T])
    images = images // 2 + 64 + lights[kind][..., None] + rng.integers(-8, 9, images.shape)
    return np.clip(images, 0, 255).astype(np.uint8), kind


PHOTOS, KINDS = scenes(260, 1)
FLOOR = 1000.0
SUM_OF_LEAVES = 1178737


def swapped(rows):
    half = rows.shape[-1] // 2
    return np.concatenate([rows[..., half:], rows[..., :half]], axis=-1)


@pytest.mark.parametrize("features", [SMALL, ObjectFeatures()], ids=["small", "preset"])
def test_features_are_a_function_of_one_image(features):
    together = features(PHOTOS[:30], training=True)
    assert together.shape == (30, 1, features.n_features)
    assert together.dtype == np.int8
    assert (np.concatenate([features(PHOTOS[i : i + 1]) for i in range(30)]) == together).all()
    assert (features(PHOTOS[:30][::-1])[::-1] == together).all()
    lengths = squared_lengths(together[:, 0], mirrored=True)
    weights = sum(part.weight for part in (*features.banks, features.colours))
    assert np.allclose(np.sqrt(lengths), features.scale * weights**0.5, rtol=0.03)


@pytest.mark.parametrize("features", [SMALL, ObjectFeatures()], ids=["small", "preset"])
def test_a_mirrored_image_swaps_the_halves(features):
    """But for a few values at the border of rounding: windows are summed from the other side."""
    rows, mirrored = features(PHOTOS[:30])[:, 0].astype(int), features(PHOTOS[:30, :, ::-1])[:, 0].astype(int)
    assert np.abs(mirrored - swapped(rows)).max() <= 2
    assert (mirrored != swapped(rows)).mean() < 1e-3
    assert (rows != swapped(rows)).mean() > 0.3


def test_without_mirroring_every_cell_stands_once():
    """The same numbers in another order, signs apart; a middle column is whole instead of twice at 1/√2."""
    even = replace(SMALL, banks=(replace(SMALL.banks[0], grid=4),), colours=replace(SMALL.colours, grid=2))
    whole = replace(even, mirrored=False)
    assert whole.n_features == even.n_features == 16 * 24 + 4 * 125
    rows, halves = whole(PHOTOS[:20])[:, 0].astype(int), even(PHOTOS[:20])[:, 0].astype(int)
    assert (np.sort(abs(rows), axis=1) == np.sort(abs(halves), axis=1)).all()
    odd = replace(SMALL, scale=500.0)
    alone = replace(odd, mirrored=False)
    assert alone.n_features == 16 * 24 + 2 * 9 * 12 + 9 * 125 < odd.n_features
    distances = [
        ((rows[:10] - rows[10:]) ** 2).sum(axis=1)
        for rows in (features(PHOTOS[:20])[:, 0].astype(int) for features in (odd, alone))
    ]
    assert np.allclose(*distances, rtol=0.01)


def test_grey_other_sizes_and_other_numbers_are_images_too():
    grey = PHOTOS[:6, :, :, 0]
    assert (SMALL(grey) == SMALL(np.repeat(grey[..., None], 3, axis=3))).all()
    assert (SMALL(grey[..., None].astype(np.float64)) == SMALL(grey)).all()
    doubled = np.repeat(np.repeat(PHOTOS[:6], 2, axis=1), 2, axis=2)
    near, far = (SMALL(images)[:, 0].astype(float) / SMALL.scale for images in (doubled, PHOTOS[6:12]))
    own = SMALL(PHOTOS[:6])[:, 0].astype(float) / SMALL.scale
    assert (((own - near) ** 2).sum(axis=1) < 0.2 * ((own - far) ** 2).sum(axis=1)).all()
    wild = np.full((1, 32, 32, 3), np.nan)
    wild[0, :16] = 1e300
    tame = np.zeros((1, 32, 32, 3), np.uint8)
    tame[0, :16] = 255
    assert (SMALL(wild) == SMALL(tame)).all()


def test_flat_images_have_features():
    flat = np.stack([np.full((32, 32, 3), level, np.uint8) for level in (0, 128, 255)])
    rows = SMALL(flat)[:, 0].astype(int)
    assert squared_lengths(rows).min() > 0
    assert ((rows[0] - rows[2]) ** 2).sum() > 0


@pytest.mark.parametrize(("side", "shrink"), [(6, 1), (3, 1), (4, 2)])
def test_filters_answer_as_the_formula_says(side, shrink):
    """Cosines of whitened patches, straight from the formula, for filters and their mirror images."""
    filters = leaf_filters(side, 12, shrink, 6.0, 0.01, 1)
    whitening = analytic_whitening(side, 6.0, 0.01)
    atoms = np.empty((6, side * side * 3))
    choose_patches(shrunk(dead_leaves(24, 32 * shrink, 1), shrink), side, np.array([1], np.uint64), atoms)
    image = shrunk(PHOTOS[:1], shrink)[0]
    places = (image.shape[0] - side + 1) ** 2
    even, odd = np.empty((places, len(filters.even)), np.float32), np.empty((places, len(filters.odd)), np.float32)
    gather(image, side, MIDDLE * shrink**2, even, odd)
    inverse = np.empty(places, np.float32)
    inverse_lengths(
        even @ filters.even_whitening,
        odd @ filters.odd_whitening,
        filters.whitening_unit,
        FLOOR,
        1.0 / filters.unit,
        inverse,
    )
    span = image.shape[0] - side + 1
    patches = np.array([image[y : y + side, x : x + side].ravel() for y in range(span) for x in range(span)])
    turned = patches.reshape(-1, side, side, 3)[:, :, ::-1].reshape(len(patches), -1)

    def unit(rows, floor=FLOOR):
        white = rows @ whitening
        return white / np.sqrt((white**2).sum(axis=1, keepdims=True) + floor)

    answers = [(even @ filters.even + sign * (odd @ filters.odd)) * inverse[:, None] for sign in (1, -1)]
    assert np.allclose(answers[0], unit(patches) @ unit(atoms, 0.0).T, atol=5e-3)
    assert np.allclose(answers[1], unit(turned) @ unit(atoms, 0.0).T, atol=5e-3)


@pytest.mark.parametrize("bank", ObjectFeatures().banks, ids=str)
def test_products_are_exact_for_the_worst_patch(bank):
    filters = ObjectFeatures().filters(bank)
    top = MIDDLE * bank.shrink**2
    for even, odd in ((filters.even, filters.odd), (filters.even_whitening, filters.odd_whitening)):
        assert (even == np.rint(even)).all()
        assert (odd == np.rint(odd)).all()
        worst = np.abs(even).sum(axis=0).max() * 2 * top + np.abs(odd).sum(axis=0).max() * 2 * top
        assert worst <= EXACT
        assert np.abs(even).max() > 100


def test_products_of_counts_are_exact_for_the_worst_cell():
    for level in objects._levels(ObjectFeatures()):
        for weights, largest in ((level.even, 2 * ROOT_LIMIT), (level.odd, ROOT_LIMIT)):
            assert (weights == np.rint(weights)).all()
            assert np.abs(weights).sum(axis=0).max() * largest <= EXACT
            assert np.abs(weights).max() > 100


def test_pooling_is_a_weighted_sum_of_what_passes():
    rng = np.random.default_rng(0)
    even, odd = rng.normal(size=(2, 49, 5)).astype(np.float32)
    inverse = rng.uniform(0.1, 0.5, 49).astype(np.float32)
    weights = grid_weights(7, 3, 1.2).astype(np.float32)
    out = np.empty((3, 3, 4, 5), np.float32)
    pool(even, odd, inverse, 0.2, weights, out)
    cosines = np.stack([even + odd, even - odd, -even - odd, odd - even], axis=1) * inverse[:, None, None]
    passed = np.maximum(cosines - 0.2, 0).reshape(7, 7, 4, 5)
    assert np.allclose(out, np.einsum("yr,xc,yxsj->rcsj", weights, weights, passed), rtol=1e-4, atol=1e-5)


def test_mirror_coordinates_are_those_that_are_gathered():
    image = np.arange(5 * 5 * 2).reshape(5, 5, 2) ** 2 % 31
    even, odd = np.empty((1, 30), np.float32), np.empty((1, 20), np.float32)
    gather(image, 5, 0, even, odd)
    by_even, by_odd = mirror_coordinates(5, 2)
    assert (by_even @ image.ravel() == even[0]).all()
    assert (by_odd @ image.ravel() == odd[0]).all()


@pytest.mark.parametrize("kernel", ["rbf", "laplace", "linear"])
def test_the_kernel_is_the_mean_over_mirroring(kernel):
    """Against plain integer arithmetic on the feature vectors, one with its halves swapped."""
    pool = KernelRidgeClassifier(SMALL, kernel=kernel, gamma=0.3).share(PHOTOS[:40])
    rows, test = pool.rows.astype(np.int64), pool.test_features(PHOTOS[40:60]).astype(np.int64)
    values = []
    for other in (test, swapped(test)):
        squared = ((rows[:, None] - other) ** 2).sum(axis=2) / SMALL.scale**2
        values.append(
            {"rbf": np.exp(-0.3 * squared), "laplace": np.exp(-0.3 * np.sqrt(squared))}.get(
                kernel, rows @ other.T / SMALL.scale**2
            )
        )
    assert np.allclose(pool.kernel_columns(test), (values[0] + values[1]) / 2, atol=1e-3)


def test_the_mirror_kernel_cannot_tell_an_image_from_its_mirror_image():
    model = LEARNER.fit(PHOTOS[:120], KINDS[:120])
    scores = model.decision_function(PHOTOS[120:])
    assert np.allclose(scores, model.decision_function(PHOTOS[120:, :, ::-1]), atol=2e-3)
    assert (scores.argmax(axis=1) == KINDS[120:]).mean() > 0.8


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
def test_pooled_votes_are_those_of_plain_fits():
    model = FiniteAggregationClassifier(LEARNER, k=10, d=4, split=Split(dtype="uint8"), classes=[0, 1, 2])
    source = prepare(model, PHOTOS[:200], KINDS[:200]).source
    matrix = model.fit(PHOTOS[:200], KINDS[:200]).votes(PHOTOS[200:]).matrix
    test = model.split_.samples(PHOTOS[200:])
    for i in range(0, 40, 3):
        member = fit_member(LEARNER, i, source.subset(i))
        assert member.failure is None
        alone = vote_of(member, test.take(np.arange(60), member.form), 60, 3)[0]
        assert matrix[:, i].tolist() == alone.tolist()


def test_blocks_batches_order_and_threads_change_no_vote(monkeypatch):
    def votes(order, photos):
        model = FiniteAggregationClassifier(LEARNER, k=8, d=4, split=Split(dtype="uint8"), classes=[0, 1, 2])
        return model.fit(PHOTOS[order], KINDS[order]).votes(photos).matrix

    expected = votes(np.arange(150), PHOTOS[200:])
    monkeypatch.setattr(pooled, "KERNEL_BYTES", 1)
    monkeypatch.setattr(pooled, "SUBSETS_PER_TASK", 3)
    monkeypatch.setattr(kernel_ridge, "NUMBERS_PER_PRODUCT", 37 * SMALL.n_features)
    monkeypatch.setattr(objects, "IMAGES_PER_PRODUCT", 3)
    monkeypatch.setattr(objects, "IMAGES_PER_TASK", 7)
    monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda: 3)
    order = np.random.default_rng(0).permutation(150)
    assert (votes(order, PHOTOS[200:]) == expected).all()
    assert (votes(order, PHOTOS[230:231]) == expected[30:31]).all()


def test_objects_pass_the_purity_check():
    report = check_estimator_purity(LEARNER, PHOTOS[:120].astype(float), KINDS[:120])
    assert report.pure, str(report)


def test_dead_leaves_depend_on_number_and_seed_alone():
    together = dead_leaves(5, 24, 9)
    assert (dead_leaves(3, 24, 9) == together[:3]).all()
    assert (dead_leaves(3, 24, 10) != together[:3]).any()
    assert together.std() > 40
    assert int(together.astype(np.int64).sum()) == SUM_OF_LEAVES


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SMALL(PHOTOS[0, :, 0]), r"need images, \(n, height, width\[, 3\]\). Got shape"),
        (lambda: SMALL(np.zeros((2, 8, 8, 4), np.uint8)), r"Got shape \(2, 8, 8, 4\)"),
        (lambda: SMALL(np.zeros((2, 0, 8, 3), np.uint8)), r"Got shape \(2, 0, 8, 3\)"),
        (lambda: SMALL(PHOTOS[:2].astype(str)), "numbers from 0 to 255. Got <U"),
        (lambda: replace(SMALL, scale=5000.0)(PHOTOS[:2]), "'scale' of object features must keep"),
        (lambda: replace(SMALL, size=7)(PHOTOS[:2]), "at least one patch in each cell of an image of 7 pixels"),
        (lambda: replace(SMALL, banks=(replace(SMALL.banks[0], filters=7),))(PHOTOS[:2]), "an even number of filters"),
        (
            lambda: replace(SMALL, banks=(replace(SMALL.banks[0], directions=33),))(PHOTOS[:2]),
            "twice as many directions",
        ),
        (lambda: replace(SMALL, banks=(replace(SMALL.banks[0], power=0.3),))(PHOTOS[:2]), "must be 0.5 or 0.25"),
        (lambda: squared_lengths(np.full((1, 4), 2000), mirrored=True), "got 32000000: choose a coarser scale"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
