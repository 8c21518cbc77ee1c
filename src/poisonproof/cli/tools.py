"""poisonproof doctor and poisonproof example: what this machine offers, and small real data to try the commands on.

`doctor` changes nothing. Examples are written from what scikit-learn and SciPy carry along: nothing is downloaded, and
the same files come out every time (the texts follow the versions of NumPy and SciPy, whose documentation they are).
"""

from __future__ import annotations

import csv
import io
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from poisonproof import __version__
from poisonproof.cli import options, output
from poisonproof.errors import PoisonproofError, install_command

EXAMPLES = {
    "doctor": "Example: `poisonproof doctor`; `poisonproof doctor --json`",
    "example": "Example: `poisonproof example table` and `poisonproof run tumours.csv --label diagnosis --k 20 --d 4`",
}
NOT_FOR_USERS = ("test", "dev", "docs")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
NAME = re.compile(r"^[A-Za-z0-9._-]+")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
SLOW_SECONDS = 5.0
CLINICS = 60
TOPICS = {
    "linear algebra": ("numpy.linalg", "scipy.linalg"),
    "optimisation": ("scipy.optimize",),
    "signals": ("scipy.signal",),
    "statistics": ("scipy.stats",),
}
TEXTS_PER_TOPIC = 240
SHORTEST, LONGEST = 60, 600


def doctor(json: options.Json = False) -> None:
    """Versions, cores, memory, threads, and optional parts found here; for what is missing, the command.

    Paste it into a bug report. Nothing is changed or sent.
    """
    found = examine()
    if json:
        output.print_json(found)
    else:
        for name, words in in_lines(found):
            output.print_line(f"{name:<16}{words}")
    if not found["ok"]:
        raise PoisonproofError(
            f"The example of the docs has radius 1, and here it came out as {found['toy_radius']}: believe no radius "
            "from this installation, and make a new one with `pip install --force-reinstall .` in a checkout.",
            code="doctor.self-test",
        )


def example(
    name: Annotated[
        str | None,
        typer.Argument(
            help="`table` (CSV with categories and missing cells), `contributors` (the same with ids), `text`, "
            "`images` (a folder) or `votes`; without a name they are listed.",
            autocompletion=options.one_of(("table", "contributors", "text", "images", "votes")),
        ),
    ] = None,
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path(),
    json: options.Json = False,
) -> None:
    """Write a small real data set from what scikit-learn and SciPy carry along, and say which command to type next."""
    if name is None:
        words = {choice: (getdoc(write) or "").split("\n", 1)[0].rstrip(".") for choice, write in WRITERS.items()}
        if json:
            output.print_json({"examples": words})
            return
        for choice, about in words.items():
            output.print_line(f"{choice:<14}{about}")
        output.print_line("Next: poisonproof example table")
        return
    written = write_example(name, folder)
    if json:
        output.print_json({"out": str(written.path), "words": written.words, "next": written.command})
        return
    output.print_line(f"{written.path}: {written.words}.")
    output.print_line(f"Next: {written.command}")


def examine() -> dict[str, Any]:
    """Look at this machine; ``toy_radius`` must be 1."""
    import numba
    from threadpoolctl import threadpool_info

    from poisonproof.system.machine import memory
    from poisonproof.system.threads import n_cores

    required, optional = _requirements()
    radius, seconds = _toy()
    total, free = memory()
    for module in ("numpy.linalg", "scipy.linalg", "sklearn.utils"):  # each brings a library of its own
        import_module(module)
    pools = {
        f"{pool['internal_api']} {pool['version'] or '(version unknown)'}, {pool['num_threads']} threads"
        for pool in threadpool_info()
    }
    return {
        "versions": {"poisonproof": __version__, "Python": platform.python_version(), **required},
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": n_cores(),
        "cores_in_all": os.cpu_count() or 1,
        "memory_total": total,
        "memory_free": free,
        "disk_free": shutil.disk_usage(Path.cwd()).free,
        "linear_algebra": sorted(pools),
        "numba_threads": numba.get_num_threads(),
        "thread_variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "optional": optional,
        "toy_radius": radius,
        "toy_seconds": seconds,
        "ok": radius == 1,
    }


def _requirements() -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Versions of what poisonproof needs, and of its optional parts what is here and what is missing."""
    required: dict[str, str] = {}
    parts: dict[str, dict[str, Any]] = {}
    for line in metadata.requires("poisonproof") or ():
        name, extra = NAME.match(line), EXTRA.search(line)
        if name is None or name[0] == "poisonproof":
            continue
        try:
            version = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            version = None
        if extra is None:
            required[name[0]] = version or "missing"
        elif extra[1] not in NOT_FOR_USERS:
            part = parts.setdefault(extra[1], {"name": extra[1], "present": {}, "missing": []})
            if version is None:
                part["missing"].append(name[0])
            else:
                part["present"][name[0]] = version
    return required, [parts[name] for name in sorted(parts)]


def _toy() -> tuple[int, float]:
    """The radius of the paper's Figure 2, and the seconds it took: the first time, Numba compiles."""
    start = time.perf_counter()
    from poisonproof import Spread, Votes, certify

    cat, dog, bird, deer = 1, 3, 0, 2
    votes = Votes([[cat, dog, cat, bird, cat, deer] * 2], Spread(12, (0, 1)), ["bird", "cat", "deer", "dog"])
    return int(certify(votes).radius[0]), round(time.perf_counter() - start, 2)


def in_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was found, in words."""
    from poisonproof.display import in_bytes

    def size(name: str) -> str:
        return "?" if found[name] is None else in_bytes(found[name])

    versions = list(found["versions"].items())
    yield "poisonproof", found["versions"]["poisonproof"]
    yield "system", f"Python {found['versions']['Python']}, {found['system']}"
    yield "libraries", ", ".join(f"{name} {version}" for name, version in versions[2:])
    yield "cores", f"{found['cores']} of {found['cores_in_all']} may be used"
    free = "" if found["memory_free"] is None else f", {size('memory_free')} free"
    yield "memory", f"{size('memory_total')}{free}; {size('disk_free')} free on this disk"
    yield "linear algebra", "; ".join(found["linear_algebra"]) + " (each base classifier uses one)"
    named = "".join(f", {name}={value}" for name, value in found["thread_variables"].items())
    yield "Numba", f"{found['numba_threads']} threads{named}"
    slow = " (Numba compiled; the next time is quicker)" if found["toy_seconds"] > SLOW_SECONDS else ""
    verdict = "as it must" if found["ok"] else "NOT 1, AS IT MUST"
    yield "self-test", f"the toy example has radius {found['toy_radius']}, {verdict}; {found['toy_seconds']} s{slow}"
    yield "browser", "none needed: report.html is one file that any browser opens"
    for part in found["optional"]:
        words = [", ".join(f"{name} {version}" for name, version in part["present"].items())]
        if part["missing"]:
            words.append(f"missing {', '.join(part['missing'])}: {install_command(part['name'])}")
        yield f"[{part['name']}]", "; ".join(filter(None, words))


class Written(NamedTuple):
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
    from poisonproof.data.reading import load
    from poisonproof.system.files import write_whole

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


WRITERS: dict[str, Callable[[Path], Written]] = {
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
    if name not in WRITERS:
        raise PoisonproofError(f"There is no example '{name}'; there are {', '.join(WRITERS)}.", code="example.unknown")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return WRITERS[name](folder)


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
    import xxhash

    return xxhash.xxh64_intdigest(text.encode())


def _write_csv(path: Path, header: list[str], rows: list[list[str]]) -> None:
    from poisonproof.system.files import write_text

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
