"""Data larger than memory: the same votes, digests and files as in memory, whatever interrupts the pass."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from ensembles import FirstSeen, first_seen
from poisonproof import FiniteAggregationClassifier, Split, Spread
from poisonproof.data import out_of_core
from poisonproof.data.options import ReadOptions
from poisonproof.data.out_of_core import PartitionStore, Source, StoredSamples, StoredSource, bytes_of, open_large
from poisonproof.data.reading import open_files
from poisonproof.estimators.prepared import prepare_dataset
from poisonproof.learners.presets import preset
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run
from poisonproof.training import memory as member_memory
from poisonproof.training.members import MemberEngine
from refused import refused

pytestmark = pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")  # 1e308 makes some of them fail

ROOMY = 10**11  # of a bound that is never reached, however much the process of all tests has taken
ROWS = 400


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Chunks of a few rows and spills of a few chunks, so that every border is crossed."""
    monkeypatch.setattr("poisonproof.data.out_of_core.CELLS_PER_CHUNK", 150)
    monkeypatch.setattr("poisonproof.data.csv.BLOCK", 700)
    monkeypatch.setattr("poisonproof.data.out_of_core.SMALLEST_BUFFER", 1 << 12)
    monkeypatch.setattr("poisonproof.data.out_of_core.SHARE_FOR_SPILL", ROOMY)


def odd_rows(seed=0, rows=ROWS):
    """Rows with odd cells: missing, unreadable, huge and negative zero numbers, odd texts, duplicates, rare labels."""
    rng = np.random.default_rng(seed)
    numbers = ["1.5", "-0.0", "0", "nan", "", "1e10", "x", " 2 ", "9007199254740993", "0.1"]
    texts = ["a", "B", "", "ä€", "NA", "1", "1.0", "'q'", "long text with words"]
    made = []
    for row in range(rows):
        first = float(rng.normal()) if row % 3 else numbers[rng.integers(len(numbers))]
        label = ["yes", "no", "maybe"][int(rng.integers(3))] if row % 97 else "rare"
        made.append([str(first), str(rng.integers(5)), texts[rng.integers(len(texts))], f"c{rng.integers(9)}", label])
    made[5][0] = "1e308"
    made += made[: rows // 10]
    made += [[*cells[:4], "no"] for cells in made[:7]]
    return made


def as_csv(path, rows, header="a,b,t,c,y"):
    path.write_text(header + "\n" + "".join(",".join(cells) + "\n" for cells in rows))
    return path


def as_parquet(path, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [list(column) for column in zip(*rows, strict=True)]
    pq.write_table(pa.table(dict(zip("abtcy", columns, strict=True))), path, row_group_size=50)
    return path


def as_folder(path, rows):
    path.mkdir()
    for number, start in enumerate(range(0, len(rows), 130)):
        as_parquet(path / f"part-{number}.parquet", rows[start : start + 130])
    return path


ROLES = {"a": "number", "b": "category", "t": "category", "c": "category", "y": "label"}


def large(path, folder, spread, options, split=None, complete_only=False):
    split = split or Split()
    source = Source.of(path, options)
    return open_large(source, split, spread.n_partitions, folder, max_memory=ROOMY, complete_only=complete_only)


@pytest.mark.parametrize(
    ("write", "spread"),
    [(as_csv, Spread.random(5, 3)), (as_parquet, Spread.random(4, 1)), (as_folder, Spread.paper(3, 2))],
)
def test_votes_and_digests_are_those_of_memory(tmp_path, write, spread):
    path = write(tmp_path / {as_csv: "data.csv", as_parquet: "data.parquet", as_folder: "folder"}[write], odd_rows())
    options = ReadOptions(schema=ROLES, held_out=0.2)
    there, here = open_files(path, options), large(path, tmp_path / "store", spread, options)
    assert here.digests() == there.digests()
    model = FiniteAggregationClassifier(preset("table"), spread=spread, n_jobs=1)
    assert (prepare_dataset(model, here).digests == prepare_dataset(model, there).digests).all()
    outcomes = [
        run(dataset, model, tmp_path / name, RunSettings(undefended=True))
        for name, dataset in (("there", there), ("here", here))
    ]
    for name in ("votes.npy", "certificate.npz", "split.npy", "spread.npz", "models/members-00000.npy"):
        paths = [tmp_path / folder / name for folder in ("there", "here")]
        if paths[0].exists():
            assert paths[0].read_bytes() == paths[1].read_bytes(), name
    assert outcomes[0].manifest.settings == outcomes[1].manifest.settings
    assert outcomes[0].undefended_accuracy == outcomes[1].undefended_accuracy
    assert outcomes[0].manifest.premises == outcomes[1].manifest.premises
    assert outcomes[0].manifest.n_train == outcomes[1].manifest.n_train
    assert outcomes[0].partition_sizes.sum() == outcomes[0].manifest.n_train
    assert outcomes[0].partition_sizes.tolist() == outcomes[1].partition_sizes.tolist()


def test_rows_on_disk_are_fed_in_the_order_that_their_content_gives(tmp_path):
    path, options = as_csv(tmp_path / "data.csv", odd_rows()), ReadOptions(schema=ROLES, held_out=0.2)
    spread = Spread.random(5, 3)
    model = FiniteAggregationClassifier(FirstSeen(), spread=spread, n_jobs=1)
    for dataset in (open_files(path, options), large(path, tmp_path / "store", spread, options)):
        prepared = prepare_dataset(model, dataset)
        test = Split().samples(dataset.test.samples)
        votes = MemberEngine().votes(prepared.learner, prepared.source, range(15), test, 4)
        samples, codes, _ = prepared.whole()
        assert np.array_equal(votes, first_seen(samples, codes, spread, len(votes)))
        assert len(np.unique(votes)) > 1


@pytest.mark.parametrize("share", [0, 0.3, 1], ids=["nothing kept", "some kept", "all kept"])
def test_partitions_that_stay_in_memory_are_read_once_and_change_nothing(tmp_path, monkeypatch, share):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 3), ReadOptions(schema=ROLES)
    store = large(path, tmp_path / "store", spread, options).stored
    whole = sum(bytes_of(store.partition(j)) for j in range(len(store)))
    fed = [StoredSource(spread, StoredSamples(store)).subset(i) for i in range(12)]
    read, partition = [], PartitionStore.partition
    monkeypatch.setattr(PartitionStore, "partition", lambda self, j: read.append(j) or partition(self, j))
    samples = StoredSamples(store, int(share * whole))
    for subset, (there, codes, rows) in enumerate(fed):
        here, same_codes, same_rows = StoredSource(spread, samples).subset(subset)
        assert here.keys(same_rows) == there.keys(rows)
        assert (same_codes == codes).all()
        assert here.form_of(same_rows) == there.form_of(rows)
    assert samples.kept_bytes <= share * whole
    times = np.bincount(read, minlength=len(store))
    assert set(times.tolist()) == {0: {3}, 0.3: {1, 3}, 1: {1}}[share]
    assert (times == 1).sum() == len(samples.kept) > (share - 0.1) * len(store) - 1


def test_what_a_kept_partition_takes_is_reckoned_from_above(tmp_path):
    import tracemalloc

    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 3), ReadOptions(schema=ROLES)
    samples = StoredSamples(large(path, tmp_path / "store", spread, options).stored, ROOMY)
    samples.partition(0)  # compiled code, headers of arrays
    tracemalloc.start()
    for j in range(1, len(samples.store)):
        samples.partition(j)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(samples.kept) == len(samples.store)
    assert taken < samples.kept_bytes < 4 * taken


@pytest.mark.parametrize("bound", [6e8, ROOMY])
def test_the_bound_of_a_run_says_how_much_stays_in_memory(tmp_path, monkeypatch, bound):
    monkeypatch.setattr(member_memory, "resident_bytes", lambda: int(5e8))
    kept = []
    made = "poisonproof.runs.election.StoredSamples"
    monkeypatch.setattr(made, lambda store, most=0: kept.append(most) or StoredSamples(store, most))
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 3), ReadOptions(schema=ROLES)
    dataset = large(path, tmp_path / "store", spread, options)
    model = FiniteAggregationClassifier(preset("table"), spread=spread, n_jobs=1)
    bounded = run(dataset, model, tmp_path / "bounded", RunSettings(undefended=False, max_memory=int(bound)))
    free = run(dataset, model, tmp_path / "free", RunSettings(undefended=False))
    assert 0 < max(kept) <= (bound - 5e8) / 2
    assert (bounded.votes.matrix == free.votes.matrix).all()
    kept.clear()
    once = Spread.random(12, 1)
    model.set_params(spread=once)
    run(dataset, model, tmp_path / "once", RunSettings(undefended=False, max_memory=int(bound)))
    assert not any(kept)  # each partition is read by one base classifier


def test_what_is_spare_leaves_room_for_everything_else(tmp_path, monkeypatch):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 3), ReadOptions(schema=ROLES)
    dataset = large(path, tmp_path / "store", spread, options)
    source = prepare_dataset(FiniteAggregationClassifier(preset("table"), spread=spread), dataset).source
    need = member_memory.MemberMemory(held=1000, trained=100, flight=10, whole=source.whole_bytes)
    whole = int(dataset.stored.bytes.sum()) * member_memory.FED + 1000
    monkeypatch.setattr(member_memory, "PROCESS_BYTES", 50)
    spare = need.spare
    assert spare(900, 1, undefended=False) == 0
    assert spare(2130, 1, undefended=False) == (2130 - need.at(1)) // 2 == 500
    assert spare(2450, 2, undefended=False) == (2450 - need.at(2)) // 6 == 183  # two workers, and who calls them
    assert spare(whole + 500, 1, undefended=True) == 250
    assert spare(whole - 1, 1, undefended=True) == (whole - 1 - need.at(1)) // 2  # they are not trained
    worker = member_memory.smallest_worker
    monkeypatch.setattr(member_memory, "smallest_worker", lambda: (1150, "w"))
    assert worker() is None
    assert spare(10**6, 64, undefended=False) == (1150 - 50 - 100) // 2
    assert spare(1330, 64, undefended=False) == 100


@pytest.mark.parametrize("role", ["number", "category"])
def test_columns_of_one_kind_alone(tmp_path, role):
    """Rows without cells of the other kind lie in a file that states more rows than it has bytes."""
    path = tmp_path / "data.csv"
    path.write_text("a,y\n" + "".join(f"{row % 7},{'uv'[row % 2]}\n" for row in range(600)))
    options, spread = ReadOptions(schema={"a": role, "y": "label"}), Spread.random(4, 2)
    assert large(path, tmp_path / "store", spread, options).digests() == open_files(path, options).digests()


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")}


class Killed(BaseException):
    """What no code of ours catches."""


def test_a_file_changed_at_equal_size_and_time_is_read_again(tmp_path):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    before, stat = large(path, tmp_path / "store", spread, options).digests(), path.stat()
    path.write_bytes(path.read_bytes().replace(b"yes", b"noo"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    after = large(path, tmp_path / "store", spread, options).digests()
    assert after == open_files(path, options).digests() != before


def test_killed_after_any_write_it_ends_with_the_same_bytes(tmp_path, monkeypatch):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    large(path, tmp_path / "whole", spread, options)
    whole = out_of_core.write_whole
    left, killed = [0], 0

    def write_some(target, write, **how):
        if not left[0]:
            (Path(target).parent / f".{Path(target).name}.killed.part").write_bytes(b"half")
            raise Killed
        whole(target, write, **how)
        left[0] -= 1

    for module in ("data.out_of_core", "system.files"):
        monkeypatch.setattr(f"poisonproof.{module}.write_whole", write_some)
    while True:
        left[0] = killed  # each time one write more than before, on top of what stands already
        try:
            large(path, tmp_path / "killed", spread, options)
            break
        except Killed:
            killed += 1
    assert killed > 5
    assert files_in(tmp_path / "killed") == files_in(tmp_path / "whole")


def test_a_damaged_partition_is_named_and_made_anew(tmp_path):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    folder = tmp_path / "store"
    store = large(path, folder, spread, options).stored
    before = files_in(folder)
    column = folder / "spill-00000.codes.npy"
    column.write_bytes(column.read_bytes()[:-40] + bytes(40))
    numbers = range(len(store))
    with refused("file.damaged"):
        PartitionStore.open(folder).samples.of_partitions(numbers)
    column.unlink()
    with refused("file.damaged"):
        PartitionStore.open(folder).samples.of_partitions(numbers)
    large(path, folder, spread, options)
    assert files_in(folder) == before
    for name in ("rows-partition.npy", "store.json", "spill-00001.hash.npy"):
        (folder / name).write_bytes(b"nonsense")
        large(path, folder, spread, options)
        assert files_in(folder) == before


def test_other_data_leave_nothing_of_the_old(tmp_path):
    rows, spread, options = odd_rows(), Spread.random(4, 2), ReadOptions(schema=ROLES)
    path = as_csv(tmp_path / "data.csv", rows)
    large(path, tmp_path / "store", Spread.random(9, 2), options)
    as_csv(path, rows[100:])
    changed = large(path, tmp_path / "store", spread, options)
    fresh = large(path, tmp_path / "fresh", spread, options)
    assert changed.digests() == fresh.digests() == open_files(path, options).digests()
    assert files_in(tmp_path / "store") == files_in(tmp_path / "fresh")


def test_rows_with_missing_numbers_and_other_labels_are_left_out_as_in_memory(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    rows = [[cells[0], cells[1], cells[4]] for cells in odd_rows()]
    path = as_csv(tmp_path / "data.csv", rows, "a,b,y")
    roles = {"a": "number", "b": "number", "y": "label"}
    options, spread = ReadOptions(schema=roles, classes=("yes", "no")), Spread.random(4, 2)
    there, here = open_files(path, options), large(path, tmp_path / "s", spread, options, complete_only=True)
    model = FiniteAggregationClassifier(GaussianNB(), spread=spread, classes=["yes", "no"], n_jobs=1)
    first, second = (prepare_dataset(model, dataset) for dataset in (there, here))
    assert (first.digests == second.digests).all()
    assert first.n_dropped == second.n_dropped > 0
    assert (first.subsets.partition == second.subsets.partition).all()
    counts = [[words.partition("; the first is row")[0] for words in one.data.oddities] for one in (first, second)]
    assert counts[0] == counts[1]
    assert here.notes == there.notes


def test_contributors_go_to_one_partition_and_are_held_out_together(tmp_path):
    rows = [[*cells, f"who{number % 40}"] for number, cells in enumerate(odd_rows())]
    path = as_csv(tmp_path / "data.csv", rows, "a,b,t,c,y,who")
    options, spread = ReadOptions(schema={**ROLES, "who": "group"}), Spread.random(4, 2)
    split = Split("group")
    there, here = open_files(path, options), large(path, tmp_path / "store", spread, options, split)
    assert here.digests() == there.digests()
    assert "groups" in here.digests()
    model = FiniteAggregationClassifier(preset("table"), spread=spread, split=split, n_jobs=1)
    first, second = (prepare_dataset(model, dataset) for dataset in (there, here))
    assert (first.digests == second.digests).all()
    assert (first.subsets.partition == second.subsets.partition).all()
    assert first.premises == second.premises


def test_texts_alone(tmp_path):
    rows = [[cells[2] + " word" * (at % 7), cells[4]] for at, cells in enumerate(odd_rows())]
    path, spread = as_csv(tmp_path / "data.csv", rows, "t,y"), Spread.random(4, 2)
    options = ReadOptions(schema={"t": "text", "y": "label"}, held_out=0.3)
    there, here = open_files(path, options), large(path, tmp_path / "store", spread, options)
    assert here.digests() == there.digests()
    model = FiniteAggregationClassifier(preset("text"), spread=spread, n_jobs=1)
    assert (prepare_dataset(model, here).digests == prepare_dataset(model, there).digests).all()


def test_a_column_whose_type_changes_between_files_is_read_row_by_row(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "folder"
    folder.mkdir()
    labels = ["yes", "no"] * 50
    numbers, words = np.arange(100) % 7, [str(value) if value % 9 else "x" for value in range(100)]
    tables = [
        {"a": numbers, "c": numbers, "y": labels},
        {"y": labels, "c": words, "a": words},
        {"a": numbers / 2, "c": numbers.astype(float), "y": labels, "more": labels},
    ]
    for number, columns in enumerate(tables):
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    options, spread = ReadOptions(schema={"a": "number", "c": "category", "y": "label"}), Spread.random(3, 2)
    as_lines = [f"{a},{c},{y}" for t in tables for a, c, y in zip(t["a"], t["c"], t["y"], strict=True)]
    lines = tmp_path / "lines.csv"
    lines.write_text("a,c,y\n" + "\n".join(line.replace(".0,", ",") for line in as_lines))
    here = large(folder, tmp_path / "store", spread, options)
    assert here.digests() == open_files(folder, options).digests() == open_files(lines, options).digests()
    assert any("'a' are not numbers" in note for note in here.notes)

    pq.write_table(pa.table({"a": [[1]] * 3, "c": [1, 2, 3], "y": ["yes"] * 3}), folder / "3.parquet")
    with refused("schema.unknown-column"):
        Source.of(folder, options)
    pq.write_table(pa.table({"a": [1], "y": ["yes"]}), folder / "3.parquet")
    with refused("schema.unknown-column"):
        Source.of(folder, options)


def test_bounds_are_told_before_they_are_passed(tmp_path, monkeypatch):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    source, folder = Source.of(path, options), tmp_path / "store"
    with refused("memory.too-small"):
        open_large(source, Split(), spread.n_partitions, folder, max_memory=8_000)
    with refused("memory.too-small"):
        open_large(source, Split(), spread.n_partitions, folder, max_memory=10**6)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with refused("disk.full"):
        open_large(source, Split(), spread.n_partitions, tmp_path / "other", max_memory=ROOMY)


def test_a_full_disk_in_the_middle_says_how_much_is_needed_and_goes_on(tmp_path, monkeypatch):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    whole, left = out_of_core.write_whole, [3]

    def full(target, write, **how):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device", str(target))
        whole(target, write, **how)

    monkeypatch.setattr("poisonproof.data.out_of_core.write_whole", full)
    with refused("disk.full"):
        large(path, tmp_path / "store", spread, options)
    left[0] = 10**6
    assert large(path, tmp_path / "store", spread, options).digests() == open_files(path, options).digests()


def test_the_pass_holds_no_more_of_more_rows(tmp_path):
    import tracemalloc

    peaks = []
    for rows in (300, 300, 1200):  # the first warms up
        path = as_csv(tmp_path / f"{rows}.csv", odd_rows(rows=rows))
        source = Source.of(path, ReadOptions(schema=ROLES, held_out=50 / rows))
        tracemalloc.start()
        open_large(source, Split(), rows // 50, tmp_path / str(len(peaks)), max_memory=ROOMY)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]


def test_samples_on_disk_give_any_rows(tmp_path):
    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    store = large(path, tmp_path / "store", spread, options).stored
    there, samples = open_files(path, options).train.samples, store.samples
    assert len(samples) == len(there)
    assert samples.layout == there.layout
    places = {}
    for row, key in enumerate(there.each_key(np.arange(len(there)))):
        places.setdefault(key, []).append(row)
    parts = [store.partition(j).samples for j in range(len(store))]
    rows = np.array([places[key].pop() for part in parts for key in part.each_key(np.arange(len(part)))])
    assert (samples.hashes() == there.content_hashes[rows]).all()
    assert (samples.hashes(7) == there.hashes(7)[rows]).all()
    chosen = np.array([200, 3, 3, 77, 0, len(rows) - 1])
    assert samples.subset(chosen).keys(np.arange(6)) == there.keys(rows[chosen])
    assert samples.key(77) == there.key(rows[77])
    assert samples.take(chosen).equals(there.take(rows[chosen]))
    assert not len(samples.subset([]))


def test_images_and_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "data.npz", X=np.zeros((20, 2)), y=np.arange(20) % 2)
    with refused("data.kind"):
        Source.of(tmp_path / "data.npz", ReadOptions())


def test_samples_tell_their_size_and_travel_as_a_name(tmp_path):
    import pickle
    import sys

    path, spread, options = as_csv(tmp_path / "data.csv", odd_rows()), Spread.random(4, 2), ReadOptions(schema=ROLES)
    there = open_files(path, options).train.samples
    assert sys.getsizeof(there) > len(there) * (8 + 3 * 4)  # a number and three codes
    samples = large(path, tmp_path / "store", spread, options).stored.samples
    sent = pickle.dumps(samples)
    assert len(sent) < 1000
    assert pickle.loads(sent).keys([5, 0]) == samples.keys([5, 0])
