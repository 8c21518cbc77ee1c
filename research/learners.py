"""Learners of the paper's and the frontier's rows, from the repository's root: `--learner research.learners:digits`.

Every constant is written down here and none comes from the data at hand: kernel ridge on maps that know something of
their pictures, and the paper's own network.
"""

from __future__ import annotations

from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.network import TorchClassifier
from research.maps.digits import DigitFeatures
from research.maps.objects import ObjectFeatures
from research.maps.signs import SignFeatures
from research.network_in_network import network_in_network


def digits() -> KernelRidgeClassifier:
    """For handwritten digits: stroke directions in a metric learned from drawn digits.

    Constants were chosen on MNIST training images held out from the training subsets.
    """
    return KernelRidgeClassifier(DigitFeatures(), kernel="rbf", gamma=5.0, ridge=0.05, balance=0.5)


def signs() -> KernelRidgeClassifier:
    """For images with one emblem in the middle: levelled edge directions and patches.

    Constants were chosen on tracks of GTSRB's training set held out from the training subsets.
    """
    return KernelRidgeClassifier(SignFeatures(), kernel="rbf", gamma=0.5, ridge=0.003, balance=0.3)


def objects() -> KernelRidgeClassifier:
    """For small colour photographs: patches compared with procedural pictures, averaged over mirroring.

    Constants were chosen on CIFAR-10 training images held out from the training subsets.
    """
    return KernelRidgeClassifier(ObjectFeatures(), kernel="rbf", gamma=1.0, ridge=0.03, balance=0.7)


def nin() -> TorchClassifier:
    """The network of the Finite Aggregation paper with its training recipe."""
    return TorchClassifier(network_in_network, crop=4)


def nin_mirror() -> TorchClassifier:
    """The same; training images are mirrored too, as the paper does on CIFAR-10."""
    return TorchClassifier(network_in_network, crop=4, mirror=True)
