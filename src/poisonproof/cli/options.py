"""Options that several commands share: one name and one meaning each; what the shell may complete after them; and the
data that they open.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof import registry
from poisonproof.cli import output
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof import Spread
    from poisonproof.data.dataset import Dataset
    from poisonproof.data.options import ReadOptions

OWN = "Your own data"
ENSEMBLE, AUTO = "ensemble", "auto"
MOST_CLASSES = 65_535
ABOUT_CLASSES = (
    "The labels that may occur, `a,b,c`, or their number N if they are 0 … N - 1. Otherwise they are read off the "
    "data, which is a premise."
)
FORMS = "paper:K,D, random:K,D,SEED, dpa:K, plane:Q,BLOCKS, quartic:P,BLOCKS or difference:V,BLOCKS,R1,R2,…"
SPLITS = ("content", "pixel-sum")
SPREADS = ("paper:", "random:", "dpa:", "plane:", "quartic:", "difference:")


# What the shell may complete: the values that the command would accept, read where they are defined, by the tab key


def one_of(
    names: Sequence[str] | Callable[[], Iterable[str]], suffixes: tuple[str, ...] = (), *, several: bool = False
) -> Any:
    """What offers names that begin with what was typed, with commas between if ``several``; and files that end so."""

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",") if several else ("", "", incomplete)
        there = (name for name in (names() if callable(names) else names) if name not in before.split(","))
        offered = (before + comma + name for name in there)
        return [*(name for name in offered if name.startswith(incomplete)), *_files(incomplete, suffixes)]

    return complete


def registered(kind: str) -> Callable[[], Iterable[str]]:
    """The names of a registry, without endings of files."""
    return lambda: (name for name in registry.names(kind) if not name.startswith("."))


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    """Files with these endings, and folders, that begin with what was typed."""
    if not suffixes:
        return []
    head = incomplete[: incomplete.rfind("/") + 1]
    start = incomplete[len(head) :]
    try:
        items = sorted(Path(head).iterdir())
    except OSError:
        return []
    return [
        f"{head}{item.name}{'/' if item.is_dir() else ''}"
        for item in items
        if item.name.startswith(start)
        and item.name.isprintable()  # a shell would print the rest as it stands
        and (start or not item.name.startswith("."))
        and (item.is_dir() or item.name.lower().endswith(suffixes))
    ]


# Options


complete_data = one_of(registered("datasets"), tuple(registry.names("readers")))
complete_spreads = one_of(SPREADS, (".npz",))


def data_argument(help: str) -> Any:
    """DATA, by name or a file or folder of the user's own."""
    return typer.Argument(metavar="DATA", autocompletion=complete_data, help=help)


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
        autocompletion=one_of(registered("learners")),
        help="`auto` (for tables and texts: each base classifier chooses in its own subset), `table`, `boosting`, "
        "`forest`, `text`, `bayes`, `ridge`; for grey images `glyphs`; or your own, `MODULE:OBJECT`, imported "
        "from this folder: a scikit-learn classifier, or what makes one.",
    ),
]
AttackSizes = Annotated[
    str | None,
    typer.Option("--attack-size", help="Attack sizes (poisons), with commas between: `1,2,5`."),
]
Classes = Annotated[str | None, typer.Option("--classes", help=ABOUT_CLASSES)]
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
        autocompletion=complete_spreads,
        help="FILE (of a spread, or what `split` wrote), `paper:K,D`, `random:K,D[,SEED]`, `dpa:K` (d = 1), or "
        "designed for the tight certificate: "
        "`plane:Q,BLOCKS`, `quartic:P,BLOCKS`, `difference:V,BLOCKS,R1,R2,…` (`Spread.suggest(K, D)` in Python).",
    ),
]
SplitName = Annotated[str, typer.Option("--split", autocompletion=one_of(SPLITS), help="`content` or `pixel-sum`.")]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        autocompletion=one_of(registered("encoders"), (".onnx", ".npz")),
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


def named_classes(text: str) -> list[str]:
    """The labels of `--classes`: `a,b,c`; a whole number N stands for 0 … N - 1."""
    if not text.strip().isdecimal():
        return [name.strip() for name in text.split(",")]
    if int(text) > MOST_CLASSES:
        raise PoisonproofError(f"--classes may be {MOST_CLASSES} at the most. Got {text}.", code="options.value")
    return [str(label) for label in range(int(text))]


def named_class(text: str, classes: Any) -> Any:
    """The class that a word of the command line names; one sentence if there is none."""
    from poisonproof.samples.labels import label_cells, places_of

    code = int(places_of(label_cells([text]), label_cells(classes.tolist()))[0])
    if code < 0:
        known = ", ".join(str(label) for label in classes.tolist()[:10]) + (", …" if len(classes) > 10 else "")
        raise PoisonproofError(
            f"--target '{text}' must name one of the {len(classes)} classes ({known}).", code="options.value"
        )
    return classes.tolist()[code]


def whole_numbers(option: str, text: str) -> list[int]:
    """The numbers of an option that takes several, or one sentence."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0:
        raise PoisonproofError(
            f"{option} must be whole numbers ≥ 0 with commas between, like 1,2,5. Got '{text}'.", code="options.value"
        )
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
            raise PoisonproofError(f"'{text}' is not a spread: give {FORMS} with whole numbers.", code="spread.unknown")
        return make(*numbers)
    if not Path(text).exists():
        raise PoisonproofError(f"'{text}' is neither a file nor a spread: give {FORMS}.", code="spread.unknown")
    return Spread.load(text)


# Options that become one record


running: ContextVar[typer.Context | None] = ContextVar("running", default=None)
"""The context of the command that is running."""


def typed(name: str) -> bool:
    """Whether an option of the command that is running was typed, even if it says what it says by itself."""
    context = running.get()
    source = None if context is None else context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


RECORDS = {"ReadOptions": object}  # what stands for options need not be imported to read them


def taking(
    name: str, make: Callable[..., Any], only: Sequence[str] = (), without: Sequence[str] = ()
) -> Callable[..., Callable[..., None]]:
    """A decorator: instead of the parameter of this name, a command has the options that ``make`` takes.

    The command is given the record that ``make`` makes of them; ``only`` these of its options if they are named, and
    none of those that are to be left out.
    """
    fields = [one for one in _parameters(make) if (not only or one.name in only) and one.name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for parameter in _parameters(command):
            parameters += fields if parameter.name == name else [parameter]

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            record = make(**{field.name: given.pop(field.name) for field in fields})
            command(**given, **{name: record})

        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapped

    return decorate


def _parameters(command: Callable[..., Any]) -> list[inspect.Parameter]:
    """Its parameters by name, with their types and not the texts of them."""
    signature = inspect.signature(command, eval_str=True, locals=RECORDS)
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]


# Who votes


@dataclass(frozen=True)
class VoterOptions:
    """What a command is told about who votes: base classifiers. A slice with voters of its own takes more options."""

    method: Annotated[
        str | None,
        typer.Option("--method", help="`ensemble`; `auto`: what a pilot finds best at --attack-size."),
    ] = None

    @classmethod
    def known(cls) -> type[VoterOptions]:
        """With the options of a slice, if the registry has one."""
        return registry.find("options", "voters") if "voters" in registry.names("options") else cls

    @property
    def train(self) -> bool:
        """Whether who votes is trained, and so whether options about base classifiers say how."""
        return True

    def check(self) -> None:
        """Refuse options that do not belong together, and a method that there is not."""
        if self.method not in (None, ENSEMBLE, AUTO):
            raise PoisonproofError(
                f"--method is one of {ENSEMBLE}, {AUTO}. Got '{self.method}'.", code="options.unknown"
            )

    def classifier(self, dataset: Dataset, learner: str | None, n_jobs: int, encoder: str | None) -> Any:
        """The classifier of voters that are not trained, not yet fitted."""
        raise NotImplementedError

    def following(self, method: str, parameters: dict[str, float]) -> VoterOptions:
        """As if a method and its parameters had been typed; those of base classifiers are none of these."""
        return replace(self, method=method)

    def of_rows(
        self, dataset: Dataset, encoder: str | None, rows: Sequence[str], n_jobs: int
    ) -> tuple[Any, dict[str, Any]]:
        """The map for a pilot, None for the one of this kind of data, and the classifiers of a comparison's rows."""
        return None, {}


# A user's own files


def own(name: str, help: str) -> Any:
    """An option about the user's own data."""
    return typer.Option(name, help=help, rich_help_panel=OWN)


def read_options(
    *,
    label: Annotated[str | None, own("--label", "Column of a table that holds the labels.")] = None,
    test: Annotated[Path | None, own("--test", "File or folder with the test samples.")] = None,
    held_out: Annotated[
        float | None,
        own("--held-out", "Otherwise the share of samples to test on, by a hash of their content."),
    ] = None,
    schema: Annotated[
        Path | None, own("--schema", "How to read the files: a run's schema.json, perhaps edited.")
    ] = None,
    group_column: Annotated[
        str | None, own("--group-column", "Column of contributors' ids; the radius then counts contributors.")
    ] = None,
    classes: Annotated[str | None, own("--classes", ABOUT_CLASSES)] = None,
    delimiter: Annotated[
        str | None, own("--delimiter", "What separates the cells of CSV; `,` unless you say otherwise.")
    ] = None,
    lines: Annotated[
        bool,
        own(
            "--lines",
            "CSV: every line is a row, whatever quotes it holds. For files to which others append raw lines.",
        ),
    ] = False,
    image_size: Annotated[str | None, own("--image-size", "`WIDTHxHEIGHT` to resize images to.")] = None,
    colour: Annotated[
        bool | None, own("--colour/--grey", "What images are read as; otherwise as most of them are.")
    ] = None,
    n_features: Annotated[int | None, own("--n-features", "Number of features of svmlight rows.")] = None,
    max_size: Annotated[
        float | None,
        own("--max-size", "How many GB may be read, after expansion; 4 unless you say otherwise."),
    ] = None,
) -> ReadOptions:
    """How the files are to be read, as the command line says it."""
    from poisonproof.data.options import ReadOptions

    if max_size is not None and not max_size > 0:
        raise PoisonproofError(f"--max-size must be above 0. Got {max_size}.", code="options.value")
    if held_out is not None and not 0 < held_out < 1:
        raise PoisonproofError(f"--held-out must lie between 0 and 1. Got {held_out}.", code="data.held-out")
    return ReadOptions(
        label=label,
        group_column=group_column,
        test=test,
        held_out=held_out,
        schema=schema,
        classes=None if classes is None else named_classes(classes),
        delimiter=delimiter,
        lines=lines,
        image_size=None if image_size is None else _size(image_size),
        colour=colour,
        n_features=n_features,
        most_bytes=None if max_size is None else int(max_size * 1e9),
    )


def words_of(read: ReadOptions) -> list[str]:
    """What to type to the same effect."""
    words: list[str] = []
    for name, value in read.as_dict().items():
        if name == "colour":
            words.append("--colour" if value else "--grey")
        elif name == "lines":
            words.append("--lines")
        elif name == "most_bytes":
            words += ["--max-size", f"{value / 1e9:g}"]
        else:
            text = (
                "x".join(map(str, value)) if name == "image_size" else ",".join(value) if name == "classes" else value
            )
            words += [f"--{name.replace('_', '-')}", str(text)]
    return words


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and int(width) and int(height)):
        raise PoisonproofError(
            f"'{text}' is not a size of images: give WIDTHxHEIGHT, such as 32x32.", code="options.value"
        )
    return int(width), int(height)


def check_data(name: str, read: ReadOptions) -> None:
    """Refuse a name that is no data, and columns that are not there, before anything heavy is imported."""
    from poisonproof.data.options import check

    check(name, read)


def check_run(run: Path) -> None:
    """Refuse a folder that holds no run, before anything heavy is imported."""
    if not (run / "manifest.json").exists():
        raise PoisonproofError(
            f"{run} holds no run; make one with `poisonproof run DATA --out {run}`.", code="run.missing"
        )


def open_data(name: str, data_dir: Path | None, read: ReadOptions) -> Dataset:
    """A data set by its name, or from the user's own files; what was left out of them is noted."""
    if name not in registry.names("datasets"):
        check_data(name, read)
    from poisonproof.runs import recipe

    with output.progress_bar(f"reading {Path(name).name}"):
        dataset = recipe.open_data(name, read, data_dir)
    for note in dataset.notes:
        output.note(note)
    return dataset
