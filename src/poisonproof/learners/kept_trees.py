"""Trees as plain arrays: what comes from a file is looked at before it is walked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class KeptTrees(ABC):
    """Arrays of nodes that are this object's whole state."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a file holds. What walks down a tree looks at no bounds: a node must lead further down."""
        self.__dict__.update(state)
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Raise `DamagedFileError` unless these are trees that can be walked."""
