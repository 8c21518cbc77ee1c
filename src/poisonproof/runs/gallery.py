"""The test samples that a report shows, and what it shows of each."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.core.certificate import UNSEEN
from poisonproof.core.certify import Certificate
from poisonproof.display import shown
from poisonproof.samples.convert import take_rows, to_samples
from poisonproof.samples.kinds import NumberSamples, Samples, SparseSamples, TableSamples, TextSamples

Cell = tuple[str, str]

PARTS = ("prediction", "true label", "runner-up")
LARGEST_SIDE = 64
SMALLEST_SIDE = 5
MOST_CELLS = 30
MOST_CLASSES = 10
LONGEST_CELL = 300
LONGEST_TEXT = 2000
LONGEST_BRIEF = 240


@dataclass(frozen=True)
class Limits:
    """How many samples each shelf of the gallery may hold."""

    ends: int
    between: int
    wrong: int


PICTURES = Limits(ends=16, between=48, wrong=24)
ROWS = Limits(ends=5, between=12, wrong=8)


@dataclass(frozen=True)
class Tile:
    """One test sample: how it looks, what was predicted and how firmly; ``votes`` are (class, count, its parts)."""

    row: int
    prediction: str
    truth: str
    runner_up: str
    right: bool
    margin: int
    radius: int
    votes: tuple[tuple[str, int, tuple[str, ...]], ...]
    others: int
    abstained: int
    picture: str
    cells: tuple[Cell, ...]
    brief: str


@dataclass(frozen=True)
class Shelf:
    """Samples that belong together, with a name and a sentence on how they were chosen."""

    title: str
    about: str
    tiles: tuple[Tile, ...]


def gallery(
    certificate: Certificate,
    truth: NDArray[np.int64],
    X: Any,
    tallied: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    dataset: str,
    samples: Samples | None = None,
    columns: Sequence[str] = (),
) -> tuple[Shelf, ...]:
    """A limited choice that anyone would make again: the weakest, the strongest, those between, and the wrong.

    ``tallied`` gives votes by class for some test samples, and behind them the abstentions. ``columns``
    are the names of numbers that came from a table; without them a number bears its place.
    """
    right = certificate.prediction == truth
    X = X.tocsr() if sp.issparse(X) else X
    shown_as_pictures = pixels(take_rows(X, [0]), dataset) is not None
    chosen = choose(certificate.radius, right, PICTURES if shown_as_pictures else ROWS)
    rows = np.concatenate([rows for _, _, rows in chosen])
    looks = dict(
        zip(
            rows.tolist(),
            _looks(take_rows(X, rows), dataset, None if samples is None else samples.subset(rows), columns),
            strict=True,
        )
    )
    names = [*(shown(str(name)) for name in certificate.classes.tolist()), UNSEEN]
    tallies = dict(zip(rows.tolist(), tallied(rows), strict=True))
    shelves = []
    for title, about, rows in chosen:
        tiles = []
        for row in rows.tolist():
            codes = tuple(int(a[row]) for a in (certificate.prediction, truth, certificate.runner_up))
            counts = tallies[row]
            listed = _most_voted(counts[:-1], codes)
            picture, cells = looks[row]
            cells = tuple((shown(name), shown(value)) for name, value in cells)
            tiles.append(
                Tile(
                    row,
                    prediction=names[codes[0]],
                    truth=names[codes[1]],
                    runner_up=names[codes[2]],
                    right=bool(right[row]),
                    margin=int(certificate.margin[row]),
                    radius=int(certificate.radius[row]),
                    votes=tuple((names[code], int(counts[code]), _tags(code, codes)) for code in listed),
                    others=int(counts[:-1].sum() - counts[listed].sum()),
                    abstained=int(counts[-1]),
                    picture=picture,
                    cells=cells,
                    brief=_brief(cells),
                )
            )
        shelves.append(Shelf(title, about, tuple(tiles)))
    return tuple(shelves)


def choose(
    radius: NDArray[np.int64], right: NDArray[np.bool_], limits: Limits
) -> list[tuple[str, str, NDArray[np.int64]]]:
    """Rows for each shelf that is not empty; a row stands in one shelf only. Equal radii go by row."""
    order = np.argsort(radius, kind="stable")
    held, wrong = order[right[order]], order[~right[order]][::-1]
    ends = min(limits.ends, -(-len(held) // 3))
    weakest, rest = held[:ends], held[ends:]
    strongest, between = rest[max(len(rest) - ends, 0) :], rest[: max(len(rest) - ends, 0)]
    steps = np.linspace(0, len(between) - 1, min(limits.between, len(between))).round().astype(np.int64)
    every = f"{len(steps):,} of the {len(between):,} between, evenly spaced in the order of their radius."
    shelves = [
        ("Weakest", "The right predictions with the smallest radius.", weakest),
        ("Between", every, between[steps]),
        ("Strongest", "The right predictions with the largest radius.", strongest),
        ("Wrong", f"{min(limits.wrong, len(wrong)):,} of {len(wrong):,}, the firmest first.", wrong[: limits.wrong]),
    ]
    return [shelf for shelf in shelves if len(shelf[2])]


def pixels(X: Any, dataset: str) -> NDArray[np.uint8] | None:
    """Samples as pictures, grey or RGB in 8 bits; None if they are something else."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "uifb":
        return None
    if dataset == "digits" and X.ndim == 2 and X.shape[1] == 64:
        X = X.reshape(-1, 8, 8) / 16
    if X.ndim == 4 and X.shape[-1] == 1:
        X = X[..., 0]
    is_picture = X.ndim == 3 or (X.ndim == 4 and X.shape[-1] == 3)
    if not is_picture or min(X.shape[1:3]) < SMALLEST_SIDE:
        return None
    if X.dtype == np.uint8:
        return X
    values = np.nan_to_num(X.astype(np.float64))
    lowest = min(values.min(), 0.0)
    return ((values - lowest) * (255 / ((values.max() - lowest) or 1.0))).astype(np.uint8)


def _looks(
    X: Any, dataset: str, samples: Samples | None, columns: Sequence[str]
) -> Iterable[tuple[str, tuple[Cell, ...]]]:
    pictures = pixels(X, dataset)
    if pictures is not None:
        return [(_png(picture), ()) for picture in pictures]
    return [("", cells) for cells in _cells(to_samples(X) if samples is None else samples, columns)]


def _png(picture: NDArray[np.uint8]) -> str:
    """A small picture as a data URI."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    body = BytesIO()
    image.save(body, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(body.getvalue()).decode()


def _cells(samples: Samples, names: Sequence[str]) -> list[tuple[Cell, ...]]:
    """The content of samples that are no pictures, as names and values."""
    rows = range(len(samples))
    if isinstance(samples, TextSamples):
        return [(("text", _cut(text, LONGEST_TEXT)),) for text in samples.texts.tolist()]
    if isinstance(samples, TableSamples):
        columns, n = samples.columns[:MOST_CELLS], samples.n_features
        return [_with_rest([(str(c.name), _shown(c.cell(row))) for c in columns], n) for row in rows]
    if isinstance(samples, SparseSamples):
        return [_stored(samples.matrix[row]) for row in rows]
    assert isinstance(samples, NumberSamples)
    flat = samples.values.reshape(len(samples), -1)
    if len(names) != flat.shape[1]:
        names = [str(at) for at in range(flat.shape[1])]
    return [
        _with_rest([(name, _shown(value)) for name, value in zip(names, row[:MOST_CELLS], strict=False)], len(row))
        for row in flat
    ]


def _stored(row: Any) -> tuple[Cell, ...]:
    pairs = zip(row.indices[:MOST_CELLS].tolist(), row.data[:MOST_CELLS].tolist(), strict=True)
    return _with_rest([(str(column), _shown(value)) for column, value in pairs], row.nnz)


def _with_rest(cells: list[Cell], total: int) -> tuple[Cell, ...]:
    return (*cells, ("…", f"and {total - len(cells):,} more")) if total > len(cells) else tuple(cells)


def _shown(cell: Any) -> str:
    if cell is None or cell != cell:
        return "missing"
    return _cut(cell, LONGEST_CELL) if isinstance(cell, str) else f"{float(cell):.6g}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _brief(cells: Sequence[Cell]) -> str:
    """One line: a text as it stands, cells with their names."""
    words = [value if len(cells) == 1 else f"{name} {value}" for name, value in cells]
    return _cut(" · ".join(words), LONGEST_BRIEF)


def _most_voted(counts: NDArray[np.int64], always: Sequence[int]) -> list[int]:
    """Classes by votes, most first: the top of the list, and those that must be shown in any case."""
    order = np.argsort(-counts, kind="stable").tolist()
    shown = {code for code in order[:MOST_CLASSES] if counts[code]} | {c for c in always if c < len(counts)}
    return [code for code in order if code in shown]


def _tags(code: int, codes: Sequence[int]) -> tuple[str, ...]:
    return tuple(part for part, part_code in zip(PARTS, codes, strict=True) if part_code == code)
