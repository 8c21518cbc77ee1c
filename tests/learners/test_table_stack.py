"""Base classifiers that are sums of columns and words, asked all at once, say what each says alone, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from poisonproof import FiniteAggregationClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.table_stack import Folded, TableStack
from poisonproof.samples.convert import to_samples
from poisonproof.training.stacked import Read, Stacked, stacked
from stacks import LEARNERS, N_CLASSES, kinds_of_samples, members_of, one_by_one


@pytest.mark.parametrize("kind", ["table", "numbers", "gaps", "steps", "sparse", *LEARNERS])
@pytest.mark.parametrize("seed", range(2))
def test_votes_are_those_of_each_alone(kind, seed):
    rng = np.random.default_rng(seed)
    train, test = kinds_of_samples(rng, 120)[kind], to_samples(kinds_of_samples(rng, 70)[kind])
    members = members_of(train, rng.integers(0, N_CLASSES, 120), rng, learner=LEARNERS.get(kind))
    assert sum(member.model is None for member in members) < 4
    whole = stacked(members)
    expected = one_by_one(members, test)
    for part in (test, test.subset(np.arange(3)), test.subset(np.arange(0))):
        votes = whole.votes(part, N_CLASSES, n_jobs=2)
        assert votes.tolist() == expected[: len(part)].tolist()
    if kind == "table":
        assert len(whole.lots) >= 2  # columns that are numbers for one and categories for another


@pytest.mark.parametrize("kind", ["table", "gaps", *LEARNERS])
def test_sums_have_the_order_that_each_has_alone(kind):
    """With weights of which some swallow others, a sum in another order, or rounded once more, is another sum."""
    rng = np.random.default_rng(11)
    train, test = kinds_of_samples(rng, 120)[kind], to_samples(kinds_of_samples(rng, 400)[kind])
    members = members_of(train, rng.integers(0, N_CLASSES, 120), rng, learner=LEARNERS.get(kind))
    for member in members:
        if member.model is not None:
            weights = member.model.weights_
            weights[:] = rng.choice([1e16, -1e16, 2.0, -2.0, 1 / 3, -1 / 3, 1e8, 1e-8], weights.shape)
    whole = stacked(members)
    assert whole.votes(test, N_CLASSES).tolist() == one_by_one(members, test).tolist()


def tied(rng, n_numbers=5, lanes=6, slots=3):
    """A stack in which classes tie exactly, or all but for rounding."""
    shape = (n_numbers, slots, lanes)
    weights = rng.integers(-3, 4, shape) / 3
    weights[:, 1] = weights[:, 0]
    bias = rng.integers(-1, 2, (slots, lanes)) / 7
    bias[1] = bias[0] * (1 + rng.choice([0, 1e-16, -2e-16, 1e-13], lanes))
    scale = rng.choice([1.0, 0.1, 3.0, 1e-7], (n_numbers, lanes))
    mean = rng.choice([0.0, 0.1, 1e6], (n_numbers, lanes))
    none, flagged = np.zeros(0, np.int64), np.zeros((n_numbers, lanes), bool)
    counts = np.where(np.arange(lanes) % 3 == 0, slots - 1, slots)
    return TableStack(
        None, False, counts, bias, mean, scale, weights, np.zeros(shape), flagged, (), none, np.zeros(1, np.int64),
        none.astype(np.uint16), np.zeros((0, slots)), np.zeros(lanes, np.int64),
    )  # fmt: skip


def test_a_product_decides_only_what_no_rounding_could():
    without_bound = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        stack = tied(rng, slots=2 + seed % 3)
        odd = rng.choice([0.0, 0.1, 1 / 3, 1e6, -1e6, 1e-12, 1e150, -1e308], (200, 5))
        usual = rng.choice([0.0, 0.1, 1 / 3, -0.7], (200, 5))
        for numbers in (odd, usual):
            summed = stack.summed(numbers, np.zeros((200, 0), np.int64))
            assert (stack.folded.best(numbers, stack) == summed).all()
            loose = replace(stack.folded, at_rest=np.zeros(len(stack)), by_length=np.zeros(len(stack)))
            without_bound += int((loose.best(numbers, stack) != summed).sum())
    assert without_bound > 100  # so the bound is what this test is about


def test_what_is_not_finite_is_asked_alone():
    rng = np.random.default_rng(0)
    members = members_of(rng.normal(size=(60, 4)), rng.integers(0, N_CLASSES, 60), rng)
    assert stacked(members) is not None
    next(member for member in members if member.model is not None).model.weights_[0, 0] = np.inf
    assert not Stacked.of(members).finite
    assert stacked(members) is None


def test_only_the_learner_itself_is_stacked():
    class Other(TableClassifier):
        def predict(self, X):
            return np.zeros(len(X), int)

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    assert (FiniteAggregationClassifier(Other(), k=4, d=1, classes=[0, 1]).fit(X, y).votes(X).matrix == 0).all()


def test_folded_weights_are_made_once_and_only_for_many_rows():
    rng = np.random.default_rng(2)
    members = members_of(rng.normal(size=(60, 4)), rng.integers(0, N_CLASSES, 60), rng)
    lot = stacked(members).lots[0]
    rows = Read(to_samples(rng.normal(size=(40, 4)))).for_stack(lot.stack)
    lot.stack.best(rows.numbers[:2], rows.codes[:2])
    assert "folded" not in vars(lot.stack)
    lot.stack.best(rows.numbers, rows.codes)
    assert isinstance(lot.stack.folded, Folded)
