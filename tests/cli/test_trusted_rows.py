"""Rows that nobody can poison beside the data of a run: what they shape, what is said of them, and who checks it."""

import csv
import json
import statistics

import pytest

from command_line import poisonproof
from poisonproof.errors import PoisonproofError
from poisonproof.maps.trusted_samples import TrustedSamples
from poisonproof.runs.manifest import Manifest
from poisonproof.verification.trusted import shaped_by_trusted
from poisonproof.verification.verdict import NotTrueError
from tables import wine_rows, write_csv

METHODS = {"ballots": ("--near", 2), "neighbours": ("--n-neighbors", 9)}


@pytest.fixture
def wine(tmp_path):
    names, rows = wine_rows()
    write_csv(tmp_path / "wine.csv", names, [*rows[::2], rows[3]])  # one training row is a trusted one
    write_csv(tmp_path / "test.csv", names, rows[1::4])
    write_csv(tmp_path / "trusted.csv", names, rows[3::4])
    return tmp_path


def run(folder, method, *more, code=0):
    return poisonproof(
        "run", folder / "wine.csv", "--label", "class", "--classes", "a,b,c", "--test", folder / "test.csv",
        "--method", method, *METHODS.get(method, ()), "--out", folder / "run", *more, code=code,
    )  # fmt: skip


def by_hand(path, name):
    """Unit and centre of a column, by the standard library."""
    with path.open() as file:
        cells = [row[name] for row in csv.DictReader(file)]
    numbers = [float(cell) for cell in cells if cell.strip("?")]
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return (high - low) / 1.35, middle


@pytest.mark.parametrize("method", METHODS)
def test_trusted_rows_give_the_map_its_units_and_every_command_knows_them(wine, method):
    sizes = ("--class-sizes", "trusted:90") if method == "ballots" else ()
    done = run(wine, method, "--trusted", wine / "trusted.csv", *sizes)
    assert "1 training samples are copies of trusted ones and vote" in " ".join(done.stderr.split())
    manifest = Manifest.read(wine / "run")
    for column in manifest.settings.election["map"]["columns"]:
        if "unit" in column and column["name"] in ("alcohol", "malic_acid"):
            assert (column["unit"], column["centre"]) == pytest.approx(by_hand(wine / "trusted.csv", column["name"]))
    (stated,) = [premise for premise in manifest.premises if premise.startswith("trusted samples: ")]
    count = len((wine / "trusted.csv").read_text().splitlines()) - 1
    assert stated.startswith(f"trusted samples: {count} trusted samples, SHA-256 ")
    assert stated.endswith("; they do not vote (declared)")
    assert stated in " ".join(done.stderr.split())
    assert stated.partition("(")[0].strip() in (wine / "run" / "report.html").read_text()
    if method == "ballots":
        with (wine / "trusted.csv").open() as file:
            labels = [row["class"] for row in csv.DictReader(file)]
        wanted = [[label, labels.count(label) * 90 // count] for label in "abc"]
        assert manifest.settings.election["class_sizes"] == wanted
    poisonproof("verify", wine / "run")
    poisonproof("update", wine / "run", "--remove", "3")
    assert stated in Manifest.read(wine / "run").premises
    checks = json.loads(poisonproof("verify", wine / "run", "--json").stdout)["checks"]
    assert [check["outcome"] for check in checks if check["name"] == "trusted"] == ["ok"]
    lines = (wine / "trusted.csv").read_text().splitlines()
    (wine / "trusted.csv").write_text("\n".join([*lines[:-1], ""]))
    assert "premise 'trusted samples" in poisonproof("verify", wine / "run", code=3).stderr
    refused = poisonproof("update", wine / "run", "--remove", "1", code=2).stderr
    assert "does not hold the trusted rows that the run" in " ".join(refused.split())
    (wine / "trusted.csv").unlink()
    done = poisonproof("verify", wine / "run")
    assert "the trusted samples;" in " ".join(done.stdout.split())
    assert "are not at" in " ".join(done.stderr.split())


def test_the_verifier_computes_units_and_sizes_again(wine):
    run(wine, "ballots", "--trusted", wine / "trusted.csv", "--class-sizes", "trusted:90")
    manifest = Manifest.read(wine / "run")
    election = manifest.settings.election
    from poisonproof.samples.schema import schema_from_dict

    trusted = TrustedSamples.read(wine / "trusted.csv", schema=schema_from_dict(manifest.settings.schema))
    assert "and class sizes follow from" in shaped_by_trusted(election, trusted)
    columns = [dict(column) for column in election["map"]["columns"]]
    next(column for column in columns if "unit" in column)["unit"] *= 1.001
    with pytest.raises(NotTrueError, match="is said to be counted in units of"):
        shaped_by_trusted({**election, "map": {**election["map"], "columns": columns}}, trusted)
    sizes = [[label, size + 1] for label, size in election["class_sizes"]]
    with pytest.raises(NotTrueError, match="the class sizes are stated as"):
        shaped_by_trusted({**election, "class_sizes": sizes}, trusted)


def test_what_cannot_be_meant_with_trusted_rows_is_said(wine):
    given = ("--trusted", wine / "trusted.csv")
    (wine / "empty.csv").write_text((wine / "trusted.csv").read_text().splitlines()[0] + "\n")
    for words, sentence in {
        ("ballots", "--trusted", wine / "nowhere.csv"): "No such file",
        ("ballots", "--trusted", wine / "empty.csv"): "There are no trusted samples",
        ("ballots", *given, "--units", "alcohol=1"): "here they would shape nothing",
        ("ballots", *given, "--class-sizes", "trusted:many"): "takes a whole number of samples after the colon",
        ("ballots", "--class-sizes", "trusted:90"): "--trusted rows with labels",
        ("ensemble", *given): "--trusted says how training samples vote",
    }.items():
        assert sentence in " ".join(run(wine, *words, code=2).stderr.split())
        assert not (wine / "run").exists()
    done = poisonproof("run", "digits", "--method", "ballots", "--near", 2, *given, "--out", wine / "run", code=2)
    assert "the data set 'digits' has none" in " ".join(done.stderr.split())


def test_unlabelled_rows_serve_for_units(wine):
    rows = list(csv.reader((wine / "trusted.csv").open()))
    at = rows[0].index("class")
    write_csv(wine / "plain.csv", rows[0][:at] + rows[0][at + 1 :], [row[:at] + row[at + 1 :] for row in rows[1:]])
    run(wine, "neighbours", "--trusted", wine / "plain.csv")
    assert " trusted rows, SHA-256 " in Manifest.read(wine / "run").settings.election["map"]["origin"]
    with pytest.raises(PoisonproofError, match="these trusted samples have none"):
        TrustedSamples([[1.0]]).class_sizes(3)
