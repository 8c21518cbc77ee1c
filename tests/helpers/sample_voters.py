"""Small models whose training samples vote, and how to tell that two certificates are the same."""

from sklearn.datasets import load_digits

from poisonproof import BallotClassifier, Certificate, NeighborVoteClassifier

DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
THREATS = ("insert_remove", "insert", "remove", "label_flip", "modify")
TRAIN, TEST = slice(0, 1200), slice(1200, None)
MODELS = {
    "ballots": lambda **more: BallotClassifier(near=2.0, **({"classes": range(10)} | more)),
    "sizes": lambda **more: BallotClassifier(near=1.9, class_sizes=dict.fromkeys(range(10), 120), **more),
    "one-sided": lambda **more: BallotClassifier(near=1.6, one_sided=True, **more),
    "neighbours": lambda **more: NeighborVoteClassifier(n_neighbors=15, **more),
}


def same(one: Certificate, other: Certificate):
    for name in ("prediction", "runner_up", "margin", "radius", "exact"):
        assert (getattr(one, name) == getattr(other, name)).all(), name
    for threat in THREATS:
        assert (one.radius_against(threat) == other.radius_against(threat)).all(), threat
    assert one.classes.tolist() == other.classes.tolist()
