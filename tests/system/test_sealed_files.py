"""Files with a seal: the same arrays whichever way they are read, and no byte of them may be another."""

import hashlib
import io

import numpy as np
import pytest

from poisonproof.errors import DamagedFileError
from poisonproof.system.archives import npz_in, read_npz
from poisonproof.system.files import open_arrays, write_arrays
from refused import refused

ARRAYS = {
    "numbers": np.linspace(0, 1, 7).reshape(7, 1),
    "fortran": np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4)),
    "nothing": np.zeros((0, 3), np.uint16),
    "one": np.array(5.0),
    "odd bytes": np.arange(3, dtype=np.uint8),
}


def test_what_was_written_comes_back_and_can_be_written_to(tmp_path):
    written = write_arrays(tmp_path / "a.npz", ARRAYS, {"what": "ä"})
    body = (tmp_path / "a.npz").read_bytes()
    assert written == (hashlib.sha256(body).hexdigest(), len(body))
    for arrays, facts in (
        open_arrays(tmp_path / "a.npz", ["one"]),
        open_arrays(tmp_path / "a.npz", stated=written.digest),
    ):
        assert facts == {"what": "ä"}
        assert list(arrays) == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert arrays[name].dtype == array.dtype
            assert np.array_equal(arrays[name], array)
            assert arrays[name].flags.writeable
            assert arrays[name].flags.aligned
    with np.load(tmp_path / "a.npz") as archive:
        assert np.array_equal(archive["fortran"], ARRAYS["fortran"])


def test_no_bit_may_be_another(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"a": np.arange(3)}, {})
    body = path.read_bytes()
    for at in range(0, len(body), 7):
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        with refused("file.damaged", DamagedFileError):
            open_arrays(path)
    for length in (0, 10, 64, 71, len(body) - 1):
        path.write_bytes(body[:length])
        with refused("file.damaged", DamagedFileError):
            open_arrays(path)


def test_a_file_that_is_whole_but_not_the_one_that_is_stated(tmp_path):
    other = write_arrays(tmp_path / "a.npz", {"a": np.arange(3)}, {})
    write_arrays(tmp_path / "a.npz", {"a": np.arange(4)}, {})
    with refused("file.damaged", DamagedFileError):
        open_arrays(tmp_path / "a.npz", stated=other.digest)


def test_a_file_without_a_seal_is_refused_even_if_its_digest_is_stated(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(30), facts=np.frombuffer(b"{}", np.uint8))
    stated = hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest()
    with refused("file.damaged", DamagedFileError):
        open_arrays(tmp_path / "a.npz", stated=stated)


def test_packed_archives_are_read_too(tmp_path):
    body = io.BytesIO()
    np.savez_compressed(body, **ARRAYS)
    (tmp_path / "a.npz").write_bytes(body.getvalue())
    slow = read_npz(tmp_path / "a.npz")
    for name, array in npz_in(body.getvalue()).items():
        assert np.array_equal(array, slow[name])
        assert np.array_equal(array, ARRAYS[name])


def test_an_array_that_states_more_than_it_holds_is_refused():
    body = io.BytesIO()
    np.savez(body, a=np.arange(3))
    altered = body.getvalue().replace(b"(3,)", b"(9,)")
    with pytest.raises(ValueError, match="states an array"):
        npz_in(altered)
