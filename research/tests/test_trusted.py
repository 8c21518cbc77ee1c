"""Maps shaped by trusted samples: whole numbers that depend on one sample alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError
from research.maps.objects import Bank, ObjectFeatures
from research.maps.trusted import TrustedFeatures, in_order, near_of
from research.maps.whitening import Whitening

SMALL = ObjectFeatures(size=16, banks=(Bank(side=4, filters=16, threshold=0.2, grid=2, weight=0.3, directions=16),))


def rows(n: int, width: int, seed: int = 0) -> NDArray[np.int16]:
    random = np.random.default_rng(seed)
    return np.rint(random.normal(size=(n, width)) * np.linspace(5, 60, width)).astype(np.int16)


def slow(whitening: Whitening, row: NDArray[np.int16]) -> list[int]:
    """In Python's own integers."""
    centred = [int(a) - int(b) for a, b in zip(row, whitening.offsets, strict=True)]
    square = sum(value * value for value in centred)
    if square > 4095**2:
        centred = [int(value * (4095 / square**0.5)) for value in centred]
    values = []
    for column in range(whitening.n_features):
        product = sum(value * int(weight) for value, weight in zip(centred, whitening.weights[:, column], strict=True))
        values.append(product * float(whitening.factors[column]))
    total = 0.0
    for value in values:
        total += value * value
    factor = whitening.scale / total**0.5 if total else 0.0
    return [round(value * factor) for value in values]


@pytest.mark.parametrize("width", [6, 40])
def test_whitening_is_exact_and_alike_in_any_company(width: int) -> None:
    whitening = Whitening.of(rows(20, width), 5, 0.35)
    asked = np.concatenate(
        [rows(50, width, 1), np.full((1, width), 32000, np.int16), whitening.offsets[None].astype(np.int16)]
    )
    together = whitening(asked)
    assert together.tolist() == [slow(whitening, row) for row in asked]
    assert np.array_equal(together, np.concatenate([whitening(asked[i : i + 1]) for i in range(len(asked))]))
    assert not together[-1].any()
    lengths = np.sqrt(np.square(together[:-1].astype(float)).sum(axis=1))
    assert np.allclose(lengths, 1024, atol=2)


def test_full_whitening_makes_directions_alike_and_none_keeps_their_sizes() -> None:
    many = rows(2000, 8)
    for exponent, alike in ((0.5, True), (0.0, False)):
        spread = Whitening.of(many, 8, exponent)(many).astype(float).std(axis=0)
        assert (spread.max() / spread.min() < 1.3) == alike


def test_directions_are_those_of_the_samples_and_no_more_than_they_have() -> None:
    line = np.outer(np.arange(-20, 21), [3, 0, 4]).astype(np.int16)
    whitening = Whitening.of(line, 3, 0.5)
    assert whitening.n_features == 1
    assert np.allclose(whitening.weights[:, 0] / np.linalg.norm(whitening.weights[:, 0]), [0.6, 0, 0.8], atol=1e-3)


def test_bad_whitenings_are_refused() -> None:
    with pytest.raises(PoisonproofError, match="'directions' must be a whole number"):
        Whitening.of(rows(4, 3), 0, 0.5)
    with pytest.raises(PoisonproofError, match="'exponent' of a whitening must be from 0 to 1"):
        Whitening.of(rows(4, 3), 2, 1.5)
    with pytest.raises(PoisonproofError, match="needs 2 samples or more"):
        Whitening.of(rows(1, 3), 2, 0.5)
    with pytest.raises(PoisonproofError, match="goes with one map"):
        Whitening.of(rows(9, 3), 2, 0.5)(rows(4, 5))
    good = Whitening.of(rows(9, 3), 2, 0.5)
    for weights in (good.weights + np.float32(0.5), good.weights * 2):
        with pytest.raises(DamagedFileError, match="not the weights of a whitening"):
            Whitening(good.offsets.copy(), weights, good.factors.copy())


def test_the_order_of_trusted_samples_does_not_matter() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    one = TrustedFeatures.of(SMALL, images, directions=5, exponent=0.5)
    other = TrustedFeatures.of(SMALL, images[::-1], directions=5, exponent=0.5)
    assert one.whitening.digest == other.whitening.digest
    assert one.trusted_digest == other.trusted_digest
    assert one.n_trusted == 12
    mirrored = images[:, :, ::-1]
    assert np.array_equal(one(images), one(mirrored))  # of mirrored features, what mirroring does not change


def test_near_is_the_share_of_pairs() -> None:
    some = rows(40, 6)
    within = near_of(some, 0.25)
    distances = [int(np.square(a.astype(int) - b).sum()) for i, a in enumerate(some) for b in some[:i]]
    assert sum(distance <= within**2 for distance in distances) == int(np.ceil(0.25 * len(distances)))
    with pytest.raises(PoisonproofError, match="share of pairs"):
        near_of(some, 0.0)
    with pytest.raises(PoisonproofError, match="cannot be read off 1 samples"):
        near_of(some[:1], 0.5)
    assert np.array_equal(in_order(some), in_order(some[::-1]))
