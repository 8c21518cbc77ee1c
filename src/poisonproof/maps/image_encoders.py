"""Encoders of pictures: a network in ONNX, run on one picture at a time and on one thread.

A picture is brought to the network's size in whole numbers (`poisonproof.maps.resizing`), so the numbers that enter
are the same everywhere. A session has one thread and sees one picture of one shape; nothing that comes out depends on
company. What runs inside is floating point: another processor, or another version of onnxruntime, may round
otherwise, and then now and then a step of an embedding differs. Runs say where they were made.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError
from poisonproof.maps.encoders import Encoder
from poisonproof.maps.onnx_sessions import opened_network
from poisonproof.maps.resizing import UNIT, resized
from poisonproof.system.archives import read_whole
from poisonproof.system.files import PACKAGE, check_may_open
from poisonproof.system.machine import processor

LAYOUTS = ("NCHW", "NHWC")
LARGEST_SIDE = 2048
LARGEST_MODEL = 2 << 30
_lock = threading.Lock()
_sessions: dict[str, _Session] = {}


@dataclass(frozen=True)
class Picture:
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
                f"Pictures for an encoder have sides from 8 to {LARGEST_SIDE} pixels. Got {self.height}×{self.width}."
            )
        if self.layout not in LAYOUTS:
            raise PoisonproofError(f"The layout of pictures must be one of {list(LAYOUTS)}. Got {self.layout!r}.")
        numbers = np.array([self.mean, self.scale], np.float64)
        if numbers.shape != (2, 3) or not np.isfinite(numbers).all() or not (numbers[1] != 0).all():
            raise PoisonproofError(
                f"Mean and scale of an encoder's pictures are three numbers each, no scale 0. Got {self.mean!r} and "
                f"{self.scale!r}."
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
        As in `Encoder`. The place is an ONNX file, or one of weights that ``graph`` makes a network of.
    picture : Picture
        How pictures enter.
    graph : "onnx" or "efficientnet-lite"
        What the file holds.
    """

    picture: Picture = Picture(224, 224)
    graph: str = "onnx"
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its name with the pixels of a side, or its file."""
        return self.place if self.graph == "onnx" else f"{self.record.name}@{self.picture.height}"

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
            identity = f"{self.record.weights} {self.graph} {self.picture}"
            if identity not in _sessions:
                _sessions[identity] = _Session(checked_weights(self.place, self.record.weights), self)
            return _sessions[identity]


class _Session:
    """A network that is open: one thread, one picture at a time."""

    def __init__(self, content: bytes, encoder: ImageEncoder) -> None:
        name, picture = encoder.record.name, encoder.picture
        if encoder.graph == "efficientnet-lite":
            from poisonproof.maps.efficientnet import efficientnet_graph
            from poisonproof.maps.torch_weights import read_torch_weights

            content = efficientnet_graph(read_torch_weights(content))
        self._session = opened_network(content, name, "encoders")
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
                f"with the declared size and layout it would be given one float tensor of shape {shape}."
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
            f"The weights of the encoder are not at {place}; put them there, or install them."
        ) from None
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest:
        raise PoisonproofError(
            f"The weights at {place} have the SHA-256 {actual}, and the record of the encoder says {digest}; they are "
            "others, so nothing that was certified holds for them."
        )
    return content


def located(place: str) -> Path:
    """Where a file lies; of a package, found without importing it."""
    if not place.startswith(PACKAGE):
        return Path(place)
    package, _, file = place.removeprefix(PACKAGE).partition("/")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise PoisonproofError(f"The weights of the encoder come with the package {package}, which is not installed.")
    return Path(spec.submodule_search_locations[0]) / file


def images_of(X: Any, name: str) -> Sequence[NDArray[np.uint8]]:
    """Pictures (height, width, 3) of whole levels; others are rounded and cut to 0 … 255, and what is missing is 0."""
    array = np.asarray(X)
    if array.dtype.kind not in "biuf" or array.ndim not in (3, 4):
        what = "texts or cells" if array.dtype.kind in "OUS" else f"an array of shape {array.shape}"
        raise PoisonproofError(
            f"The encoder {name} takes pictures: arrays (n, height, width) or (n, height, width, colours). Got {what}."
        )
    if array.ndim == 3:
        array = array[..., None]
    if array.shape[3] not in (1, 3) or 0 in array.shape[1:]:
        raise PoisonproofError(
            f"The encoder {name} takes pictures of 1 or 3 colours. Got {array.shape[3]} in an array of shape "
            f"{array.shape}."
        )
    if array.dtype != np.uint8:  # each value by itself, so that no picture can stop the others
        with np.errstate(invalid="ignore"):
            array = np.clip(np.rint(np.nan_to_num(array.astype(np.float64))), 0, 255).astype(np.uint8)
    return [np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3))) for image in array]


def weights_digest(path: str | Path) -> str:
    """SHA-256 of a file of weights."""
    check_may_open(path)
    return hashlib.sha256(read_whole(path, LARGEST_MODEL)).hexdigest()
