"""Learners of the user's own, named on the command line as `MODULE:OBJECT`.

Importing a module runs its code. So a name is imported only where the user says it, never because a file says so: a
run that somebody else made could name anything.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from sklearn.base import clone

from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError

WHAT_IT_IS = "name a scikit-learn classifier, or a class or function that makes one without arguments."


def is_brought(name: str | None) -> bool:
    """Whether this names a learner of the user's own rather than one of ours."""
    return name is not None and ":" in name


def brought(name: str) -> Any:
    """The learner that `MODULE:OBJECT` names: a classifier (unfitted, a clone), or a class or function that makes one.

    The module is looked for in the current folder, then among the installed packages.
    """
    value = named_object(name, "learner")
    try:
        learner = clone(value) if _is_learner(value) else value()
    except Exception as error:
        raise PoisonproofError(
            f"The learner '{name}' cannot be made ({type(error).__name__}: {error}); {WHAT_IT_IS}"
        ) from None
    if not _is_learner(learner):
        raise PoisonproofError(
            f"The learner '{name}' is of type {type(learner).__name__}, without fit and predict; {WHAT_IT_IS}"
        )
    return learner


def named_object(name: str, what: str) -> Any:
    """What `MODULE:OBJECT` names; ``what`` it is to be, for the error."""
    module, _, place = name.partition(":")
    value = _imported(name, module, what)
    for part in place.split("."):
        if not hasattr(value, part):
            known = [known for known in dir(value) if not known.startswith("_")]
            raise PoisonproofError(f"The {what} '{name}' is not there: no '{part}'; {nearest(part, known)}")
        value = getattr(value, part)
    return value


def _imported(name: str, module: str, what: str) -> Any:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # it stays: worker processes look where we do
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise PoisonproofError(
            f"The {what} '{name}' cannot be had: its module '{module}' does not import ({type(error).__name__}: "
            f"{error}); it is looked for in this folder and among the installed packages."
        ) from None


def _is_learner(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "fit") and hasattr(value, "predict")
