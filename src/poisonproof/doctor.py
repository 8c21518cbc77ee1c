"""What this machine offers poisonproof: versions, cores, memory, threads, optional parts, data. Nothing is changed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from poisonproof import __version__
from poisonproof.errors import install_command

NOT_FOR_USERS = ("test", "dev", "docs")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
NAME = re.compile(r"^[A-Za-z0-9._-]+")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
SLOW_SECONDS = 5.0


@dataclass(frozen=True)
class OptionalPart:
    """A part that is installed by naming it: what it brings, and what of that is missing here."""

    name: str
    present: dict[str, str]
    missing: tuple[str, ...]

    @property
    def command(self) -> str:
        """What installs it."""
        return install_command(self.name)


@dataclass(frozen=True)
class Findings:
    """Everything that was looked at.

    Attributes
    ----------
    versions : dict
        poisonproof, Python and every library that poisonproof cannot do without.
    cores : int
        That this process may use, of ``cores_in_all``.
    memory_total, memory_free, disk_free : int or None
        Bytes; the disk is that of the current folder. None where the system does not say.
    linear_algebra : tuple of str
        The BLAS and OpenMP libraries that are loaded, with their threads. A base classifier uses one.
    numba_threads : int
    thread_variables : dict
        Environment variables that limit threads.
    optional : tuple of OptionalPart
    toy_radius : int
        The radius of the example in the docs (the paper's Figure 2), computed here; it must be 1.
    toy_seconds : float
        How long that took; the first time, Numba compiles.
    """

    versions: dict[str, str]
    system: str
    cores: int
    cores_in_all: int
    memory_total: int | None
    memory_free: int | None
    disk_free: int
    linear_algebra: tuple[str, ...]
    numba_threads: int
    thread_variables: dict[str, str]
    optional: tuple[OptionalPart, ...]
    toy_radius: int
    toy_seconds: float

    @property
    def ok(self) -> bool:
        """Whether the example of the docs came out as it must."""
        return self.toy_radius == 1

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {**asdict(self), "ok": self.ok}


def examine() -> Findings:
    """Look at this machine."""
    from poisonproof.system.determinism import n_cores
    from poisonproof.system.machine import memory

    required, optional = _requirements()
    radius, seconds = _toy()
    total, free = memory()
    return Findings(
        versions={"poisonproof": __version__, "Python": platform.python_version(), **required},
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        cores=n_cores(),
        cores_in_all=os.cpu_count() or 1,
        memory_total=total,
        memory_free=free,
        disk_free=shutil.disk_usage(Path.cwd()).free,
        linear_algebra=_linear_algebra(),
        numba_threads=_numba_threads(),
        thread_variables={name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        optional=optional,
        toy_radius=radius,
        toy_seconds=seconds,
    )


def _requirements() -> tuple[dict[str, str], tuple[OptionalPart, ...]]:
    """Versions of what poisonproof needs, and its optional parts, as its own package says."""
    required: dict[str, str] = {}
    parts: dict[str, dict[str, str | None]] = {}
    for line in metadata.requires("poisonproof") or ():
        name, extra = NAME.match(line), EXTRA.search(line)
        if name is None or name[0] == "poisonproof":
            continue
        if extra is None:
            required[name[0]] = _version(name[0]) or "missing"
        elif extra[1] not in NOT_FOR_USERS:
            parts.setdefault(extra[1], {})[name[0]] = _version(name[0])
    return required, tuple(
        OptionalPart(
            part,
            {name: version for name, version in versions.items() if version},
            tuple(name for name, version in versions.items() if not version),
        )
        for part, versions in sorted(parts.items())
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _linear_algebra() -> tuple[str, ...]:
    for module in ("numpy.linalg", "scipy.linalg", "sklearn.utils"):  # each brings a library of its own
        import_module(module)
    from threadpoolctl import threadpool_info

    pools = threadpool_info()
    return tuple(
        sorted(
            {
                f"{pool['internal_api']} {pool['version'] or '(version unknown)'}, {pool['num_threads']} threads"
                for pool in pools
            }
        )
    )


def _numba_threads() -> int:
    import numba

    return int(numba.get_num_threads())


def _toy() -> tuple[int, float]:
    """The radius of the paper's Figure 2, and the seconds it took."""
    start = time.perf_counter()
    from poisonproof import Spread, Votes, certify

    cat, dog, bird, deer = 1, 3, 0, 2
    votes = Votes([[cat, dog, cat, bird, cat, deer] * 2], Spread(12, (0, 1)), ["bird", "cat", "deer", "dog"])
    return int(certify(votes).radius[0]), round(time.perf_counter() - start, 2)
