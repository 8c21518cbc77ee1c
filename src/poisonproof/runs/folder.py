"""The folder of a run taken hold of: everything is checked before a file is written, and nobody else may write.

What is there already is kept if it is this run's; another run's folder is refused, with the difference named.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from poisonproof.core.spread import Spread
from poisonproof.data import Dataset
from poisonproof.data.store import StoredSamples, StoredSource
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.estimators.finite_aggregation import FiniteAggregationClassifier
from poisonproof.estimators.prepared import Prepared, prepare_dataset
from poisonproof.learners.inspection import describe
from poisonproof.runs.layout import CONCLUSIONS, LOCK, OWN, PARTITIONS, SCRATCH, altered
from poisonproof.runs.manifest import FILE, Identity, Manifest, RunSettings
from poisonproof.runs.plain import check_plain
from poisonproof.runs.removal import commitment, new_receipt
from poisonproof.runs.vote_cache import other_environments
from poisonproof.system.files import PART, reading, sole_writer
from poisonproof.system.machine import environment
from poisonproof.system.parallel import sweep_scratch
from poisonproof.training.engine import MemoryEstimate, Resources, engine_of

CHANGEABLE = ("dataset", "classes")
NOT_THE_QUESTION = ("data", "options", "choice", "left_out", "max_memory", "most_bytes")
log = logging.getLogger(__name__)


class OpenedRun(NamedTuple):
    """A run whose folder is ours to write: its ensemble, still to be trained, and the manifest as it stands.

    ``memory`` is what votes will take, and ``resources`` what may be used.
    """

    ensemble: Prepared
    manifest: Manifest
    memory: MemoryEstimate
    resources: Resources


@contextmanager
def opened_run(
    dataset: Dataset, model: FiniteAggregationClassifier, folder: Path, settings: RunSettings
) -> Iterator[OpenedRun]:
    """Prepare the training and take hold of the folder; everything is checked before a file is written."""
    ensemble = prepare_dataset(model, dataset)
    learner, engine = ensemble.learner, engine_of(ensemble.learner)
    identity = Identity(
        {"name": dataset.name, **dataset.digests()},
        ensemble.spread.k,
        ensemble.spread.d,
        ensemble.spread.digest,
        ensemble.split.as_dict(),
        describe(learner),
        ensemble.classes.tolist(),
        settings.votes_only,
        settings.rankings or None,
        (engine.pooled and not settings.votes_only) or None,  # how base classifiers are kept
        None if dataset.schema is None else dataset.schema.as_dict(),
    )
    # A learner for another kind of sample says so here, before a file is written.
    test = ensemble.split.samples(dataset.test.samples)
    memory = engine.memory(learner, ensemble.source, test, len(ensemble.classes), rankings=settings.rankings)
    memory.check_machine()
    resources = Resources(model.n_jobs)
    if settings.max_memory is not None:
        resources = memory.within(settings.max_memory, model.n_jobs)
        if isinstance(ensemble.source, StoredSource) and ensemble.spread.d > 1:  # else each partition is read once
            spare = memory.spare(settings.max_memory, resources.n_jobs, undefended=settings.undefended)
            samples = StoredSamples(ensemble.source.store, spare)
            ensemble = replace(ensemble, source=replace(ensemble.source, samples=samples))
    resources = resources._replace(scratch=folder / SCRATCH)
    refuse_strangers(folder)
    with only_writer(folder):
        manifest = open_folder(folder, identity, settings)
        if manifest.status == "changing" and not isinstance(ensemble.source, StoredSource):
            shutil.rmtree(folder / PARTITIONS, ignore_errors=True)  # which may hold rows that are being removed
        yield OpenedRun(ensemble, manifest, memory, resources)


def open_folder(folder: Path, identity: Identity, settings: RunSettings) -> Manifest:
    """Start a run, or check that the one in the folder is this one (or may become it); the manifest as it stands."""
    if (folder / FILE).exists():
        manifest = _opened_again(folder, identity, settings)
    elif settings.update:
        raise PoisonproofError(f"{folder} holds no run to update; begin one with poisonproof run.")
    else:
        manifest = Manifest("running", identity, environment(), settings.asked).write(folder)
    for name in ("votes",) if identity.votes_only else ("votes", "models"):
        (folder / name).mkdir(exist_ok=True)
    return manifest


def _opened_again(folder: Path, identity: Identity, settings: RunSettings) -> Manifest:
    if not settings.resume:
        raise PoisonproofError(
            f"{folder} already holds a run; leave out --no-resume to go on, or choose another --out."
        )
    try:
        manifest = Manifest.read(folder)
    except DamagedFileError as error:
        raise DamagedFileError(
            f"{error} Put back a copy, or remove it and run the same command again: whole blocks are kept."
        ) from None
    if not settings.update and settings.asked is not None:
        _check_same_question(folder, manifest.asked or {}, settings.asked)
    differing = identity.differing(manifest.settings)
    for name in (name for name in differing if not (settings.update and name in CHANGEABLE)):
        raise PoisonproofError(
            f"{folder} holds another run: its {name} differs ({_short(getattr(manifest.settings, name))} there, "
            f"{_short(getattr(identity, name))} asked for); choose another --out or remove the folder."
        )
    with reading(folder / FILE):
        moved = other_environments(manifest.environment, manifest.environments or [])
    if moved and identity.election is None:  # what samples say is whole numbers, the same everywhere
        log.warning(
            "this run was begun with another %s; base classifiers made here may differ in the last bit, and the "
            "manifest will say which were made where",
            ", ".join(moved),
        )
    if differing:
        return _begin_change(folder, manifest, identity, settings.asked)
    log.info("going on with the run in %s", folder)
    if manifest.status == "changing":
        _forget_conclusions(folder)  # who was killed may have left some
    for name in altered(folder, manifest):
        log.warning("%s is altered or missing. It is written again.", folder / name)
    return manifest if settings.asked is None else manifest.but(asked=settings.asked)


def _check_same_question(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse another question than the one that a run answers: its choices, premises and headline are about that one.

    The data may have moved, which their digests judge, and what may be read or taken may be more than before.
    """
    one, other = _spoken(before), _spoken(now)
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            raise PoisonproofError(
                f"{folder} holds a run that was asked for with another --{name.replace('_', '-')} "
                f"({_short(one.get(name, 'none'))} there, {_short(other.get(name, 'none'))} now); say what was said "
                "then, choose another --out or remove the folder."
            )


def _spoken(asked: dict[str, Any]) -> dict[str, Any]:
    """What a run was asked, by the names of options."""
    words = {**asked, "method": asked.get("choice", {}).get("why"), **asked.get("options", {})}
    return {name: value for name, value in words.items() if name not in NOT_THE_QUESTION and value is not None}


def _begin_change(folder: Path, manifest: Manifest, identity: Identity, asked: dict[str, Any] | None) -> Manifest:
    """Say in the manifest what the data is being changed to, and take away what was concluded from the old data.

    The data that is aimed at and how to read it are written at once, before anything else: whoever goes on after an
    interruption, by whatever command, goes on to the same data. Of the old data only a commitment is kept.
    """
    receipt = new_receipt()
    begun = {
        "commitment": commitment(receipt, manifest.settings.dataset),
        "n_train_before": manifest.n_train,
    }
    before = manifest.changing or begun
    changing = Manifest(
        "changing",
        identity,
        environment(),
        asked if asked is not None else manifest.asked,
        changes=manifest.changes,
        changing={name: before.get(name) for name in begun},
    ).write(folder)
    if before is begun:
        log.info(
            "receipt of this change: %s; it opens the manifest's commitment to the data before and is not kept", receipt
        )
    _forget_conclusions(folder)
    return changing


def _forget_conclusions(folder: Path) -> None:
    for name in CONCLUSIONS:
        (folder / name).unlink(missing_ok=True)


def noted_stale(folder: Path, manifest: Manifest, count: int) -> Manifest:
    """Note how many base classifiers a change of data touches, unless it was noted before an interruption."""
    if manifest.changing is None or "retrained" in manifest.changing:
        return manifest
    return manifest.but(changing={**manifest.changing, "retrained": count}).write(folder)


def refuse_another(folder: Path, spread: Spread) -> None:
    """Leave the folder of a run with another spread as it is, before anything is read for it."""
    if (folder / FILE).exists() and (earlier := Manifest.read(folder).settings).spread_digest != spread.digest:
        raise PoisonproofError(
            f"{folder} holds another run: its spread differs (k = {earlier.k:g}, d = {earlier.d} there, "
            f"k = {spread.k:g}, d = {spread.d} asked for); choose another --out or remove the folder."
        )


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
    with sole_writer(folder, LOCK):
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)
        sweep_scratch()
        yield


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
