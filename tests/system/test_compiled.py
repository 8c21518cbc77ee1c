"""What kernels use in place of NumPy's own gives what NumPy gives."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from poisonproof.system import compiled
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


def test_compiled_code_is_current_only_while_all_that_it_calls_and_names_is(tmp_path):
    """A callee and a constant in other files, which Numba's own stamp of the kernel's file does not see."""
    source = tmp_path / "kernels_of_test"
    (source / "system").mkdir(parents=True)
    (source / "system" / "compiled.py").write_text(Path(compiled.__file__).read_text())
    (source / "constants.py").write_text("STEP = 1\n")
    callee = "from kernels_of_test.system.compiled import njit\n@njit(cache=True)\ndef inner(x):\n    return x + {}\n"
    (source / "callee.py").write_text(callee.format(1))
    (source / "caller.py").write_text(
        textwrap.dedent("""
            from kernels_of_test.callee import inner
            from kernels_of_test.constants import STEP
            from kernels_of_test.system.compiled import njit
            @njit(cache=True)
            def outer(x):
                return inner(x) + STEP
        """)
    )

    def answer():
        code = "from kernels_of_test.caller import outer; print(outer(10), sum(outer.stats.cache_hits.values()))"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert [answer(), answer()] == ["12 0\n", "12 1\n"]  # the second one from the cache
    (source / "callee.py").write_text(callee.format(5))
    assert [answer(), answer()] == ["16 0\n", "16 1\n"]
    (source / "constants.py").write_text("STEP = 100\n")
    assert [answer(), answer()] == ["115 0\n", "115 1\n"]
