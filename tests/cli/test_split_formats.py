"""`poisonproof split` takes what `run` takes, and gives the same partitions as the estimator does."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_wine
from typer.testing import CliRunner

from poisonproof import Split
from poisonproof.cli.main import app
from poisonproof.data.reading import read

WINE = load_wine()
X, Y = WINE.data[:, :4], np.array(["a", "b", "c"])[WINE.target]


def split(path, *more):
    out = path.parent / "subsets.npz"
    words = ["split", str(path), "--k", "5", "--d", "2", "--out", str(out), "--json", *more]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), np.load(out, allow_pickle=False)


def written(folder, kind):
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(maker=[f"u{i % 30}" for i in range(len(Y))], kind=Y)
    path = folder / f"wine{kind}"
    if kind == ".parquet":
        frame.to_parquet(path)
    elif kind == ".svm":
        dump_svmlight_file(X, WINE.target, str(path))
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    return path


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet", ".svm"])
def test_every_format_is_split(tmp_path, kind):
    path = written(tmp_path, kind)
    summary, arrays = split(path, *(["--label", "kind", "--group-column", "maker"] if kind != ".svm" else []))
    assert summary["samples"] == len(Y)
    assert len(arrays["names"]) == len(Y)
    partition = arrays["partition"]
    if kind == ".svm":
        assert len(set(partition.tolist())) > 5
    else:  # by contributor: all rows of one in one partition, and the same as from Python
        rows = read(path, label="kind", group="maker", held_out=0).train
        how = Split("group")
        assert partition.tolist() == how.partitions(how.samples(rows.samples), 10, groups=rows.groups).tolist()


def test_a_named_set_is_split(tmp_path):
    done = CliRunner().invoke(
        app, ["split", "digits", "--k", "5", "--d", "2", "--out", str(tmp_path / "s.npz"), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["samples"] == 1415


def test_what_holds_out_is_refused(tmp_path):
    path = written(tmp_path, ".csv")
    words = ["split", str(path), "--label", "kind", "--held-out", "0.2", "--out", str(tmp_path / "s.npz")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "leave it out" in " ".join(done.stderr.split())
