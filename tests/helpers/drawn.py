"""Binomial selection as one name, for tests that go through classifiers."""

from functools import partial

from poisonproof import InfiniteAggregationClassifier

binomial = partial(InfiniteAggregationClassifier, method="binomial-selection")
