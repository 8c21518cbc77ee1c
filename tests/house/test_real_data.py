"""docs/real-data.md is what benchmarks/real_data.py makes of its record."""

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]


def test_the_page_is_made_from_the_record(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "benchmarks"))
    real_data = pytest.importorskip("real_data")
    record = json.loads((HERE / "benchmarks" / "real_data.json").read_text())
    assert real_data.page(record) == (HERE / "docs" / "real-data.md").read_text()
    assert len(record) >= 12
    assert {row["kind"] for row in record} == {"table", "text", "image"}
    assert sum(row["majority"] > 0.8 for row in record) >= 3
    for row in record:  # whoever is not above the majority says so
        assert row["clean"] > row["majority"] or row["warning"], row["name"]
    sys.modules.pop("real_data", None)
