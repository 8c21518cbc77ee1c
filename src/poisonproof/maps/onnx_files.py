"""Any network in ONNX as an encoder of pictures, with a file beside it that declares how pictures enter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poisonproof.errors import PoisonproofError
from poisonproof.maps.encoders import EncoderRecord
from poisonproof.maps.image_encoders import ImageEncoder, Picture, weights_digest
from poisonproof.system.archives import read_whole
from poisonproof.system.files import check_may_open, reading

DECLARED = ("size", "mean", "scale", "layout", "name", "version", "source", "licence", "trained_on")
EXAMPLE = (
    '{"size": [224, 224], "mean": [123.675, 116.28, 103.53], "scale": [58.395, 57.12, 57.375], "layout": "NCHW", '
    '"trained_on": "ImageNet-1k, public"}'
)


def onnx_encoder(path: str | Path) -> ImageEncoder:
    """The network of an ONNX file, by the declarations in the JSON file of the same name.

    ``size`` (width, height) and ``trained_on`` must stand there; ``mean`` and ``scale`` of the colours, in levels
    from 0 to 255, ``layout``, ``name``, ``version``, ``source`` and ``licence`` may.
    """
    check_may_open(Path(path).absolute())
    model, beside = Path(path), Path(path).with_suffix(".json")
    if not model.is_file():
        raise PoisonproofError(f"There is no ONNX file {model}.")
    if not beside.is_file():
        raise PoisonproofError(
            f"How pictures enter {model.name} must be declared in {beside.name} beside it, such as {EXAMPLE}."
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


def _picture(declared: Any, beside: Path) -> Picture:
    if not isinstance(declared, dict) or "size" not in declared or "trained_on" not in declared:
        raise PoisonproofError(f"{beside} must declare at least 'size' and 'trained_on', such as {EXAMPLE}.")
    if unknown := sorted(set(declared) - set(DECLARED)):
        raise PoisonproofError(
            f"{beside} declares '{unknown[0]}', which no encoder has; it may say {', '.join(DECLARED)}."
        )
    size = declared["size"]
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) for side in size)):
        raise PoisonproofError(f"The 'size' in {beside} must be [width, height] in pixels. Got {size!r}.")
    numbers = {name: _three(declared[name], name, beside) for name in ("mean", "scale") if name in declared}
    return Picture(size[1], size[0], **numbers, layout=str(declared.get("layout", "NCHW")))


def _three(value: Any, name: str, beside: Path) -> tuple[float, float, float]:
    numbers = isinstance(value, list) and all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in value
    )
    if not numbers or len(value) != 3:
        raise PoisonproofError(f"The '{name}' in {beside} must be three numbers, one for each colour. Got {value!r}.")
    return float(value[0]), float(value[1]), float(value[2])
