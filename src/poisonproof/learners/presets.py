"""Learners by name: a table. Every constant is written down here and none comes from the data at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from poisonproof.errors import PoisonproofError


class Preset(NamedTuple):
    """A learner by name: what it is for, and what makes it, given the columns that hold texts."""

    words: str
    make: Callable[[Sequence[str]], Any]


def _table(texts: Sequence[str]) -> Any:
    from poisonproof.learners.table import TableClassifier

    return TableClassifier()


def _text(texts: Sequence[str]) -> Any:
    from poisonproof.learners.text import TextClassifier

    return TextClassifier(list(texts))


def _bayes(texts: Sequence[str]) -> Any:
    from poisonproof.learners.words import BayesTextClassifier

    return BayesTextClassifier()


def _ridge(texts: Sequence[str]) -> Any:
    from poisonproof.learners.words import RidgeTextClassifier

    return RidgeTextClassifier()


def _trees(method: Literal["forest", "boosting"]) -> Callable[[Sequence[str]], Any]:
    def make(texts: Sequence[str]) -> Any:
        from poisonproof.learners.trees import TreesClassifier

        return TreesClassifier(method)

    return make


def _auto(texts: Sequence[str]) -> Any:
    from poisonproof.learners.auto import AutoClassifier

    return AutoClassifier(list(texts))


def _digits(texts: Sequence[str]) -> Any:
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
    from poisonproof.maps.digits import DigitFeatures

    return KernelRidgeClassifier(DigitFeatures(), kernel="rbf", gamma=5.0, ridge=0.05, balance=0.5)


def _signs(texts: Sequence[str]) -> Any:
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
    from poisonproof.maps.signs import SignFeatures

    return KernelRidgeClassifier(SignFeatures(), kernel="rbf", gamma=0.5, ridge=0.003, balance=0.3)


def _objects(texts: Sequence[str]) -> Any:
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
    from poisonproof.maps.objects import ObjectFeatures

    return KernelRidgeClassifier(ObjectFeatures(), kernel="rbf", gamma=1.0, ridge=0.03, balance=0.7)


def _head(texts: Sequence[str]) -> Any:
    from poisonproof.learners.kernel_ridge import KernelRidgeClassifier

    return KernelRidgeClassifier(kernel="rbf", gamma=1.0, ridge=0.1, balance=0.5)


def _network(*, mirror: bool) -> Callable[[Sequence[str]], Any]:
    def make(texts: Sequence[str]) -> Any:
        from poisonproof.learners.network import TorchClassifier
        from poisonproof.learners.network_in_network import network_in_network

        return TorchClassifier(network_in_network, crop=4, mirror=mirror)

    return make


HEAD = "head"
PRESETS = {
    "table": Preset("logistic regression on numbers, categories and missing values", _table),
    "text": Preset("the same with hashed words, on texts or on a table with columns of texts", _text),
    "auto": Preset(
        "each base classifier chooses by cross-validation in its own subset: `table` or boosted small trees, for texts "
        "`bayes`, `ridge` or `text`",
        _auto,
    ),
    "forest": Preset("extremely randomised trees on numbers, categories and missing values", _trees("forest")),
    "boosting": Preset("gradient boosting on the same; it wants subsets of some hundred samples", _trees("boosting")),
    "bayes": Preset(
        "for texts alone: naive Bayes on hashed words and their pieces, thresholds on texts left out", _bayes
    ),
    "ridge": Preset("for texts alone: ridge regression on the same, its threshold set on texts left out", _ridge),
    "digits": Preset(
        "for grey images of single glyphs: pooled kernel ridge on stroke directions in a metric learned from drawn "
        "digits; constants chosen on MNIST training images held out from the training subsets",
        _digits,
    ),
    "signs": Preset(
        "for images with one emblem in the middle: the same on levelled edge directions and patches; chosen on tracks "
        "of GTSRB's training set held out from the training subsets",
        _signs,
    ),
    "objects": Preset(
        "for small colour photographs: the same on patches compared with procedural pictures, averaged over mirroring; "
        "chosen on CIFAR-10 training images held out from the training subsets",
        _objects,
    ),
    HEAD: Preset(
        "for embeddings, behind --encoder: pooled kernel ridge on them; constants chosen on training samples of "
        "CIFAR-10 held out from the training subsets",
        _head,
    ),
    "nin": Preset(
        "the network of the Finite Aggregation paper with its training recipe, in PyTorch", _network(mirror=False)
    ),
    "nin-mirror": Preset(
        "the same; training images are mirrored too, as the paper does on CIFAR-10", _network(mirror=True)
    ),
}
LEARNERS = tuple(PRESETS)


def preset(name: str, texts: Sequence[str] = ()) -> Any:
    """A fresh learner by its name in `PRESETS`; ``texts`` names the columns of a table that hold texts."""
    if name not in PRESETS:
        raise PoisonproofError(f"There is no learner '{name}'; there are {', '.join(PRESETS)}.")
    return PRESETS[name].make(texts)


TEXT_LEARNERS = ("auto", "text", "bayes", "ridge")
ONLY_TEXTS = ("bayes", "ridge")
THERE_ARE_TEXTS = "there are texts"


def learner_for(schema: Any) -> tuple[str, str, tuple[str, ...]]:
    """The learner for data of this schema, why, and the columns of texts it must know."""
    kind = getattr(schema, "kind", None)
    if kind == "images":
        picked = "objects" if schema.colour else "digits"
        return picked, f"these are {'colour' if schema.colour else 'grey'} images and no encoder is wanted or there", ()
    texts = tuple(schema.named("text")) if kind == "table" else ()
    if texts:
        return ("auto", THERE_ARE_TEXTS, ()) if schema.only_texts else ("text", THERE_ARE_TEXTS, texts)
    if kind == "table":
        return "auto", "these are numbers and categories", ()
    return "table", "these are numbers", ()
