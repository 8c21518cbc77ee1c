"""What the bits of a float may depend on: versions, the build and kernel of the linear algebra, and the processor.

How much memory this machine has and this process takes, as far as the system says.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_info

from poisonproof import __version__

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "xxhash", "skops")
OPTIONAL_LIBRARIES = ("torch",)


def environment() -> dict[str, Any]:
    """This process's environment; the same in all of its life, whatever is loaded later."""
    return dict(_environment())


@cache
def _environment() -> dict[str, Any]:
    return {
        "poisonproof": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        **{name: version(name) for name in LIBRARIES},
        **{name: version(name) for name in OPTIONAL_LIBRARIES if find_spec(name)},
        "linear algebra": linear_algebra(),
        "processor": processor(),
    }


def linear_algebra() -> str:
    """The libraries that NumPy and SciPy compute with, each with its version and the kernel picked for the processor.

    Those that other packages bring along are left out: whether they are loaded yet depends on the moment.
    """
    import scipy.linalg  # noqa: F401  SciPy has a library of its own, which is loaded with this

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    ours = [library for library in libraries if _of_numpy_or_scipy(Path(library["filepath"]))] or libraries
    words = (f"{lib['internal_api']} {lib['version']} {lib.get('architecture', '')}".strip() for lib in ours)
    return ", ".join(sorted(set(words))) or "unknown"


def processor() -> str:
    """What the processor can do, as far as NumPy looks."""
    features = getattr(import_module("numpy._core._multiarray_umath"), "__cpu_features__", {})
    return " ".join(name for name, present in features.items() if present) or platform.processor() or "unknown"


def _of_numpy_or_scipy(path: Path) -> bool:
    return any(part.split(".")[0] in ("numpy", "scipy") for part in path.parts)


def is_a(thing: Any, module: str, name: str) -> bool:
    """Whether this is an object of a class; a module that nobody has imported made no objects, and is not imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(thing, kind)


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
