"""What a practitioner would train who fears nobody: the model that the price of a proof is measured against.

The same learner trained on all data says what the split costs; but a learner is chosen to do well on small subsets, and
others do better on all the data at once. These carry no guarantee and are never part of an ensemble.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union

from poisonproof.learners.trees import TreesClassifier
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples

MOST_NUMBERS = 20_000_000
MOST_TEXTS = 200_000
MANY_CATEGORIES = 1000


class Strong(NamedTuple):
    """A learner, and what it is in words."""

    learner: Any
    words: str


def strong_for(samples: Samples, *, images: bool) -> Strong | None:
    """A strong learner for samples of this kind; None where we have none that ends in a few seconds to minutes."""
    if isinstance(samples, TextSamples):
        return _of_texts() if len(samples) <= MOST_TEXTS else None
    if images or len(samples) * samples.n_features > MOST_NUMBERS:
        return None
    if isinstance(samples, NumberSamples):
        return Strong(HistGradientBoostingClassifier(random_state=0), "gradient boosting")
    if isinstance(samples, TableSamples):
        return Strong(StrongTrees(), "gradient boosting")
    return None


def _of_texts() -> Strong:
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    pieces = TfidfVectorizer(ngram_range=(3, 5), analyzer="char_wb", sublinear_tf=True)
    learner = make_pipeline(make_union(words, pieces), LogisticRegression(C=30.0, max_iter=300))
    return Strong(learner, "tf-idf of words and pieces of words, logistic regression")


class StrongTrees(TreesClassifier):
    """Gradient boosting as scikit-learn sets it, on the columns of a table as `TableClassifier` encodes them."""

    def __init__(self) -> None:
        super().__init__("boosting")

    def _trees(self) -> Any:
        return HistGradientBoostingClassifier(random_state=0)
