"""Radii against the theorem, word for word, and against attackers who try everything."""

import dataclasses
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from ensembles import random_spread, random_votes
from oracle import (
    UNSEEN,
    smallest_attack_fast,
    smallest_attack_for_one_rival,
    smallest_attack_trying_everything,
    theorem_2,
    winner,
)
from poisonproof import Certificate, CertifiedBaggingClassifier, DamagedFileError, Split, Spread, Votes, certify
from poisonproof.core.certify import certify_in_numpy, sums_by_partition
from poisonproof.core.theorem2 import FEW, LANES, certify_rows
from poisonproof.system.files import open_arrays, write_arrays
from refused import refused

ARRAYS = ("prediction", "runner_up", "margin", "radius")


def with_reference(matrix, spread, n_classes, unseen=False):
    votes = Votes(matrix, spread, range(n_classes), classes_inferred=unseen)
    table = spread.as_table()
    rows = [[int(v) for v in row] for row in np.asarray(matrix)]
    return certify(votes), [theorem_2(row, table, n_classes, unseen) for row in rows]


def assert_references(certificate, references):
    for name in ARRAYS:
        assert getattr(certificate, name).tolist() == [reference[name] for reference in references], name


def test_one_rival_is_the_worst_an_attacker_can_do_and_no_radius_is_broken():
    """Every rewriting of the reached votes, n ≤ 6: 600 cases."""
    rng = np.random.default_rng(1)
    for case in range(600):
        n, n_classes = int(rng.integers(1, 7)), int(rng.integers(2, 4))
        unseen = bool(case % 2)
        spread, votes = random_spread(rng, n), random_votes(rng, n, n_classes).tolist()
        table = spread.as_table()
        smallest = smallest_attack_trying_everything(votes, table, n_classes, unseen)
        assert smallest == smallest_attack_for_one_rival(votes, table, n_classes, unseen)
        certificate = certify(Votes([votes], spread, range(n_classes), classes_inferred=unseen))
        assert certificate.radius[0] < smallest, (spread, votes)


def test_no_radius_is_broken_in_20000_cases_and_dpa_radii_are_exact():
    """All poisoned sets, n ≤ 12; with d = 1 an attack of size radius + 1 exists."""
    rng = np.random.default_rng(2)
    exact = positive = 0
    for case in range(1000):
        n, n_classes, unseen = int(rng.integers(2, 13)), int(rng.integers(2, 5)), bool(case % 2)
        spread = random_spread(rng, n)
        matrix = np.array([random_votes(rng, n, n_classes) for _ in range(20)])
        certificate = certify(Votes(matrix, spread, range(n_classes), classes_inferred=unseen))
        bound = certify(Votes(matrix, spread, range(n_classes), classes_inferred=unseen), "dpa-bound")
        table = spread.as_table()
        smallest = [smallest_attack_fast(row, table, n_classes, unseen) for row in matrix]
        assert (certificate.radius < smallest).all(), (spread, matrix)
        assert (bound.radius <= certificate.radius).all()
        positive += int((certificate.radius > 0).sum())
        if spread.d == 1:
            assert (certificate.radius + 1 == smallest).all(), (spread, matrix)
            assert (bound.radius == certificate.radius).all()
            exact += len(matrix)
    assert exact > 1000
    assert positive > 3000


def test_the_fast_attacker_is_the_obvious_one():
    rng = np.random.default_rng(3)
    for case in range(100):
        n, n_classes = int(rng.integers(1, 8)), int(rng.integers(2, 5))
        spread, votes = random_spread(rng, n), random_votes(rng, n, n_classes)
        obvious = smallest_attack_for_one_rival(votes.tolist(), spread.as_table(), n_classes, bool(case % 2))
        assert smallest_attack_fast(votes, spread.as_table(), n_classes, bool(case % 2)) == obvious


@st.composite
def ensembles(draw):
    n_classes = draw(st.sampled_from([2, 3, 10, 43, 300]))
    n = draw(st.integers(2, 40))
    if draw(st.booleans()):
        spread = Spread(n, tuple(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n))))
    else:
        spread = random_spread(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), n)
    few = draw(st.lists(st.integers(0, n_classes), min_size=1, max_size=4))
    matrix = draw(st.lists(st.lists(st.sampled_from(few), min_size=n, max_size=n), min_size=1, max_size=4))
    return np.array(matrix), spread, n_classes, draw(st.booleans())


@settings(max_examples=250)
@given(ensembles())
def test_kernel_is_theorem_2_word_for_word(ensemble):
    """Ties, classes without votes, unanimous votes, 2 to 300 classes, fractional k, tables."""
    assert_references(*with_reference(*ensemble))


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 1), (2, 63), (2, 64), (2, 127), (2, 128), (3, 200), (1.5, 256)])
@pytest.mark.parametrize("n_classes", [2, 43, 300])
def test_kernel_is_theorem_2_for_large_spreads(k, d, n_classes):
    """d on both sides of where a byte no longer holds 2d, up to 256."""
    rng = np.random.default_rng(d)
    n = int(k * d)
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    matrix = np.array([random_votes(rng, n, n_classes), np.full(n, 1), np.arange(n) % n_classes])
    assert_references(*with_reference(matrix, spread, n_classes))
    assert_references(*with_reference(matrix, Spread.from_table(spread.as_table()[::-1]), n_classes, unseen=True))


def test_kernel_is_theorem_2_at_realistic_scale():
    """k = 50, d = 16: blocks of shifts, many rivals, radii in the tens."""
    rng = np.random.default_rng(5)
    spread = Spread.paper(50, 16)
    shares = [
        [0.76, *[0.24 / 9] * 9],
        [0.5, 0.4, *[0.1 / 8] * 8],
        [0.95, *[0.05 / 9] * 9],
        [0.3, 0.3, 0.3, *[0.1 / 7] * 7],
    ]
    matrix = np.array([rng.choice(10, spread.n_subsets, p=share) for share in shares for _ in range(5)])
    certificate, references = with_reference(matrix, spread, 10)
    assert_references(certificate, references)
    assert certificate.radius.max() > 10


def test_blocks_wrap_correctly_beyond_the_kernels_block_size():
    rng = np.random.default_rng(6)
    spread = Spread.paper(3000, 5)
    matrix = rng.choice(4, (2, spread.n_subsets), p=[0.1, 0.6, 0.2, 0.1])
    assert_references(*with_reference(matrix, spread, 3))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_change_nothing(n_jobs):
    matrix = np.random.default_rng(7).integers(0, 4, (2000, 40))
    votes = Votes(matrix, Spread.random(10, 4), list("abcd"))
    one, many = certify(votes, n_jobs=1), certify(votes, n_jobs=n_jobs)
    for name in ARRAYS:
        assert np.array_equal(getattr(one, name), getattr(many, name))


def test_dpa_bound_is_its_formula():
    rng = np.random.default_rng(8)
    spread = Spread.random(6, 4)
    matrix = np.array([random_votes(rng, 24, 3) for _ in range(200)])
    for unseen in (False, True):
        bound = certify(Votes(matrix, spread, list("abc"), classes_inferred=unseen), "dpa-bound")
        for t, row in enumerate(matrix.tolist()):
            p = winner(row, 3)
            rivals = [c for c in range(3) if c != p] + ([UNSEEN] if unseen else [])
            leads = [(row.count(p) - row.count(c) - (c < p), 3 if c == UNSEEN else c) for c in rivals]
            margin, runner_up = min(leads)
            got = tuple(int(getattr(bound, name)[t]) for name in ARRAYS)
            assert got == (p, runner_up, max(margin, 0), max(margin, 0) // 8)


def test_the_papers_toy_example():
    """Figure 2: with six base classifiers one poison ties cat and dog; with twelve it cannot."""
    bird, cat, deer, dog = range(4)
    animals = ["bird", "cat", "deer", "dog"]
    six = [cat, dog, cat, bird, cat, deer]
    dpa = certify(Votes([six], Spread(6, (0,)), animals))
    finite = certify(Votes([six * 2], Spread(12, (0, 1)), animals))
    assert (dpa.labels[0], dpa.radius[0]) == ("cat", 0)
    assert (finite.labels[0], finite.radius[0]) == ("cat", 1)


def test_the_pictures_are_what_their_scripts_draw():
    docs = Path(__file__).parents[2] / "docs"
    for name in ("overview", "toy"):
        drawn = runpy.run_path(str(docs / f"draw_{name}.py"))["draw"]()
        assert (docs / f"{name}.svg").read_text("utf-8") == drawn
    assert [drawn.count(f">Radius {radius}<") for radius in (0, 1, 2)] == [1, 1, 0]
    assert "toy.svg" in (docs / "guarantee.md").read_text()


def votes_of(matrix, spread=None, **options):
    return Votes(matrix, spread or Spread(3, (0,)), options.pop("classes", ["no", "yes"]), **options)


def test_abstentions_never_win_and_all_abstaining_proves_nothing():
    certificate = certify(votes_of([[2, 2, 1], [2, 2, 2]]))
    assert certificate.prediction.tolist() == [1, 0]
    assert certificate.radius.tolist() == [0, 0]
    inferred = certify(votes_of([[2, 2, 2], [1, 1, 1]], classes_inferred=True))
    assert inferred.margin.tolist() == [0, 2]
    assert inferred.radius.tolist() == [0, 1]


def test_an_inferred_class_list_costs_the_tie_with_a_class_nobody_has_seen():
    matrix = [[0, 0, 0, 0]]
    spread = Spread(4, (0,))
    declared = certify(votes_of(matrix, spread))
    inferred = certify(votes_of(matrix, spread, classes_inferred=True))
    assert (declared.radius[0], declared.runner_up[0]) == (2, 1)
    assert (inferred.radius[0], inferred.runner_up[0]) == (1, 2)
    one = certify(votes_of([[0, 0, 0, 0]], spread, classes=["only"], classes_inferred=True))
    assert one.radius[0] == 1


def test_fractions_and_accuracy_count_right_predictions_only():
    certificate = certify(votes_of([[1, 1, 1], [0, 0, 1], [0, 0, 0]]))
    y = ["yes", "yes", "no"]
    assert certificate.labels.tolist() == ["yes", "no", "no"]
    assert certificate.radius.tolist() == [1, 0, 1]
    assert certificate.evaluate(y).clean_accuracy == pytest.approx(2 / 3)
    assert certificate.evaluate(y).certified_fraction([0, 1, 2]).tolist() == pytest.approx([2 / 3, 2 / 3, 0])
    assert certificate.evaluate(y).certified_fraction(1) == pytest.approx(2 / 3)


def test_a_certificate_is_a_frame(tables):
    frame = certify(votes_of([[1, 1, 1], [0, 0, 1], [0, 0, 0]])).to_frame()
    assert frame.columns.tolist() == ["prediction", "runner_up", "margin", "radius"]
    assert frame["runner_up"].tolist() == ["no", "yes", "yes"]
    inferred = certify(votes_of([[0, 0, 0, 0]], Spread(4, (0,)), classes_inferred=True))
    assert "has not shown" in inferred.to_frame()["runner_up"][0]


@pytest.mark.parametrize(
    ("split", "costs"),
    [
        (Split("content"), (1, 1, 2)),
        (Split("content", hash_labels=True), (1, 2, 2)),
        (Split("pixel-sum"), (1, 1, 2)),
        (Split("group"), (1, 1, 1)),
    ],
)
def test_radius_against_each_threat(split, costs):
    certificate = certify(Votes(np.zeros((1, 13), int), Spread(13, (0,)), list("ab"), split))
    assert certificate.radius[0] == 6
    got = [certificate.radius_against(threat)[0] for threat in ("insert_remove", "label_flip", "modify")]
    assert got == [6 // cost for cost in costs]
    assert certificate.unit == ("contributors" if split.kind == "group" else "training samples")
    with refused("certificate.act"):
        certificate.radius_against("magic")


def test_an_unknown_split_answers_only_for_insertions_and_removals():
    certificate = certify(votes_of([[0, 0, 0]]))
    assert certificate.radius_against("insert_remove").tolist() == [1]
    for threat in ("label_flip", "modify"):
        with refused("certificate.split"):
            certificate.radius_against(threat)


def test_certificates_are_frozen():
    certificate = certify(votes_of([[0, 0, 0]]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.radius = np.array([9])
    with pytest.raises(ValueError, match="read-only"):
        certificate.radius[0] = 9


def test_saved_certificates_come_back_and_altered_ones_do_not(tmp_path):
    path = tmp_path / "certificate.npz"
    certificate = certify(votes_of([[0, 0, 1], [1, 1, 1]], split="content"))
    certificate.save(path)
    back = Certificate.load(path)
    for name in ARRAYS:
        assert np.array_equal(getattr(back, name), getattr(certificate, name))
    assert back.facts() == certificate.facts()
    body, complaints = path.read_bytes(), []
    for at in range(0, len(body), 7):
        broken = bytearray(body)
        broken[at] ^= 4
        path.write_bytes(broken)
        try:
            same = Certificate.load(path)
        except ValueError as error:
            complaints.append(str(error))
        else:  # a bit that carries nothing, such as a date in the zip archive
            assert all(np.array_equal(getattr(same, name), getattr(certificate, name)) for name in ARRAYS)
            assert same.facts() == certificate.facts()
    assert all("certificate.npz is" in complaint for complaint in complaints)
    assert len(complaints) > len(body) / 7 * 0.7
    path.write_bytes(body[: len(body) // 2])
    with refused("file.damaged"):
        Certificate.load(path)


MADE = {
    "any": certify(Votes([[0, 0, 1, 1]], Spread.random(4, 1), list("ab"), "content")),
    "target": certify(Votes([[0, 0, 1, 1]], Spread.random(4, 1), list("ab")), target="b"),
    "drawn": CertifiedBaggingClassifier(GaussianNB(), subset_size=2, n_draws=2, classes=list("ab"), seed=0)
    .fit(np.arange(4.0)[:, None], list("abab"))
    .certify([[0.0]]),
}


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        *((kind, "radius", [-1], "'radius' holds -1") for kind in MADE),
        *((kind, "radius", [0, 0], "is an array") for kind in MADE),
        *((kind, "prediction", [2], "beyond its 2 classes") for kind in MADE),
        *((kind, "method", None, "damaged .*method") for kind in MADE),
        ("any", "runner_up", [3], "beyond its 2 classes"),
        ("target", "margin", [0, 0], "'margin' is an array"),
        ("target", "target", 2, "beyond its 2 classes"),
        ("target", "target", 0.5, "target is no class"),
        ("drawn", "radius_changed", [0.5], "'radius_changed' is an array"),
        ("drawn", "abstained", [1], "'abstained' is an array"),
        ("drawn", "radius", [1], "a radius where it abstains"),
        ("drawn", "failure_probability", -1, "fails with probability -1"),
        ("drawn", "seed", None, "damaged .*seed"),
    ],
)
def test_a_file_that_states_what_cannot_be_is_refused_in_one_sentence(kind, name, value, words, tmp_path):
    """The seal of a file says that it is whole, not that it says what it must."""
    path = tmp_path / "certificate.npz"
    MADE[kind].save(path)
    arrays, facts = open_arrays(path)
    if name in arrays:
        arrays[name] = np.array(value)
    else:
        facts = {**facts, name: value} if value is not None else {key: facts[key] for key in facts if key != name}
    write_arrays(path, arrays, facts)
    with pytest.raises(DamagedFileError, match=words):
        type(MADE[kind]).load(path)


def test_printing_states_radii_and_premises():
    from poisonproof.premises import Premise

    text = str(certify(votes_of([[0, 0, 0]], premises=[Premise("classes", "2 labels", declared=False)])))
    assert "radius median 1" in text
    assert "Premise: classes: 2 labels (chosen from this data)" in text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: certify(np.zeros((2, 3))), TypeError, "certify takes poisonproof.Votes"),
        (
            lambda: certify(np.zeros((2, 3)), target=1),
            TypeError,
            "certify by themselves, and against every target alike",
        ),
        (lambda: certify(votes_of([[0, 0, 0]]), "magic"), ValueError, "'method' of certify must be one of"),
        (lambda: certify(votes_of([[0, 0, 0]]), n_jobs=0), ValueError, "'n_jobs' of certify"),
        (
            lambda: certify(votes_of([[0, 0, 0]])).evaluate(["maybe"]).clean_accuracy,
            ValueError,
            "a label is 'maybe'",
        ),
        (
            lambda: certify(votes_of([[0, 0, 0]])).evaluate(["no", "no"]).clean_accuracy,
            ValueError,
            "1 predictions but 2 labels",
        ),
        (
            lambda: certify(votes_of([[0, 0, 0]])).evaluate(["no"]).certified_fraction([-1]),
            ValueError,
            "Attack sizes must be",
        ),
        (
            lambda: certify(votes_of([[0, 0, 0]])).evaluate(["no"]).certified_fraction([0.5]),
            ValueError,
            "Attack sizes must be",
        ),
    ],
)
def test_bad_questions_get_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


# Theorem 2 in plain NumPy says what the compiled kernel says, and is used only where nothing is compiled yet.

SPREADS = [Spread.paper(5, 3), Spread.random(7, 1), Spread.paper(4, 4), Spread.planes(2, 3)]


@pytest.mark.parametrize("spread", SPREADS, ids=lambda spread: f"{spread.n_subsets}x{spread.d}")
@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
def test_both_forms_agree_in_every_array(spread, inferred, n_classes):
    if n_classes == 1 and not inferred:
        return  # a declared class list holds two at least
    rng = np.random.default_rng(n_classes)
    strays = rng.integers(0, n_classes + 1, (300, spread.n_subsets))  # abstentions among them
    loyal = rng.random((300, spread.n_subsets)) < rng.random((300, 1))
    matrix = np.where(loyal, rng.integers(0, n_classes + 1, (300, 1)), strays)
    votes = Votes(matrix, spread, classes=range(n_classes), classes_inferred=inferred)
    compiled = certify(votes)
    plain = certify_in_numpy(votes.matrix, spread.as_table(), n_classes, unseen_class=inferred)
    for name, array in zip(ARRAYS, plain, strict=True):
        assert array.tolist() == getattr(compiled, name).tolist(), name


@pytest.mark.parametrize("n_classes", [2, FEW, FEW + 1])
@pytest.mark.parametrize("d", [1, 6, 40, 130])
def test_the_kernel_counts_few_and_many_alike(n_classes, d):
    """Classes counted one by one or at once, Δ from the largest on or all of them, one byte or two: the same numbers.

    Some votes are nearly even, so that several rivals are looked at, some one-sided, so that all Δ_j fit; some abstain.
    """
    rng = np.random.default_rng(d)
    n = 4 * d + LANES + 5
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    loyal = rng.random((60, n)) < rng.choice([0.02, 0.3, 0.8, 1.0], (60, 1))
    matrix = np.where(loyal, rng.integers(0, n_classes, (60, 1)), rng.integers(0, n_classes + 1, (60, n)))
    matrix[0] = n_classes
    votes = matrix.astype(np.uint8)
    for inferred in (False, True):
        plain = certify_in_numpy(votes, spread.as_table(), n_classes, unseen_class=inferred)
        arrays = [np.empty(len(votes), np.int64) for _ in range(4)]
        small = np.empty(0, np.min_scalar_type(2 * d))
        certify_rows(votes, spread.arrays, n_classes, inferred, small, *arrays)
        for kernel, reference in zip(arrays, plain, strict=True):
            assert kernel.tolist() == reference.tolist()


def test_no_test_samples():
    spread = SPREADS[0]
    plain = certify_in_numpy(np.empty((0, spread.n_subsets), np.uint8), spread.as_table(), 2, unseen_class=False)
    assert [array.shape for array in plain] == [(0,)] * 4


def test_sums_that_short_numbers_do_not_hold():
    assert sums_by_partition(np.full((1, 20_000), 2), np.arange(20_000)[None]).tolist() == [[40_000]]


@pytest.mark.parametrize(("rows", "compiled"), [(20, False), (400_000, True)])
def test_compiled_code_is_loaded_when_there_is_work_for_it(tmp_path, rows, compiled):
    spread = Spread.paper(5, 3)
    votes = Votes(np.random.default_rng(0).integers(0, 3, (rows, spread.n_subsets)), spread, classes=range(3))
    votes.save(tmp_path / "votes.npy")
    certify(votes).save(tmp_path / "expected.npz")
    words = ["certify", str(tmp_path / "votes.npy"), "--out", str(tmp_path / "out.npz")]
    script = (
        f"import sys; from poisonproof.cli.main import app; app({words!r}, standalone_mode=False); "
        "print(*(name in sys.modules for name in ('numba', 'sklearn', 'pandas', 'scipy')), file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    loaded, *others = told.split()[-4:]
    assert loaded == str(compiled)
    if not compiled:
        assert others == ["False"] * 3
    with np.load(tmp_path / "expected.npz") as expected, np.load(tmp_path / "out.npz") as out:
        for name in ARRAYS:
            assert np.array_equal(expected[name], out[name])
