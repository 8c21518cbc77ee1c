"""A small table of made-up fish: a number, a category, a contributor and a label."""

import numpy as np
import pytest

pytest.importorskip("pandas", reason="NO TABLES HERE: pip install '.[tables]'")

HEADER = "length,colour,maker,kind"


def write_rows(path, rows):
    path.write_text("\n".join([HEADER, *rows]) + "\n")


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, count)
    return [
        f"{kind * 3 + rng.normal():.4f},{rng.choice(['red', 'blue'] if kind else ['blue', 'green'])},m{number % 30},"
        f"{['eel', 'cod'][kind]}"
        for number, kind in enumerate(kinds)
    ]
