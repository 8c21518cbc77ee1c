"""The frontier: every frozen configuration on a whole test set, once.

    python -m research.frontier.measure --data-dir DIR --held-out mnist cifar10 gtsrb   # on training images held out
    python -m research.frontier.measure --data-dir DIR mnist cifar10 gtsrb              # on the test sets

Configurations are in benchmarks/frontier/configurations.json and were committed before the second command was ever
run; the first is how their constants were chosen. Results go to benchmarks/frontier/results.json; rows that it has
already are not measured again. Rows of one map share its distances, which are whole numbers; `tests/test_frontier.py`
checks on small data that this gives what the classifiers of the library give. Features are kept in `--cache`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.system.machine import environment
from research.blocks.certificate import certify_blocks, verdicts_of
from research.datasets import load
from research.frontier.blocks import Near, Samples, near_counts
from research.frontier.maps import Part, Shape, described, photographs
from research.maps.whitening import Whitening
from research.paper.measure import at, half

FOLDER = Path(__file__).parent
PAPER = Path(__file__).parents[1] / "paper" / "results" / "results.json"
SIZES = (0, 3, 5, 10, 15, 20, 24, 30, 40, 50, 60, 80, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 4000)
SIZES = (*SIZES, 6000, 8000, 10000)
TESTS_AT_ONCE = 500
VOTERS_AT_ONCE = 8192
Row = dict[str, Any]
Radii = NDArray[np.int64]


@dataclass(frozen=True)
class Measured:
    """Predictions of a row and their radii against the row's threat."""

    prediction: Radii
    radius: Radii


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", choices=("mnist", "cifar10", "gtsrb"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/poisonproof-frontier"))
    parser.add_argument("--held-out", action="store_true", help="training images held out instead of the test set")
    parser.add_argument("--only", default="", help="maps whose name contains this")
    parser.add_argument("--configurations", type=Path, default=FOLDER / "configurations.json")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json", help="to be read, and written anew")
    parser.add_argument("--limit", type=int, default=0, help="so many held-out images")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    configurations = json.loads(options.configurations.read_text("utf-8"))
    for name in options.datasets:
        rows = [row for row in configurations["rows"] if row["dataset"] == name]
        data = parts_of(name, options)
        maps = dict.fromkeys(row["map"] for row in rows if options.only in row["map"])
        for chosen in maps:
            shape = Shape(name=chosen, **configurations["maps"][chosen])
            own = [row for row in rows if row["map"] == chosen]
            if not options.held_out:
                done = {key_of(row) for row in read_results(options.results)["rows"]}
                own = [row for row in own if key_of(row) not in done]
            if own:
                measure(name, shape, own, data, options)
    if not options.held_out:
        kept = [row for row in read_results(options.results)["rows"] if not from_paper(row)]
        write_results([*ensembles(), *kept], options.results)


def parts_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Training rows (voters, set aside, held out) and test rows of a data set, by number."""
    data = load(name, options.data_dir)
    n = len(data.train)
    random = np.random.default_rng(16)
    if name == "gtsrb":  # tracks of 30 frames, in the order of the files
        starts = np.concatenate([[0], np.cumsum(np.bincount(data.train.labels))])
        track = np.concatenate(
            [np.arange(count) // 30 + 1000 * c for c, count in enumerate(np.bincount(data.train.labels))]
        )
        assert starts[-1] == n
        assert (np.diff(data.train.labels) >= 0).all()
        tracks = random.permutation(np.unique(track))
        aside = np.flatnonzero(np.isin(track, tracks[:100]))
        shaping = aside[np.arange(len(aside)) % 3 == 1][:1000]
        out = np.flatnonzero(np.isin(track, tracks[100:230]))[::2]
        gone = np.isin(track, tracks[100:230]) if options.held_out else np.zeros(n, bool)
    else:
        order = random.permutation(n)
        aside = shaping = np.sort(order[:1000])
        out = np.sort(order[1000:3000])
        gone = np.isin(np.arange(n), out) if options.held_out else np.zeros(n, bool)
    if options.limit:
        out = np.sort(random.permutation(out)[: options.limit])
    return {
        "data": data,
        "aside": aside,
        "shaping": shaping,
        "all": np.flatnonzero(~gone),
        "asked": Part("train", out) if options.held_out else Part("test", np.arange(len(data.test))),
        "truth": data.train.labels[out] if options.held_out else data.test.labels,
    }


def measure(name: str, shape: Shape, rows: list[Row], parts: dict[str, Any], options: argparse.Namespace) -> None:
    """All rows of one map."""
    data, start = parts["data"], time.process_time()
    voters = np.setdiff1d(parts["all"], parts["aside"]) if shape.whitened_by == "trusted" else parts["all"]
    labels = data.train.labels[voters]
    n_classes = len(data.classes)
    totals = np.bincount(labels, minlength=n_classes)
    hashes = Split("content").samples(data.train.X[voters]).content_hashes
    order = np.lexsort((labels, hashes))  # voters at one distance stand in this order
    voters, labels = voters[order], labels[order]
    base = described(name, data, shape, Part("train", voters), options.cache)
    asked = described(name, data, shape, parts["asked"], options.cache, views=shape.views)
    features_seconds = time.process_time() - start
    digest = ""
    if shape.whitened_by == "blocks":
        found = blocks(shape, rows, base, asked, labels, totals, data.train.X[voters], options.cache)
    else:
        if shape.whitened_by:
            shaping = shaping_rows(name, shape, data, parts, base, options)
            whitening = Whitening.of(shaping, shape.directions, shape.exponent)
            digest = whitening.digest
            base = whitening(base[:, 0])[:, None]
            asked = np.stack([whitening(asked[:, view]) for view in range(asked.shape[1])], axis=1)
        found = votes(shape, rows, base[:, 0], asked, labels, totals)
    seconds = time.process_time() - start
    for row, measured in zip(rows, found, strict=True):
        result = result_of(row, shape, measured, parts["truth"], labels, n_classes)
        result |= {
            "map_digest": digest,
            "cost": {
                "cpu_seconds": round(seconds, 1),
                "of_which_features_not_in_cache": round(features_seconds, 1),
                "rows_that_share_it": len(rows),
            },
        }
        print(words(result), flush=True)
        if not options.held_out:
            write_results([*read_results(options.results)["rows"], result], options.results)


def shaping_rows(
    name: str, shape: Shape, data: Any, parts: dict[str, Any], base: NDArray[Any], options: argparse.Namespace
) -> NDArray[Any]:
    """Features of the samples that shape the map, in order of their content."""
    if shape.whitened_by == "photographs":
        rows = described(name, data, shape, Part("photographs", np.arange(len(photographs()))), options.cache)[:, 0]
    elif shape.whitened_by == "trusted":
        rows = described(name, data, shape, Part("train", parts["shaping"]), options.cache)[:, 0]
    else:
        rows = of_all(base[:, 0])
    return in_order(rows)


def of_all(base: NDArray[Any]) -> NDArray[Any]:
    """Rows that stand for all unlabelled training samples: they may shape a map against flipped labels alone."""
    return base[:: max(1, len(base) // 6000)]


def in_order(rows: NDArray[Any]) -> NDArray[Any]:
    """In order of their content."""
    return rows[sorted(range(len(rows)), key=lambda row: rows[row].tobytes())]


def votes(
    shape: Shape,
    rows: list[Row],
    base: NDArray[Any],
    asked: NDArray[Any],
    labels: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> list[Measured]:
    """Ballots and neighbours of every row, from distances computed once."""
    n_classes, n_test = len(totals), len(asked)
    limits = sorted({limit_of(row, shape) for row in rows if "near" in row["parameters"]})
    most = max((2 * row["parameters"]["n_neighbors"] for row in rows if "n_neighbors" in row["parameters"]), default=0)
    most = min(most, len(labels))
    by_class = np.argsort(labels, kind="stable")
    edges = np.concatenate([[0], np.cumsum(totals)])
    near = np.zeros((len(limits), n_test, n_classes), np.int64)
    nearest = np.empty((n_test, most), np.int16)
    for start, distances in all_distances(shape, base[by_class], asked):
        stop = start + len(distances)
        for c in range(n_classes):
            part = distances[:, edges[c] : edges[c + 1]]
            for at_limit, limit in enumerate(limits):
                near[at_limit, start:stop, c] = (part <= limit).sum(axis=1)
        if most:
            keys = distances.astype(np.int64) * (1 << 20) + by_class
            keys = np.sort(np.partition(keys, most - 1, axis=1)[:, :most], axis=1)
            nearest[start:stop] = labels[keys & ((1 << 20) - 1)]
    return [certified(row, shape, near, limits, nearest, totals) for row in rows]


def certified(
    row: Row, shape: Shape, near: Radii, limits: list[int], nearest: NDArray[Any], totals: NDArray[np.int64]
) -> Measured:
    """Predictions and radii of one row."""
    settings = row["parameters"]
    if "n_neighbors" in settings:
        k = settings["n_neighbors"]
        listed = np.ascontiguousarray(nearest[:, : 2 * k])
        radii = certify_order(listed, k, int(totals.sum()), len(totals), inferred=False)
    else:
        sizes = totals if settings["class_sizes"] == "declared" else np.zeros_like(totals)
        one_sided = settings.get("one_sided", False)
        if one_sided:
            sizes = np.zeros_like(totals)
        counts = near[limits.index(limit_of(row, shape))]
        radii = certify_counts(counts, totals, sizes, one_sided=one_sided, inferred=False)
    radius = radii.label_flip if row["threat"] == "label_flip" else radii.insert_remove
    return Measured(radii.prediction, radius)


def limit_of(row: Row, shape: Shape) -> int:
    """The greatest squared distance that counts as near."""
    return int((row["parameters"]["near"] * shape.length) ** 2)


def all_distances(shape: Shape, base: NDArray[Any], asked: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """Squared distances of runs of test samples to all voters: the least over the views of a test sample."""
    lengths = np.concatenate([squares(base[i : i + VOTERS_AT_ONCE]) for i in range(0, len(base), VOTERS_AT_ONCE)])
    for start in range(0, len(asked), TESTS_AT_ONCE):
        some = asked[start : start + TESTS_AT_ONCE]
        distances = np.full((len(some), len(base)), np.iinfo(np.int32).max, np.int32)
        for view in range(some.shape[1]):
            left = squares(some[:, view])
            fed = halves(some[:, view], shape.mirror_minimum)
            for at_voter in range(0, len(base), VOTERS_AT_ONCE):
                own = slice(at_voter, at_voter + VOTERS_AT_ONCE)
                products = products_of(fed, halves(base[own], shape.mirror_minimum), shape.mirror_minimum)
                here = left[:, None] + lengths[own] - 2 * products
                np.minimum(distances[:, own], here.astype(np.int32), out=distances[:, own])
        yield start, distances


def squares(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Exact squared lengths, refused where products would not be."""
    lengths = np.square(rows.astype(np.int64)).sum(axis=1)
    assert lengths.max(initial=0) <= 1 << 23, "products would not be exact"
    return lengths.astype(np.float32)


def halves(rows: NDArray[Any], mirrored: bool) -> NDArray[np.float32]:
    """Rows, or the sums and differences of the halves of mirrored ones."""
    wide = rows.astype(np.float32)
    if not mirrored:
        return wide
    half_of = wide.shape[1] // 2
    return np.concatenate([wide[:, :half_of] + wide[:, half_of:], wide[:, :half_of] - wide[:, half_of:]], axis=1)


def products_of(left: NDArray[np.float32], right: NDArray[np.float32], mirrored: bool) -> NDArray[np.float32]:
    """Inner products; with mirrored rows the larger of those with a row and with its mirror image."""
    if not mirrored:
        return left @ right.T
    half_of = left.shape[1] // 2
    even, odd = left[:, :half_of] @ right[:, :half_of].T, left[:, half_of:] @ right[:, half_of:].T
    return (even + np.abs(odd)) / 2


def blocks(
    shape: Shape,
    rows: list[Row],
    base: NDArray[Any],
    asked: NDArray[Any],
    labels: NDArray[np.int64],
    totals: NDArray[np.int64],
    images: NDArray[Any],
    kept: Path | None = None,
) -> list[Measured]:
    """Members learn their map from their own subset; all samples vote in it."""
    spread = Spread.random(shape.blocks, shape.d)
    hashes = Split("content").samples(images).content_hashes
    near = [
        Near(share=row["parameters"]["near_share"]) if "near_share" in row["parameters"] else Near(limit_of(row, shape))
        for row in rows
    ]
    samples = Samples(base[:, 0], labels, hashes, asked[:, 0], len(totals))
    found = []
    for row, counts in zip(rows, near_counts(shape, near, samples, kept), strict=True):
        scores = 2 * counts.astype(np.int64)
        if row["parameters"]["class_sizes"] != "declared":
            scores -= totals
        verdicts = verdicts_of(scores, np.zeros(scores.shape[:2], bool))
        radii = certify_blocks(verdicts, spread, len(labels))
        found.append(Measured(radii.prediction, radii.insert_remove))
    return found


def result_of(
    row: Row, shape: Shape, measured: Measured, truth: NDArray[np.int64], labels: NDArray[np.int64], n_classes: int
) -> Row:
    """One row of the results, in percent of the test set."""
    right = measured.prediction == truth
    counts = np.bincount(truth, minlength=n_classes)
    held = [right & (measured.radius >= size) for size in SIZES]
    curve = np.cumsum(np.bincount(measured.radius[right], minlength=1)[::-1])[::-1].tolist()

    def balanced(which: NDArray[np.bool_]) -> float:
        there = counts > 0
        return round(100 * float((np.bincount(truth[which], minlength=n_classes)[there] / counts[there]).mean()), 2)

    arrays = hashlib.sha256(measured.prediction.astype("<i8").tobytes() + measured.radius.astype("<i8").tobytes())
    return {
        "dataset": row["dataset"],
        "track": row["track"],
        "family": "blocks" if shape.whitened_by == "blocks" else "samples vote",
        "method": row["method"],
        "parameters": {**row["parameters"], "map": shape.as_dict()},
        "threat": row["threat"],
        "n_test": len(truth),
        "n_voters": len(labels),
        "clean": round(100 * float(right.mean()), 2),
        "balanced": balanced(right),
        "majority_share": round(100 * float(np.bincount(truth).max() / len(truth)), 2),
        "attack_size": list(SIZES),
        "certified_fraction": [round(100 * float(which.mean()), 2) for which in held],
        "balanced_certified_fraction": [balanced(which) for which in held],
        "half_at": half(curve, len(truth)) if 2 * right.sum() >= len(truth) else None,
        "class_sizes_from": row["class_sizes_from"],
        "arrays_sha256": arrays.hexdigest(),
        "versions": environment(),
    }


def from_paper(row: Row) -> bool:
    """Whether a row is one of `ensembles`; base classifiers behind an encoder are measured, not copied."""
    return bool(row["family"] == "ensemble" and row["track"] == "from scratch")


def ensembles() -> list[Row]:
    """Rows of base classifiers that are best at some attack size: from what `python -m research.paper run` measured."""
    record = json.loads(PAPER.read_text("utf-8"))
    names = {"MNIST": "mnist", "CIFAR-10": "cifar10", "GTSRB": "gtsrb"}
    rows = []
    for dataset, name in names.items():
        candidates = [
            (row, method, counts)
            for row in record["rows"]
            if row["dataset"] == dataset
            for method, counts in row["certified"].items()
            if method != "dpa-bound"
        ]
        chosen: dict[int, Any] = {}
        for size in SIZES:
            best = max(
                range(len(candidates)), key=lambda i: (at(candidates[i][2], size), -candidates[i][0]["n_subsets"])
            )
            if at(candidates[best][2], size):
                chosen[best] = candidates[best]
        for row, method, counts in chosen.values():
            n_test = row["n_test"]
            rows.append(
                {
                    "dataset": name,
                    "track": "from scratch",
                    "family": "ensemble",
                    "method": f"base classifiers vote ({method})",
                    "parameters": {
                        "k": row["k"],
                        "d": row["d"],
                        "n_subsets": row["n_subsets"],
                        "learner": row["learner"],
                    },
                    "threat": "insert_remove",
                    "n_test": n_test,
                    "n_voters": row["n_subsets"],
                    "clean": round(100 * at(counts, 0) / n_test, 2),
                    "balanced": None,
                    "majority_share": None,
                    "attack_size": list(SIZES),
                    "certified_fraction": [round(100 * at(counts, size) / n_test, 2) for size in SIZES],
                    "balanced_certified_fraction": None,
                    "half_at": half(counts, n_test),
                    "class_sizes_from": "not needed",
                    "source": "benchmarks/paper/results.json; figures by class were not kept there",
                    "cost": record["costs"].get(name),
                    "arrays_sha256": row["votes_sha256"],
                    "versions": row["environment"],
                }
            )
    return rows


def words(result: Row) -> str:
    """A row for people."""
    figures = ", ".join(
        f"{share:g} at {size}"
        for size, share in zip(SIZES, result["certified_fraction"], strict=True)
        if size and share
    )
    settings = {key: value for key, value in result["parameters"].items() if key != "map"}
    chosen = result["parameters"]["map"]["name"]
    return (
        f"{result['dataset']} | {result['track']} | {result['method']} | {chosen} {settings}: clean {result['clean']}, "
        f"balanced {result['balanced']}; {figures}; half at {result['half_at']}"
    )


def key_of(row: Row) -> str:
    """What tells two rows apart: the data set, the method, the threat and the parameters."""
    parameters = dict(row["parameters"])
    parameters["map"] = parameters["map"]["name"] if isinstance(parameters.get("map"), dict) else row.get("map", "")
    return json.dumps([row["dataset"], row["track"], row["method"], row["threat"], parameters], sort_keys=True)


def read_results(path: Path) -> dict[str, Any]:
    """The results so far."""
    empty: dict[str, Any] = {"source": "benchmarks/frontier.py; percent of the test set, pointwise", "rows": []}
    return json.loads(path.read_text("utf-8")) if path.exists() else empty


def write_results(rows: list[Row], path: Path) -> None:
    """Write the results anew, a row on a line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    source = json.dumps(read_results(path)["source"], ensure_ascii=False)
    path.write_text(f'{{"source": {source}, "rows": [\n{lines}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
