"""scikit-learn's own checks, on our estimators and on the default base classifier. No check is expected to fail."""

import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from poisonproof import BallotClassifier, FiniteAggregationClassifier, NeighborVoteClassifier
from poisonproof.learners.table import TableClassifier
from research.seed_averaged import SeedAveragedClassifier


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@parametrize_with_checks(
    [
        FiniteAggregationClassifier(k=3, d=2),
        FiniteAggregationClassifier(GaussianNB(), k=2, d=2),
        BallotClassifier(near=1.0),
        BallotClassifier(near=1.0, one_sided=True),
        NeighborVoteClassifier(n_neighbors=5),
        TableClassifier(),
        SeedAveragedClassifier(GaussianNB(), n_seeds=2, random_state=0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
