"""Growth on paper: the formulas give the runs that were made, are straight lines, see no data and say "estimated"."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from command_line import poisonproof
from poisonproof.cli import reading
from poisonproof.errors import PoisonproofError
from poisonproof.planning.growth import HOUR, MEASURED, Scene, ballots, ensemble

RESULTS = Path(__file__).parents[2] / "benchmarks" / "RESULTS.md"
MILLION = 10**6
GROWING = ("storage", "network", "cpu_hours", "hours", "worker_memory")


def within(estimate, measured, factor):
    return measured / factor <= estimate <= measured * factor


@pytest.mark.parametrize(
    ("rows", "k", "d", "tests", "seconds", "peak"),
    [
        (MILLION, 20, 1, 20_000, 16.1, 1.05e9),
        (MILLION, 50, 16, 20_000, 104.5, 1.08e9),
        (10 * MILLION, 20, 1, 100_000, 106.5, 2.03e9),
        # The constants do not come from these.
        (100_000, 20, 1, 2_000, 6.9, 0.66e9),
        (MILLION, 20, 1, 20_000, 14.5, 0.97e9),
        (MILLION, 20, 1, 5_000, 16.0, 0.865e9),
    ],
)
def test_runs_that_were_made_come_out_within_a_quarter(rows, k, d, tests, seconds, peak):
    needs = ensemble(Scene(rows, MILLION, workers=1, tests=tests), k, d)
    assert within(HOUR * needs.cpu_hours, seconds, 1.25)
    assert needs.hours == pytest.approx(needs.cpu_hours)
    assert needs.caller_memory > peak


def test_training_in_memory_comes_out_too():
    """100,000 rows refitted at k = 50, d = 16 and at k = 20, d = 1: 8.73 and 0.82 CPU s (benchmarks/update.py)."""
    scene = Scene(100_000, MILLION, workers=1, tests=1)
    more = HOUR * (ensemble(scene, 50, 16).cpu_hours - ensemble(scene, 20, 1).cpu_hours)
    assert within(more, 8.73 - 0.82, 1.25)


@pytest.mark.parametrize(
    ("trained", "tests", "parquet", "folder"), [(980_000, 20_000, 57.2e6, 189.0e6), (98_051, 1_949, 5.8e6, 19.2e6)]
)
def test_bytes_on_disk_come_out_within_a_twentieth(trained, tests, parquet, folder):
    """At the end the spills, as large as the partitions, are gone."""
    scene = Scene(trained, MILLION, tests=tests)
    cells = trained * scene.columns
    partitions = cells * MEASURED.partition_cell.value + trained * MEASURED.partition_row.value
    source = cells * MEASURED.source_cell.value
    assert within(ensemble(scene, 20, 1).storage - partitions - source, folder, 1.05)
    assert within(source, parquet, 1.05)


@pytest.mark.parametrize(
    ("voters", "numbers", "tests", "seconds", "factor"),
    [
        (MILLION, 256, 100, 1.0, 1.05),
        (60_000, 980, 10_000, 15.4, 1.05),
        # The constants do not come from these.
        (25_000, 256, 2_000, 0.37, 1.5),
        (50_000, 256, 2_000, 0.72, 1.5),
        (100_000, 256, 2_000, 1.58, 1.5),
    ],
)
def test_ballots_that_were_counted_come_out(voters, numbers, tests, seconds, factor):
    once, twice = (
        ballots(Scene(voters, MILLION, columns=numbers, workers=1, tests=times * tests)).cpu_hours for times in (1, 2)
    )
    assert within(HOUR * (twice - once), seconds, factor)


def test_ballots_on_mnist_are_not_told_too_cheap():
    """20.7 CPU s from arrays; the formula also reads files, which arrays do not need."""
    seconds = HOUR * ballots(Scene(60_000, MILLION, columns=980, workers=1, classes=10)).cpu_hours
    assert 20.7 <= seconds <= 2 * 20.7


@pytest.mark.parametrize("needs", [lambda scene: ensemble(scene, 1000, 16), ballots], ids=["ensemble", "ballots"])
def test_everything_grows_in_a_straight_line(needs):
    one, two, ten = (needs(Scene(times * 10**8, MILLION)) for times in (1, 2, 10))
    for name in GROWING:
        first, second, last = (getattr(each, name) for each in (one, two, ten))
        assert second > first
        assert last - first == pytest.approx(9 * (second - first))


@pytest.mark.parametrize("needs", [lambda scene: ensemble(scene, 1000, 16), ballots], ids=["ensemble", "ballots"])
def test_workers_save_time_and_no_work(needs):
    few, many = (needs(Scene(10**9, MILLION, workers=workers)) for workers in (10, 100))
    assert few.cpu_hours == many.cpu_hours
    assert few.hours > many.hours > 0
    assert few.network < many.network


def test_a_run_hands_out_64_base_classifiers_at_a_time():
    alone, crowd = (ensemble(Scene(10**9, MILLION, workers=workers), 64, 1) for workers in (1, 1000))
    assert alone.hours == crowd.hours
    assert ensemble(Scene(10**9, MILLION, workers=2), 128, 1).hours < alone.hours


def test_each_constant_names_figures_that_stand_in_the_results():
    results = RESULTS.read_text("utf-8")
    named = 0
    for field in fields(MEASURED):
        constant = getattr(MEASURED, field.name)
        assert constant.value > 0
        assert constant.unit
        assert constant.source
        for figure in re.findall(r"\d+\.\d+", constant.source):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", results), (field.name, figure)
            named += 1
    assert named >= 12


def test_the_command_says_that_every_figure_is_estimated_and_opens_nothing(monkeypatch, tmp_path):
    def opened(*words):
        raise AssertionError("data were opened")

    monkeypatch.setattr(reading, "open_data", opened)
    monkeypatch.chdir(tmp_path)
    words = ("plan", "--samples", "1e9", "--rows-per-file", "1e6", "--k", "20,1000", "--d", "1,16", "--workers", 500)
    said = poisonproof(*words).stdout
    assert "every figure is estimated" in " ".join(said.split())
    assert said.count("ensemble") == 4
    record = json.loads(poisonproof(*words, "--json").stdout)
    growth = record["growth"]
    assert record["estimated"] is True
    assert [(one["who"], one["k"], one["d"], one["estimated"]) for one in growth["needs"]] == [
        *(("ensemble", k, d, True) for k in (20, 1000) for d in (1, 16)),
        ("ballots", None, None, True),
    ]
    assert growth["scene"]["files"] == 1000
    assert growth["constants"]["start"]["source"] == MEASURED.start.source
    assert list(tmp_path.iterdir()) == []


FILES = ("--rows-per-file", "1e6")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *(
            (
                ("--samples", text, *FILES),
                f"--samples must be a whole number from 1 to 1e18, like 60000 or 1e9. Got '{text}'.",
            )
            for text in ("0", "-5", "many", "nan", "inf", "2.5", "1e400", "")
        ),
        (("--samples", "1e9", "--rows-per-file", "0"), "--rows-per-file must be a whole number"),
        (("--samples", "1e9", *FILES, "--columns", "-1"), "--columns must be a whole number"),
        (("--samples", "1e9", *FILES, "--workers", "x"), "--workers must be a whole number"),
        (("--samples", "1e9", *FILES, "--k", "0"), "k and d must be at least 1"),
        (("--samples", "1e9", *FILES, "--d", "x"), "--d must be whole numbers"),
        (("--samples", "100", *FILES, "--k", "101"), "k·d at most 100"),
        (("--samples", "1e9", *FILES, "--attack-size", "3"), "--attack-size has no part in what --rows-per-file asks"),
        (("--samples", "1e9", *FILES, "--learner", "table"), "--learner is about data"),
        (FILES, "Say with --samples how many training samples"),
        (("--samples", "1e9", "--classes", "2", "--workers", "5"), "--workers is about files on a cluster"),
        (("digits", "--samples", "1e9", *FILES), "Give DATA or --samples, not both"),
        (("digits", *FILES, "--attack-size", "3"), "Give DATA or --rows-per-file, not both"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(words, sentence):
    done = poisonproof("plan", *words, code=2)
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_scene_of_nothing_is_refused():
    with pytest.raises(PoisonproofError, match=r"The number of rows per file must lie in 1 … 1e\+18. Got 0."):
        Scene(10, 0)
