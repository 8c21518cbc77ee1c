"""Prediction, margin, runner-up and radius of all test samples, or of a random sample, computed again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification.coverage import attack_exists
from poisonproof.verification.evidence import Evidence
from poisonproof.verification.run_off import RunOff
from poisonproof.verification.theorem import (
    Rival,
    Row,
    dpa_bound,
    lead_of,
    leads,
    theorem_2,
    weights,
)
from poisonproof.verification.verdict import (
    Finding,
    NotCheckedError,
    NotTrueError,
    detection,
)

METHODS = {
    "finite-aggregation": "Theorem 2",
    "dpa-bound": "⌊margin / 2d⌋",
    "tight": "the tight certificate",
    "run-off": "run-off election",
}
WITH_EXACT = ("tight", "run-off")
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
        if method != "finite-aggregation" and self.evidence.reachable is not None:
            raise NotTrueError(
                f"by the method '{method}' base classifiers reckon with all partitions, and a premise says otherwise."
            )
        if method == "run-off":
            self._check_rankings()
        expected = {*ARRAYS, "exact"} if method in WITH_EXACT else set(ARRAYS)
        if set(arrays) != expected or any(
            array.shape != (n_test,) or array.dtype.kind != ("b" if name == "exact" else "i")
            for name, array in arrays.items()
        ):
            raise NotTrueError(f"the certificate does not hold {', '.join(sorted(expected))} of {n_test} test samples.")
        return True

    @cached_property
    def counted(self) -> NDArray[np.int64]:
        """Prediction and margin of every row of votes, as numbers alone: classes times rows would not fit in memory."""
        evidence = self.evidence
        counted = np.empty((evidence.n_test if self.ready else 0, 2), np.int64)
        for t, row in enumerate(evidence.matrix):
            if evidence.facts["method"] == "run-off":
                election = self._run_off(t)
                counted[t] = election.finalists[0], election.margin
                continue
            counted[t] = leads(row, evidence.n_classes, evidence.facts["classes_inferred"])[:2]
        return counted

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The test samples whose radii are computed again."""
        return draw(self.evidence.n_test, self.sample, self.seed, 1)

    @cached_property
    def certified(self) -> NDArray[np.int64]:
        """Their radius and runner-up, by Theorem 2 or by the bound."""
        radii, evidence = np.empty((len(self.rows), 2), np.int64), self.evidence
        for at, t in enumerate(self.rows):
            row = self._theorem_2(int(t))
            row = dpa_bound(row, evidence.spread.d) if evidence.facts["method"] == "dpa-bound" else row
            radii[at] = row.radius, row.runner_up
            self.progress(at + 1, len(self.rows))
        return radii

    def prediction(self) -> str:
        """Predictions: the most voted classes."""
        return self._compare("prediction", np.arange(self.evidence.n_test), self.counted[:, 0])

    def margin(self) -> str:
        """Margins: the smallest leads."""
        return self._compare("margin", np.arange(self.evidence.n_test), self.counted[:, 1])

    def radius(self) -> Finding:
        """Radii, and the runners-up that set them."""
        if self.ready and self.evidence.facts["method"] == "tight":
            sentence = self._tight()
        elif self.evidence.facts["method"] == "run-off":
            sentence = self._run_offs()
        else:
            self._compare("radius", self.rows, self.certified[:, 0])
            self._compare("runner_up", self.rows, self.certified[:, 1])
            n, method = self.evidence.matrix.shape[1], METHODS[self.evidence.facts["method"]]
            sentence = f"{{}} radii follow from the votes of {n} base classifiers by {method}"
            if (reachable := self.evidence.reachable) is not None:
                sentence += f" within {int(reachable.sum())} reachable partitions (Theorem 4)"
        n_test, recomputed = self.evidence.n_test, {"recomputed": len(self.rows)}
        if len(self.rows) == n_test:
            return Finding(f"{sentence.format(f'all {n_test}')}.", recomputed)
        chance = detection(n_test, len(self.rows), "radii")
        words = sentence.format(f"{len(self.rows)} of {n_test} (drawn at random)")
        return Finding(f"{words}; {chance.words}.", recomputed | chance.details)

    def _theorem_2(self, t: int) -> Row:
        evidence = self.evidence
        inferred = evidence.facts["classes_inferred"]
        return theorem_2(evidence.matrix[t], evidence.spread, evidence.n_classes, inferred, evidence.reachable)

    def _compare(self, name: str, rows: NDArray[np.int64], expected: NDArray[np.int64]) -> str:
        """An array of the certificate against what the votes give."""
        claimed = self.evidence.certificate.arrays[name][rows]
        wrong = np.flatnonzero(claimed != expected)
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
        last = self.evidence.n_classes - (not self.evidence.facts["classes_inferred"])
        for t, radius in zip(self.rows, self.certified[:, 0], strict=True):
            if not radius <= arrays["radius"][t] <= n:
                raise NotTrueError(
                    f"the radius of test sample {t} is stated as {arrays['radius'][t]}, but Theorem 2 alone gives "
                    f"{radius}, and there are {n} partitions."
                )
            if not 0 <= arrays["runner_up"][t] <= last or arrays["runner_up"][t] == self.counted[t, 0]:
                raise NotTrueError(f"the runner-up of test sample {t} is stated as {arrays['runner_up'][t]}: no rival.")
        above = np.flatnonzero(arrays["radius"][self.rows] > self.certified[:, 0])
        exact = np.flatnonzero(arrays["exact"][self.rows])
        most = None if self.sample else TIGHT_ROWS
        proved, tried = above[draw(len(above), most, self.seed, 2)], exact[draw(len(exact), most, self.seed, 2)]
        for at in proved:
            self._prove_harmless(int(self.rows[at]))
        confirmed = sum(self._confirm_exact(int(self.rows[at])) for at in tried)
        chance = f" ({detection(len(above), len(proved), 'ones').words})" if len(proved) < len(above) else ""
        return (
            f"{{}} radii are at least Theorem 2's; of {len(above)} above it {len(proved)} were proved anew{chance}, "
            f"and of {len(exact)} called exact {confirmed} were confirmed"
        )

    def _check_rankings(self) -> None:
        evidence, ranked = self.evidence, self.evidence.rankings
        if ranked is None:
            raise NotCheckedError("there are no rankings, and a run-off election needs them.")
        in_range = ranked.size and 0 <= int(ranked.min()) <= int(ranked.max()) <= evidence.n_classes
        places_fit = ranked.shape[:-1] == evidence.matrix.shape and 1 <= ranked.shape[-1] <= evidence.n_classes
        if not places_fit or not in_range:
            raise NotCheckedError("the rankings are not in order.")

    def _run_off(self, t: int) -> RunOff:
        evidence = self.evidence
        assert evidence.rankings is not None
        ranked = np.asarray(evidence.rankings[t])
        return RunOff(ranked, evidence.spread, evidence.n_classes, evidence.facts["classes_inferred"])

    def _run_offs(self) -> str:
        """Radii of run-off elections: each is proved anew, and one more is not."""
        arrays, whole_but_not_exact = self.evidence.certificate.arrays, False
        for at, t in enumerate(self.rows):
            election, radius = self._run_off(int(t)), int(arrays["radius"][t])
            promises = radius > 0 or not election.unknown.any()  # what was not kept may already decide otherwise
            if promises and not election.proof(radius).complete:
                raise NotTrueError(
                    f"the radius of test sample {t} is stated as {radius}, but its rankings do not prove that."
                )
            if radius < self.evidence.spread.n and election.proof(radius + 1).complete:
                raise NotTrueError(
                    f"the radius of test sample {t} is stated as {radius}, but its rankings prove {radius + 1}."
                )
            if arrays["runner_up"][t] not in election.rivals and self.evidence.n_classes > 1:
                raise NotTrueError(f"the runner-up of test sample {t} is stated as {arrays['runner_up'][t]}: no rival.")
            whole_but_not_exact |= not arrays["exact"][t] and not election.unknown.any()
            self.progress(at + 1, len(self.rows))
        if self.evidence.spread.d == 1 and whole_but_not_exact:
            raise NotTrueError("with d = 1 every radius of a run-off election is exact, and some are not called so.")
        n, looked = (
            self.evidence.matrix.shape[1],
            "" if self.evidence.spread.d == 1 else "; exactness was not looked at",
        )
        return f"{{}} radii follow from the rankings of {n} base classifiers by run-off election{looked}"

    def _prove_harmless(self, t: int) -> None:
        """Against no rival does an attack as large as the radius exist."""
        radius, row = int(self.evidence.certificate.arrays["radius"][t]), self._theorem_2(t)
        for rival in row.rivals:
            harmful = self._attack_exists(t, row, rival, radius) if rival.radius < radius else False
            if harmful is None:
                raise NotCheckedError(f"radius {radius} of test sample {t} could be neither proved nor refuted.")
            if harmful:
                raise NotTrueError(
                    f"the radius of test sample {t} is stated as {radius}, but {radius} poisoned partitions can make "
                    f"class {rival.code} win."
                )

    def _confirm_exact(self, t: int) -> bool:
        """Whether an attack one larger than the radius was found for the runner-up; an error if there is none."""
        evidence, arrays = self.evidence, self.evidence.certificate.arrays
        radius, code, row = int(arrays["radius"][t]), int(arrays["runner_up"][t]), self._theorem_2(t)
        counts = leads(evidence.matrix[t], evidence.n_classes, evidence.facts["classes_inferred"]).counts
        rival = Rival(row.radius, lead_of(row.prediction, code, counts), code)
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
