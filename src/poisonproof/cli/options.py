"""Options that several commands share: one name and one meaning each."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import completion
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof import Spread


def classes_option(panel: str | None = None) -> Any:
    """`--classes`, which means the same everywhere."""
    return typer.Option(
        "--classes",
        help="The labels that may occur, `a,b,c`, or their number N if they are 0 … N - 1. Otherwise they are read off "
        "the data, which is a premise.",
        rich_help_panel=panel,
    )


def data_argument(help: str) -> Any:
    """DATA, by name or a file or folder of the user's own."""
    return typer.Argument(metavar="DATA", autocompletion=completion.of_data, help=help)


Data = Annotated[
    str,
    data_argument(
        "`digits` (embedded), `mnist`, `cifar10`, `gtsrb` from files, or your own: .csv, .tsv (or .gz), .parquet, "
        ".npz, .svm, or a folder of images with a sub-folder for each class."
    ),
]
Learner = Annotated[
    str | None,
    typer.Option(
        "--learner",
        autocompletion=completion.of_learners,
        help="`auto` (for tables and texts: each base classifier chooses in its own subset), `table`, `boosting`, "
        "`forest`, `text`, `bayes`, `ridge`; for grey images `glyphs`; or your own, `MODULE:OBJECT`, imported "
        "from this folder: a scikit-learn classifier, or what makes one.",
    ),
]
AttackSizes = Annotated[
    str | None,
    typer.Option("--attack-size", help="Attack sizes (poisons), with commas between: `1,2,5`."),
]
Classes = Annotated[str | None, classes_option()]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of words and tables.")]
K = Annotated[int, typer.Option("--k", help="Inverse sensitivity: a sample reaches 1/k of the base classifiers.")]
D = Annotated[int, typer.Option("--d", help="Spread degree: how many base classifiers a sample reaches.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="POISONPROOF_DATA", help="Folder that holds the data files.")
]
Jobs = Annotated[int, typer.Option("--n-jobs", help="Workers: processes or threads; -1 means one per core.")]
SpreadName = Annotated[
    str | None,
    typer.Option(
        "--spread",
        autocompletion=completion.of_spreads,
        help="FILE (of a spread, or what `split` wrote), `paper:K,D`, `random:K,D[,SEED]`, `dpa:K` (d = 1), or "
        "designed for the tight certificate: "
        "`plane:Q,BLOCKS`, `quartic:P,BLOCKS`, `difference:V,BLOCKS,R1,R2,…` (`Spread.suggest(K, D)` in Python).",
    ),
]
SplitName = Annotated[
    str, typer.Option("--split", autocompletion=completion.of_splits, help="`content` or `pixel-sum`.")
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        autocompletion=completion.of_encoders,
        help="A fixed map in front of the learner, a premise of every radius: `efficientnet-lite0` (also 1 and 2; "
        "`@160` sets the pixels), `wordllama`, FILE.onnx with FILE.json beside it, embeddings.npz, your own "
        "`MODULE:OBJECT`, or `none`.",
    ),
]
Run = Annotated[Path, typer.Argument(help="Directory of a run.")]
RunData = Annotated[
    str | None,
    data_argument("The data, if it is not where the run found it; read with the run's options."),
]
TestFile = Annotated[Path | None, typer.Option("--test", help="File or folder with the test samples.")]
LearnerAgain = Annotated[
    str | None,
    typer.Option(
        "--learner", help="The learner of your own that the run was made with, `MODULE:OBJECT`; its module is imported."
    ),
]
EncoderAgain = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="The encoder of your own that the run was made with: `MODULE:OBJECT` (it is imported), FILE.onnx or "
        "embeddings.npz.",
    ),
]
CONTEXT = "context"
MOST_CLASSES = 65_535
FORMS = "paper:K,D, random:K,D,SEED, dpa:K, plane:Q,BLOCKS, quartic:P,BLOCKS or difference:V,BLOCKS,R1,R2,…"


_running: ContextVar[typer.Context | None] = ContextVar("running", default=None)


def typed(name: str) -> bool:
    """Whether an option of the command that is running was typed, even if it says what it says by itself."""
    context = _running.get()
    source = None if context is None else context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def taking(name: str, make: Callable[..., Any], only: Sequence[str] = ()) -> Callable[..., Callable[..., None]]:
    """A decorator: instead of the parameter of this name, a command has the options that ``make`` takes.

    The command is given the record that ``make`` makes of them; ``only`` these of its options if they are named.
    """
    fields = [_with_type(parameter, make) for at, parameter in _taken(make) if not only or at in only]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for at, parameter in _taken(command):
            parameters += fields if at == name else [_with_type(parameter, command)]
        passed_on = any(parameter.name == CONTEXT for parameter in parameters)
        if not passed_on:
            parameters.append(inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            _running.set(given[CONTEXT] if passed_on else given.pop(CONTEXT))
            record = make(**{field.name: given.pop(field.name) for field in fields})
            command(**given, **{name: record})

        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapped

    return decorate


def _taken(command: Callable[..., Any]) -> Iterable[tuple[str, inspect.Parameter]]:
    return inspect.signature(command).parameters.items()


def _with_type(parameter: inspect.Parameter, owner: Callable[..., Any]) -> inspect.Parameter:
    """The parameter with its type instead of the text of it; a record's own, which stands for options, is no type."""
    hint, kind = parameter.annotation, inspect.Parameter.KEYWORD_ONLY
    if isinstance(hint, str) and not hint.endswith("Options"):
        hint = eval(hint, vars(sys.modules[owner.__module__]))
    return parameter.replace(annotation=hint, kind=kind)


def named_classes(text: str) -> list[str]:
    """The labels of `--classes`: `a,b,c`; a whole number N stands for 0 … N - 1."""
    if not text.strip().isdecimal():
        return [name.strip() for name in text.split(",")]
    if int(text) > MOST_CLASSES:
        raise PoisonproofError(f"--classes may be {MOST_CLASSES} at the most. Got {text}.")
    return [str(label) for label in range(int(text))]


def whole_numbers(option: str, text: str) -> list[int]:
    """The numbers of an option that takes several, or one sentence."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0:
        raise PoisonproofError(f"{option} must be whole numbers ≥ 0 with commas between, like 1,2,5. Got '{text}'.")
    return numbers


def parse_spread(text: str) -> Spread:
    """A spread from a file or from its name."""
    from poisonproof import Spread

    kind, _, rest = text.partition(":")
    makers: dict[str, tuple[Callable[..., Spread], Container[int]]] = {
        "paper": (Spread.paper, (2,)),
        "random": (Spread.random, (2, 3)),
        "dpa": (lambda k: Spread.random(k, 1), (1,)),
        "plane": (Spread.planes, (2,)),
        "quartic": (Spread.quartic, (2,)),
        "difference": (
            lambda v, blocks, *residues: Spread.from_difference_set(v, residues, blocks),
            range(3, sys.maxsize),
        ),
    }
    if kind in makers and rest:
        make, counts = makers[kind]
        try:
            numbers = [int(number) for number in rest.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) not in counts:
            raise PoisonproofError(f"'{text}' is not a spread: give {FORMS} with whole numbers.")
        return make(*numbers)
    if not Path(text).exists():
        raise PoisonproofError(f"'{text}' is neither a file nor a spread: give {FORMS}.")
    return Spread.load(text)
