"""Feature maps by name, and as plain values: what the record of a run says of its map is enough to make it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from poisonproof.errors import PoisonproofError
from poisonproof.maps.encoders import Encoder
from poisonproof.maps.hashed import HashedFeatures
from poisonproof.maps.named_encoders import DEFAULT_FOR, encoder
from poisonproof.maps.pictures import PICTURES
from poisonproof.maps.tables import CategoryColumn, NumberColumn, TableFeatures
from poisonproof.maps.vectors import VectorFeatures

OWN = "own"
ENCODER = "encoder"


PLAIN: dict[str, Any] = {"numbers": VectorFeatures, "words": HashedFeatures}
MAPS = (*PLAIN, "table", *PICTURES)


def record_of(features: Any) -> dict[str, Any]:
    """A map as plain values; one that is none of ours is known by name only, and cannot be made again from that."""
    if isinstance(features, Encoder) and features.spec is not None:
        return {"name": ENCODER, "of": features.spec, "digest": features.record.digest}
    for name, kind in PLAIN.items():
        if type(features) is kind:
            return {"name": name, **asdict(features)}
    if type(features) is TableFeatures:
        record = {part.name: getattr(features, part.name) for part in fields(features) if part.name != "columns"}
        record["names"] = None if features.names is None else list(features.names)
        return {"name": "table", "columns": [asdict(column) for column in features.columns], **record}
    for name, make in PICTURES.items():
        if type(features).__name__ == type(make()).__name__ and features == make():
            return {"name": name}
    return {"name": OWN}


def is_default(features: Any) -> bool:
    """Whether this is one of our maps as it stands, which nobody gave a unit, a width or samples, or the encoder that
    some kind of data gets if nobody names one.
    """
    record = record_of(features)
    if record["name"] in PLAIN:
        return bool(features == PLAIN[record["name"]]())
    return record["name"] in PICTURES or record.get("of") in DEFAULT_FOR.values()


def map_of(record: Mapping[str, Any], given: Encoder | None = None) -> Any:
    """The map of what `record_of` wrote, an encoder if need be the one that is given; one sentence if there is none."""
    name, values = record.get("name"), {key: value for key, value in record.items() if key != "name"}
    if name == OWN and given is not None:
        return given
    if name == OWN:
        raise PoisonproofError(
            "The feature map is one of somebody's own, and a record does not hold its code; give the model itself."
        )
    if name == ENCODER:
        made = encoder(str(values.get("of"))) if given is None else given
        if made.record.digest != values.get("digest"):
            raise PoisonproofError(f"The encoder '{values.get('of')}' is not the one on record: its digest is another.")
        return made
    if name in PICTURES:
        return PICTURES[str(name)]()
    if name in PLAIN:
        return PLAIN[str(name)](**values)
    if name != "table":
        raise PoisonproofError(f"There is no feature map '{name}'; there are {', '.join(MAPS)}.")
    columns = tuple((NumberColumn if "unit" in column else CategoryColumn)(**column) for column in values["columns"])
    names = None if values.get("names") is None else tuple(values["names"])
    return TableFeatures(**{**values, "columns": columns, "names": names})
