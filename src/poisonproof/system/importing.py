"""Imports that leave out what they would only carry along.

skops lists every estimator of scikit-learn when it is imported, and the walk to them imports PyTorch and Dask wherever
they are installed: two seconds before a base classifier can be written down, for packages that no table needs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

CARRIED_ALONG = ("torch", "dask", "cupy")


class _Refusing(MetaPathFinder):
    """Says that packages are not there, to the thread that made it and to no other."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages
        self.thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in self.packages and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"No module named '{fullname}' for now", name=fullname)


@contextmanager
def without(packages: Sequence[str]) -> Iterator[None]:
    """Imports inside find none of these packages, unless they have been imported already; later ones do."""
    finder = _Refusing(packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def skops_io() -> Any:
    """The module `skops.io`."""
    with without(CARRIED_ALONG):
        import skops.io
    return skops.io
