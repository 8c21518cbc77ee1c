"""How a run is made: its data and how they are read, its learner and encoder, the plan it follows, what is left out.

The recipe stands in the run's manifest, and opening a run again is building its recipe again: by its own schema, with
its own spread, split and classes, whatever would be guessed from the data now. What only a run's files name is never
imported or opened: a learner or an encoder of the user's own is named again (`UserCode`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from poisonproof import registry
from poisonproof.core.split import Split
from poisonproof.core.spread import Spread
from poisonproof.data.dataset import Dataset
from poisonproof.data.options import ReadOptions, check
from poisonproof.data.out_of_core import Source, open_large
from poisonproof.data.reading import held_out_premise, kind_of, load, open_files
from poisonproof.display import bytes_of
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.estimators.prepared import accepts_nan
from poisonproof.learners.inspection import describe
from poisonproof.learners.presets import (
    HEAD,
    ONLY_TEXTS,
    TEXT_LEARNERS,
    THERE_ARE_TEXTS,
    is_object_name,
    learner_for,
    load_learner,
    load_object,
    preset,
)
from poisonproof.premises import Premise, declared_if
from poisonproof.runs.election import election_named
from poisonproof.runs.manifest import Manifest
from poisonproof.runs.run import PARTITIONS, check_plain
from poisonproof.samples.schema import schema_from_dict
from poisonproof.system.files import opening_only

NONE = "none"
CACHE = "POISONPROOF_CACHE"
DEFAULT_BOUND = "4GB"
log = logging.getLogger(__name__)


class UserCode(NamedTuple):
    """A learner and an encoder of the user's own, named by the user; None where none is named."""

    learner: str | None = None
    encoder: str | None = None


NO_OPTIONS, NOTHING_NAMED = ReadOptions(), UserCode()


class LeftOut(NamedTuple):
    """Training rows that a run leaves out, by number (pictures by name), and the digests of what holds them."""

    rows: tuple[int | str, ...]
    digests: dict[str, str]

    def of(self, source: Dataset) -> list[int]:
        """The numbers of these rows in a data set; one sentence if it is not the one that they were named in."""
        if any(isinstance(row, str) for row in self.rows):
            names = {str(name): row for row, name in enumerate(source.train.names)}
            return [names[str(row)] for row in self.rows if row in names]
        if self.digests != source.digests(["train"]):
            raise PoisonproofError(
                f"Rows {', '.join(map(str, self.rows))} were left out of the earlier file; delete them in the file, or "
                "give --remove again (none: --remove '').",
                code="recipe.left-out",
            )
        return [int(row) for row in self.rows]


@dataclass(frozen=True)
class Recipe:
    """How a run is made.

    Attributes
    ----------
    data : str
        A file, a folder, or the name of a data set.
    read : ReadOptions
    learner, encoder : str or None
        By name; an encoder of "none" was declined.
    plan : dict or None
        What a pilot chose from the training data, and what it promised.
    attack_size : int or None
        The attack size that was asked about.
    max_memory : str or None
        Such as "4GB", where training rows lie in partitions on disk.
    left_out : LeftOut or None
    """

    data: str
    read: ReadOptions = field(default_factory=ReadOptions)
    learner: str | None = None
    encoder: str | None = None
    plan: dict[str, Any] | None = None
    attack_size: int | None = None
    max_memory: str | None = None
    left_out: LeftOut | None = None

    def as_dict(self) -> dict[str, Any]:
        """For a manifest: what there is to say."""
        record = {entry.name: getattr(self, entry.name) for entry in fields(self)} | {"read": self.read.as_dict()}
        if self.left_out is not None:
            record["left_out"] = {"rows": list(self.left_out.rows), "digests": self.left_out.digests}
        return {name: value for name, value in record.items() if value is not None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Recipe:
        """The recipe of a manifest; one sentence if it says what no run writes."""
        if record.keys() - {entry.name for entry in fields(cls)} or not isinstance(record.get("data"), str):
            raise DamagedFileError(f"A run writes no such recipe: {', '.join(sorted(record))}.")
        given = {**record, "read": ReadOptions.from_dict(record["read"])}
        if (left_out := record.get("left_out")) is not None:
            given["left_out"] = LeftOut(tuple(left_out["rows"]), dict(left_out["digests"]))
        return cls(**given)

    def table(self) -> Source | None:
        """A table of the user's own, to be read in one pass that does not hold it; None of any other data."""
        path = Path(self.data)
        if self.data in registry.names("datasets") or not path.exists() or kind_of(path, self.read) != "table":
            return None
        return Source.of(path, self.read)

    def following(self, dataset: Dataset) -> Dataset:
        """The data set with what its plan chose among the premises: who could poison the pilot could change that.

        So the parameters that it chose are not called declared, either.
        """
        if self.plan is None:
            return dataset
        chosen = election_named(self.plan["method"]).chosen(self.plan["parameters"])
        why = Premise("choice-of-method", str(self.plan["why"]), declared=False)
        return replace(dataset, premises=(*dataset.premises, *chosen, why))


# Data


def open_data(name: str, read: ReadOptions = NO_OPTIONS, data_dir: Path | None = None) -> Dataset:
    """A data set by its name, or from the user's own files."""
    known = registry.names("datasets")
    if name in known:
        if words := sorted(read.as_dict()):
            option = f"--{words[0].replace('_', '-')}"
            raise PoisonproofError(
                f"{option} is for your own files; write ./{name} for a folder of that name.", code="options.conflict"
            )
        return load(name, data_dir)
    check(name, read)
    return open_files(Path(name), read)


# Learner and encoder


def with_learner(
    dataset: Dataset, name: str | None, encoder: str | None = None, *, quiet: bool = False
) -> tuple[Dataset, Any]:
    """The learner of this name, or the one for this kind of data; which is then among the premises.

    With an encoder in front of it, it learns from embeddings.
    """
    if encoder is not None:
        return _behind_encoder(dataset, name, encoder, quiet=quiet)
    if name == HEAD:
        raise PoisonproofError(
            f"The learner '{HEAD}' learns from embeddings; say which with --encoder.", code="options.missing"
        )
    picked, why, texts = learner_for(dataset.schema)
    if name is not None and is_object_name(name):
        estimator = load_learner(name)
        premise = Premise("learner", {"learner": describe(estimator), "given_as": name}, declared=True)
        return replace(dataset, premises=(*dataset.premises, premise)), estimator
    has_texts = why == THERE_ARE_TEXTS
    if name in TEXT_LEARNERS and name != "auto" and not has_texts:
        raise PoisonproofError(
            f"The learner '{name}' takes texts, and this data has none; use another --learner.",
            code="learner.wrong-kind",
        )
    if name in ONLY_TEXTS and texts:
        raise PoisonproofError(
            f"The learner '{name}' takes texts alone, and there are other columns; use 'text'.",
            code="learner.wrong-kind",
        )
    if name is not None and name not in TEXT_LEARNERS and has_texts and not texts:
        raise PoisonproofError(
            f"The learner '{name}' cannot take texts; leave --learner {name} out.", code="learner.wrong-kind"
        )
    estimator = preset(name or picked, texts)
    if name is not None:
        return dataset, estimator
    if dataset.schema is None:
        premise = Premise("learner", describe(estimator), declared=None)
    else:
        guessed = any(premise.code == "schema" and not premise.declared for premise in dataset.premises)
        value = {"learner": describe(estimator), "because": why}
        premise = Premise("learner", value, declared=False if guessed else None)
        if not quiet:
            log.info("learner: %s, because %s; --learner chooses another", picked, why)
    return replace(dataset, premises=(*dataset.premises, premise)), estimator


def _behind_encoder(dataset: Dataset, name: str | None, encoder: str, *, quiet: bool) -> tuple[Dataset, Any]:
    if name in TEXT_LEARNERS and name != "auto":
        raise PoisonproofError(
            f"The learner '{name}' takes texts, and behind --encoder {encoder} stand embeddings; leave one out.",
            code="options.conflict",
        )
    chosen = encoder_of(encoder)
    head = preset(HEAD) if name is None else load_learner(name) if is_object_name(name) else preset(name)
    estimator = registry.in_front(chosen, head)
    premises = [*dataset.premises, replace(chosen.premises[0], declared=declared_if(not chosen.is_default))]
    if name is None:
        premises.append(Premise("learner", describe(estimator), declared=None))
        if not quiet:
            log.info("encoder: %s, %s; learner: %s; both are premises", encoder, chosen.record.trained_on, HEAD)
    elif is_object_name(name):
        premises.append(Premise("learner", {"learner": describe(estimator), "given_as": name}, declared=True))
    return replace(dataset, premises=tuple(premises)), estimator


def is_own(encoder: str | None) -> bool:
    """Whether this names an object of the user's own module."""
    return encoder is not None and ":" in encoder and not Path(encoder).exists()


def must_be_named(encoder: str | None) -> bool:
    """Whether a run's encoder is somebody's own, a function or a file: it is opened only if the user names it again."""
    return encoder not in (None, NONE) and str(encoder).partition("@")[0] not in registry.names("encoders")


def encoder_of(name: str, *, cached: bool = True) -> Any:
    """The encoder of a name, with its cache where there is a folder for one.

    What a function of the user's own calls, and the weights it has read, are not in its digest; so its embeddings are
    remembered only where it states a record of its own, which says what it is.
    """
    chosen = registry.encoder(load_object(name, "encoder") if is_own(name) else name)
    return chosen.cached(folder) if cached and chosen.lasting and (folder := cache_folder()) is not None else chosen


def cache_folder() -> Path | None:
    """Where embeddings are kept: POISONPROOF_CACHE, else the user's cache folder; None if it cannot be written."""
    folder = Path(os.environ.get(CACHE) or _user_cache() / "poisonproof") / "embeddings"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        log.warning(
            "embeddings are not kept: %s cannot be written (%s); %s names another", folder, error.strerror, CACHE
        )
        return None
    return folder if os.access(folder, os.W_OK) else None


def _user_cache() -> Path:
    """Where programs of this user keep what can be made again."""
    homes = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": "~/Library/Caches"}
    return Path(homes.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def encoder_for(schema: Any, name: str | None, learner: str | None) -> str | None:
    """The encoder for a user's own data: the one named; else, for pictures without a learner, ours if it is there."""
    if name is not None or learner is not None:
        return None if name == NONE else name
    kind = getattr(schema, "kind", None)
    usual: str | None = registry.find("usual encoders", kind)() if kind in registry.names("usual encoders") else None
    return usual


def learner_named_again(run: Path, of_run: str | None, given: str | None) -> str | None:
    """The run's learner; one of the user's own must be named again, because importing it runs its code."""
    if given is not None and given != of_run:
        raise PoisonproofError(
            f"The run in {run} was made with the learner '{of_run}', not '{given}'.", code="run.other-learner"
        )
    if is_object_name(of_run) and given is None:
        raise PoisonproofError(
            f"The run in {run} was made with a learner of somebody's own; if its module is yours, say so again: "
            f"--learner {of_run}.",
            code="run.own-learner",
        )
    return of_run


def encoder_named_again(run: Path, of_run: str | None, given: str | None) -> str | None:
    """The run's encoder; one of the user's own must be named again, because a stranger's run may name anything.

    A file may lie elsewhere now: its digest tells whether it is the one.
    """
    of_run = None if of_run == NONE else of_run
    files = must_be_named(of_run) and must_be_named(given) and not is_own(of_run) and not is_own(given)
    if given is not None and given != of_run and not files:
        raise PoisonproofError(
            f"The run in {run} was made with the encoder '{of_run}', not '{given}'.", code="run.other-encoder"
        )
    if must_be_named(of_run) and given is None:
        raise PoisonproofError(
            f"The run in {run} was made with an encoder of somebody's own; if it is yours, say so again: "
            f"--encoder {of_run}.",
            code="run.own-encoder",
        )
    return given or of_run


# A run again


class Reopened(NamedTuple):
    """A run, its recipe, its data as the recipe has them now, and the data before rows were left out."""

    manifest: Manifest
    recipe: Recipe
    dataset: Dataset
    source: Dataset
    estimator: Any
    """The learner of base classifiers; None where they are not, or it is somebody's own and was not named."""

    def check_same_data(self, run: Path) -> None:
        """Refuse data that the run was not made from."""
        if self.dataset.digests() != self.manifest.settings.digests:
            raise PoisonproofError(
                f"This is not the data that the run in {run} was made from; `poisonproof update {run} DATA` makes it "
                "so.",
                code="run.other-data",
            )

    def model(self, run: Path, user_code: UserCode = NOTHING_NAMED, n_jobs: int | None = -1) -> Any:
        """The classifier of the run, not yet fitted."""
        recipe, identity = self.recipe, self.manifest.settings
        learner_named_again(run, recipe.learner, user_code.learner)
        stated = ((identity.election or {}).get("map") or {}).get("of")
        of_run = encoder_named_again(run, recipe.encoder or stated, user_code.encoder)
        classes = None if self.dataset.classes is None else self.dataset.classes.tolist()
        election = election_named(identity.method)
        encoder = None if of_run is None or election.trains else encoder_of(of_run)
        with opening_only(encoder):
            return election.model_of(run, identity, classes, n_jobs=n_jobs, estimator=self.estimator, encoder=encoder)


def saved_recipe(run: Path, *, strict: bool = True) -> tuple[Manifest, Recipe]:
    """The manifest of a run that was complete once, and its recipe.

    Entries of the manifest that no run writes are refused, or, if not ``strict``, left out.
    """
    check_plain(run)
    manifest = Manifest.of_run(run, changing=True, strict=strict)
    if manifest.recipe is None:
        raise PoisonproofError(
            f"The run in {run} was not made by the command line and does not say how to read its data.",
            code="run.no-recipe",
        )
    return manifest, Recipe.from_dict(manifest.recipe)


def reopen(
    run: Path,
    data: str | None = None,
    data_dir: Path | None = None,
    user_code: UserCode = NOTHING_NAMED,
    *,
    test: Path | None = None,
    remove: Sequence[int | str] | None = None,
    stored: bool = False,
    strict: bool = True,
) -> Reopened:
    """A run with its data, read as for the run. Nothing that only the run's files name is imported.

    Parameters
    ----------
    run : path
    data : str, optional
        The data as they are now, if they are elsewhere or others.
    user_code : UserCode
    test : path, optional
        Where the file with the run's test samples is now.
    remove : rows, optional
        Training rows to leave out besides those that are left out already; none of them if it is empty.
    stored : bool
        Whether training rows of a run that has partitions on disk are to stay there.
    """
    manifest, recipe = saved_recipe(run, strict=strict)
    if test is not None and recipe.read.test is None:
        raise PoisonproofError(
            f"The test samples of the run in {run} come with its data; leave --test out.", code="options.conflict"
        )
    recipe, schema = replace(recipe, data=data or recipe.data), manifest.settings.schema
    read = recipe.read if schema is None else replace(recipe.read, schema=schema_from_dict(schema))
    if stored and (run / PARTITIONS).is_dir() and (table := replace(recipe, read=read).table()) is not None:
        return _with_partitions(run, manifest, recipe, table, user_code, remove)
    source = open_data(recipe.data, read if test is None else replace(read, test=test), data_dir)
    if test is not None:
        stated = {premise.code: premise for premise in (*source.premises, *held_out_premise(recipe.read))}
        source = replace(source, premises=tuple(stated.values()))
    source, estimator = _with_named_learner(run, manifest, recipe, source, user_code)
    source = recipe.following(source)
    left_out = recipe.left_out if remove is None else _more_left_out(recipe.left_out, source, remove)
    if remove is None and left_out is not None and source.digests() == manifest.settings.digests:
        left_out = None  # the file has lost these rows itself
    dataset = source if left_out is None else source.without(left_out.of(source))
    return Reopened(manifest, replace(recipe, left_out=left_out), dataset, source, estimator)


def _with_named_learner(
    run: Path, manifest: Manifest, recipe: Recipe, dataset: Dataset, user_code: UserCode
) -> tuple[Dataset, Any]:
    own_encoder = must_be_named(recipe.encoder) and user_code.encoder is None
    named = not is_object_name(recipe.learner) or user_code.learner == recipe.learner
    if not named or own_encoder or not election_named(manifest.settings.method).trains:
        return dataset, None
    encoder = encoder_named_again(run, recipe.encoder, user_code.encoder)
    return with_learner(dataset, recipe.learner, encoder, quiet=True)  # nothing is chosen any more


def _more_left_out(before: LeftOut | None, source: Dataset, rows: Sequence[int | str]) -> LeftOut | None:
    """What is left out with these rows besides; of other data, or if there are none, only these."""
    if not rows:
        return None
    names = {name for name in source.train.names if isinstance(name, str)}
    for row in rows:
        if isinstance(row, str) and row not in names:
            raise PoisonproofError(
                f"'{row[:40]}' is neither a row number nor the name of a picture of the data, nor a file with one on "
                "each line.",
                code="recipe.no-such-row",
            )
    digests = source.digests(["train"])
    by_name = any(isinstance(row, str) for row in rows)
    earlier = before.rows if before is not None and (by_name or before.digests == digests) else ()
    left_out = LeftOut(tuple(dict.fromkeys((*earlier, *rows))), digests)
    source.without(left_out.of(source))  # refuses rows that are none
    return left_out


def _with_partitions(
    run: Path,
    manifest: Manifest,
    recipe: Recipe,
    table: Source,
    user_code: UserCode,
    remove: Sequence[int | str] | None,
) -> Reopened:
    if remove:
        raise PoisonproofError(
            f"The run in {run} keeps its training rows in partitions; delete the rows from the file and say "
            f"`poisonproof update {run} DATA`.",
            code="recipe.partitions",
        )
    name = learner_named_again(run, recipe.learner, user_code.learner)
    encoder = encoder_named_again(run, recipe.encoder, user_code.encoder)
    outline, estimator = with_learner(table.outline(), name, encoder, quiet=True)
    outline = replace(recipe.following(outline), name=manifest.settings.name)
    spread, split = Spread.load(run / "spread.npz"), Split.from_dict(manifest.settings.split)
    dataset = open_partitions(recipe, table, outline, estimator, spread, split, run)
    return Reopened(manifest, recipe, dataset, dataset, estimator)


def open_partitions(
    recipe: Recipe, table: Source, outline: Dataset, estimator: Any, spread: Spread, split: Split, run: Path
) -> Dataset:
    """The data set of a table, its training samples in partitions in the folder of a run, for an ensemble."""
    return open_large(
        table,
        split,
        spread.n_partitions,
        run / PARTITIONS,
        max_memory=bytes_of(recipe.max_memory or DEFAULT_BOUND),
        answer_bytes=2 * spread.n_subsets,
        complete_only=not accepts_nan(estimator),
        outline=outline,
    )
