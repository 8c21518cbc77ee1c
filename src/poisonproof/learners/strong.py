"""What a practitioner would train who fears nobody: the model that the price of a proof is measured against.

The same learner trained on all data says what the split costs; but a learner is chosen to do well on small subsets, and
others do better on all the data at once. These carry no guarantee and are never part of an ensemble.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline, make_union

from poisonproof import registry
from poisonproof.learners.presets import HEAD, preset
from poisonproof.learners.table import Cells, TableClassifier, holds_numbers
from poisonproof.learners.trees import TreesClassifier
from poisonproof.samples.kinds import NumberSamples, Samples, TableSamples, TextSamples

MOST_NUMBERS = 20_000_000
MOST_TEXTS = 200_000
MOST_IMAGES = 5_000
MOST_CATEGORIES = 254
MOST_ENCODED = 4_000_000  # numbers of a table whose categories are columns of noughts and ones
FOLDS = 3


class Strong(NamedTuple):
    """A learner, and what it is in words."""

    learner: Any
    words: str


def strong_for(samples: Samples, *, images: bool, texts: Sequence[str] = ()) -> Strong | None:
    """A strong learner for samples of this kind; None where we have none that ends in a few seconds to minutes.

    ``texts`` names the columns of a table that hold texts.
    """
    if isinstance(samples, TextSamples):
        return (
            Strong(_of_texts(), "tf-idf of words and pieces of words, logistic regression") if _few(samples) else None
        )
    if images:
        return _of_images(samples)
    if len(samples) * samples.n_features > MOST_NUMBERS:
        return None
    if isinstance(samples, NumberSamples):
        return Strong(HistGradientBoostingClassifier(random_state=0), "gradient boosting")
    if isinstance(samples, TableSamples):
        if not texts:
            return Strong(StrongTrees(), "gradient boosting")
        return Strong(StrongMixed(texts), "gradient boosting, tf-idf of the texts") if _few(samples) else None
    return None


def _few(samples: Samples) -> bool:
    return len(samples) <= MOST_TEXTS


def _of_images(samples: Samples) -> Strong | None:
    """For colour photographs the usual encoder with its head, where it is installed; for grey ones the preset."""
    if not isinstance(samples, NumberSamples) or samples.values.ndim not in (3, 4) or len(samples) > MOST_IMAGES:
        return None
    if samples.values.ndim == 3 or samples.values.shape[-1] == 1:
        return Strong(preset("glyphs"), "the preset glyphs")
    usual = registry.find("usual encoders", "images")()
    if usual is None:
        return None
    return Strong(registry.in_front(registry.encoder(usual), preset(HEAD)), f"the encoder {usual}, kernel ridge")


def _of_texts() -> Any:
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    pieces = TfidfVectorizer(ngram_range=(3, 5), analyzer="char_wb", sublinear_tf=True)
    return make_pipeline(make_union(words, pieces), LogisticRegression(C=30.0, max_iter=300))


class StrongTrees(TreesClassifier):
    """Gradient boosting as scikit-learn sets it, on the columns of a table.

    Categories are encoded as `TableClassifier` does, or, where that would make a wide table of a long one, given to the
    trees as such: the most frequent `MOST_CATEGORIES` of a column, the others as unknown.
    """

    takes_columns = True  # see poisonproof.samples.batches

    def __init__(self) -> None:
        super().__init__("boosting")

    def fit(self, X: Any, y: Any) -> Self:
        """Train on a DataFrame."""
        self.categorical_ = [at for at in range(X.shape[1]) if not holds_numbers(X, at)]
        cells = Cells.of(X, self.categorical_)
        self.known_ = {at: _most_frequent(*column) for at, column in cells.categories.items()}
        width = cells.numbers.shape[1] + sum(map(len, self.known_.values()))
        self.encodes_ = len(cells.numbers) * width <= MOST_ENCODED
        if self.encodes_:
            return super().fit(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.trees_ = self._trees().set_params(categorical_features=self._places(cells)).fit(self._given(cells), codes)
        return self

    def _trees(self) -> Any:
        return HistGradientBoostingClassifier(random_state=0)

    def _encoded(self, X: Any, *, fitting: bool = False) -> Any:
        return super()._encoded(X, fitting=fitting) if self.encodes_ else self._given(Cells.of(X, self.categorical_))

    def _places(self, cells: Cells) -> list[int]:
        n_numbers = cells.numbers.shape[1]
        return list(range(n_numbers, n_numbers + len(cells.categories)))

    def _given(self, cells: Cells) -> NDArray[np.float64]:
        """Numbers as they are, and the numbers of categories behind them."""
        columns = [cells.numbers]
        for at, (places, names) in cells.categories.items():
            columns.append(np.array([self.known_[at].get(name, np.nan) for name in names], np.float64)[places, None])
        return np.hstack(columns)


def _most_frequent(places: NDArray[Any], names: list[str]) -> dict[str, int]:
    """Numbers of the most frequent names among these places, in their order."""
    counts: Counter[str] = Counter()
    for name, count in zip(names, np.bincount(places % len(names), minlength=len(names)).tolist(), strict=True):
        counts[name] += count
    kept = [name for name, count in counts.most_common(MOST_CATEGORIES) if count]
    return {name: number for number, name in enumerate(sorted(kept))}


class StrongMixed(ClassifierMixin, BaseEstimator):
    """Gradient boosting on the columns of a table and, for each column of texts, on what tf-idf makes of it.

    The scores of a text that boosting learns from are those of a model that has not seen it (out of fold), as a
    practitioner stacks models.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on a DataFrame."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.readers_ = {name: _of_texts().fit(self._text(X, name), codes) for name in self.texts}
        rest = X.drop(columns=list(self.texts))
        self.table_ = TableClassifier()._learn_encoding(rest) if rest.shape[1] else None
        folds = StratifiedKFold(min(FOLDS, int(np.bincount(codes).min())), shuffle=True, random_state=0)
        unseen = [
            cross_val_predict(_of_texts(), self._text(X, name), codes, cv=folds, method="predict_proba")
            for name in self.texts
        ]
        self.trees_ = HistGradientBoostingClassifier(random_state=0).fit(self._columns(X, unseen), codes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class."""
        scores = [reader.predict_proba(self._text(X, name)) for name, reader in self.readers_.items()]
        return np.asarray(self.classes_[self.trees_.predict(self._columns(X, scores))])

    def _text(self, X: Any, name: str) -> list[str]:
        return ["" if text is None or text != text else str(text) for text in X[name].tolist()]

    def _columns(self, X: Any, scores: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        if self.table_ is None:
            return np.column_stack(scores)
        encoded = self.table_._encode(X.drop(columns=list(self.texts)))
        dense = encoded.toarray() if sp.issparse(encoded) else np.asarray(encoded)
        return np.column_stack([dense, *scores])
