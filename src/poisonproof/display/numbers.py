"""Numbers as people read them; nothing is ever rounded in our favour."""

from __future__ import annotations

import math

from poisonproof.errors import PoisonproofError

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def percent(share: float | None) -> str:
    """A share in percent with one digit, never rounded up; "?" if it is not known."""
    return "?" if share is None else f"{math.floor(share * 1000 + 1e-9) / 10:.1f}"


def in_bytes(size: float, *, up: bool = False) -> str:
    """A number of bytes with three digits and its unit, such as ``2.56 kB``; ``up`` never says less than it is."""
    unit = next((name for name in reversed(UNITS) if size >= UNITS[name]), "B")
    amount = size / UNITS[unit]
    step = 10.0 ** (math.floor(math.log10(amount)) - 2) if amount > 0 else 1.0
    amount = (math.ceil(amount / step - 1e-9) if up else round(amount / step)) * step
    return f"{amount:,.0f} {unit}" if amount >= 1000 else f"{amount:.3g} {unit}"


def bytes_of(text: str) -> int:
    """What a person wrote: `4GB`, `500MB`, or a number of GB."""
    words = text.strip().upper()
    unit = words[-2:] if words[-2:] in ("GB", "MB") else "GB"
    try:
        size = int(float(words.removesuffix(unit)) * UNITS[unit])
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise PoisonproofError(f"--max-memory must be a size such as 4GB or 500MB. Got '{text}'.")
    return size
