"""Samples that vote: attackers against their radii, and what counting costs.

    python benchmarks/ballots.py --brute-force CASES
    python benchmarks/ballots.py --attack SAMPLES
    python benchmarks/ballots.py --costs [ballots] [neighbours] [million]
    python benchmarks/ballots.py --growth

--brute-force draws so many small training sets of every family (ballots, neighbours, and contributors of both), with
ties, duplicates, classes without votes and invented ones, and tries every attack of up to four acts. --attack changes
fitted models for real, about so many samples held out from them: copies of x, the nearest of the prediction removed or
relabelled, and mixtures, at the radius and one beyond. --costs measures MNIST from arrays to certificate
(POISONPROOF_DATA), one prediction, one sample added and removed, and a million voters, or the parts named. --growth
doubles voters and test samples in turn. CPU seconds are this process's, threads together. No label of a test set is
read.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from poisonproof import BallotClassifier, NeighborVoteClassifier, Split
from poisonproof.ballots.distances import squared_lengths
from poisonproof.ballots.maps import TableFeatures
from poisonproof.ballots.voters import Described, Voters, count_cells, distances_between, nearest_voters
from poisonproof.samples.convert import join_rows, take_rows

sys.path.append(str(Path(__file__).parents[1]))

from research import datasets
from research.maps.digits import DigitFeatures

REPEATED = 20


def brute_force(n_cases: int) -> None:
    """Every family: radii broken, and radii that an attack could have been expected to break one beyond."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
    from ballot_cases import FAMILIES, Verdict

    print("| family | cases | radii | broken | called exact but not | not exact, and not called so | CPU s |")
    print("|---|---|---|---|---|---|---|")
    failed = False
    for name, case in FAMILIES.items():
        verdict, started = Verdict(), time.process_time()
        for seed in range(n_cases):
            case(seed, verdict)
        wrong = len(verdict.loose_though_exact)
        loose = len(verdict.loose) - wrong
        cost = time.process_time() - started
        cells = (name, n_cases, verdict.checked, len(verdict.broken), wrong, loose, f"{cost:.0f}")
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        failed |= bool(verdict.broken or wrong)
    sys.exit(3 if failed else 0)


def attack(n_asked: int) -> None:
    """Real attacks on fitted models: none within a radius may move the prediction."""
    print(
        "| voters | method | attacks | violations | one beyond: moved, of those called exact |\n|---|---|---|---|---|"
    )
    failed = False
    for name, (X, y, parameters) in _attacked_data().items():
        for method, model in _attacked_models(parameters).items():
            n = len(y) - n_asked
            model.fit(take_rows(X, range(n)), y[:n])
            counts = _attack(model, X, y, n, n_asked)
            failed |= counts[1] > 0
            print(f"| {name}, {n} | {method} | {counts[0]} | {counts[1]} | {counts[2]} of {counts[3]} |", flush=True)
    sys.exit(3 if failed else 0)


def _attacked_data() -> dict[str, Any]:
    import pandas as pd
    from sklearn.datasets import load_breast_cancer, load_digits

    random = np.random.default_rng(0)
    digits, cancer = load_digits(), load_breast_cancer(as_frame=True)
    rows = random.permutation(len(cancer.target))
    table = cancer.data.iloc[rows].reset_index(drop=True)
    table["size"] = pd.Series(np.where(table["mean radius"] > 14, "large", "small"), dtype=object)
    table.loc[::9, "mean texture"] = np.nan
    units = {column: float(f"{cancer.data[column].std():.1g}") for column in cancer.data}
    features = TableFeatures.declared(units | {"size": "category"})
    mixed = random.permutation(len(digits.target))
    mnist = datasets.load("mnist")
    digit = {"features": DigitFeatures(copies=1), "split": Split("content", dtype="uint8")}
    return {
        "digits": (digits.data[mixed] / 16, digits.target[mixed], {"near": 1.9, "features": None}),
        "table": (table, cancer.target.to_numpy()[rows], {"near": 7.0, "features": features}),
        "MNIST": (mnist.train.X[:3000], mnist.train.labels[:3000], {"near": 0.2**0.5, **digit}),
    }


def _attacked_models(parameters: dict[str, Any]) -> dict[str, Any]:
    shared = {name: value for name, value in parameters.items() if name != "near"}
    near = parameters["near"]
    return {
        "one-sided ballots, classes inferred": BallotClassifier(near=near, one_sided=True, **shared),
        "ballots": BallotClassifier(
            near=near, classes=range(2 if shared["features"].__class__ is TableFeatures else 10), **shared
        ),
        "51 neighbours": NeighborVoteClassifier(n_neighbors=51, **shared),
    }


def _attack(model: Any, X: Any, y: Any, n: int, n_asked: int) -> list[int]:
    """How many attacks there were, how many moved a prediction within its radius, and what one act more did."""
    counts = [0, 0, 0, 0]
    certificate = model.certify(take_rows(X, range(n, n + n_asked)))
    flips = certificate.radius_against("label_flip")
    training = take_rows(X, range(n))
    for t in range(n_asked):
        x, own = take_rows(X, [n + t]), certificate.labels[t]
        rival, radius = int(certificate.runner_up[t]), int(certificate.radius[t])
        label = -1 if rival == len(certificate.classes) else certificate.classes[rival]
        alike = np.flatnonzero(y[:n] == own)
        distance = _distances(model, x)[alike]
        nearest = alike[np.argsort(distance, kind="stable")]
        half = radius // 2
        plans = [
            ([], radius, False),
            (nearest[:radius], 0, False),
            (nearest[: radius - half], half, False),
            (nearest[: flips[t]], 0, True),
            ([], radius + 1, False),
        ]
        for number, (leaving, copies, relabel) in enumerate(plans):
            stay = np.setdiff1d(np.arange(n), leaving)
            coming, labels = [take_rows(training, leaving)] * relabel, [label] * (len(leaving) * relabel + copies)
            coming += [take_rows(x, [0] * copies)] * (copies > 0)
            rows = join_rows(take_rows(training, stay), *coming) if coming else take_rows(training, stay)
            changed = clone(model).fit(rows, [*y[:n][stay].tolist(), *labels])
            moved = bool(changed.predict(x)[0] != own)
            if number < 4:
                counts[0] += 1
                counts[1] += moved
            elif certificate.exact[t] and isinstance(model, BallotClassifier):
                counts[2] += moved
                counts[3] += 1
    return counts


def _distances(model: Any, x: Any) -> Any:
    return distances_between(model._describe_test(x), model.voters_)[0]


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and CPU seconds of this process."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def best(work: Callable[[], Any]) -> tuple[float, float]:
    """The least wall and CPU milliseconds of several calls."""
    elapsed, costs = [], []
    for _ in range(REPEATED):
        started = time.perf_counter()
        costs.append(measured(work)[1] * 1e3)
        elapsed.append((time.perf_counter() - started) * 1e3)
    return min(elapsed), min(costs)


def report(what: str, value: str) -> None:
    print(f"| {what} | {value} |", flush=True)


PARTS = {"ballots": "ballots", "neighbours": "1,000 neighbours", "million": "a million"}


def costs(parts: list[str]) -> None:
    """MNIST from files to certificate, single predictions and updates, and a million voters."""
    print("| what | cost |\n|---|---|")
    wanted = [PARTS[part] for part in parts or PARTS]
    mnist, reading = measured(lambda: datasets.load("mnist"))
    report("MNIST, reading the files", f"{reading:.1f} CPU s")
    split, features = Split("content", dtype="uint8"), DigitFeatures(copies=1)
    models = {
        "ballots": BallotClassifier(features, near=0.2**0.5, classes=range(10), split=split),
        "1,000 neighbours": NeighborVoteClassifier(features, n_neighbors=1000, classes=range(10), split=split),
    }
    for name, model in models.items():
        if name not in wanted:
            continue
        model.fit(mnist.train.X[:500], mnist.train.labels[:500]).certify(mnist.test.X[:600])  # compile
        model.predict(mnist.test.X[:1])
        fitting = measured(lambda model=model: model.fit(mnist.train.X, mnist.train.labels))[1]
        certifying = measured(lambda model=model: model.certify(mnist.test.X))[1]
        total = f"{fitting + certifying:.1f} CPU s ({fitting:.1f} to fit, {certifying:.1f} to certify)"
        report(f"MNIST, {name}: 10,000 × 60,000, arrays to certificate", total)
        test = model._describe_test(mnist.test.X[:1])
        alone = best(lambda model=model: model.predict(mnist.test.X[:1]))
        described = best(lambda model=model: model._describe_test(mnist.test.X[:1]))
        if isinstance(model, BallotClassifier):
            cells, limit = model.voters_.codes, model._limit()
            counted = best(lambda m=model, c=cells, t=test, n=limit: count_cells(m.voters_, c, 10, t, m._nearness, n))
        else:
            counted = best(lambda m=model, t=test: nearest_voters(m.voters_, t, 1000))
        for words, (wall, cost) in (
            ("one prediction", alone),
            ("of which reading and features", described),
            ("of which the vote", counted),
        ):
            report(f"MNIST, {name}: {words}", f"{wall:.1f} ms, {cost:.1f} CPU ms")
    report("peak memory so far", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if "a million" in wanted:
        million()
    report("peak memory", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def random_voters(n: int, width: int, seed: int = 0) -> Voters:
    random = np.random.default_rng(seed)
    rows = random.integers(-60, 61, (n, width), dtype=np.int8)
    lengths = np.concatenate([squared_lengths(part)[0] for part in np.array_split(rows, max(1, n // 4096))])
    codes = random.integers(0, 10, n)
    return Voters(rows, lengths, codes, random.integers(0, 2**63, n).astype(np.uint64), np.zeros(n, np.int64))


def asked(n: int, width: int) -> Described:
    voters = random_voters(n, width, 1)
    return Described(voters.rows, voters.lengths, np.ones(n, np.bool_))


def million() -> None:
    """A million voters of 256 numbers, in a batch of 100 and one at a time."""
    voters, test = random_voters(1_000_000, 256), asked(100, 256)
    limit = int(np.quantile(voters.lengths[:1000], 0.5)) * 2
    count_cells(random_voters(1000, 256), np.zeros(1000, np.int64), 10, test, limit)
    elapsed, costs = zip(*(_timed(voters, test, limit) for _ in range(3)), strict=True)
    cost = f"{min(elapsed) * 10:.1f} ms, {min(costs) * 10:.1f} CPU ms per prediction"
    report("a million voters of 256 numbers, ballots, batch of 100", cost)
    nearest_voters(random_voters(1000, 256), test, 200)  # compile
    few = Described(test.rows[:16], test.lengths[:16], test.readable[:16])
    started = time.perf_counter()
    _, spent = measured(lambda: nearest_voters(voters, few, 2000))
    wall = time.perf_counter() - started
    report("the same, the 2,000 nearest, 16 at once", f"{wall / 16 * 1e3:.1f} ms, {spent / 16 * 1e3:.1f} CPU ms each")


def _timed(voters: Voters, test: Described, limit: int) -> tuple[float, float]:
    started = time.perf_counter()
    _, spent = measured(lambda: count_cells(voters, voters.codes, 10, test, limit))
    return time.perf_counter() - started, spent


def growth() -> None:
    """CPU seconds when voters, and when test samples, double; doubling work should double them."""
    print("| voters | test samples | ballots, CPU s | 500 neighbours, CPU s |\n|---|---|---|---|")
    for n_voters, n_test in (
        (25_000, 2000),
        (50_000, 2000),
        (100_000, 2000),
        (200_000, 2000),
        (50_000, 1000),
        (50_000, 4000),
    ):
        voters, test = random_voters(n_voters, 256), asked(n_test, 256)
        limit = int(voters.lengths[:100].mean() * 2)
        ballots = min(
            measured(lambda v=voters, t=test, n=limit: count_cells(v, v.codes, 10, t, n))[1] for _ in range(3)
        )
        order = min(measured(lambda v=voters, t=test: nearest_voters(v, t, 1000))[1] for _ in range(3))
        print(f"| {n_voters:,} | {n_test:,} | {ballots:.2f} | {order:.2f} |", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--brute-force"]:
        brute_force(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--attack"]:
        attack(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--costs"] and set(sys.argv[2:]) <= set(PARTS):
        costs(sys.argv[2:])
    elif sys.argv[1:] == ["--growth"]:
        growth()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
