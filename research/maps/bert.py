"""A sentence encoder of BERT's kind as an ONNX graph, made from its weights: no PyTorch is needed to run it.

The network is read off the shapes of its weights (Devlin et al., 2019; MiniLM is a small one of the same form). The
embedding of a text is the mean of what the last layer says about its tokens. One text enters at a time and unpadded,
so there is no mask and nothing of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError

EPSILON = 1e-12  # of the layer normalisation that such networks are trained with
OPSET = 17
INPUT, OUTPUT = "tokens", "embedding"


def bert_graph(weights: Mapping[str, NDArray[Any]], n_heads: int) -> bytes:
    """The network from the tokens of one text (1, n) to its embedding (1, width), as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph(weights, n_heads)
    try:
        at, layer = graph.begin(), 0
        while f"encoder.layer.{layer}.output.dense.weight" in weights:
            at, layer = graph.layer(at, f"encoder.layer.{layer}"), layer + 1
        if layer == 0:
            raise ValueError("no layers")
    except (KeyError, ValueError, IndexError) as error:
        raise DamagedFileError(f"These are not the weights of a BERT ({error}).") from error
    graph.node("ReduceMean", [at], OUTPUT, axes=[1], keepdims=0)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bert",
            [helper.make_tensor_value_info(INPUT, TensorProto.INT64, [1, None])],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, graph.width])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


class _Graph:
    """Nodes and constants in the making."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], n_heads: int) -> None:
        from onnx import helper, numpy_helper

        self.weights, self.n_heads, self.width = weights, n_heads, 0
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper, self._numpy = helper, numpy_helper

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self._helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        self.constants.append(self._numpy.from_array(np.ascontiguousarray(value, dtype), name))
        return name

    def begin(self) -> str:
        """Vectors of tokens and of their places, added up."""
        words = self.weights["embeddings.word_embeddings.weight"]
        places = self.weights["embeddings.position_embeddings.weight"]
        self.width = words.shape[1]
        if self.width % self.n_heads:
            raise ValueError(f"{self.n_heads} heads do not share {self.width} numbers")
        shape = [0, 0, self.n_heads, self.width // self.n_heads]
        self.constant("heads", shape, np.int64)
        self.constant("joined", [0, 0, self.width], np.int64)
        self.constant("scale", 1 / math.sqrt(shape[-1]))
        for name, value in (("root of two", math.sqrt(2)), ("one", 1.0), ("half", 0.5)):
            self.constant(name, value)
        self.constant("zero", [0], np.int64)
        self.constant("second", [1], np.int64)
        kinds = self.weights["embeddings.token_type_embeddings.weight"][0]  # one text is all of the first kind
        self.node("Gather", [self.constant("words", words), INPUT], "word")
        self.node("Shape", [INPUT], "shape")
        self.node("Slice", ["shape", "second", self.constant("third", [2], np.int64)], "length")
        self.node("Slice", [self.constant("places", places), "zero", "length", "zero"], "place")
        at = self.node("Add", ["word", "place"], "placed")
        at = self.node("Add", [at, self.constant("kind", kinds)], "begun")
        return self.normalised(at, "embeddings.LayerNorm")

    def layer(self, at: str, name: str) -> str:
        """Attention, then two products with GELU between; each added to what came in, and normalised."""
        asked, keys, values = (
            self.by_head(self.product(at, f"{name}.attention.self.{part}"), part == "key")
            for part in ("query", "key", "value")
        )
        scores = self.node("MatMul", [asked, keys], f"{name}.scores")
        scores = self.node("Mul", [scores, "scale"], f"{name}.scaled")
        shares = self.node("Softmax", [scores], f"{name}.shares", axis=-1)
        heads = self.node("MatMul", [shares, values], f"{name}.heads")
        heads = self.node("Transpose", [heads], f"{name}.turned", perm=[0, 2, 1, 3])
        heads = self.node("Reshape", [heads, "joined"], f"{name}.joined")
        out = self.product(heads, f"{name}.attention.output.dense")
        out = self.node("Add", [out, at], f"{name}.attended")
        at = self.normalised(out, f"{name}.attention.output.LayerNorm")
        wide = self.gelu(self.product(at, f"{name}.intermediate.dense"))
        out = self.node("Add", [self.product(wide, f"{name}.output.dense"), at], f"{name}.sum")
        return self.normalised(out, f"{name}.output.LayerNorm")

    def product(self, at: str, name: str) -> str:
        kernel = self.constant(f"{name}.kernel", self.weights[f"{name}.weight"].T)
        out = self.node("MatMul", [at, kernel], f"{name}.product")
        return self.node("Add", [out, self.constant(f"{name}.offset", self.weights[f"{name}.bias"])], f"{name}.out")

    def by_head(self, at: str, turned: bool) -> str:
        out = self.node("Reshape", [at, "heads"], f"{at}.split")
        return self.node("Transpose", [out], f"{at}.head", perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])

    def gelu(self, at: str) -> str:
        out = self.node("Div", [at, "root of two"], f"{at}.divided")
        out = self.node("Add", [self.node("Erf", [out], f"{at}.erf"), "one"], f"{at}.raised")
        return self.node("Mul", [self.node("Mul", [at, out], f"{at}.gated"), "half"], f"{at}.gelu")

    def normalised(self, at: str, name: str) -> str:
        parts = [self.constant(f"{name}.{part}", self.weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self.node("LayerNormalization", [at, *parts], f"{name}.out", epsilon=EPSILON)
