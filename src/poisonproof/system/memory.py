"""How much memory this machine has and this process takes, as far as the system says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple


class Memory(NamedTuple):
    """Bytes in all and free; None where the system does not say."""

    total: int | None
    free: int | None


def memory() -> Memory:
    """As Linux says; elsewhere what the C library knows."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return Memory(kilobytes["MemTotal"] * 1024, kilobytes["MemAvailable"] * 1024)
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return Memory(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None)
    except (AttributeError, OSError, ValueError):
        return Memory(None, None)


def resident_bytes() -> int:
    """Bytes that this process holds now, as Linux says; elsewhere the most that it has held so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_bytes()


def peak_bytes() -> int:
    """The most bytes that this process has held so far; 0 on Windows, which has no such count in Python."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
