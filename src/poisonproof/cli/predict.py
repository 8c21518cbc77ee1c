"""poisonproof predict: a kept run answers for new data, each answer with its radius."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import options, reading, reopening
from poisonproof.cli.certify import named_class
from poisonproof.cli.run import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof import FiniteAggregationClassifier
    from poisonproof.data import ReadOptions
    from poisonproof.data.readers.part import Part
    from poisonproof.runs.manifest import Manifest

EXAMPLES = "Example: `poisonproof predict runs/my.csv-k20-d1 new.csv --out answers.csv`"
COLUMNS = ("sample", "prediction", "radius", "runner_up", "vote_share")


@options.taking("read", reading.read_options, only=("skip_bad", "max_size"))
def command(
    run: Annotated[Path, typer.Argument(help="Directory of a complete run that kept its base classifiers.")],
    data: Annotated[Path, typer.Argument(help="New samples, of the kind that the run was trained on.")],
    out: Annotated[Path, typer.Option("--out", help="Where to write: CSV, or JSON lines if it ends in .jsonl.")],
    n_jobs: options.Jobs = -1,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Also tell how many poisons it takes until the answer could become this class."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV cells as they are, even those that a spreadsheet takes for formulas.")
    ] = False,
    learner: reopening.Learner = None,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Prediction, radius, runner-up and share of votes for every sample of a new file or folder.

    The file is read by the schema of the run; it needs no labels. `sample` is the line of a CSV file, the row of a
    Parquet file, the picture of a folder, or the index in an array. In CSV, an apostrophe stands before text that a
    spreadsheet would run as a formula (it begins with `=`, `+`, `-`, `@`, a tab or a line end and is no number).
    With `--target LABEL` there is one more column, `target_radius`: that many poisons cannot turn the answer to LABEL;
    it is empty where LABEL is the answer already.
    """
    from poisonproof import certify
    from poisonproof.system.progress import watched

    part, model = asked_again(run, data, read, n_jobs, learner)
    with progress_bar("voting") as progress, watched(progress):
        votes = model.votes(part.X)
        certificate = certify(votes)
        wanted = None if target is None else certify(votes, target=named_class(target, votes.classes))
    _write(out, part, certificate, votes, raw, wanted)
    answer, share = _usual_answer(certificate)
    if share == 1.0 and len(part) > 1:
        options.note(f"WARNING: every answer is '{answer}'; a constant answer is perfectly robust, and says nothing")
    record = {
        "out": str(out),
        "samples": len(part),
        "unit": certificate.unit,
        "most_frequent_answer": answer,
        "its_share": round(share, 4),
        "smallest_radius": int(certificate.radius.min()),
        "largest_radius": int(certificate.radius.max()),
    }
    if json:
        options.print_json({**record, "premises": [str(premise) for premise in certificate.premises]})
    else:
        options.print_table(
            f"{data.name} → {out.name}", list(record)[1:], [[str(v) for v in list(record.values())[1:]]]
        )


def _usual_answer(certificate: Any) -> tuple[Any, float]:
    """The most frequent answer, and its share of all answers."""
    import numpy as np

    counts = np.bincount(certificate.prediction, minlength=len(certificate.classes))
    return certificate.classes.tolist()[int(counts.argmax())], float(counts.max() / counts.sum())


def asked_again(
    run: Path, data: Path, read: ReadOptions, n_jobs: int, learner: str | None
) -> tuple[Part, FiniteAggregationClassifier]:
    """New samples, read by the schema of the run, and its base classifiers."""
    from poisonproof import FiniteAggregationClassifier
    from poisonproof.data.user_files import read_part
    from poisonproof.runs.plain import check_plain

    check_plain(run)
    manifest = _manifest(run)
    schema = _schema(run, manifest)
    _check_models(run, manifest)
    part = read_part(data, schema, labelled=False, options=replace(read, image_size=_same_size(schema)))
    for note in part.notes:
        options.note(note)
    if not len(part):
        raise PoisonproofError(f"{data} holds no sample that can be read.")
    trusted = _types(run, manifest, learner)
    return part, FiniteAggregationClassifier.load(run / "models", trusted=trusted).set_params(n_jobs=n_jobs)


def _types(run: Path, manifest: Manifest, learner: str | None) -> list[str]:
    """Types that the user vouches for by naming their own learner again."""
    from poisonproof.learners.brought import brought, is_brought
    from poisonproof.training.member_files import types_of

    name = reopening.checked_learner(run, (manifest.asked or {}).get("learner"), learner)
    return types_of(brought(name)) if name is not None and is_brought(name) else []


def _manifest(run: Path) -> Manifest:
    from poisonproof.runs.manifest import Manifest

    if not (run / "manifest.json").exists():
        raise PoisonproofError(f"{run} holds no run; make one with `poisonproof run DATA --out {run}`.")
    manifest = Manifest.read(run)
    if manifest.status not in ("complete", "trained"):
        raise PoisonproofError(
            f"The run in {run} is not complete; the `poisonproof run` command that began it goes on with it."
        )
    return manifest


def _schema(run: Path, manifest: Manifest) -> Any:
    from poisonproof.samples.schema import schema_from_dict

    if manifest.settings.schema is None:
        raise PoisonproofError(
            f"The run in {run} is of the data set '{manifest.settings.name}' and has no schema to read other files by; "
            "train on files of your own with `poisonproof run FILE --label COLUMN`."
        )
    return schema_from_dict(manifest.settings.schema)


def _check_models(run: Path, manifest: Manifest) -> None:
    if not (run / "models" / "model.json").exists():
        settings = manifest.settings
        raise PoisonproofError(
            f"The run in {run} kept no base classifiers (--votes-only); train them with "
            f"`poisonproof run {settings.name} --schema {run / 'schema.json'} --k {settings.k:g} "
            f"--d {settings.d} --out {run}-models`."
        )


def _same_size(schema: Any) -> tuple[int, int] | None:
    return (schema.width, schema.height) if schema.kind == "images" else None


def _rows(part: Part, certificate: Any, votes: Any, wanted: Any) -> Iterator[tuple[Any, ...]]:
    from poisonproof.certificates.certificate import UNSEEN

    names = [*certificate.classes.tolist(), UNSEEN]
    counts = votes.counts()
    for at, name in enumerate(part.names):
        p, r = int(certificate.prediction[at]), int(certificate.runner_up[at])
        share = int(counts[at, p]) / votes.spread.n_subsets
        row = (name, names[p], int(certificate.radius[at]), names[r], share)
        yield row if wanted is None else (*row, None if wanted.already[at] else int(wanted.radius[at]))


def _write(out: Path, part: Part, certificate: Any, votes: Any, raw: bool, wanted: Any) -> None:
    import csv
    import io
    from json import dumps

    from poisonproof.display.spreadsheet import as_cell
    from poisonproof.system.files import write_text

    text = io.StringIO()
    rows = _rows(part, certificate, votes, wanted)
    columns = COLUMNS if wanted is None else (*COLUMNS, "target_radius")
    if out.suffix == ".jsonl":
        text.writelines(dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    else:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows if raw else (map(as_cell, row) for row in rows))
    write_text(out, text.getvalue())
