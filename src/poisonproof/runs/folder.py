"""The folder of a run taken hold of: everything is checked before a file is written, and nobody else may write.

What is there already is kept if it is this run's; another run's folder is refused, with the difference named.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from poisonproof.data import Dataset
from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier, check_gives_scores
from poisonproof.learners.describe import describe
from poisonproof.runs.blocks import BLOCK
from poisonproof.runs.layout import (
    CONCLUSIONS,
    LOCK,
    OWN,
    SCRATCH,
    altered,
)
from poisonproof.runs.plain import check_plain
from poisonproof.runs.removal import commitment, new_receipt
from poisonproof.samples.rows import count_rows
from poisonproof.system.environment import environment
from poisonproof.system.files import PART, read_record, reading, sweep, write_record
from poisonproof.system.scratch import sweep_scratch
from poisonproof.training.pooled import is_pooled
from poisonproof.training.pooled_memory import PooledMemory, pooled_memory
from poisonproof.training.provenance import others
from poisonproof.training.work import Training

FORMAT = "poisonproof run 1"
CHANGEABLE = ("dataset", "classes")


class OpenedRun(NamedTuple):
    """A run whose folder is ours to write: what is to be trained, the manifest as it stands, and what was asked for.

    ``memory`` is None unless the learner is pooled.
    """

    training: Training
    opened: dict[str, Any]
    settings: dict[str, Any]
    memory: PooledMemory | None


@contextmanager
def opened_run(
    dataset: Dataset,
    model: FiniteAggregationClassifier,
    folder: Path,
    votes_only: bool,
    rankings: bool,
    resume: bool,
    update: bool,
    asked: dict[str, Any] | None,
    max_memory: int | None,
    say: Callable[[str], None],
) -> Iterator[OpenedRun]:
    """Prepare the training and take hold of the folder; everything is checked before a file is written."""
    training = model.prepare(dataset.x_train, dataset.y_train, dataset.groups)
    model.premises_ = tuple({premise.what: premise for premise in (*model.premises_, *dataset.premises)}.values())
    settings = {
        "dataset": {"name": dataset.name, **dataset.digests()},
        "k": model.spread_.k,
        "d": model.spread_.d,
        "spread_digest": model.spread_.digest,
        "split": model.split_.as_dict(),
        "learner": describe(training.estimator),
        "classes": model.classes_.tolist(),
        "votes_only": votes_only,
        "subsets_per_block": BLOCK,
        "rankings": rankings or None,  # runs that were begun before there were any say nothing
        "pooled": (is_pooled(training.estimator) and not votes_only) or None,  # how base classifiers are kept
    }
    if dataset.schema is not None:
        settings["schema"] = dataset.schema.as_dict()
    memory = None
    if is_pooled(training.estimator):
        # A learner for another kind of sample says so here, before a file is written.
        memory = pooled_memory(training, len(model.classes_), count_rows(dataset.x_test), rankings=rankings)
        memory.check_machine()
        if max_memory is not None:
            memory.kernel_bytes(max_memory)
    elif max_memory is not None:
        raise PoisonproofError(f"--max-memory bounds pooled learners, and {settings['learner']} is none; leave it out.")
    elif rankings:
        check_gives_scores(training.estimator)
    refuse_strangers(folder)
    with only_writer(folder):
        opened = open_folder(folder, settings, resume, update, asked, say)
        opened["asked"] = asked if asked is not None else opened.get("asked")
        yield OpenedRun(training, opened, settings, memory)


def open_folder(
    folder: Path,
    settings: dict[str, Any],
    resume: bool,
    update: bool,
    asked: dict[str, Any] | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Start a run, or check that the one in the folder is this one (or may become it); the manifest as it stands."""
    path = folder / "manifest.json"
    if path.exists():
        if not resume:
            raise PoisonproofError(
                f"{folder} already holds a run; leave out --no-resume to go on, or choose another --out."
            )
        try:
            there = read_record(path)
        except DamagedFileError as error:
            raise DamagedFileError(
                f"{error} Put back a copy, or remove it and run the same command again: whole blocks are kept."
            ) from None
        check_format(folder, there.get("format"), FORMAT)
        with reading(path):
            held, moved = dict(there["settings"]), others(there)
        differing = [name for name, value in settings.items() if held.get(name) != value]
        strange = [name for name in differing if not (update and name in CHANGEABLE)]
        if strange:
            name = strange[0]
            raise PoisonproofError(
                f"{folder} holds another run: its {name} differs ({_short(held.get(name))} there, "
                f"{_short(settings[name])} asked for); choose another --out or remove the folder."
            )
        if moved:
            say(
                f"this run was begun with another {', '.join(moved)}; base classifiers made here may differ in the "
                "last bit, and the manifest will say which were made where"
            )
        if differing:
            there = _begin_change(folder, there, settings, asked, say)
        else:
            say(f"going on with the run in {folder}")
            if there["status"] == "changing":
                _forget_conclusions(folder)  # who was killed may have left some
            for name in altered(folder, there):
                say(f"{folder / name} is altered or missing. It is written again.")
        opened = there
    elif update:
        raise PoisonproofError(f"{folder} holds no run to update; begin one with poisonproof run.")
    else:
        opened = {"format": FORMAT, "status": "running", "settings": settings, "environment": environment()}
        write_record(path, opened)
    for name in ("votes",) if settings["votes_only"] else ("votes", "models"):
        (folder / name).mkdir(exist_ok=True)
    return opened


def _begin_change(
    folder: Path,
    there: dict[str, Any],
    settings: dict[str, Any],
    asked: dict[str, Any] | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Say in the manifest what the data is being changed to, and take away what was concluded from the old data.

    The data that is aimed at and how to read it are written at once, before anything else: whoever goes on after an
    interruption, by whatever command, goes on to the same data. Of the old data only a commitment is kept.
    """
    receipt = new_receipt()
    begun = {
        "commitment": commitment(receipt, there["settings"]["dataset"]),
        "n_train_before": there.get("n_train"),
    }
    before = there.get("changing", begun)
    opened = {
        "format": FORMAT,
        "status": "changing",
        "settings": settings,
        "environment": environment(),
        "changes": [_without_digests(change) for change in there.get("changes", [])],
        "asked": asked if asked is not None else there.get("asked"),
        "changing": {name: before.get(name) for name in begun},
    }
    write_record(folder / "manifest.json", opened)
    if before is begun:
        say(f"receipt of this change: {receipt}; it opens the manifest's commitment to the data before and is not kept")
    _forget_conclusions(folder)
    return opened


def _forget_conclusions(folder: Path) -> None:
    for name in CONCLUSIONS:
        (folder / name).unlink(missing_ok=True)


def _without_digests(change: dict[str, Any]) -> dict[str, Any]:
    """Runs of the first kind named the digests of the data before a change."""
    return {name: value for name, value in change.items() if name != "before"}


def log_stale(folder: Path, opened: dict[str, Any], count: int) -> None:
    """Note how many base classifiers a change of data touches, unless it was noted before an interruption."""
    if "changing" in opened and "retrained" not in opened["changing"]:
        opened["changing"]["retrained"] = count
        write_record(folder / "manifest.json", opened)


def refuse_strangers(folder: Path) -> None:
    """Leave a folder that holds something else as it is."""
    if folder.is_dir() and not (folder / "manifest.json").exists():
        strangers = [item.name for item in folder.iterdir() if item.name not in OWN and not item.name.endswith(PART)]
        if strangers:
            raise PoisonproofError(f"{folder} is not empty and holds no run ({strangers[0]}); choose another --out.")


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a second process that wants to write there is told so.

    A folder with links in it is refused before anything is opened. What killed processes left is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_plain(folder)
    try:
        held = FileLock(folder / LOCK).acquire(timeout=0)
    except Timeout:
        raise PoisonproofError(f"Another process is writing {folder}; wait for it or choose another --out.") from None
    with held:
        sweep(folder)
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)
        sweep_scratch()
        yield


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
