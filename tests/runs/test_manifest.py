"""The manifest is a record: read once, checked once, written as it was read."""

from pathlib import Path

import pytest

from poisonproof.premises import Premise
from poisonproof.runs.manifest import Identity, Manifest
from refused import refused

IDENTITY = Identity({"name": "fish", "x_train": "1f"}, {"kind": "content"}, "GaussianNB()", [0, 1], False, 4, 2, "ab")
COMPLETE = Manifest(
    "complete",
    IDENTITY,
    {"numpy": "2"},
    environments=[],
    made_in=[],
    premises=(Premise("map", "numbers", declared=True),),
    notes=(),
    threat_model={},
    n_train=9,
    n_test=3,
    seconds={},
    files={},
)
WHERE = Path("run") / "manifest.json"


@pytest.mark.parametrize("manifest", [Manifest("running", IDENTITY, {}), COMPLETE, COMPLETE.but(changes=({"of": 8},))])
def test_what_is_written_is_read_again(manifest):
    assert Manifest.from_dict(manifest.as_dict(), WHERE) == manifest
    assert manifest.settings.n_subsets == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "poisonproof run 1"}, "is of format 'poisonproof run 1'; this version reads 'poisonproof run 4'"),
        ({"surprise": 1}, "has an entry 'surprise', which no run writes"),
        ({"status": "asleep"}, "a run has no status 'asleep'"),
        ({"status": 3}, "'status' is int, which it cannot be"),
        ({"n_train": "many"}, "'n_train' is str, which it cannot be"),
        ({"files": None}, "of a complete run it must state 'files'"),
        ({"settings": {**IDENTITY.as_dict(), "d": 1.5}}, "settings in .* 'd' is float"),
        ({"settings": {"k": 4}}, "settings in .* does not state 'dataset'"),
        ({"settings": []}, "'settings' is list"),
    ],
)
def test_what_no_run_writes_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        Manifest.from_dict({**COMPLETE.as_dict(), **change}, WHERE)


def test_a_missing_entry_is_named():
    record = COMPLETE.as_dict()
    del record["environment"]
    with refused("file.damaged"):
        Manifest.from_dict(record, WHERE)
