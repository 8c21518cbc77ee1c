"""A run directory: from a data set to a certificate, resumable, every file with its digest.

``manifest.json`` says what was asked for and, once complete, what came out. Votes are written in
blocks of subsets, each whole or absent; a run that was killed goes on with the blocks that are
missing and ends with the same bytes.
"""

from __future__ import annotations

import fcntl
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bezoar import __version__
from bezoar.certificates import Certificate, certify
from bezoar.data import Dataset
from bezoar.estimator import FiniteAggregationClassifier, Training
from bezoar.files import (
    PART,
    DamagedFileError,
    read_record,
    reading,
    sha256_of,
    sweep,
    write_arrays,
    write_record,
    write_whole,
)
from bezoar.learners.describe import describe
from bezoar.learners.member import isolated, seeded
from bezoar.learners.pooled import fit_pooled, is_pooled
from bezoar.rundir import BLOCK, OWN, SCRATCH, altered, block_file, kept_block, key_of, results_of, whole_block
from bezoar.samples import Samples
from bezoar.split import Split
from bezoar.store import members_file, save_members, save_model_record
from bezoar.threads import one_linear_algebra_thread
from bezoar.train import Refusals, check_answered, train_and_vote
from bezoar.votes import vote_dtype

FORMAT = "bezoar run 1"
NOT_COVERED = (
    "change a test sample",
    "poison a pre-processing step or feature extractor that was fitted elsewhere",
    "control the training machine",
)
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "xxhash", "skops")


@dataclass(frozen=True)
class Outcome:
    """A completed run."""

    folder: Path
    certificate: Certificate
    y_test: NDArray[Any]
    undefended_accuracy: float | None
    base_accuracy: float
    seconds: dict[str, float]
    manifest: dict[str, Any]


def run(
    dataset: Dataset,
    model: FiniteAggregationClassifier,
    folder: str | Path,
    *,
    votes_only: bool = False,
    resume: bool = True,
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Split, train, vote and certify into a folder; go on where an interrupted run stopped.

    Whenever it stops (killed, disk full, worker dead), the same call goes on from the blocks that are whole and
    ends with the same bytes. A block of which a single bit was altered is named and computed again.

    Parameters
    ----------
    dataset : Dataset
    model : FiniteAggregationClassifier
        Unfitted.
    folder : path
        Created if absent. A folder that holds another run is refused, with the difference named.
    votes_only : bool
        Do not keep the base classifiers.
    resume : bool
        Whether to go on with a run that the folder holds; otherwise such a folder is refused.
    say : callable
        Told what a person should know (a damaged block, another machine).
    progress : callable
        Told how much is done, of how much.
    """
    folder = Path(folder)
    if is_pooled(model.estimator) and not votes_only:
        raise ValueError("Base classifiers of a pooled learner cannot be kept yet; ask for votes only (--votes-only).")
    started = time.perf_counter()
    training = model.prepare(dataset.x_train, dataset.y_train)
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
    }
    if is_pooled(training.estimator):
        # A learner for another kind of sample says so here, before a file is written.
        training.estimator.share(training.samples.take([0]))
    _refuse_strangers(folder)
    with _only_writer(folder):
        earlier = _open(folder, settings, resume, say)
        key = key_of(settings)
        seconds = {"prepare": time.perf_counter() - started}
        started = time.perf_counter()
        matrix = _train(training, dataset, model, folder, key, votes_only, say, progress)
        seconds["train and vote"] = time.perf_counter() - started + earlier.get("train and vote", 0.0)
        votes = model.as_votes(matrix)
        started = time.perf_counter()
        certificate = certify(votes)
        seconds["certify"] = time.perf_counter() - started
        started = time.perf_counter()
        undefended = _undefended_if_possible(training, dataset, model, say)
        seconds["undefended"] = time.perf_counter() - started
        truth = votes.indices_of(dataset.y_test)
        votes.save(folder / "votes.npy")
        certificate.save(folder / "certificate.npz")
        model.spread_.save(folder / "spread.npz")
        write_whole(folder / "split.npy", lambda file: np.save(file, training.subsets.partition))
        if not votes_only:
            save_model_record(model, folder / "models")
        return Outcome(
            folder,
            certificate,
            dataset.y_test,
            undefended,
            float((matrix == truth[:, None]).mean()),
            {name: round(value, 3) for name, value in seconds.items()},
            _finish(folder, settings, model, certificate, dataset, undefended, seconds),
        )


def undefended_accuracy(training: Training, dataset: Dataset, model: FiniteAggregationClassifier) -> float:
    """Test accuracy of the same learner trained on all data at once: what the proof is paid with."""
    rows = np.argsort(training.subsets.rank)
    form = training.samples.form_of(rows)
    test = model.split_.samples(dataset.x_test)
    with one_linear_algebra_thread(), isolated(0):
        learner = seeded(training.estimator, 0)
        learner.fit(training.samples.take(rows, form), training.codes[rows])
        said = learner.predict(test.take(np.arange(len(test)), form))
    return float((model.classes_[said] == dataset.y_test).mean())


def _undefended_if_possible(
    training: Training, dataset: Dataset, model: FiniteAggregationClassifier, say: Callable[[str], None]
) -> float | None:
    """The undefended accuracy, or None: what is only a comparison must not cost a finished run."""
    try:
        return undefended_accuracy(training, dataset, model)
    except Exception as error:
        say(f"the undefended learner could not be trained on all data ({type(error).__name__}: {error})")
        return None


def environment() -> dict[str, Any]:
    """What the bits of a float may depend on."""
    return {
        "bezoar": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        **{name: version(name) for name in LIBRARIES},
    }


def _open(folder: Path, settings: dict[str, Any], resume: bool, say: Callable[[str], None]) -> dict[str, float]:
    """Start a run, or check that the one in the folder is this one; the seconds it has taken so far."""
    seconds: dict[str, float] = {}
    path = folder / "manifest.json"
    if path.exists():
        if not resume:
            raise ValueError(f"{folder} already holds a run; leave out --no-resume to go on, or choose another --out.")
        try:
            there = read_record(path)
        except DamagedFileError as error:
            raise DamagedFileError(
                f"{error} Put back a copy, or remove it and run the same command again: whole blocks are kept."
            ) from None
        with reading(path):
            held, begun = dict(there["settings"]), dict(there["environment"])
            seconds = {name: float(value) for name, value in there.get("seconds", {}).items()}
        differing = [name for name, value in settings.items() if held.get(name) != value]
        if differing or there.get("format") != FORMAT:
            name = differing[0] if differing else "format"
            raise ValueError(
                f"{folder} holds another run: its {name} differs ({_short(held.get(name, there.get(name)))} there, "
                f"{_short(settings.get(name, FORMAT))} asked for); choose another --out or remove the folder."
            )
        here = environment()
        moved = [name for name, value in begun.items() if here.get(name) != value]
        if moved:
            say(f"this run was begun with another {', '.join(moved)}; blocks made here may differ in the last bit")
        say(f"going on with the run in {folder}")
        for name in altered(folder, there):
            say(f"{folder / name} is altered or missing. It is written again.")
    else:
        write_record(path, {"format": FORMAT, "status": "running", "settings": settings, "environment": environment()})
    for name in ("votes",) if settings["votes_only"] else ("votes", "models"):
        (folder / name).mkdir(exist_ok=True)
    sweep(folder)
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    return seconds


def _refuse_strangers(folder: Path) -> None:
    """Leave a folder that holds something else as it is."""
    if folder.is_dir() and not (folder / "manifest.json").exists():
        strangers = [item.name for item in folder.iterdir() if item.name not in OWN and not item.name.endswith(PART)]
        if strangers:
            raise ValueError(f"{folder} is not empty and holds no run ({strangers[0]}); choose another --out.")


def _train(
    training: Training,
    dataset: Dataset,
    model: FiniteAggregationClassifier,
    folder: Path,
    key: str,
    votes_only: bool,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> NDArray[Any]:
    """Train what is missing, block by block, and return the whole vote matrix."""
    n = len(training.subsets)
    test = model.split_.samples(dataset.x_test)
    if is_pooled(training.estimator):
        return _train_pooled(training, test, len(model.classes_), folder, key, say, progress)
    wanted = [range(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    kept = (kept_block(folder, key, b, (len(test), len(indices)), votes_only, say) for b, indices in enumerate(wanted))
    done = {b: block for b, block in enumerate(kept) if block}
    missing = [b for b in range(len(wanted)) if b not in done]
    count = sum(len(wanted[b]) for b in done)
    progress(count, n)
    blocks, scratch = [wanted[b] for b in missing], folder / SCRATCH
    parts = train_and_vote(*training, test, len(model.classes_), blocks, n_jobs=model.n_jobs, scratch=scratch)
    for b, (members, votes, refused) in zip(missing, parts, strict=True):
        if not votes_only:
            save_members(folder / "models" / members_file(b), members)
        facts = {
            "settings": key,
            "first_subset": wanted[b][0],
            "failures": [member.failure for member in members if member.failure],
            "trained": sum(member.model is not None for member in members),
            "refused_because": refused.reason,
            "members": None if votes_only else sha256_of(folder / "models" / members_file(b)),
        }
        arrays = {"votes": votes, "refusals": refused.per_sample}
        write_arrays(folder / "votes" / block_file(b), arrays, facts)
        done[b] = arrays, facts
        count += len(wanted[b])
        progress(count, n)
    shutil.rmtree(scratch, ignore_errors=True)
    ordered = [done[b] for b in range(len(wanted))]
    trained = sum(facts["trained"] for _, facts in ordered)
    model.report_failures([failure for _, facts in ordered for failure in facts["failures"]], trained)
    check_answered([Refusals(arrays["refusals"], facts["refused_because"]) for arrays, facts in ordered], trained)
    return np.concatenate([arrays["votes"] for arrays, _ in ordered], axis=1)


def _train_pooled(
    training: Training,
    test: Samples,
    n_classes: int,
    folder: Path,
    key: str,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> NDArray[Any]:
    """The vote matrix of a pooled learner, kept in runs of test samples: all subsets answer a run together."""
    members = fit_pooled(*training)
    parts = []
    for number, chunk in enumerate(members.chunks(len(test))):
        path = folder / "votes" / f"samples-{number:05d}.npz"
        size = (len(chunk), len(members))
        if (block := whole_block(path, key, {"first_sample": chunk[0]}, size, say)) is None:
            arrays = {"votes": members.votes_on(test, chunk, n_classes, vote_dtype(n_classes))}
            block = arrays, {"settings": key, "first_sample": chunk[0]}
            write_arrays(path, *block)
        parts.append(block[0]["votes"])
        progress(chunk[-1] + 1, len(test))
    return np.concatenate(parts)


def _finish(
    folder: Path,
    settings: dict[str, Any],
    model: FiniteAggregationClassifier,
    certificate: Certificate,
    dataset: Dataset,
    undefended: float | None,
    seconds: dict[str, float],
) -> dict[str, Any]:
    manifest = {
        "format": FORMAT,
        "status": "complete",
        "settings": settings,
        "environment": environment(),
        "premises": [str(premise) for premise in model.premises_],
        "threat_model": threat_model(model.split_),
        "unit": certificate.unit,
        "method": certificate.method,
        "n_train": int(model.partition_sizes_.sum()),
        "n_test": len(certificate),
        "empty_subsets": int((model.subset_sizes_ == 0).sum()),
        "clean_accuracy": certificate.clean_accuracy(dataset.y_test),
        "undefended_accuracy": undefended,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "files": {name: sha256_of(folder / name) for name in results_of(settings)},
    }
    write_record(folder / "manifest.json", manifest)
    return manifest


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a second process that wants to write there is told so."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"Another process is writing {folder}; wait for it or choose another --out.") from None
        yield


def threat_model(split: Split) -> dict[str, int | str]:
    """What each act of an attacker costs in units of attack size, in words."""
    if split.kind == "group":
        covered = {
            "change anything in the training samples of one contributor": 1,
            "move a training sample from one contributor to another": 2,
        }
    else:
        covered = {
            "insert a training sample": split.cost("insert_remove"),
            "remove a training sample": split.cost("insert_remove"),
            "flip the label of a training sample": split.cost("label_flip"),
            "change a training sample in any other way": split.cost("modify"),
        }
    return {**covered, **dict.fromkeys(NOT_COVERED, "not covered")}


def attack_sizes(certificate: Certificate) -> list[int]:
    """Round attack sizes up to the largest radius, for a table."""
    largest = int(certificate.radius.max(initial=0))
    steps: Sequence[int] = [m * 10**e for e in range(7) for m in (1, 2, 3, 5)] + [15, 25, 150, 250, 400]
    return [0, *sorted(step for step in steps if step <= largest)] + ([largest] if largest not in [0, *steps] else [])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
