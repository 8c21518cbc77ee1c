"""Learners by name, for the command line. Every constant is written down here and none comes from the data at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poisonproof.errors import PoisonproofError

LEARNERS = ("table", "text", "digits", "signs", "objects", "nin", "nin-mirror")


def preset(name: str, texts: Sequence[str] = ()) -> Any:
    """A fresh learner.

    ``table``: logistic regression on numbers, categories and missing values. ``text``: the same with hashed words,
    on a text or on a table of which ``texts`` names the columns of texts. ``digits``: pooled kernel ridge on
    stroke directions in a metric learned from drawn digits, for grey images of single glyphs; its constants were chosen
    on MNIST training images held out from the training subsets. ``signs``: the same on levelled edge directions and
    patches, for images with one emblem in the middle; chosen on tracks of GTSRB's training set held out from the
    training subsets. ``objects``: the same on
    patches compared with procedural pictures, for small colour photographs, averaged over mirroring; chosen on
    CIFAR-10 training images held out from the training subsets. ``nin``: the network of the Finite Aggregation paper
    with its training recipe, in PyTorch; ``nin-mirror`` also mirrors training images, as the paper does on CIFAR-10.
    """
    if name == "table":
        from poisonproof.learners.table import TableClassifier

        return TableClassifier()
    if name == "text":
        from poisonproof.learners.text import TextClassifier

        return TextClassifier(list(texts))
    if name == "digits":
        from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
        from poisonproof.maps.digits import DigitFeatures

        return KernelRidgeClassifier(DigitFeatures(), kernel="rbf", gamma=5.0, ridge=0.05, balance=0.5)
    if name == "signs":
        from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
        from poisonproof.maps.signs import SignFeatures

        return KernelRidgeClassifier(SignFeatures(), kernel="rbf", gamma=0.5, ridge=0.003, balance=0.3)
    if name == "objects":
        from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
        from poisonproof.maps.objects import ObjectFeatures

        return KernelRidgeClassifier(ObjectFeatures(), kernel="rbf", gamma=1.0, ridge=0.03, balance=0.7)
    if name in ("nin", "nin-mirror"):
        from poisonproof.learners.network import TorchClassifier
        from poisonproof.learners.network_in_network import network_in_network

        return TorchClassifier(network_in_network, crop=4, mirror=name == "nin-mirror")
    raise PoisonproofError(f"There is no learner '{name}'; there are {', '.join(LEARNERS)}.")


def learner_for(schema: Any) -> tuple[str, str, tuple[str, ...]]:
    """The learner for data of this schema, why, and the columns of texts it must know."""
    kind = getattr(schema, "kind", None)
    if kind == "images":
        return "table", "these are images: logistic regression on their pixels", ()
    texts = tuple(schema.named("text")) if kind == "table" else ()
    if texts:
        return "text", "there are texts", () if schema.only_texts else texts
    return "table", "these are numbers and categories", ()
