"""Learners by name, one of the user's own as `MODULE:OBJECT`, and the one for a kind of data.

Every constant of a preset is written down beside its class, and none comes from the data at hand. Importing a
module runs its code. So an object is imported only where the user names it, never because a file says so: a run that
somebody else made could name anything.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.base import clone

from poisonproof import registry
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError

HEAD = "head"
TEXT_LEARNERS = ("auto", "text", "bayes", "ridge")
ONLY_TEXTS = ("bayes", "ridge")
TAKES_COLUMNS_OF_TEXTS = ("auto", "text")
THERE_ARE_TEXTS = "there are texts"
WHAT_IT_IS = "name a scikit-learn classifier, or a class or function that makes one without arguments."


def preset(name: str, texts: Sequence[str] = ()) -> Any:
    """A fresh learner by its name; ``texts`` names the columns of a table that hold texts."""
    make = registry.find("learners", name)
    return make(list(texts)) if name in TAKES_COLUMNS_OF_TEXTS else make()


def learner_for(schema: Any) -> tuple[str, str, tuple[str, ...]]:
    """The learner for data of this schema, why, and the columns of texts it must know."""
    kind = getattr(schema, "kind", None)
    if kind == "images" and schema.colour:
        raise PoisonproofError(
            "For colour images there is no learner without an encoder; pip install 'poisonproof[encoders]', or name a "
            "learner of your own by --learner MODULE:OBJECT.",
            code="learner.colour-images",
        )
    if kind == "images":
        return "glyphs", "these are grey images and no encoder is wanted or there", ()
    texts = tuple(schema.named("text")) if kind == "table" else ()
    if texts:
        return ("auto", THERE_ARE_TEXTS, ()) if schema.only_texts else ("text", THERE_ARE_TEXTS, texts)
    if kind == "table":
        return "auto", "these are numbers and categories", ()
    return "table", "these are numbers", ()


def is_object_name(name: str | None) -> bool:
    """Whether this names an object of the user's own rather than one of ours."""
    return name is not None and ":" in name


def load_learner(name: str) -> Any:
    """The learner that `MODULE:OBJECT` names: a classifier (unfitted, a clone), or a class or function that makes one.

    The module is looked for in the current folder, then among the installed packages.
    """
    value = load_object(name, "learner")
    try:
        learner = clone(value) if _is_learner(value) else value()
    except Exception as error:
        raise PoisonproofError(
            f"The learner '{name}' cannot be made ({type(error).__name__}: {error}); {WHAT_IT_IS}",
            code="learner.not-made",
        ) from None
    if not _is_learner(learner):
        raise PoisonproofError(
            f"The learner '{name}' is of type {type(learner).__name__}, without fit and predict; {WHAT_IT_IS}",
            code="learner.not-made",
        )
    return learner


def load_object(name: str, what: str) -> Any:
    """What `MODULE:OBJECT` names; ``what`` it is to be, for the error."""
    module, _, place = name.partition(":")
    value = _imported(name, module, what)
    for part in place.split("."):
        if not hasattr(value, part):
            known = [known for known in dir(value) if not known.startswith("_")]
            raise PoisonproofError(
                f"The {what} '{name}' is not there: no '{part}'; {nearest(part, known)}", code="object.missing"
            )
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
            f"{error}); it is looked for in this folder and among the installed packages.",
            code="object.not-imported",
        ) from None


def _is_learner(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "fit") and hasattr(value, "predict")
