"""poisonproof plan: predictions against known truth, the pilot's blindness for test data, and plan → run →
comparison.
"""

import json
import math
import re
import shlex
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from poisonproof import (
    Certificate,
    FiniteAggregationClassifier,
    Split,
    Spread,
    Votes,
    certify,
    verify,
)
from poisonproof.cli.main import app
from poisonproof.cli.options import parse_spread
from poisonproof.data.dataset import Dataset
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.planning import plan as planning
from poisonproof.planning.costs import Site, bill
from poisonproof.planning.forecast import (
    _log_profile,
    draw_votes,
    estimate_shares,
    predicted_fraction,
)
from poisonproof.planning.pilot import (
    Bench,
    Pilot,
    PooledTiming,
    Timing,
)
from poisonproof.planning.plan import (
    Plan,
    Row,
    _best,
    _grid,
    make_plan,
)
from poisonproof.system.files import read_record, write_record
from tests.helpers.premises import in_words


def blobs(n_test=150):
    def drawn(count, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=count)
        return rng.normal(size=(count, 2)) + 2.2 * np.array([[0, 0], [1, 0], [0, 1]])[y], y

    return Dataset.of("blobs", *drawn(400, 0), *drawn(n_test, 1), np.arange(3))


class Untouchable:
    """Test samples that tell how many they are and nothing else."""

    def __len__(self):
        return 150

    def __getattr__(self, name):
        raise AssertionError(f"the pilot looked at test data ({name})")

    def __array__(self, *args, **more):
        raise AssertionError("the pilot looked at test data")

    def __getitem__(self, rows):
        raise AssertionError("the pilot looked at test data")


def known_votes(rng, n_samples, n_votes, n_classes):
    """Votes of samples whose shares are known: beta-distributed right shares, rivals by an uneven Dirichlet."""
    right = rng.beta(3, 1.2, (n_samples, 1))
    rivals = rng.dirichlet(np.full(n_classes - 1, 0.4), n_samples)
    bounds = np.concatenate([right, (1 - right) * rivals], axis=1).cumsum(axis=1)[:, :-1]
    place = (rng.random((n_samples, n_votes, 1)) >= bounds[:, None]).sum(axis=2)
    truth = rng.integers(n_classes, size=n_samples)
    return ((place + truth[:, None]) % n_classes).astype(np.uint8), truth


def counted(matrix, n_classes):
    return np.stack([(matrix == code).sum(axis=1) for code in range(n_classes)], axis=1)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_few_votes_predict_what_many_of_the_same_shares_certify(n_classes):
    rng = np.random.default_rng(n_classes)
    few, truth = known_votes(rng, 2000, 64, n_classes)
    shares = estimate_shares(counted(few, n_classes), truth)
    for k in (40, 300):
        many, true_classes = known_votes(rng, 2000, k, n_classes)
        sizes = [0, k // 8, k // 4, 3 * k // 8]
        obtained = certify(Votes(many, Spread.random(k, 1), range(n_classes))).certified_fraction(true_classes, sizes)
        predicted = predicted_fraction(shares, Spread.random(k, 1), sizes)
        assert np.abs(predicted - obtained).max() < 0.04


def test_the_noise_of_few_votes_is_taken_out():
    """All samples have the same shares, so all or none are certified; 12 votes alone would say something between."""
    rng = np.random.default_rng(0)
    truth = np.zeros(2000, np.int64)
    few = (rng.random((2000, 12)) > 0.8).astype(np.uint8)
    counts = counted(few, 2)
    naive = [((counts[:, 0] - counts[:, 1]) / 12 >= 2 * size / 1000).mean() for size in (220, 390)]
    assert naive[0] < 0.82
    assert naive[1] > 0.25
    predicted = predicted_fraction(estimate_shares(counts, truth), Spread.random(1000, 1), [220, 390])
    assert predicted[0] > 0.92
    assert predicted[1] < 0.1


def test_the_likelihood_of_rivals_is_the_sum_over_who_they_may_be():
    wrong = np.random.default_rng(0).integers(0, 6, (20, 4)).astype(float)
    strongest, second = 0.5, 0.3
    pair = (strongest, (1 - strongest) * second)
    rest = (1 - strongest) * (1 - second) / 2
    for row in wrong:
        slow = 0.0
        for first, other in permutations(range(4), 2):
            shares = np.full(4, rest)
            shares[first], shares[other] = pair
            slow += math.prod(share**count for share, count in zip(shares, row, strict=True))
        assert _log_profile(row[None], strongest, second)[0] == pytest.approx(math.log(slow), rel=1e-9, abs=1e-9)


def test_drawn_votes_have_the_shares_they_are_drawn_from():
    rng = np.random.default_rng(1)
    few, truth = known_votes(rng, 1500, 60, 5)
    shares = estimate_shares(counted(few, 5), truth)
    for spread in (Spread.random(50, 1), Spread.random(50, 4), Spread.planes(4, 10)):
        votes, classes = draw_votes(shares, spread, 800, rng)
        right = (np.asarray(votes.matrix) == classes[:, None]).mean()
        assert right == pytest.approx((few == truth[:, None]).mean(), abs=0.01)
        again, _ = draw_votes(replace(shares, abstaining=0.5), spread, 20, rng)
        assert 0.2 < (np.asarray(again.matrix) == 5).mean() < 0.8


def test_base_classifiers_that_share_partitions_err_together():
    """The mean of d·k votes is less certain than that of as many independent ones, and no more than that of k."""
    rng = np.random.default_rng(2)
    truth = np.zeros(500, np.int64)
    shares = estimate_shares(counted((rng.random((500, 60)) > 0.6).astype(np.uint8), 2), truth)
    k, d = 40, 16
    deviations = {}
    for name, spread in (("d", Spread.random(k, d)), ("1", Spread.random(k, 1)), ("apart", Spread.random(k * d, 1))):
        votes, classes = draw_votes(shares, spread, 1000, np.random.default_rng(3))
        deviations[name] = (np.asarray(votes.matrix) == classes[:, None]).mean(axis=1).std()
    assert 1.5 * deviations["apart"] < deviations["d"] < deviations["1"]


@pytest.fixture(scope="module")
def planned():
    data = replace(blobs(), test=Untouchable())
    return make_plan(data, GaussianNB(), attack_size=4, ks=(12, 20, 32), ds=(1, 4), n_jobs=1, seconds=20)


def test_the_pilot_never_touches_test_data(planned):
    assert planned.n_test == 150
    assert [pilot.k for pilot in planned.pilots] == [12, 20, 32]
    assert set(planned.data) == {"name", "x_train", "y_train"}


def test_a_base_classifier_is_never_asked_about_its_own_samples():
    """A learner that remembers its samples would be right on them; asked fairly about random labels it is not."""
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    bench = Bench(KNeighborsClassifier(1), X, y, None, [0, 1], Split(), 10, 1, False)
    pilot = bench.pilot(4, 60.0)
    assert pilot.base_accuracy == pytest.approx(0.5, abs=0.05)
    assert pilot.n_asked == 300


def test_predictions_agree_with_runs(planned):
    data = blobs(n_test=1500)
    for row in planned.rows:
        spread = Spread.random(row.k, row.d) if row.spread == "random" else parse_spread(row.spread)
        model = FiniteAggregationClassifier(GaussianNB(), spread=spread, classes=range(3))
        certificate = model.fit(data.train.X, data.train.labels).certify(data.test.X, row.method)
        assert row.clean == pytest.approx(certificate.clean_accuracy(data.test.labels), abs=0.04)
        assert row.certified == pytest.approx(certificate.certified_fraction(data.test.labels, [4])[0], abs=0.05)
        assert (row.n_members, row.subset_size) == (spread.n_subsets, 400 / spread.k)
    assert {row.method for row in planned.rows} == {"finite-aggregation", "tight"}
    assert all(0 < row.error < 0.1 for row in planned.rows)


def test_a_k_between_two_pilots_is_predicted_from_both(monkeypatch):
    monkeypatch.setattr(planning, "MOST_PILOTS", 4)
    plan = make_plan(blobs(), GaussianNB(), attack_size=2, ds=(1,), designs=False, n_jobs=1)
    assert [row.k for row in plan.rows] == _grid(2, 400)
    assert [row.piloted for row in plan.rows] == [True, False, True, False, True, False, True]
    assert min(row.k for row in plan.rows) > 4
    data = blobs(n_test=1500)
    for row in plan.rows[1::2]:
        model = FiniteAggregationClassifier(GaussianNB(), k=row.k, d=1, classes=range(3))
        certificate = model.fit(data.train.X, data.train.labels).certify(data.test.X)
        assert row.certified == pytest.approx(certificate.certified_fraction(data.test.labels, [2])[0], abs=0.06)


def test_contributors_are_counted_where_there_are_some():
    data = replace(blobs(), train=replace(blobs().train, groups=np.arange(400) // 2))
    plan = make_plan(data, GaussianNB(), attack_size=3, ks=(16,), ds=(1,), designs=False, n_jobs=1)
    assert plan.unit == "contributors"
    assert "groups" in plan.data


def row(certified, seconds, error=0.02, **more):
    plain = (0.9, 0.5, 0.9)  # what is recommended goes by the balanced figure
    return Row(20, 1, "random", "finite-aggregation", 20, 10, True, *plain, certified, error, seconds, 1, 1, **more)


def test_the_best_is_recommended_and_ties_go_to_the_cheaper():
    assert _best([row(0.70, 1), row(0.80, 9), row(0.79, 5), row(0.785, 6)], 0.5) == 2
    assert _best([row(0.70, 1), row(0.80, 9, error=0.001), row(0.79, 5)], 0.5) == 1


def test_what_a_constant_answer_has_too_is_not_recommended():
    assert _best([row(0.49, 1), row(0.50, 9)], 0.5) is None
    assert _best([row(0.49, 1), row(0.505, 9)], 0.5) == 1, "within the error of the best, but no better than constant"


def rare(n_test=300):
    """A rare class that base classifiers of few samples cannot learn, and those of many can."""

    def drawn(count, seed):
        rng = np.random.default_rng(seed)
        y = (rng.random(count) < 0.1).astype(np.int64)
        return rng.normal(size=(count, 2)) + 2.5 * y[:, None], y

    return Dataset.of("rare", *drawn(2000, 0), *drawn(n_test, 1), np.arange(2))


def test_balanced_predictions_agree_with_runs_where_classes_are_unequal():
    from sklearn.linear_model import LogisticRegression

    plan = make_plan(
        rare(), LogisticRegression(C=0.02), attack_size=3, ks=(10, 40), ds=(1,), designs=False, n_jobs=1, seconds=20
    )
    data = rare(n_test=4000)
    assert plan.majority_share == pytest.approx(0.9, abs=0.02)
    assert plan.constant == 0.5
    for one in plan.rows:
        model = FiniteAggregationClassifier(LogisticRegression(C=0.02), k=int(one.k), d=1, classes=range(2))
        certificate = model.fit(data.train.X, data.train.labels).certify(data.test.X)
        assert one.clean_balanced == pytest.approx(certificate.balanced_accuracy(data.test.labels), abs=0.06)
        obtained = certificate.certified_fraction_balanced(data.test.labels, [3])[0]
        assert one.certified_balanced == pytest.approx(obtained, abs=0.06)
    assert plan.rows[0].certified_balanced > plan.rows[1].certified_balanced + 0.05
    assert plan.choice.k == 10


def test_a_plan_refuses_to_recommend_a_constant_answer(tmp_path, monkeypatch):
    from sklearn.dummy import DummyClassifier

    plan = make_plan(rare(), DummyClassifier(), attack_size=3, ks=(10,), ds=(1,), designs=False, n_jobs=1, seconds=20)
    assert plan.recommended is None
    assert plan.rows[0].certified > 0.85
    assert plan.rows[0].certified_balanced == pytest.approx(0.5, abs=0.01)
    plan.save(tmp_path / "plan.json")
    with pytest.raises(ValueError, match=r"recommends nothing: at attack size 3 no k is predicted.*try a smaller"):
        Plan.load(tmp_path / "plan.json").choice  # noqa: B018


def pilot(k, timing):
    return Pilot(k, 32, 100, 1000 / k, 0.9, None, None, (), 100.0, timing, 1.0)


def test_costs_follow_a_power_law_between_pilots():
    """Fitting takes size² / 100; 640 base classifiers of 20 samples on 2 workers, 5 s to start."""
    pilots = [pilot(k, Timing((1000 / k) ** 2 / 100, 0.5, 0.25, 1000)) for k in (25, 100)]
    site = Site(1000, 50, 10, 8, 2, 5.0, 10**8)
    cost = bill(pilots, 640, 50, site)
    assert cost.seconds == pytest.approx(5 + 320 * (4 + 0.75))
    assert cost.disk == pytest.approx(640 * 1000 + 2 * 640 * 50)
    assert cost.memory > 3e8
    assert bill(pilots, 50, 50, site).seconds == pytest.approx(5 + 50 * 4.75)  # one block: one worker
    assert bill(pilots[:1], 640, 25, site).seconds == pytest.approx(5 + 320 * 16.75)


def test_costs_of_a_pooled_learner_count_what_is_shared_once():
    pilots = [pilot(k, PooledTiming(0.01, (1000 / k) ** 3, 0.002, 1e-6, 1e-7, 9, 100)) for k in (25, 100)]
    cost = bill(pilots, 200, 50, Site(1000, 50, 10, 8, 2, 0.0, 10**8))
    shared = 1000 * 0.01 + 50 * (0.002 + 9000 * 1e-6)
    assert cost.seconds == pytest.approx(shared + 200 * 20**3 + 50 * 200 * 180 * 1e-7)
    assert cost.disk == 2 * 200 * 50


def test_a_pooled_learner_is_timed_by_its_parts():
    data = blobs()
    bench = Bench(KernelRidgeClassifier(), data.train.X, data.train.labels, None, [0, 1, 2], Split(), 50, -1, False)
    found = bench.pilot(20, 60.0)
    assert found.base_accuracy > 0.6
    assert all(value > 0 for value in (found.timing.share, found.timing.solve, found.timing.ask, found.timing.kernel))
    assert bench.start(20) == 0
    assert found.timing.copies == 1


def test_too_dear_base_classifiers_are_said_to_be_untried(monkeypatch):
    data, real = blobs(), Bench.pilot
    bench = Bench(GaussianNB(), data.train.X, data.train.labels, None, [0, 1, 2], Split(), 50, 1, False)
    assert bench.pilot(8, 1e-9) is None
    assert bench.pilot(8, 1e-9, insist=True).n_members == 24

    def limited(self, k, seconds, insist):
        return real(self, k, seconds) if k > 20 else None

    def too_large(self, k, seconds, insist):
        if k > 20:
            return real(self, k, seconds)
        raise MemoryError("it needs 900 GB")

    wish = {"attack_size": 3, "ds": (1,), "designs": False, "n_jobs": 1}
    for pilot, sentence in ((limited, "take too long for this pilot"), (too_large, "too much memory.*900 GB")):
        monkeypatch.setattr(Bench, "pilot", pilot)
        plan = make_plan(data, GaussianNB(), ks=(8, 40), **wish)
        assert [pilot.k for pilot in plan.pilots] == [40]
        assert re.match(f"k below 40 was not tried: at k = 8, .*{sentence}", plan.remarks[0])
        assert {row.k for row in plan.rows} == {40}
        with pytest.raises(ValueError, match=f"No k can be tried: at k = 8, .*{sentence}"):
            make_plan(data, GaussianNB(), ks=(8,), **wish)


def test_a_plan_is_read_back_and_refused_if_altered(planned, tmp_path):
    planned.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == planned
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"attack_size": 4', '"attack_size": 5'))
    with pytest.raises(ValueError, match="is altered"):
        Plan.load(tmp_path / "plan.json")
    write_record(tmp_path / "other.json", {"format": "poisonproof run 1"})
    with pytest.raises(ValueError, match="is no plan; `poisonproof plan DATA"):
        Plan.load(tmp_path / "other.json")
    write_record(tmp_path / "other.json", {"format": "poisonproof plan 3", "rows": []})
    with pytest.raises(ValueError, match="is no plan"):
        Plan.load(tmp_path / "other.json")


def test_a_plan_is_for_its_own_data_and_learner(planned):
    planned.check(blobs(n_test=5), GaussianNB())
    with pytest.raises(ValueError, match="made on other training data"):
        planned.check(blobs().without([3]), GaussianNB())
    with pytest.raises(ValueError, match="made with the learner GaussianNB"):
        planned.check(blobs(), KernelRidgeClassifier())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attack_size": 0}, "The attack size must be at least 1, for at 0 there is nothing to plan. Got 0."),
        ({"attack_size": -3}, "at least 1.*Got -3."),
        ({"attack_size": 100}, "below a quarter of the 400 training samples.*Got 100."),
        ({"ks": (8, 20)}, "Every k must be 9 or more, above twice the attack size.*Got \\[8, 20\\]."),
        ({"ks": ()}, "Every k must be 9 or more"),
        ({"ds": (0, 1)}, "Spread degrees must be whole numbers of 1 or more. Got \\[0, 1\\]."),
        ({"seconds": 0}, "The seconds for a pilot must be more than 0. Got 0."),
    ],
)
def test_bad_wishes_end_in_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_plan(blobs(), GaussianNB(), **{"attack_size": 4, "n_jobs": 1, **changes})


def test_a_k_that_was_asked_for_is_tried_however_few_rows_there_are(caplog):
    """One row less had made the same command fail."""
    plan = make_plan(
        blobs().without(range(80, 400)), GaussianNB(), attack_size=4, ks=(41,), ds=(1,), designs=False, n_jobs=1
    )
    assert [row.k for row in plan.rows] == [41]
    assert "with k = 41 subsets have fewer than two of the 80 training samples" in caplog.text


def test_bad_data_ends_in_one_sentence():
    data = blobs()
    small = data.without(range(50, 400))
    with pytest.raises(ValueError, match="A pilot needs at least 60 training samples"):
        make_plan(small, GaussianNB(), attack_size=4)
    for classes in (None, np.arange(3)):
        one = replace(data, train=replace(data.train, labels=np.zeros(400, int)), classes=classes)
        with pytest.raises(ValueError, match="training samples of two classes or more"):
            make_plan(one, GaussianNB(), attack_size=4)
    with pytest.raises(ValueError, match="blobs has no test samples"):
        make_plan(replace(data, test=data.test.take(np.arange(0))), GaussianNB(), attack_size=4)


@pytest.fixture
def table(tmp_path):
    data = blobs()
    lines = [
        "a,b,class",
        *(f"{a:.6f},{b:.6f},c{label}" for (a, b), label in zip(data.train.X, data.train.labels, strict=True)),
    ]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "own.csv"


def said(*words, code=0):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.stderr
    if code == 2:
        assert done.stdout == ""
        assert done.stderr.splitlines()[-1].count(".") <= 4
    return done


def test_plan_then_run_then_predicted_beside_obtained(table, tmp_path):
    own = (table, "--label", "class", "--n-jobs", 1)
    file = tmp_path / "my plan.json"
    small = ("--attack-size", 3, "--k", "12,24", "--d", "1,2", "--seconds", 20)
    done = said("plan", *own, *small, "--out", file, "--no-designs")
    assert "estimated" in done.stdout.lower()
    assert done.stdout.count("→") == 1
    command = next(line for line in done.stdout.splitlines() if line.startswith("Next: ")).removeprefix("Next: ")
    words = shlex.split(command)
    assert words[:2] == ["poisonproof", "run"]
    choice = Plan.load(file).choice

    folder = tmp_path / "run"
    done = said(*words[1:-1], folder)
    assert "What the plan predicted (estimated) beside what came out" in done.stdout
    line = next(line for line in done.stdout.splitlines() if "certified fraction (pointwise) at attack size 3" in line)
    assert f"{100 * choice.certified:.1f} %" in line
    manifest = read_record(folder / "manifest.json")
    digest = Spread.random(choice.k, choice.d).digest[:16]
    premise = f"spread: k = {choice.k}, d = {choice.d}, digest {digest} (chosen from this data)"
    assert [stated for stated in in_words(manifest) if f"k = {choice.k}" in stated] == [premise]
    assert (manifest["settings"]["k"], manifest["settings"]["d"]) == (choice.k, choice.d)
    page = (folder / "report.html").read_text()
    assert "What was planned, and what came out" in page
    assert premise in page

    record = json.loads(said(*words[1:-1], folder, "--json").stdout)
    assert record["plan"]["certified_fraction"]["predicted"] == choice.certified
    certificate = Certificate.load(folder / "certificate.npz")
    assert record["plan"]["clean_accuracy"]["obtained"] == record["clean_accuracy"]
    assert [stated.declared for stated in certificate.premises if stated.code == "spread"] == [False]
    assert verify(folder).consistent

    said("update", folder, "--remove", "3", "--n-jobs", 1)
    manifest = read_record(folder / "manifest.json")
    assert premise in in_words(manifest)
    assert "time to train and vote" not in (folder / "report.html").read_text()
    assert premise in (folder / "report.html").read_text()


def test_a_designed_spread_is_followed_with_its_tight_certificate(table, tmp_path):
    words = (table, "--label", "class", "--n-jobs", 1, "--votes-only")
    file = tmp_path / "plan.json"
    found = json.loads(said("plan", *words, "--attack-size", 3, "--k", "14", "--d", 1, "--out", file, "--json").stdout)
    assert [row["spread"] for row in found["rows"]].count("random") == 1
    plan = Plan.load(file)
    designed = next(at for at, row in enumerate(plan.rows) if row.method == "tight")
    replace(plan, recommended=designed).save(file)
    done = json.loads(said("run", *words, "--plan", file, "--out", tmp_path / "run", "--json").stdout)
    votes = Votes.load(tmp_path / "run" / "votes.npy")
    assert votes.spread == parse_spread(plan.rows[designed].spread)
    y = json.loads(said("certify", tmp_path / "run" / "votes.npy", "--method", "tight", "--json").stdout)
    certificate = Certificate.load(tmp_path / "run" / "certificate.npz")
    assert (done["method"], certificate.method) == ("tight", "tight")
    assert certificate.radius.tolist() == y["radius"]
    assert done["plan"]["certified_fraction"]["obtained"] <= np.mean(np.array(y["radius"]) >= 3)
    assert not (certificate.radius == certify(votes).radius).all(), "Theorem 2 would have done"
    assert verify(tmp_path / "run").consistent


def test_the_command_refuses_in_one_sentence(table, tmp_path):
    own = (table, "--label", "class")
    (tmp_path / "taken.json").write_text("mine")
    planned = tmp_path / "plan.json"
    for words, sentence in (
        (own, "Say with --attack-size how many poisons"),
        ((*own, "--attack-size", 0), "The attack size must be at least 1"),
        ((*own, "--attack-size", -2), "The attack size must be at least 1"),
        ((*own, "--attack-size", 5000), "must be below a quarter of the"),
        ((*own, "--attack-size", 3, "--k", "9,x"), "--k must be whole numbers ≥ 0 with commas between"),
        ((*own, "--attack-size", 3, "--out", tmp_path / "taken.json"), "exists and is not a plan"),
        (("--attack-size", 3), "Missing argument"),
        (("nowhere", "--attack-size", 3), "There is no data set 'nowhere'"),
    ):
        assert sentence in said("plan", *words, code=2).stderr
    assert (tmp_path / "taken.json").read_text() == "mine"
    assert not planned.exists()


def test_partitions_on_disk_follow_a_plan_of_their_own_data_only(table, tmp_path):
    file, own = tmp_path / "plan.json", ("--label", "class", "--n-jobs", 1)
    small = ("--attack-size", 3, "--k", "12", "--d", 1, "--no-designs", "--out", file)
    said("plan", table, *own, *small)
    words = ("--plan", file, "--max-memory", "4GB", "--no-undefended", "--out", tmp_path / "run")
    said("run", table, *own, *words)
    other = table.with_name("other.csv")
    other.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    done = said("run", other, *own, *words[:-1], tmp_path / "other", code=2)
    assert "The plan was made on other training data than other.csv is now" in done.stderr


def test_run_refuses_a_plan_that_does_not_fit(table, planned, tmp_path):
    file = tmp_path / "plan.json"
    planned.save(file)
    for words, sentence in (
        (("--k", 30), "--plan says what --k is; leave one of them out."),
        (("--spread", "dpa:20"), "--plan says what --spread is"),
        ((), "The plan was made with the learner GaussianNB"),
    ):
        done = said("run", table, "--label", "class", "--plan", file, "--out", tmp_path / "run", *words, code=2)
        assert sentence in done.stderr
        assert not (tmp_path / "run").exists()
