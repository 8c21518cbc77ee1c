"""poisonproof predict and serve: a saved run answers for new data, each answer with its radius; files, or HTTP."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof.cli import options, output
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from poisonproof.data.options import ReadOptions
    from poisonproof.data.reading import RowBlock, RowStream
    from poisonproof.runs.answers import AnswerSummary, Question, SavedRun
    from poisonproof.runs.recipe import UserCode

EXAMPLES = {
    "predict": "Example: `poisonproof predict runs/my.csv-k20-d1 new.csv --out answers.csv`; "
    "`poisonproof predict runs/my.csv-k20-d1 new.csv --attack-size 3 | less`",
    "serve": "Example: `poisonproof serve runs/digits`, then "
    "`curl -s localhost:8000/predict -H 'content-type: application/json' -d @rows.json`",
}
HOST, PORT = "127.0.0.1", 8000
SAMPLE = "sample"


@options.taking("read", options.read_options, only=("max_size",))
def predict(
    run: Annotated[Path, typer.Argument(help="Directory of a complete run that saved its base classifiers.")],
    data: Annotated[Path, typer.Argument(help="New samples, of the kind that the run was trained on.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write: CSV, or JSON lines if it ends in .jsonl; otherwise to stdout."),
    ] = None,
    n_jobs: options.Jobs = -1,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Also tell how many poisons it takes until the answer could become this class."),
    ] = None,
    attack_size: Annotated[
        int | None,
        typer.Option("--attack-size", help="Also tell whether each answer is certified against so many poisons."),
    ] = None,
    min_radius: Annotated[
        int | None, typer.Option("--min-radius", help="Give no answer (an empty cell) where the radius is smaller.")
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns/--no-columns", help="Pass the columns of the file through, after the answers.")
    ] = True,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV cells as they are, even those that a spreadsheet takes for formulas.")
    ] = False,
    votes: Annotated[
        bool,
        typer.Option(
            "--votes",
            help="Keep the votes themselves in --out, for `poisonproof certify`: NAME.npy; NAME.npz where training "
            "samples vote.",
        ),
    ] = False,
    learner: options.LearnerAgain = None,
    encoder: options.EncoderAgain = None,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Prediction, radius, runner-up and share of votes for every sample of a new file or folder.

    The file is read by the schema of the run, block by block, so that it may be larger than memory; it needs no labels.
    `sample` is the line of a CSV file, the row of a Parquet file, the picture of a folder, or the index in an array.
    A sample that cannot be read keeps its place: its answer is empty, and `reason` says why.
    After the answers come the columns of the file; one that has the name of ours is called `input_NAME`. In CSV, an
    apostrophe stands before text that a spreadsheet would run as a formula (it begins with `=`, `+`, `-`, `@`, a tab or
    a line end and is no number).

    With `--target LABEL` there is one more column, `target_radius`: that many poisons cannot turn the answer to LABEL;
    it is empty where LABEL is the answer already. With `--attack-size M`, `certified` says whether the radius is M or
    more. Without `--out` the answers go to stdout (as JSON lines with `--json`), and the summary to stderr. If the file
    has the label column, the summary says what is right, beside what a constant answer would get.
    """
    options.check_run(run)
    from poisonproof.runs.answers import AnswerSummary, Question
    from poisonproof.runs.recipe import UserCode
    from poisonproof.system.files import write_whole

    for name, number in (("--attack-size", attack_size), ("--min-radius", min_radius)):
        if number is not None and number < 0:
            raise PoisonproofError(f"{name} must be a whole number of 0 or more. Got {number}.", code="options.value")
    output.warnings_as_notes()
    opened = open_run_and_data(run, data, read, n_jobs, UserCode(learner, encoder))
    if votes:
        keep_votes(opened, data, out, json)
        return
    target_class = None if target is None else options.named_class(target, opened.saved.model.classes_)
    question = Question(target_class, attack_size, min_radius)
    summary = AnswerSummary(question, opened.saved.unit)
    as_json = out.suffix == ".jsonl" if out is not None else json
    form = _Form(opened.stream.columns if columns else (), question, as_json, raw)

    def write(file: IO[bytes]) -> None:
        with progress_bar("samples") as progress:
            waiting = b""  # nothing is written before there is an answer
            for text in form.texts(answered(opened, question, summary)):
                waiting += text.encode("utf-8", "backslashreplace")  # a file may have any name
                if len(summary):
                    file.write(waiting)
                    waiting = b""
                progress(len(summary), None)
        if not len(summary):
            raise PoisonproofError(f"{data} holds no sample that can be read.", code="data.empty")

    if out is None:
        write(typer.get_binary_stream("stdout"))
    else:
        write_whole(out, write)
    for note in opened.stream.notes:
        output.note(note)
    _summarise(summary, opened.saved, data, out, json)


class RunAndData(NamedTuple):
    """A run that was opened, and new samples for it."""

    saved: SavedRun
    stream: RowStream


def open_run_and_data(run: Path, data: Path, read: ReadOptions, n_jobs: int, user_code: UserCode) -> RunAndData:
    """New samples, read by the schema of the run, and its base classifiers."""
    from poisonproof.data.reading import RowStream
    from poisonproof.runs.answers import SavedRun
    from poisonproof.samples.schema import ImageSchema

    saved = SavedRun.open(run, types_vouched_for(run, user_code), n_jobs)
    if isinstance(saved.schema, ImageSchema):
        read = replace(read, image_size=(saved.schema.width, saved.schema.height))
    return RunAndData(saved, RowStream(data, saved.schema, read, saved.block_rows))


def keep_votes(opened: RunAndData, data: Path, out: Path | None, json: bool) -> None:
    """The votes on all samples, read and asked block by block, in a file that knows who voted and how."""
    from poisonproof.runs.election import election_named

    saved, fitted = opened.saved, opened.saved.fitted
    suffix = Path(election_named(saved.manifest.settings.method).result).suffix
    if out is None or out.suffix != suffix:
        raise PoisonproofError(
            f"Votes of this run need a file to be written to: --out NAME{suffix}.", code="options.missing"
        )
    with progress_bar("samples") as progress:
        parts: list[Any] = []
        count = 0
        for block in opened.stream:
            if len(block.part):
                parts.append(fitted.ask(block.part.X))
                count += len(block.part)
                progress(count, None)
    for note in opened.stream.notes:
        output.note(note)
    if not parts:
        raise PoisonproofError(f"{data} holds no sample that can be read.", code="data.empty")
    fitted.tallies(parts).save(out)
    if json:
        output.print_json({"out": str(out), "samples": count, "voters": fitted.n_voters})
    else:
        output.print_line(
            f"{out}: what {fitted.n_voters} voters say of {count} samples; `poisonproof certify {out}` certifies it."
        )


def types_vouched_for(run: Path, user_code: UserCode) -> list[str]:
    """Types that the user vouches for by naming their own learner, or their own encoder, again."""
    from poisonproof.learners.presets import is_object_name, load_learner
    from poisonproof.runs.manifest import FILE, Manifest
    from poisonproof.runs.recipe import encoder_named_again, encoder_of, is_own, learner_named_again
    from poisonproof.runs.run import check_plain
    from poisonproof.training.model_files import types_of

    check_plain(run)
    if not (run / FILE).exists():
        return []
    recipe = Manifest.read(run).recipe or {}
    learner = learner_named_again(run, recipe.get("learner"), user_code.learner)
    of_run = recipe.get("encoder")
    named = is_own(of_run) or user_code.encoder is not None  # of others, the saved model is opened
    encoder = encoder_named_again(run, of_run, user_code.encoder) if named else None
    types = types_of(load_learner(learner)) if learner is not None and is_object_name(learner) else []
    if encoder is not None and is_own(encoder):
        types += types_of(encoder_of(encoder, cached=False))
    return types


class _Answered(NamedTuple):
    """A sample of the file: what it is called, its answer, and its cells as the file has them."""

    name: int | str
    answer: tuple[Any, ...]
    cells: Sequence[str]


def answered(opened: RunAndData, question: Question, summary: AnswerSummary) -> Iterator[list[_Answered]]:
    """The file's samples with their answers, block by block; all are counted."""
    from poisonproof.data.dataset import Unread
    from poisonproof.data.reading import in_place

    label = _label_column(opened)
    no_cells = [""] * len(opened.stream.columns)

    def unanswered(one: Unread) -> _Answered:
        return _Answered(one.name, question.unanswered(one.reason), no_cells)

    for block in opened.stream:
        rows: list[_Answered] = []
        if len(block.part):
            answers = opened.saved.answers(block.part.X, question)
            summary.add(answers, None if label is None else label(block))
            cells = block.cells or [no_cells] * len(block.part)
            rows = list(map(_Answered, block.part.names, answers.rows(), cells))
        summary.unread += len(block.unread)
        yield list(in_place(rows, block.unread, unanswered))


def _label_column(opened: RunAndData) -> Callable[[RowBlock], Sequence[str | None]] | None:
    """How to find the labels of a block, if the file has the column that the run learned."""
    name, columns = getattr(opened.saved.schema, "label", None), opened.stream.columns
    if name is None or name not in columns:
        return None
    place, missing = columns.index(name), frozenset(opened.saved.schema.missing)  # type: ignore[union-attr]

    def labels(block: RowBlock) -> list[str | None]:
        cells = (cells[place].strip() for cells in block.cells)
        return [None if cell in missing else cell for cell in cells]

    return labels


class _Form:
    """How answers are written: CSV or JSON lines, with the columns of the file or without."""

    def __init__(self, columns: Sequence[str], question: Question, as_json: bool, raw: bool) -> None:
        ours = (SAMPLE, *question.columns)
        self.passes, self.as_json, self.raw = bool(columns), as_json, raw
        self.names = [*ours]
        for name in columns:
            while name in self.names:
                name = f"input_{name}"
            self.names.append(name)

    def texts(self, blocks: Iterator[list[_Answered]]) -> Iterator[str]:
        """The text of each block; the first begins with the header of CSV."""
        import csv
        import io
        from json import dumps

        from poisonproof.display import as_cell

        header = not self.as_json
        for rows in blocks:
            text = io.StringIO()
            lines = ((row.name, *row.answer, *(row.cells if self.passes else ())) for row in rows)
            if self.as_json:
                text.writelines(dumps(dict(zip(self.names, line, strict=True))) + "\n" for line in lines)
            else:
                writer = csv.writer(text, lineterminator="\n")
                if header:
                    writer.writerow(self.names if self.raw else map(as_cell, self.names))
                    header = False
                plain = ([_plain(value) for value in line] for line in lines)
                writer.writerows(plain if self.raw else (map(as_cell, line) for line in plain))
            yield text.getvalue()


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _summarise(summary: AnswerSummary, saved: SavedRun, data: Path, out: Path | None, json: bool) -> None:
    """What the answers come to: on stdout, or on stderr where the answers themselves are on stdout."""
    if summary.warning is not None:
        output.note(f"WARNING: {summary.warning}")
    record = summary.as_dict()
    if out is None:
        output.note(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in record.items()))
    elif json:
        output.print_json({"out": str(out), **record, "premises": saved.premises})
    else:
        rows = [[name.replace("_", " "), str(value)] for name, value in record.items()]
        output.print_table(f"{data.name} → {out.name}", ["of the answers", ""], rows, left=1)


def serve(
    run: Annotated[Path, typer.Argument(help="Directory of a complete run that kept its base classifiers.")],
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; other machines can ask only if you say so.")
    ] = HOST,
    port: Annotated[int, typer.Option("--port", min=0, help="Port to listen on; 0 lets the system choose.")] = PORT,
    max_body: Annotated[float, typer.Option("--max-body", help="Megabytes of the body of one request.")] = 4.0,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Rows of one request.")] = 4096,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for the body of a request to arrive.")] = 10.0,
    learner: options.LearnerAgain = None,
    encoder: options.EncoderAgain = None,
    json: options.Json = False,
) -> None:
    """Serve prediction, radius and runner-up over HTTP: `POST /predict` with JSON rows, CSV or images.

    Answers are those of `poisonproof predict`, to the bit. `/schema` says how rows are read,
    `/premises` what every radius takes as given, `/health` and `/metrics` are for machines. Ctrl-C or SIGTERM ends it
    when what is being answered has been answered. There is no encryption and no password: for others than this machine
    put a proxy before it that has them.
    """
    options.check_run(run)
    from poisonproof.runs.answers import SavedRun
    from poisonproof.runs.recipe import UserCode
    from poisonproof.serving import app

    for name, number in (("--max-body", max_body), ("--timeout", timeout)):
        if not number > 0:
            raise PoisonproofError(f"{name} must be above 0. Got {number}.", code="options.value")
    output.warnings_as_notes()
    settings = app.ServeSettings(host, port, int(max_body * 1e6), max_rows, timeout)
    with progress_bar("opening"):
        kept = SavedRun.open(run, types_vouched_for(run, UserCode(learner, encoder)))
    if not settings.is_loopback:
        output.note(
            f"WARNING: other machines can ask this server on {host}, without encryption and without a password; put a "
            "proxy before it that has them, or leave --host out"
        )

    def ready(address: str) -> None:
        if json:
            output.print_json({"address": address, "run": str(run), "pid": os.getpid()})
        else:
            output.print_line(f"{address} answers for {run}; {address}/schema says how rows are read.")

    app.serve(kept, settings, ready)
