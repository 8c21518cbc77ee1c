"""Arrays less some rows, copied in stretches, are what NumPy gives row by row."""

import numpy as np
import pytest

from poisonproof.samples.columns import FEW, less_rows


@pytest.mark.parametrize(
    "values", [np.arange(300.0).reshape(100, 3), np.arange(100), np.array(list("ab") * 50, object)]
)
@pytest.mark.parametrize("count", [0, 1, 2, FEW, FEW + 1, 100])
def test_the_rows_that_stay_are_copied_in_their_order(values, count):
    rng = np.random.default_rng(count)
    for rows in [np.sort(rng.choice(100, count, replace=False))] if count else [np.zeros(0, np.int64)]:
        left = less_rows(values, rows)
        assert left.tolist() == values[np.setdiff1d(np.arange(100), rows)].tolist()
        assert left.dtype == values.dtype
        assert not np.shares_memory(left, values)


def test_first_and_last_rows_go():
    assert less_rows(np.arange(4), np.array([0, 3])).tolist() == [1, 2]
    assert less_rows(np.arange(1), np.array([0])).tolist() == []
