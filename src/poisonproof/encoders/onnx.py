"""Encoders of pictures: a network in ONNX, run on one picture at a time and on one thread.

A picture is brought to the network's size in whole numbers, bicubic: weights are multiples of 2⁻¹² that sum to 1, so
every product and sum is an integer that fits, and the numbers that enter are the same to the bit on every machine, in
every batch and with every version of every library. A session has one thread and sees one picture of one shape; nothing
that comes out depends on company. What runs inside is floating point: another processor, or another version of
onnxruntime, may round otherwise, and then now and then a step of an embedding differs. Runs say where they were made.

Any network will do that a file beside it says how pictures enter (`onnx_encoder`).
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.encoders.base import Encoder, EncoderRecord
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.system.archives import read_whole
from poisonproof.system.compiled import njit
from poisonproof.system.files import PACKAGE, check_may_open, reading
from poisonproof.system.machine import processor

UNIT = 1 << 12  # what weights of resizing sum to
SHARPNESS = -0.5  # of Keys' cubic
LAYOUTS = ("NCHW", "NHWC")
LARGEST_SIDE = 2048
LARGEST_MODEL = 2 << 30
DECLARED = ("size", "mean", "scale", "layout", "name", "version", "source", "licence", "trained_on")
EXAMPLE = (
    '{"size": [224, 224], "mean": [123.675, 116.28, 103.53], "scale": [58.395, 57.12, 57.375], "layout": "NCHW", '
    '"trained_on": "ImageNet-1k, public"}'
)
_lock = threading.Lock()
_sessions: dict[str, _Session] = {}


@dataclass(frozen=True)
class ImageInput:
    """How a picture enters a network: its size, and (level − mean) / scale of each colour.

    Parameters
    ----------
    height, width : int
    mean, scale : triples of float
        In grey levels from 0 to 255.
    layout : "NCHW" or "NHWC"
        Whether colours come before or after rows and columns.
    """

    height: int
    width: int
    mean: tuple[float, float, float] = (127.0, 127.0, 127.0)
    scale: tuple[float, float, float] = (128.0, 128.0, 128.0)
    layout: str = "NCHW"

    def __post_init__(self) -> None:
        if not all(isinstance(side, int) and 8 <= side <= LARGEST_SIDE for side in (self.height, self.width)):
            raise PoisonproofError(
                f"Pictures for an encoder have sides from 8 to {LARGEST_SIDE} pixels. Got {self.height}×{self.width}.",
                code="encoder.declaration",
            )
        if self.layout not in LAYOUTS:
            raise PoisonproofError(
                f"The layout of pictures must be one of {list(LAYOUTS)}. Got {self.layout!r}.",
                code="encoder.declaration",
            )
        numbers = np.array([self.mean, self.scale], np.float64)
        if numbers.shape != (2, 3) or not np.isfinite(numbers).all() or not (numbers[1] != 0).all():
            raise PoisonproofError(
                f"Mean and scale of an encoder's pictures are three numbers each, no scale 0. Got {self.mean!r} and "
                f"{self.scale!r}.",
                code="encoder.declaration",
            )

    def __str__(self) -> str:
        mean, scale = (", ".join(f"{number!r}" for number in numbers) for numbers in (self.mean, self.scale))
        return (
            f"bicubic to {self.width}×{self.height} in whole numbers, (level − ({mean})) / ({scale}), RGB {self.layout}"
        )

    def of(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What enters the network for one picture (height, width, 3), as a batch of one."""
        levels = resized(image, self.height, self.width) / float(UNIT * UNIT)
        entered = ((levels - np.array(self.mean)) / np.array(self.scale)).astype(np.float32)
        return np.ascontiguousarray(entered.transpose(2, 0, 1) if self.layout == "NCHW" else entered)[None]


@dataclass(frozen=True)
class ImageEncoder(Encoder):
    """A network in ONNX that takes pictures.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`. The place is an ONNX file.
    picture : ImageInput
        How pictures enter.
    """

    picture: ImageInput = ImageInput(224, 224)
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its file."""
        return self.place

    def network(self) -> bytes:
        """The network as an ONNX file."""
        return checked_weights(self.place, self.record.weights)

    def read(self, X: Any) -> Sequence[NDArray[np.uint8]]:
        """Colour pictures; grey ones get three equal colours."""
        return images_of(X, self.record.name)

    def embed(self, sample: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What the network says."""
        return self._session().run(self.picture.of(sample))

    def probe(self) -> NDArray[np.uint8]:
        """A grey picture."""
        return np.full((8, 8, 3), 127, np.uint8)

    def runtime(self) -> str:
        """onnxruntime and the processor."""
        self._session()
        return f"onnxruntime {version('onnxruntime')} {processor()}"

    def _session(self) -> _Session:
        with _lock:
            identity = f"{self.record.weights} {self.picture}"
            if identity not in _sessions:
                _sessions[identity] = _Session(self)
            return _sessions[identity]


class _Session:
    """A network that is open: one thread, one picture at a time."""

    def __init__(self, encoder: ImageEncoder) -> None:
        name, picture = encoder.record.name, encoder.picture
        self._session = opened_network(encoder.network(), name, "encoders")
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        shape = [1, 3, picture.height, picture.width]
        shape = shape if picture.layout == "NCHW" else [1, picture.height, picture.width, 3]
        stated = inputs[0].shape if len(inputs) == 1 else []
        fits = len(stated) == 4 and inputs[0].type == "tensor(float)"
        if not fits or any(
            isinstance(side, int) and side != wanted for side, wanted in zip(stated, shape, strict=True)
        ):
            raise PoisonproofError(
                f"The ONNX model of the encoder {name} takes {[(one.name, one.type, one.shape) for one in inputs]}; "
                f"with the declared size and layout it would be given one float tensor of shape {shape}.",
                code="encoder.other-shape",
            )
        self._input, self._output = inputs[0].name, outputs[0].name

    def run(self, entered: NDArray[np.float32]) -> NDArray[np.float32]:
        (answer,) = self._session.run([self._output], {self._input: entered})
        return np.asarray(answer)


def checked_weights(place: str, digest: str) -> bytes:
    """The bytes of a file of weights, which must have the digest on record.

    The place is a path, or ``package:NAME/FILE`` inside an installed package.
    """
    check_may_open(place)
    try:
        content = read_whole(located(place), LARGEST_MODEL)
    except FileNotFoundError:
        raise PoisonproofError(
            f"The weights of the encoder are not at {place}; put them there, or install them.",
            code="encoder.weights-missing",
        ) from None
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest:
        raise PoisonproofError(
            f"The weights at {place} have the SHA-256 {actual}, and the record of the encoder says {digest}; they are "
            "others, so nothing that was certified holds for them.",
            code="encoder.other-weights",
        )
    return content


def located(place: str) -> Path:
    """Where a file lies; of a package, found without importing it."""
    if not place.startswith(PACKAGE):
        return Path(place)
    package, _, file = place.removeprefix(PACKAGE).partition("/")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise PoisonproofError(
            f"The weights of the encoder come with the package {package}, which is not installed.",
            code="encoder.weights-missing",
        )
    return Path(spec.submodule_search_locations[0]) / file


def images_of(X: Any, name: str) -> Sequence[NDArray[np.uint8]]:
    """Pictures (height, width, 3) of whole levels; others are rounded and cut to 0 … 255, and what is missing is 0."""
    array = np.asarray(X)
    if array.dtype.kind not in "biuf" or array.ndim not in (3, 4):
        what = "texts or cells" if array.dtype.kind in "OUS" else f"an array of shape {array.shape}"
        raise PoisonproofError(
            f"The encoder {name} takes pictures: arrays (n, height, width) or (n, height, width, colours). Got {what}.",
            code="encoder.wrong-kind",
        )
    if array.ndim == 3:
        array = array[..., None]
    if array.shape[3] not in (1, 3) or 0 in array.shape[1:]:
        raise PoisonproofError(
            f"The encoder {name} takes pictures of 1 or 3 colours. Got {array.shape[3]} in an array of shape "
            f"{array.shape}.",
            code="encoder.wrong-kind",
        )
    if array.dtype != np.uint8:  # each value by itself, so that no picture can stop the others
        with np.errstate(invalid="ignore"):
            array = np.clip(np.rint(np.nan_to_num(array.astype(np.float64))), 0, 255).astype(np.uint8)
    return [np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3))) for image in array]


def weights_digest(path: str | Path) -> str:
    """SHA-256 of a file of weights."""
    check_may_open(path)
    return hashlib.sha256(read_whole(path, LARGEST_MODEL)).hexdigest()


def opened_network(content: bytes, name: str, extra: str) -> Any:
    """A session of onnxruntime with the network in these bytes; the extra is the one to install where that is missing.

    Running it releases Python's lock, so threads can share a session.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_extra(f"The encoder {name}", "onnxruntime", extra) from error
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PoisonproofError(
            f"The encoder {name} is no ONNX model that onnxruntime opens ({error}).", code="encoder.no-network"
        ) from error


def onnx_encoder(path: str | Path) -> ImageEncoder:
    """The network of an ONNX file, by the declarations in the JSON file of the same name.

    ``size`` (width, height) and ``trained_on`` must stand there; ``mean`` and ``scale`` of the colours, in levels
    from 0 to 255, ``layout``, ``name``, ``version``, ``source`` and ``licence`` may.
    """
    check_may_open(Path(path).absolute())
    model, beside = Path(path), Path(path).with_suffix(".json")
    if not model.is_file():
        raise PoisonproofError(f"There is no ONNX file {model}.", code="encoder.no-file")
    if not beside.is_file():
        raise PoisonproofError(
            f"How pictures enter {model.name} must be declared in {beside.name} beside it, such as {EXAMPLE}.",
            code="encoder.declaration",
        )
    with reading(beside, "is no JSON object that declares an encoder"):
        declared: dict[str, Any] = json.loads(read_whole(beside))
    picture = _picture(declared, beside)
    record = EncoderRecord(
        name=str(declared.get("name", model.name)),
        version=str(declared.get("version", "unknown")),
        source=str(declared.get("source", "a file")),
        licence=str(declared.get("licence", "unknown")),
        weights=weights_digest(model.absolute()),
        preprocessing=str(picture),
        trained_on=f"{declared['trained_on']}; not covered by this proof",
        takes="images",
    )
    return ImageEncoder(record, str(model.absolute()), picture=picture)


def _picture(declared: Any, beside: Path) -> ImageInput:
    if not isinstance(declared, dict) or "size" not in declared or "trained_on" not in declared:
        raise PoisonproofError(
            f"{beside} must declare at least 'size' and 'trained_on', such as {EXAMPLE}.", code="encoder.declaration"
        )
    if unknown := sorted(set(declared) - set(DECLARED)):
        raise PoisonproofError(
            f"{beside} declares '{unknown[0]}', which no encoder has; it may say {', '.join(DECLARED)}.",
            code="encoder.declaration",
        )
    size = declared["size"]
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) for side in size)):
        raise PoisonproofError(
            f"The 'size' in {beside} must be [width, height] in pixels. Got {size!r}.", code="encoder.declaration"
        )
    numbers = {name: _three(declared[name], name, beside) for name in ("mean", "scale") if name in declared}
    return ImageInput(size[1], size[0], **numbers, layout=str(declared.get("layout", "NCHW")))


def _three(value: Any, name: str, beside: Path) -> tuple[float, float, float]:
    numbers = isinstance(value, list) and all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in value
    )
    if not numbers or len(value) != 3:
        raise PoisonproofError(
            f"The '{name}' in {beside} must be three numbers, one for each colour. Got {value!r}.",
            code="encoder.declaration",
        )
    return float(value[0]), float(value[1]), float(value[2])


@lru_cache(maxsize=64)
def resampling(size: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each of ``wanted`` places the first pixel that counts in it, and the weights from there on.

    Shrinking widens the cubic, so that every pixel counts somewhere; what would lie outside is left out.
    """
    shrink = max(size / wanted, 1.0)
    reach = 2.0 * shrink
    taps = min(size, 2 * math.ceil(reach) + 1)
    starts, weights = np.zeros(wanted, np.int64), np.zeros((wanted, taps), np.int64)
    for place in range(wanted):
        centre = (place + 0.5) * size / wanted - 0.5
        first = min(max(math.ceil(centre - reach), 0), size - taps)
        exact = np.array([_cubic(abs(first + tap - centre) / shrink) for tap in range(taps)])
        whole = np.rint(exact / exact.sum() * UNIT).astype(np.int64)
        whole[np.abs(whole).argmax()] += UNIT - whole.sum()
        starts[place], weights[place] = first, whole
    for array in (starts, weights):
        array.flags.writeable = False
    return starts, weights


def _cubic(x: float) -> float:
    a = SHARPNESS
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a if x < 2.0 else 0.0


def resized(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.int64]:
    """A picture (height, width, channels) at another size, in steps of 2⁻²⁴ of a grey level, from 0 to 255."""
    rows, columns = resampling(image.shape[0], height), resampling(image.shape[1], width)
    out = np.empty((height, width, image.shape[2]), np.int64)
    _resize(image, *rows, *columns, out)
    return out


@njit(nogil=True, cache=True)
def _resize(
    image: NDArray[np.uint8],
    tops: NDArray[np.int64],
    down: NDArray[np.int64],
    lefts: NDArray[np.int64],
    across: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    channels = image.shape[2]
    most = np.int64(255) * UNIT * UNIT
    band = np.empty((image.shape[1], channels), np.int64)
    for y in range(out.shape[0]):
        band[:] = 0
        for tap in range(down.shape[1]):
            weight = down[y, tap]
            if weight != 0:
                for x in range(image.shape[1]):
                    for c in range(channels):
                        band[x, c] += weight * np.int64(image[tops[y] + tap, x, c])
        for x in range(out.shape[1]):
            for c in range(channels):
                total = np.int64(0)
                for tap in range(across.shape[1]):
                    total += across[x, tap] * band[lefts[x] + tap, c]
                out[y, x, c] = min(max(total, np.int64(0)), most)
