"""Names and what they stand for; errors and their codes."""

import pickle

import pytest

from poisonproof import registry
from poisonproof.errors import DamagedFileError, MissingExtraError, PoisonproofError, missing_extra
from refused import refused


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setattr(registry, "LINES", {kind: dict(lines) for kind, lines in registry.LINES.items()})


@pytest.mark.parametrize("kind", registry.LINES)
def test_every_line_names_something_that_is_there(kind):
    assert all(found is not None for _, found in registry.every(kind))


def test_a_line_can_be_added_in_ones_own_process(lines):
    registry.add("tallies", "mine 1", dict)
    registry.add("tallies", "mine 2", "collections:OrderedDict")
    assert registry.find("tallies", "mine 1") is dict
    assert registry.find("tallies", "mine 2").__name__ == "OrderedDict"
    with refused("registry.taken"):
        registry.add("tallies", "mine 1", list)
    with refused("registry.kind"):
        registry.add("talies", "mine 3", list)


def test_an_unknown_name_is_answered_with_the_nearest():
    with refused("registry.unknown") as caught:
        registry.find("tallies", "poisonproof ballot 1")
    assert "did you mean 'poisonproof ballots 2'" in str(caught.value)
    with refused("registry.unknown") as caught:
        registry.find("tallies", "?")
    assert "poisonproof ballots 2" in str(caught.value)


def test_an_error_keeps_its_code_on_the_way_from_a_worker():
    assert PoisonproofError("A sentence.").code == "input"
    assert DamagedFileError("A sentence.").code == "file.damaged"
    for error in (PoisonproofError("A sentence.", code="x.y"), missing_extra("This", "that", "tables")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert isinstance(missing_extra("This", "that", "tables"), MissingExtraError)
