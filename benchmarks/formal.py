"""The machine-checked checker against `certify`, on random ensembles, and its speed on large ones.

python benchmarks/formal.py campaign --ensembles 2000   # every radius accepted, every exact one refused when raised
python benchmarks/formal.py run RUN --method tight      # the same for the votes of a run, all or --samples of them
python benchmarks/formal.py speed                       # 10,000 × 800 and 10,000 × 19,200 votes
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from poisonproof import Spread, Votes, certify
from poisonproof.ballots.neighbor_radii import certify_order
from poisonproof.ballots.radii import certify_counts
from poisonproof.ballots.verify import write_ballots, write_neighbours
from poisonproof.verification.formal import Setting, ask_checker, find_checker, write_ensemble, write_run_off
from poisonproof.verification.theorem import read_spread


def random_spread(rng: np.random.Generator) -> Spread:
    kind = rng.integers(6)
    if kind == 0:
        return Spread.planes(int(rng.choice([2, 3])), int(rng.integers(1, 4)))
    if kind == 5 and rng.random() < 0.3:  # where counting overlap once proves more than Theorem 2
        return Spread.random(int(rng.integers(10, 16)), 8, seed=int(rng.integers(1 << 30)))
    d = int(rng.choice([1, 2, 3, 5, 8, 16, 32], p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.05]))
    k = int(rng.integers(2, 9 if d < 8 else 5))
    if kind == 1:  # any balanced map: d different permutations
        n = k * d
        table = (np.arange(n)[:, None] + rng.choice(n, d, replace=False)) % n
        return Spread.from_table(rng.permutation(n)[table])
    return Spread.random(k, d, seed=int(rng.integers(1 << 30)))


def random_votes(rng: np.random.Generator, spread: Spread, samples: int) -> Votes:
    inferred = bool(rng.integers(2))
    n_classes = int(rng.integers(1 if inferred else 2, 6))
    favourite = rng.integers(n_classes, size=(samples, 1))
    strength = rng.choice([0.0, 0.3, 0.6, 0.9, 1.0], size=(samples, 1))
    matrix = rng.integers(n_classes + 1, size=(samples, spread.n_subsets))
    matrix = np.where(rng.random(matrix.shape) < strength, favourite, matrix)
    return Votes(matrix, spread, classes=list(range(n_classes)), classes_inferred=inferred)


def cpu_seconds() -> tuple[float, float]:
    """Of this process, and of the checkers that it has waited for."""
    checkers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), checkers.ru_utime + checkers.ru_stime


def accepted(program: Path, folder: Path, write) -> np.ndarray:
    path = folder / "witness"
    with path.open("wb") as file:
        write(file)
    return ask_checker(program, path)


def spread_map(spread: Spread):
    record = {"n_subsets": spread.n_subsets}
    record |= {"shifts": sorted(spread.shifts)} if spread.shifts else {"table": spread.as_table().tolist()}
    return read_spread(record, spread.n_subsets, "the spread")


def campaign(ensembles: int, seed: int) -> Counter:
    """Counts of what was tried; raises at the first disagreement."""
    program, tried = find_checker(), Counter()
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(ensembles):
            rng = np.random.default_rng([seed, number])
            if number % 10 == 9:
                (one_ballots if number % 20 == 9 else one_neighbours)(rng, program, Path(temporary), tried)
            elif number % 10 == 4:
                one_run_off(rng, program, Path(temporary), tried, f"seed {seed}, ensemble {number}")
            else:
                one_ensemble(rng, program, Path(temporary), tried, f"seed {seed}, ensemble {number}")
    return tried


def one_ensemble(rng: np.random.Generator, program: Path, folder: Path, tried: Counter, where: str) -> None:
    spread = random_spread(rng)
    votes = random_votes(rng, spread, 4)
    method = ["finite-aggregation", "dpa-bound", "tight"][rng.integers(3)]
    reachable = rng.random(spread.n_subsets) < 0.5 if method == "finite-aggregation" and rng.random() < 0.3 else None
    certificate = certify(votes, method, reachable=reachable, n_jobs=1)
    exact = np.full(4, method == "finite-aggregation")  # the largest radius that the theorem gives
    if certificate.exact is not None:
        exact = certificate.exact
    exact = exact & (certificate.radius < spread.n_subsets)
    raised = certificate.radius + 1
    inferred, n_classes = votes.classes_inferred, len(votes.classes)
    electorate = Setting(spread_map(spread), n_classes, inferred, method == "tight", reachable)
    answers = accepted(
        program,
        folder,
        lambda file: write_ensemble(
            file,
            electorate,
            np.concatenate([votes.matrix, votes.matrix]),
            np.concatenate([certificate.prediction, certificate.prediction]),
            np.concatenate([certificate.radius, raised]),
        ),
    )
    if not answers[:4].all():
        raise AssertionError(f"{where}: {method}, {spread}: refused {certificate.radius[~answers[:4]]}")
    if answers[4:][exact].any():
        raise AssertionError(f"{where}: {method}, {spread}: accepted one more than {certificate.radius}")
    tried[method] += 1
    tried["radii accepted"] += 4
    tried["raised radii refused"] += int(exact.sum())
    if method == "tight":
        tried["radii above Theorem 2"] += int((certificate.radius > certify(votes, n_jobs=1).radius).sum())


def one_run_off(rng: np.random.Generator, program: Path, folder: Path, tried: Counter, where: str) -> None:
    spread = random_spread(rng)
    n_classes = int(rng.integers(2, 6))
    spoken = rng.random((4, spread.n_subsets, n_classes)) + rng.choice([0, 0.2, 0.6, 2]) * rng.random((4, 1, n_classes))
    rankings = np.argsort(-spoken, axis=2)
    rankings[rng.random(rankings.shape[:2]) < rng.choice([0, 0.2])] = n_classes
    votes = Votes(rankings[..., 0], spread, list(range(n_classes)), rankings=rankings)
    certificate = certify(votes, "run-off", n_jobs=1)
    answers = accepted(
        program,
        folder,
        lambda file: write_run_off(
            file,
            Setting(spread_map(spread), n_classes, False),
            np.concatenate([rankings, rankings]),
            np.concatenate([certificate.prediction, certificate.prediction]),
            np.concatenate([certificate.radius, certificate.radius + 1]),
        ),
    )
    if not answers[:4].all():
        raise AssertionError(f"{where}: run-off, {spread}: refused {certificate.radius[~answers[:4]]}")
    if answers[4:][certificate.exact].any():
        raise AssertionError(f"{where}: run-off, {spread}: accepted one more than {certificate.radius}")
    tried["run-off"] += 1
    tried["radii accepted"] += 4
    tried["raised radii refused"] += int(certificate.exact.sum())


def one_ballots(rng: np.random.Generator, program: Path, folder: Path, tried: Counter) -> None:
    n_classes = int(rng.integers(1, 6))
    totals = rng.integers(0, 40, size=n_classes)
    near = rng.integers(0, totals + 1, size=(4, n_classes))
    sizes = totals if rng.random() < 0.5 else np.zeros(n_classes, int)
    two_sided, inferred = bool(rng.integers(2)), bool(rng.integers(2)) or n_classes == 1
    sizes = np.zeros(n_classes, int) if inferred else sizes
    radii = certify_counts(near, totals, sizes, one_sided=not two_sided, inferred=inferred)
    prediction, radius = radii.prediction, radii.insert_remove
    answers = accepted(
        program,
        folder,
        lambda file: write_ballots(
            file,
            near=np.concatenate([near, near]),
            totals=totals,
            sizes=sizes,
            prediction=np.concatenate([prediction, prediction]),
            radius=np.concatenate([radius, radius + 1]),
            two_sided=two_sided,
            inferred=inferred,
        ),
    )
    if not answers[:4].all() or answers[4:].any():
        raise AssertionError(f"ballots: {near}, {totals}, {sizes}: {radius} gave {answers}")
    tried["ballots"] += 1
    tried["radii accepted"] += 4
    tried["raised radii refused"] += 4


def one_neighbours(rng: np.random.Generator, program: Path, folder: Path, tried: Counter) -> None:
    n_classes, n_training = int(rng.integers(2, 4)), int(rng.integers(1, 30))
    n_voters, inferred = int(rng.integers(1, n_training + 1)), bool(rng.integers(2))
    labels = [(rng.random(n_training) < rng.random()).astype(int) * rng.integers(1, n_classes) for _ in range(4)]
    radii = certify_order(np.array(labels), n_voters, n_training, n_classes, inferred=inferred, n_jobs=1)
    prediction, radius = radii.prediction, radii.insert_remove
    answers = accepted(
        program,
        folder,
        lambda file: write_neighbours(
            file,
            labels=labels + labels,
            n_voters=n_voters,
            n_training=n_training,
            n_classes=n_classes,
            prediction=np.concatenate([prediction, prediction]),
            radius=np.concatenate([radius, radius + 1]),
            inferred=inferred,
        ),
    )
    if not answers[:4].all() or answers[4:].any():
        raise AssertionError(f"neighbours: {labels}, {n_voters} voters: {radius} gave {answers}")
    tried["neighbours"] += 1
    tried["radii accepted"] += 4
    tried["raised radii refused"] += 4


def real(folder: Path, method: str, samples: int | None) -> None:
    """Every radius of a run's votes must be accepted, and every exact one refused when it is raised by one."""
    saved, program = Votes.load(folder / "votes.npy"), find_checker()
    matrix = np.asarray(saved.matrix[:samples])
    votes = Votes(matrix, saved.spread, saved.classes, classes_inferred=saved.classes_inferred)
    began = time.process_time()
    certificate = certify(votes, method)
    print(f"{folder.name}, {method}: certified in {time.process_time() - began:.0f} CPU s")
    electorate = Setting(spread_map(votes.spread), len(votes.classes), votes.classes_inferred, method == "tight")
    exact = np.ones(len(matrix), bool) if certificate.exact is None else certificate.exact
    with tempfile.TemporaryDirectory() as temporary:
        for what, rows, raised in (("stated", np.ones(len(matrix), bool), 0), ("raised by one", exact, 1)):
            radius = certificate.radius[rows] + raised
            began = cpu_seconds()
            answers = accepted(
                program,
                Path(temporary),
                lambda file, rows=rows, radius=radius: write_ensemble(
                    file, electorate, matrix[rows], certificate.prediction[rows], radius
                ),
            )
            writing, checking = (after - before for before, after in zip(began, cpu_seconds(), strict=True))
            print(
                f"{folder.name}, {method}, {matrix.shape[1]} base classifiers, {int(rows.sum())} radii {what}: "
                f"{int(answers.sum())} accepted, {int((~answers).sum())} refused "
                f"(CPU s: {writing:.0f} for the witness, {checking:.0f} for the checker)",
                flush=True,
            )


def speed() -> None:
    program = find_checker()
    for k, d, samples in ((50, 16, 10_000), (1200, 16, 10_000)):
        spread = Spread.paper(k, d)
        rng = np.random.default_rng(0)
        truth = rng.integers(10, size=(samples, 1))
        strength = rng.uniform(0.3, 1, size=(samples, 1))
        matrix = np.empty((samples, spread.n_subsets), np.uint8)
        for start in range(0, samples, 500):
            rows = slice(start, start + 500)
            noise = rng.integers(10, size=matrix[rows].shape, dtype=np.uint8)
            matrix[rows] = np.where(rng.random(matrix[rows].shape) < strength[rows], truth[rows], noise)
        votes = Votes(matrix, spread, classes=list(range(10)))
        certificate = certify(votes, n_jobs=1)
        with tempfile.TemporaryDirectory() as temporary:
            path, began = Path(temporary) / "witness", cpu_seconds()
            with path.open("wb") as file:
                write_ensemble(
                    file,
                    Setting(spread_map(spread), 10, False),
                    matrix,
                    certificate.prediction,
                    certificate.radius,
                )
            written = cpu_seconds()
            ran = subprocess.run([program, path], capture_output=True, text=True, check=False)
            print(
                f"{samples} × {spread.n_subsets} votes: witness {path.stat().st_size / 1e6:.0f} MB written in "
                f"{written[0] - began[0]:.0f} CPU s, checked in {cpu_seconds()[1] - written[1]:.0f} CPU s: "
                f"{ran.stdout.splitlines()[-1]}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["campaign", "run", "speed"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--method", default="finite-aggregation")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--ensembles", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "speed":
        speed()
    elif arguments.what == "run":
        real(arguments.folder, arguments.method, arguments.samples)
    else:
        counts = campaign(arguments.ensembles, arguments.seed)
        words = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        own, checkers = cpu_seconds()
        print(f"{arguments.ensembles} ensembles in {own:.0f} + {checkers:.0f} CPU s, no disagreement: {words}")
