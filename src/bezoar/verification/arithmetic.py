"""Prediction, margin, runner-up and radius of all test samples, or of a random sample, computed again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bezoar.verification.coverage import attack_exists
from bezoar.verification.evidence import Evidence
from bezoar.verification.theorem import Leads, Rival, Row, dpa_bound, leads, theorem_2, weights
from bezoar.verification.verdict import Finding, NotCheckedError, NotTrueError, detection

METHODS = {"finite-aggregation": "Theorem 2", "dpa-bound": "⌊margin / 2d⌋", "tight": "the tight certificate"}
ARRAYS = ("prediction", "runner_up", "margin", "radius")
TIGHT_ROWS = 25  # without ``sample``: how many radii above Theorem 2, and how many exact ones, to prove anew


class Arithmetic:
    """Predictions and margins of all test samples, radii of all or of a random sample; each computed once."""

    def __init__(self, evidence: Evidence, sample: int | None, seed: int, progress: Callable[[int, int], None]) -> None:
        self.evidence, self.sample, self.seed, self.progress = evidence, sample, seed, progress

    @cached_property
    def ready(self) -> bool:
        """The method is known, the certificate has its arrays, and the votes are in order; or an error."""
        method, arrays, n_test = self.evidence.facts["method"], self.evidence.certificate.arrays, self.evidence.n_test
        if method not in METHODS:
            raise NotCheckedError(f"this checker does not know the method {method!r}.")
        if not self.evidence.votes_in_range:
            raise NotCheckedError("the votes are not in order.")
        expected = {*ARRAYS, "exact"} if method == "tight" else set(ARRAYS)
        if set(arrays) != expected or any(
            array.shape != (n_test,) or array.dtype.kind != ("b" if name == "exact" else "i")
            for name, array in arrays.items()
        ):
            raise NotTrueError(f"the certificate does not hold {', '.join(sorted(expected))} of {n_test} test samples.")
        return True

    @cached_property
    def counted(self) -> list[Leads]:
        """Every row of votes, counted."""
        inferred = self.evidence.facts["classes_inferred"]
        return [leads(row, self.evidence.n_classes, inferred) for row in self.evidence.matrix] if self.ready else []

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The test samples whose radii are computed again."""
        return draw(self.evidence.n_test, self.sample, self.seed, 1)

    @cached_property
    def certified(self) -> list[Row]:
        """Their votes, certified."""
        evidence, inferred = self.evidence, self.evidence.facts["classes_inferred"]
        found = []
        for t in self.rows:
            found.append(theorem_2(evidence.matrix[t], evidence.spread, evidence.n_classes, inferred))
            self.progress(len(found), len(self.rows))
        return (
            [dpa_bound(row, evidence.spread.d) for row in found] if evidence.facts["method"] == "dpa-bound" else found
        )

    def prediction(self) -> str:
        """Predictions: the most voted classes."""
        expected = [row.prediction for row in self.counted]
        return self._compare("prediction", np.arange(self.evidence.n_test), expected)

    def margin(self) -> str:
        """Margins: the smallest leads."""
        return self._compare("margin", np.arange(self.evidence.n_test), [row.margin for row in self.counted])

    def radius(self) -> Finding:
        """Radii, and the runners-up that set them."""
        if self.ready and self.evidence.facts["method"] == "tight":
            found = self._tight()
        else:
            self._compare("radius", self.rows, [row.radius for row in self.certified])
            self._compare("runner_up", self.rows, [row.runner_up for row in self.certified])
            n, method = self.evidence.matrix.shape[1], METHODS[self.evidence.facts["method"]]
            found = f"{{}} radii follow from the votes of {n} base classifiers by {method}"
        n_test, recomputed = self.evidence.n_test, {"recomputed": len(self.rows)}
        if len(self.rows) == n_test:
            return Finding(f"{found.format(f'all {n_test}')}.", recomputed)
        chance = detection(n_test, len(self.rows), "radii")
        words = found.format(f"{len(self.rows)} of {n_test} (drawn at random)")
        return Finding(f"{words}; {chance.words}.", recomputed | chance.details)

    def _compare(self, name: str, rows: NDArray[np.int64], expected: list[int]) -> str:
        """An array of the certificate against what the votes give."""
        claimed = self.evidence.certificate.arrays[name][rows]
        wrong = np.flatnonzero(claimed != np.array(expected, np.int64))
        if len(wrong):
            at = wrong[0]
            raise NotTrueError(
                f"the {name.replace('_', '-')} of test sample {rows[at]} is stated as {claimed[at]}, but its votes "
                f"give {expected[at]}; "
                f"{len(wrong)} of {len(rows)} are wrong."
            )
        return f"all {len(rows)} follow from the votes."

    def _tight(self) -> str:
        """Radii of the method "tight": never below Theorem 2; those above it are proved anew, or refuted."""
        arrays, n = self.evidence.certificate.arrays, self.evidence.spread.n
        for t, row in zip(self.rows, self.certified, strict=True):
            if not row.radius <= arrays["radius"][t] <= n:
                raise NotTrueError(
                    f"the radius of test sample {t} is stated as {arrays['radius'][t]}, but Theorem 2 alone gives "
                    f"{row.radius}, and there are {n} partitions."
                )
            if arrays["runner_up"][t] not in [rival.code for rival in row.rivals]:
                raise NotTrueError(f"the runner-up of test sample {t} is stated as {arrays['runner_up'][t]}: no rival.")
        above = np.flatnonzero(arrays["radius"][self.rows] > [row.radius for row in self.certified])
        exact = np.flatnonzero(arrays["exact"][self.rows])
        most = None if self.sample else TIGHT_ROWS
        proved, tried = above[draw(len(above), most, self.seed, 2)], exact[draw(len(exact), most, self.seed, 2)]
        for at in proved:
            self._prove_harmless(int(self.rows[at]), self.certified[at])
        confirmed = sum(self._confirm_exact(int(self.rows[at]), self.certified[at]) for at in tried)
        chance = f" ({detection(len(above), len(proved), 'ones').words})" if len(proved) < len(above) else ""
        return (
            f"{{}} radii are at least Theorem 2's; of {len(above)} above it {len(proved)} were proved anew{chance}, "
            f"and of {len(exact)} called exact {confirmed} were confirmed"
        )

    def _prove_harmless(self, t: int, row: Row) -> None:
        """Against no rival does an attack as large as the radius exist."""
        radius = int(self.evidence.certificate.arrays["radius"][t])
        for rival in row.rivals:
            harmful = self._attack_exists(t, row, rival, radius) if rival.radius < radius else False
            if harmful is None:
                raise NotCheckedError(f"radius {radius} of test sample {t} could be neither proved nor refuted.")
            if harmful:
                raise NotTrueError(
                    f"the radius of test sample {t} is stated as {radius}, but {radius} poisoned partitions can make "
                    f"class {rival.code} win."
                )

    def _confirm_exact(self, t: int, row: Row) -> bool:
        """Whether an attack one larger than the radius was found for the runner-up; an error if there is none."""
        arrays = self.evidence.certificate.arrays
        radius, rival = int(arrays["radius"][t]), next(r for r in row.rivals if r.code == arrays["runner_up"][t])
        harmful = self._attack_exists(t, row, rival, radius + 1)
        if harmful is False:
            raise NotTrueError(
                f"radius {radius} of test sample {t} is called exact, but no {radius + 1} partitions make "
                f"its runner-up, class {rival.code}, win."
            )
        return harmful is True

    def _attack_exists(self, t: int, row: Row, rival: Rival, size: int) -> bool | None:
        weight = weights(self.evidence.matrix[t], row.prediction, rival, self.evidence.n_classes)
        return attack_exists(weight, self.evidence.spread.table, size, rival.lead)


def draw(total: int, wanted: int | None, seed: int, stream: int) -> NDArray[np.int64]:
    """All of 0 … total − 1, or that many of them at random."""
    if wanted is None or wanted >= total:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, stream]).choice(total, wanted, replace=False))
