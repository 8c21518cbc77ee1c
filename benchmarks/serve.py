"""What does it cost to keep and serve a model? Digits, k = 50, d = 16, the default base classifier.

python benchmarks/serve.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from poisonproof import FiniteAggregationClassifier, load
from poisonproof.system.threads import n_cores


def main() -> None:
    digits = load("digits")
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        started = time.perf_counter()
        model = FiniteAggregationClassifier(classes=range(10)).fit(digits.train.X, digits.train.labels)
        times["fit 800 base classifiers, one core"] = time.perf_counter() - started
        started = time.perf_counter()
        model.save(folder)
        times["save"] = time.perf_counter() - started
        started = time.perf_counter()
        served = FiniteAggregationClassifier.load(folder)
        times["load"] = time.perf_counter() - started
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    served.certify(digits.test.X[:1])
    started = time.perf_counter()
    for row in range(20):
        served.certify(digits.test.X[row : row + 1])
    times["certify one sample"] = (time.perf_counter() - started) / 20
    started = time.perf_counter()
    served.certify(digits.test.X)
    times[f"certify one of {len(digits.test)} samples at once"] = (time.perf_counter() - started) / len(digits.test)
    print(f"{n_cores()} cores; state on disk {size:.1f} MB for 800 base classifiers")
    print("| what | ms |\n|---|---|")
    for what, seconds in times.items():
        print(f"| {what} | {seconds * 1e3:.2f} |")


if __name__ == "__main__":
    main()
