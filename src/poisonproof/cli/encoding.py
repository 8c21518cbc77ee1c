"""`--encoder`: a name, an ONNX file, embeddings from elsewhere, or a function of the user's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof import registry
from poisonproof.cli import completion, output
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.encoders.base import Encoder

NONE = "none"
CACHE = "POISONPROOF_CACHE"
Name = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        autocompletion=completion.of_encoders,
        help="A fixed map in front of the learner, a premise of every radius: `efficientnet-lite0` (also 1 and 2; "
        "`@160` sets the pixels), `wordllama`, FILE.onnx with FILE.json beside it, embeddings.npz, your own "
        "`MODULE:OBJECT`, or `none`.",
    ),
]
Again = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="The encoder of your own that the run was made with: `MODULE:OBJECT` (it is imported), FILE.onnx or "
        "embeddings.npz.",
    ),
]


def is_own(name: str | None) -> bool:
    """Whether this names an object of the user's own module."""
    return name is not None and ":" in name and not Path(name).exists()


def must_be_named(name: str | None) -> bool:
    """Whether a run's encoder is somebody's own, a function or a file: it is opened only if the user names it again."""
    return name not in (None, NONE) and str(name).partition("@")[0] not in registry.names("encoders")


def encoder_of(name: str, *, cached: bool = True) -> Encoder:
    """The encoder that the command line names, with its cache where there is a folder for one.

    What a function of the user's own calls, and the weights it has read, are not in its digest; so its embeddings are
    remembered only where it states a record of its own, which says what it is.
    """
    from poisonproof.learners.presets import load_object

    chosen: Encoder = registry.encoder(load_object(name, "encoder") if is_own(name) else name)
    return chosen.cached(folder) if cached and chosen.lasting and (folder := cache_folder()) is not None else chosen


def cache_folder() -> Path | None:
    """Where embeddings are kept: POISONPROOF_CACHE, else the user's cache folder; None if it cannot be written."""
    folder = Path(os.environ.get(CACHE) or _user_cache() / "poisonproof") / "embeddings"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        output.note(f"embeddings are not kept: {folder} cannot be written ({error.strerror}); {CACHE} names another")
        return None
    return folder if os.access(folder, os.W_OK) else None


def _user_cache() -> Path:
    """Where programs of this user keep what can be made again."""
    homes = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": "~/Library/Caches"}
    return Path(homes.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def for_data(schema: Any, name: str | None, learner: str | None) -> str | None:
    """The encoder for a user's own data: the one named; else, for pictures without a learner, ours if it is there."""
    if name is not None or learner is not None:
        return None if name == NONE else name
    kind = getattr(schema, "kind", None)
    usual: str | None = registry.find("usual encoders", kind)() if kind in registry.names("usual encoders") else None
    return usual


def checked_again(run: Path, of_run: str | None, given: str | None) -> str | None:
    """The run's encoder; one of the user's own must be named again, because a stranger's run may name anything.

    A file may lie elsewhere now: its digest tells whether it is the one.
    """
    of_run = None if of_run == NONE else of_run
    files = must_be_named(of_run) and must_be_named(given) and not is_own(of_run) and not is_own(given)
    if given is not None and given != of_run and not files:
        raise PoisonproofError(f"The run in {run} was made with the encoder '{of_run}', not '{given}'.")
    if must_be_named(of_run) and given is None:
        raise PoisonproofError(
            f"The run in {run} was made with an encoder of somebody's own; if it is yours, say so again: "
            f"--encoder {of_run}."
        )
    return given or of_run
