"""BlockBallotClassifier: what it answers is what its definition says, saved, updated and attacked for real."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from poisonproof import (
    BallotClassifier,
    Certificate,
    Dataset,
    PremiseWarning,
    audit,
    compare,
    run,
)
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.learners.feature_maps import VectorFeatures
from research.blocks.classifier import BlockBallotClassifier
from research.maps.whitening import LENGTH, Whitening


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X, y


def model(**changes: object) -> BlockBallotClassifier:
    settings: dict[str, object] = {"near": 1.2, "k": 9, "directions": 12, "classes": range(10), "scale": 4.0}
    return BlockBallotClassifier(**{**settings, **changes})  # type: ignore[arg-type]


def slow_votes(
    X: np.ndarray, y: np.ndarray, x: np.ndarray, spread: Spread, rule: dict[str, float], directions: int
) -> list[int]:
    """What members say of one sample: everything anew, one pair of samples at a time."""
    split = Split("content")
    partitions = split.partitions(split.samples(X), spread.n_partitions)
    rows = VectorFeatures(scale=4.0)(X)[:, 0]
    asked = VectorFeatures(scale=4.0)(x[None])[:, 0]
    said = []
    for member in range(spread.n_subsets):
        own = rows[[member in spread.subsets_of(int(partition)) for partition in partitions]]
        own = own[sorted(range(len(own)), key=lambda row: own[row].tobytes())]
        whitening = Whitening.of(own, directions, 0.5)
        test, scores = whitening(asked)[0].astype(int), np.zeros(10, int)
        if "near" in rule:
            limit = (rule["near"] * LENGTH) ** 2
        else:
            distances = sorted(int(((test - mine) ** 2).sum()) for mine in whitening(own).astype(int))
            limit = distances[math.ceil(rule["near_share"] * len(own)) - 1]
        for voter, label in zip(whitening(rows).astype(int), y, strict=True):
            scores[label] += 1 if ((test - voter) ** 2).sum() <= limit else -1
        said.append(int(scores.argmax()))
    return said


GROWING = itertools.count(3)
SHARE = {"near": None, "near_share": 0.15}


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("rule", [{"near": 1.2}, {"near_share": 0.15}, {"near_share": 1e-9}])
def test_members_say_what_the_definition_says(
    digits: tuple[np.ndarray, np.ndarray], d: int, rule: dict[str, float]
) -> None:
    X, y = digits[0][:300], digits[1][:300]
    fitted = model(k=5, d=d, **{"near": None, **rule}).fit(X, y)
    test = digits[0][1000:1006]  # more than a few, so that they are answered by matrices
    verdicts = fitted._verdicts(test).verdict
    for x, said in zip(test[:3], verdicts, strict=False):
        assert said.tolist() == slow_votes(X, y, x, Spread.random(5, d), rule, 12)
    assert np.array_equal(fitted._verdicts(test[:2]).verdict, verdicts[:2])
    assert np.array_equal(fitted._verdicts(test[::-1]).verdict, verdicts[::-1])


def test_a_share_says_how_near_is_near_by_the_members_own_samples_alone(
    digits: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = digits[0][:400], digits[1][:400]
    test = digits[0][1500:1540]
    before = model(**SHARE).fit(X, y)._verdicts(test)
    for poison in (test[0] + 1.0, X[7] + 2.0):
        attacked = model(**SHARE).fit(np.concatenate([X, poison[None]]), np.append(y, 3))
        member = int(attacked._partitions()[attacked.places_[-1]])
        others = np.arange(9) != member
        moved = np.abs(attacked._verdicts(test).needed - before.needed)[:, others]
        assert moved.max() == 1  # one ballot; a threshold that moved with the poison would move many


@pytest.mark.parametrize("wrong", [{"near_share": 0.1}, {"near": None}, {"near": None, "near_share": 1.5}])
def test_how_near_is_near_is_said_once(wrong: dict[str, float | None]) -> None:
    with pytest.raises(PoisonproofError, match=r"either 'near' or 'near_share'|above 0 and at most 1"):
        model(**wrong).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("rule", [{}, SHARE])
def test_real_insertions_and_removals_within_the_radius_change_nothing(
    digits: tuple[np.ndarray, np.ndarray], rule: dict[str, float | None]
) -> None:
    X, y = digits[0][:400], digits[1][:400]
    test = digits[0][1500:1540]
    fitted = model(**rule).fit(X, y)
    certificate = fitted.certify(test)
    assert (certificate.radius > 0).sum() > 10
    random = np.random.default_rng(0)
    for at in np.flatnonzero(certificate.radius > 0)[:6]:
        radius, rival = int(certificate.radius[at]), int(certificate.runner_up[at])
        copies = test[at] + random.integers(-1, 2, (radius, X.shape[1]))  # in as many partitions as may be
        attacked = model(**rule).fit(np.concatenate([X, copies]), np.append(y, np.full(radius, rival)))
        assert attacked.predict(test[at : at + 1])[0] == certificate.labels[at]
        nearest = np.argsort(np.square(X - test[at]).sum(axis=1))[:radius]
        attacked = model(**rule).fit(np.delete(X, nearest, axis=0), np.delete(y, nearest))
        assert attacked.predict(test[at : at + 1])[0] == certificate.labels[at]


def test_a_label_that_names_no_class_is_a_removal_and_no_flip(digits: tuple[np.ndarray, np.ndarray]) -> None:
    """Its sample leaves the map: radii against flips do not speak of it, and the premises say so."""
    X, y = digits[0][:200], digits[1][:200]
    fitted = model(k=4).fit(X, y)
    blank = y.astype(object)
    blank[7] = None
    with pytest.warns(PremiseWarning, match="were left out"):
        without = model(k=4).fit(X, blank)
    flipped = model(k=4).fit(X, np.where(np.arange(200) == 7, (y + 1) % 10, y))
    digests = [[one.digest for one in other.maps_ if one is not None] for other in (fitted, flipped, without)]
    assert digests[0] == digests[1]
    assert sum(one != other for one, other in zip(digests[0], digests[2], strict=True)) == 1
    told = {premise.code: premise.value for premise in fitted.certify(X[:2]).premises}
    assert told["flipped labels"] == "name other classes; one that names none of them removes its sample"


def test_saved_models_answer_alike_and_altered_ones_are_refused(
    digits: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, y = digits
    fitted = model(k=4, d=2, **SHARE).fit(X[:200], y[:200])
    fitted.save(tmp_path / "model")
    loaded = BlockBallotClassifier.load(tmp_path / "model")
    first, second = fitted.certify(X[400:450]), loaded.certify(X[400:450])
    assert np.array_equal(first.radius, second.radius)
    assert np.array_equal(first.prediction, second.prediction)
    first.save(tmp_path / "certificate.npz")
    assert Certificate.load(tmp_path / "certificate.npz").voters == first.voters
    other = model(k=4, d=2, **SHARE).fit(X[200:400], y[200:400])
    other.save(tmp_path / "other")
    (tmp_path / "model" / "maps.npz").write_bytes((tmp_path / "other" / "maps.npz").read_bytes())
    with pytest.raises(DamagedFileError, match="learned from other samples"):
        BlockBallotClassifier.load(tmp_path / "model")


def test_members_with_nothing_to_learn_abstain() -> None:
    X, y = np.array([[0.0], [1.0], [1.0]]), [0, 1, 1]
    fitted = BlockBallotClassifier(near=0.5, k=50, classes=[0, 1]).fit(X, y)
    assert all(learned is None for learned in fitted.maps_)
    assert np.allclose(fitted.predict_proba(X), 0.5)
    assert (fitted.certify(X).radius == 0).all()


def test_contributors_are_refused() -> None:
    with pytest.raises(PoisonproofError, match="takes no groups"):
        BlockBallotClassifier(near=0.5).fit([[0.0], [1.0]], [0, 1], groups=["a", "b"])
    with pytest.raises(PoisonproofError, match="must be by content"):
        BlockBallotClassifier(near=0.5, split="group", classes=[0, 1]).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"near": -1.0}, "a number from 0 on"),
        ({"near": math.nan}, "a number from 0 on"),
        ({"near": None, "near_share": 0}, "above 0 and at most 1"),
        ({"near": None, "near_share": math.nan}, "above 0 and at most 1"),
        ({"directions": 0}, "'directions'"),
        ({"directions": 2.5}, "'directions'"),
        ({"exponent": -0.5}, "'exponent'"),
        ({"exponent": math.nan}, "'exponent'"),
        ({"k": 0}, "'k' parameter"),
        ({"classes": None}, "needs declared classes"),
        ({"class_sizes": "rows"}, "must be sizes by label. Got str"),
        ({"classes": [0, 1], "class_sizes": {0: 3, 2: 4}}, "keys of 'class_sizes' must be the classes"),
        ({"features": lambda X: np.full((len(X), 2), np.nan)}, "no usable numbers for any sample"),
        ({"features": lambda X: np.ones((len(X), next(GROWING)))}, "another number of them each time"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(
    digits: tuple[np.ndarray, np.ndarray], wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(PoisonproofError, match=message):
        model(**wrong).fit(digits[0][:40], digits[1][:40])


def test_blocks_are_not_taken_for_ballots_in_one_map(digits: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """Whoever counts ballots in the fixed map alone speaks of another classifier's predictions."""
    X, y = digits[0][:60], digits[1][:60]
    assert not isinstance(model(), BallotClassifier)
    with pytest.raises(PoisonproofError, match="Got BlockBallotClassifier"):
        audit(model(), X, y, digits[0][60:62])
    few = Dataset.of("few", X, y, digits[0][60:70], digits[1][60:70], classes=range(10))
    with pytest.raises(PoisonproofError, match=r"is of a BallotClassifier\. Got BlockBallotClassifier"):
        compare(few, rows=["ballots"], voters={"ballots": model()})
    with pytest.raises(PoisonproofError, match=r"among ballots, neighbours\. Got BlockBallotClassifier"):
        run(few, model(), tmp_path / "run")


def test_what_one_row_can_cause_costs_only_that_row(digits: tuple[np.ndarray, np.ndarray]) -> None:
    def failing(rows: np.ndarray) -> np.ndarray:
        if (np.asarray(rows)[:, 0] == 99).any():
            raise RuntimeError("ninety-nine")
        return np.asarray(rows)

    X, y = digits[0][:120].copy(), digits[1][:120].astype(object)
    X[3, 0], y[5] = 99, None
    with pytest.warns(PremiseWarning) as told:
        fitted = model(features=failing).fit(X, y)
    words = " ".join(str(one.message) for one in told)
    assert "1 training samples cannot be read by the feature map and were left out" in words
    assert "1 training samples have no label (it is missing" in words
    rest = np.delete(np.arange(120), [3, 5])
    alone = model(features=failing).fit(digits[0][rest], digits[1][rest])
    answers, expected = fitted.certify(digits[0][600:640]), alone.certify(digits[0][600:640])
    assert np.array_equal(answers.radius, expected.radius)
    assert np.array_equal(answers.prediction, expected.prediction)
    with pytest.warns(PremiseWarning, match="1 samples to be answered cannot be read"):
        assert len(fitted.predict(X[3:5])) == 2


def test_one_class_left_and_few_samples_are_answered(digits: tuple[np.ndarray, np.ndarray]) -> None:
    fitted = model().fit(digits[0][:60], np.zeros(60, int))
    assert fitted.certify(digits[0][600:620]).prediction.shape == (20,)
    assert model().fit(digits[0][:2], digits[1][:2]).predict(digits[0][600:620]).shape == (20,)


def test_answers_below_a_radius_are_masked(digits: tuple[np.ndarray, np.ndarray]) -> None:
    fitted = model().fit(digits[0][:300], digits[1][:300])
    certificate = fitted.certify(digits[0][600:700])
    answers = fitted.predict(digits[0][600:700], min_radius=2)
    assert np.array_equal(answers.mask, certificate.radius < 2)
    assert 0 < answers.mask.sum() < 100
    assert np.array_equal(answers.data, fitted.predict(digits[0][600:700]))


def test_nothing_that_is_saved_is_a_pickle(digits: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    model().fit(digits[0][:100], digits[1][:100]).save(tmp_path / "model")
    paths = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert {path.suffix for path in paths} <= {".npz", ".json", ".skops"}
    for path in paths:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                assert all(arrays[name].dtype != object for name in arrays.files)
