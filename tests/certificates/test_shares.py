"""Majority share, balanced figures and the caution, against references that count one sample after the other."""

import json
from fractions import Fraction

import numpy as np
import pytest

from command_line import as_process as poisonproof
from poisonproof import Spread, Votes, certify
from poisonproof.cli.certify import open_votes
from poisonproof.stochastic.certificate import StochasticCertificate
from refused import refused

NAMES = ["ham", "spam", "other", "never"]


def random_certificate(rng, n=60, inferred=False):
    spread = Spread.random(7, 2)
    names = NAMES[: int(rng.integers(2, 5))]
    votes = rng.integers(len(names), size=(n, spread.n_subsets)) * (rng.random((n, spread.n_subsets)) < 0.6)
    return certify(Votes(votes, spread, names, classes_inferred=inferred))


def stochastic(rng, n=60):
    names = NAMES[: int(rng.integers(2, 5))]
    abstained = rng.random(n) < 0.3
    radius = np.where(abstained, 0, rng.integers(5, size=n))
    prediction = rng.integers(len(names), size=n)
    return StochasticCertificate(
        prediction=prediction,
        abstained=abstained,
        radius=radius,
        radius_changed=radius,
        method="binomial-selection",
        classes=np.array(names),
        failure_probability=0.001,
        seed=0,
        n_draws=10,
    )


def slowly(certificate, y, size):
    """Exactly: of each label the share right with that radius, their mean, the share of the most frequent label."""
    abstained = getattr(certificate, "abstained", np.zeros(len(y), bool))
    own = {}
    for at, label in enumerate(y):
        said = certificate.classes[certificate.prediction[at]]
        held = bool(said == label) and not abstained[at] and certificate.radius[at] >= size
        own.setdefault(label, []).append(held)
    shares = {label: Fraction(sum(held), len(held)) for label, held in own.items()}
    return shares, sum(shares.values()) / len(shares), Fraction(max(map(len, own.values())), len(y))


@pytest.mark.parametrize("kind", ["declared", "inferred", "stochastic"])
def test_every_figure_is_what_counting_gives(kind):
    rng = np.random.default_rng(1)
    for _ in range(40):
        certificate = stochastic(rng) if kind == "stochastic" else random_certificate(rng, inferred=kind == "inferred")
        labels = certificate.classes.tolist() + (["unseen", "unseen too"] if kind == "inferred" else [])
        y = rng.choice(labels, size=len(certificate), p=rng.dirichlet(np.full(len(labels), 0.5)))
        y[0] = labels[0]
        assert certificate.evaluate(y).majority_share == pytest.approx(float(slowly(certificate, y, 0)[2]), abs=1e-15)
        assert certificate.evaluate(y).balanced_accuracy == pytest.approx(
            float(slowly(certificate, y, 0)[1]), abs=1e-12
        )
        for size in (0, 1, 2, 4, 9):
            shares, mean, _ = slowly(certificate, y, size)
            assert float(certificate.evaluate(y).certified_fraction_balanced(size)) == pytest.approx(
                float(mean), abs=1e-12
            )
            said = {one.label: one for one in certificate.evaluate(y).by_class([size, size])}
            assert set(said) == set(shares)
            for label, share in shares.items():
                assert said[label].certified_fraction.tolist() == [pytest.approx(float(share))] * 2
                assert said[label].n_test == (y == label).sum()
                assert said[label].clean_accuracy == pytest.approx(float(slowly(certificate, y, 0)[0][label]))


def test_a_label_the_training_data_lacks_is_a_class_whoever_was_trained_on():
    """What is averaged over depends on the test labels alone: showing the model a label never shrinks the mean."""
    spread = Spread.random(3, 1)
    y = ["a", "a", "b", "c", "c", "c"]
    votes = np.array([[0] * 3] * 6)
    for classes in (["a", "b"], ["a", "b", "c"], ["a", "q"]):
        certificate = certify(Votes(votes, spread, classes, classes_inferred=True))
        assert certificate.evaluate(y).balanced_accuracy == pytest.approx(1 / 3)
        assert certificate.evaluate(y).majority_share == 0.5


def of_predictions(prediction, names):
    spread = Spread.random(3, 1)
    return certify(Votes(np.repeat(np.asarray(prediction)[:, None], 3, axis=1), spread, names))


@pytest.mark.parametrize(
    ("predicted", "true", "kind"),
    [
        ([0] * 100, [0] * 87 + [1] * 13, "one answer"),
        ([1] * 100, [0] * 87 + [1] * 13, "one answer"),
        ([0] * 87 + [1] + [0] * 12, [0] * 87 + [1] * 13, "nearly one answer"),
        ([0] * 87 + [1, 1] + [0] * 11, [0] * 87 + [1] * 13, None),
        ([0] * 80 + [1] * 20, [0] * 87 + [1] * 13, None),
        ([0] * 70 + [1] * 30, [0] * 87 + [1] * 13, "no better"),
        ([1] * 50 + [0] * 50, [0] * 50 + [1] * 50, "no better"),
        ([0] * 995 + [1] * 5, [0] * 995 + [1] * 5, None),
        ([0] * 10, [0] * 10, "one label"),
        ([0, 1] * 5, [0] * 10, "one label"),
    ],
)
def test_a_constant_answer_is_named(predicted, true, kind):
    names = ["ham", "spam"]
    certificate = of_predictions(predicted, names)
    y = [names[at] for at in true]
    caution = certificate.evaluate(y).caution
    assert (caution and caution.kind) == kind
    if kind is not None:
        assert "ham" in caution.headline or "spam" in caution.headline
        assert caution.sentence
    right = sum(p == t for p, t in zip(predicted, true, strict=True))
    if kind is None:
        assert right > max(true.count(0), true.count(1))


def test_labels_cannot_turn_the_line_of_a_caution():
    names = ["ham\x1b[2K", "spam\u202e"]
    caution = of_predictions([0] * 4, names).evaluate([names[0]] * 3 + [names[1]]).caution
    assert (caution.headline + caution.sentence).isprintable()


def test_wrong_input_is_one_sentence():
    certificate = of_predictions([0, 1], ["a", "b"])
    figures = certificate.evaluate(["a", "b"])
    for ask in (figures.certified_fraction_balanced, figures.by_class):
        with refused("certificate.attack-size"):
            ask([-1])
    with refused("labels.count"):
        certificate.evaluate(["a"])
    empty = certify(Votes(np.zeros((0, 3), int), Spread.random(3, 1), ["a", "b"]))
    with refused("certificate.no-test"):
        empty.evaluate([]).certified_fraction_balanced(0)


def test_certify_says_it_on_stderr_and_in_json(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", rng.integers(2, size=(40, 6)))
    np.save(tmp_path / "y.npy", np.array([0] * 30 + [1] * 10))
    words = ("certify", tmp_path / "v.npy", "--spread", "paper:3,2", "--labels", tmp_path / "y.npy", "--classes", 2)
    record = json.loads(poisonproof(*words, "--json").stdout)
    certificate = certify(open_votes(tmp_path / "v.npy", "paper:3,2", None, "2", None))
    y = np.load(tmp_path / "y.npy")
    assert record["majority_share"] == 0.75
    assert record["balanced_accuracy"] == certificate.evaluate(y).balanced_accuracy
    sizes = record["attack_size"]
    assert record["certified_fraction_balanced"] == certificate.evaluate(y).certified_fraction_balanced(sizes).tolist()
    np.save(tmp_path / "v.npy", np.zeros((40, 6), int))
    done = poisonproof(*words)
    assert "WARNING: the model answers '0' to every test sample" in done.stderr
    assert "balanced, % (mean over classes)" in done.stdout
