"""What is read off all rows may shrink as well as grow: the certificate reckons with it, or a premise names it."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from drawn import binomial
from poisonproof import (
    BallotClassifier,
    CertifiedBaggingClassifier,
    FiniteAggregationClassifier,
    InfiniteAggregationClassifier,
    NeighborVoteClassifier,
    Split,
    certified_accuracy,
    certify,
)
from poisonproof.ballots.maps import TableFeatures
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier

X, Y = (part[:150] for part in load_digits(return_X_y=True))
FRAME = pd.DataFrame({"a": X[:, 20].astype(int), "b": np.where(X[:, 30] > 8, "x", "y"), "c": X[:, 42]})
FRAME["b"] = FRAME["b"].astype("category")


def finite(k, d, learner=None, **more):
    return FiniteAggregationClassifier(learner, k=k, d=d, n_jobs=1, **more)


TREE, NEAREST = DecisionTreeClassifier(max_depth=2), KNeighborsClassifier(1)
VOTES = ("finite-aggregation", "tight", "run-off")
UNITS = TableFeatures.declared({"a": 1, "b": 1, "c": "category"})
DRAWN = {"k": 5, "n_draws": 200, "alpha": 0.05, "seed": 0}
FAMILIES = {
    # name: (model with everything inferred that may be, methods of certify)
    "partitions": (finite(6, 1, GaussianNB()), ("dpa-bound", *VOTES)),
    "finite aggregation": (finite(5, 2, GaussianNB()), ("dpa-bound", *VOTES)),
    "trees": (finite(4, 3, TREE), VOTES),
    "the default learner": (finite(5, 2), VOTES),
    "a pooled learner": (finite(5, 2, KernelRidgeClassifier(VectorFeatures(), gamma=0.1)), VOTES),
    "labels in the hash": (finite(6, 1, TREE, split=Split(hash_labels=True)), VOTES),
    "contributors": (finite(5, 1, TREE, split="group"), VOTES),
    "categories": (finite(5, 2), VOTES),
    "ballots": (BallotClassifier(near=2.0), [None]),
    "ballots of which most are far": (BallotClassifier(near=1.5), [None]),
    "one-sided ballots": (BallotClassifier(near=2.0, one_sided=True), [None]),
    "voices": (BallotClassifier(near=2.0, voices=2, split="group"), [None]),
    "one-sided voices": (BallotClassifier(near=2.0, one_sided=True, split="group"), [None]),
    "ballots of categories": (BallotClassifier(UNITS, near=2.0), [None]),
    "neighbours": (NeighborVoteClassifier(n_neighbors=5), [None]),
    "more neighbours than rows": (NeighborVoteClassifier(n_neighbors=99), [None]),
    "contributors as neighbours": (NeighborVoteClassifier(n_neighbors=5, split="group"), [None]),
    "neighbours of categories": (NeighborVoteClassifier(UNITS, n_neighbors=5), [None]),
    "infinite aggregation": (InfiniteAggregationClassifier(NEAREST, **DRAWN), [None]),
    "binomial selection": (binomial(NEAREST, **DRAWN), [None]),
    "bagging": (CertifiedBaggingClassifier(NEAREST, subset_size=3, n_draws=150, alpha=0.05, seed=0), [None]),
}
STOCHASTIC = ("infinite aggregation", "binomial selection", "bagging")
RARE = ([0, 1, 2], [1, 0, 2], [2, 0, 1], ["z", 0, "a"])  # the name of the rare class is first, in the middle, last


def with_a_rare_class(seed):
    """Points of three classes or two, the first few of the rare one; their contributors; points to ask about."""
    rng, names = np.random.default_rng(seed), RARE[seed % len(RARE)]
    counts = (1 + seed % 3, int(rng.integers(0, 12)), int(rng.integers(4, 14)))
    codes, asked = np.repeat([0, 1, 2], counts), rng.integers(0, 3, 12)
    centres = rng.integers(-2, 3, (3, 2))
    points, tests = (np.c_[centres[of] + rng.integers(-1, 2, (len(of), 2)), of] for of in (codes, asked))
    groups = np.array([f"u{code}{number % 4}" for number, code in enumerate(codes)], object)
    return points.astype(float), [names[code] for code in codes], groups, tests.astype(float), counts[0]


def formed(family, points):
    """Points as an array, or as a table with a category of each class; pandas lists those that occur."""
    if "categories" not in family:
        return points[:, :2]
    return pd.DataFrame(
        {"a": points[:, 0], "b": points[:, 1], "c": pd.Categorical([f"c{of:g}" for of in points[:, 2]])}
    )


def fitted(family, points, y, groups, classes):
    model = clone(FAMILIES[family][0])
    given = (groups,) if getattr(model, "split", None) == "group" else ()
    return model.fit(formed(family, points), y, *given)


def certificates(model, X, method):
    """The certificate, and what it was made from, if that can be asked more."""
    if not isinstance(model, FiniteAggregationClassifier | BallotClassifier | NeighborVoteClassifier):
        return model.certify(X), None
    if isinstance(model, FiniteAggregationClassifier):
        votes = model.votes(X, rankings=method == "run-off")
        return certify(votes, method), votes
    votes = model.ballots(X) if isinstance(model, BallotClassifier) else model.neighbours(X)
    return certify(votes), votes


def shrunk(points, y, groups, n_rare, rng):
    """The rare class removed, alone, and with one and two others besides; and flipped to another name."""
    for more in range(3):
        gone = np.append(np.arange(n_rare), n_rare + rng.permutation(len(y) - n_rare)[:more])
        left = np.setdiff1d(np.arange(len(y)), gone)
        yield "remove", (len(gone), len(set(groups[gone]))), (points[left], [y[row] for row in left], groups[left])
    renamed = [y[-1] if row < n_rare else label for row, label in enumerate(y)]
    yield "label_flip", (n_rare, len(set(groups[:n_rare]))), (points, renamed, groups)


def broken_by(threat, size, before, after, votes):
    """Which claims about attacks of this size a class that vanished has broken, and how many were made."""
    said, now = before.labels.astype(object), after.labels.astype(object)
    sure = ~after.abstained if hasattr(after, "abstained") else np.ones(len(now), np.bool_)
    claims = [before.radius >= (size if threat == "remove" else 2 * size)]
    if threat == "label_flip" or not hasattr(before, "abstained"):
        claims.append(before.radius_against(threat) >= size)
    broken = [threat for held in claims if (now != said)[held & sure].any()]
    if votes is None or threat != "remove":
        return broken, sum(held.sum() for held in claims)
    if before.method not in ("dpa-bound", "run-off"):
        feared = {target: certify(votes, target=target) for target in votes.classes.tolist()}
        broken += [
            f"target {target}"
            for target, one in feared.items()
            if ((now == target) & (one.radius >= size) & ~one.already).any()
        ]
    if before.method in ("finite-aggregation", "ballots", "one-sided ballots") and size <= 3 and not grouped(votes):
        shared = certified_accuracy(votes, before.labels, size, time_limit=1)
        broken += ["shared attack"] if shared.lower_count > (now == said).sum() else []
    return broken, sum(held.sum() for held in claims)


def grouped(votes):
    return votes.split is not None and votes.split.kind == "group"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_no_claim_is_broken_where_a_class_vanishes(family):
    """Nor where its categories and contributors vanish with it, or fewer voters are left than are asked."""
    model, methods = FAMILIES[family]
    by_group, claimed, broken = getattr(model, "split", None) == "group", 0, []
    for seed in range(2 if family in STOCHASTIC else 12):
        points, y, groups, asked, n_rare = with_a_rare_class(seed)
        X, classes = formed(family, asked), RARE[seed % len(RARE)]
        first = fitted(family, points, y, groups, classes)
        for threat, sizes, rest in shrunk(points, y, groups, n_rare, np.random.default_rng(seed)):
            then = fitted(family, *rest, classes)
            assert (y[0] in then.classes_.tolist()) == ("blocks" in family)
            for method in methods:
                (before, votes), (after, _) = (certificates(one, X, method) for one in (first, then))
                wrong, n_claims = broken_by(threat, sizes[by_group], before, after, votes)
                broken, claimed = [*broken, *((seed, sizes, method, what) for what in wrong)], claimed + n_claims
    assert broken == []
    assert claimed >= 5


def images(folder, sizes, modes=("L",)):
    for at, (size, mode) in enumerate(zip(sizes, [*modes] * len(sizes), strict=False)):
        home = folder / "images" / f"c{at % 2}"
        home.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, at * 3 % 255 if mode == "L" else (at, 0, 0)).save(home / f"{at:03}.png")
    return folder / "images"


def lines(folder, name, rows):
    (folder / name).write_text("\n".join(rows) + "\n")
    return folder / name


NUMBERED = [f"{at}.5,{'ab'[at % 2]},{at % 7}" for at in range(60)]
SHRINKING = {
    # name: (what writes the rows, all of them or without the last few; the premise; the same as declared)
    "number of features": (
        lambda folder, few: lines(folder, "t.svm", [f"{at % 2} {at % 5}:1" for at in range(60)]
                                  + ["1 9:1"] * (not few)),
        ReadOptions(), "number-of-features", {"n_features": 10},
    ),
    "the role of a column": (
        lambda folder, few: lines(folder, "t.csv", ["x,y,z", *NUMBERED[: None if few else 30]]
                                  + ["many,a,1"] * (2 if few else 6)),
        ReadOptions(label="y"), "schema", {"schema": {"x": "number", "y": "label", "z": "number"}},
    ),
    "categories that are ids": (
        lambda folder, few: lines(folder, "t.csv", ["x,y,z", *(f"k{at},{'ab'[at % 2]},{at % 7}" for at in range(30))]
                                  + [f"k0,a,{at}" for at in range(0 if few else 40)]),
        ReadOptions(label="y"), "schema", {"schema": {"x": "category", "y": "label", "z": "number"}},
    ),
    "the size of images": (
        lambda folder, few: images(folder, [(4, 4)] * 30 + [(5, 5)] * (20 if few else 40)),
        ReadOptions(), "schema", {"image_size": (4, 4), "colour": False},
    ),
    "the colours of images": (
        lambda folder, few: images(folder, [(4, 4)] * 60, ["L"] * (40 if few else 20) + ["RGB"] * 60),
        ReadOptions(), "schema", {"image_size": (4, 4), "colour": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SHRINKING)
def test_what_shrinks_with_the_rows_of_a_file_is_declared_or_a_premise(what, tmp_path):
    write, options, premise, declared = SHRINKING[what]
    schemas = []
    for few, how in product((False, True), (options, ReadOptions(**{**vars(options), **declared}))):
        folder = tmp_path / f"{few} {how is options}"
        folder.mkdir()
        dataset = open_files(write(folder, few), how)
        (named,) = [one for one in dataset.premises if one.code == premise]
        assert named.declared == (how is not options)
        schemas.append(dataset.schema)
    assert schemas[0] != schemas[2], "what is inferred did not shrink, so nothing was asked"
    assert schemas[1] == schemas[3]


INFERRED = {
    # name: (model, samples, the premise that names what was inferred)
    "classes of base classifiers": (finite(3, 1, GaussianNB()), X, "classes"),
    "classes of ballots": (BallotClassifier(near=1.0), X, "classes"),
    "classes of neighbours": (NeighborVoteClassifier(n_neighbors=3), X, "classes"),
    "classes of drawn subsets": (binomial(NEAREST, k=2, n_draws=2, seed=0), X, "classes"),
    "the length of rows": (finite(3, 1, GaussianNB()), [[1.0]] + [list(row) for row in X[1:]], "number-of-features"),
    "the length of rows that vote": (BallotClassifier(near=1.0), [[1.0]] + [list(row) for row in X[1:]],
                                     "number-of-features"),
    "types of columns": (finite(3, 1), FRAME, "schema"),
    "which columns are categories": (finite(3, 1), FRAME, "categorical-columns"),
    "units of columns": (BallotClassifier(near=1.0), FRAME, "map"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("what", INFERRED)
def test_what_a_model_reads_off_all_rows_is_a_premise(what):
    model, samples, premise = INFERRED[what]
    (named,) = [one for one in clone(model).fit(samples, Y).premises_ if one.code == premise]
    assert not named.declared
