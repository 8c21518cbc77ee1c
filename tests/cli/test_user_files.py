"""poisonproof run and poisonproof predict on a user's own files, as a person meets them."""

import csv
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from command_line import poisonproof
from poisonproof import Certificate, FiniteAggregationClassifier, Votes
from poisonproof.data.files import check_memory
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.system.files import read_record, sha256_of
from poisonproof.system.machine import Memory
from refused import refused
from tables import wine_rows, write_csv
from tests.helpers.premises import in_words

NAMES, ROWS = wine_rows()
SMALL = ("--k", 4, "--d", 2, "--n-jobs", 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on a table with contributors, and the table."""
    folder = tmp_path_factory.mktemp("own")
    table = write_csv(folder / "wine.csv", NAMES, [*ROWS, ["1", "2"]])
    done = poisonproof("run", table, "--label", "class", "--group-column", "maker", "--out", folder / "run", *SMALL)
    return folder, table, done


def test_run_says_what_it_decided(made):
    folder, _, done = made
    said = done.stderr
    assert "learner: auto, because these are numbers and categories; --learner chooses another" in said
    assert "wine.csv: 1 rows with another number of cells than the header were left out" in said
    (short,) = re.findall(r"\d+ premises, \d+ of them chosen from this data \(([^)]*)\)", said)
    assert {"schema", "learner"} <= {*short.split(", ")}
    said = " ".join(in_words(read_record(folder / "run" / "manifest.json")))
    assert "schema: number: alcohol, malic_acid" in said
    closest = "closest guess: column 'alcohol' as number; 4 odd contributors could have changed that"
    assert f"label: class; group: maker; {closest} (chosen from this data)" in said
    assert "learner: AutoClassifier(), because these are numbers and categories (chosen from this data)" in said
    assert "held out by a hash of their contributor" in said
    manifest = read_record(folder / "run" / "manifest.json")
    assert manifest["unit"] == "contributors"
    assert manifest["threat_model"]["change anything in the training samples of one contributor"] == 1
    assert manifest["files"]["schema.json"] == sha256_of(folder / "run" / "schema.json")
    note = "wine.csv: 1 rows with another number of cells than the header were left out; the first is line "
    assert [said.startswith(note) for said in manifest["notes"]] == [True]
    assert set(manifest["settings"]["dataset"]) > {"groups"}
    assert "contributors" in (folder / "run" / "report.html").read_text()


def test_a_run_goes_on_and_with_another_schema_it_is_another(made):
    folder, table, _ = made
    words = ("run", table, "--label", "class", "--group-column", "maker", "--out", folder / "run", *SMALL)
    assert "going on with the run" in poisonproof(*words).stderr
    declared = poisonproof(*words, "--schema", folder / "run" / "schema.json", code=2).stderr
    assert "holds a run that was asked for with another --schema" in declared


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_predict_answers_with_the_radii_of_the_model(made, tmp_path, suffix):
    """On other columns, in another order, without labels, with a bad line in between."""
    folder, table, _ = made
    order = [name for name in reversed(NAMES) if name not in ("class", "maker")]
    rows = [[row[NAMES.index(name)] for name in order] for row in ROWS[::5][:30]]
    rows[7] = ["only one cell"]
    new = write_csv(tmp_path / "new.csv", order, rows)
    out = tmp_path / f"out.{suffix}"
    done = poisonproof("predict", folder / "run", new, "--out", out, "--n-jobs", 1)
    assert "29" in done.stdout
    assert "contributors" in done.stdout
    assert "1 rows with another number of cells than the header were left out" in done.stderr
    text = out.read_text()
    answers = (
        [json.loads(line) for line in text.splitlines()]
        if suffix == "jsonl"
        else list(csv.DictReader(text.splitlines()))
    )
    assert list(answers[0]) == ["sample", "prediction", "radius", "runner_up", "vote_share", "reason", *order]
    assert [int(answer["sample"]) for answer in answers] == list(range(2, 32))
    bad = answers.pop(7)
    assert (bad["prediction"] or None, bad["reason"]) == (None, "with another number of cells than the header")
    model = FiniteAggregationClassifier.load(folder / "run" / "models")
    dataset = open_files(table, ReadOptions(schema=folder / "run" / "schema.json", test=table))
    X = dataset.train.X.iloc[[5 * at for at in range(30) if at != 7]]
    certificate, counts = model.certify(X), model.votes(X).counts()
    assert [answer["prediction"] for answer in answers] == certificate.labels.tolist()
    assert [int(answer["radius"]) for answer in answers] == certificate.radius.tolist()
    shares = counts[np.arange(29), certificate.prediction] / 8
    assert [float(answer["vote_share"]) for answer in answers] == shares.tolist()


def test_predict_tells_how_many_poisons_turn_an_answer_to_a_target(made, tmp_path):
    folder, _, _ = made
    new = write_csv(tmp_path / "new.csv", NAMES, ROWS[::9])
    model = FiniteAggregationClassifier.load(folder / "run" / "models")
    label = model.classes_.tolist()[0]
    out, words = tmp_path / "out.csv", ("predict", folder / "run", new, "--n-jobs", 1, "--target")
    poisonproof(*words, label, "--out", out)
    answers = list(csv.DictReader(out.read_text().splitlines()))
    assert {answer["target_radius"] == "" for answer in answers if answer["prediction"] == str(label)} == {True}
    others = [answer for answer in answers if answer["prediction"] != str(label)]
    assert others
    assert all(int(answer["target_radius"]) >= int(answer["radius"]) for answer in others)
    assert any(int(answer["target_radius"]) > int(answer["radius"]) for answer in others)
    assert "--target 'nobody' must name one of the" in poisonproof(*words, "nobody", "--out", out, code=2).stderr


def test_predict_gives_the_certificate_of_the_run_on_its_own_test_samples(tmp_path):
    table, test = (
        write_csv(tmp_path / name, NAMES, rows) for name, rows in (("t.csv", ROWS[::2]), ("test.csv", ROWS[1::2]))
    )
    poisonproof(
        "run", table, "--label", "class", "--classes", "a,b,c", "--test", test, "--out", tmp_path / "run", *SMALL
    )
    poisonproof("predict", tmp_path / "run", test, "--out", tmp_path / "p.csv", "--n-jobs", 1)
    answers = list(csv.DictReader((tmp_path / "p.csv").open()))
    certificate = Certificate.load(tmp_path / "run" / "certificate.npz")
    assert [int(answer["radius"]) for answer in answers] == certificate.radius.tolist()
    assert not Votes.load(tmp_path / "run" / "votes.npy").classes_inferred


def test_images_from_folder_to_answers(tmp_path):
    rng = np.random.default_rng(0)
    for at in range(60):
        home = tmp_path / "images" / ("lying", "standing")[at % 2]
        home.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 60, (8, 8))
        pixels[rng.integers(2, 6)] += 180  # a stroke: lying, or after a turn standing
        Image.fromarray((pixels.T if at % 2 else pixels).astype(np.uint8)).save(home / f"{at}.png")
    done = poisonproof("run", tmp_path / "images", "--encoder", "none", "--out", tmp_path / "run", *SMALL)
    assert "because these are grey images and no encoder is wanted or there" in done.stderr
    poisonproof("predict", tmp_path / "run", tmp_path / "images" / "lying", "--out", tmp_path / "p.csv", "--n-jobs", 1)
    answers = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert len(answers) == 30
    assert np.mean([answer["prediction"] == "lying" for answer in answers]) > 0.9
    assert all(answer["sample"].endswith(".png") for answer in answers)


def test_predict_without_models_names_the_next_command(tmp_path):
    table = write_csv(tmp_path / "wine.csv", NAMES, ROWS)
    run = tmp_path / "run"
    poisonproof("run", table, "--label", "class", "--out", run, "--votes-only", *SMALL)
    words = ("predict", run, table, "--out", tmp_path / "p.csv")
    command = f"poisonproof run wine.csv --schema {run}/schema.json --k 4 --d 2 --out {run}-models"
    assert command in poisonproof(*words, code=2).stderr
    assert not (tmp_path / "p.csv").exists()
    assert (
        "holds no run; make one with `poisonproof run DATA"
        in poisonproof("predict", tmp_path, *words[2:], code=2).stderr
    )


def lines(*texts, end="\n"):
    return end.join(texts).encode()


DATA = [f"{i}.5,{'ab'[i % 2]}" for i in range(40)]
GOOD = lines("x,y", *DATA)
TEXTS = lines("x,y", *(f"so many words {row}" for row in DATA))
T, Y = "t.csv", ["--label", "y"]
WRONG = {
    "missing label column": (T, lines("x,clas", *DATA), ["--label", "class"], "no column 'class'; did you mean 'clas'"),
    "no label named": (T, GOOD, [], "holds the labels? Name it with --label"),
    "empty": (T, b"", Y, "is empty; the first line must name the columns"),
    "no header": (T, lines(*DATA), Y, "its first line looks like data"),
    "delimiter": (T, lines("x;y", "1;a"), Y, "try --delimiter ';'"),
    "odd delimiter": (T, GOOD, [*Y, "--delimiter", "ab"], "A delimiter is one character"),
    "UTF-16": (T, "x,y\n1,a".encode("utf-16"), Y, "first line must name the columns, in UTF-8"),
    "open header": (T, b'x,"y\n1,a', Y, "has a header with faulty quotes (--lines takes such quotes as characters)"),
    "no sample": (T, lines("x,y", "1,", "2,NA"), Y, "has no training samples (t.csv: 2 rows without a label were left"),
    "label twice": (T, GOOD, [*Y, "--group-column", "y"], "both the label and the contributor"),
    "old Mac": (T, lines("x,y", *DATA, end="\r"), Y, "must name the columns, in UTF-8, and end with a line feed"),
    "nothing to learn": (T, lines("x,y", *[",a", ",b"] * 20), Y, "there is nothing to learn from"),
    "test and held-out": (T, GOOD, [*Y, "--test", T, "--held-out", "0.5"], "not both"),
    "share": (T, GOOD, [*Y, "--held-out", "0"], "must lie between 0 and 1"),
    "schema of another kind": (T, GOOD, ["--schema", "sparse.json"], "is a schema for sparse"),
    "no schema": (T, GOOD, ["--schema", "t.csv"], "t.csv is not a schema: it is not JSON"),
    "what does not apply": (T, GOOD, [*Y, "--n-features", "3"], "--n-features says nothing about"),
    "unknown kind": ("t.docx", b"PK", [], "is of no known kind"),
    "image size": (T, b"", ["--image-size", "big"], "'big' is not a size of images"),
    "learner for texts": (T, GOOD, [*Y, "--learner", "text"], "takes texts, and this data has none"),
    "texts for tables": (T, TEXTS, [*Y, "--learner", "table"], "cannot take texts"),
    "options of a named set": (None, None, ["digits", "--label", "y"], "--label is for your own files"),
}  # fmt: skip


FEW_TESTS = lines("x,y,g", *(f"{i}.5,{i % 2},u{i % 9}" for i in range(20)))
MANY = [f"{i}.5,{i % 2},u{i % 9}" for i in range(90)] + [f"{i},L{i},evil" for i in range(2000)]
GOES_ON = {
    # what: (training rows, options, the class list, what is said)
    "a rare declared class without a sample": (
        [f"{i},0,u" for i in range(40)], ["--classes", "0,1"], ["0", "1"], "have one label",
    ),
    "one class": ([f"{i},0,u" for i in range(40)], [], ["0"], "have one label"),
    "one class in two spellings": ([f"{i},0{'.0' * (i % 2)},u" for i in range(40)], [], ["0"], "have one label"),
    "three rows": (["0,0,u", "1,1,u", "2,0,u"], [], ["0", "1"], "base classifiers abstain"),
    "a contributor with 2,000 labels": (MANY, ["--group-column", "g"], 1000, "have 2002 different labels"),
    "a label of 4 MB": ([f"{i},{i % 2},u" for i in range(40)] + ["1," + "x" * 4_000_000 + ",u"], [], ["0", "1"], ""),
    "spellings": (["1,1,u", "2,1.0,u", "3,1.0,u", "4,10,u", "5,2,u"] * 4, [], ["1.0", "2", "10"], ""),
}  # fmt: skip


@pytest.mark.parametrize("what", GOES_ON)
@pytest.mark.parametrize("large", [[], ["--max-memory", "4"]], ids=["in memory", "out of core"])
def test_what_a_few_rows_or_one_contributor_can_cause_stops_nothing(tmp_path, monkeypatch, what, large):
    rows, words, classes, said = GOES_ON[what]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_bytes(lines("x,y,g", *rows))
    (tmp_path / "test.csv").write_bytes(FEW_TESTS)
    words = [*Y, *words, "--test", "test.csv", "--out", "run", "--no-undefended", *SMALL, *large]
    done = poisonproof("run", "t.csv", *words)
    assert said in done.stderr
    named = json.loads((tmp_path / "run" / "votes.json").read_text())["classes"]["values"]
    assert (len(named) if isinstance(classes, int) else named) == classes
    poisonproof("predict", "run", "test.csv", "--out", "p.csv", "--target", f"{named[0].removesuffix('.0')}.0")
    assert "VERIFIED" in poisonproof("verify", "run", "t.csv", "--test", "test.csv").stdout


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_gets_one_sentence_and_writes_nothing(tmp_path, monkeypatch, what):
    name, body, words, message = WRONG[what]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sparse.json").write_text('{"format": "poisonproof schema 2", "kind": "sparse", "n_features": 3}')
    columns = '{"ex": "number", "y": "label"}'
    (tmp_path / "table.json").write_text(f'{{"format": "poisonproof schema 2", "kind": "table", "columns": {columns}}}')
    if name is not None:
        (tmp_path / name).write_bytes(body)
        words = [name, *words]
    before = sorted(item.name for item in tmp_path.iterdir())
    done = poisonproof("run", *words, code=2)
    sentence = done.stderr.splitlines()[-1]
    assert message in sentence
    assert len(sentence) < 400
    assert sorted(item.name for item in tmp_path.iterdir()) == before


def test_two_gigabytes_are_not_begun_where_memory_will_not_do(tmp_path, monkeypatch):
    """Refused by its size before a line is read; where there is room, or where the user insists, it is read."""
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"x,y\n1,a\n")
        file.truncate(2_000_000_000)  # takes no room on disk
    monkeypatch.setattr("poisonproof.data.files.memory", lambda: Memory(8_000_000_000, 5_900_000_000))
    message = "holds 2 GB of data, and reading it takes about 6 GB of memory, of which 5.9 GB are free"
    assert message in poisonproof("run", tmp_path / "t.csv", "--label", "y", code=2).stderr
    check_memory(tmp_path / "t.csv", 1_900_000_000)
    monkeypatch.setattr("poisonproof.data.files.memory", lambda: Memory(None, None))
    check_memory(tmp_path / "t.csv", 2_000_000_000)


def test_what_the_user_insists_on_is_read(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_bytes(GOOD)
    monkeypatch.setattr("poisonproof.data.files.memory", lambda: Memory(1, 1))
    with refused("data.too-large"):
        open_files(tmp_path / "t.csv", ReadOptions(label="y"))
    assert len(open_files(tmp_path / "t.csv", ReadOptions(label="y", most_bytes=10**9)).train.labels) > 20


def test_mixed_encodings_are_said_and_cost_nothing(tmp_path):
    body = lines("x,shade,y", *(f"{i},d\u00fcster,{'ab'[i % 2]}" for i in range(40)))
    (tmp_path / "t.csv").write_bytes(body + b"\n3,d\xfcster,a\n")
    dataset = open_files(tmp_path / "t.csv", ReadOptions(label="y"))
    note = (
        "t.csv: 1 rows are not UTF-8 and were read as Latin-1, each by itself (mixed encodings); the first is line 42"
    )
    assert dataset.notes == (note,)
    assert set(pd.concat([dataset.train.X, dataset.test.X])["shade"]) == {"d\u00fcster"}


def test_a_compressed_table_with_another_delimiter(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(lines("x\ty", *(row.replace(",", "\t") for row in DATA))))
    words = ("run", tmp_path / "t.csv.gz", "--label", "y", "--delimiter", "tab", "--out", tmp_path / "run", *SMALL)
    record = json.loads(poisonproof(*words, "--json").stdout)
    assert any(premise == "number of features: 1 (chosen from this data)" for premise in record["premises"])
    assert json.loads((tmp_path / "run" / "schema.json").read_text())["delimiter"] == "\t"


def test_tsv_is_csv_with_tabs(tmp_path):
    names, rows = wine_rows()
    write_csv(tmp_path / "wine.csv", names, rows)
    text = (tmp_path / "wine.csv").read_text()
    assert "\t" not in text
    (tmp_path / "wine.tsv").write_text(text.replace(",", "\t"))
    how = ReadOptions(label="class", group_column="maker")
    comma, tabs = open_files(tmp_path / "wine.csv", how), open_files(tmp_path / "wine.tsv", how)
    assert tabs.digests() == comma.digests()
    assert tabs.schema.delimiter == "\t"
    (tmp_path / "schema.json").write_text(json.dumps(comma.schema.as_dict()))
    declared = open_files(tmp_path / "wine.tsv", ReadOptions(schema=tmp_path / "schema.json"))
    assert declared.digests() == comma.digests()
    assert declared.schema.delimiter == "\t"
    odd = tmp_path / "odd.tsv"
    odd.write_text(text)
    assert open_files(odd, replace(how, delimiter=",")).digests() == comma.digests()


WHOSE = {
    "nothing but the data": (
        ("digits",),
        "classes",
        "spread, split, learner, fitted before the split",
    ),
    "all that can be given": (
        ("digits", "--k", 4, "--d", 2, "--learner", "table"),
        "spread, classes, learner",
        "split, fitted before the split",
    ),
    "a table": (
        ("t.csv", "--label", "y"),
        "",
        "rows, spread, split, test samples, fitted before the split",
    ),
    "a table with all that can be given": (
        ("t.csv", "--label", "y", "--k", 4, "--learner", "table", "--held-out", 0.3, "--classes", "a,b"),
        "spread, learner, test samples, classes",
        "rows, split, fitted before the split",
    ),
    "grey images": (
        ("grey", "--encoder", "none", "--k", 4, "--d", 1),
        "spread",
        "split, test samples, fitted before the split",
    ),
    "neighbours": (
        ("t.csv", "--label", "y", "--method", "neighbours", "--n-neighbors", 3),
        "number of neighbors",
        "rows, test samples, fitted before the split",
    ),
}


@pytest.mark.parametrize("case", WHOSE)
def test_a_run_calls_declared_what_was_typed_and_nothing_else(tmp_path, case):
    words, declared, by_default = WHOSE[case]
    (tmp_path / "t.csv").write_bytes(lines("x,z,y", *(f"{i},{i % 7},{'ab'[i % 3 == 0]}" for i in range(60))))
    for i in range(40):
        (tmp_path / "grey" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "grey" / "ab"[i % 2] / f"{i}.png")
    words = [tmp_path / word if word in ("t.csv", "grey") else word for word in words]
    poisonproof("run", *words, "--no-undefended", "--n-jobs", 1, "--out", tmp_path / "run")
    premises = in_words(read_record(tmp_path / "run" / "manifest.json"))
    said = {
        word: {one.partition(":")[0] for one in premises if one.endswith(f"({word})")}
        for word in ("declared", "by default")
    }
    assert said == {"declared": set(declared.split(", ")) - {""}, "by default": set(by_default.split(", ")) - {""}}
    poisonproof("verify", tmp_path / "run", words[0])
