"""Base classifiers that abstain, in every certificate at once, against attackers who try everything.

A poison may wake an abstaining base classifier: it then gains a vote for a rival, and takes none from the prediction.
"""

from itertools import combinations
from typing import get_args

import numpy as np
import pytest

import runoff_oracle
from oracle import reached_by, smallest_attack_fast
from poisonproof import Spread, Votes, certified_accuracy, certify
from poisonproof.core.certify import Method
from poisonproof.core.votes import vote_dtype
from shared_oracle import fewest_right_fast, stays_right

RANDOM = Spread.random(5, 2), Spread.random(3, 3), Spread.random(9, 1)
DESIGNED = Spread.planes(2, 1), Spread.planes(3, 1), Spread.planes(2, 2)
SHARES = (0.1, 0.5, 0.8)
N_TEST = 12


def with_abstentions(seed, spread, n_classes):
    """Rankings of which a share is empty, in every test sample at least one; their votes."""
    rng = np.random.default_rng(seed)
    cases = []
    for test in range(N_TEST):
        rankings = runoff_oracle.random_case(rng, spread.n_subsets, n_classes)
        silent = rng.random(len(rankings)) < SHARES[test % len(SHARES)]
        silent[rng.integers(len(rankings))] = True
        cases.append([() if quiet else ranking for quiet, ranking in zip(silent, rankings, strict=True)])
    return cases


@pytest.fixture(
    params=[(spread, unseen) for spread in RANDOM + DESIGNED for unseen in (False, True)],
    ids=lambda param: f"{param[0].n_subsets} of {param[0].d}, {'inferred' if param[1] else 'declared'}",
)
def ensembles(request):
    """(votes, rankings as tuples), two to four classes; 36 test samples."""
    spread, unseen = request.param
    made = []
    for n_classes in (2, 3, 4):
        cases = with_abstentions(n_classes, spread, n_classes)
        rankings = np.array([runoff_oracle.as_array(case, n_classes) for case in cases])
        votes = Votes(rankings[..., 0], spread, range(n_classes), "content", classes_inferred=unseen, rankings=rankings)
        assert ((votes.matrix == n_classes).any(axis=1)).all()
        made.append((votes, cases))
    return made


def smallest_attacks(votes):
    table = votes.spread.as_table()
    rows = votes.matrix.astype(np.int64)
    return np.array([smallest_attack_fast(row, table, len(votes.classes), votes.classes_inferred) for row in rows])


def test_no_radius_over_votes_is_broken(ensembles):
    for votes, _ in ensembles:
        smallest = smallest_attacks(votes)
        radii = {method: certify(votes, method).radius for method in ("dpa-bound", "finite-aggregation", "tight")}
        for method, radius in radii.items():
            assert (radius < smallest).all(), method
        assert (radii["dpa-bound"] <= radii["finite-aggregation"]).all()
        assert (radii["finite-aggregation"] <= radii["tight"]).all()
        assert (radii["tight"] + 1 == smallest).all()
        if votes.spread.d == 1:
            assert (radii["dpa-bound"] + 1 == smallest).all()


def test_no_radius_of_a_run_off_is_broken(ensembles):
    for votes, cases in ensembles:
        certificate = certify(votes, "run-off")
        table, n_classes, unseen = votes.spread.as_table().tolist(), len(votes.classes), votes.classes_inferred
        smallest = np.array([runoff_oracle.smallest_attack(case, table, n_classes, unseen) for case in cases])
        assert (certificate.radius < smallest).all()
        assert (certificate.radius[certificate.exact] + 1 == smallest[certificate.exact]).all()
        winners = [runoff_oracle.elect(case, range(n_classes)) for case in cases]
        assert certificate.prediction.tolist() == winners


def test_no_attack_within_reachable_partitions_breaks_a_radius(ensembles):
    for votes, _ in ensembles:
        within = np.arange(0, votes.spread.n_partitions, 2)
        radius = certify(votes, reachable=within).radius
        assert (radius >= certify(votes).radius).all()
        table, n_classes = votes.spread.as_table(), len(votes.classes)
        for row, held in zip(votes.matrix.tolist(), radius, strict=True):
            for size in range(1, min(held, len(within)) + 1):
                for chosen in combinations(within.tolist(), size):
                    assert stays_right(row, set(reached_by(chosen, table)), n_classes, votes.classes_inferred)


def test_certified_accuracy_is_never_above_what_the_worst_attack_leaves(ensembles):
    for votes, _ in ensembles:
        y = certify(votes).prediction
        table, n_classes = votes.spread.as_table(), len(votes.classes)
        for size in (1, 2):
            found = certified_accuracy(votes, y, size, time_limit=2)
            truth = fewest_right_fast(votes.matrix.tolist(), y, table, n_classes, votes.classes_inferred, size)
            assert found.certified_count <= found.lower_count <= truth <= found.upper_count
            assert found.exact


@pytest.mark.parametrize("method", ["dpa-bound", "finite-aggregation", "tight", "run-off"])
def test_abstentions_neither_add_to_a_lead_nor_take_from_it(method):
    """Five for 0, none against, any number asleep: the third poison turns the lead of 5 by 2 a vote."""
    for silent, radius in ((0, 2), (1, 2), (2, 2), (3, 2)):
        rankings = np.array([[[0, 1]] * 5 + [[2, 2]] * silent])
        votes = Votes(rankings[..., 0], Spread(5 + silent, (0,)), range(2), rankings=rankings)
        assert certify(votes, method).radius.tolist() == [radius]
    asleep = np.full((1, 5, 2), 2)
    votes = Votes(asleep[..., 0], Spread(5, (0,)), range(2), rankings=asleep)
    certificate = certify(votes, method)
    assert (certificate.prediction[0], certificate.radius[0]) == (0, 0)


WAYS = {
    **{method: lambda votes, y, method=method: certify(votes, method).radius for method in get_args(Method)},
    "target": lambda votes, y: certify(votes, target=1).radius,
    "reachable": lambda votes, y: certify(votes, reachable=range(4)).radius,
    "shared attack": lambda votes, y: [
        len(y),
        y[0],
        *(certified_accuracy(votes, y, size).lower_count for size in (1, 2)),
    ],
    "counts": lambda votes, y: votes.counts(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_classes", [3, 20, 300])
def test_a_code_written_after_the_check_counts_as_an_abstention(way, n_classes):
    """Votes keep the caller's array, and kernels index by codes: one beyond the classes had counted elsewhere."""
    rng = np.random.default_rng(n_classes)
    spread = Spread.random(10, 2)
    dtype = vote_dtype(n_classes)
    places = np.argsort(rng.random((30, spread.n_subsets, n_classes)), axis=2).astype(dtype)
    places[rng.random(places.shape[:2]) < 0.7, 0] = 0  # a class may now stand twice; the next line mends that
    places[(places[..., 1:] == 0).any(axis=2) & (places[..., 0] == 0), 1:] = n_classes
    overwritten = places[..., 0].copy(), places.copy()
    y = overwritten[0][:, 0] % n_classes
    votes = Votes(overwritten[0], spread, range(n_classes), "content", rankings=overwritten[1])
    assert votes.matrix is overwritten[0]
    for code in (np.iinfo(dtype).max, n_classes + 1):
        overwritten[0][0, ::2], overwritten[1][0, ::2] = code, code
        overwritten[1][1, 0, 1:] = overwritten[1][1, 0, 0]  # a class named twice
        abstaining = [array.copy() for array in overwritten]
        abstaining[0][0, ::2], abstaining[1][0, ::2], abstaining[1][1, 0, 1:] = n_classes, n_classes, n_classes
        wanted = Votes(abstaining[0], spread, range(n_classes), "content", rankings=abstaining[1])
        got, named_twice = WAYS[way](votes, y), [1]
        assert np.array_equal(np.delete(got, named_twice, 0), np.delete(WAYS[way](wanted, y), named_twice, 0))
