"""Drawn digits and the metric they teach: procedural, exact, and what it says it is."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import inv, sqrtm

from poisonproof.learners.kernel_ridge import EXACT, squared_lengths
from research.maps.digits import HAND, DigitFeatures, _metric
from research.maps.drawn_digits import HALF, SIDE, STYLES, drawn_digits
from research.maps.hand import LARGEST, Hand

STILL = {"slant": 0.0, "stretch": 0.0, "bend": 0.0, "tremble": 0.0}
USUAL = {"slant": 0.15, "stretch": 0.1, "bend": 0.05, "tremble": 0.05, "pens": (0.72, 1.8)}
PLAIN = DigitFeatures(copies=1, hand=None)


def distance_to_piece(point, start, stop):
    """From a point to a straight piece, in the plainest way."""
    along = stop - start
    share = np.clip(np.dot(point - start, along) / np.dot(along, along), 0.0, 1.0)
    return np.linalg.norm(point - start - share * along)


def test_a_stroke_is_what_lies_near_its_line():
    """Slow reference: the distance of every pixel from every straight stroke."""
    strokes = [[(-0.4, -0.9), (0.5, -0.7)], [(0.5, -0.7), (-0.1, 0.95)]]
    (image,) = drawn_digits(strokes, 1, 3, **STILL, pens=(1.2, 1.2))
    pieces = [np.array(stroke) * HALF + (SIDE - 1) / 2 for stroke in strokes]
    for y in range(SIDE):
        for x in range(SIDE):
            nearest = min(distance_to_piece(np.array([x, y], float), *piece) for piece in pieces)
            assert abs(int(image[y, x]) - 255 * np.clip(1.2 + 0.5 - nearest, 0, 1)) <= 0.51


def test_a_curve_passes_through_its_points():
    stroke = STYLES[2][0][0]
    (image,) = drawn_digits([stroke], 1, 3, **STILL, pens=(1.0, 1.0))
    for x, y in np.rint(np.array(stroke) * HALF + (SIDE - 1) / 2).astype(int):
        assert image[y, x] > 150


def test_a_drawing_depends_on_its_number_and_the_seed():
    strokes = STYLES[5][0]
    five, three = drawn_digits(strokes, 5, 7, **USUAL), drawn_digits(strokes, 3, 7, **USUAL)
    assert (five[:3] == three).all()
    assert len(np.unique(five.reshape(5, -1), axis=0)) == 5
    assert (drawn_digits(strokes, 3, 8, **USUAL) != three).any(axis=(1, 2)).all()


def test_drawn_digits_look_like_digits():
    """A digit drawn again is nearest to a style of its own kind, nearly always; hardly any ink is cut."""
    seen, again = Hand(count=12).drawings(), Hand(count=12, seed=2).drawings()
    kinds = np.repeat(np.arange(10), [len(styles) for styles in STYLES])
    means = np.array([PLAIN(part)[:, 0].mean(axis=0) for styles in seen for part in styles])
    right = []
    for digit, styles in enumerate(again):
        for part in styles:
            assert (part.max(axis=(1, 2)) > 200).all()
            assert part[:, [0, -1]].sum() + part[:, :, [0, -1]].sum() < 0.03 * part.sum()
            apart = ((PLAIN(part)[:, 0, None] - means) ** 2).sum(axis=2)
            right.extend(kinds[apart.argmin(axis=1)] == digit)
    assert np.mean(right) > 0.95


def test_the_metric_is_its_formula():
    """Slow reference: covariances by numpy, roots of matrices by scipy."""
    features = replace(PLAIN, orientations=4, grid=4)
    hand = Hand(count=15)
    metric = hand.metric(lambda images: features(images)[:, 0], features.scale)
    inside, glyphs = np.zeros((64, 64)), []
    for styles in hand.drawings():
        own = [features(part)[:, 0] / features.scale for part in styles]
        inside += sum(np.cov(part.T, bias=True) for part in own)
        means = np.array([part.mean(axis=0) for part in own])
        inside += hand.between * len(means) * np.cov(means.T, bias=True)
        glyphs.extend(means)
    n = len(glyphs)
    shrunk = inv(sqrtm(np.eye(64) + inside / n / hand.tolerance))
    scatter = np.cov((np.array(glyphs) @ shrunk).T, bias=True)
    stretched = sqrtm(np.eye(64) + scatter / (hand.reach * np.linalg.eigvalsh(scatter)[-1]))
    assert np.allclose(metric.weights / metric.unit, shrunk @ stretched, atol=1e-4)
    assert np.allclose(metric.mean, np.mean(glyphs, axis=0) * features.scale, atol=0.51)


def test_the_product_is_exact():
    metric = _metric(DigitFeatures())
    assert (metric.weights == np.rint(metric.weights)).all()
    assert LARGEST * np.abs(metric.weights).sum(axis=0).max() <= EXACT
    assert metric.mean.min() >= 0
    assert metric.mean.max() <= LARGEST
    rows = np.random.default_rng(0).integers(0, LARGEST + 1, (30, len(metric.mean))).astype(np.int8)
    whole = (rows.astype(np.int64) - metric.mean) @ metric.weights.astype(np.int64)
    expected = np.clip(np.rint(whole * (1.0 / metric.unit)), -LARGEST, LARGEST)
    alone = rows.copy()
    for row in alone:
        metric.apply(row[None])
    metric.apply(rows)
    assert (rows == alone).all()
    assert (rows == expected).all()


def test_any_image_stays_short_enough_for_exact_kernels():
    """|φ − mean|² ≤ |φ|² + |mean|², for no feature is negative; then the metric stretches by its norm at most."""
    features = DigitFeatures()
    metric = _metric(features)
    norm = np.linalg.norm(metric.weights / metric.unit, 2)
    rounding = features.n_features**0.5 / 2
    longest = norm * np.hypot(features.scale + rounding, np.linalg.norm(metric.mean.astype(float))) + rounding
    assert longest**2 <= EXACT
    strange = np.random.default_rng(1).integers(0, 256, (50, 28, 28), dtype=np.uint8)
    strange[:10] = 0
    strange[10:20, 5, 7] = 255
    found = features(strange, training=True)
    assert squared_lengths(found.reshape(-1, features.n_features)).max() <= longest**2


def test_what_only_a_hand_does_counts_less():
    """Drawings of another seed: hands move features less, next to how far glyphs are apart, than without the metric."""

    def share(features):
        styles = [
            features(part)[:, 0] / features.scale for digit in Hand(count=10, seed=5).drawings() for part in digit
        ]
        hands = np.mean([part.var(axis=0).sum() for part in styles])
        return hands / np.array([part.mean(axis=0) for part in styles]).var(axis=0).sum()

    assert share(DigitFeatures(copies=1)) < 0.6 * share(PLAIN)


@pytest.mark.parametrize("wrong", [{"tolerance": 0.0}, {"reach": -1.0}, {"count": 1}])
def test_a_hand_refuses_what_makes_no_metric(wrong):
    with pytest.raises(ValueError, match="A hand needs"):
        DigitFeatures(hand=replace(HAND, **wrong))(np.zeros((1, 28, 28), np.uint8))
