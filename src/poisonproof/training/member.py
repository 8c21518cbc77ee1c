"""One base classifier: any scikit-learn classifier, trained on its own subset and nothing else.

The vote of a base classifier on a sample is a function of its subset, its index and the sample. So
here a clone is seeded by its index, held at one job, fed its subset in canonical order with labels
encoded within the subset, and never told about other samples, other labels or the class list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError, UnnamedFileError
from poisonproof.learners.inspection import SeededClones
from poisonproof.samples.batches import ONE_BY_ONE, declares, takes_columns, takes_texts
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples, TrainingSet
from poisonproof.system.determinism import reproducible, with_limited_libraries

BATCH = 512
BY_ROW = {("sklearn.naive_bayes", "GaussianNB")}
"""Classes whose sums go along a row, and nowhere else: no bit of an answer knows how many rows there are."""
# What a learner may raise through no fault of its subset: falling back would hide it.
NOT_THE_SUBSETS_FAULT = (MemoryError, OSError, ImportError, RecursionError, BrokenExecutor, UnnamedFileError)


@dataclass(frozen=True)
class Member:
    """A fitted base classifier.

    Attributes
    ----------
    index : int
        What it is seeded with: its subset, or a number drawn with it.
    model : object or None
        The fitted classifier; None where the subset is empty, of one class, or made the learner fail.
    codes : array
        The class codes its subset holds, in increasing order; the model predicts positions in it.
    fallback : int or None
        The most frequent code of the subset (ties to the smallest), said where the model cannot.
        None for an empty subset, which abstains.
    form : object
        What the samples it was trained on looked like (see `Samples.form_of`).
    failure : str or None
        What the learner raised on the subset.
    """

    index: int
    model: Any
    codes: NDArray[np.int64]
    fallback: int | None
    form: Any = None
    failure: str | None = None


def fit_member(learner: Any, seed: int, subset: TrainingSet, make: Callable[[int], Any] | None = None) -> Member:
    """Train the base classifier of this seed on a subset in canonical order; ``make`` makes its clones.

    A learner that raises does not stop training, or one poisoned sample could; its base classifier
    says the most frequent class of its subset, which is a function of the subset too. Lack of memory,
    time-outs and the like are no property of the subset and are passed on.
    """
    samples, codes, rows = subset
    make = SeededClones(learner) if make is None else make
    fed = codes[rows]
    counts = np.bincount(fed)
    held = np.flatnonzero(counts)
    if len(held) == 0:
        return Member(seed, None, held, None)
    local = (np.cumsum(counts > 0) - 1)[fed]
    fallback = int(counts.argmax())
    if len(held) == 1:
        return Member(seed, None, held, fallback)
    form = samples.form_of(rows)

    def fitted() -> Any:
        model = make(seed)
        with reproducible(seed):
            model.fit(fed_to(model, samples, rows, form), local.copy())
        return model

    try:
        model = with_limited_libraries(fitted)
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception as error:
        return Member(seed, None, held, fallback, failure=f"{type(error).__name__}: {error}")
    return Member(seed, model, held, fallback, form)


def fed_to(learner: Any, samples: Samples, rows: NDArray[np.int64], form: Any) -> Any:
    """These samples as a learner takes them: tables by column if it can, as a frame if not; texts likewise."""
    if isinstance(samples, TableSamples) and takes_columns(learner):
        return samples.by_column(rows, form)
    if isinstance(samples, TextSamples) and takes_texts(learner):
        return samples.batch(rows)
    return samples.take(rows, form)


def vote_of(
    member: Member, fed: Any, n_samples: int, abstention: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    """The base classifier's votes on samples it is fed, where it raised and fell back, and why.

    If it raises on the batch it is asked sample by sample, so that a sample it cannot answer does not
    decide the votes on the others.
    """
    refused = np.zeros(n_samples, np.bool_)
    if member.model is None:
        return np.full(n_samples, abstention if member.fallback is None else member.fallback), refused, None
    try:
        return member.codes[_answers(member, fed, n_samples)], refused, None
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception:
        votes, reason = np.full(n_samples, member.fallback), None
    for row in range(n_samples):
        try:
            votes[row] = member.codes[_answers(member, _one(fed, row), 1)[0]]
        except NOT_THE_SUBSETS_FAULT:
            raise
        except Exception as error:
            refused[row] = True
            reason = reason or f"{type(error).__name__}: {error}"
    return votes, refused, reason


def ranking_of(
    member: Member, fed: Any, votes: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], str | None]:
    """The base classifier's rankings of the samples it is fed (see `poisonproof.core.votes`), with its votes in
    first place, where it gave no scores, and why.

    It ranks the classes of its subset, by score, the smaller class first among equals. Where it gives no score, they
    stand behind its vote in their order.
    """
    rankings, n_held = np.full((len(votes), n_classes), n_classes), len(member.codes)
    scores, reason = np.zeros((len(votes), n_held)), None
    if member.model is not None and n_held > 2:
        scores, reason = _scores_of(member, fed, len(votes))
    if member.fallback is not None:
        rankings[:, :n_held] = member.codes[ranked_by_score(scores, np.searchsorted(member.codes, votes))]
    return rankings, np.asarray(np.isnan(scores).any(axis=1)), reason


def gives_scores(model: Any) -> bool:
    """Whether a classifier can say more than its vote."""
    return hasattr(model, "decision_function") or hasattr(model, "predict_proba")


def check_gives_scores(learner: Any) -> None:
    """Refuse a base classifier that only votes, where rankings are asked for."""
    if not gives_scores(learner):
        raise PoisonproofError(
            f"Rankings need scores, and {type(learner).__name__} has neither decision_function nor predict_proba; "
            "choose a base classifier that has one, or a certificate that needs votes alone."
        )


def _scores_of(member: Member, fed: Any, n_samples: int) -> tuple[NDArray[np.float64], str | None]:
    """Scores, an array (n_samples, classes of the subset), and why some are missing.

    They are NaN where it raises, found sample by sample as for votes.
    """
    reason = "a score is NaN"

    def ask(batch: Any) -> NDArray[np.float64]:
        return _scores(member, batch, batch.shape[0])

    try:
        scores = predict_in_batches(member.model, ask, fed, n_samples)
        return scores, reason if np.isnan(scores).any() else None
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception:
        scores = np.full((n_samples, len(member.codes)), np.nan)
    for row in range(n_samples):
        try:
            scores[row] = predict_in_batches(member.model, ask, _one(fed, row), 1)[0]
        except NOT_THE_SUBSETS_FAULT:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    return scores, reason


def _scores(member: Member, fed: Any, n_samples: int) -> NDArray[np.float64]:
    def asked() -> Any:
        with reproducible(member.index):
            ask = getattr(member.model, "decision_function", None) or member.model.predict_proba
            return ask(fed.copy())  # it may change what it is fed

    scores = np.asarray(with_limited_libraries(asked), np.float64)
    if scores.shape != (n_samples, len(member.codes)):
        raise PoisonproofError("the base classifier did not give one score for each label it was trained on")
    return scores


def _answers(member: Member, fed: Any, n_samples: int) -> NDArray[np.int64]:
    if _multiplies(member.model, fed):
        return _positions(_products(member.model, fed))
    return predict_in_batches(member.model, lambda batch: _predict(member, batch), fed, n_samples)


def _one(fed: Any, row: int) -> Any:
    return fed.iloc[row : row + 1] if hasattr(fed, "iloc") else fed[row : row + 1]


def _predict(member: Member, fed: Any) -> NDArray[np.int64]:
    def asked() -> Any:
        with reproducible(member.index):
            return member.model.predict(fed.copy())  # it may change what it is fed

    return _positions(np.asarray(with_limited_libraries(asked)))


def _positions(answers: NDArray[Any]) -> NDArray[np.int64]:
    positions = answers.astype(np.int64)
    if answers.ndim != 1 or not np.array_equal(positions, answers) or positions.min(initial=0) < 0:
        raise PoisonproofError("the base classifier did not predict one of the labels it was trained on")
    return positions


def predict_in_batches(model: Any, ask: Callable[[Any], NDArray[Any]], fed: Any, n_samples: int) -> NDArray[Any]:
    """The answers of ``ask`` on samples as they are fed, always `BATCH` at a time; the last one fills up.

    The last bits of a matrix product depend on how many rows there are and on which of them are left over by the
    processor's kernels. Somebody's poison may fall into the held-out set, and one test sample more would then move the
    last bits, and a tied vote, of others. In batches of one size, a multiple of what kernels take at once, no row is
    left over. A learner whose own class says ``answers_one_by_one`` is asked about all samples at once.
    """
    if declares(model, ONE_BY_ONE) or n_samples == 0:
        return ask(fed)
    if (type(model).__module__, type(model).__qualname__) in BY_ROW and isinstance(fed, np.ndarray):
        return np.concatenate([ask(fed[start : start + BATCH]) for start in range(0, n_samples, BATCH)])
    return np.concatenate([ask(batch)[: n_samples - start] for start, batch in batches(fed, n_samples)])


def batches(fed: Any, n_samples: int) -> Iterator[tuple[int, Any]]:
    """Where each batch starts, and its samples; the last one fills up with the last sample."""
    for start in range(0, n_samples, BATCH):
        if start + BATCH <= n_samples and isinstance(fed, np.ndarray) and fed.flags.c_contiguous:
            yield start, fed[start : start + BATCH]
        else:
            yield start, _rows_of(fed, np.minimum(np.arange(start, start + BATCH), n_samples - 1))


def _rows_of(fed: Any, rows: NDArray[np.int64]) -> Any:
    """These rows of what is fed, always in one layout of memory, on which the last bits of a product depend too.

    What pandas takes out of a frame has the layout of that frame, and a frame of one row has another than one of two.
    One that is put together anew has always the same.
    """
    if not hasattr(fed, "iloc"):
        return fed[rows]
    if len(set(fed.dtypes)) == 1 and isinstance(fed.dtypes.iloc[0], np.dtype):
        return type(fed)(np.array(fed.to_numpy()[rows], order="C"), columns=fed.columns)
    taken = fed.take(rows)
    columns = {at: taken.iloc[:, at].array for at in range(taken.shape[1])}
    return type(fed)(columns, index=range(len(rows))).set_axis(fed.columns, axis=1)


def _multiplies(model: Any, fed: Any) -> bool:
    """Whether what this model says of these samples is a product: its methods are scikit-learn's, nothing is odd.

    Most of what their `predict` takes on a batch is spent before it multiplies. What it does to finite numbers is one
    product, one sum and the place of the largest score; here the same is done on the same batches, to the same bits.
    """
    kind = type(model)
    if not kind.__module__.startswith("sklearn.") or not {"predict", "decision_function"}.isdisjoint(vars(model)):
        return False
    from sklearn.linear_model._base import LinearClassifierMixin

    if getattr(kind, "predict", None) is not LinearClassifierMixin.predict:
        return False
    if getattr(kind, "decision_function", None) is not LinearClassifierMixin.decision_function:
        return False
    if not (isinstance(fed, np.ndarray) and fed.ndim == 2 and fed.dtype == np.float64 and fed.flags.c_contiguous):
        return False
    coef, intercept = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    if not (isinstance(coef, np.ndarray) and isinstance(intercept, np.ndarray)) or hasattr(model, "feature_names_in_"):
        return False
    if coef.shape[1:] != fed.shape[1:]:
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(fed.sum()) or np.isfinite(fed).all())


def _products(model: Any, fed: NDArray[np.float64]) -> NDArray[Any]:
    """What `predict` says of each batch, one after the other, where the model `multiplies`."""
    classes = np.empty(len(fed), model.classes_.dtype)
    with np.errstate(all="ignore"):
        for start, batch in batches(fed, len(fed)):
            scores = batch @ model.coef_.T + model.intercept_
            places = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
            classes[start : start + len(batch)] = model.classes_[places[: len(fed) - start]]
    return classes


def ranked_by_score(scores: NDArray[Any], heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions from best to worst, one row per sample: the head, then by (score, smaller position).

    Where a score is NaN, the positions behind the head stand in their order.
    """
    table = np.where(np.isnan(scores).any(axis=1, keepdims=True), 0.0, scores)
    order = np.argsort(-table, axis=1, kind="stable")
    behind = order[order != heads[:, None]].reshape(len(heads), scores.shape[1] - 1)
    return np.column_stack([heads, behind])
