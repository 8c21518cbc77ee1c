"""What kernels use in place of NumPy's own gives what NumPy gives."""

import numpy as np
import pytest

from poisonproof.system.compiled import copy_into, nth_smallest


@pytest.mark.parametrize("spread", [1, 2, 5, 1000, 1 << 40])
def test_nth_smallest_is_that_of_numpy(spread):
    rng = np.random.default_rng(spread)
    for length in (1, 2, 3, 4, 7, 50, 301):
        some = rng.integers(-spread, spread + 1, size=length)
        for values in (some, np.sort(some), np.sort(some)[::-1].copy(), np.concatenate([some, some[::-1]])):
            before = values.copy()
            for nth in {0, 1, len(values) // 3, len(values) // 2, len(values) - 1} & set(range(len(values))):
                assert nth_smallest(values, nth) == np.partition(values, nth)[nth]
            assert (values == before).all()


def test_copies_take_the_type_of_where_they_go():
    target, source = np.full(6, 9, np.int64), np.arange(6, dtype=np.uint8)
    copy_into(target[1:4], source[2:5])
    assert target.tolist() == [9, 2, 3, 4, 9, 9]
