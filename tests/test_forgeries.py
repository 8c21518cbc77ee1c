"""Every forgery of the table is caught, or named as unchecked by the verdict, in each of the three columns."""

import re
import shutil

import pytest

from bezoar import verify
from forgeries import COLUMNS, FORGERIES, Caught
from forging import make_runs, sign

BY_NAME = {forgery.name: forgery for forgery in FORGERIES}
LINKS = ("a link in place of",)  # a link cannot be signed


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("runs"))


def options(column, data, n):
    return {"files": {}, "data": {"data": data}, "retrained": {"data": data, "retrain": n}}[column]


def test_there_are_sixty_kinds_and_no_two_of_one_name():
    assert len(FORGERIES) == len(BY_NAME) >= 60


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("run", ["plain", "inferred", "pooled", "grouped", "table"])
def test_honest_runs_are_verified_or_consistent(runs, run, column):
    folder, data = runs[run]
    verdict = verify(folder, **options(column, data, 10))
    assert verdict.word == ("CONSISTENT" if column == "files" else "VERIFIED"), str(verdict)
    assert verdict.exit_code == (5 if column == "files" else 0)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_forgery_is_caught_or_named_as_unchecked(runs, tmp_path, name):
    forgery = BY_NAME[name]
    honest, data = runs[forgery.run]
    folder = tmp_path / "run"
    shutil.copytree(honest, folder)
    forgery.forge(folder)
    if not name.startswith(LINKS):
        sign(folder)
    for column in COLUMNS:
        expected, verdict = getattr(forgery, column), verify(folder, **options(column, data, 10))
        if isinstance(expected, Caught):
            assert verdict.exit_code == 3, f"{column}: {verdict}"
            assert re.search(expected.words, str(verdict)), f"{column}: {verdict}"
        else:
            assert verdict.exit_code in ((5,) if column == "files" else (0, 5)), f"{column}: {verdict}"
            assert any(expected.words in item for item in verdict.unchecked), f"{column}: {verdict}"
            assert expected.words in verdict.verdict
            assert any(expected.words in item for item in verdict.as_dict()["not_checked"])
