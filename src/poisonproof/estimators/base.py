"""What every ensemble here shares: reading test samples, the learner, and what stands around a model that is fitted.

A step that was fitted on all training samples before ours split them carries one poisoned sample to every base
classifier. A search that picked k, d or the learner by scores on this data made them a premise. Both are the caller's
to know; where scikit-learn's own `Pipeline.fit` or a search's `fit` calls us, we see them too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.display import shown
from poisonproof.errors import PoisonproofError
from poisonproof.learners.inspection import fitted_parts
from poisonproof.premises import Premise, PremiseWarning
from poisonproof.samples.frames import as_frame, is_frame
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples
from poisonproof.samples.labels import Cell, label_cells, one_by_one, places_of
from poisonproof.system.machine import is_a

BEFORE = "fitted-before-the-split"
NOTHING_BEFORE = Premise(BEFORE, [], declared=None)
STATELESS = (  # they learn nothing, and scikit-learn 1.6 does not say so of the second
    "sklearn.feature_extraction._hash.FeatureHasher",
    "sklearn.feature_extraction.text.HashingVectorizer",
)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training samples in canonical form, with the code and the cell of each label; -1 for those to leave out.

    ``oddities`` are sentences about what was left out, counts as missing, or is a text that nobody reads as one;
    ``typed`` are premises about labels and contributor ids.
    """

    learner: Any
    samples: Samples
    codes: NDArray[np.int64]
    cells: list[Cell]
    classes: NDArray[Any]
    oddities: tuple[str, ...]
    n_features: int
    feature_names: NDArray[Any] | None
    typed: tuple[Premise, ...] = ()


class CertifiedClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier whose predictions come with certificates: what all of them share.

    Subclasses have the parameter ``classes`` and set ``classes_``, ``kind_of_samples_`` and ``premises_``.
    """

    _chosen_by: ClassVar[dict[str, tuple[str, ...]]] = {
        "spread": ("k", "d", "spread"),
        "split": ("split",),
        "learner": ("estimator",),
        "classes": ("classes",),
    }
    """The parameters that a premise states, by its code."""
    classes: Sequence[Any] | None
    classes_: NDArray[Any]
    kind_of_samples_: str
    n_dropped_: int
    premises_: tuple[Premise, ...]

    def _restated(self, fitted: Sequence[str], chosen: Sequence[str]) -> tuple[Premise, ...]:
        """The premises after what `seen_around` saw: what a search chose, or was fitted before, is not declared."""
        heads, premises = {name.partition("__")[0] for name in chosen}, []
        for premise in self.premises_:
            if premise.code == BEFORE and fitted:
                premise = Premise(BEFORE, list(fitted), declared=False)
            elif heads & set(self._chosen_by.get(premise.code, ())):
                premise = replace(premise, declared=False)
            premises.append(premise)
        return tuple(premises)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of samples whose prediction is the given label, by value: 1, 1.0 and "1" are one label."""
        cells = label_cells(self.classes_.tolist())
        answers, truth = (places_of(label_cells(one_by_one(labels)), cells) for labels in (self.predict(X), y))
        return float(np.average(answers == truth, weights=sample_weight))

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and beneath it what is certified; for notebooks."""
        from poisonproof.display import model_html

        return str(super()._repr_html_inner()) + model_html(self)

    def _repr_mimebundle_(self, **more: Any) -> dict[str, str]:
        from poisonproof.display import model_html

        bundle: dict[str, str] = super()._repr_mimebundle_(**more)
        return {kind: text + model_html(self) if kind == "text/html" else text for kind, text in bundle.items()}

    def _set_read(self, data: TrainingData) -> None:
        """Keep what scikit-learn and later samples ask for."""
        self.classes_, self.kind_of_samples_, self.n_features_in_ = data.classes, data.samples.kind, data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = data.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _see_surroundings(
        self,
        danger: str = "before the split; one poisoned sample can reach every base classifier that way, and then no "
        "radius holds; put it inside the estimator (see check_pipeline).",
    ) -> None:
        """State in the premises what is seen around this fit, and warn of steps that were fitted before the split."""
        fitted, chosen = seen_around(self)
        self.premises_ = self._restated(fitted, chosen)
        if fitted:
            warn(f"In the pipeline, {'; '.join(fitted)}, {danger}")

    def _read_test(self, X: Any, split: Split) -> Samples:
        """Test samples in canonical form, of the same kind and width as the training samples."""
        X = as_frame(X)
        kind, given = self.kind_of_samples_, X
        if isinstance(X, Samples):
            pass  # in canonical form already
        elif kind == "tables" and not is_frame(X):
            X = self._as_frame(X)
        elif kind == "numbers" and (is_frame(X) or issparse(X)):
            X = np.asarray(X.toarray() if issparse(X) else X)
        elif kind == "sparse rows" and not issparse(X):
            X = csr_matrix(np.asarray(X))
        samples = split.samples(X)
        if samples.kind != kind:
            raise PoisonproofError(f"The model was fitted on {kind}, but X holds {samples.kind}.", code="samples.kind")
        names = getattr(self, "feature_names_in_", None)
        if names is None or not is_frame(given) or given.columns.tolist() != names.tolist():  # else nothing is wrong
            validate_data(self, outline(given, samples), reset=False, skip_check_array=True)
        for oddity in samples.oddities:
            warn(f"{oddity}, in the samples to be answered.")
        return samples

    def _as_frame(self, X: Any) -> Any:
        import pandas as pd

        cells = np.empty((0,)) if issparse(X) else np.asarray(X, dtype=object)
        if cells.ndim != 2:
            raise PoisonproofError(
                f"The model was fitted on a DataFrame; X must be one, or rows of cells. Got {type(X).__name__}.",
                code="samples.kind",
            )
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        if cells.shape[1] != len(names):
            raise PoisonproofError(
                f"X has {cells.shape[1]} features, but the model is expecting {len(names)} features as input.",
                code="samples.features",
            )
        return pd.DataFrame(cells, columns=list(names))


class EnsembleClassifier(CertifiedClassifier):
    """A scikit-learn classifier made of base classifiers, each trained on a subset of its own.

    Subclasses have the parameters ``estimator``, ``classes`` and ``trusted_state`` and set ``subset_sizes_``,
    ``n_dropped_`` and ``premises_``.
    """

    estimator: Any
    trusted_state: bool
    subset_sizes_: NDArray[np.int64]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(learner_of(self)).input_tags.sparse
        tags.input_tags.string = True  # texts, tables, and odd cells of arrays, which are missing in their own row
        tags.input_tags.allow_nan = True  # where the learner takes no missing values, such samples are left out
        return tags


def learner_of(model: Any, samples: Samples | None = None) -> Any:
    """The learner of an ensemble: the one given, or the default for samples of this kind, as on the command line.

    Behind an encoder, if there is one.
    """
    encoder = getattr(model, "encoder", None)
    if encoder is not None:
        head = registry.find("learners", "head")() if model.estimator is None else model.estimator
        return registry.in_front(encoder, head)
    if model.estimator is not None:
        return model.estimator
    return registry.find("learners", "auto" if isinstance(samples, TextSamples) else "table")()


def warn(text: str) -> None:
    """Tell the user of a fitted model what a reader of its certificates must know."""
    warnings.warn(shown(text), PremiseWarning, stacklevel=4)


def outline(X: Any, samples: Samples) -> Any:
    """What scikit-learn checks names and numbers of features on: a frame of such columns, or an array as wide."""
    if isinstance(X, TableSamples):
        import pandas as pd

        return pd.DataFrame(columns=pd.Index([column.name for column in X.columns]))
    return X if is_frame(X) else np.broadcast_to(0.0, (len(samples), samples.n_features))


def seen_around(model: Any) -> tuple[list[str], list[str]]:
    """What was fitted before the split, in words, and parameters that a search chose, by the calls that led here.

    Nothing where those cannot be read.
    """
    try:
        return _seen(model)
    except Exception:  # what others keep in their frames is no reason to fail
        return [], []


def _seen(model: Any) -> tuple[list[str], list[str]]:
    fitted: list[str] = []
    chosen: list[str] = []
    carried, prefix = model, ""
    for caller in _callers():
        if is_a(caller, "sklearn.pipeline", "Pipeline") and caller.steps[-1][1] is carried:
            fitted += [words for name, step in caller.steps[:-1] for words in _fitted_before(name, step)]
            carried, prefix = caller, f"{caller.steps[-1][0]}__{prefix}"
        elif (
            is_a(caller, "sklearn.model_selection._search", "BaseSearchCV")
            and getattr(caller, "best_estimator_", None) is carried
        ):
            names = list(caller.best_params_)
            chosen += [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
            carried, prefix = caller, ""
    return fitted, chosen


def _fitted_before(name: str, step: Any) -> list[str]:
    learning = [
        f"step '{path}' ({type(inner).__name__}) was fitted on all training samples"
        for path, inner in learning_steps(name, step)
    ]
    return learning + [f"step '{name}' given fitted, {part}" for part in fitted_parts(step)]


def _callers() -> Iterator[Any]:
    """The objects whose methods are running, from the inside out."""
    frame = sys._getframe(1)
    while frame is not None:
        if "self" in frame.f_code.co_varnames:
            yield frame.f_locals.get("self")
        frame = frame.f_back  # type: ignore[assignment]


def learning_steps(path: str, step: Any) -> list[tuple[str, Any]]:
    """Steps that need fitting, inside compound ones too."""
    if step is None or isinstance(step, str):
        return []
    if is_a(step, "sklearn.pipeline", "Pipeline"):
        inner: Sequence[tuple[str, Any]] = step.steps
    elif is_a(step, "sklearn.pipeline", "FeatureUnion"):
        inner = step.transformer_list
    elif is_a(step, "sklearn.compose", "ColumnTransformer"):
        if any(callable(columns) for _, _, columns in step.transformers):
            return [(path, step)]  # it chooses its columns by looking at the data
        inner = [*((name, part) for name, part, _ in step.transformers), ("remainder", step.remainder)]
    elif is_a(step, "sklearn.frozen", "FrozenEstimator"):
        return []  # it was given fitted and learns no more
    else:
        learns = get_tags(step).requires_fit and f"{type(step).__module__}.{type(step).__qualname__}" not in STATELESS
        return [(path, step)] if learns else []
    return [learning for name, part in inner for learning in learning_steps(f"{path}__{name}", part)]
