"""Small real data to try poisonproof on, written from what scikit-learn and SciPy carry along: nothing is downloaded.

The same files come out every time (the texts follow the versions of NumPy and SciPy, whose documentation they are).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Any

import xxhash

from poisonproof.errors import PoisonproofError
from poisonproof.system.files import write_text, write_whole

CLINICS = 60
TOPICS = {
    "linear algebra": ("numpy.linalg", "scipy.linalg"),
    "optimisation": ("scipy.optimize",),
    "signals": ("scipy.signal",),
    "statistics": ("scipy.stats",),
}
TEXTS_PER_TOPIC = 240
SHORTEST, LONGEST = 60, 600


@dataclass(frozen=True)
class Written:
    """What was written, in words, and the command to type next."""

    path: Path
    words: str
    command: str


def write_table(folder: Path) -> Written:
    """Breast tumours with numbers, categories as texts and missing cells."""
    header, rows = _tumours()
    path = folder / "tumours.csv"
    _write_csv(path, header, rows)
    command = f"poisonproof run {path} --label diagnosis --classes benign,malignant --k 20 --d 4"
    return Written(path, f"{len(rows)} rows with categories and missing cells", command)


def write_contributors(folder: Path) -> Written:
    """The same tumours, each with one of 60 invented clinics that sent it."""
    header, rows = _tumours()
    path = folder / "tumours-by-clinic.csv"
    clinics = (f"clinic {_number(f'clinic {at}') % CLINICS:02d}" for at in range(len(rows)))
    _write_csv(path, ["clinic", *header], [[clinic, *row] for clinic, row in zip(clinics, rows, strict=True)])
    command = f"poisonproof run {path} --label diagnosis --classes benign,malignant --group-column clinic --k 10 --d 4"
    return Written(path, f"{len(rows)} rows from {CLINICS} invented clinics", command)


def _tumours() -> tuple[list[str], list[list[str]]]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    column = {str(name): data.data[:, at] for at, name in enumerate(data.feature_names)}
    numbers = ["mean radius", "mean texture", "mean smoothness", "mean compactness", "mean symmetry", "worst area"]
    size = ["small" if area < 450 else "medium" if area < 800 else "large" for area in column["mean area"]]
    dents = ["none" if count == 0 else "few" if count < 0.05 else "many" for count in column["mean concave points"]]
    rows = []
    for at in range(len(data.target)):
        cells = [repr(float(column[name][at])) for name in numbers] + [size[at], dents[at]]
        for place in range(len(cells)):
            if (chance := _number(f"{at} {place}") % 40) < 2:
                cells[place] = ("", "?")[chance]
        rows.append([*cells, str(data.target_names[data.target[at]])])
    return [*(name.replace(" ", "_") for name in numbers), "size", "dents", "diagnosis"], rows


def write_texts(folder: Path) -> Written:
    """Paragraphs of SciPy's and NumPy's documentation, by topic."""
    rows = [[text, topic] for topic in TOPICS for text in _paragraphs(topic)]
    path = folder / "paragraphs.csv"
    _write_csv(path, ["text", "topic"], sorted(rows, key=lambda row: _number(row[0])))
    return Written(
        path, f"{len(rows)} texts on {len(TOPICS)} topics", f"poisonproof run {path} --label topic --k 10 --d 4"
    )


def write_images(folder: Path) -> Written:
    """Handwritten digits, 8 by 8 pixels, as a folder of PNG files for each class."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    path = folder / "digit-images"
    for at, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        home = path / str(label)
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15.9375).astype("uint8")).save(home / f"{at:04d}.png")
    return Written(path, f"{len(digits.target)} images of 10 classes", f"poisonproof run {path} --k 20 --d 4")


def write_votes(folder: Path) -> Written:
    """Votes of 80 base classifiers on handwritten digits, as someone who trains elsewhere would have them."""
    import numpy as np
    from sklearn.naive_bayes import GaussianNB

    from poisonproof import FiniteAggregationClassifier, Spread
    from poisonproof.data.named import load

    digits = load("digits")
    spread = Spread.paper(20, 4)
    model = FiniteAggregationClassifier(GaussianNB(), spread=spread, k=20, d=4, classes=range(10), n_jobs=1)
    votes = model.fit(digits.train.X, digits.train.labels).votes(digits.test.X)
    path = folder / "votes.npy"
    write_whole(path, lambda file: np.save(file, votes.matrix))
    write_whole(folder / "labels.npy", lambda file: np.save(file, digits.test.labels))
    return Written(
        path,
        f"votes of {spread.n_subsets} base classifiers on {len(digits.test)} test samples",
        f"poisonproof certify {path} --spread paper:20,4 --classes 10 --labels {folder / 'labels.npy'}",
    )


EXAMPLES: dict[str, Callable[[Path], Written]] = {
    "table": write_table,
    "contributors": write_contributors,
    "text": write_texts,
    "images": write_images,
    "votes": write_votes,
}


def write_example(name: str, folder: str | Path) -> Written:
    """Write an example by its name into a folder, which is made if need be.

    Parameters
    ----------
    name : "table", "contributors", "text", "images" or "votes"
    folder : path
    """
    if name not in EXAMPLES:
        raise PoisonproofError(f"There is no example '{name}'; there are {', '.join(EXAMPLES)}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return EXAMPLES[name](folder)


def _paragraphs(topic: str) -> list[str]:
    """Whole sentences from the documentation of a topic, each once."""
    texts = {text for module in TOPICS[topic] for thing in _things(module) for text in _sentences(getdoc(thing))}
    return sorted(texts, key=_number)[:TEXTS_PER_TOPIC]


def _things(module: str) -> Iterator[Any]:
    loaded = import_module(module)
    return (getattr(loaded, name) for name in getattr(loaded, "__all__", dir(loaded)))


def _sentences(doc: str | None) -> Iterator[str]:
    for paragraph in (doc or "").split("\n\n"):
        text = " ".join(paragraph.split())
        whole = text[:1].isupper() and text.endswith(".") and ">>>" not in text and "---" not in text
        if whole and SHORTEST <= len(text) <= LONGEST:
            yield text


def _number(text: str) -> int:
    """A fixed number that looks random, so that the same files come out everywhere."""
    return xxhash.xxh64_intdigest(text.encode())


def _write_csv(path: Path, header: list[str], rows: list[list[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
