"""Data larger than memory: the same votes, digests and files as in memory, whatever interrupts the pass."""

import shutil

import numpy as np
import pytest

from poisonproof import FiniteAggregationClassifier, Split, Spread
from poisonproof.data import ReadOptions, open_files
from poisonproof.data.large import Source, open_large
from poisonproof.data.readers import several
from poisonproof.errors import PoisonproofError
from poisonproof.estimators.prepared import prepare_dataset
from poisonproof.learners.presets import preset
from poisonproof.partition import store_writing
from poisonproof.partition.store import PartitionStore, partition_file
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run

pytestmark = pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")  # 1e308 makes some of them fail

GB = 10**9
ROWS = 400


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Chunks of a few rows and spills of a few chunks, so that every border is crossed."""
    monkeypatch.setattr(several, "CELLS_PER_CHUNK", 150)
    monkeypatch.setattr("poisonproof.data.large.SMALLEST_BUFFER", 1 << 12)
    monkeypatch.setattr("poisonproof.data.large.SHARE_FOR_SPILL", GB)


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
    return open_large(source, split, spread.n_partitions, folder, max_memory=GB, complete_only=complete_only)


@pytest.mark.parametrize("write", [as_csv, as_parquet, as_folder])
@pytest.mark.parametrize(
    "spread", [Spread.random(5, 3), Spread.random(4, 1), Spread.paper(3, 2)], ids=["5x3", "dpa", "paper"]
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
    for name in ("votes.npy", "certificate.npz", "split.npy", "spread.npz", "models/members-00000.skops"):
        paths = [tmp_path / folder / name for folder in ("there", "here")]
        if paths[0].exists():
            assert paths[0].read_bytes() == paths[1].read_bytes(), name
    assert outcomes[0].manifest.settings == outcomes[1].manifest.settings
    assert outcomes[0].undefended_accuracy == outcomes[1].undefended_accuracy
    assert outcomes[0].manifest.premises == outcomes[1].manifest.premises
    assert outcomes[0].manifest.n_train == outcomes[1].manifest.n_train
