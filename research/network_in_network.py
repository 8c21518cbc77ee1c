"""Network-in-Network, which the paper's base classifiers are: three stages of one wide and two 1 × 1 convolutions.

Lin, Chen and Yan, "Network In Network", 2014, in the form that Gidaris, Singh and Komodakis, "Unsupervised
representation learning by predicting image rotations", 2018, trained, and whose recipe `TorchClassifier` has as its
defaults.
"""

from __future__ import annotations

import math
from typing import Any

from poisonproof.errors import PoisonproofError
from poisonproof.learners.network import imported_torch

STAGES = (
    ((192, 5), (160, 1), (96, 1)),
    ((192, 5), (192, 1), (192, 1)),
    ((192, 3), (192, 1), (192, 1)),
)


def network_in_network(shape: tuple[int, ...], n_classes: int) -> Any:
    """A fresh network for images of shape (channels, height, width)."""
    if len(shape) != 3:
        raise PoisonproofError(
            f"Network-in-Network needs images, (n, height, width) or (n, height, width, channels). Got vectors of "
            f"{math.prod(shape)} features."
        )
    torch = imported_torch()
    nn = torch.nn
    channels, height, width = shape
    layers: list[Any] = []
    for stage, convolutions in enumerate(STAGES):
        for out, size in convolutions:
            layers += [_convolution(nn, channels, out, size), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        if stage < 2:
            layers.append((nn.MaxPool2d, nn.AvgPool2d)[stage](3, stride=2, padding=1))
            height, width = -(-height // 2), -(-width // 2)
    last = nn.Linear(channels, n_classes)
    nn.init.zeros_(last.bias)
    network = nn.Sequential(*layers, nn.AvgPool2d((height, width)), nn.Flatten(), last)
    return network.to(memory_format=torch.channels_last)  # a quarter faster on a CPU


def _convolution(nn: Any, channels: int, out: int, size: int) -> Any:
    """A convolution without bias; weights normal with variance 2 / (size² · outputs)."""
    layer = nn.Conv2d(channels, out, size, padding=size // 2, bias=False)
    nn.init.normal_(layer.weight, std=math.sqrt(2 / (size * size * out)))
    return layer
