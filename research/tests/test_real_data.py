"""research/studies/real-data.md is what research/studies/real_data.py makes of its record."""

import json
from pathlib import Path

from research.studies import real_data

HERE = Path(real_data.__file__).parent


def test_the_page_is_made_from_the_record():
    record = json.loads((HERE / "real_data.json").read_text())
    assert real_data.page(record) == (HERE / "real-data.md").read_text()
    for row in record:  # whoever is not above the majority says so
        assert row["clean"] > row["majority"] or row["warning"], row["name"]
