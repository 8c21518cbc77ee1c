"""Tables that come by column are looked at as scikit-learn would look at a frame of them."""

import warnings

import numpy as np
import pytest
from sklearn.utils.validation import validate_data

from poisonproof.learners.table import TableClassifier
from poisonproof.samples.columns import Column
from poisonproof.samples.kinds import TableSamples

NAMES = [
    ["a", "b"],
    ["b", "a"],
    ["a", "b", "c"],
    ["a", "a"],
    [0, 1],
    [1, 1],
    [0, "b"],
    [0, 1.5],
    [None, 1],
    [np.str_("a"), 1],
]


def batch(names, rows=6):
    numbers = np.random.default_rng(0).normal(size=(rows, len(names)))
    samples = TableSamples.of(Column.of_numbers(name, numbers[:, at]) for at, name in enumerate(names))
    every = np.arange(rows)
    return samples.by_column(every, samples.form_of(every))


def noted(look):
    """What is raised, warned of and kept."""
    model = TableClassifier()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            look(model)
        except Exception as error:  # scikit-learn's, narwhals'
            return type(error), str(error)
    kept = {name: value.tolist() if name == "feature_names_in_" else value for name, value in vars(model).items()}
    return list(kept.items()), [str(one.message) for one in warned]


@pytest.mark.parametrize("first", NAMES, ids=str)
@pytest.mark.parametrize("then", NAMES, ids=str)
def test_names_and_numbers_of_columns_are_told_as_of_a_frame(first, then):
    def slow(model):
        validate_data(model, batch(first).outline, reset=True, skip_check_array=True)
        validate_data(model, batch(then).outline, reset=False, skip_check_array=True)

    def fast(model):
        model._check_columns(batch(first), reset=True)
        model._check_columns(batch(then), reset=False)

    assert noted(fast) == noted(slow)


def test_names_of_an_earlier_fit_are_forgotten():
    def looked(check):
        return noted(lambda model: [check(model, names) for names in (["a", "b"], [0, 1])])

    slow = looked(lambda model, names: validate_data(model, batch(names).outline, reset=True, skip_check_array=True))
    assert looked(lambda model, names: model._check_columns(batch(names), reset=True)) == slow


@pytest.mark.parametrize("labels", [np.array([0, 1, 1, 0, 1, 0]), [0, 1, 1, 0, 1, 0], np.array([[0, 1, 1, 0, 1, 0]]).T])
def test_labels_of_any_form_train_the_same(labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TableClassifier().fit(batch(["a", "b"]), labels)
    assert (model.weights_ == TableClassifier().fit(batch(["a", "b"]), np.array([0, 1, 1, 0, 1, 0])).weights_).all()


@pytest.mark.parametrize("labels", [np.array([0, 1, 1]), np.array([0.5, 1, 1, 0, 1, 0.2]), np.zeros((6, 2), int)])
def test_labels_that_fit_no_sample_are_refused(labels):
    with pytest.raises(ValueError, match=r"inconsistent numbers|Unknown label type|should be a 1d array"):
        TableClassifier().fit(batch(["a", "b"]), labels)
