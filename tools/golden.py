"""Small cases of everything that decides a certificate, each with a digest of every array that comes out.

    python tools/golden.py check [CASE …]           compare with tests/golden/values.json; names what differs
    python tools/golden.py write                    write that file anew
    python tools/golden.py print                    the digests of this tree, as JSON
    python tools/golden.py --against COMMIT         this tree beside another commit's own golden.py, on this machine

Three classes of cases. *exact*: whole numbers, equal on every machine. *votes*: votes of learners, equal for the same
versions of the libraries. *bits*: the last bits of floating-point numbers, equal on one kind of processor with the same
versions. A class whose key (versions, processor) is another one than the file's is left out, and that is said.

Inputs come from SHAKE-256, because NumPy may change its random streams.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import dump_svmlight_file, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

# The adapter: everything of poisonproof that is not public. A change of its structure edits these lines alone.
import poisonproof
from poisonproof import (
    BallotClassifier,
    CertifiedBaggingClassifier,
    Dataset,
    FiniteAggregationClassifier,
    InfiniteAggregationClassifier,
    NeighborVoteClassifier,
    ReadOptions,
    Split,
    Spread,
    Votes,
    certified_accuracy,
    certify,
    open_files,
    preset,
    run,
)
from poisonproof.core import tight
from poisonproof.core.certify import certify_in_numpy
from poisonproof.core.spread import PAPER_SEED
from poisonproof.data.dataset import HOLD_OUT_SEED, held_out
from poisonproof.estimators.prepared import prepare
from poisonproof.learners import logistic
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.stochastic.classifiers import Draws
from poisonproof.training import members


def constants() -> dict[str, Any]:
    """What no small case would show: batches of 512 are one batch here."""
    return {
        "rows asked at a time": members.BATCH,
        "sums side by side": logistic.LANES,
        "grid of the dual": tight.GRID,
        "seed of the paper's spread": PAPER_SEED,
        "seed of the held-out samples": HOLD_OUT_SEED,
    }


def subsets_of(model: FiniteAggregationClassifier, X: Any, y: Any, groups: Any = None) -> tuple[Any, list[Any]]:
    """Digests of all subsets, and the rows of each in the order in which a base classifier sees them."""
    prepared = prepare(model, X, y, groups)
    return prepared.digests, [prepared.source.rows(i) for i in range(prepared.spread.n_subsets)]


def reader_case(path: Path, **options: Any) -> list[Any]:
    """Digests of what is read from a file, its schema, and what was left out."""
    data = open_files(path, ReadOptions(held_out=0.25, **options))
    return [data.digests(), data.schema.as_dict() if data.schema is not None else None]


# Inputs


def stream(seed: str, n: int) -> np.ndarray:
    """``n`` whole numbers below 2⁶⁴ that hang on the seed alone."""
    return np.frombuffer(hashlib.shake_256(seed.encode()).digest(8 * n), "<u8")


def integers(seed: str, below: int, shape: tuple[int, ...]) -> np.ndarray:
    return (stream(seed, int(np.prod(shape))) % np.uint64(below)).astype(np.int64).reshape(shape)


def shares(seed: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers from 0 to 1, in whole 1/2²⁰."""
    return integers(seed, 1 << 20, shape) / (1 << 20)


X, Y = load_digits(return_X_y=True)
WINE = load_wine()
WORDS = [" ".join(f"w{i}" for i in np.flatnonzero(row > 8)) + " é" for row in X[:300]]
IMAGES = X[:300].astype(np.uint8).reshape(-1, 8, 8)


def frame() -> pd.DataFrame:
    n = 300
    cities = np.array(["Rome", "Oslo", "São Paulo", None], object)
    odd = (1.5, "x", None, True, 2**60 + 1)
    return pd.DataFrame(
        {
            "a": np.where(shares("a missing", (n,)) < 0.1, np.nan, (integers("a", 1998, (n,)) - 999) / 8),
            "b": integers("b", 9, (n,)),
            "city": pd.Categorical(cities[integers("city", 4, (n,))]),
            "mixed": pd.Series([odd[i] for i in integers("mixed", 5, (n,))], dtype=object),
            "when": pd.to_datetime(1_700_000_000 + integers("when", 10**6, (n,)), unit="s"),
            "flag": shares("flag", (n,)) < 0.5,
        }
    )


def frame_labels(table: pd.DataFrame) -> np.ndarray:
    return (np.nan_to_num(table["a"].to_numpy()) > 0).astype(int) + (table["b"].to_numpy() > 5)


def odd_numbers() -> np.ndarray:
    numbers = X[:300].copy()
    numbers[0, 0], numbers[1, 1], numbers[2, 2], numbers[3], numbers[4, 5] = -0.0, np.nan, np.inf, 1.7e308, 5e-324
    return numbers


def sparse() -> sp.csr_matrix:
    matrix = sp.csr_matrix(np.where(X[:300] > 8, X[:300], 0))
    matrix.data[:3] = [-0.0, 0.0, 2.5]
    return matrix


def vote_matrix(seed: str, n_test: int, spread: Spread, n_classes: int, *, abstain: bool = True) -> np.ndarray:
    shape = n_test, spread.n_subsets
    loyal = shares(f"{seed} loyal", shape) < shares(f"{seed} loyalty", (n_test, 1))
    top = integers(f"{seed} top", n_classes, (n_test, 1))
    return np.where(loyal, top, integers(f"{seed} votes", n_classes + abstain, shape))


def rankings(seed: str, n_test: int, n_members: int, n_classes: int) -> np.ndarray:
    favour = np.array([0, 0.4, 1.0])[integers(f"{seed} favour", 3, (n_test, 1, 1))]
    scores = shares(seed, (n_test, n_members, n_classes)) + favour * shares(f"{seed} liked", (n_test, 1, n_classes))
    ranked = np.argsort(-scores, axis=2, kind="stable")
    ranked[shares(f"{seed} asleep", (n_test, n_members)) < 0.1] = n_classes
    return ranked


# Learners that show what others hide


class LastBits(ClassifierMixin, BaseEstimator):
    """Votes by the last bits of a score: what a tied vote does now and then, it does every time."""

    def __init__(self, learner: Any = None) -> None:
        self.learner = learner

    def fit(self, X: Any, y: Any) -> LastBits:
        self.learner_ = self.learner.fit(X, y)
        self.classes_ = self.learner_.classes_
        return self

    def predict(self, X: Any) -> np.ndarray:
        scores = getattr(self.learner_, "predict_proba", None) or self.learner_.decision_function
        bits = np.ascontiguousarray(scores(X)[:, 0]).view(np.uint64)
        return self.classes_[(bits % len(self.classes_)).astype(int)]


class LastSeen(ClassifierMixin, BaseEstimator):
    """Votes by the order in which its samples come: the label at a place that the test sample names."""

    def fit(self, X: Any, y: Any) -> LastSeen:
        self.classes_, self.y_ = np.unique(y), np.asarray(y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.y_[np.asarray(X).sum(axis=1).astype(int) % len(self.y_)]


# Cases

Case = Callable[[], dict[str, Any]]
CASES: dict[str, tuple[str, Case]] = {}


def case(kind: str, name: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[name] = (kind, function)
        return function

    return add


def certificate(c: Any, *threats: str) -> dict[str, Any]:
    names = ("prediction", "radius", "runner_up", "margin", "exact", "already", "abstained")
    found = {name: np.asarray(getattr(c, name)) for name in names if getattr(c, name, None) is not None}
    return found | {f"against {threat}": c.radius_against(threat) for threat in threats}


case("exact", "constants")(constants)


@case("exact", "spreads")
def _() -> dict[str, Any]:
    spreads = {
        "paper 50 16": Spread.paper(50, 16),
        "paper 1200 1": Spread.paper(1200, 1),
        "random 10 3": Spread.random(10, 3, seed=1),
        "random 50 16": Spread.random(50, 16),
        "planes 4 12": Spread.planes(4, 12),
        "planes 9 2": Spread.planes(9, 2),
        "quartic 37 3": Spread.quartic(37, 3),
        "difference set": Spread.from_difference_set(11, (1, 3, 4, 5, 9), 3),
        "table": Spread.from_table([[0, 1], [0, 1], [2, 3], [2, 3]]),
    }
    return {name: [spread.digest, spread.as_table().tolist()] for name, spread in spreads.items()}


def voted(
    name: str, method: str, spread: Spread, n_classes: int, n_test: int, *, inferred: bool = False, **more: Any
) -> None:
    @case("exact", name)
    def _() -> dict[str, Any]:
        matrix = vote_matrix(name, n_test, spread, n_classes)
        votes = Votes(matrix, spread, range(n_classes), "content", classes_inferred=inferred)
        return certificate(
            certify(votes, method, n_jobs=1, **more), *([] if "target" in more else ["label_flip", "modify"])
        )


PAPER = Spread.paper(20, 4)
voted("theorem 2", "finite-aggregation", PAPER, 4, 400)
voted("theorem 2, classes inferred", "finite-aggregation", PAPER, 4, 400, inferred=True)
voted("theorem 2, 43 classes, d = 130", "finite-aggregation", Spread.random(3, 130), 43, 120)
voted("theorem 2, 300 classes", "finite-aggregation", Spread.random(30, 2), 300, 120, inferred=True)
voted("dpa bound", "dpa-bound", PAPER, 4, 400, inferred=True)
voted("tight, random spread", "tight", PAPER, 4, 120)
voted("tight, planes", "tight", Spread.planes(4, 6), 4, 80, inferred=True)
voted("reachable partitions", "finite-aggregation", PAPER, 4, 200, reachable=np.arange(0, 80, 3))
voted("target 0", "finite-aggregation", Spread.paper(12, 3), 5, 150, target=0)
voted("target 3", "dpa-bound", Spread.paper(12, 3), 5, 150, target=3)


@case("exact", "theorem 2 by NumPy")
def _() -> dict[str, Any]:
    spread = Spread.paper(5, 3)
    matrix = vote_matrix("numpy", 100, spread, 3).astype(np.uint8)
    return {str(i): array for i, array in enumerate(certify_in_numpy(matrix, spread.as_table(), 3, unseen_class=True))}


def run_off(name: str, d: int, places: int | None, *, inferred: bool = False) -> None:
    @case("exact", name)
    def _() -> dict[str, Any]:
        ranked = rankings(name, 150, 24, 5)[..., :places]
        spread = Spread.random(24 // d, d)
        votes = Votes(ranked[..., 0], spread, range(5), "content", classes_inferred=inferred, rankings=ranked)
        return certificate(certify(votes, "run-off", n_jobs=1))


run_off("run-off, d = 1", 1, None)
run_off("run-off, d = 3, classes inferred", 3, None, inferred=True)
run_off("run-off, two places", 2, 2)


@case("exact", "one shared attack")
def _() -> dict[str, Any]:
    spread = Spread.paper(12, 2)
    votes = Votes(vote_matrix("shared", 80, spread, 4, abstain=False), spread, range(4))
    y = certify(votes).prediction
    found = {size: certified_accuracy(votes, y, size, time_limit=60, n_jobs=1) for size in range(4)}
    return {f"size {size}": [f.lower_count, f.upper_count, f.clean_count, f.exact] for size, f in found.items()}


KINDS: dict[str, tuple[Callable[[], Any], Split]] = {
    "numbers": (odd_numbers, Split()),
    "pixel sums": (lambda: IMAGES, Split("pixel-sum", "uint8")),
    "images": (lambda: IMAGES, Split(dtype="uint8")),
    "sparse": (sparse, Split(n_features=64)),
    "texts": (lambda: WORDS, Split()),
    "table": (frame, Split()),
    "labels hashed": (odd_numbers, Split(hash_labels=True)),
    "contributors": (odd_numbers, Split("group")),
}


def data_case(name: str) -> None:
    make, split = KINDS[name]

    def contributors() -> list[Any] | None:
        return [f"u{i % 40}" if i % 3 else 2**60 + i % 7 for i in range(300)] if name == "contributors" else None

    @case("exact", f"split, {name}")
    def _() -> dict[str, Any]:
        data, groups = make(), contributors()
        labels = [int(label) if i % 5 else f"t{label}" for i, label in enumerate(Y[:300])]
        samples = split.samples(data)
        return {
            "partition": split.partitions(samples, 97, labels if split.hash_labels else None, groups),
            "digests": Dataset.of(
                name, data, labels, data[:9], labels[:9], None, dtype=split.dtype, groups=groups
            ).digests(),
            "held out": held_out(data, 0.25, groups=groups, dtype=split.dtype),
            "hashes": samples.hashes(),
        }

    @case("exact", f"subsets, {name}")
    def _() -> dict[str, Any]:
        model = FiniteAggregationClassifier(GaussianNB(), k=7, d=3, classes=range(10), split=split, n_jobs=1)
        digests, rows = subsets_of(model, make(), Y[:300], contributors())
        return {"digests": digests, "rows in order": [part.tolist() for part in rows]}


for _name in KINDS:
    data_case(_name)


@case("exact", "readers")
def _() -> dict[str, Any]:
    names = ["al", "ma", "as", "alk", "mg", "shade", "maker", "class"]
    odd, place = integers("odd cells", 10, (178,)), integers("odd places", 5, (178,))
    rows = []
    for i, (cells, target) in enumerate(zip(WINE.data, WINE.target, strict=True)):
        row = [repr(float(cell)) for cell in cells[:5]]
        if odd[i] == 0:
            row[place[i]] = ["", "NA", "?", "oops"][i % 4]
        rows.append([*row, "dark" if cells[9] > 6 else "light", f"m{i * 7 % 40}", "abc"[target]])
    rows[7][5], rows[9][5] = 'a "b"\nc,d', "São"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "w.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([names, *rows])
        (folder / "w.csv.gz").write_bytes(gzip.compress((folder / "w.csv").read_bytes(), mtime=0))
        lines = ["\t".join(cell.replace("\n", " ").replace('"', "") for cell in row) for row in [names, *rows]]
        (folder / "t.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        pd.DataFrame(rows, columns=names).assign(num=np.arange(len(rows)) * 0.5).to_parquet(folder / "w.parquet")
        np.savez(folder / "x.npz", X=WINE.data, y=WINE.target)
        dump_svmlight_file(np.round(WINE.data, 3), WINE.target, str(folder / "x.svm"))
        tables = {"label": "class", "group_column": "maker", "classes": list("abc")}
        found = {file: reader_case(folder / file, **tables) for file in ("w.csv", "w.csv.gz", "t.tsv", "w.parquet")}
        return found | {file: reader_case(folder / file) for file in ("x.npz", "x.svm")}


def voters(name: str, make: Callable[[], Any], **fit: Any) -> None:
    @case("exact", name)
    def _() -> dict[str, Any]:
        found = make().fit(X[:600], Y[:600], **fit).certify(X[600:760])
        return certificate(found, "insert", "remove", "label_flip", "modify")


voters("ballots, class sizes", lambda: BallotClassifier(near=34, scale=1, class_sizes=dict.fromkeys(range(10), 60)))
voters("ballots, one-sided, classes inferred", lambda: BallotClassifier(near=34, scale=1, one_sided=True))
voters(
    "ballots, contributors",
    lambda: BallotClassifier(near=34, scale=1, classes=range(10), voices=2),
    groups=np.arange(600) % 80,
)
voters("neighbours", lambda: NeighborVoteClassifier(n_neighbors=15, scale=1))


@case("exact", "neighbours of texts")
def _() -> dict[str, Any]:
    model = NeighborVoteClassifier(n_neighbors=9).fit(WORDS[:200], Y[:200])
    return certificate(model.certify(WORDS[200:]))


@case("exact", "draws")
def _() -> dict[str, Any]:
    draws = Draws.with_replacement(np.arange(90), subset_size=4, n_draws=20, seed=7)
    return {"rows": draws.flat, "seeds": draws.seeds}


def ensemble(kind: str, name: str, learner: Any, data: Callable[[], tuple[Any, Any]], n: int, **options: Any) -> None:
    @case(kind, name)
    def _() -> dict[str, Any]:
        samples, labels = data()
        settings = {"k": 6, "d": 3, "classes": range(10), "n_jobs": 1, **options}
        model = FiniteAggregationClassifier(learner() if callable(learner) else learner, **settings)
        model.fit(samples[:n], labels[:n])
        return {"votes": model.votes(samples[n : n + 200]).matrix, "subsets": model.subset_digests_}


def digits() -> tuple[Any, Any]:
    return X, Y


def table() -> tuple[Any, Any]:
    rows = frame()
    return rows, frame_labels(rows)


def texts() -> tuple[Any, Any]:
    return WORDS, Y[:300]


ensemble("votes", "GaussianNB", GaussianNB(), digits, 700)
ensemble("votes", "decision tree", DecisionTreeClassifier(max_features=5), digits, 700)
ensemble("exact", "a learner that heeds the order of its samples", LastSeen(), digits, 700)
ensemble("votes", "table, numbers", None, digits, 700)
ensemble("votes", "table, frame", None, table, 220, classes=range(3))
ensemble("votes", "text", lambda: preset("text"), texts, 220)
ensemble("votes", "bayes", lambda: preset("bayes"), texts, 220)
ensemble("votes", "ridge", lambda: preset("ridge"), texts, 220)
ensemble("votes", "auto", lambda: preset("auto"), table, 260, classes=range(3), k=2, d=1)
ensemble("votes", "forest", lambda: preset("forest"), digits, 400)
ensemble("votes", "kernel ridge", lambda: KernelRidgeClassifier(gamma=0.001, ridge=0.3), digits, 700)
ensemble("bits", "last bits, LogisticRegression", LastBits(LogisticRegression(max_iter=20)), digits, 700)
ensemble("bits", "last bits, GaussianNB", LastBits(GaussianNB()), digits, 700)
ensemble("bits", "last bits, table", LastBits(TableClassifier()), digits, 700)


@case("votes", "boosting")
def _() -> dict[str, Any]:
    model = FiniteAggregationClassifier(preset("boosting"), k=2, d=2, classes=range(3), n_jobs=1)
    return {"votes": model.fit(WINE.data[::2], WINE.target[::2]).votes(WINE.data[1::2]).matrix}


@case("votes", "rankings, update and the files of a run")
def _() -> dict[str, Any]:
    model = FiniteAggregationClassifier(GaussianNB(), k=6, d=3, classes=range(10), n_jobs=1).fit(X[:600], Y[:600])
    ranked = model.votes(X[600:700], rankings=True)
    found = {"rankings": np.asarray(ranked.rankings)} | certificate(certify(ranked, "run-off"))
    model.update(add=(X[600:603], Y[600:603]), remove=[3, 17])
    found |= {"updated": model.votes(X[700:800]).matrix, "updated subsets": model.subset_digests_}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        fresh = FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=range(10), n_jobs=1)
        run(poisonproof.load("digits").without(range(300, 1415)), fresh, folder)
        arrays = {key: value for key, value in np.load(folder / "certificate.npz").items() if key != "facts"}
        return found | arrays | {"votes": np.load(folder / "votes.npy"), "split": np.load(folder / "split.npy")}


@case("votes", "stochastic methods")
def _() -> dict[str, Any]:
    common = {"n_draws": 60, "seed": 7, "classes": range(10)}
    models = {
        "infinite": InfiniteAggregationClassifier(GaussianNB(), k=10, **common),
        "bagging": CertifiedBaggingClassifier(GaussianNB(), subset_size=30, **common),
    }
    found = {name: certificate(model.fit(X[:300], Y[:300]).certify(X[300:340])) for name, model in models.items()}
    return {f"{name}, {key}": value for name, arrays in found.items() for key, value in arrays.items()}


# Digests, keys, commands

VALUES = Path(__file__).parents[1] / "tests" / "golden" / "values.json"


def digest(value: Any) -> str:
    """Twelve bytes of SHA-256 over shape and content; whole numbers of any width are the same."""
    if isinstance(value, np.ndarray):
        array = value.astype("<i8") if value.dtype.kind in "iub" else np.ascontiguousarray(value)
        content = f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()
    else:
        content = json.dumps(value, sort_keys=True, default=str).encode()
    return hashlib.sha256(content).hexdigest()[:24]


def made(name: str) -> dict[str, str]:
    """The digests of one case, by the name of the array."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {key: digest(value) for key, value in CASES[name][1]().items()}


def keys() -> dict[str, str]:
    """What the cases of a class hang on besides our code."""
    import numba
    import scipy
    import sklearn
    import threadpoolctl

    versions = " ".join(f"{module.__name__} {module.__version__}" for module in (np, scipy, sklearn, numba, pd))
    libraries = threadpoolctl.threadpool_info()
    processor = sorted({f"{lib['internal_api']} {lib.get('architecture', '')}".strip() for lib in libraries})
    return {
        "exact": "",
        "votes": versions,
        "bits": f"{versions}; {platform.machine()} {numba.core.config.CPU_NAME or ''} {', '.join(processor)}",
    }


def differences(names: list[str], recorded: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What differs from the recorded values, a line each; and the cases that cannot be compared here."""
    here, wrong, left_out = keys(), [], []
    for name in names:
        kind = CASES[name][0]
        if here[kind] != recorded["keys"][kind]:
            left_out.append(name)
            continue
        expected, found = recorded["values"].get(name, {}), made(name)
        arrays = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
        if arrays:
            wrong.append(f"{name}: {', '.join(arrays)}")
    return wrong, left_out


def main(arguments: list[str]) -> int:
    command, *names = arguments or ["check"]
    if command in ("write", "print"):
        record = {"keys": keys(), "values": {name: made(name) for name in CASES}}
        text = json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if command == "print":
            print(text)
        else:
            VALUES.parent.mkdir(parents=True, exist_ok=True)
            VALUES.write_text(text, encoding="utf-8")
        return 0
    if command == "--against":
        recorded = printed_by(names[0])
        names = [name for name in CASES if name in recorded["values"]]
    elif command == "check":
        recorded, names = json.loads(VALUES.read_text(encoding="utf-8")), names or list(CASES)
    else:
        print(__doc__)
        return 2
    wrong, left_out = differences(names, recorded)
    if left_out:
        print(
            f"*** {len(left_out)} cases hang on versions or a processor that are others here: {'; '.join(left_out)} ***"
        )
    for line in wrong:
        print(f"differs: {line}")
    print(f"{len(names) - len(wrong) - len(left_out)} of {len(names)} cases equal")
    return int(bool(wrong))


def printed_by(commit: str) -> dict[str, Any]:
    """What another commit's own golden.py gives on this machine."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            code = f"import sys; sys.path.insert(0, {str(tree / 'src')!r}); sys.argv = ['golden.py', 'print']; "
            code += f"import runpy; runpy.run_path({str(tree / 'tools' / 'golden.py')!r}, run_name='__main__')"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tree)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
