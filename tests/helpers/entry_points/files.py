"""Entry points for files of every format, by the reader and by the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from entry_points.arrays import Inputs, estimator, floats_of, groups_of, labels, matrix_of, said_of
from entry_points.frames import arrow_keys, arrow_table, holds_typed, plain_name, surrogate
from entry_points.rows import FILE_TABLE, SHARE, TABLE, D, K, Row, honest_rows
from poisonproof import FiniteAggregationClassifier, Split
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files


def _line(row: Row, names: tuple[str, ...], delimiter: str, maker: bool = True) -> bytes:
    if row.line is not None:
        return row.line.replace(b"DELIMITER", delimiter.encode())
    file = io.StringIO()
    cells = [*(row.cells[name] for name in names), *([row.group] if maker else []), row.label]
    csv.writer(file, delimiter=delimiter, lineterminator="").writerow(
        ["" if cell is None else said_of(cell) for cell in cells]
    )
    return file.getvalue().encode("utf-8", "surrogatepass")


def one_line(row: Row) -> bool:
    """Cells that a line can hold."""
    return b"\n" not in _line(row, FILE_TABLE, ",")


def one_record(row: Row) -> bool:
    """Whether a row ends in its own quotes, whatever else is wrong with it; a faulty one has no other lines."""
    csv.field_size_limit(1 << 30)
    line = _line(row, FILE_TABLE, ",").decode("latin-1").replace("\r", "x")
    try:
        list(csv.reader(io.StringIO(line, newline=""), strict=True))
    except csv.Error as error:
        return "unexpected end" not in str(error) and "\n" not in line
    return True


def write_csv(
    suffix: str = ".csv", names: tuple[str, ...] = FILE_TABLE, delimiter: str = ",", maker: bool = True
) -> Callable[[tuple[Row, ...], Path], Path]:
    def write(rows: tuple[Row, ...], folder: Path) -> Path:
        path = folder / f"data{suffix}"
        header = delimiter.join((*names, *(["maker"] if maker else []), "class")).encode()
        path.write_bytes(b"\n".join([header, *(_line(row, names, delimiter, maker) for row in rows)]) + b"\n")
        return path

    return write


def write_windows_csv(rows: tuple[Row, ...], folder: Path) -> Path:
    """Lines that end as on Windows, after a byte order mark."""
    path = write_csv()(rows, folder)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    return path


def write_parquet(rows: tuple[Row, ...], folder: Path) -> Path:
    import pyarrow.parquet as pq

    table = arrow_table(rows, (*TABLE, "words"))
    for name, values in (("maker", groups_of(rows)), ("class", labels(rows))):
        table = table.append_column(name, arrow_keys(values))
    pq.write_table(table, folder / "data.parquet")
    return folder / "data.parquet"


def holds_parquet(row: Row) -> bool:
    return holds_typed(row) and isinstance(row.cells["words"], str) and not surrogate(row.cells["words"])


def write_npz(dtype: str) -> Any:
    def write(rows: tuple[Row, ...], folder: Path) -> Path:
        if dtype == "uint8":
            X: Any = np.array([row.cells["pixels"] for row in rows])
        else:
            X = floats_of(rows)
            X = X.astype(np.float32).astype(np.float64) if dtype == "float32" else X
            if dtype == "float32" and all(single(row) for row in rows):
                X = X.astype(np.float32)
            if dtype == "big endian":
                X = np.asfortranarray(X.astype(">f8"))
        np.savez(folder / "data.npz", X=X, y=np.array(labels(rows)), maker=np.array(groups_of(rows)))
        return folder / "data.npz"

    return write


def single(row: Row) -> bool:
    return all(cell is None or cell != cell or abs(cell) < 1e38 for cell in matrix_of((row,))[0])


def npz_keys(row: Row) -> bool:
    return plain_name(row.label) and isinstance(row.group, str) and "\0" not in f"{row.label}{row.group}"


def write_svm(rows: tuple[Row, ...], folder: Path) -> Path:
    lines = []
    for row in rows:
        entries = " ".join(f"{index}:{value!r}" for index, value in row.cells["entries"])
        lines.append(
            row.line.replace(b"DELIMITER", b" ") if row.line is not None else f"{row.label} {entries}".encode()
        )
    (folder / "data.svm").write_bytes(b"\n".join(lines) + b"\n")
    return folder / "data.svm"


def write_folder(rows: tuple[Row, ...], folder: Path) -> Path:
    home = folder / "pictures"
    for at, row in enumerate(rows):
        name, _, target = row.cells["name"].partition("@")
        place = home / str(row.label) / (name if name[0] == "." or "odd" in name.lower() else f"{at:03}{name}")
        place = place.with_name(place.name.rstrip("|"))
        if os.path.lexists(place):
            place = place.with_name(f"{at:03}{place.name}")
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            place.mkdir()
        elif name.endswith("|"):
            os.mkfifo(place)
        elif target:
            siblings = sorted(item.name for item in place.parent.iterdir())
            linked = siblings[0] if target == "class" and siblings else target
            place.symlink_to(linked)
        else:
            place.write_bytes(row.cells["file"])
    return home


def folder_name(row: Row) -> bool:
    return (
        isinstance(row.label, int | str)
        and len(str(row.label)) < 200
        and str(row.label) not in ("", ".")
        and ("\0" not in str(row.label) and "/" not in str(row.label) and not surrogate(str(row.label)))
    )


def of_files(
    write: Any, how: dict[str, Any], learner: Any, *, grouped: bool = False, declared: str | None = None
) -> Any:
    """Files read by `open_files`; ``declared`` names the rows from which the schema was declared beforehand."""

    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        options = {**how, **({"group_column": "maker"} if grouped else {})}
        if declared is not None:
            options["schema"] = folder / "schema.json"
            options["schema"].write_text(_schema(write, tuple(sorted(how.items())), grouped, declared))
        dataset = open_files(write(rows, folder), ReadOptions(**options, held_out=SHARE, classes=["0", "1"]))
        split = Split("group" if grouped else "content", dataset.dtype, dataset.n_features)
        model = estimator(learner, split, dataset.classes.tolist())
        return _inputs(dataset, model)

    return load


@cache
def _schema(write: Any, how: tuple[tuple[str, Any], ...], grouped: bool, kind: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = write(honest_rows(kind), Path(folder))
        options = {**dict(how), **({"group_column": "maker"} if grouped else {})}
        return json.dumps(open_files(path, ReadOptions(**options)).schema.as_dict())


def of_commands(write: Any, how: dict[str, Any], *, grouped: bool = False) -> Any:
    """Files read as `poisonproof run` reads them: what stands behind the command, in this process."""

    def load(rows: tuple[Row, ...], folder: Path) -> Inputs:
        from poisonproof.ballots.options import VoterOptions
        from poisonproof.cli.run import EnsembleOptions, prepare

        options = {"held_out": SHARE, "classes": ["0", "1"], **how, **({"group_column": "maker"} if grouped else {})}
        path = str(write(rows, folder))
        made = prepare(EnsembleOptions(path, k=K, d=D, n_jobs=1), VoterOptions(), ReadOptions(**options))
        return _inputs(made.dataset, made.model)

    return load


def _inputs(dataset: Any, model: FiniteAggregationClassifier) -> Inputs:
    premise = next(premise for premise in dataset.premises if premise.code == "schema")
    tested = (dataset.test.X, dataset.test.labels)
    schema = json.dumps(replace(dataset.schema, guessed="").as_dict())  # how close a guess was is not how rows are read
    return Inputs(dataset.train.X, dataset.train.labels, dataset.train.groups, model, tested, schema, premise.declared)
