"""The manifest of a run: what was asked for and, once complete, what came out; a record, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from poisonproof.errors import DamagedFileError, PoisonproofError, check_format
from poisonproof.premises import Premise, from_records, to_records
from poisonproof.system.files import read_record, reading, write_record

FORMAT = "poisonproof run 4"
FILE = "manifest.json"
STATUSES = ("running", "changing", "complete")
OPTIONAL = ("schema", "election")


@dataclass(frozen=True)
class RunSettings:
    """How a run is to be made, beyond its data and its ensemble.

    Attributes
    ----------
    votes_only : bool
        Do not keep the base classifiers.
    rankings : bool
        Keep the rankings of the base classifiers with their votes, for method "run-off".
    undefended : bool
        Also train the same learner on all data, for comparison.
    resume : bool
        Whether to go on with a run that the folder holds; otherwise such a folder is refused.
    update : bool
        The folder may hold a run on other data: what is still true of this data stays, base classifiers whose
        subset changed are trained again, and everything that saw removed data is overwritten.
    recipe : dict, optional
        How the run is made (`poisonproof.runs.recipe.Recipe`); kept in the manifest, so that it can be made again.
    max_memory : int, optional
        Bytes that the process may take with a pooled learner; too few are refused before any work is done.
    """

    votes_only: bool = False
    rankings: bool = False
    undefended: bool = True
    resume: bool = True
    update: bool = False
    recipe: dict[str, Any] | None = None
    max_memory: int | None = None


@dataclass(frozen=True)
class Identity:
    """What a run is a run of; a folder that holds another is refused. ``dataset`` holds its name and its digests.

    ``election``: where training samples vote, how, and by which map (`poisonproof.runs.election`); then there is no k,
    no d and no spread.
    """

    dataset: dict[str, str]
    split: dict[str, Any]
    learner: str
    classes: list[Any]
    votes_only: bool
    k: float | None = None
    d: int | None = None
    spread_digest: str | None = None
    rankings: bool | None = None
    pooled: bool | None = None
    schema: dict[str, Any] | None = None
    election: dict[str, Any] | None = None

    @property
    def method(self) -> str:
        """Who votes: the name of an election in the registry."""
        return "ensemble" if self.election is None else str(self.election["method"])

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.dataset["name"]

    @property
    def digests(self) -> dict[str, str]:
        """Of the data."""
        return {name: value for name, value in self.dataset.items() if name != "name"}

    @property
    def n_subsets(self) -> int:
        """k·d, a whole number even where k is none; 0 where there are no base classifiers."""
        return 0 if self.k is None or self.d is None else round(self.k * self.d)

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in record.items() if name not in OPTIONAL or value is not None}

    def differing(self, other: Identity) -> list[str]:
        """In what two differ."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


@dataclass(frozen=True)
class Manifest:
    """What ``manifest.json`` says; None where it says nothing yet."""

    status: str
    settings: Identity
    environment: dict[str, Any]
    recipe: dict[str, Any] | None = None
    environments: list[dict[str, Any]] | None = None
    made_in: list[Any] | None = None
    changes: tuple[dict[str, Any], ...] = ()
    changing: dict[str, Any] | None = None
    premises: tuple[Premise, ...] | None = None
    notes: tuple[str, ...] | None = None
    threat_model: dict[str, Any] | None = None
    unit: str | None = None
    method: str | None = None
    n_train: int | None = None
    n_test: int | None = None
    empty_subsets: int | None = None
    clean_accuracy: float | None = None
    majority_share: float | None = None
    balanced_accuracy: float | None = None
    undefended_accuracy: float | None = None
    strong_undefended_accuracy: float | None = None
    strong_undefended: str | None = None
    no_undefended: str | None = None
    seconds: dict[str, float] | None = None
    files: dict[str, str] | None = None

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], where: Path, *, strict: bool = True) -> Manifest:
        """The manifest that `as_dict` wrote; one sentence if an entry is missing, unknown or of another type.

        If not ``strict``, unknown entries are left out; they are for `poisonproof.verify` to name.
        """
        check_format(where.parent, record.get("format"), FORMAT)
        facts = {name: value for name, value in record.items() if name not in ("format", "digest")}
        if not strict:
            known = {field.name for field in fields(cls)}
            facts = {name: value for name, value in facts.items() if name in known}
        if isinstance(facts.get("settings"), dict):
            facts["settings"] = read_dataclass(Identity, facts["settings"], f"the settings in {where}")
        if isinstance(facts.get("premises"), list):
            with reading(where):
                facts["premises"] = from_records(facts["premises"])
        manifest: Manifest = read_dataclass(cls, facts, str(where))
        if manifest.status not in STATUSES:
            raise DamagedFileError(f"{where} is damaged: a run has no status {manifest.status!r}.")
        if manifest.status == "complete":
            for name in (name for name in OF_COMPLETE if getattr(manifest, name) is None):
                raise DamagedFileError(f"{where} is damaged: of a complete run it must state '{name}'.")
        return manifest

    @classmethod
    def read(cls, folder: Path, *, strict: bool = True) -> Manifest:
        """The manifest in a folder."""
        return cls.from_dict(read_record(folder / FILE), folder / FILE, strict=strict)

    @classmethod
    def of_run(cls, folder: Path, *, changing: bool = False, strict: bool = True) -> Manifest:
        """The manifest of a complete run, or also of one whose data are being changed; one sentence otherwise."""
        if not (folder / FILE).exists():
            raise PoisonproofError(
                f"{folder} holds no run; make one with `poisonproof run DATA --out {folder}`.", code="run.missing"
            )
        manifest = cls.read(folder, strict=strict)
        if manifest.status == "running" or (manifest.status == "changing" and not changing):
            raise PoisonproofError(
                f"The run in {folder} is not complete; the `poisonproof run` command that began it goes on with it.",
                code="run.incomplete",
            )
        return manifest

    def as_dict(self) -> dict[str, Any]:
        """For a file: everything of a complete run, and of others what there is to say."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record = {name: list(value) if isinstance(value, tuple) else value for name, value in record.items()}
        if self.premises is not None:
            record["premises"] = to_records(self.premises)
        complete = self.status == "complete"
        stated = {
            name: value
            for name, value in record.items()
            if (name != "changing" if complete else value not in (None, []))
        }
        return {"format": FORMAT, **stated, "settings": self.settings.as_dict()}

    def write(self, folder: Path) -> Manifest:
        """Write it, and give it back."""
        write_record(folder / FILE, self.as_dict())
        return self

    def changed(self, **facts: Any) -> Manifest:
        """The same with the change of data that it tells of done, and these facts about it among its changes."""
        if self.changing is None:
            return self
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return self.but(changes=(*self.changes, {**self.changing, **facts, "when": now}), changing=None)

    def but(self, **changes: Any) -> Manifest:
        """The same but for these entries."""
        return replace(self, **changes)


OF_COMPLETE = (
    *("environments", "made_in", "changes", "premises", "notes", "threat_model", "n_train", "n_test", "seconds"),
    "files",
)


def read_dataclass(cls: Any, facts: Mapping[str, Any], where: str) -> Any:
    """A record of plain values, whose entries are of the types that its class annotates; one sentence otherwise.

    A list becomes a tuple where the class has one.
    """
    hints, needed = get_type_hints(cls), {field.name for field in fields(cls) if field.default is MISSING}
    for name in facts:
        if name not in hints:
            raise DamagedFileError(f"{where} is damaged: it has an entry '{name}', which no run writes.")
    values: dict[str, Any] = {}
    for name, hint in hints.items():
        kinds = tuple(get_origin(kind) or kind for kind in (get_args(hint) if isinstance(hint, UnionType) else (hint,)))
        if name not in facts:
            if name in needed:
                raise DamagedFileError(f"{where} is damaged: it does not state '{name}'.")
            continue
        value = facts[name]
        if isinstance(value, list) and tuple in kinds:
            value = tuple(value)
        if not isinstance(value, (*kinds, int) if float in kinds else kinds):
            raise DamagedFileError(f"{where} is damaged: '{name}' is {type(value).__name__}, which it cannot be.")
        values[name] = value
    return cls(**values)
