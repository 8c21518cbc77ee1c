"""Every forgery of the table is caught, or named as unchecked by the verdict, in each of the three columns."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

from forgeries import COLUMNS, FORGERIES, Caught
from forging import make_runs, sign
from poisonproof import verify
from poisonproof.evidence.facts import gather
from poisonproof.system.files import open_arrays, read_record, sha256_of, write_arrays, write_record
from poisonproof.verification.verdict import CheckFailed

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
@pytest.mark.parametrize(
    "run", ["plain", "inferred", "pooled", "grouped", "table", "ballots", "neighbours", "contributors"]
)
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
            with pytest.raises(CheckFailed, match="NOT VERIFIED"):  # and so it yields no evidence
                gather(folder, data, verdict)
        else:
            assert verdict.exit_code in ((5,) if column == "files" else (0, 5)), f"{column}: {verdict}"
            assert any(expected.words in item for item in verdict.unchecked), f"{column}: {verdict}"
            assert expected.words in verdict.verdict
            assert any(expected.words in item for item in verdict.as_dict()["not_checked"])


@pytest.mark.parametrize("nonsense", [5, None, [], {"a": []}, "x"])
def test_nonsense_in_place_of_any_entry_never_raises(runs, tmp_path, nonsense):
    """Whatever stands where an entry should be, there is a verdict, and it is VERIFIED for no run."""
    honest, _ = runs["plain"]
    held, facts = open_arrays(honest / "certificate.npz")
    for name in (*facts, *(f"model {name}" for name in read_record(honest / "models" / "model.json"))):
        folder = tmp_path / "run"
        shutil.copytree(honest, folder)
        if name.startswith("model "):
            record = read_record(folder / "models" / "model.json")
            write_record(folder / "models" / "model.json", {**record, name[6:]: nonsense})
        else:
            write_arrays(folder / "certificate.npz", held, {**facts, name: nonsense})
        manifest = read_record(folder / "manifest.json")
        for changed in ("certificate.npz", "models/model.json"):
            manifest["files"][changed] = sha256_of(folder / changed)
        write_record(folder / "manifest.json", manifest)
        assert verify(folder).word != "VERIFIED"
        shutil.rmtree(folder)
    shutil.copytree(honest, folder)
    manifest = read_record(folder / "manifest.json")
    for name in manifest:
        write_record(folder / "manifest.json", {**manifest, name: nonsense})
        assert verify(folder).word != "VERIFIED"
    for name in manifest["settings"]:
        write_record(folder / "manifest.json", {**manifest, "settings": {**manifest["settings"], name: nonsense}})
        assert verify(folder).word != "VERIFIED"


def test_the_published_table_is_this_one():
    docs = Path(__file__).parents[2] / "docs"
    assert runpy.run_path(str(docs / "fill_verify.py"))["table"]() == (docs / "forgeries.csv").read_text("utf-8")
