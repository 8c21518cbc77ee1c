"""What the kernels of method "tight" need to know of a spread, and where its base classifiers stand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poisonproof.certificates.overlap import find_blocks
from poisonproof.partition.spread import Spread

Eight = tuple[
    NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]
]


class TightTables(NamedTuple):
    """``tables`` as `tighten_rows` takes them, for votes whose columns come in the order of ``columns``."""

    columns: NDArray[np.int64]
    tables: Eight
    block_size: int


def tight_tables(spread: Spread) -> TightTables:
    """The spread and its inverse, block by block if it falls into blocks that overlap by design."""
    table = np.ascontiguousarray(spread.as_table())
    blocks = find_blocks(spread)
    columns = np.arange(spread.n_subsets)
    starts, overlap, exactly_one = np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)
    twin, origin, block_size = overlap, np.zeros((spread.n_subsets, 1), np.int64), spread.n_subsets
    if blocks is not None:
        columns, starts, overlap, exactly_one = blocks.classifiers, blocks.starts, blocks.overlap, blocks.exactly_one
        table = np.sort(np.argsort(columns)[table[blocks.partitions]], axis=1)
        origin, block_size = np.repeat(starts[:-1], np.diff(starts))[:, None], int(np.diff(starts).max())
    feeding = np.argsort(table.ravel(), kind="stable").reshape(table.shape) // spread.d
    inside = table - origin
    if blocks is not None:
        maps = [rows.tobytes() for rows in np.split(inside, starts[1:-1])]
        twin = np.array([maps.index(rows) for rows in maps])
    tables = (table, feeding, starts, overlap, exactly_one, twin, inside, feeding - origin)
    return TightTables(columns, tables, block_size)
