"""Options about who votes, which commands find in the registry, and the classifier that they make."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.ballots.classifiers import SampleVoteClassifier
    from poisonproof.data.dataset import Dataset

PANEL = "Where training samples vote"
ENSEMBLE, BALLOTS, NEIGHBOURS = "ensemble", "ballots", "neighbours"
AUTO = "auto"
METHODS = (ENSEMBLE, BALLOTS, NEIGHBOURS, AUTO)
OF = {  # the options of each method alone; the first is the one that it needs
    BALLOTS: ("near", "class_sizes", "class_sizes_from", "one_sided", "voices"),
    NEIGHBOURS: ("n_neighbors",),
}
OF_MAPS = ("features", "unit", "units")
PICTURES = ("glyphs",)
MAPS = ("numbers", "table", "words", *PICTURES)
log = logging.getLogger(__name__)


def _starting(names: Sequence[str]) -> Callable[[str], list[str]]:
    """For completion: the names that begin with what was typed."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


@dataclass(frozen=True)
class VoterOptions:
    """What `poisonproof run` is told about who votes and how."""

    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            autocompletion=_starting(METHODS),
            help="Who votes: `ensemble`, base classifiers (k, d); `ballots`, all training samples, near +1 and far -1; "
            "`neighbours`, the nearest training samples; `auto`, what a pilot on the training data finds best at "
            "--attack-size.",
        ),
    ] = None
    near: Annotated[
        float | None,
        typer.Option(
            "--near",
            help="Ballots: the greatest distance that counts as near, in units of the map.",
            rich_help_panel=PANEL,
        ),
    ] = None
    n_neighbors: Annotated[
        int | None, typer.Option("--n-neighbors", help="Neighbours: how many vote.", rich_help_panel=PANEL)
    ] = None
    class_sizes: Annotated[
        str | None,
        typer.Option(
            "--class-sizes",
            help="Ballots: how large classes are, from outside this data: `yes=300,no=700`, or a JSON file. "
            "`rows` takes them from the data, with the one-sided radius, which is half.",
            rich_help_panel=PANEL,
        ),
    ] = None
    class_sizes_from: Annotated[
        str | None,
        typer.Option("--class-sizes-from", help="Where they come from, for the premises.", rich_help_panel=PANEL),
    ] = None
    one_sided: Annotated[
        bool,
        typer.Option("--one-sided", help="Ballots: far samples count 0; no sizes needed.", rich_help_panel=PANEL),
    ] = False
    voices: Annotated[
        int | None,
        typer.Option(
            "--voices", help="Ballots of contributors: what those of each are cut to; 1.", rich_help_panel=PANEL
        ),
    ] = None
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            autocompletion=_starting(MAPS),
            help="The map: `numbers`, `table`, `words`; of grey images `glyphs`. Otherwise the one for this kind "
            "of data.",
            rich_help_panel=PANEL,
        ),
    ] = None
    unit: Annotated[
        float | None,
        typer.Option("--unit", help="Map `numbers`: what counts as 1; 255 for bytes.", rich_help_panel=PANEL),
    ] = None
    units: Annotated[
        str | None,
        typer.Option(
            "--units",
            help="Map `table`: what counts as 1 in each column, and from where, `age=10@40,job=category`, or a JSON "
            "file. Otherwise they are read off the data, which is a premise.",
            rich_help_panel=PANEL,
        ),
    ] = None

    @property
    def train(self) -> bool:
        """Whether who votes is trained: not training samples."""
        return self.method not in (BALLOTS, NEIGHBOURS)

    def given(self, names: Iterable[str]) -> list[str]:
        """Those of these options that were given, as they are typed."""
        given = (name for name in names if getattr(self, name) is not None and getattr(self, name) is not False)
        return [f"--{name.replace('_', '-')}" for name in given]

    def check(self) -> None:
        """Refuse options of another method, and a method that there is not."""
        method = self.method
        if method is not None and method not in METHODS:
            raise PoisonproofError(f"--method is one of {', '.join(METHODS)}. Got '{method}'.", code="options.unknown")
        if self.train and (odd := self.given([*OF[BALLOTS], *OF[NEIGHBOURS], *OF_MAPS])):
            raise PoisonproofError(
                f"{odd[0]} says how training samples vote; give --method {BALLOTS} or --method {NEIGHBOURS} too.",
                code="options.other-method",
            )
        if self.train:
            return
        if odd := self.given(OF[NEIGHBOURS if method == BALLOTS else BALLOTS]):
            raise PoisonproofError(
                f"{odd[0]} is not of --method {method}; leave one of them out.", code="options.other-method"
            )
        if method == BALLOTS and self.near is None:
            raise PoisonproofError(
                "--method ballots needs --near, the greatest distance that counts as near; `poisonproof plan DATA "
                "--attack-size M` proposes one.",
                code="options.missing",
            )
        if method == NEIGHBOURS and self.n_neighbors is None:
            raise PoisonproofError(
                "--method neighbours needs --n-neighbors, how many of the nearest vote.", code="options.missing"
            )

    def classifier(
        self,
        dataset: Dataset,
        learner: str | None = None,
        n_jobs: int = -1,
        encoder: str | None = None,
    ) -> SampleVoteClassifier:
        """The classifier in which the training samples vote as the options say, not yet fitted."""
        from poisonproof import BallotClassifier, NeighborVoteClassifier, Split

        self.check()
        near, n_neighbors = self.near, self.n_neighbors
        features = self.map(dataset, learner, encoder)
        common: dict[str, Any] = {
            "split": Split("content" if dataset.train.groups is None else "group", dataset.dtype, dataset.n_features),
            "classes": None if dataset.classes is None else dataset.classes.tolist(),
            "n_jobs": n_jobs,
        }
        if n_neighbors is not None:
            return NeighborVoteClassifier(features, n_neighbors=n_neighbors, **common)
        assert near is not None
        if self.voices is not None and dataset.train.groups is None:
            raise PoisonproofError(
                "--voices are those of contributors; give --group-column too.", code="options.missing"
            )
        sizes = None if self.class_sizes is None else class_sizes(self.class_sizes, dataset)
        if self.class_sizes_from is not None and sizes is None:
            raise PoisonproofError(
                "--class-sizes-from says where declared sizes come from; give --class-sizes too.",
                code="options.missing",
            )
        if sizes is not None:
            common["classes"] = None  # they are the keys
        return BallotClassifier(
            features,
            near=near,
            class_sizes=sizes,
            class_sizes_from=self.class_sizes_from,
            one_sided=self.one_sided,
            voices=1 if self.voices is None else self.voices,
            **common,
        )

    def map(self, dataset: Dataset, learner: str | None, encoder: str | None) -> Any:
        """The map that the options name, or the one for this kind of data."""
        from poisonproof.ballots.maps import map_for

        name = self.features
        if learner is not None:
            if learner not in PICTURES or name not in (None, learner):
                raise PoisonproofError(
                    f"--learner is of base classifiers, and training samples vote; leave --learner {learner} out "
                    "(--features chooses a map).",
                    code="options.other-method",
                )
            name = learner
        units = None if self.units is None else column_units(self.units)
        from poisonproof.runs.recipe import NONE, encoder_of

        if encoder in (None, NONE):
            return map_for(dataset, name, unit=self.unit, units=units)
        if name is not None or units is not None or self.unit is not None:
            raise PoisonproofError(
                f"--encoder {encoder} is the map, too; leave --features and units out.", code="options.other-method"
            )
        return encoder_of(str(encoder))

    def following(self, method: str, parameters: dict[str, float]) -> VoterOptions:
        """As if a method and its parameters had been typed; those of base classifiers are none of these."""
        kinds: dict[str, Any] = {"near": float, "n_neighbors": int}
        given = {name: kinds[name](value) for name, value in parameters.items() if name in kinds}
        return replace(self, method=method, **given)

    def of_rows(
        self, dataset: Dataset, encoder: str | None, rows: Sequence[str], n_jobs: int
    ) -> tuple[Any, dict[str, SampleVoteClassifier]]:
        """The map for a pilot, None for the one of this kind of data, and the classifiers of a comparison's rows."""
        models = {}
        if (of_map := self.given(OF_MAPS)) and not {*OF} & {*rows}:
            raise PoisonproofError(
                f"{of_map[0]} is of the row '{BALLOTS}', which is not among --rows.", code="options.other-method"
            )
        for method, names in OF.items():
            given = self.given(names)
            if given and method not in rows:
                raise PoisonproofError(
                    f"{given[0]} is of the row '{method}', which is not among --rows.", code="options.other-method"
                )
            if getattr(self, names[0]) is not None:
                others = OF[NEIGHBOURS if method == BALLOTS else BALLOTS]
                plain: Any = {name: type(self).__dataclass_fields__[name].default for name in others}
                models[method] = replace(self, method=method, **plain).classifier(dataset, None, n_jobs, encoder)
            elif given:
                raise PoisonproofError(
                    f"{given[0]} goes with --near; a pilot of ballots tries plain ones only.",
                    code="options.other-method",
                )
        if encoder is None and not of_map:
            return None, models
        return self.map(dataset, None, encoder), models


def class_sizes(text: str, dataset: Dataset) -> dict[Any, int]:
    """The sizes of `--class-sizes`, by label."""
    from poisonproof.samples.labels import label_cell, one_by_one

    given = named_values("--class-sizes", text)
    labels = one_by_one(dataset.train.labels if dataset.classes is None else dataset.classes)
    known = {label_cell(label): label for label in labels}
    cells = {label_cell(name): name for name in given}
    if dataset.classes is not None and cells.keys() != known.keys():
        odd = next(iter([*(cells.keys() - known.keys()), *(known.keys() - cells.keys())]))
        raise PoisonproofError(
            f"--class-sizes must name the {len(known)} classes and no others; "
            + (f"'{known[odd]}' is missing." if odd in known else f"'{cells[odd]}' is none of them."),
            code="ballots.class-sizes",
        )
    sizes: dict[Any, int] = {}
    for name, size in given.items():
        try:
            sizes[known.get(label_cell(name), name)] = int(str(size))
        except ValueError:
            sentence = f"--class-sizes: the size of '{name}' must be a whole number. Got '{size}'."
            raise PoisonproofError(sentence, code="ballots.class-sizes") from None
    unseen = [name for cell, name in cells.items() if cell not in known]
    if unseen:
        log.warning("no training sample has the label '%s' that --class-sizes names", unseen[0])
    return sizes


def column_units(text: str) -> dict[str, float | str | tuple[float, float]]:
    """The units of `--units`, by column: a number, `UNIT@CENTRE`, or "category"."""
    units: dict[str, float | str | tuple[float, float]] = {}
    for name, unit in named_values("--units", text).items():
        one, at, centre = str(unit).partition("@")
        try:
            units[name] = unit if unit == "category" else (float(one), float(centre)) if at else float(one)
        except ValueError:
            raise PoisonproofError(
                f"--units: column '{name}' needs a number, or 'category'. Got '{unit}'.", code="map.units"
            ) from None
    return units


def named_values(option: str, text: str) -> dict[str, Any]:
    """`a=1,b=2`, or a file with a JSON object."""
    if Path(text).is_file():
        try:
            record = json.loads(Path(text).read_text())
        except ValueError:
            record = None
        if not isinstance(record, dict) or not record:
            raise PoisonproofError(f'{option}: {text} holds no JSON object like {{"a": 1}}.', code="options.json")
        return record
    pairs = [part.rpartition("=") for part in text.split(",")]
    if any(not name.strip() or not value.strip() for name, _, value in pairs):
        raise PoisonproofError(
            f"{option} must be NAME=VALUE with commas between, or a JSON file. Got '{text}'.", code="options.json"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}
