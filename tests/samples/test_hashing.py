import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from poisonproof.samples.hashing import among, hash_bytes, hash_numbers


def slow(values, seed):
    """Canonical bytes written out, then the library's hash."""
    rows = []
    for row in values.reshape(len(values), -1):
        canonical = np.array([0.0 if x == 0 else np.nan if x != x else x for x in row], "<f8")
        rows.append(xxhash.xxh64_intdigest(canonical.tobytes(), seed))
    return rows


@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=3, max_side=13), elements=st.floats(width=64)),
    st.integers(0, 2**64 - 1),
)
def test_fused_hash_is_xxh64_of_canonical_bytes(values, seed):
    assert hash_numbers(values, seed).tolist() == slow(values, seed)


def test_signs_of_zero_and_kinds_of_nan_do_not_matter():
    odd = np.array([0x7FF8000000000001, 0xFFF0000000000123], np.uint64).view(np.float64)
    assert hash_numbers(np.array([[-0.0, odd[0]]]))[0] == hash_numbers(np.array([[0.0, odd[1]]]))[0]


def test_threads_cover_every_row():
    values = np.random.default_rng(0).random((40_000, 3))
    assert hash_numbers(values)[::1000].tolist() == slow(values[::1000], 0)


@pytest.mark.parametrize("width", range(10))
def test_every_width(width):
    values = np.random.default_rng(width).random((4, width))
    assert hash_numbers(values, 3).tolist() == slow(values, 3)


def test_bytes():
    assert hash_bytes([b"", b"abc"], 2, 5).tolist() == [
        xxhash.xxh64_intdigest(b"", 5),
        xxhash.xxh64_intdigest(b"abc", 5),
    ]


def test_which_hashes_are_among_others():
    """By itself NumPy 2.0 raises here, so one row with such a hash stopped whatever looked for it."""
    hashes = np.array([(1 << 63) + 5, 1, (1 << 64) - 1], np.uint64)
    assert among(hashes, hashes[:1]).tolist() == [True, False, False]
    assert among(hashes, hashes[1:]).tolist() == [False, True, True]
    assert among(hashes[:0], hashes).tolist() == []
