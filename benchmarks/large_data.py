"""Write a seeded table as a folder of Parquet files, a file at a time: `python benchmarks/large_data.py FOLDER ROWS`.

Twenty features, fourteen of them numbers and six categories, and two classes that depend on some of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROWS_PER_FILE = 1_000_000
NUMBERS, CATEGORIES = 14, 6


def write(folder: Path, rows: int) -> None:
    """Files of a million rows each; file i depends on i alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        rng = np.random.default_rng([2026, number])
        size = min(ROWS_PER_FILE, rows - start)
        numbers = rng.normal(size=(NUMBERS, size)).round(4)
        codes = rng.integers(0, 8, (CATEGORIES, size))
        score = numbers[0] - 0.7 * numbers[1] + 0.4 * (codes[0] > 3) - 0.2 + 0.5 * rng.normal(size=size)
        names = pa.array([f"v{value}" for value in range(8)])
        columns = {f"x{at}": numbers[at] for at in range(NUMBERS)}
        columns |= {
            f"c{at}": pa.DictionaryArray.from_arrays(codes[at], names).cast(pa.string()) for at in range(CATEGORIES)
        }
        columns["y"] = np.where(score > 0, "yes", "no")
        pq.write_table(pa.table(columns), folder / f"part-{number:05d}.parquet", row_group_size=100_000)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(float(sys.argv[2])))
