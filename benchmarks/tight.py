"""What does counting overlap once buy? Theorem 2 against the tight certificate on the same votes.

    python benchmarks/tight.py VOTES.npy [SAMPLES]

VOTES.npy as a run saved it; the first SAMPLES test samples (all by default).
"""

from __future__ import annotations

import sys
import time

from poisonproof import Votes, certify


def main() -> None:
    saved = Votes.load(sys.argv[1])
    n_test = int(sys.argv[2]) if len(sys.argv) > 2 else saved.n_test
    votes = Votes(saved.matrix[:n_test], saved.spread, saved.classes, classes_inferred=saved.classes_inferred)
    certify(Votes(votes.matrix[:2], votes.spread, votes.classes), "tight")  # compile
    print("| method | mean radius | larger than Theorem 2, % | exact, % | ms of one core per sample |")
    print("|---|---|---|---|---|")
    plain = certify(votes)
    for method in ("dpa-bound", "finite-aggregation", "tight"):
        started = time.process_time()
        certificate = certify(votes, method, n_jobs=1)
        cost = (time.process_time() - started) / votes.n_test * 1e3
        larger = (certificate.radius > plain.radius).mean() * 100
        exact = "" if certificate.exact is None else f"{certificate.exact.mean() * 100:.1f}"
        print(f"| {method} | {certificate.radius.mean():.2f} | {larger:.1f} | {exact} | {cost:.2f} |")


if __name__ == "__main__":
    main()
