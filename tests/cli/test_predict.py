"""poisonproof predict: files in blocks, columns passed through, answers withheld, and the plain truth beside them."""

import csv
import gc
import io
import json
import os
import tracemalloc
import warnings

import numpy as np
import pytest
from PIL import Image
from sklearn.naive_bayes import GaussianNB

from command_line import poisonproof
from poisonproof import FiniteAggregationClassifier
from poisonproof.data import csv as csv_files
from poisonproof.data import reading
from poisonproof.data.dataset import ReadReport
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import RowStream, in_place, read_other
from poisonproof.premises import PremiseWarning
from poisonproof.runs.answers import AnswerSummary, Question, SavedRun
from poisonproof.runs.election import FittedEnsemble
from poisonproof.samples.schema import ArraySchema, ImageSchema, SparseSchema, read_schema
from poisonproof.training.members import UnansweredError
from refused import refused
from tables import wine_rows, write_csv

NAMES, ROWS = wine_rows()
OURS = ["sample", "prediction", "radius", "runner_up", "vote_share", "reason"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on a table, and the table."""
    folder = tmp_path_factory.mktemp("own")
    table = write_csv(folder / "wine.csv", NAMES, ROWS)
    poisonproof(
        "run",
        table,
        "--label",
        "class",
        "--classes",
        "a,b,c",
        "--k",
        4,
        "--d",
        2,
        "--n-jobs",
        1,
        "--out",
        folder / "run",
    )
    return folder / "run", table


def answers_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_answers_go_to_stdout_with_the_columns_of_the_file_and_the_summary_to_stderr(made):
    run, table = made
    done = poisonproof("predict", run, table, "--n-jobs", 1)
    answers = answers_of(done.stdout)
    assert list(answers[0]) == [*OURS, *NAMES]
    assert [answer["sample"] for answer in answers] == [str(line) for line in range(2, len(ROWS) + 2)]
    assert [[answer[name] for name in NAMES] for answer in answers] == [list(map(str, row)) for row in ROWS]
    assert f"samples {len(ROWS)}, unit training samples" in done.stderr
    right = np.mean([answer["prediction"] == answer["class"] for answer in answers])
    assert f"clean accuracy {int(right * 10_000 + 1e-9) / 10_000}, majority share" in done.stderr
    lines = [
        json.loads(line) for line in poisonproof("predict", run, table, "--n-jobs", 1, "--json").stdout.splitlines()
    ]
    assert [str(line["radius"]) for line in lines] == [answer["radius"] for answer in answers]
    plain = answers_of(poisonproof("predict", run, table, "--n-jobs", 1, "--no-columns").stdout)
    assert list(plain[0]) == OURS


@pytest.mark.parametrize("rows", [1, 7])
def test_blocks_of_any_size_give_the_same_bytes(made, tmp_path, monkeypatch, rows):
    run, table = made
    lines = table.read_text().splitlines()[:50]
    lines[5], lines[40] = "only one cell", lines[40].replace(lines[40].split(",")[0], "no number", 1)
    (tmp_path / "new.csv").write_text("\n".join(lines))
    whole = poisonproof("predict", run, tmp_path / "new.csv", "--n-jobs", 1)
    monkeypatch.setattr(SavedRun, "block_rows", rows)
    again = poisonproof("predict", run, tmp_path / "new.csv", "--n-jobs", 1)
    assert again.stdout == whole.stdout
    assert again.stderr == whole.stderr
    assert "1 rows with another number of cells than the header were left out" in again.stderr
    assert "1 cells of 'alcohol' are not numbers and count as missing" in again.stderr


def test_what_is_in_memory_does_not_grow_with_the_file(made, tmp_path, monkeypatch):
    """The largest number of bytes alive while one file is answered, and one that is six times as long."""
    run, table = made
    answers = SavedRun.answers

    def without_cycles(*words):
        gc.collect()
        return answers(*words)

    monkeypatch.setattr(SavedRun, "answers", without_cycles)
    gc.freeze()  # what there is now is not looked through again
    monkeypatch.setattr(SavedRun, "block_rows", 64)
    monkeypatch.setattr(csv_files, "BLOCK", 1 << 12)
    header, *lines = table.read_text().splitlines()
    peaks = []
    for times in (1, 1, 6):  # the first imports and compiles
        (tmp_path / "new.csv").write_text("\n".join([header, *(lines * times)]))
        tracemalloc.start()
        poisonproof("predict", run, tmp_path / "new.csv", "--n-jobs", 1, "--out", tmp_path / "p.csv")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    gc.unfreeze()
    assert peaks[2] < 1.2 * peaks[1]


def test_small_radii_are_withheld_and_the_feared_size_is_told(made):
    run, table = made
    full = answers_of(poisonproof("predict", run, table, "--n-jobs", 1).stdout)
    radii = [int(answer["radius"]) for answer in full]
    assert {0, 1} & set(radii)
    assert max(radii) > 0
    done = poisonproof("predict", run, table, "--n-jobs", 1, "--min-radius", 1, "--attack-size", 1)
    answers = answers_of(done.stdout)
    assert list(answers[0])[: len(OURS) + 1] == [*OURS[:-1], "certified", "reason"]
    for before, answer in zip(full, answers, strict=True):
        enough = int(answer["radius"]) >= 1
        assert answer["certified"] == str(enough).lower()
        assert answer["prediction"] == (before["prediction"] if enough else "")
    assert f"withheld {sum(radius < 1 for radius in radii)}" in done.stderr
    for option in ("--min-radius", "--attack-size"):
        assert (
            f"{option} must be a whole number of 0 or more"
            in poisonproof("predict", run, table, option, -1, code=2).stderr
        )


def test_a_column_with_one_of_our_names_is_kept_under_another(made, tmp_path):
    path = write_csv(tmp_path / "new.csv", [*NAMES, "radius", "input_radius"], [[*row, "y", "x"] for row in ROWS[:20]])
    answers = answers_of(poisonproof("predict", made[0], path, "--n-jobs", 1).stdout)
    assert {answer["input_radius"] for answer in answers} == {"y"}
    assert {answer["input_input_radius"] for answer in answers} == {"x"}
    assert {answer["radius"] for answer in answers} <= set("012345")


def test_the_summary_holds_what_is_right_against_a_constant_answer(made, tmp_path):
    run, table = made
    record = json.loads(
        poisonproof(
            "predict", run, table, "--n-jobs", 1, "--out", tmp_path / "p.csv", "--attack-size", 1, "--json"
        ).stdout
    )
    answers = answers_of((tmp_path / "p.csv").read_text())
    right = np.array([answer["prediction"] == answer["class"] for answer in answers])
    held = right & np.array([answer["certified"] == "true" for answer in answers])
    classes = np.array([answer["class"] for answer in answers])
    shares = {name: np.mean(classes == name) for name in "abc"}
    expected = {
        "clean_accuracy": right.mean(),
        "majority_share": max(shares.values()),
        "balanced_accuracy": np.mean([right[classes == name].mean() for name in "abc"]),
        "certified_fraction": held.mean(),
        "certified_fraction_balanced": np.mean([held[classes == name].mean() for name in "abc"]),
    }
    for name, value in expected.items():
        assert record[name] == int(value * 10_000 + 1e-9) / 10_000, name
    assert record["labelled"] == len(ROWS)
    radii = [int(answer["radius"]) for answer in answers]
    assert record["median_radius"] == int(np.percentile(radii, 50, method="inverted_cdf"))
    assert record["certified_share"] == int(np.mean(np.array(radii) >= 1) * 10_000 + 1e-9) / 10_000


def test_a_model_no_better_than_a_constant_answer_is_told_so(made):
    saved = SavedRun.open(made[0])
    part = next(iter(RowStream(made[1], saved.schema, ReadOptions(), 512)))
    answers, summary = saved.answers(part.part.X), AnswerSummary(Question(), "training samples")
    wrong = ["b" if label == "a" else "a" for label in answers.certificate.labels]
    summary.add(answers, wrong)
    assert "would be right as often or more" in summary.warning
    summary = AnswerSummary(Question(), "training samples")
    summary.add(answers, None)
    assert summary.accuracy == {}
    assert summary.warning is None


def test_a_sample_that_nobody_can_answer_stops_no_stream(tmp_path):
    """Alone in its block it has the answer that it has in company."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    model = FiniteAggregationClassifier(GaussianNB(), k=3, d=1, classes=[False, True]).fit(X, X[:, 0] > 0)
    asked = np.array([[1, np.nan], [1, 1]])
    with pytest.warns(PremiseWarning, match="could answer 1 of the 2 samples"):
        company = model.votes(asked)
    with pytest.raises(UnansweredError, match="could answer any of the 1 samples"):
        model.votes(asked[:1])
    for n_jobs in (1, None):
        saved = SavedRun(tmp_path, None, None, FittedEnsemble(model.set_params(n_jobs=n_jobs)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PremiseWarning)
            assert (saved.fitted.ask(asked[:1]) == company.matrix[:1]).all()
            assert len(saved.answers(asked[:1])) == 1


# Every kind of file, in blocks, is what it is when it is read whole


def test_a_line_that_cannot_be_read_has_its_place_in_its_block(tmp_path):
    lines = ["no:1", *(f"1 {at}:1" for at in range(4)), "1 x", "1 y", "1 0:1", "1 -1:2"]
    (tmp_path / "s.svm").write_text("\n".join(lines))
    for rows in (1, 2, 4, 100):
        names = []
        stream = RowStream(tmp_path / "s.svm", SparseSchema(5), ReadOptions(), 512)
        stream.rows = rows
        for block in stream:
            names += in_place(block.part.names, block.unread, lambda one: -one.name)
        assert names == [-1, 2, 3, 4, 5, -6, -7, 8, -9]


def joined(stream):
    blocks = list(stream)
    X = [block.part.X for block in blocks]
    rows = np.concatenate([x.toarray() if hasattr(x, "toarray") else np.asarray(x) for x in X])
    return rows, [name for block in blocks for name in block.part.names], stream.notes


def as_rows(X):
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def test_npz_svmlight_and_folders_in_blocks(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", X=rng.normal(size=(23, 3, 2)), y=np.arange(23))
    np.savez_compressed(tmp_path / "f.npz", X=np.asfortranarray(rng.normal(size=(23, 6))))
    lines = [f"1 {at % 5}:{at}.5 9:1" for at in range(23)]
    lines[4] = "not svmlight at all"
    (tmp_path / "s.svm").write_text("\n".join(lines))
    (tmp_path / "images").mkdir()
    for at in range(23):
        Image.fromarray(rng.integers(0, 255, (4, 5)).astype(np.uint8)).save(tmp_path / "images" / f"{at:02}.png")
    (tmp_path / "images" / "03.png").write_bytes(b"no image")
    options = ReadOptions(image_size=(5, 4))
    for name, schema in (
        ("a.npz", ArraySchema((3, 2), "float64")),
        ("f.npz", ArraySchema((6,), "float64")),
        ("s.svm", SparseSchema(5)),
        ("images", ImageSchema(5, 4, colour=False)),
    ):
        part = read_other(tmp_path / name, schema, options, report := ReadReport(), labelled=False)
        for rows in (1, 5, 23, 100):
            values, names, notes = joined(RowStream(tmp_path / name, schema, options, rows))
            assert np.array_equal(values, as_rows(part.X)), name
            assert names == list(part.names)
            assert notes == report.sentences()


@pytest.mark.posix
@pytest.mark.parametrize("rows", [1, 3, 512])
def test_a_sample_that_cannot_be_read_keeps_its_place(tmp_path, monkeypatch, rows):
    """Pictures: the first, one in the middle and the last; the others have the answers they had."""
    rng = np.random.default_rng(0)
    for at in range(40):
        (tmp_path / "images" / str(at % 2)).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 100, (4, 5)).astype(np.uint8) + np.uint8(100 * (at % 2))
        Image.fromarray(pixels).save(tmp_path / "images" / str(at % 2) / f"{at:02}.png")
    given = ("--k", 3, "--d", 1, "--n-jobs", 1, "--no-undefended", "--learner", "table")
    poisonproof("run", tmp_path / "images", *given, "--out", tmp_path / "run")
    monkeypatch.setattr(SavedRun, "block_rows", rows)
    monkeypatch.setattr(reading, "FEWEST_ROWS", 1)
    new = tmp_path / "images" / "1"
    whole = answers_of(poisonproof("predict", tmp_path / "run", new, "--n-jobs", 1).stdout)
    assert {answer["reason"] for answer in whole} == {""}
    for name in (b"00.png", b"12.png", b"zz \xff.png"):
        (new / os.fsdecode(name)).write_bytes(b"no picture")
    done = poisonproof("predict", tmp_path / "run", new, "--n-jobs", 1, "--attack-size", 1)
    answers = answers_of(done.stdout)
    places = [at for at, answer in enumerate(answers) if answer["reason"]]
    assert places == [0, 7, len(whole) + 2]
    assert answers[0] == dict.fromkeys(answers[0], "") | {
        "sample": "00.png", "reason": "is not a whole image (UnidentifiedImageError)"
    }  # fmt: skip
    rest = [answer for answer in answers if not answer["reason"]]
    assert [[one[name] for name in OURS] for one in rest] == [[one[name] for name in OURS] for one in whole]
    assert "unread 3" in done.stderr
    written = poisonproof("predict", tmp_path / "run", new, "--n-jobs", 1, "--json").stdout.splitlines()
    assert [json.loads(line)["radius"] is None for line in written] == [bool(answer["reason"]) for answer in answers]
    assert "3 images were left out; 00.png is not a whole image" in done.stderr
    for item in new.iterdir():
        item.write_bytes(b"no picture")
    assert "holds no sample that can be read" in poisonproof("predict", tmp_path / "run", new, code=2).stderr


def test_a_file_beyond_the_bound_of_whole_files_is_streamed(made, tmp_path, monkeypatch):
    run, table = made
    monkeypatch.setattr("poisonproof.data.files.MOST_BYTES", 1000)
    schema = read_schema(run / "schema.json")
    with refused("data.too-large"):
        read_other(table, schema, ReadOptions(), ReadReport(), labelled=False)
    assert sum(len(block.part) for block in RowStream(table, schema, ReadOptions(), 512)) == len(ROWS)
    with refused("data.too-large"):
        list(RowStream(table, schema, ReadOptions(most_bytes=1000), 512))


def test_accuracy_of_a_run_finds_its_own_labels(made):
    run, _ = made
    done = poisonproof("certify", "--shared", run, "--attack-size", "0,1", "--json")
    assert "--learner" not in done.stderr, "nothing is chosen any more"
    record = json.loads(done.stdout)
    manifest = json.loads((run / "manifest.json").read_text())
    first, second = record["accuracies"]
    assert first["lower_count"] / first["n_test"] == manifest["clean_accuracy"]
    assert second["lower_count"] <= first["lower_count"]
    assert "leave --classes out" in poisonproof("certify", "--shared", run, "--classes", 3, code=2).stderr
    assert "give --labels FILE.npy" in poisonproof("certify", "--shared", run / "votes.npy", code=2).stderr
