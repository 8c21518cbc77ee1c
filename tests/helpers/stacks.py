"""Base classifiers that can be stacked, on odd samples of every kind, and what each says alone."""

import numpy as np
import pandas as pd
import scipy.sparse as sp

from poisonproof.learners.auto import AutoClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.text import BayesTextClassifier, RidgeTextClassifier, TextClassifier
from poisonproof.samples.convert import to_samples
from poisonproof.samples.kinds import TrainingSet
from poisonproof.training.members import fit_member, vote_of

N_CLASSES = 4


def odd_table(rng, n):
    """Columns that are read in different ways by different base classifiers, with gaps and rare cells."""
    mixed = np.array([1.5, "x", None, 2.0, "y"], object)
    return pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "flat": np.ones(n),
            "b": rng.integers(0, 3, n),
            "city": pd.Categorical(np.array(["Rome", "Oslo", "Bonn", None], object)[rng.integers(0, 4, n)]),
            "size": pd.Categorical(rng.integers(0, 9, n) / 2),
            "mixed": pd.Series(mixed[np.where(rng.random(n) < 0.03, rng.integers(0, 5, n), 0)], dtype=object),
            "word": pd.Series([f"w{i}" for i in rng.integers(0, 30, n)], dtype=object),
            "nothing": np.full(n, np.nan),
        }
    )


def odd_texts(rng, n):
    """Short texts of few words, so that some are in no subset; empty ones, and such as hold no word."""
    words = np.array([*(f"word{i}" for i in range(60)), "été", "x", "İstanbul", "non-stop", "don't"])
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(n)]
    return [("", "!?", " \n", text)[min(int(rng.integers(0, 12)), 3)] for text in texts]


def odd_columns(rng, n):
    """The odd table with two columns of texts among the others, in which there are gaps and numbers too."""
    frame = odd_table(rng, n)
    cells = np.array(odd_texts(rng, n), object)
    cells[rng.random(n) < 0.1], cells[rng.random(n) < 0.05] = None, 3.5
    rare = np.where(rng.random(n) < 0.04, np.array(odd_texts(rng, n), object), None)  # none at all in many a subset
    frame.insert(2, "said", pd.Series(cells, dtype=object))
    frame["rare"] = pd.Series(rare, dtype=object)
    return frame


TEXTS = ["said", "rare"]
LEARNERS = {
    "text": TextClassifier(),
    "bayes": BayesTextClassifier(),
    "ridge": RidgeTextClassifier(),
    "choice of texts": AutoClassifier(),
    "columns": TextClassifier(TEXTS),
    "columns alone": TextClassifier(TEXTS[::-1], n_hashed=64, C=3.0),  # words that fall on each other
    "choice of columns": AutoClassifier(TEXTS),
    "choice": AutoClassifier(),
}


def members_of(X, codes, rng, n_members=9, size=25, learner=None):
    samples = to_samples(X)
    members = []
    for index in range(n_members):
        rows = rng.choice(len(samples), size, replace=False)
        rows = rows[codes[rows] < 2 + index % 3] if index else rows[:0]
        members.append(fit_member(learner or TableClassifier(), index, TrainingSet(samples, codes, rows)))
    return members


def one_by_one(members, samples):
    """What each says, of a table as a frame and of texts as such."""
    rows = np.arange(len(samples))
    said = [vote_of(member, samples.take(rows, member.form), len(samples), N_CLASSES)[0] for member in members]
    return np.stack(said, axis=1)


def kinds_of_samples(rng, n):
    numbers = rng.normal(size=(n, 6))
    gaps = np.where(rng.random((n, 6)) < 0.1, np.nan, numbers)
    steps = rng.integers(0, 2, (n, 6)).astype(float)
    return {
        "table": odd_table(rng, n),
        "numbers": numbers,
        "gaps": gaps,
        "steps": steps,
        **dict.fromkeys(("text", "bayes", "ridge", "choice of texts"), odd_texts(rng, n)),
        "columns": odd_columns(rng, n),
        "columns alone": odd_columns(rng, n)[TEXTS],
        "choice of columns": odd_columns(rng, n),
        "choice": odd_table(rng, n),
        "sparse": sp.csr_matrix(np.where(rng.random((n, 6)) < 0.6, 0.0, numbers)),
    }
