"""A row travels once: from file to report it is put into canonical form one time, for training or for testing."""

import pytest
from sklearn.naive_bayes import GaussianNB

from poisonproof import FiniteAggregationClassifier, open_files
from poisonproof.data import tables
from poisonproof.data.options import ReadOptions
from poisonproof.runs.report import write_report
from poisonproof.runs.run import run
from poisonproof.samples import convert as canonical

ROWS = 90
TABLES = {
    "numbers": (lambda row: f"{row % 17},{row % 5}", GaussianNB(), 0),  # as the reader makes them
    "numbers and categories": (lambda row: f"{row % 17},{'red' if row % 3 else 'blue'}", None, 1),
}


@pytest.mark.filterwarnings("ignore::poisonproof.PremiseWarning")
@pytest.mark.parametrize("name", TABLES)
def test_a_row_is_put_into_canonical_form_once(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")  # of a table with categories a DataFrame is made too
    cells, learner, times = TABLES[name]
    lines = [f"{cells(row)},{'yes' if row % 5 < 2 else 'no'}" for row in range(ROWS)]
    (tmp_path / "table.csv").write_text("\n".join(["size,colour,bought", *lines]) + "\n")
    counts = []

    def count(place, function, n_rows):
        real = getattr(place, function)
        monkeypatch.setattr(place, function, lambda *given: counts.append(n_rows(*given)) or real(*given))

    count(canonical, "read_loose", lambda X, width: len(X))
    count(canonical, "_from_frame", len)
    count(tables.TableSamples, "of", lambda columns: ROWS)  # the reader's own columns
    dataset = open_files(tmp_path / "table.csv", ReadOptions(label="bought"))
    write_report(run(dataset, FiniteAggregationClassifier(learner, k=3, d=2, n_jobs=1), tmp_path / "run"))
    assert counts == times * [ROWS]
