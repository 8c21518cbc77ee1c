"""Rows removed from a run whose file is what it was: only what they touch is read, and the run is that of the rest."""

import json
import shutil

import numpy as np
import pytest

from command_line import poisonproof
from fish import HEADER, rows
from poisonproof.data import known, user_files
from poisonproof.runs.kept_rows import read_rows
from poisonproof.runs.layout import ROWS, damage
from poisonproof.system.files import open_arrays, read_record, write_arrays

NAMES = (
    "votes.npy",
    "certificate.npz",
    "split.npy",
    "votes/block-00000.npz",
    "models/members-00000.npy",
    "schema.json",
)
COUNT = 160


def table():
    made = rows(COUNT)
    made[40] = made[3]
    return made


def as_csv(path, header, lines):
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".csv").write_text("\n".join([header, *lines]) + "\n")
    return path.with_suffix(".csv")


def plain(path, gone=()):
    """A number, a category, an id and a label."""
    return as_csv(path, HEADER, [row for at, row in enumerate(table()) if at not in gone])


def numbers(path, gone=()):
    """Numbers alone, of which some are missing and some are none."""
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{y:.3f},{'ab'[int(x > 0)]}" for x, y in rng.normal(size=(COUNT, 2))]
    lines[5], lines[8] = ",1.5,a", "oops,2,b"
    return as_csv(path, "x,y,kind", [line for at, line in enumerate(lines) if at not in gone])


def texts(path, gone=()):
    """Texts in quotes, some over several lines, with bad lines and blank ones between them."""
    rng = np.random.default_rng(0)
    words = [["cod swims in cold sea", "net full of cod fish"], ["eel hides in dark mud", "long eel in a river"]]
    lines = []
    for at, kind in enumerate(rng.integers(0, 2, COUNT).tolist()):
        text = f"{words[kind][rng.integers(2)]} {rng.integers(1000)}"
        text = f'"{text},\nand then more"' if at % 7 == 0 else text
        lines.append(f"{text},{['cod', 'eel'][kind]}")
    kept = [line for at, line in enumerate(lines) if at not in gone]
    return as_csv(path, "text,kind", [*kept[:100], "one cell too, many, eel", "", "no label,", *kept[100:]])


def parquet(path, gone=()):
    """A Parquet file, with cells as they are typed there."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(plain(path, gone))
    frame["colour"] = frame["colour"].astype("category")
    frame.to_parquet(path.with_suffix(".parquet"), row_group_size=50)
    path.with_suffix(".csv").unlink()
    return path.with_suffix(".parquet")


def folder(path, gone=()):
    """Two Parquet files in a folder."""
    whole = parquet(path, gone)
    pd = pytest.importorskip("pandas")
    frame = pd.read_parquet(whole)
    path.mkdir()
    frame[:70].to_parquet(path / "a.parquet")
    frame[70:].to_parquet(path / "b.parquet")
    whole.unlink()
    return path


def run_of(data, out, *more, learner="table", k=5):
    poisonproof("run", data, "--label", "kind", "--learner", learner, "--k", k, "--d", 2, "--out", out, "--n-jobs", 1,
                "--no-undefended", *more)  # fmt: skip
    return out


def update(run, *more, code=0):
    return poisonproof("update", run, *more, "--n-jobs", 1, code=code)


def same(run, fresh):
    for name in NAMES:
        if (fresh / name).exists():
            assert (run / name).read_bytes() == (fresh / name).read_bytes(), name
    one, two = (read_record(folder / "manifest.json") for folder in (run, fresh))
    for part in ("settings", "premises", "notes", "n_train", "n_test", "clean_accuracy"):
        assert one[part] == two[part], part
    assert not damage(run)


@pytest.fixture
def whole_reading_closed(monkeypatch):
    """Whoever would read the whole file fails."""

    def closed(*given, **more):
        raise AssertionError("the whole file was read")

    monkeypatch.setattr(user_files, "_read_all", closed)
    monkeypatch.setattr("poisonproof.cli.reading.open_data", closed)


REMOVED = (3, 17)
"""Training samples; which rows of the file these are depends on what was held out."""


def lines_of(run, data):
    """The places in the file, among its good rows, of the training samples that are removed."""
    return read_rows(run, data)[0].origin.every[list(REMOVED)].tolist()


@pytest.mark.parametrize(
    ("write", "more", "learner", "k"),
    [
        (plain, (), "table", 5),
        (plain, (), "table", 60),  # most partitions hold one row, or none
        (plain, ("--classes", "cod,eel,shark"), "auto", 5),
        (numbers, (), "table", 5),
        (texts, (), "text", 5),
        (texts, (), "bayes", 60),
        (parquet, (), "table", 5),
        (folder, ("--votes-only",), "table", 5),
    ],
)
def test_an_update_that_reads_some_rows_is_a_fresh_run(tmp_path, request, write, more, learner, k):
    data = write(tmp_path / "whole")
    run = run_of(data, tmp_path / "run", *more, learner=learner, k=k)
    gone = lines_of(run, data)
    changed = write(tmp_path / "changed" / "whole", gone)
    fresh = run_of(changed, tmp_path / "fresh", *more, learner=learner, k=k)
    request.getfixturevalue("whole_reading_closed")
    update(run, "--remove", "17")
    update(run, "--remove", "3")
    same(run, fresh)
    assert "left out already" in update(run, "--remove", "3,17").stderr
    same(run, fresh)
    kept, _ = read_rows(run, data)
    assert kept.origin.gone.tolist() == list(REMOVED)
    assert "0 … " in update(run, "--remove", str(len(kept.origin.every)), code=2).stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a table, and of the table without two rows of its training samples."""
    home = tmp_path_factory.mktemp("fish")
    data = plain(home / "whole")
    run = run_of(data, home / "run")
    run_of(plain(home / "changed" / "whole", lines_of(run, data)), home / "fresh")
    return home


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run")
    return tmp_path / "run"


def test_only_subsets_that_changed_are_read(made, run, whole_reading_closed, monkeypatch):
    read = []
    real = known.TableFile.read
    monkeypatch.setattr(
        known.TableFile, "read", lambda self, origin, places: read.append(places) or real(self, origin, places)
    )
    rows_, _ = read_rows(run, made / "whole.csv")
    update(run, "--remove", "3")
    test, fed = read
    assert (test == rows_.origin.test).all()
    assert len(fed) < len(rows_)
    assert rows_.origin.train[3] not in fed


def test_a_file_of_which_one_byte_changed_is_read_whole(made, run, tmp_path):
    data = tmp_path / "whole.csv"
    manifest = read_record(run / "manifest.json")
    lines = (made / "whole.csv").read_text().splitlines()
    held_out = lines_of_test(run, made / "whole.csv")
    at = next(at for at in range(1, len(lines)) if at - 1 not in held_out and at > 60)
    lines[at] = lines[at].replace("e", "E", 1)
    data.write_text("\n".join(lines) + "\n")
    (run / "manifest.json").unlink()
    from poisonproof.system.files import write_record

    write_record(run / "manifest.json", {**manifest, "asked": {**manifest["asked"], "data": str(data)}})
    update(run, "--remove", "3")
    fresh = run_of(data, tmp_path / "again")
    update(fresh, "--remove", "3")
    assert (run / "votes.npy").read_bytes() == (fresh / "votes.npy").read_bytes()
    assert (
        read_record(run / "manifest.json")["settings"]["dataset"]
        == read_record(fresh / "manifest.json")["settings"]["dataset"]
    )


def lines_of_test(run, data):
    return set(read_rows(run, data)[0].origin.test.tolist())


def test_what_is_kept_is_noticed_when_it_is_damaged_and_written_again(made, run, caplog):
    whole = bytearray((run / ROWS).read_bytes())
    whole[len(whole) // 2] ^= 1
    (run / ROWS).write_bytes(whole)
    assert any(ROWS in sentence for sentence in damage(run))
    assert poisonproof("verify", run, code=3).stdout
    assert "All rows are read" in update(run, "--remove", "3,17").stderr
    same(run, made / "fresh")
    assert read_rows(run, made / "whole.csv") is not None


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("name", ["numbers", "hash", "partition", "digest", "every"])
def test_what_is_kept_and_does_not_fit_is_not_relied_on(made, run, name, stated, monkeypatch):
    """Sealed as it should be, but of other rows; noticed by the manifest, and most of it by the rows themselves."""
    arrays, facts = open_arrays(run / ROWS)
    arrays[name] = np.concatenate((arrays[name][:1], np.roll(arrays[name][1:], 1, axis=0)))
    if name == "numbers":
        arrays[name] = np.arange(len(arrays[name])) + 3
    if name == "every":
        arrays[name] = np.arange(len(arrays[name]))
    write_arrays(run / ROWS, arrays, facts)
    if not stated:
        if name == "partition":
            return
        whole = read_rows
        monkeypatch.setattr("poisonproof.runs.kept_rows.read_rows", lambda run, path, stated: whole(run, path))
    assert "All rows are read" in update(run, "--remove", "3,17").stderr
    same(run, made / "fresh")


class Killed(BaseException):
    """What no code of ours catches."""


@pytest.mark.parametrize(
    "place",
    [
        "poisonproof.runs.folder._forget_conclusions",
        "poisonproof.runs.run.keep_rows",
        "poisonproof.runs.kept_rows.write_arrays",
        "poisonproof.runs.blocks.write_block",
        "poisonproof.runs.run.certify",
        "poisonproof.report.page.write_report",
    ],
)
@pytest.mark.parametrize("again", [("--remove", "3,17"), ()])
def test_killed_anywhere_it_goes_on(made, run, monkeypatch, place, again):
    def killed(*given, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, killed)
        with pytest.raises(Killed):
            update(run, "--remove", "3,17")
    update(run, *again)
    same(run, made / "fresh")


def test_nothing_of_a_removed_row_stays_in_what_is_kept(made, run):
    before, _ = read_rows(run, made / "whole.csv")
    old = read_record(run / "manifest.json")
    update(run, "--remove", "3,17")
    arrays, facts = open_arrays(run / ROWS)
    bodies = [array.tobytes() for array in arrays.values()] + [json.dumps(facts).encode()]
    touched = before.partition[list(REMOVED)]
    secrets = [bytes(before.digests[17]), before.hashes[17].tobytes(), *(before.contents[j] for j in touched)]
    secrets += [value.encode() for name, value in old["settings"]["dataset"].items() if "train" in name]
    secrets += [digest.encode() for digest in before.origin.files.values()]
    for secret in secrets:
        assert all(secret not in body for body in bodies)
    assert bytes(before.digests[3]) in arrays["digest"].tobytes(), "row 40 is equal to row 3 and stays"


@pytest.mark.parametrize("write", [plain, parquet])
def test_rows_that_were_left_out_and_changed_in_the_file_are_told(tmp_path, write):
    """What is stated of the file says nothing of such a row; its mark does."""
    data = write(tmp_path / "whole")
    run = run_of(data, tmp_path / "run")
    update(run, "--remove", "17")
    at = lines_of(run, data)[1]
    if write is plain:
        lines = data.read_text().splitlines()
        lines[1 + at] = f"99{lines[1 + at]}"
        data.write_text("\n".join(lines) + "\n")
    else:
        pd = pytest.importorskip("pandas")
        frame = pd.read_parquet(data)
        frame.loc[at, "length"] = 99.0
        frame.to_parquet(data, row_group_size=50)
    assert read_rows(run, data)[0].origin.digests() == read_rows(run, data)[0].origin.files
    assert "is not what it was when rows were removed from it" in update(run, "--remove", "3", code=2).stderr


def test_a_class_that_is_read_off_the_data_may_go(tmp_path):
    lines = [*table(), *(f"{at}.5,red,m1,shark" for at in range(3))]
    data = as_csv(tmp_path / "whole", HEADER, lines)
    run = run_of(data, tmp_path / "run")
    kept, _ = read_rows(run, data)
    sharks = np.flatnonzero(kept.labels == kept.names.index("shark"))
    held = kept.origin.test
    update(run, "--remove", ",".join(map(str, sharks)))
    places = set(kept.origin.train[sharks].tolist())
    fresh = run_of(
        as_csv(tmp_path / "changed" / "whole", HEADER, [line for at, line in enumerate(lines) if at not in places]),
        tmp_path / "fresh",
    )
    assert (run / "votes.npy").read_bytes() == (fresh / "votes.npy").read_bytes()
    assert held is not None


def test_a_damaged_block_is_made_again_from_the_rows_of_its_subsets(made, run, whole_reading_closed):
    (run / "votes" / "block-00000.npz").write_bytes(b"")
    update(run, "--remove", "3,17")
    same(run, made / "fresh")


def test_the_verifier_finds_the_run_of_the_changed_data(made, run):
    """By code of its own, from the file that has lost the rows."""
    update(run, "--remove", "3,17")
    checked = poisonproof("verify", run, made / "changed" / "whole.csv", "--retrain", 3)
    assert checked.stdout.startswith("VERIFIED")


def test_no_undefended_figure_is_shown_of_other_data(tmp_path, whole_reading_closed, monkeypatch):
    monkeypatch.undo()
    data = plain(tmp_path / "whole")
    run = tmp_path / "run"
    poisonproof("run", data, "--label", "kind", "--k", 5, "--out", run, "--n-jobs", 1)
    before = read_record(run / "manifest.json")
    assert before["undefended_accuracy"] is not None
    assert before["no_undefended"] is None
    update(run)
    assert read_record(run / "manifest.json")["undefended_accuracy"] == before["undefended_accuracy"]
    said = json.loads(update(run, "--remove", "3", "--json").stdout)
    after = read_record(run / "manifest.json")
    for name in ("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended"):
        assert after[name] is said[name] is None
    assert "none was trained since the training data changed" in after["no_undefended"]
    assert said["no_undefended"] == after["no_undefended"]
    assert "Not known: none was trained since the training data changed" in (run / "report.html").read_text()
    update(run, "--undefended")
    assert read_record(run / "manifest.json")["undefended_accuracy"] is not None
    assert "VERIFIED" in poisonproof("verify", run).stdout
