"""Designs: cyclic difference sets, whose spreads overlap on purpose.

D is a cyclic (v, κ, λ) difference set if its κ residues modulo v give every non-zero residue exactly λ times as a
difference. With G blocks, the spread over n = G·v subsets with the shifts {G·x : x ∈ D} has d = κ and k = G·v/κ,
and

- partitions of different residues modulo G share no base classifier (a shift does not leave the residue);
- two partitions of one residue share exactly λ of them: j + Gx = j′ + Gy asks for x − y = (j′ − j)/G modulo v.

So each poison beyond the first in a block is forced to spend part of its reach on base classifiers that are reached
already, and the grouped bound (`poisonproof.core.grouped`) counts them once. Two families are constructed here:

- *Planes* (Singer): (q² + q + 1, q + 1, 1) for every prime power q. Let α generate the multiplicative group of
  GF(q³). The exponents i modulo q² + q + 1 are the points of a projective plane over GF(q) (α^i up to factors from
  GF(q)), those with Tr(α^i) = 0 for the trace to GF(q) are one line, and multiplying by α turns lines into lines. Two
  lines meet in exactly one point: that is λ = 1.
- *Quartic residues* (Chowla): the fourth powers modulo a prime p = 4x² + 1 with x odd, (p, (p − 1)/4, (p − 5)/16).

Nothing is taken on trust: `checked_overlap` counts the differences of every set that becomes a spread.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from poisonproof.errors import PoisonproofError

HOW_MANY = 6
LARGEST_PLANE = 256  # the largest q and the largest x that `suggest` looks at
WEIGHT_OF_K = 4  # a suggestion may miss d by this factor more than k: k sets the radius, d the cost of training


@dataclass(frozen=True)
class Design:
    """A designed spread, described: what k, d and the number of base classifiers become.

    ``name`` is what the command line's ``--spread`` takes; `Spread.designed` makes it.
    """

    kind: str
    order: int
    blocks: int
    block_size: int
    d: int
    overlap: int

    @property
    def name(self) -> str:
        """The spread as the command line names it, such as ``plane:4,12``."""
        return f"{self.kind}:{self.order},{self.blocks}"

    @property
    def n_subsets(self) -> int:
        """Number of base classifiers."""
        return self.blocks * self.block_size

    @property
    def k(self) -> float:
        """Inverse sensitivity, n_subsets / d."""
        return self.n_subsets / self.d


def suggest(k: float, d: float) -> tuple[Design, ...]:
    """The designs nearest to k and d, best first: by 4·|ln k′/k| + |ln d′/d|."""
    for name, value in (("k", k), ("d", d)):
        if not value > 0 or math.isinf(value):
            raise PoisonproofError(
                f"The '{name}' of a suggestion must be a number > 0. Got {value!r} instead.", code="design.parameter"
            )

    def distance(design: Design) -> tuple[float, int]:
        return WEIGHT_OF_K * abs(math.log(design.k / k)) + abs(math.log(design.d / d)), design.n_subsets

    designs = []
    for kind, order, v, residues, overlap in _families():
        blocks = max(1, round(k * residues / v))
        designs.append(Design(kind, order, blocks, v, residues, overlap))
    return tuple(sorted(designs, key=distance)[:HOW_MANY])


def _families() -> Iterator[tuple[str, int, int, int, int]]:
    """(kind, order, v, κ, λ) of everything that is constructed here, up to a size."""
    for q in range(2, LARGEST_PLANE + 1):
        if prime_power(q):
            yield "plane", q, q * q + q + 1, q + 1, 1
    for x in range(3, LARGEST_PLANE, 2):
        p = 4 * x * x + 1
        if prime_factors(p) == [p]:
            yield "quartic", p, p, (p - 1) // 4, (p - 5) // 16


def checked_overlap(v: SupportsIndex, residues: Sequence[SupportsIndex]) -> int:
    """λ of a cyclic difference set, by counting all differences, or one sentence that says why it is none."""
    v, numbers = operator.index(v), sorted(operator.index(x) for x in residues)
    if v < 2 or len(set(numbers)) != len(numbers) or not numbers or numbers[0] < 0 or numbers[-1] >= v:
        raise PoisonproofError(
            f"A difference set must be a list of different whole numbers in 0 … v - 1 with v ≥ 2. "
            f"Got v = {v} and {_shortened(numbers)}.",
            code="design.not-a-difference-set",
        )
    times = np.zeros(v, np.int64)
    elements = np.array(numbers)
    for x in numbers:
        times += np.bincount((x - elements) % v, minlength=v)
    rarest, commonest = int(times[1:].argmin()) + 1, int(times[1:].argmax()) + 1
    if times[rarest] == 0 or times[rarest] != times[commonest]:
        raise PoisonproofError(
            f"{_shortened(numbers)} is not a difference set modulo {v}: every non-zero residue must be a difference "
            f"equally often and at least once, but {rarest} is one {times[rarest]} times and {commonest} is one "
            f"{times[commonest]} times.",
            code="design.not-a-difference-set",
        )
    return int(times[rarest])


def _shortened(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 12 else f"[{', '.join(map(str, numbers[:12]))}, …]"


def plane(q: SupportsIndex) -> tuple[int, list[int]]:
    """v = q² + q + 1 and a difference set with q + 1 residues, λ = 1; the one that holds 0 and 1.

    It comes from the first primitive polynomial in the order of `primitive_polynomial`, so it is the same everywhere.
    """
    q = operator.index(q)
    power = prime_power(q)
    if not power:
        raise PoisonproofError(
            f"A plane is constructed from a prime power q ≥ 2, such as 2, 3, 4, 5, 7, 8, 9. Got {q}.",
            code="design.parameter",
        )
    p, exponent = power
    degree = 3 * exponent
    field = Field(p, primitive_polynomial(p, degree))
    v = q * q + q + 1
    trace = np.array([np.sum([field.power(q**step * j) for step in range(3)], axis=0) for j in range(degree)]) % p
    powers = np.empty((v, degree), np.int64)
    element = field.power(0)
    for i in range(v):
        powers[i] = element
        element = field.times_x(element)
    line = np.flatnonzero(((powers @ trace) % p == 0).all(axis=1)).tolist()
    on_line = set(line)
    start = next(x for x in line if (x + 1) % v in on_line)
    return v, sorted((x - start) % v for x in line)


def quartic(p: SupportsIndex) -> tuple[int, list[int]]:
    """p and the non-zero fourth powers modulo a prime p = 4x² + 1, x odd: λ = (p − 5)/16."""
    p = operator.index(p)
    x = math.isqrt(max(p - 1, 0) // 4)
    if p < 37 or 4 * x * x + 1 != p or x % 2 == 0 or prime_factors(p) != [p]:
        raise PoisonproofError(
            "Quartic residues are a difference set for a prime p = 4x² + 1 with x odd and x ≥ 3, such as 37, 101, 197 "
            f"or 677. Got {p}.",
            code="design.parameter",
        )
    return p, sorted({pow(y, 4, p) for y in range(1, p)})


@dataclass(frozen=True)
class Field:
    """GF(p^m): polynomials over GF(p) of degree below m, modulo x^m − Σ tail_j·x^j; lists of m coefficients."""

    p: int
    tail: list[int]

    def times_x(self, a: list[int]) -> list[int]:
        """x·a."""
        top = a[-1]
        return [(low + top * back) % self.p for low, back in zip([0, *a[:-1]], self.tail, strict=True)]

    def times(self, a: list[int], b: list[int]) -> list[int]:
        """a·b, by Horner's rule in x."""
        product = [0] * len(a)
        for coefficient in reversed(a):
            product = [(c + coefficient * other) % self.p for c, other in zip(self.times_x(product), b, strict=True)]
        return product

    def power(self, exponent: int) -> list[int]:
        """x to the exponent."""
        result = [1] + [0] * (len(self.tail) - 1)
        for bit in bin(exponent)[2:]:
            result = self.times(result, result)
            if bit == "1":
                result = self.times_x(result)
        return result


def primitive_polynomial(p: int, degree: int) -> list[int]:
    """The tail of the first x^m − Σ tail_j·x^j, tails in increasing order as numbers in base p, that makes x primitive.

    x is primitive if its order is p^m − 1. Then its powers are p^m − 1 different units, hence all non-zero elements, so
    the ring is a field: irreducibility needs no test of its own.
    """
    order = p**degree - 1
    factors = sorted(set(prime_factors(order)))
    one = [1] + [0] * (degree - 1)
    for code in range(1, p**degree):
        tail = [code // p**j % p for j in range(degree)]
        if tail[0] == 0:
            continue
        field = Field(p, tail)
        if field.power(order) == one and all(field.power(order // factor) != one for factor in factors):
            return tail
    raise AssertionError("every finite field has a primitive element")


def prime_factors(number: int) -> list[int]:
    """The prime factors in increasing order, each as often as it divides."""
    factors = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return [*factors, number] if number > 1 else factors


def prime_power(q: int) -> tuple[int, int] | None:
    """(p, e) with q = p^e, or None."""
    factors = prime_factors(q)
    return (factors[0], len(factors)) if factors and factors[0] == factors[-1] else None
