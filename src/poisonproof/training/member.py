"""One base classifier: any scikit-learn classifier, trained on its own subset and nothing else.

The vote of a base classifier on a sample is a function of its subset, its index and the sample. So
here a clone is seeded by its index, held at one job, fed its subset in canonical order with labels
encoded within the subset, and never told about other samples, other labels or the class list.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.core.votes import ranked_by_score
from poisonproof.errors import PoisonproofError, UnnamedFileError
from poisonproof.learners.seeding import Seeder, isolated
from poisonproof.samples.batches import takes_columns, takes_texts
from poisonproof.samples.kinds import Samples, TableSamples, TextSamples
from poisonproof.system.determinism import with_limited_libraries
from poisonproof.training import linear
from poisonproof.training.asking import ask_in_batches

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


def fit_member(
    estimator: Any, index: int, samples: Samples, codes: NDArray[np.int64], rows: NDArray[np.int64]
) -> Member:
    """Train base classifier ``index`` on these rows, given in canonical order; see `fit_made`."""
    return fit_made(Seeder(estimator), index, samples, codes, rows)


def fit_made(
    make: Callable[[int], Any], index: int, samples: Samples, codes: NDArray[np.int64], rows: NDArray[np.int64]
) -> Member:
    """Train what ``make`` makes of base classifier ``index`` on these rows, given in canonical order.

    A learner that raises does not stop training, or one poisoned sample could; its base classifier
    says the most frequent class of its subset, which is a function of the subset too. Lack of memory,
    time-outs and the like are no property of the subset and are passed on.
    """
    fed = codes[rows]
    counts = np.bincount(fed)
    held = np.flatnonzero(counts)
    if len(held) == 0:
        return Member(index, None, held, None)
    local = (np.cumsum(counts > 0) - 1)[fed]
    fallback = int(counts.argmax())
    if len(held) == 1:
        return Member(index, None, held, fallback)
    form = samples.form_of(rows)

    def fitted() -> Any:
        model = make(index)
        with isolated(index):
            model.fit(fed_to(model, samples, rows, form), local.copy())
        return model

    try:
        model = with_limited_libraries(fitted)
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception as error:
        return Member(index, None, held, fallback, failure=f"{type(error).__name__}: {error}")
    return Member(index, model, held, fallback, form)


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
        scores = ask_in_batches(member.model, ask, fed, n_samples)
        return scores, reason if np.isnan(scores).any() else None
    except NOT_THE_SUBSETS_FAULT:
        raise
    except Exception:
        scores = np.full((n_samples, len(member.codes)), np.nan)
    for row in range(n_samples):
        try:
            scores[row] = ask_in_batches(member.model, ask, _one(fed, row), 1)[0]
        except NOT_THE_SUBSETS_FAULT:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    return scores, reason


def _scores(member: Member, fed: Any, n_samples: int) -> NDArray[np.float64]:
    def asked() -> Any:
        with isolated(member.index):
            ask = getattr(member.model, "decision_function", None) or member.model.predict_proba
            return ask(fed.copy())  # it may change what it is fed

    scores = np.asarray(with_limited_libraries(asked), np.float64)
    if scores.shape != (n_samples, len(member.codes)):
        raise PoisonproofError("the base classifier did not give one score for each label it was trained on")
    return scores


def _answers(member: Member, fed: Any, n_samples: int) -> NDArray[np.int64]:
    if linear.multiplies(member.model, fed):
        return _positions(linear.answers(member.model, fed))
    return ask_in_batches(member.model, lambda batch: _predict(member, batch), fed, n_samples)


def _one(fed: Any, row: int) -> Any:
    return fed.iloc[row : row + 1] if hasattr(fed, "iloc") else fed[row : row + 1]


def _predict(member: Member, fed: Any) -> NDArray[np.int64]:
    def asked() -> Any:
        with isolated(member.index):
            return member.model.predict(fed.copy())  # it may change what it is fed

    return _positions(np.asarray(with_limited_libraries(asked)))


def _positions(answers: NDArray[Any]) -> NDArray[np.int64]:
    positions = answers.astype(np.int64)
    if answers.ndim != 1 or not np.array_equal(positions, answers) or positions.min(initial=0) < 0:
        raise PoisonproofError("the base classifier did not predict one of the labels it was trained on")
    return positions
