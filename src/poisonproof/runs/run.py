"""A run directory: from a data set to a certificate, resumable, every file with its digest.

``manifest.json`` says what was asked for and, once complete, what came out. Votes are written in blocks, each whole or
absent; a run that was killed goes on with the blocks that are missing and ends with the same bytes.

Everything is checked before a file is written, and nobody else may write. What is there already is kept if it is this
run's; another run's folder is refused, with the difference named. The folder holds plain files and plain folders:
nothing in it makes us read or write elsewhere. Files are written under a fresh name and renamed, so a link that stands
under their name is replaced, never followed; what is left are the folders we write into, the lock, and what we read.
The folder itself may be reached by links: its name was given by the user, not by whoever filled it.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof import registry
from poisonproof.core.certificate import attack_sizes
from poisonproof.core.certify import Certificate, certify
from poisonproof.core.metrics import Evaluation
from poisonproof.core.spread import Spread
from poisonproof.data.dataset import Dataset
from poisonproof.data.out_of_core import StoredDataset
from poisonproof.display import percent
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.runs.election import SCRATCH, Election, election_named, election_of, other_environments
from poisonproof.runs.manifest import FILE, Identity, Manifest, RunSettings
from poisonproof.runs.undefended import before
from poisonproof.samples.kinds import Samples
from poisonproof.system.files import PART, open_arrays, reading, sha256_of, sole_writer, write_text
from poisonproof.system.machine import environment
from poisonproof.system.parallel import sweep_scratch
from poisonproof.system.threads import at_most_threads
from poisonproof.training.engine import MEMBERS_PER_FILE
from poisonproof.training.model_files import members_file
from poisonproof.training.pooled import POOL, check_pooled

VOTE = "train and vote"
CERTIFICATE = "certificate.npz"
SCHEMA = "schema.json"
REPORT = "report.html"
AUDIT = ("audit.json",)
LOCK = "run.lock"
PARTITIONS = "partitions"
FOLDERS = ("votes", "models", SCRATCH, PARTITIONS)
BLOCK_FILE = re.compile(r"votes/block-\d{5,}\.npz")
CHANGEABLE = ("dataset", "classes")
NOT_THE_QUESTION = ("data", "read", "left_out", "max_memory", "most_bytes")
FIRST_SIZES = 6
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """A completed run; what only base classifiers have is None where others vote."""

    folder: Path
    certificate: Certificate
    y_test: NDArray[Any]
    seconds: dict[str, float]
    manifest: Manifest
    x_test: Any
    votes: Any
    """What the voters said."""
    test: Samples | None = None
    """The test samples in canonical form."""
    undefended_accuracy: float | None = None
    base_accuracy: float | None = None
    partition_sizes: NDArray[np.int64] | None = None

    @property
    def election(self) -> type[Election]:
        """Who voted."""
        return election_named(self.manifest.settings.method)

    @cached_property
    def figures(self) -> Evaluation:
        """What the certificate says about the test set."""
        return self.certificate.evaluate(self.y_test)

    @property
    def strong_undefended(self) -> tuple[float, str] | None:
        """Test accuracy of what a practitioner would train without a guarantee, and what that is; if it is known."""
        share, words = self.manifest.strong_undefended_accuracy, self.manifest.strong_undefended
        return None if share is None or words is None else (share, words)


def run(
    dataset: Dataset,
    model: Any,
    folder: str | Path,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
) -> Outcome:
    """Split, train, vote and certify into a folder; go on where an interrupted run stopped.

    What a person should know (a damaged block, another machine) goes to the logger "poisonproof", how much is done to
    whoever watches (`poisonproof.system.progress`).

    Parameters
    ----------
    dataset : Dataset
    model : FiniteAggregationClassifier, or another whose voters the registry knows
        Its parameters; it is not fitted.
    folder : path
        Created if absent. A folder that holds another run is refused, with the difference named.
    settings : RunSettings
    """
    folder, clock, kind = Path(folder), Clock(), election_of(model)
    with at_most_threads(model.n_jobs):
        election = kind(dataset, model, settings)
        refuse_strangers(folder)
        with only_writer(folder):
            manifest = open_folder(folder, election.identity, settings)
            if manifest.status == "changing" and not isinstance(dataset, StoredDataset):
                shutil.rmtree(folder / PARTITIONS, ignore_errors=True)  # which may hold rows that are being removed
            earlier = (manifest.seconds or {}).get(VOTE, 0.0)
            clock.stop("prepare")

            def stale(count: int) -> None:
                nonlocal manifest
                manifest = noted_stale(folder, manifest, count)

            tallies = election.vote(folder, stale)
            clock.stop(VOTE, 0.0 if manifest.changing else earlier)
            threats = kind.threats(election.split)
            certificate = certify(tallies)
            certificate = replace(certificate, origin=origin_of(manifest.settings, threats))
            clock.stop("certify")
            undefended = before(manifest, settings)
            if undefended is None:
                words = first_figures(certificate, dataset.test.labels)
                log.info("%s; undefended models are trained to compare with", words)
                undefended = election.undefended()
            clock.stop("undefended")
            tallies.save(folder / kind.result)
            certificate.save(folder / "certificate.npz")
            if dataset.schema is not None:
                schema = json.dumps(dataset.schema.as_dict(), indent=1, ensure_ascii=False)
                write_text(folder / SCHEMA, schema + "\n")
            election.save(folder)
            figures = certificate.evaluate(dataset.test.labels)
            finished = manifest.changed(n_train=election.n_train, of=manifest.settings.n_subsets).but(
                status="complete",
                environment=environment(),
                **election.facts(folder),
                premises=certificate.premises,
                notes=dataset.notes,
                threat_model=threats,
                unit=certificate.unit,
                method=certificate.method,
                n_train=election.n_train,
                n_test=len(certificate),
                clean_accuracy=figures.clean_accuracy,
                majority_share=figures.majority_share,
                balanced_accuracy=figures.balanced_accuracy,
                **asdict(undefended),
                seconds=clock.seconds,
                files={
                    name: election.written.get(name) or sha256_of(folder / name)
                    for name in results_of(folder, manifest.settings)
                },
            )
            return Outcome(
                folder,
                certificate,
                dataset.test.labels,
                clock.seconds,
                finished.write(folder),
                dataset.test.X,
                tallies,
                election.test,
                undefended.undefended_accuracy,
                **election.beside(tallies),
            )


def first_figures(certificate: Certificate, y_test: NDArray[Any]) -> str:
    """What is known once votes are certified, for people who wait while the undefended models are trained."""
    if not len(certificate):
        return "there are no test samples"
    sizes = attack_sizes(certificate)
    sizes = sizes[:: -(-len(sizes) // FIRST_SIZES)]
    figures = certificate.evaluate(y_test)
    shares = zip(sizes, figures.certified_fraction(sizes), figures.certified_fraction_balanced(sizes), strict=True)
    listed = ", ".join(f"{percent(share)} ({percent(balanced)}) at {size}" for size, share, balanced in shares)
    return (
        f"certified fraction, % (pointwise; balanced in brackets): {listed}; always answering the most frequent label: "
        f"{percent(figures.majority_share)}"
    )


class Clock:
    """What each stage took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = time.perf_counter()

    def stop(self, stage: str, earlier: float = 0.0) -> None:
        """A stage ended, and took so long before an interruption."""
        now = time.perf_counter()
        self.seconds[stage] = round(now - self.started + earlier, 3)
        self.started = now


def origin_of(identity: Identity, threats: dict[str, int | str]) -> dict[str, Any]:
    """What a certificate says about where it comes from when it leaves the folder."""
    return {
        "dataset": identity.dataset,
        "learner": identity.learner,
        "threat_model": threats,
        "environment": environment(),
    }


# The folder


def _elections() -> list[type[Election]]:
    return [kind for _, kind in registry.every("elections")]


def own_files() -> tuple[str, ...]:
    """The names at the top of a run's folder."""
    theirs = (name for kind in _elections() for name in kind.kept if "/" not in name)
    return (FILE, REPORT, LOCK, *FOLDERS, SCHEMA, *AUDIT, CERTIFICATE, "spread.npz", *dict.fromkeys(theirs))


def conclusions() -> tuple[str, ...]:
    """The files that say something about the training data, besides the votes; the spread does not."""
    return (*dict.fromkeys(name for kind in _elections() for name in kind.kept), CERTIFICATE, *AUDIT, REPORT)


def open_folder(folder: Path, identity: Identity, settings: RunSettings) -> Manifest:
    """Start a run, or check that the one in the folder is this one (or may become it); the manifest as it stands."""
    if (folder / FILE).exists():
        manifest = _opened_again(folder, identity, settings)
    elif settings.update:
        raise PoisonproofError(f"{folder} holds no run to update; begin one with poisonproof run.", code="run.missing")
    else:
        manifest = Manifest("running", identity, environment(), settings.recipe).write(folder)
    for name in ("votes",) if identity.votes_only else ("votes", "models"):
        (folder / name).mkdir(exist_ok=True)
    return manifest


def _opened_again(folder: Path, identity: Identity, settings: RunSettings) -> Manifest:
    if not settings.resume:
        raise PoisonproofError(
            f"{folder} already holds a run; leave out --no-resume to go on, or choose another --out.", code="run.taken"
        )
    try:
        manifest = Manifest.read(folder)
    except DamagedFileError as error:
        raise DamagedFileError(
            f"{error} Put back a copy, or remove it and run the same command again: whole blocks are kept."
        ) from None
    if not settings.update and settings.recipe is not None:
        _check_same_question(folder, manifest.recipe or {}, settings.recipe)
    differing = identity.differing(manifest.settings)
    for name in (name for name in differing if not (settings.update and name in CHANGEABLE)):
        raise PoisonproofError(
            f"{folder} holds another run: its {name} differs ({_short(getattr(manifest.settings, name))} there, "
            f"{_short(getattr(identity, name))} asked for); choose another --out or remove the folder.",
            code="run.other",
        )
    with reading(folder / FILE):
        moved = other_environments(manifest.environment, manifest.environments or [])
    if moved and election_named(identity.method).trains:  # whole numbers are the same everywhere
        log.warning(
            "this run was begun with another %s; base classifiers made here may differ in the last bit, and the "
            "manifest will say which were made where",
            ", ".join(moved),
        )
    if differing:
        return _begin_change(folder, manifest, identity, settings.recipe)
    log.info("going on with the run in %s", folder)
    if manifest.status == "changing":
        _forget_conclusions(folder)  # who was killed may have left some
    for name in altered(folder, manifest):
        log.warning("%s is altered or missing. It is written again.", folder / name)
    return manifest if settings.recipe is None else manifest.but(recipe=settings.recipe)


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
                "then, choose another --out or remove the folder.",
                code="run.other",
            )


def _spoken(recipe: dict[str, Any]) -> dict[str, Any]:
    """The question of a recipe, by the names of options."""
    words = {**recipe, **recipe.get("read", {})}
    return {name: value for name, value in words.items() if name not in NOT_THE_QUESTION and value is not None}


def _begin_change(folder: Path, manifest: Manifest, identity: Identity, recipe: dict[str, Any] | None) -> Manifest:
    """Say in the manifest what the data is being changed to, and take away what was concluded from the old data.

    The data that is aimed at and how to read it are written at once, before anything else: whoever goes on after an
    interruption, by whatever command, goes on to the same data.
    """
    before = manifest.changing or {"n_train_before": manifest.n_train}
    changing = Manifest(
        "changing",
        identity,
        environment(),
        manifest.recipe if recipe is None else recipe,
        changes=manifest.changes,
        changing={"n_train_before": before.get("n_train_before")},
    ).write(folder)
    _forget_conclusions(folder)
    return changing


def _forget_conclusions(folder: Path) -> None:
    for name in conclusions():
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
            f"k = {spread.k:g}, d = {spread.d} asked for); choose another --out or remove the folder.",
            code="run.other",
        )


def refuse_strangers(folder: Path) -> None:
    """Leave a folder that holds something else as it is."""
    if folder.is_dir() and not (folder / "manifest.json").exists():
        own = own_files()
        strangers = [item.name for item in folder.iterdir() if item.name not in own and not item.name.endswith(PART)]
        if strangers:
            raise PoisonproofError(
                f"{folder} is not empty and holds no run ({strangers[0]}); choose another --out.", code="run.taken"
            )


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


# Whether it is as it was written


def damage(folder: str | Path) -> list[str]:
    """What is wrong with the files of a run, one sentence each; nothing for a run of which every bit is as written.

    Of a run that is not complete only the blocks can be judged.
    """
    folder = Path(folder)
    try:
        manifest = Manifest.read(folder)
        sentences = [f"{folder / name} is altered or missing." for name in altered(folder, manifest, members=True)]
    except PoisonproofError as error:
        return [str(error)]
    for path in sorted((folder / "votes").glob("*.npz")):
        try:
            facts = open_arrays(path, ("votes",))[1]
            with reading(path):
                if (stated := facts.get("members")) is not None:
                    models = folder / "models"
                    members = models / members_file(models, facts["first_subset"] // MEMBERS_PER_FILE)
                    if not members.exists() or sha256_of(members) != stated:
                        raise DamagedFileError(f"{members} is damaged or missing.")
        except DamagedFileError as error:
            sentences.append(str(error))
    if (folder / "models" / POOL).exists():
        try:
            check_pooled(folder / "models")
        except DamagedFileError as error:
            sentences.append(str(error))
    return list(dict.fromkeys(sentences))


def results_of(folder: Path, identity: Identity) -> list[str]:
    """The files of a complete run that its manifest states digests of."""
    blocks = sorted(f"votes/{path.name}" for path in (folder / "votes").glob("*.npz"))
    schema = [] if identity.schema is None else [SCHEMA]
    return [*election_named(identity.method).files(folder, identity), CERTIFICATE, *schema, *blocks]


def altered(folder: Path, manifest: Manifest, *, members: bool = False) -> list[str]:
    """Files of a complete run that are not as the manifest states.

    Blocks of votes and base classifiers speak for themselves when a run goes on; ``members`` judges them too.
    """
    stated, identity = manifest.files, manifest.settings
    if stated is None:
        return []
    by_members = not (identity.votes_only or identity.pooled)
    if by_members and identity.n_subsets > MEMBERS_PER_FILE * len(stated):
        raise DamagedFileError(f"{folder / FILE} is damaged: it lists fewer files than it has blocks.")
    expected = results_of(folder, identity)
    optional = (name for name in stated if BLOCK_FILE.fullmatch(name))
    names = [*expected, *(name for name in optional if name not in expected)]
    if members and REPORT in stated and (folder / REPORT).exists():  # people take it away before they share a run
        names.append(REPORT)
    judged = [name for name in names if members or not ("members-" in name or BLOCK_FILE.fullmatch(name))]
    return [name for name in judged if not (folder / name).exists() or sha256_of(folder / name) != stated.get(name)]


# Links


def check_plain(folder: Path) -> None:
    """Refuse the folder of a run in which a name of ours is a link, a pipe, a device, or a file for a folder."""
    if not folder.is_dir():
        return
    own = own_files()
    for path in sorted(folder.iterdir()):
        if path.name in own or path.name.endswith(PART):
            _check(path, is_folder=path.name in FOLDERS)
            if path.name in FOLDERS and path.name != SCRATCH:  # that one is removed, and links in it are not followed
                for inner in sorted(path.iterdir()):
                    _check(inner, is_folder=False)


def _check(path: Path, is_folder: bool) -> None:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(path, "a link")
    if is_folder != stat.S_ISDIR(status.st_mode) or not (is_folder or stat.S_ISREG(status.st_mode)):
        raise _refusal(path, "no plain folder" if is_folder else "no plain file")
    if path.name == LOCK and status.st_nlink > 1:
        raise _refusal(path, "another file's second name (a hard link)")


def _refusal(path: Path, what: str) -> PoisonproofError:
    return PoisonproofError(
        f"{path} is {what}, and nothing of a run may be: writing there could change what lies elsewhere. "
        "Remove it if you know where it comes from, or choose another folder.",
        code="file.link",
    )
