"""Data sets by name: the digits of scikit-learn, and whatever somebody adds to the registry (``datasets``)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from poisonproof import registry
from poisonproof.data.dataset import Dataset, LabelledSamples, held_out
from poisonproof.samples.convert import to_samples
from poisonproof.samples.schema import ArraySchema, Schema

SCHEMAS: dict[str, Schema] = {"digits": ArraySchema((64,), "float64")}
"""How further samples of these data sets are read, from files of a user's own."""


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """A data set by its name in the registry; ``digits`` is embedded.

    Parameters
    ----------
    name : str
    folder : path, optional
        Where the files of others lie; otherwise the environment variable POISONPROOF_DATA.
    """
    place = folder or os.environ.get("POISONPROOF_DATA")
    dataset: Dataset = registry.find("datasets", name)(None if place is None else Path(place))
    return dataset


def digits(folder: Path | None = None) -> Dataset:
    """1,797 handwritten digits of 8 × 8 pixels, a fifth of them held out by their content."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    whole = LabelledSamples(to_samples(X), y)
    test = held_out(whole.samples, share=0.2)
    return Dataset("digits", whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test)), np.arange(10))
