"""How much memory this machine has, as far as it says."""

from __future__ import annotations

import os
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
