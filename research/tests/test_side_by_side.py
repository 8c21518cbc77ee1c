"""Runs side by side, whoever votes in them: tables, figures and certificates of what samples said, from the files."""

import json
from functools import partial

import pytest

from command_line import poisonproof
from poisonproof import Certificate
from research.paper.__main__ import app, beside_each_other, opened_run
from research.paper.beside_figure import beside_curves
from wine import wine_runs

research = partial(poisonproof, of=app)
runs = pytest.fixture(scope="module")(wine_runs)


def by_hand(folder, truth):
    """Clean, balanced and certified shares, and the half-way size, one sample at a time."""
    certificate = Certificate.load(folder / "certificate.npz")
    held = [
        radius if label == true else -1
        for label, radius, true in zip(certificate.labels.tolist(), certificate.radius.tolist(), truth, strict=True)
    ]
    classes = sorted(set(truth))

    def share(size):
        return sum(radius >= size for radius in held) / len(held)

    def balanced(size):
        own = [[radius for radius, true in zip(held, truth, strict=True) if true == label] for label in classes]
        return sum(sum(radius >= size for radius in one) / len(one) for one in own) / len(classes)

    half = max((size for size in range(200) if share(size) >= 0.5), default=0)
    return share, balanced, half


def test_the_table_of_all_runs_says_what_their_files_say(runs):
    folder, truth = runs
    names = ("narrow", "wide", "neighbours", "base")
    records = json.loads(research("table", *(folder / name for name in names), "--json").stdout)
    assert [record["voters"] for record in records] == [
        "ballots, near = 1.5, two-sided", "ballots, near = 1.5, one-sided", "neighbours, K = 9", "k = 5, d = 1",
    ]  # fmt: skip
    largest = max(int(Certificate.load(folder / name / "certificate.npz").radius.max()) for name in names)
    for name, record in zip(names, records, strict=True):
        share, balanced, half = by_hand(folder / name, truth)
        assert record["half_at"] == half
        assert record["clean_accuracy"] == pytest.approx(100 * share(0), abs=0.01)
        assert record["balanced_accuracy"] == pytest.approx(100 * balanced(0), abs=0.01)
        assert record["majority_share"] == pytest.approx(100 * max(map(truth.count, "abc")) / len(truth), abs=0.01)
        assert record["attack_size"] == [size for size in (1, 2, 5, 10, 20, 50, 100) if size <= largest]
        for at, size in enumerate(record["attack_size"]):
            assert record["certified_fraction"][at] == pytest.approx(100 * share(size), abs=0.01)
            assert record["certified_fraction"][at] <= 100 * share(size) + 1e-9  # never to the better side
            assert record["certified_fraction_balanced"][at] == pytest.approx(100 * balanced(size), abs=0.01)
    text = research("table", *(folder / name for name in names)).stdout
    assert "in brackets the mean over classes. A constant answer is right on" in text
    assert f"{records[0]['clean_accuracy']:.2f} ({records[0]['balanced_accuracy']:.2f})" in text


def test_what_has_no_meaning_where_samples_vote_is_left_out_with_the_reason(runs):
    folder, _ = runs
    both = (folder / "narrow", folder / "neighbours", folder / "base")
    text = research("table", *both, "--table", "2").stdout
    first, second = text.split("\n\n")
    assert "base accuracy" in first
    assert "near" not in first
    assert "base accuracy and the growth over the DPA bound are of base classifiers" in second.splitlines()[0]
    assert "base accuracy" not in second.splitlines()[1]
    *_, ballots, neighbours = json.loads(research("table", *both, "--table", "3", "--json").stdout)
    assert ballots["certified_fraction"] <= ballots["certified_accuracy"] <= ballots["clean_accuracy"]
    assert neighbours["certified_accuracy"] is None
    best = json.loads(research("table", *both, "--table", "frontier", "--json").stdout)["wine.csv"]["of_all"]
    assert set(best["voters"]) <= {"ballots, near = 1.5", "neighbours, K = 9", "k = 5, d = 1"}
    assert "wide" not in research("table", folder / "wide", "--table", "medians").stdout
    assert "left out: narrow" in research("table", *both, "--table", "later", code=2).stderr
    for words, sentence in {
        ("table", folder / "narrow", "--table", "certificates"): "There is no table 'certificates' of narrow",
        ("table", folder / "narrow", "--table", "9"): "The table is one of",
        ("table", folder / "narrow", "--format", "pdf"): "The format of a table is one of",
        ("plot", folder / "narrow", "--figure", "4", "--out", folder / "p.svg"): "both of base classifiers; in",
        ("plot", folder / "narrow", "--out", folder / "p.doc"): "A figure is written as",
        ("plot", folder / "nothing", "--out", folder / "p.svg"): "holds no run",
    }.items():
        assert sentence in " ".join(research(*words, code=2).stderr.split())


def test_runs_that_count_other_things_or_other_samples_are_not_set_side_by_side(runs, tmp_path):
    folder, _ = runs
    data = (folder / "wine.csv", "--label", "class", "--classes", "a,b,c")
    poisonproof("run", *data, "--method", "neighbours", "--n-neighbors", 3, "--out", tmp_path / "other")
    done = research("table", folder / "narrow", tmp_path / "other", code=2)
    assert "have different test samples of wine.csv" in " ".join(done.stderr.split())
    poisonproof(
        "run", *data, "--test", folder / "test.csv", "--group-column", "maker", "--method", "neighbours",
        "--n-neighbors", 3, "--out", tmp_path / "grouped",
    )  # fmt: skip
    done = research("table", folder / "narrow", tmp_path / "grouped", code=2)
    assert "count contributors and training samples; show each kind by itself" in " ".join(done.stderr.split())


def test_the_figure_has_a_line_for_each_run_and_no_empty_panel(runs):
    folder, truth = runs
    names = ("narrow", "neighbours", "base")
    figure = beside_curves(beside_each_other([opened_run(folder / name, None) for name in names]))
    for axes in figure.axes:
        assert len([line for line in axes.lines if len(line.get_xdata()) > 2]) == 3
    drawn = figure.axes[0].lines[0]
    share, balanced, _ = by_hand(folder / "narrow", truth)
    for size, value in zip(drawn.get_xdata().tolist(), drawn.get_ydata().tolist(), strict=True):
        assert value == pytest.approx(100 * share(size))
    for size, value in zip(drawn.get_xdata().tolist(), figure.axes[1].lines[0].get_ydata().tolist(), strict=True):
        assert value == pytest.approx(100 * balanced(size))
    out = folder / "curves.svg"
    research("plot", *(folder / name for name in names), "--out", out)
    text = out.read_text()
    assert all(label in text for label in ("ballots, near = 1.5; half at", "neighbours, K = 9", "k = 5, d = 1"))
    assert "left out: narrow" in research(
        "plot", *(folder / name for name in names), "--figure", "4", "--out", out
    ).stderr  # fmt: skip
