"""Where people wait: tables, Parquet, wide frames, single predictions, overhead and updates, with what must hold.

    python benchmarks/scale.py [--only NAME …] [--rows 100000] [--before SRC]

prints the whole table in one go.

CPU seconds (user and system, children included) of one process per figure, and the ratio to what it is measured against
in the same process. ``--before`` takes the `src` folder of another version and prints its figures beside.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FEW = 20
MANY = 4096  # test samples that fill the batches base classifiers are asked in
SEED = 7
BUSY = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def cpu() -> float:
    """CPU seconds of this process and of those it waited for."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def seconds(work: Callable[[], Any], times: int = 1) -> float:
    """CPU seconds of one call: the least of several."""
    best = np.inf
    for _ in range(times):
        started = cpu()
        work()
        best = min(best, cpu() - started)
    return best


def each(work: Callable[[], Any], calls: int, times: int = 3) -> float:
    """CPU seconds of one of many calls, which are too short to be measured alone."""
    return seconds(lambda: [work() for _ in range(calls)], times) / calls


def frame(rows: int, seed: int = SEED) -> Any:
    """Twelve numbers and eight categories of 3 to 20 values, with gaps; three labels that depend on them."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, 12)).round(4)
    categories = [rng.integers(0, size, rows) for size in (3, 4, 5, 6, 8, 10, 15, 20)]
    label = np.digitize(numbers[:, 0] + numbers[:, 1] + (categories[0] - 1) + rng.normal(size=rows), [-1.0, 1.0])
    numbers[rng.random(numbers.shape) < 0.02] = np.nan
    columns: dict[str, Any] = {f"n{at}": numbers[:, at] for at in range(12)}
    for at, codes in enumerate(categories):
        names = np.array([f"value {code}" for code in range(20)], object)[codes]
        names[rng.random(rows) < 0.02] = None
        columns[f"c{at}"] = pd.Categorical(names)
    return pd.DataFrame({**columns, "label": np.array(["low", "middle", "high"], object)[label]})


def written(rows: int, kind: str) -> Path:
    """The table as a file, kept between figures."""
    path = Path(tempfile.gettempdir()) / f"poisonproof-scale-{rows}.{kind}"
    if not path.exists():
        table = frame(rows)
        part = path.with_name(f"{os.getpid()}-{path.name}")
        if kind.endswith("csv"):
            table.to_csv(part, index=False, quoting=csv.QUOTE_ALL if kind == "quoted.csv" else csv.QUOTE_MINIMAL)
        else:
            texts = {name: object for name in table.columns if name.startswith("c")}
            table.astype(texts).to_parquet(part, index=False)
        part.rename(path)
    return path


def run_csv(rows: int, *more: str) -> dict[str, float]:
    """`poisonproof run` on the CSV file, from the command to the report."""
    path = written(rows, "csv")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "poisonproof", "run", str(path), "--label", "label", "--learner", "table"]
        started = cpu()
        options = ["--k", "50", "--d", "16", "--out", f"{folder}/run", *more]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        spent = cpu() - started
        votes = Path(folder, "run", "manifest.json").read_text()
        digest = json.loads(votes)["files"]["votes.npy"]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    return {"run": spent, "GB at most": peak, "votes": int(digest[:8], 16)}


def run_bounded(rows: int) -> dict[str, float]:
    """The same within a bound, from partitions on disk, and without one; no models without a defence on either side."""
    alone = ("--no-undefended", "--n-jobs", "1")
    bounded = run_csv(rows, *alone, "--max-memory", "2GB")
    plain = run_csv(rows, *alone)
    if bounded["votes"] != plain["votes"]:
        raise SystemExit("The votes differ.")
    ratio = bounded["run"] / plain["run"]
    return {"run": bounded["run"], "GB at most": bounded["GB at most"], "without a bound": plain["run"], "ratio": ratio}


def open_file(rows: int, kind: str) -> dict[str, float]:
    """A file opened as a data set, against pandas reading it."""
    import pandas as pd

    from poisonproof.data.options import ReadOptions
    from poisonproof.data.reading import open_files

    path = written(rows, kind)
    read = pd.read_csv if kind.endswith("csv") else pd.read_parquet
    read(path)
    open_files(written(1000, kind), ReadOptions(label="label"))  # compile
    theirs = seconds(lambda: read(path), 3)
    ours = seconds(lambda: open_files(path, ReadOptions(label="label")), 2)
    return {"open": ours, "pandas": theirs, "ratio": ours / theirs}


def wide_frame(rows: int) -> dict[str, float]:
    """A frame of 2,000 columns, 200 of them categorical, prepared: split, spread and digested."""
    import pandas as pd

    from poisonproof import FiniteAggregationClassifier
    from poisonproof.estimators.prepared import prepare

    rng = np.random.default_rng(SEED)
    n = rows // 10
    columns: dict[str, Any] = {f"n{at}": rng.normal(size=n) for at in range(1800)}
    for at in range(200):
        columns[f"c{at}"] = pd.Categorical(np.array([f"v{i}" for i in range(12)], object)[rng.integers(0, 12, n)])
    X, y = pd.DataFrame(columns), rng.integers(0, 2, n)
    model = FiniteAggregationClassifier(k=50, d=16, classes=[0, 1])
    prepare(model, X[:100], y[:100])
    return {"prepare": seconds(lambda: prepare(model, X, y))}


def predictions(rows: int) -> dict[str, float]:
    """800 base classifiers of the `table` learner on digits: load, and predict 1, 100 and 10,000 samples."""
    from poisonproof import FiniteAggregationClassifier, load

    digits = load("digits")
    model = FiniteAggregationClassifier(classes=range(10)).fit(digits.train.X, digits.train.labels)
    many = np.concatenate([digits.test.X] * (10_000 // len(digits.test) + 1))[:10_000]
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        FiniteAggregationClassifier.load(folder)
        load = each(lambda: FiniteAggregationClassifier.load(folder), 5)
        served = FiniteAggregationClassifier.load(folder)
        served.predict(many[:1])
        one = each(lambda: served.predict(many[:1]), FEW)
        hundred = each(lambda: served.predict(many[:100]), 5)
        all_of_them = seconds(lambda: served.predict(many))
        proofs = seconds(lambda: served.certify(many[:1000]))
    weights = np.random.default_rng(0).normal(size=(64, 8000))
    flat = np.ascontiguousarray(many.reshape(len(many), -1), np.float64)
    product = seconds(lambda: (flat @ weights).reshape(len(flat), 800, 10).argmax(axis=2), 3)
    return {
        "load ms": 1e3 * load,
        "one ms": 1e3 * one,
        "100 ms": 1e3 * hundred,
        "10,000 s": all_of_them,
        "product and argmax s": product,
        "ratio": all_of_them / product,
        "certify 1,000 s": proofs,
    }


def predictions_of_tables(rows: int) -> dict[str, float]:
    """The same on rows of a frame with categories."""
    from poisonproof import FiniteAggregationClassifier

    table = frame(20_000)
    X, y = table.drop(columns="label"), table["label"]
    model = FiniteAggregationClassifier(classes=["low", "middle", "high"]).fit(X[:8000], y[:8000])
    test = X[8000:18_000].reset_index(drop=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        FiniteAggregationClassifier.load(folder)
        load = each(lambda: FiniteAggregationClassifier.load(folder), 3)
        served = FiniteAggregationClassifier.load(folder)
        served.predict(test[:1])
        one = each(lambda: served.predict(test[:1]), FEW)
        hundred = each(lambda: served.predict(test[:100]), 3)
        some = seconds(lambda: served.predict(test))
    return {"load ms": 1e3 * load, "one ms": 1e3 * one, "100 ms": 1e3 * hundred, "10,000 s": some}


def predictions_of_texts(learner: str, d: int) -> dict[str, float]:
    """Base classifiers on AG News (POISONPROOF_DATA/texts), k = 50: fit, keep, load, and predict 1, 100 and 1,500.

    Texts alone, or ("columns") titles and texts as two columns beside the length of each.
    """
    import pandas as pd

    from poisonproof import FiniteAggregationClassifier
    from poisonproof.learners.presets import preset

    sys.path.append(str(Path(__file__).parents[1]))
    from research.studies.real_sets import texts_folder

    folder = texts_folder()
    if folder is None or not folder.is_dir():
        raise SystemExit("POISONPROOF_DATA must name a folder that holds texts/ag_news.csv.gz.")
    news = pd.read_csv(folder / "ag_news.csv.gz").sample(frac=1, random_state=SEED).reset_index(drop=True)
    y, X = news["label"], news[["title", "text"]]
    if learner == "columns":
        made = preset("text", ["title", "text"])
        X = X.assign(title_length=X["title"].str.len(), text_length=X["text"].str.len())
    else:
        made, X = preset(learner), X.agg(" ".join, axis=1)
    model = FiniteAggregationClassifier(made, k=50, d=d, classes=sorted(set(y)), n_jobs=1)
    model.fit(X[:200], y[:200]).predict(X[:1])  # compiled
    fit = seconds(lambda: model.fit(X[:6000], y[:6000]))
    test = X[6000:7500].reset_index(drop=True)
    votes = hashlib.sha256(np.ascontiguousarray(model.votes(test).matrix, np.int64).tobytes()).hexdigest()
    with tempfile.TemporaryDirectory() as kept:
        keep = seconds(lambda: model.save(kept))
        size = sum(file.stat().st_size for file in Path(kept).rglob("*")) / 1e6
        load = seconds(lambda: FiniteAggregationClassifier.load(kept), 3)
        served = FiniteAggregationClassifier.load(kept)
        served.predict(test[:1])
        one = each(lambda: served.predict(test[:1]), 3)
        hundred = seconds(lambda: served.predict(test[:100]), 2)
        all_of_them = seconds(lambda: served.predict(test))
    return {
        "fit s": fit, "keep s": keep, "MB": size, "load ms": 1e3 * load, "one ms": 1e3 * one, "100 ms": 1e3 * hundred,
        "1,500 s": all_of_them, "votes": int(votes[:8], 16),
    }  # fmt: skip


def overhead(rows: int) -> dict[str, float]:
    """Fitting and asking through the ensemble, against a bare loop over the same subsets with one BLAS thread."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    learners = {"LR": LogisticRegression(max_iter=200), "NB": GaussianNB()}
    return {what: ratio for name, learner in learners.items() for what, ratio in _overhead(name, learner).items()}


def _overhead(name: str, learner: Any) -> dict[str, float]:
    from sklearn.base import clone

    from poisonproof import FiniteAggregationClassifier, load
    from poisonproof.estimators.prepared import prepare
    from poisonproof.system.determinism import one_linear_algebra_thread
    from poisonproof.training.engine import engine_of

    digits = load("digits")
    values = np.ascontiguousarray(digits.train.X.reshape(len(digits.train), -1), np.float64)
    flat = np.ascontiguousarray(digits.test.X.reshape(len(digits.test), -1), np.float64)
    test = np.concatenate([flat] * (MANY // len(flat) + 1))[:MANY]
    source = prepare(
        FiniteAggregationClassifier(learner, k=50, d=4, classes=range(10)), values, digits.train.labels
    ).source
    engine = engine_of(learner)
    subsets = [source.rows(i) for i in range(len(source))]

    def bare_fit() -> list[Any]:
        with one_linear_algebra_thread():
            return [clone(learner).fit(values[rows], source.codes[rows]) for rows in subsets]

    def bare_votes(asked: Any) -> list[Any]:
        with one_linear_algebra_thread():
            return [model.predict(asked) for model in models]

    models, members = bare_fit(), engine.fit(learner, source, n_jobs=1)
    fits = [(seconds(bare_fit), seconds(lambda: engine.fit(learner, source, n_jobs=1))) for _ in range(3)]
    figures = {f"{name} fit ratio": min(ours for _, ours in fits) / min(bare for bare, _ in fits)}
    for rows in (flat, test):
        asked = type(source.samples)(rows)
        votes = [
            (
                each(lambda rows=rows: bare_votes(rows), 3, 1),
                each(lambda asked=asked: members.votes(asked, 10, n_jobs=1), 3, 1),
            )
            for _ in range(3)
        ]
        ratio = min(ours for _, ours in votes) / min(bare for bare, _ in votes)
        figures[f"{name} vote ratio, {len(rows)} samples"] = ratio
    return figures


def updates(rows: int) -> dict[str, float]:
    """One removed row against a refit, on an array and on a frame by two ensembles; medians of five."""
    from poisonproof import FiniteAggregationClassifier

    figures = {}
    table = frame(rows)
    forms = {"array": np.nan_to_num(table.iloc[:, :12].to_numpy()), "frame": table.drop(columns="label")}
    y = table["label"].to_numpy()
    for k, d in ((20, 1), (50, 16)):
        for name, X in forms.items():
            model = FiniteAggregationClassifier(k=k, d=d, classes=["low", "middle", "high"], n_jobs=1)
            model.fit(X[:1000], y[:1000]).update(remove=[0])  # compiled
            refit = seconds(lambda model=model, X=X: model.fit(X, y))
            spent = [seconds(lambda model=model, row=row: model.update(remove=[row])) for row in (5, 77, 4242, 9, 900)]
            update, what = float(np.median(spent)), f"{name}, k = {k}, d = {d}"
            figures |= {f"{what}: refit s": refit, f"{what}: update ms": 1e3 * update, f"{what}: times": refit / update}
    return figures


FILE_FORMATS = {"csv": (), "parquet": (), "csv, --max-memory": ("--max-memory", "2GB")}


def file_updates(rows: int) -> dict[str, float]:
    """One removed row of a run on a file against the run itself: as processes, and in one that has started before.

    The latter leaves out imports, and compiled code and templates that are loaded once; both sides are then measured in
    the same process, after a small run and its update. Last the file with a row deleted, which has to be read whole.
    """
    figures = {}
    for form, more in FILE_FORMATS.items():
        kind = form.partition(",")[0]
        path = written(rows, kind)
        options = ["--label", "label", "--learner", "table", "--k", "50", "--d", "16", "--n-jobs", "1", *more]
        with tempfile.TemporaryDirectory() as folder:
            base, run = [sys.executable, "-m", "poisonproof"], f"{folder}/run"
            spent = _spent([*base, "run", str(path), *options, "--out", run])
            updates = [_spent([*base, "update", run, "--remove", row, "--n-jobs", "1"]) for row in ("5", "77")]
            figures |= {f"{form}: run s": spent, f"{form}: update s": min(updates)}
            figures[f"{form}: times"] = spent / min(updates)
            started = [sys.executable, __file__, "--started", folder, str(path), str(written(1000, kind)), *options]
            done = subprocess.run(started, check=True, capture_output=True, text=True)
            for name, seconds_ in json.loads(done.stdout.splitlines()[-1]).items():
                figures[f"{form}, started before: {name} s"] = seconds_
            run_s, update_s = (figures[f"{form}, started before: {name} s"] for name in ("run", "update"))
            figures[f"{form}, started before: times"] = run_s / update_s
    return figures


def _spent(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True, capture_output=True))


def started_before(folder: str, path: str, small: str, *options: str) -> dict[str, float]:
    """The same in this process, after a small run and its update."""
    from typer.testing import CliRunner

    from poisonproof.cli.main import app

    def call(*words: str) -> None:
        done = CliRunner().invoke(app, list(words))
        if done.exit_code:
            raise SystemExit(done.stderr) from done.exception

    few = [*options[: options.index("--k")], "--k", "5", "--d", "16", *options[options.index("--n-jobs") :]]
    call("run", small, *few, "--out", f"{folder}/small")
    call("update", f"{folder}/small", "--remove", "3", "--n-jobs", "1")
    figures = {"run": seconds(lambda: call("run", path, *options, "--out", f"{folder}/started"))}
    removals = iter(("5", "77", "4242"))
    again = ["update", f"{folder}/started", "--n-jobs", "1"]
    figures["update"] = seconds(lambda: call(*again, "--remove", next(removals)), 3)
    if path.endswith(".csv"):
        lines = Path(path).read_bytes().splitlines(keepends=True)
        Path(folder, Path(path).name).write_bytes(b"".join(lines[:500] + lines[501:]))
        figures["update by the file less a row"] = seconds(lambda: call(*again, f"{folder}/{Path(path).name}"))
    return figures


GOALS = {
    "run: run": "25",
    "run: GB at most": "2",
    "bounded: ratio": "1.5",
    "parquet: ratio": "5",
    "wide: prepare": "3",
    "predict: load ms": "50",
    "predict: one ms": "2",
    "predict: 100 ms": "5",
    "predict: ratio": "2",
    "overhead: LR fit ratio": "1.1",
    "overhead: LR vote ratio, 382 samples": "1.2",
    "overhead: LR vote ratio, 4096 samples": "1.2",
    "overhead: NB fit ratio": "1.1",
    "overhead: NB vote ratio, 382 samples": "1.25",
    "overhead: NB vote ratio, 4096 samples": "1.25",
    **{
        f"update: {form}, k = {k}, d = {d}: times": f"from {k // 2}"
        for form in ("array", "frame")
        for k, d in ((20, 1), (50, 16))
    },
    **{
        f"update-file: {form}{started}: times": "from 25"
        for form in FILE_FORMATS
        for started in ("", ", started before")
    },
}
"""What must hold: at most so much, or from so much on."""

FIGURES: dict[str, Callable[[int], dict[str, float]]] = {
    "csv": lambda rows: open_file(rows, "csv"),
    "csv-quoted": lambda rows: open_file(rows, "quoted.csv"),
    "parquet": lambda rows: open_file(rows, "parquet"),
    "wide": wide_frame,
    "predict": predictions,
    "predict-table": predictions_of_tables,
    "predict-text": lambda rows: predictions_of_texts("text", 16),
    "predict-text-columns": lambda rows: predictions_of_texts("columns", 16),
    "predict-text-auto": lambda rows: predictions_of_texts("auto", 4),
    "overhead": overhead,
    "run": run_csv,
    "bounded": run_bounded,
    "update": updates,
    "update-file": file_updates,
}


def measured(name: str, rows: int, source: str | None) -> dict[str, float]:
    """The figures of one part, in a process of its own."""
    environment = {**os.environ, **BUSY, **({} if source is None else {"PYTHONPATH": source})}
    command = [sys.executable, __file__, "--inside", name, "--rows", str(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(FIGURES))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--before")
    parser.add_argument("--inside")
    parser.add_argument("--started", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    if asked.started:
        warnings.simplefilter("ignore")
        print(json.dumps(started_before(*asked.started)))
        return
    if asked.inside:
        warnings.simplefilter("ignore")
        print(json.dumps(FIGURES[asked.inside](asked.rows)))
        return
    print("| figure | before | now | goal |\n|---|---|---|---|")
    for name in asked.only:
        before = measured(name, asked.rows, asked.before) if asked.before else {}
        for what, value in measured(name, asked.rows, None).items():
            then = f"{before[what]:.5g}" if what in before else "–"
            print(f"| {name}: {what} | {then} | {value:.5g} | {GOALS.get(f'{name}: {what}', '')} |", flush=True)


if __name__ == "__main__":
    main()
