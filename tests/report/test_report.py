"""What the report holds, without a browser."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from outcomes import outcome
from poisonproof import certify
from poisonproof.cli.output import print_table
from poisonproof.display import histogram, shown, stairs, survival, ticks
from poisonproof.runs.report import PICTURES, ROWS, Summary, choose, headline_size, mistakes, pixels, write_report


def test_a_large_run_fits_and_stands_alone(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(10_000, 28, 28), dtype=np.uint8)
    done = outcome(tmp_path, images, rng.integers(10, size=10_000), range(10), k=50, d=4, name="mnist")
    text = write_report(done).read_text()
    assert len(text.encode()) < 3_000_000
    assert "://" not in text
    assert text.count("data:image/png") == 2 * PICTURES.ends + PICTURES.between + PICTURES.wrong
    assert text == write_report(done).read_text()


def test_large_pictures_and_long_texts_are_cut(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    large = rng.integers(256, size=(200, 150, 200, 3), dtype=np.uint8)
    assert len(write_report(outcome(tmp_path, large, y, [0, 1])).read_bytes()) < 3_000_000
    assert len(write_report(outcome(tmp_path, ["x" * 100_000] * 200, y, [0, 1])).read_bytes()) < 300_000


def test_what_was_given_never_becomes_markup(tmp_path):
    hostile = ["</script><script>alert(1)</script>", "<!--", "lone \ud800 surrogate"]
    done = outcome(tmp_path, hostile * 10, hostile * 10, hostile, name=hostile[0])
    text = write_report(done).read_bytes().decode()
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2
    assert "<!--" not in text
    embedded = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert embedded["tiles"][0]["cells"][0][1] in [shown(text).replace("\\ud800", "\ufffd") for text in hostile]


def test_the_page_states_what_the_certificate_says(tmp_path):
    done = outcome(tmp_path, np.zeros((500, 8, 8), np.uint8), [0, 1, 2, 1] * 125, range(4), k=20)
    size = headline_size(done)
    held = int((done.certificate.evaluate(done.y_test).right & (done.certificate.radius >= size)).sum())
    text = write_report(done).read_text()
    assert held * 2 >= 500 > 2 * (done.certificate.evaluate(done.y_test).right & (done.certificate.radius > size)).sum()
    assert f"<strong>{held} of 500</strong> predictions are right and cannot be changed by any {size} poisoned" in text
    embedded = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    for at in range(embedded["top"] + 1):
        counted = sum(n for one in embedded["classes"] for radius, n in one["radii"] if radius >= at)
        assert counted == (done.certificate.evaluate(done.y_test).right & (done.certificate.radius >= at)).sum()
    assert embedded["classes"][3] == {"n": 0, "radii": []}


def test_figures_are_not_broken_from_their_units_and_attack_size_0_is_put_in_words(tmp_path):
    done = outcome(tmp_path, np.zeros((60, 2)), [0, 1, 2, 3] * 15, range(4), k=20, d=2)
    wrong = np.asarray(done.y_test).copy()
    wrong[:40] = (wrong[:40] + 1) % 4
    done = replace(done, y_test=wrong)
    assert headline_size(done) == 0
    text = write_report(done).read_text()
    assert len(re.findall(r"Balanced: [\d.]+&nbsp;%\.", text)) == 3
    assert not re.search(r"Balanced: [\d.]+ %", text)
    assert "(k&nbsp;=&nbsp;20, d&nbsp;=&nbsp;2)" in text
    assert "Certified fraction (pointwise): right while no training sample is poisoned." in text
    assert "no 0 training samples" not in text


@pytest.mark.parametrize("method", ["finite-aggregation", "tight", "dpa-bound"])
def test_the_page_says_how_hard_it_is_to_turn_others_to_a_class(tmp_path, method):
    done = outcome(tmp_path, np.zeros((60, 2)), [0, 1, 2] * 20, range(4), k=20, d=2)
    done = replace(done, certificate=certify(done.votes, method))
    text = write_report(done).read_text()
    shown_targets = re.findall(r'<td class="number">([\d,–]+)</td></tr>', text)[:4]
    for c, cell in enumerate(shown_targets):
        against = certify(done.votes, "dpa-bound" if method == "dpa-bound" else "finite-aggregation", target=c)
        assert cell == f"{np.percentile(against.radius[~against.already], 50, method='lower')}"
    assert "not worked out" not in text


def test_of_very_many_classes_targets_are_left_out_and_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("poisonproof.runs.report.MOST_TARGETS", 3)
    done = outcome(tmp_path, np.zeros((60, 2)), [0, 1, 2] * 20, range(4), k=20, d=2)
    assert "not worked out for more than 3 classes" in write_report(done).read_text()


def test_the_most_frequent_mistakes_are_counted(tmp_path):
    y = np.arange(400) % 20
    done = outcome(tmp_path, np.zeros((400, 9, 9)), y, range(20), k=20)
    prediction, counted = done.certificate.prediction, {}
    for truth, said in zip(y.tolist(), prediction.tolist(), strict=True):
        if truth != said:
            counted[str(truth), str(said)] = counted.get((str(truth), str(said)), 0) + 1
    found = mistakes(done)
    assert [one["count"] for one in found] == sorted(counted.values(), reverse=True)[:15]
    for one in found:
        assert (counted[one["truth"], one["prediction"]], one["n"]) == (one["count"], 20)
        of_pair = (y == int(one["truth"])) & (prediction == int(one["prediction"]))
        assert one["firmest"] == done.certificate.radius[of_pair].max()


def test_the_balanced_curve_is_the_balanced_certified_fraction():
    """Read back from the path, at every attack size."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        shares = np.sort(rng.random(int(rng.integers(2, 30))))[::-1].round(2)
        path = re.findall(r"([MHV])(?:0 )?([\d.]+)", stairs(shares))
        at, y, level = 0.0, float(path[0][1]), {}
        for command, number in path[1:]:
            if command == "V":
                y = float(number)
                continue
            for size in range(len(shares) - 1):
                if at - 0.01 <= 100 * size / (len(shares) - 1) < float(number) - 0.01:
                    level[size] = y
            at = float(number)
        assert [100 - level[size] for size in range(len(shares) - 1)] == pytest.approx(100 * shares[:-1], abs=0.006)


def test_a_summary_says_what_the_certificate_says(tmp_path):
    done = outcome(tmp_path, np.zeros((300, 8, 8), np.uint8), [0, 0, 0, 1, 2] * 60, range(4), k=20)
    certificate, y = done.certificate, done.y_test
    summary = Summary(done, [0, 1, 2, 3, 4, 5, 6], requested=3)
    record = json.loads(json.dumps(summary.as_dict()))
    assert record["majority_share"] == 0.6
    assert (done.figures.caution, record["warning"]) == (None, None)
    assert record["certified_fraction"] == certificate.evaluate(y).certified_fraction(range(7)).tolist()
    assert (
        record["certified_fraction_balanced"] == certificate.evaluate(y).certified_fraction_balanced(range(7)).tolist()
    )
    assert [one["label"] for one in record["by_class"]] == [0, 1, 2]
    assert summary.table()[0] == ["attack size", "0", "2", "3", "4", "6"]
    assert "always '0' alone 60.0, 33.3 at every attack size" in summary.line
    weak = outcome(tmp_path, done.x_test, y, range(4), votes=np.zeros((300, 40), np.uint8), k=20)
    warning = Summary(weak, [0]).warning
    assert "answers '0' to every test sample" in warning
    assert "try a smaller --k (at k = 20 a base classifier learns from about 62 samples)" in warning


def with_strong(done, words, undefended):
    manifest = replace(done.manifest, strong_undefended_accuracy=0.95, strong_undefended=words)
    return replace(done, manifest=manifest, undefended_accuracy=undefended)


@pytest.mark.parametrize("undefended", [0.9, None], ids=["base classifiers", "samples that vote"])
def test_what_a_run_prints_is_a_table_of_eighty_columns_and_one_line(tmp_path, capsys, undefended):
    """However many attack sizes there are; what was trained without a guarantee stands in the line."""
    words = "tf-idf of words and pieces of words, logistic regression"
    made_up = outcome(tmp_path, np.zeros((300, 8, 8), np.uint8), [0, 1, 2] * 100, range(4), k=20)
    summary = Summary(with_strong(made_up, words, undefended), [0, 1, 2, 5, 10, 20, 50, 100, 10_000], requested=2)
    print_table("made up", *summary.table(), left=1)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 7
    assert "2" in summary.table()[0]
    same = "; undefended, the same learner, 90.0; strong, " if undefended else "; undefended, "
    assert summary.line.endswith(f"{same}{words}, 95.0.")


def test_a_class_that_is_far_behind_is_named_and_no_other(tmp_path):
    y = np.arange(400) % 4
    votes = np.repeat(y[:, None], 40, axis=1).astype(np.uint8)
    level = outcome(tmp_path, np.zeros((400, 8, 8), np.uint8), y, range(4), votes=votes, k=20)
    assert Summary(level, [0, 1, 2]).behind is None
    votes[y == 3] = 1
    worse = outcome(tmp_path, np.zeros((400, 8, 8), np.uint8), y, range(4), votes=votes, k=20)
    assert Summary(worse, [0, 1, 2]).behind == "Behind: '3', 0.0 % of 100 certified at attack size 1."


@pytest.mark.parametrize("limits", [PICTURES, ROWS])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 50, 5000])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_choice_is_limited_sorted_and_without_repeats(limits, n, share):
    rng = np.random.default_rng(n)
    radius, right = rng.integers(30, size=n), np.arange(n) < round(share * n)
    groups = {title: rows for title, _, rows in choose(radius, right, limits)}
    rows = np.concatenate(list(groups.values()))
    assert len(set(rows.tolist())) == len(rows) <= 120
    assert ("Wrong" in groups) == (not right.all())
    for title, some in groups.items():
        assert right[some].all() == (title != "Wrong")
        assert (np.diff(radius[some]) * (-1 if title == "Wrong" else 1) >= 0).all()
    if right.any():
        assert radius[groups["Weakest"][0]] == radius[right].min()
        assert radius[rows[right[rows]]].max() == radius[right].max()
    if n <= 50 and limits is PICTURES:
        assert set(np.flatnonzero(right)) <= set(rows.tolist())


def test_the_curve_is_the_certified_fraction():
    """Read back from the path: at every attack size, the share of radii that reach it."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        radii = rng.integers(rng.integers(1, 40), size=rng.integers(0, 60))
        n, top = len(radii) + int(rng.integers(1, 20)), int(radii.max(initial=0)) + 1
        at, y = 0.0, None
        level = {}
        for command, number in re.findall(r"([MHV])(?:0 )?([\d.]+)", survival(radii, n, top)):
            if command == "H":
                level.update(
                    dict.fromkeys((s for s in range(top) if at - 0.02 <= 100 * s / top < float(number) - 0.02), y)
                )
                at = float(number)
            else:
                y = float(number)
        for size in range(top):
            assert abs(100 - level[size] - 100 * (radii >= size).sum() / n) < 0.006


def test_bars_hold_every_number():
    rng = np.random.default_rng(4)
    for top in (1, 2, 39, 40, 41, 640, 1201):
        one, two = rng.integers(top, size=300), rng.integers(top, size=50)
        bars = histogram({"one": one, "two": two}, top, "size")
        assert sum(int(bar.title.split(": ")[1]) for bar in bars) == 350
        assert len(bars) <= 40
        assert min(bar.left for bar in bars) >= 0
        assert max(bar.left + bar.width for bar in bars) <= 100.001
        assert min(part.y for bar in bars for part in bar.parts) == 0
        marks = ticks(top)
        assert marks[0].at == 0
        assert marks[-1].at <= 100
        assert len(marks) <= 7


def test_pictures_are_told_from_other_numbers():
    assert pixels(np.zeros((2, 64)), "other") is None
    assert pixels(np.zeros((2, 64)), "digits").shape == (2, 8, 8)
    assert pixels(np.zeros((2, 100, 3)), "series") is None
    assert pixels(np.zeros((2, 9, 9, 1)), "grey").shape == (2, 9, 9)
    assert pixels(["a"], "texts") is None
    scaled = pixels(np.array([[-1.0, 0.0, 1.0, np.nan, 0.5]] * 5)[None], "floats")
    assert scaled[0, 0].tolist() == [0, 127, 255, 127, 191]
