"""Completed runs made up from random votes, as the report is handed them."""

import numpy as np

from poisonproof import (
    Split,
    Spread,
    Votes,
    certify,
)
from poisonproof.premises import Premise
from poisonproof.runs.election import threat_model
from poisonproof.runs.manifest import Identity, Manifest
from poisonproof.runs.run import Outcome


def outcome(folder, X, y, classes, *, votes=None, name="made up", split="content", undefended=0.9, k=10, d=2, **more):
    """A run on test samples ``X``. Without ``votes``, each is right with a chance that its sample drew."""
    rng = np.random.default_rng(0)
    spread = Spread.random(k, d)
    split = Split(split)
    if votes is None:
        truth = np.array([list(classes).index(label) for label in np.asarray(y).tolist()])
        guess = rng.integers(len(classes), size=(len(y), spread.n_subsets))
        sure = rng.random((len(y), 1)) ** 0.5
        votes = np.where(rng.random(guess.shape) < sure, truth[:, None], guess)
    votes = Votes(votes, spread, classes, split, **more)
    certificate = certify(votes)
    manifest = Manifest(
        "complete",
        Identity({"name": name}, split.as_dict(), "made up", list(classes), True, spread.k, spread.d, spread.digest),
        {"poisonproof": "0"},
        premises=(Premise("classes", "as given", declared=True),),
        notes=(),
        threat_model=threat_model(split),
        n_train=1234,
        empty_subsets=0,
    )
    sizes = rng.poisson(5, spread.n_partitions)
    seconds = {"train and vote": 1.0}
    figures = {"undefended_accuracy": undefended, "base_accuracy": 0.5, "partition_sizes": sizes}
    return Outcome(folder, certificate, np.asarray(y), seconds, manifest, X, votes, **figures)
