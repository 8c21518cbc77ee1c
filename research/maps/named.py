"""Encoders of the frontier by name: MiniLM, two side by side, or one with a map of ours beside it."""

from __future__ import annotations

import poisonproof
from poisonproof import registry
from poisonproof.encoders.base import Encoder
from research.maps.encoder_pair import EncoderPair
from research.maps.joined import JoinedEncoder, joined_parts

if "minilm" not in registry.names("encoders"):
    registry.add("encoders", "minilm", "research.maps.sentence_encoders:minilm")


def encoder(name: str) -> Encoder:
    """``efficientnet-lite0@96+2*signs``, ``efficientnet-lite0+wordllama``, ``minilm``, or one of the library's."""
    if (joined := joined_parts(name)) is not None:
        return JoinedEncoder.of(encoder(joined[0]), *joined[1:])
    if (pair := joined_parts(name, registry.names("encoders"))) is not None:
        return EncoderPair.of(encoder(pair[0]), poisonproof.encoder(pair[1]), pair[2])
    return poisonproof.encoder(name)
