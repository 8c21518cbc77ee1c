"""Theorem 2 in plain NumPy says what the compiled kernel says, and is used only where nothing is compiled yet."""

import subprocess
import sys

import numpy as np
import pytest

from poisonproof import Spread, Votes, certify
from poisonproof.core.certify import certify_in_numpy, sums_by_partition
from poisonproof.core.theorem2 import FEW, LANES, certify_rows

SPREADS = [Spread.paper(5, 3), Spread.random(7, 1), Spread.paper(4, 4), Spread.planes(2, 3)]


@pytest.mark.parametrize("spread", SPREADS, ids=lambda spread: f"{spread.n_subsets}x{spread.d}")
@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
def test_both_forms_agree_in_every_array(spread, inferred, n_classes):
    if n_classes == 1 and not inferred:
        return  # a declared class list holds two at least
    rng = np.random.default_rng(n_classes)
    strays = rng.integers(0, n_classes + 1, (300, spread.n_subsets))  # abstentions among them
    loyal = rng.random((300, spread.n_subsets)) < rng.random((300, 1))
    matrix = np.where(loyal, rng.integers(0, n_classes + 1, (300, 1)), strays)
    votes = Votes(matrix, spread, classes=range(n_classes), classes_inferred=inferred)
    compiled = certify(votes)
    plain = certify_in_numpy(votes.matrix, spread.as_table(), n_classes, unseen_class=inferred)
    for name, array in zip(("prediction", "runner_up", "margin", "radius"), plain, strict=True):
        assert array.tolist() == getattr(compiled, name).tolist(), name


@pytest.mark.parametrize("n_classes", [2, FEW, FEW + 1])
@pytest.mark.parametrize("d", [1, 6, 40, 130])
def test_the_kernel_counts_few_and_many_alike(n_classes, d):
    """Classes counted one by one or at once, Δ from the largest on or all of them, one byte or two: the same numbers.

    Some votes are nearly even, so that several rivals are looked at, some one-sided, so that all Δ_j fit; some abstain.
    """
    rng = np.random.default_rng(d)
    n = 4 * d + LANES + 5
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    loyal = rng.random((60, n)) < rng.choice([0.02, 0.3, 0.8, 1.0], (60, 1))
    matrix = np.where(loyal, rng.integers(0, n_classes, (60, 1)), rng.integers(0, n_classes + 1, (60, n)))
    matrix[0] = n_classes
    votes = matrix.astype(np.uint8)
    for inferred in (False, True):
        plain = certify_in_numpy(votes, spread.as_table(), n_classes, unseen_class=inferred)
        arrays = [np.empty(len(votes), np.int64) for _ in range(4)]
        small = np.empty(0, np.min_scalar_type(2 * d))
        certify_rows(votes, spread.arrays, n_classes, inferred, small, *arrays)
        for kernel, twin in zip(arrays, plain, strict=True):
            assert kernel.tolist() == twin.tolist()


def test_no_test_samples():
    spread = SPREADS[0]
    plain = certify_in_numpy(np.empty((0, spread.n_subsets), np.uint8), spread.as_table(), 2, unseen_class=False)
    assert [array.shape for array in plain] == [(0,)] * 4


def test_sums_that_short_numbers_do_not_hold():
    assert sums_by_partition(np.full((1, 20_000), 2), np.arange(20_000)[None]).tolist() == [[40_000]]


@pytest.mark.parametrize(("rows", "compiled"), [(20, False), (400_000, True)])
def test_compiled_code_is_loaded_when_there_is_work_for_it(tmp_path, rows, compiled):
    spread = Spread.paper(5, 3)
    votes = Votes(np.random.default_rng(0).integers(0, 3, (rows, spread.n_subsets)), spread, classes=range(3))
    votes.save(tmp_path / "votes.npy")
    certify(votes).save(tmp_path / "expected.npz")
    words = ["certify", str(tmp_path / "votes.npy"), "--out", str(tmp_path / "out.npz")]
    script = (
        f"import sys; from poisonproof.cli.main import app; app({words!r}, standalone_mode=False); "
        "print(*(name in sys.modules for name in ('numba', 'sklearn', 'pandas', 'scipy')), file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    loaded, *others = told.split()[-4:]
    assert loaded == str(compiled)
    if not compiled:
        assert others == ["False"] * 3
    with np.load(tmp_path / "expected.npz") as expected, np.load(tmp_path / "out.npz") as out:
        for name in ("prediction", "runner_up", "margin", "radius"):
            assert np.array_equal(expected[name], out[name])
