"""What the proof stands on, checked: a base classifier must be a function of its subset, to the bit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from poisonproof.display import shown
from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.estimators.base import learner_of, learning_steps
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.learners.inspection import fitted_parts, refuse_fitted, words
from poisonproof.premises import PremiseWarning
from poisonproof.samples.convert import count_rows, take_rows
from poisonproof.samples.labels import read_labels


@dataclass(frozen=True)
class PurityReport:
    """What `check_estimator_purity` found.

    Attributes
    ----------
    leaks : tuple of str
        What a vote was seen to depend on besides the base classifier's own subset, index and sample.
        Each one voids the proof.
    checks : tuple of str
        What was tried.
    """

    leaks: tuple[str, ...]
    checks: tuple[str, ...]

    @property
    def pure(self) -> bool:
        """Whether nothing leaked. A check can find a leak; it cannot prove that there is none."""
        return not self.leaks

    def __str__(self) -> str:
        if self.pure:
            return f"No leak found in {len(self.checks)} checks: " + "; ".join(self.checks) + "."
        return f"{len(self.leaks)} of {len(self.checks)} checks found a leak:\n" + "\n".join(
            f"- {shown(leak)}" for leak in self.leaks
        )


def check_estimator_purity(
    estimator: Any, X: Any, y: Any, *, k: int = 4, d: int = 2, max_test: int = 40, seed: int = 0
) -> PurityReport:
    """Retrain base classifiers under changes that must not matter, and say in words what leaked.

    Parts of the estimator that are given fitted are named. The rows are permuted; a row is added (an
    ordinary one, an extreme one, one with a label of its own), after which only the d base classifiers
    it reaches may vote otherwise; base classifiers are trained alone instead of in company; the same
    ones are asked twice; test samples come one by one and in reverse; linear algebra gets other numbers
    of threads; the work goes to threads and to other processes.

    Parameters
    ----------
    estimator : scikit-learn classifier
    X, y : training data
        A few hundred samples do. Also used as test samples.
    k, d : int
        The ensemble to check with.
    max_test : int
        How many samples to compare votes on.
    seed : int
        Of the permutation and of the choice of rows.
    """
    check = _PurityCheck(estimator, X, read_labels(y).codes, k, d, max_test, seed)
    findings = {
        "parts that are given fitted": check.given_fitted(),
        "the rows in another order": check.other_order(),
        "the same rows again": check.again(
            "when trained a second time on the same rows (time, a global random state, or a counter?)"
        ),
        "one more row": check.one_more_row(),
        "trained alone": check.alone(),
        "asked twice": check.asked_twice(),
        "another batch of test samples": check.other_batch(),
        "another number of threads": check.again(
            "when the machine allowed more linear-algebra threads", threadpool_limits(4)
        ),
        "in threads": check.again("when trained and asked in other threads", parallel_config("threading", n_jobs=2)),
        "other processes": check.again("when trained in other processes", parallel_config("loky", n_jobs=2)),
    }
    return PurityReport(tuple(leak for leak in findings.values() if leak), tuple(findings))


class _PurityCheck:
    def __init__(self, estimator: Any, X: Any, y: NDArray[Any], k: int, d: int, max_test: int, seed: int) -> None:
        self.estimator, self.X, self.y, self.k, self.d = estimator, X, y, k, d
        self.rng = np.random.default_rng(seed)
        self.n = count_rows(X)
        if self.n < 2:
            raise PoisonproofError(
                f"A purity check needs at least two training samples. Got {self.n}.", code="purity.few-samples"
            )
        self.test = take_rows(X, np.sort(self.rng.choice(self.n, min(max_test, self.n), replace=False)))
        self.model = self._fit(X, y)
        self.expected = self._votes(self.model)

    def _fit(self, X: Any, y: NDArray[Any]) -> FiniteAggregationClassifier:
        model = FiniteAggregationClassifier(clone(self.estimator), k=self.k, d=self.d, trusted_state=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            return model.fit(X, y)

    def _votes(self, model: FiniteAggregationClassifier, test: Any = None) -> NDArray[Any]:
        """Votes as labels, so that ensembles with other class lists compare."""
        votes = model.votes(self.test if test is None else test)
        names = np.append(votes.classes.astype(object), "(abstains)")
        return names[votes.matrix]

    def _moved(self, votes: NDArray[Any]) -> NDArray[np.int64]:
        """Base classifiers that voted otherwise than expected."""
        return np.flatnonzero((votes != self.expected).any(axis=0))

    def given_fitted(self) -> str:
        parts = fitted_parts(self.estimator)
        return f"Every base classifier shares what was given fitted: {words(parts)}." if parts else ""

    def other_order(self) -> str:
        order = self.rng.permutation(self.n)
        moved = self._moved(self._votes(self._fit(take_rows(self.X, order), self.y[order])))
        return _say(moved, "after the training rows were put in another order")

    def again(self, when: str, within: AbstractContextManager[Any] | None = None) -> str:
        """Trained on the same rows, under something that must not matter."""
        np.random.uniform(size=3)
        with within or nullcontext():
            return _say(self._moved(self._votes(self._fit(self.X, self.y))), when)

    def one_more_row(self) -> str:
        for row in self.rng.choice(self.n, min(6, self.n), replace=False):
            for how, X, y in self._additions(int(row)):
                votes = self._votes(self._fit(X, y))
                partition = int(self._partitions(take_rows(X, [self.n]))[0])
                outside = np.setdiff1d(self._moved(votes), self.model.spread_.subsets_of(partition))
                if len(outside):
                    return _say(outside, f"though an added row reaches only {self.d} other subsets ({how})")
        return ""

    def _additions(self, row: int) -> list[tuple[str, Any, NDArray[Any]]]:
        same = take_rows(self.X, np.append(np.arange(self.n), row))
        other = self.y[self.y != self.y[row]]
        additions = [("a copy of a row", same, self.y[row]), ("a row with a new label", same, self.y.max() + 1)]
        if len(other):
            additions.append(("a copy of a row with another label", same, other[0]))
        if isinstance(self.X, np.ndarray) and self.X.dtype.kind == "f":
            extreme = same.copy()
            extreme[-1] *= 1e3
            additions.append(("a row of extreme values", extreme, self.y[row]))
        return [(how, X, np.append(self.y, label)) for how, X, label in additions]

    def alone(self) -> str:
        chosen = self.rng.choice(len(self.model.members_), min(4, len(self.model.members_)), replace=False)
        moved = []
        for index in chosen:
            rows = np.flatnonzero(np.isin(self._partitions(self.X), self.model.spread_.partitions_of(int(index))))
            if len(rows):
                votes = self._votes(self._fit(take_rows(self.X, rows), self.y[rows]))
                moved += [index] if (votes[:, index] != self.expected[:, index]).any() else []
        return _say(moved, "when nothing but their own subset was there to train on (something is shared)")

    def _partitions(self, X: Any) -> NDArray[np.int64]:
        split = self.model.split_
        return split.partitions(split.samples(X), self.model.spread_.n_partitions)

    def asked_twice(self) -> str:
        moved = self._moved(self._votes(self.model))
        return _say(moved, "when asked a second time (sums of threads, or chance, in predict?)")

    def other_batch(self) -> str:
        count = count_rows(self.test)
        reverse = list(range(count))[::-1]
        for how, batches in (("one by one", [[i] for i in reverse]), ("in reverse", [reverse])):
            votes = np.empty_like(self.expected)
            for batch in batches:
                votes[batch] = self._votes(self.model, take_rows(self.test, batch))
            if len(moved := self._moved(votes)):
                return _say(moved, f"when the test samples came {how}")
        return ""


def check_pipeline(pipe: Any) -> None:
    """Refuse a pipeline in which something before the FiniteAggregationClassifier learns from the data.

    A step that is fitted on all rows lets one poisoned row reach every base classifier, and every
    radius is void. Raises ValueError that names the step and says where to put it; returns None if no
    step before ours needs fitting. A base classifier that arrives fitted is refused too, unless the model
    says ``trusted_state=True``. A search over such a pipeline (`GridSearchCV`, …) is checked with every step it would
    put in. A function that mixes rows (in a FunctionTransformer, say) cannot be seen from outside.
    """
    if isinstance(pipe, FiniteAggregationClassifier):
        refuse_fitted(learner_of(pipe), pipe.trusted_state)
    elif isinstance(pipe, BaseSearchCV):
        check_pipeline(pipe.estimator)
        for name, candidate in _candidates(pipe):
            check_pipeline(clone(pipe.estimator).set_params(**{name: candidate}))
    elif isinstance(pipe, Pipeline):
        _check_steps(pipe)
    else:
        raise WrongTypeError(
            "check_pipeline takes a Pipeline, a FiniteAggregationClassifier or a search over one. "
            f"Got {type(pipe).__name__}."
        )


def _check_steps(pipe: Pipeline) -> None:
    name, last = pipe.steps[-1]
    if not isinstance(last, FiniteAggregationClassifier | BaseSearchCV | Pipeline):
        raise PoisonproofError(
            f"The last step of the pipeline, '{name}', is not a FiniteAggregationClassifier, so nothing is certified.",
            code="pipeline.last-step",
        )
    if pipe.memory is not None:
        raise PoisonproofError(
            "The pipeline has memory=, a cache from which whoever writes to it could feed every base classifier; "
            "leave it out.",
            code="pipeline.memory",
        )
    for name, step in pipe.steps[:-1]:
        refuse_fitted(step, getattr(last, "trusted_state", False))
        for path, learning in learning_steps(name, step):
            raise PoisonproofError(
                f"Step '{path}' ({type(learning).__name__}) learns from all training rows before they are split, "
                "so one poisoned row could reach every base classifier and no radius would hold; put it inside: "
                f"FiniteAggregationClassifier(make_pipeline({type(learning).__name__}(…), <your classifier>)).",
                code="pipeline.leak",
            )
    check_pipeline(last)


def _candidates(search: Any) -> list[tuple[str, Any]]:
    """The estimators that a search would put in, with their places."""
    grids = getattr(search, "param_grid", None) or getattr(search, "param_distributions", None) or {}
    return [
        (name, candidate)
        for grid in (grids if isinstance(grids, list | tuple) else [grids])
        for name, values in grid.items()
        if isinstance(values, Iterable)
        for candidate in values
        if hasattr(candidate, "fit")
    ]


def _say(moved: Any, when: str) -> str:
    if len(moved) == 0:
        return ""
    shown = ", ".join(str(int(index)) for index in moved[:5]) + (", …" if len(moved) > 5 else "")
    return f"{len(moved)} base classifiers ({shown}) voted otherwise {when}."
