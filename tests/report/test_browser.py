"""The report in a real browser."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.naive_bayes import GaussianNB

from browsing import HOSTILE, browser, look, pytestmark  # noqa: F401
from outcomes import outcome
from poisonproof import FiniteAggregationClassifier, certify, load
from poisonproof.display import percent, shown
from poisonproof.planning.compare import compare
from poisonproof.premises import Premise
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.report import write_report
from poisonproof.runs.run import run


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    samples = replace(load("digits"), name=HOSTILE[0])
    model = FiniteAggregationClassifier(GaussianNB(), k=10, d=3, classes=range(10))
    done = run(samples, model, tmp_path_factory.mktemp("run"), RunSettings(votes_only=True))
    pictures = replace(done, x_test=done.x_test.reshape(-1, 8, 8))
    return pictures, write_report(pictures)


def count(page, place):
    return int(page.locator(place).inner_text().replace(",", ""))


def check_state_at(page, done, size):
    """Every number and every tile of the page is what Python says at this attack size."""
    certificate, y = done.certificate, done.y_test
    right = certificate.evaluate(y).right
    held = right & (certificate.radius >= size)
    assert count(page, "#size-now") == size
    assert (count(page, "#certified"), count(page, "#open"), count(page, "#wrong")) == (
        held.sum(),
        (right & ~held).sum(),
        (~right).sum(),
    )
    assert page.locator("#certified-share").inner_text() == f"{percent(held.mean())} %"
    balanced = float(certificate.evaluate(y).certified_fraction_balanced(size))
    assert page.locator("#certified-balanced").inner_text() == f"{percent(balanced)} %"
    states = page.locator(".tile").evaluate_all(
        "tiles => tiles.map(t => [+t.dataset.row, t.dataset.state, t.querySelector('.state').textContent])"
    )
    words = {"certified": "certified", "open": "not certified", "wrong": "wrong"}
    for row, state, said in states:
        assert state == ("certified" if held[row] else "open" if right[row] else "wrong")
        assert said == words[state]
    said = page.locator("[data-class]").all_inner_texts()
    for at, label in enumerate(certificate.classes.tolist()):
        own = y == label
        assert said[at] == (f"{percent(held[own].mean())} %" if own.any() else "–")
    return {state for _, state, _ in states}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_a_run_opens_without_errors_or_network(digits, look, width, scheme):
    page = look(digits[1], width, scheme)
    assert "predictions are right and cannot be" in page.locator("h1").inner_text()
    assert page.locator("th[scope=col]").count() == 21
    assert page.get_by_text(HOSTILE[0]).count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".tile img").evaluate_all("all => all.every(image => image.naturalWidth === 8)")
    page.emulate_media(media="print")
    assert not page.locator("#size").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_slider_works_by_keyboard(digits, look):
    done, path = digits
    page = look(path)
    slider = page.get_by_label("Attack size", exact=True)
    slider.focus()
    seen = set()
    page.keyboard.press("Home")
    for size in range(int(done.certificate.radius.max()) + 2):
        seen |= check_state_at(page, done, size)
        assert slider.get_attribute("aria-valuetext") == f"{size} training samples"
        page.keyboard.press("ArrowRight")
    assert seen == {"certified", "open", "wrong"}
    page.keyboard.press("End")
    assert count(page, "#certified") == 0
    assert page.locator("#counts").get_attribute("aria-live") == "polite"
    assert page.locator("h2 .size-now").inner_text() == page.locator("#size-now").inner_text()


def test_a_sample_shows_its_votes(digits, look):
    done, path = digits
    certificate = done.certificate
    counts = done.votes.counts()
    page = look(path)
    tiles = page.locator(".tile")

    def shown():
        chosen = page.locator(".tile[aria-current]")
        assert chosen.count() == 1
        row = int(chosen.get_attribute("data-row"))
        assert page.locator("#sample-title").inner_text() == f"Test sample {row}"
        assert page.locator("#sample-picture").get_attribute("src") == chosen.locator("img").get_attribute("src")
        for place, value in {
            "prediction": certificate.prediction[row],
            "truth": done.y_test[row],
            "runner-up": certificate.runner_up[row],
            "margin": certificate.margin[row],
            "radius": certificate.radius[row],
        }.items():
            assert page.locator(f"#sample-{place}").inner_text() == str(value)
        told = {}
        for line in page.locator("#votes tbody tr").all():
            name, *tags = line.locator("th").text_content().split(" ", 1)
            told[int(name)] = int(line.locator("td").first.inner_text())
            assert ("prediction" in "".join(tags)) == (int(name) == certificate.prediction[row])
            assert ("runner-up" in "".join(tags)) == (int(name) == certificate.runner_up[row])
            assert ("true label" in "".join(tags)) == (int(name) == done.y_test[row])
        assert all(told.get(code, 0) == votes for code, votes in enumerate(counts[row]))
        return row

    first = shown()
    tiles.nth(20).click()
    assert shown() != first
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert shown() == int(tiles.nth(21).get_attribute("data-row"))
    page.keyboard.press("End")
    page.keyboard.press("Space")
    assert page.locator("#sample-state").inner_text() == "✕ wrong"
    shown()


def table(n):
    return pd.DataFrame({HOSTILE[1]: np.arange(n) / 3, "b": [HOSTILE[at % 4] for at in range(n)]})


CASES = {
    "table": lambda n: table(n),
    "texts": lambda n: [f"{at} {HOSTILE[at % 4]}" for at in range(n)],
    "numbers": lambda n: np.linspace(0, 1, n * 40).reshape(n, 40),
    "sparse": lambda n: sp.random(n, 500, 0.1, "csr", random_state=0),
    "grey": lambda n: np.arange(n * 100, dtype=np.uint8).reshape(n, 10, 10),
    "colour": lambda n: np.arange(n * 100 * 120 * 3, dtype=np.uint8).reshape(n, 100, 120, 3),
}


@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_sample_shows_as_text_or_picture(kind, look, tmp_path):
    n = 60
    y = [HOSTILE[at % 3] for at in range(n)]
    done = outcome(tmp_path, CASES[kind](n), y, HOSTILE, name=HOSTILE[1], classes_inferred=True)
    done = replace(
        done,
        manifest=done.manifest.but(
            notes=HOSTILE, premises=tuple(Premise("x", text, declared=True) for text in HOSTILE)
        ),
    )
    page = look(write_report(done))
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title().startswith(HOSTILE[1])
    assert page.locator("#classes + div tbody th").all_text_contents() == [shown(label) for label in HOSTILE]
    page.locator("#size").focus()
    page.keyboard.press("ArrowRight")
    check_state_at(page, done, int(page.locator("#size").input_value()))
    rows = page.locator(".tile").evaluate_all("tiles => tiles.map(tile => +tile.dataset.row)")
    for remainder in range(4):
        row = next(row for row in rows if row % 4 == remainder)
        page.locator(f".tile[data-row='{row}']").click()
        assert page.locator("#sample-truth").text_content() == y[row]
        cells = page.locator("#sample-cells dd").all_text_contents()
        if kind in ("grey", "colour"):
            width = page.locator("#sample-picture").evaluate("image => image.naturalWidth")
            assert (width, cells) == (min(done.x_test.shape[2], 64), [])
        elif kind == "table":
            assert page.locator("#sample-cells dt").first.text_content() == HOSTILE[1]
            assert cells == [f"{row / 3:.6g}", shown(HOSTILE[remainder])]
        elif kind == "texts":
            assert cells == [f"{row} {shown(HOSTILE[remainder])}"]
        else:
            assert len(cells) == 31
            assert cells[-1].endswith("more")


def test_contributors_and_an_unknown_comparison(look, tmp_path):
    done = outcome(tmp_path, ["a"] * 30, [0, 1] * 15, [0, 1], split="group", undefended=None)
    page = look(write_report(done))
    assert page.locator("h1").inner_text().rstrip(".").endswith(("poisoned contributors", "poisoned contributor"))
    assert page.locator(".price b").nth(1).inner_text() == "? %"
    assert page.locator("path.undefended").count() == 0
    check_state_at(page, done, int(page.locator("#size").input_value()))


# Votes for class 0 of 10, k = 10 and d = 1, and the true class of each test sample; margin m gives radius m // 2.
ODD = {
    "single": ([10], [0]),
    "all wrong": ([10, 0, 10, 0], [1, 0, 1, 0]),
    "constant": ([10, 10, 9, 10], [0, 0, 0, 1]),
    "nearly constant": ([10] * 11 + [2], [0] * 9 + [1, 1, 0]),
    "no better": ([10, 10, 2, 2], [0, 0, 0, 1]),
    "radius 0": ([5, 4, 5, 4], [0, 1, 0, 1]),
    "some": ([5, 4, 5, 6, 10], [0, 1, 0, 0, 1]),
    "radius 1": ([6, 3, 6, 3], [0, 1, 0, 1]),
}


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("single", "The one test sample is “0”: nothing here shows whether this model tells classes apart."),
        ("all wrong", "Always answering “0” would be right more often: 2 of 4 test samples, against 0."),
        ("constant", "Every prediction is “0”. A constant answer is perfectly robust, and says nothing."),
        ("nearly constant", "Nearly every prediction is “0”: only 0 of the 2 test samples of other classes"),
        ("no better", "Always answering “0” would be right as often: 3 of 4 test samples, against 3."),
        ("radius 0", "4 of 4 predictions are right, and none of them is proved to withstand even one poisoned"),
        ("some", "4 of 5 predictions are right; 1 of them cannot be changed by any one poisoned training sample."),
        ("radius 1", "4 of 4 predictions are right and cannot be changed by any one poisoned training sample."),
    ],
)
def test_odd_runs(case, said, look, tmp_path):
    ahead, y = ODD[case]
    votes = np.array([np.arange(10) >= first for first in ahead]).astype(np.uint8)
    done = outcome(tmp_path, np.zeros((len(y), 9, 9)), y, [0, 1], votes=votes, d=1)
    page = look(write_report(done), 400, "dark")
    heading = page.locator("h1")
    assert said in heading.inner_text()
    warns = done.certificate.evaluate(y).caution is not None
    assert (heading.get_attribute("class") == "caution") == warns
    wrong = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--wrong')").strip()
    assert (heading.evaluate("h => getComputedStyle(h).color") == as_rgb(wrong)) == warns
    check_state_at(page, done, int(page.locator("#size").input_value()))
    page.locator("#size").focus()
    page.keyboard.press("End")
    check_state_at(page, done, int(done.certificate.radius.max()) + 1)


def as_rgb(colour):
    return "rgb({}, {}, {})".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))


@pytest.mark.parametrize("size", [0, 2, 40])
def test_the_page_opens_at_the_attack_size_that_was_asked_about(size, look, tmp_path):
    done = outcome(tmp_path, np.zeros((90, 9, 9)), [0, 1, 2] * 30, range(3), k=20)
    done = replace(done, manifest=done.manifest.but(recipe={"attack_size": size}))
    page = look(write_report(done))
    assert int(page.locator("#size").input_value()) == size
    check_state_at(page, done, size)
    held = int((done.certificate.evaluate(done.y_test).right & (done.certificate.radius >= size)).sum())
    heading = page.locator("h1").inner_text()
    if size == 40:
        assert heading == "None of the 90 predictions is right and proved to withstand 40 poisoned training samples."
    elif size:
        assert (
            heading
            == f"{held} of 90 predictions are right and cannot be changed by any {size} poisoned training samples."
        )


def test_every_method_that_the_votes_know_has_a_curve(digits, look):
    done, path = digits
    page = look(path)
    assert page.locator("svg path[class^=other]").count() == 2
    said = page.locator("#numbers + div thead th").all_inner_texts()[3:]
    assert said == ["DPA's bound on the same votes", "tight: overlap counted once"]
    for line in page.locator("#numbers + div tbody tr").all():
        size, _, _, *shares = line.locator("td").all_inner_texts()
        for share, method in zip(shares, ("dpa-bound", "tight"), strict=True):
            certified = certify(done.votes, method).evaluate(done.y_test).certified_fraction(int(size.replace(",", "")))
            assert share == f"{percent(float(certified))} %"


def test_an_unseen_label_as_runner_up_is_explained_where_it_stands(look, tmp_path):
    votes = np.array([[0] * 10, [0] * 6 + [1] * 4])
    done = outcome(tmp_path, np.zeros((2, 9, 9)), [0, 1], [0, 1], votes=votes, d=1, classes_inferred=True)
    page = look(write_report(done), 400)
    seen = set()
    for tile in page.locator(".tile").all():
        tile.click()
        unseen = "has not shown" in page.locator("#sample-runner-up").inner_text()
        assert page.locator("#unseen").is_visible() == unseen
        seen.add(unseen)
    assert True in seen


def test_numbers_of_a_table_bear_the_names_of_their_columns(look, tmp_path):
    done = outcome(tmp_path, np.arange(60.0).reshape(30, 2), [0, 1] * 15, [0, 1])
    schema = {"kind": "table", "columns": {HOSTILE[0]: "number", "y": "label", "age": "number"}}
    settings = replace(done.manifest.settings, schema=schema)
    page = look(write_report(replace(done, manifest=done.manifest.but(settings=settings))))
    assert page.locator("#sample-cells dt").all_text_contents() == [HOSTILE[0], "age"]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_page_of_a_comparison_has_a_curve_for_each_method(compared, look, width, scheme):
    comparison, path = compared
    page = look(path, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    titles = [row.title for row in comparison.rows]
    assert page.locator("svg path.method").count() == len(titles)
    assert [text.strip() for text in page.locator(".legend li").all_inner_texts()[:-1]] == titles
    assert page.locator("#numbers + div tbody th").all_inner_texts() == titles
    strokes = page.locator("svg path.method").evaluate_all("all => all.map(path => getComputedStyle(path).stroke)")
    assert len(set(strokes)) == len({row.name.partition("-")[0] for row in comparison.rows})
    for row, line in zip(comparison.rows, page.locator("#balanced + div tbody tr").all(), strict=True):
        shares = row.certificate.evaluate(comparison.y_test).certified_fraction_balanced(list(comparison.attack_sizes))
        assert line.locator("td").all_inner_texts() == [percent(float(share)) for share in shares]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    samples = replace(load("digits"), name=HOSTILE[0])
    rows = ("dpa", "finite", "finite-tight", "bagging")
    comparison = compare(samples, GaussianNB(), k=10, n_classifiers=30, rows=rows, n_jobs=1)
    comparison.write(folder)
    return comparison, folder / "compare.html"
