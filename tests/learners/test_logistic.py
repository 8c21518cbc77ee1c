"""Our own logistic regression against scikit-learn's, solved to the end, and against its own words in plain Python."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from poisonproof.learners import logistic
from poisonproof.learners.logistic import LANES, TOLERANCE, WIDEST, Design, fit_logistic
from poisonproof.learners.table import TableClassifier
from poisonproof.samples.convert import to_samples
from poisonproof.training.members import fed_to


def drawn(rng, n, n_numbers, sizes, n_classes):
    """Numbers, places of ones (with gaps), the same as a dense matrix, and classes that depend on them."""
    numbers = rng.normal(size=(n, n_numbers))
    firsts = np.cumsum([0, *sizes])
    places = np.column_stack([first + rng.integers(0, size, n) for first, size in zip(firsts, sizes, strict=False)])
    places[rng.random(places.shape) < 0.1] = -1
    dense = np.zeros((n, n_numbers + firsts[-1]))
    dense[:, :n_numbers] = numbers
    rows, which = np.nonzero(places >= 0)
    dense[rows, n_numbers + places[rows, which]] = 1.0
    scores = dense @ rng.normal(size=(dense.shape[1], n_classes)) + rng.gumbel(size=(n, n_classes))
    codes = scores.argmax(axis=1)
    codes[:n_classes] = np.arange(n_classes)
    return Design.of(numbers, places, int(firsts[-1])), dense, codes


def slopes_of(dense, codes, fitted, n_classes, C):
    """Slopes of the mean loss and its penalty, in NumPy."""
    scores = dense @ fitted.weights.T + fitted.bias
    if n_classes == 2:
        said = 1 / (1 + np.exp(-scores))
        residuals = said - (codes == 1)[:, None]
    else:
        said = np.exp(scores - scores.max(axis=1, keepdims=True))
        residuals = said / said.sum(axis=1, keepdims=True) - np.eye(n_classes)[codes]
    return residuals.T @ dense / len(codes) + fitted.weights / (C * len(codes)), residuals.mean(axis=0)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("n", [9, 501])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_it_ends_where_no_slope_is_left_and_near_what_scikit_learn_finds_in_the_end(n_classes, n, C):
    rng = np.random.default_rng([n_classes, n])
    design, dense, codes = drawn(rng, n, 3, (4, 9), n_classes)
    fitted = fit_logistic(design, codes, n_classes, C)
    for slopes in slopes_of(dense, codes, fitted, n_classes, C):
        assert np.abs(slopes).max() <= 1.01 * TOLERANCE
    truth = LogisticRegression(C=C, tol=1e-9, max_iter=20_000).fit(dense, codes)
    at_most = 2e-2 * max(1.0, np.abs(truth.coef_).max())
    assert np.abs(fitted.weights - truth.coef_).max() < at_most * max(1.0, np.sqrt(C))
    said = dense @ fitted.weights.T + fitted.bias
    probable = (said[:, 0] > 0).astype(int) if n_classes == 2 else said.argmax(axis=1)
    assert (probable == truth.predict(dense)).mean() > 0.98


def test_compiled_it_gives_what_its_own_lines_give_in_python(monkeypatch):
    rng = np.random.default_rng(3)
    for n_classes in (2, 3):
        design, _, codes = drawn(rng, 21, 2, (3, 2), n_classes)
        compiled = fit_logistic(design, codes, n_classes)
        with monkeypatch.context() as plain:
            for name in (
                "_dot",
                "_residuals",
                "_loss",
                "_curvature",
                "_solve",
                "_sum_of_products",
                "_steepest",
                "_descend",
            ):
                plain.setattr(logistic, name, getattr(logistic, name).py_func)
            slow = fit_logistic(design, codes, n_classes)
        assert slow.n_steps == compiled.n_steps > 2
        assert np.array_equal(slow.weights, compiled.weights)
        assert np.array_equal(slow.bias, compiled.bias)


def test_rows_fill_up_to_whole_lanes_without_a_trace():
    rng = np.random.default_rng(5)
    numbers, places = rng.normal(size=(2 * LANES - 3, 2)), np.full((2 * LANES - 3, 0), -1)
    design = Design.of(numbers, places, 0)
    assert design.numbers.shape == (2, 2 * LANES)
    assert not design.numbers[:, len(numbers) :].any()


def test_separable_classes_and_a_penalty_of_almost_nothing_end():
    numbers, codes = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    places = codes[:, None].astype(np.int64)
    fitted = fit_logistic(Design.of(numbers, places, 2), codes, 2, C=1e12)
    assert np.isfinite(fitted.weights).all()
    assert fitted.n_steps <= 200
    assert fit_logistic(Design.of(numbers, places, 2), codes, 2, C=1e12, max_iter=1).n_steps == 1


@pytest.fixture
def table():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(90) < 0.1, np.nan, rng.normal(size=90)),
            "city": pd.Categorical(np.array(["Rome", "Oslo", None], object)[rng.integers(0, 3, 90)]),
            "word": pd.Series([f"w{i}" for i in rng.integers(0, 5, 90)], dtype=object),
        }
    )
    return frame, rng.integers(0, 3, 90)


def test_frames_and_columns_are_trained_to_the_same_bits(table):
    frame, codes = table
    samples = to_samples(frame)
    rows = np.random.default_rng(1).permutation(90)[:70]
    form = samples.form_of(rows)
    by_column = TableClassifier().fit(fed_to(TableClassifier(), samples, rows, form), codes[rows])
    by_frame = TableClassifier().fit(samples.take(rows, form), codes[rows])
    assert by_column.weights_.tobytes() == by_frame.weights_.tobytes()
    assert by_column.bias_.tobytes() == by_frame.bias_.tobytes()


def test_tables_with_categories_are_ours_and_numbers_alone_and_wide_tables_are_scikit_learns(table, monkeypatch):
    frame, codes = table
    asked = []
    monkeypatch.setattr(TableClassifier, "_fit_dense", lambda self, X, codes: asked.append(1) or 1 / 0)
    TableClassifier().fit(frame, codes)
    assert not asked
    wide = pd.DataFrame({"a": frame["a"], "id": pd.Series([f"x{i}" for i in range(90)] * 4, dtype=object)[:90]})
    many = pd.concat([wide.assign(id=[f"x{i}" for i in range(at, at + 90)]) for at in (0, 90, 180)], ignore_index=True)
    assert len(set(many["id"])) > WIDEST
    for X, y in ((frame[["a"]], codes), (many, np.tile(codes, 3)), (frame[["a"]].to_numpy(), codes)):
        with pytest.raises(ZeroDivisionError):
            TableClassifier().fit(X, y)
