"""The paper's tables from our runs: arithmetic, quick look, refusals, and the committed results."""

import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from command_line import poisonproof
from poisonproof import (
    Spread,
    Votes,
    certified_accuracy,
    certify,
)
from poisonproof.learners.inspection import describe
from poisonproof.system.files import read_record
from research import fill_measured
from research.learners import nin_mirror
from research.paper.__main__ import app
from research.paper.figures import bound_improvement, certified_curves, figures, save
from research.paper.measure import (
    at,
    curve,
    half,
    measure,
)
from research.paper.page import as_json, cells_above, write_campaign
from research.paper.published import NAMES, published, published_cell
from research.paper.results import collected, frontier, label_of, percent, told_apart
from research.paper.rows import SIZES, frontier_rows, learner_of, table_rows
from research.paper.tables import Table, tables

research = partial(poisonproof, of=app)


def measures(k=4, d=3, seed=0, name="mnist", methods=()):
    rng = np.random.default_rng(seed)
    spread = Spread.random(k, d)
    truth = rng.integers(4, size=60)
    matrix = np.where(rng.random((60, k * d)) < 0.7, truth[:, None], rng.integers(4, size=(60, k * d)))
    votes = Votes(matrix, spread, classes=range(4))
    settings = SimpleNamespace(name=name, dataset={"name": name}, learner="Learner()")
    manifest = SimpleNamespace(settings=settings, n_train=60_000, files={"votes.npy": "0" * 64}, environment={})
    return measure(votes, certify(votes), truth, manifest, methods), votes, truth


def test_the_rows_are_those_of_the_paper():
    rows = [row for name in NAMES for row in table_rows(name)]
    assert [(NAMES[row.dataset], row.k, row.d) for row in rows] == [
        (row["dataset"], row["k"], row["d"]) for row in published()["statistics"]
    ]
    for row in published()["certified_fraction"]:
        own = {theirs: ours for ours, theirs in NAMES.items()}[row["dataset"]]
        assert set(row["attack_size"]) <= set(SIZES[own, row["k"]])
    for row in published()["run_off_election_and_boosted"]["best_published"]:
        own = {theirs: ours for ours, theirs in NAMES.items()}[row["dataset"]]
        assert set(row["attack_size"]) <= set(SIZES[own, row["k"]])
    assert len({row.name for row in (*table_rows("gtsrb"), *frontier_rows("gtsrb"))}) == 14
    assert all(learner_of(name).get_params() for name in NAMES)
    assert describe(learner_of("cifar10", "nin")) == describe(nin_mirror()) != describe(learner_of("mnist", "nin"))


def test_measures_are_what_the_paper_defines():
    found, votes, truth = measures()
    theorem, bound = certify(votes), certify(votes, "dpa-bound")
    right = theorem.prediction == truth
    grown = [r - b for ok, r, b in zip(right, theorem.radius, bound.radius, strict=True) if ok and r > b]
    assert (found["clean"], found["grown"], found["growth"]) == (right.sum(), len(grown), sum(grown))
    assert found["base"] == (votes.matrix == truth[:, None]).sum()
    assert found["shared_attack_of_size_1"]["lower"] == certified_accuracy(votes, truth, 1).lower_count
    for size in range(5):
        assert at(found["certified"]["finite-aggregation"], size) == (right & (theorem.radius >= size)).sum()
    tops = [sorted(np.bincount(row, minlength=4))[-2:] for row in votes.matrix]
    assert found["tied"] == sum(first == second for first, second in tops)


def test_curves_and_their_halves():
    votes = Votes(np.zeros((4, 9), int), Spread.random(9, 1), classes=range(2))
    counts = curve(certify(votes), np.array([0, 0, 1, 0]))
    assert counts == [3, 3, 3, 3, 3]
    assert at(counts, 5) == 0
    assert half(counts, 4) == 4
    assert half([3, 2, 1], 4) == 1
    assert half([1, 1], 4) == 0


def test_records_tables_and_page_say_the_same(tmp_path):
    rows = [measures(k, d, seed)[0] for seed, (k, d) in enumerate([(1200, 1), (1200, 8), (30, 1), (20, 1)])]
    results = write_campaign(tmp_path, rows, {})
    assert json.loads((tmp_path / "results.json").read_text())["statistics"] == results["statistics"]
    ours, theirs = results["certified_fraction"][1], published_cell("certified_fraction", "MNIST", 1200, 8)
    assert ours["attack_size"] == [*theirs["attack_size"], 500]
    first = tables(results)["table1"][0]
    cell = first.cells[1][1]
    gain = ours["certified_fraction"][0] - results["certified_fraction"][0]["certified_fraction"][0]
    assert cell == f"{ours['certified_fraction'][0]:.2f} ({gain:+.2f}) / 94.38"
    page = (tmp_path / "paper.html").read_text()
    assert cell in page
    assert "://" not in page.replace("http://www.w3.org", "")
    above, cells = cells_above(results)
    assert cells == 10
    assert above == sum(
        value > beside
        for row in results["certified_fraction"]
        for value, beside in zip(
            row["certified_fraction"],
            published_cell("certified_fraction", "MNIST", 1200, row["d"])["certified_fraction"],
            strict=False,
        )
    )
    assert (tmp_path / "frontier-mnist.svg").read_text().startswith("<?xml")
    again = tmp_path / "again.svg"
    save(figures(rows)["frontier-mnist"], again)
    assert again.read_bytes() == (tmp_path / "frontier-mnist.svg").read_bytes()


def test_the_frontier_is_the_best_of_all():
    rows = [measures(k, 1, seed)[0] for seed, k in enumerate((9, 30, 80))]
    found = frontier(rows)
    for size, best in zip(found["attack_size"], found["plain"], strict=True):
        assert best["certified_fraction"] == max(
            percent(at(row["certified"]["finite-aggregation"], size), row["n_test"]) for row in rows
        )
    assert found["designed"] == found["run_off"] == [None] * len(found["attack_size"])


def test_tables_in_three_formats():
    table = Table("50 % & more", ("a", "b_c"), (("1", "–"), ("22", "x")))
    assert table.rendered("text") == "50 % & more\n a  b_c\n 1    –\n22    x\n"
    rows = table.rendered("markdown").splitlines()[2:]
    assert rows == ["| a | b\\_c |", "| --- | --- |", "| 1 | – |", "| 22 | x |"]
    latex = table.rendered("latex")
    assert r"b\_c" in latex
    assert latex.count(r"\\") == 3
    with pytest.raises(ValueError, match="text, markdown, latex"):
        table.rendered("word")


def test_lists_of_numbers_stand_on_one_line():
    value = {"a": [1, -2.5, 3], "b": ["x", 1], "c": [], "d": [[1, 2], [3, 4]]}
    assert json.loads(as_json(value)) == value
    assert '"a": [1, -2.5, 3]' in as_json(value)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Small stand-ins for the three data sets, in the layout of the real ones."""
    folder = tmp_path_factory.mktemp("data")
    images, labels = load_digits().images[:400] * 15, load_digits().target[:400]
    for name, side, colours in (("mnist", 28, 0), ("cifar10", 32, 3), ("gtsrb", 48, 3)):
        at_side = np.arange(side) * 8 // side
        grey = images[:, at_side][:, :, at_side].astype(np.uint8)
        x = np.repeat(grey[..., None], colours, axis=3) if colours else grey
        np.savez(folder / f"{name}.npz", x_train=x[:350], y_train=labels[:350], x_test=x[350:], y_test=labels[350:])
    return folder


def test_a_quick_look_at_the_whole(pictures, tmp_path):
    done = research("run", "--quick", "--data-dir", pictures, "--out", tmp_path, "--only", "mnist,gtsrb")
    assert "mnist-quick, k = 60" in done.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["statistics"]) == 4 + 8
    page = (tmp_path / "paper.html").read_text()
    assert "quick look" in page
    assert (tmp_path / "figure4-gtsrbquick-k10.png").stat().st_size > 5000
    digest = read_record(tmp_path / "mnist" / "k60-d8.json")["votes_sha256"]
    (tmp_path / "mnist" / "k60-d8.json").unlink()
    for path in (tmp_path / "mnist" / "k60-d8" / "votes").iterdir():
        path.unlink()
    (tmp_path / "mnist" / "k60-d8" / "manifest.json").unlink()
    again = ("run", "--quick", "--data-dir", pictures, "--out", tmp_path, "--only", "mnist", "--json", "--n-jobs", 1)
    said = json.loads(research(*again).stdout)
    assert said["statistics"] == results["statistics"][:4]
    assert read_record(tmp_path / "mnist" / "k60-d8.json")["votes_sha256"] == digest
    collected_only = research("run", "--quick", "--collect", "--out", tmp_path, "--only", "mnist").stdout
    assert collected_only.partition("\n\n")[0] in done.stdout


def test_bad_input_to_paper_table_and_plot(tmp_path):
    assert "the data sets mnist, cifar10, gtsrb" in research("run", "--only", "imagenet", code=2).stderr
    assert "Nothing has been run" in research("run", "--collect", "--out", tmp_path, code=2).stderr
    assert "holds no run" in research("table", tmp_path, code=2).stderr
    assert "The table is one of" in research("table", tmp_path, "--table", "7", code=2).stderr
    assert "The figure is one of" in research("plot", tmp_path, "--out", "x.png", "--figure", "9", code=2).stderr
    assert ".png, .svg, .pdf" in research("plot", tmp_path, "--out", "x.gif", code=2).stderr


def test_tables_and_figures_of_runs(tmp_path):
    for d in (1, 2):
        poisonproof("run", "digits", "--k", 6, "--d", d, "--no-undefended", "--out", tmp_path / f"d{d}")
    runs = (tmp_path / "d1", tmp_path / "d2")
    assert read_record(tmp_path / "d2" / "manifest.json")["undefended_accuracy"] is None
    text = research("table", *runs).stdout
    clean = read_record(tmp_path / "d2" / "manifest.json")["clean_accuracy"]
    stats = json.loads(research("table", *runs, "--table", 2, "--format", "json").stdout)
    assert stats[1]["clean_accuracy"] == round(100 * clean, 2)
    assert re.search(r"^2 +\S+ \([+-]\d", text, re.MULTILINE)
    research("table", *runs, "--table", 3, "--format", "latex", "--out", tmp_path / "t.tex")
    assert r"\begin{tabular}" in (tmp_path / "t.tex").read_text()
    for suffix, head in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        research("plot", *runs, "--figure", 4, "--out", tmp_path / f"f{suffix}")
        assert (tmp_path / f"f{suffix}").read_bytes().startswith(head)


def test_runs_are_labelled_by_what_tells_them_apart():
    row = {"dataset": "D", "k": 5.0, "d": 2, "designed": False, "n_train": 9, "learner": "Long(a=1)", "folder": "one"}
    alone = told_apart([row, {**row, "d": 1}])
    assert [label_of(one) for one in alone] == ["2", "1"]
    learners = told_apart([{**row, "asked_learner": "table"}, {**row, "asked_learner": "bayes"}])
    assert [label_of(one) for one in learners] == ["2, table", "2, bayes"]
    spreads = told_apart([row, {**row, "designed": True}])
    assert [label_of(one) for one in spreads] == ["2, random spread", "2, designed spread"]
    folders = told_apart([row, {**row, "folder": "two"}, {**row, "designed": True, "folder": "three"}])
    assert [label_of(one) for one in folders] == ["2, one", "2, two", "2, three"]


@pytest.mark.parametrize(("draw", "needs"), [(certified_curves, "a run with d = 1"), (bound_improvement, "d above 1")])
def test_no_panel_stays_empty(draw, needs):
    curve = {"finite-aggregation": [9, 5, 2], "dpa-bound": [9, 4]}
    rows = [{"dataset": "D", "k": 5.0, "d": d, "n_test": 10, "certified": curve} for d in (1, 2)]
    assert len(draw(rows).axes) == 2
    alone = rows[1:] if draw is certified_curves else rows[:1]
    (panel,) = draw(alone).axes
    assert panel.lines
    assert all(axes.lines[1:] for axes in draw(rows).axes), needs


COMMITTED = Path(__file__).parents[1] / "paper" / "results"


@pytest.mark.parametrize("name", ["results.json", "weak.json"])
def test_the_committed_results_agree_with_themselves(name):
    results = json.loads((COMMITTED / name).read_text("utf-8"))
    again = collected(results["rows"], results["costs"])
    for name in ("certified_fraction", "statistics", "certified_accuracy_attack_size_1", "frontier"):
        assert again[name] == results[name], name
    for row in results["rows"]:
        theorem, bound = (row["certified"][name] for name in ("finite-aggregation", "dpa-bound"))
        assert theorem[0] == bound[0] == row["clean"]
        assert all(at(theorem, size) >= at(bound, size) for size in range(len(bound)))
        assert theorem == sorted(theorem, reverse=True)
        assert at(theorem, 1) <= row["shared_attack_of_size_1"]["lower"] <= row["shared_attack_of_size_1"]["upper"]
        assert len(row["votes_sha256"]) == 64


def test_weak_rows_are_the_papers_with_base_classifiers_as_weak():
    results = json.loads((COMMITTED / "weak.json").read_text("utf-8"))
    assert results["statistics"]
    for row in results["statistics"]:
        theirs = published_cell("statistics", row["dataset"], row["k"], row["d"])
        assert abs(row["base_accuracy"] - theirs["base_accuracy"]) < 4
    from research.paper import weak

    names = {theirs: ours for ours, theirs in NAMES.items()}
    for row in results["rows"]:
        assert row["learner"] == describe(weak.LEARNERS[names[row["dataset"]], round(row["k"])]())


def test_the_page_says_what_the_committed_results_say():
    page = fill_measured.PAGE.read_text("utf-8")
    assert fill_measured.filled(page) == page
    assert set(re.findall(r"<!-- (\w+) -->", page)) - {"end"} == set(fill_measured.parts())


def test_words_beside_a_panel_stay_beside_it():
    rows = told_apart(
        [
            {**measures(d=1)[0], "learner": "TableClassifier(with_much=1, to_say=2)"},
            {**measures(d=1, seed=1)[0], "learner": "boosting"},
        ]
    )
    figure = certified_curves(rows)
    figure.canvas.draw()
    title = figure._suptitle.get_window_extent()
    for side in figure.axes:
        label = side.yaxis.label.get_window_extent()
        assert label.y0 >= 0
        assert label.y1 <= title.y0
