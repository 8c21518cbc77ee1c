"""Weights that PyTorch saved before 2020, read without PyTorch and without running anything that the file names.

Such a file is a row of pickles followed by the raw numbers of every tensor. Only dictionaries and tensors of plain
numbers are built; whatever else a pickle names is refused, so that opening a file cannot do anything but read it.
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError

MAGIC = 0x1950A86A20F9469CFC6C
DTYPES: dict[str, Any] = {
    "FloatStorage": np.dtype("<f4"),
    "LongStorage": np.dtype("<i8"),
    "HalfStorage": np.dtype("<f2"),
}
Weights = dict[str, NDArray[Any]]


class _Tensor(NamedTuple):
    """Where a tensor lies in its storage, before the numbers are read."""

    storage: tuple[str, str]
    offset: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]


def _tensor(storage: Any, offset: int, shape: Any, steps: Any, *_rest: Any) -> _Tensor:
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, steps)))


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in DTYPES:
            return name
        raise DamagedFileError(f"These are no plain weights: the file names {module}.{name}, which is not opened.")

    def persistent_load(self, pid: Any) -> tuple[str, str]:
        if not (isinstance(pid, tuple) and len(pid) >= 3 and pid[0] == "storage" and pid[1] in DTYPES):
            raise DamagedFileError("These are no plain weights: a tensor is stored in a way that is not known.")
        return str(pid[1]), str(pid[2])


def read_torch_weights(content: bytes) -> Weights:
    """Every tensor of a file by its name, as an array."""
    stream = BytesIO(content)
    try:
        if _Reader(stream).load() != MAGIC:
            raise DamagedFileError("This is no file of weights that PyTorch saved in its first format.")
        _Reader(stream).load()  # version of the format
        _Reader(stream).load()  # byte order and sizes of numbers, of the machine that wrote it: little endian
        tensors = _Reader(stream).load()
        keys = _Reader(stream).load()
        kinds: dict[str, str] = {tensor.storage[1]: tensor.storage[0] for tensor in tensors.values()}
        storages = {str(key): _numbers(stream, np.dtype(DTYPES[kinds[str(key)]])) for key in keys}
        return {str(name): _placed(tensor, storages) for name, tensor in tensors.items()}
    except DamagedFileError:
        raise
    except (pickle.UnpicklingError, EOFError, struct.error, KeyError, AttributeError, ValueError, TypeError) as error:
        raise DamagedFileError(f"This is no readable file of PyTorch weights ({error}).") from error


def _numbers(stream: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    (count,) = struct.unpack("<q", stream.read(8))
    return np.frombuffer(stream.read(count * dtype.itemsize), dtype)


def _placed(tensor: _Tensor, storages: dict[str, NDArray[Any]]) -> NDArray[Any]:
    numbers = storages[tensor.storage[1]]
    last = tensor.offset + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.steps, strict=True))
    if min((0, tensor.offset, *tensor.shape, *tensor.steps)) < 0 or (0 not in tensor.shape and last >= len(numbers)):
        raise DamagedFileError("These are no plain weights: a tensor reaches beyond the numbers of the file.")
    steps = [step * numbers.itemsize for step in tensor.steps]
    return np.array(np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, steps), order="C")
