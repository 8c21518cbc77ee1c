"""Base classifiers of the `table` learner on odd samples of every kind, and what each says alone."""

import numpy as np
import pandas as pd
import scipy.sparse as sp

from poisonproof.learners.table import TableClassifier
from poisonproof.samples.canonical import to_samples
from poisonproof.training.member import fed_to, fit_member, vote_of

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


def members_of(X, codes, rng, n_members=9, size=25):
    samples = to_samples(X)
    members = []
    for index in range(n_members):
        rows = rng.choice(len(samples), size, replace=False)
        rows = rows[codes[rows] < 2 + index % 3] if index else rows[:0]
        members.append(fit_member(TableClassifier(), index, samples, codes, rows))
    return members


def one_by_one(members, samples):
    rows = np.arange(len(samples))
    said = [
        vote_of(member, fed_to(TableClassifier(), samples, rows, member.form), len(samples), N_CLASSES)[0]
        for member in members
    ]
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
        "sparse": sp.csr_matrix(np.where(rng.random((n, 6)) < 0.6, 0.0, numbers)),
    }
