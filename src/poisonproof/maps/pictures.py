"""Our own maps of pictures, by name: formulas, whose constants are written down and come from no data at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _digits() -> Any:
    from poisonproof.maps.digits import DigitFeatures

    return DigitFeatures()


def _signs() -> Any:
    from poisonproof.maps.signs import SignFeatures

    return SignFeatures()


def _objects() -> Any:
    from poisonproof.maps.objects import ObjectFeatures

    return ObjectFeatures()


PICTURES: dict[str, Callable[[], Any]] = {"digits": _digits, "signs": _signs, "objects": _objects}
