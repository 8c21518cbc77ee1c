"""Numbers as people read them; nothing is ever rounded in our favour."""

from __future__ import annotations


def percent(share: float | None) -> str:
    """A share in percent with one digit, never rounded up; "?" if it is not known."""
    return "?" if share is None else f"{np.floor(share * 1000 + 1e-9) / 10:.1f}"


def gigabytes(size: int) -> str:
    """A size in words, rounded up."""
    return f"{-(-size // 10**7) / 100:.2f}".rstrip("0").rstrip(".") + "GB"


def bytes_of(text: str) -> int:
    """What a person wrote: `4GB`, `500MB`, or a number of GB."""
    units: dict[str, Any] = {"GB": 10**9, "MB": 10**6}
    said = text.strip().upper()
    unit = said[-2:] if said[-2:] in units else "GB"
    try:
        size = int(float(said.removesuffix(unit)) * units[unit])
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise ValueError(f"--max-memory must be a size such as 4GB or 500MB. Got '{text}'.")
    return size
