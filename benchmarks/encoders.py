"""Encoders: speed, cache, bit-equality, purity of every head, and real attacks through an encoder.

python benchmarks/encoders.py speed --data-dir DIR [--images 60000] [--encoder efficientnet-lite0@160] [--cache DIR]
python benchmarks/encoders.py campaign --data-dir DIR [--samples 2000] [--encoder efficientnet-lite0@64]
python benchmarks/encoders.py purity --data-dir DIR
python benchmarks/encoders.py audit --data-dir DIR [--attacks 1000] [--seed 0]
python benchmarks/encoders.py texts --data-dir DIR
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import poisonproof
from poisonproof import FiniteAggregationClassifier, Split, TableClassifier, check_estimator_purity, preset
from poisonproof.data.dataset import held_out
from poisonproof.encoders.encoded import in_front
from poisonproof.system import threads

sys.path.append(str(Path(__file__).parents[1]))

from research.datasets import load

HEADS = {
    "head": lambda: preset("head"),
    "table": TableClassifier,
    "logistic regression": LogisticRegression,
    "tree": DecisionTreeClassifier,
    "Gaussian Bayes": GaussianNB,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "campaign", "purity", "audit", "texts"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--texts", type=Path, help="folder with ag_news.csv.gz and reviews.csv.gz")
    parser.add_argument("--images", type=int, default=60000)
    parser.add_argument("--encoder", help="a network for pictures; `campaign` then leaves texts out")
    parser.add_argument("--pixels", type=int)
    parser.add_argument("--cache", type=Path, help="keep what `speed` encodes here; must hold none of it yet")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--attacks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first attacks, so that a campaign can go on")
    options = parser.parse_args()
    {"speed": speed, "campaign": campaign, "purity": purity, "audit": audit, "texts": texts}[options.what](options)


def images_of(options: argparse.Namespace, n: int) -> NDArray[np.uint8]:
    data = load("cifar10", options.data_dir)
    return np.concatenate([data.train.X, data.test.X])[:n]


def speed(options: argparse.Namespace) -> None:
    """Encode once, then read the cache in a process of its own: opened, checked and read."""
    X, name = images_of(options, options.images), options.encoder or f"efficientnet-lite0@{options.pixels or 160}"
    with tempfile.TemporaryDirectory() as folder:
        encoder = poisonproof.encoder(name).cached(options.cache or folder)
        encoder.runtime()  # opens the network
        for start in range(0, len(X), 20000):  # peak memory after each third: flat, but for what is read and given
            cpu, wall = time.process_time(), time.perf_counter()
            encoder(X[start : start + 20000])
            words = f"{time.process_time() - cpu:.1f} CPU s, {time.perf_counter() - wall:.1f} s wall"
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(
                f"{name}: {min(start + 20000, len(X))} images; the last ones took {words}; peak {peak:.2f} GB",
                flush=True,
            )
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            cpu, wall = pool.submit(_from_cache, name, options.cache or folder, X).result()
        print(
            f"{name}: {len(X)} images from the cache in a new process: {cpu:.1f} CPU s, {wall:.1f} s wall", flush=True
        )


def _from_cache(name: str, folder: Any, X: NDArray[np.uint8]) -> tuple[float, float]:
    """Seconds, of this processor and of the clock, to open an encoder and its cache and to read all rows."""
    cpu, wall = time.process_time(), time.perf_counter()
    poisonproof.encoder(name).cached(folder)(X)
    return time.process_time() - cpu, time.perf_counter() - wall


def _elsewhere(name: str, X: Any) -> bytes:
    return poisonproof.encoder(name)(X).tobytes()


def campaign(options: argparse.Namespace) -> None:
    """Quantised embeddings over batch sizes, orders, threads and processes."""
    asked = {options.encoder or f"efficientnet-lite0@{options.pixels or 64}": images_of(options, options.samples)}
    if not options.encoder:
        asked["wordllama"] = texts_of(options.texts / "ag_news.csv.gz")[0][: options.samples]
    for name, X in asked.items():
        encoder, started = poisonproof.encoder(name), time.process_time()
        rows, differing = encoder(X), 0
        for size in (1, 7, 64):
            parts = np.concatenate([encoder(X[at : at + size]) for at in range(0, len(X), size)])
            differing += int((parts != rows).sum())
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(len(X))
            differing += int((encoder(X[order]) != rows[order]).sum())
        cores = threads.n_cores
        for count in (1, 4):
            threads.n_cores = lambda count=count: count
            differing += int((encoder(X) != rows).sum())
        threads.n_cores = cores
        with ProcessPoolExecutor(2) as pool:
            differing += sum(part != rows.tobytes() for part in pool.map(_elsewhere, [name] * 2, [X] * 2))
        print(
            f"{name}: {len(X)} samples of {rows.shape[2]} numbers, batches of 1, 7 and 64, 2 orders, 1 and 4 threads, "
            f"2 processes: {differing} numbers differ ({time.process_time() - started:.0f} CPU s)",
            flush=True,
        )


def purity(options: argparse.Namespace) -> None:
    data = load("cifar10", options.data_dir)
    X, y = data.train.X[:120], data.train.labels[:120]
    for name, make in HEADS.items():
        with tempfile.TemporaryDirectory() as folder:
            encoder = poisonproof.encoder(f"efficientnet-lite0@{options.pixels or 48}").cached(folder)
            report = check_estimator_purity(in_front(encoder, make()), X, y, k=3, d=2, max_test=20)
        print(f"{name}: {'no leak' if report.pure else str(report)} in {len(report.checks)} checks", flush=True)


def audit(options: argparse.Namespace) -> None:
    """Real poisons, real retraining, through the encoder."""
    data = load("cifar10", options.data_dir)
    X, y, X_test = data.train.X[:300], data.train.labels[:300], data.test.X[:100]
    done, violations, seed = 0, 0, options.seed
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        encoder = poisonproof.encoder(f"efficientnet-lite0@{options.pixels or 48}").cached(folder)
        model = FiniteAggregationClassifier(k=4, d=2, classes=range(10), split=Split(dtype="uint8"), encoder=encoder)
        while done < options.attacks:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                report = poisonproof.audit(model, X, y, X_test, targets=10, seed=seed)
            done, violations, seed = done + len(report.attacks), violations + len(report.violations), seed + 1
            print(f"{done} attacks, {violations} violations, {time.process_time() - started:.0f} CPU s", flush=True)


def texts_of(path: Path) -> tuple[NDArray[np.object_], NDArray[Any]]:
    """The column "text" of a file and its labels."""
    roles = {"label": "label", "text": "text"} | ({"title": "ignore"} if path.name.startswith("ag") else {})
    rows = poisonproof.read(path, schema=roles, held_out=0).train
    return rows.X, rows.labels


def texts(options: argparse.Namespace) -> None:
    """Certified fractions on held-out texts of two sets: the encoder against learners that know the texts alone."""
    for file in ("ag_news.csv.gz", "reviews.csv.gz"):
        X, y = texts_of(options.texts / file)
        out = held_out(list(X), 0.2)
        for k in (10, 50) if len(y) > 3000 else (5, 20):
            for name in ("wordllama + head", "bayes", "ridge"):
                started = time.process_time()
                encoder = poisonproof.encoder("wordllama") if "wordllama" in name else None
                learner = None if encoder else preset(name)
                model = FiniteAggregationClassifier(learner, k=k, d=4, classes=sorted(set(y)), encoder=encoder)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    certificate = model.fit(list(X[~out]), y[~out]).certify(list(X[out]))
                sizes = [0, 1, 2, 5, 10, 20]
                balanced = certificate.evaluate(y[out]).certified_fraction_balanced(sizes)
                record = {
                    "set": file,
                    "method": f"k = {k}, d = 4, {name}",
                    "test texts": int(out.sum()),
                    "certified": [
                        round(100 * float(s), 1) for s in certificate.evaluate(y[out]).certified_fraction(sizes)
                    ],
                    "balanced": [round(100 * float(s), 1) for s in balanced],
                    "majority": round(100 * certificate.evaluate(y[out]).majority_share, 1),
                    "cpu": round(time.process_time() - started, 1),
                }
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
