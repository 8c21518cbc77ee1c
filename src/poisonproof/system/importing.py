"""Imports that leave out, or put off, what they would only carry along.

skops lists every estimator of scikit-learn when it is imported, and the walk to them imports PyTorch and Dask wherever
they are installed: two seconds before a base classifier can be written down, for packages that no table needs.

scikit-learn itself imports SciPy's statistics and pandas on its way, a second for what an update of a table never uses.
There they are modules that run when somebody first uses something of them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

CARRIED_ALONG = ("torch", "dask", "cupy")
PUT_OFF = ("pandas", "scipy.stats", "scipy.special", "numpy.f2py")


class _Refusing(MetaPathFinder):
    """Says that packages are not there, to the thread that made it and to no other."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages
        self.thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in self.packages and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"No module named '{fullname}' for now", name=fullname)


@contextmanager
def _asked_first(finder: MetaPathFinder) -> Iterator[None]:
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def without(packages: Sequence[str]) -> Iterator[None]:
    """Imports inside find none of these packages, unless they have been imported already; later ones do."""
    with _asked_first(_Refusing(packages)):
        yield


def skops_io() -> Any:
    """The module `skops.io`."""
    with without(CARRIED_ALONG):
        import skops.io
    return skops.io


def is_a(thing: Any, module: str, name: str) -> bool:
    """Whether this is an object of a class; a module that nobody has imported made no objects, and is not imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(thing, kind)


@contextmanager
def put_off(modules: Sequence[str] = PUT_OFF) -> Iterator[None]:
    """Imports inside find these modules, which run only when something of them is used; others run as ever.

    Such a module has its name, and is in its place for whoever imports it again. The first name that is looked up in
    it, that of a module beneath it among them, runs it; then it is a module like any other.
    """
    with _asked_first(_PuttingOff(modules)):
        yield


class _PuttingOff(MetaPathFinder):
    def __init__(self, modules: Sequence[str]) -> None:
        self.modules = modules
        self.thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in self.modules or threading.get_ident() != self.thread:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _LateLoader(spec.loader)
        return spec


class _LateLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LateModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet. Where modules beneath it lie is put aside, so that whoever wants one of them runs it first."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        names = vars(module)
        names["_late"] = _Late(self.loader, {name: names.pop(name) for name in ("__path__",) if name in names})


class _Late:
    """What it takes to run a module, once."""

    def __init__(self, loader: Loader, aside: dict[str, Any]) -> None:
        self.loader, self.aside = loader, aside
        self.lock = threading.RLock()
        self.runs_in: int | None = None


class _LateModule(ModuleType):
    """A module that has not run yet."""

    def __getattr__(self, name: str) -> Any:
        late: _Late | None = vars(self).get("_late")
        if late is None or late.runs_in == threading.get_ident():  # what it has not defined yet, it has not
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        with late.lock:
            if "_late" in vars(self):  # no other thread came first
                late.runs_in = threading.get_ident()
                vars(self).update(late.aside)
                try:
                    late.loader.exec_module(self)
                finally:
                    late.runs_in = None
                del vars(self)["_late"]
                self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)
