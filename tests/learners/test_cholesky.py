"""Cholesky without Python's lock: SciPy's numbers, to the bit."""

import ctypes
import sys
import threading

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from poisonproof.learners.kernel_ridge import LOWER, _routines, solve_in_place
from refused import refused


def system(n, n_targets, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, n))
    return rows @ rows.T / n + 0.1 * np.eye(n), rng.normal(size=(n, n_targets))


@pytest.mark.parametrize(("n", "n_targets"), [(1, 1), (2, 3), (7, 1), (60, 43), (333, 10)])
def test_the_solution_is_scipys_to_the_bit(n, n_targets):
    matrix, targets = system(n, n_targets)
    before = targets.copy()
    expected = cho_solve(cho_factor(matrix, lower=True), targets)
    assert (solve_in_place(matrix.copy(), targets) == expected).all()
    assert (targets == before).all()
    assert np.allclose(matrix @ expected, targets)


def test_other_threads_go_on_meanwhile():
    """Python's lock is free during the call: nothing else makes a thread give it up before a thousand seconds."""
    matrix, _ = system(1200, 1)
    factor, _ = _routines()
    size, info, place = ctypes.c_int(1200), ctypes.c_int(0), matrix.ctypes.data
    started, went_on, done = threading.Event(), threading.Event(), []

    def other():
        started.wait()
        if not done:
            went_on.set()

    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    thread.start()
    try:
        sys.setswitchinterval(1000.0)
        started.set()
        factor(LOWER, size, place, size, info)
        done.append(True)
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert went_on.is_set()


def test_what_is_not_positive_definite_is_said():
    with pytest.raises(np.linalg.LinAlgError, match="of 3 rows is not positive definite"):
        solve_in_place(np.diag([1.0, -1.0, 1.0]), np.ones((3, 1)))


@pytest.mark.parametrize("wrong", [np.eye(3, dtype=np.float32), np.ones((3, 2)), np.eye(6)[::2, ::2], np.eye(4)])
def test_another_matrix_is_refused(wrong):
    with refused("learner.system"):
        solve_in_place(wrong, np.ones((3, 1)))


def test_nothing_and_what_must_not_be_written_are_refused():
    kept = np.eye(3)
    kept.flags.writeable = False
    for matrix in (kept, np.zeros((0, 0))):
        with refused("learner.system"):
            solve_in_place(matrix, np.ones((len(matrix), 1)))
