"""Small real tables for tests, written from scikit-learn's embedded sets."""

import csv

import numpy as np
import pytest
from sklearn.datasets import load_wine

pytest.importorskip("pandas", reason="NO TABLES HERE: pip install '.[tables]'")

MAKERS = 40


def wine_rows(seed=0):
    """The wine set with a text category, contributors and missing cells, as rows of texts with a header."""
    wine = load_wine()
    rng = np.random.default_rng(seed)
    names = [*(name.split("/")[0] for name in wine.feature_names[:6]), "shade", "maker", "class"]
    rows = []
    for values, target in zip(wine.data, wine.target, strict=True):
        shade = "dark" if values[9] > 6 else "mid" if values[9] > 3.5 else "light"
        cells = [repr(float(value)) for value in values[:6]]
        if rng.random() < 0.1:
            cells[int(rng.integers(6))] = str(rng.choice(["", "NA", "?"]))
        rows.append([*cells, shade, f"m{rng.integers(MAKERS)}", "abc"[target]])
    return names, rows


def write_csv(path, names, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    return path
