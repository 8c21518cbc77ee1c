"""The independent checker: it agrees with slow twins, passes honest runs and catches forgers who recompute digests."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

import oracle
from bezoar import Certificate, FiniteAggregationClassifier, Split, Spread, Votes, certify, data, verify
from bezoar.cli import app
from bezoar.files import open_arrays, read_record, sha256_of, write_arrays, write_record, write_whole
from bezoar.learners.features.vectors import VectorFeatures
from bezoar.learners.kernel_ridge import KernelRidgeClassifier
from bezoar.learners.presets import preset
from bezoar.run import run, threat_model
from bezoar.verification import claims, coverage
from bezoar.verification.content import data_digests, partitions
from bezoar.verification.coverage import attack_exists
from bezoar.verification.theorem import dpa_bound, leads, read_spread, theorem_2, weights
from bezoar.verification.verdict import detection_probability

DIGITS = data.load("digits")
DATA = data.Dataset(
    "digits", DIGITS.x_train[:300], DIGITS.y_train[:300], DIGITS.x_test[:40], DIGITS.y_test[:40], DIGITS.classes
)
N = 10


def make(folder, estimator=None, classes=range(10), **options):
    model = FiniteAggregationClassifier(estimator or GaussianNB(), k=5, d=2, classes=classes)
    run(DATA, model, folder, **options)
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return make(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def inferred(tmp_path_factory):
    return make(tmp_path_factory.mktemp("inferred"), classes=None, votes_only=True)


def outcomes(verdict):
    return {check.name: check.outcome for check in verdict.checks}


# Arithmetic against the slow twins


def random_spread(rng):
    n = int(rng.integers(1, 9))
    d = int(rng.integers(1, n + 1))
    spread = Spread(n, tuple(rng.choice(n, d, replace=False).tolist()))
    if rng.random() < 0.5:
        relabelled = rng.permutation(n)[spread.as_table()[rng.permutation(n)]]
        spread = Spread.from_table(relabelled)
    return spread


def random_votes(rng, n, n_classes):
    votes = rng.integers(0, n_classes + 1, n)
    votes[rng.random(n) < rng.random()] = rng.integers(0, n_classes)
    return votes.astype(np.uint8)


def test_theorem_2_agrees_with_the_slow_twin():
    rng = np.random.default_rng(1)
    ties = abstentions = tables = 0
    for case in range(600):
        spread, n_classes, unseen = random_spread(rng), int(rng.integers(2, 6)), bool(case % 2)
        votes = random_votes(rng, spread.n_subsets, n_classes)
        plain = read_spread(spread.as_dict(), spread.n_subsets, "here")
        assert (plain.digest, plain.k, plain.d) == (spread.digest, spread.k, spread.d)
        twin = oracle.theorem_2(votes.tolist(), spread.as_table(), n_classes, unseen)
        row, counted = theorem_2(votes, plain, n_classes, unseen), leads(votes, n_classes, unseen)
        assert row.prediction == counted.prediction
        assert {**row._asdict(), "margin": counted.margin, "rivals": None} == {**twin, "rivals": None}
        bound = certify(Votes(votes[None], spread, range(n_classes), classes_inferred=unseen), "dpa-bound")
        plain_bound = dpa_bound(row, spread.d)
        assert (plain_bound.radius, plain_bound.runner_up) == (bound.radius[0], bound.runner_up[0])
        top = np.sort(counted.counts)
        ties += top[-1] == top[-2]
        abstentions += n_classes in votes
        tables += plain.shifts is None
    assert min(ties, abstentions, tables) > 50


def test_attacks_are_found_exactly_where_they_exist():
    rng = np.random.default_rng(2)
    seen = {True: 0, False: 0}
    for _ in range(60):
        spread, n_classes = random_spread(rng), int(rng.integers(2, 4))
        n, table = spread.n_subsets, spread.as_table()
        votes = random_votes(rng, n, n_classes)
        row = theorem_2(votes, read_spread(spread.as_dict(), n, "here"), n_classes, True)
        for rival in row.rivals:
            w = weights(votes, row.prediction, rival, n_classes)
            for size in range(n + 1):
                covers = [int(w[oracle.reached_by(chosen, table)].sum()) for chosen in combinations(range(n), size)]
                exists = max(covers) > rival.lead
                assert attack_exists(w, table, size, rival.lead) is exists
                assert exists or size == 0 or rival.radius <= n
                assert not (exists and size <= rival.radius and rival.lead >= 0)
                seen[exists] += 1
    assert min(seen.values()) > 100


def test_the_dual_never_proves_what_is_false_and_often_what_is_true(monkeypatch):
    monkeypatch.setattr(coverage, "STEPS", 60)
    rng = np.random.default_rng(5)
    proved = tried = 0
    for _ in range(60):
        spread = random_spread(rng)
        table, w = spread.as_table(), rng.integers(0, 3, spread.n_subsets)
        for size in range(1, min(3, spread.n_subsets) + 1):
            chosen = combinations(range(spread.n_subsets), size)
            cover = max(int(w[oracle.reached_by(some, table)].sum()) for some in chosen)
            assert not coverage._dual_proves_harmless(w, table, size, cover - 1)
            proved += coverage._dual_proves_harmless(w, table, size, cover)
            tried += 1
    assert proved > 0.8 * tried


def test_what_is_no_balanced_map_is_refused():
    for record, words in (
        ({"n_subsets": 4, "shifts": [0, 4]}, "different numbers in 0 … 3"),
        ({"n_subsets": 4, "shifts": [1, 0]}, "in increasing order"),
        ({"n_subsets": 4, "shifts": []}, "different numbers"),
        ({"n_subsets": 5, "shifts": [0]}, "over 5 subsets, but the votes have 4"),
        ({"n_subsets": 4, "table": [[0, 1], [0, 1], [0, 2], [3, 2]]}, "not balanced"),
        ({"n_subsets": 4, "table": [[0, 0], [1, 1], [2, 2], [3, 3]]}, "d different subsets"),
        ({"n_subsets": 4, "table": [[0], [1]]}, "one row"),
        ({"n_subsets": 2, "shifts": [0], "table": [[1], [0]]}, "by shifts or by a table"),
    ):
        with pytest.raises(Exception, match=words):
            read_spread(record, 4, "here")


def test_detection_probability_is_the_share_of_draws_that_hold_a_bad_one():
    for total in range(1, 8):
        for bad in range(total + 1):
            for drawn in range(total + 1):
                draws = list(combinations(range(total), drawn))
                hits = sum(any(i < bad for i in some) for some in draws)
                assert detection_probability(total, bad, drawn) * len(draws) == hits
    assert detection_probability(19_200, 192, 100) > 0.63
    with pytest.raises(ValueError, match="5 bad and 1 drawn"):
        detection_probability(4, 5, 1)


# Content, split and digests against bezoar's own


def kinds_of_samples():
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(30, 5)).round(1)
    numbers[0, 0], numbers[1, 1] = -0.0, np.nan
    sparse = sp.random(30, 9, 0.3, "csr", random_state=0)
    sparse.data[:4] = [-0.0, 0.0, -3.0, 2.0]
    texts = [f"text {i % 7} ü" for i in range(30)]
    table = pd.DataFrame({"a": numbers[:, 0], "b": texts, "c": pd.Categorical(texts), "d": [None, True, 3] * 10})
    return {
        "numbers": (numbers, Split()),
        "whole": (numbers[:, 2:3].round() * np.arange(4), Split("pixel-sum")),
        "images": (rng.integers(0, 255, (30, 4, 4)).astype(np.uint8), Split(dtype="uint8")),
        "image sums": (rng.integers(0, 255, (30, 4, 4)).astype(np.uint8), Split("pixel-sum", dtype="uint8")),
        "sparse": (sparse, Split()),
        "narrow sparse": (sparse, Split(n_features=6)),
        "texts": (texts, Split()),
        "table": (table, Split()),
        "labels": (numbers, Split(hash_labels=True)),
        "groups": (numbers, Split("group")),
    }


@pytest.mark.parametrize("name", kinds_of_samples())
@pytest.mark.parametrize("labels", [np.arange(30) % 3, np.array(["a", "b", "ü"] * 10), [1, "one", 1.5] * 10])
def test_split_and_digests_agree_with_bezoar(name, labels):
    X, split = kinds_of_samples()[name]
    groups = [f"contributor {i % 4}" if i % 2 else i for i in range(30)] if name == "groups" else None
    expected = split.partitions(split.samples(X), 7, labels, groups)
    assert partitions(split.as_dict(), 7, X, labels, groups).tolist() == expected.tolist()
    some = data.Dataset(name, X, labels, X[:5], labels[:5], np.arange(3), split.dtype)
    assert data_digests(some) == some.digests()


@pytest.mark.parametrize("split", [Split(), Split("pixel-sum"), Split("group"), Split(hash_labels=True)])
def test_the_threat_table_is_the_one_bezoar_prints(split):
    assert claims.threat_model(split.as_dict()) == threat_model(split)
    assert claims.threat_model(split.as_dict())["change a test sample"] == "not covered"


# Honest runs


def test_an_honest_run_is_verified(honest):
    verdict = verify(honest)
    assert verdict.ok, str(verdict)
    assert verdict.verdict.startswith(
        "VERIFIED: all 40 radii follow from the votes of 10 base classifiers by Theorem 2."
    )
    assert [check.name for check in verdict.not_checked] == ["split", "accuracy", "retraining"]
    whole = verify(honest, data=DATA, retrain=N)
    assert set(outcomes(whole).values()) == {"ok"}, str(whole)
    assert "1 with 100.0 %" in whole.verdict
    json.dumps(whole.as_dict())


def test_inferred_classes_pooled_learners_and_tables_are_verified(inferred, tmp_path):
    assert verify(inferred, data=DATA, estimator=GaussianNB(), retrain=N).ok
    alone = verify(inferred, data=DATA, retrain=1)
    assert outcomes(alone)["retraining"] == "not checked"
    assert "give estimator=" in alone.not_checked[0].words
    pooled = make(tmp_path / "pooled", KernelRidgeClassifier(VectorFeatures(unit=16.0)), votes_only=True)
    found = verify(pooled, data=DATA, estimator=KernelRidgeClassifier(VectorFeatures(unit=16.0)), retrain=3, seed=5)
    assert set(outcomes(found).values()) == {"ok"}, str(found)
    other = verify(pooled, data=DATA, estimator=KernelRidgeClassifier(gamma=3.0), retrain=3)
    assert "the learner at hand is KernelRidgeClassifier(gamma=3.0)" in other.failed[0].words


def test_a_preset_is_known_by_its_description(tmp_path):
    folder = make(tmp_path, preset("table"))
    shutil.rmtree(folder / "models")
    found = verify(folder, data=DATA, retrain=2)
    assert found.ok
    assert outcomes(found)["retraining"] == "ok"
    assert "that it names are gone" in found.checks[0].words


def test_a_sample_of_radii_says_how_likely_it_misses(honest):
    verdict = verify(honest, sample=10, seed=0)
    assert verdict.ok
    assert "10 of 40 (drawn at random)" in verdict.verdict
    assert "1 with 25.0 %" in verdict.verdict
    radius = next(check for check in verdict.as_dict()["checks"] if check["name"] == "radius")
    assert radius["found_with"] == {"1": 0.25, "4": int(float(detection_probability(40, 4, 10)) * 1e6) / 1e6}
    assert verify(honest, sample=10).seed != verify(honest, sample=10).seed


# Forgers who have bezoar's own save functions


def sign(folder, edit=None):
    """The manifest anew, with the digests that its files now have."""
    there = read_record(folder / "manifest.json")
    if edit:
        edit(there)
    there["files"] = {
        name: sha256_of(folder / name) if (folder / name).exists() else digest
        for name, digest in there["files"].items()
    }
    write_record(folder / "manifest.json", there)


def new_certificate(folder, change):
    certificate = Certificate.load(folder / "certificate.npz")
    arrays = {name: getattr(certificate, name).copy() for name in ("prediction", "runner_up", "margin", "radius")}
    change(arrays)
    replace(certificate, **arrays).save(folder / "certificate.npz")


def new_facts(folder, change):
    arrays, facts = open_arrays(folder / "certificate.npz")
    change(facts)
    write_arrays(folder / "certificate.npz", arrays, {k: v for k, v in facts.items() if k not in ("sha256", "digest")})


def new_ensemble(folder, *, recertify=True, **changes):
    """Votes, spread, classes … changed in every file, and certified by bezoar itself."""
    old, certificate = Votes.load(folder / "votes.npy"), Certificate.load(folder / "certificate.npz")
    known = {
        name: getattr(old, name) for name in ("matrix", "spread", "classes", "split", "classes_inferred", "premises")
    }
    known["matrix"] = np.array(known["matrix"])
    votes = Votes(**(known | changes))
    votes.save(folder / "votes.npy")
    votes.spread.save(folder / "spread.npz")
    made = certify(votes) if recertify else certificate
    made = replace(
        made,
        spread=votes.spread,
        classes=votes.classes,
        premises=votes.premises,
        origin=certificate.origin,
        method=made.method,
    )
    made.save(folder / "certificate.npz")
    block = folder / "votes" / "block-00000.npz"
    arrays, facts = open_arrays(block)
    rest = {name: value for name, value in facts.items() if name not in ("sha256", "digest")}
    write_arrays(block, {**arrays, "votes": votes.matrix}, rest)
    if (folder / "models").exists():
        model = read_record(folder / "models" / "model.json")
        model["spread"], model["premises"] = (
            votes.spread.as_dict(),
            [[p.what, p.value, p.declared] for p in votes.premises],
        )
        sizes = np.zeros(N, int)
        np.add.at(sizes, votes.spread.as_table(), np.array(model["partition_sizes"])[:, None])
        model["subset_sizes"] = sizes.tolist()
        model["classes"] = {"kind": votes.classes.dtype.kind, "values": votes.classes.tolist()}
        model["classes_inferred"] = votes.classes_inferred
        write_record(folder / "models" / "model.json", model)

    def settings(there):
        there["settings"] |= {
            "k": votes.spread.k,
            "d": votes.spread.d,
            "spread_digest": votes.spread.digest,
            "classes": votes.classes.tolist(),
        }
        there["premises"] = [str(premise) for premise in votes.premises]

    sign(folder, settings)


def with_premise(folder, what, **changes):
    there = Votes.load(folder / "votes.npy").premises
    return [replace(premise, **changes) if premise.what == what else premise for premise in there]


def radius_raised(folder):
    new_certificate(folder, lambda arrays: arrays["radius"].__setitem__(17, arrays["radius"][17] + 1))


def certificate_of_other_shifts(folder):
    certificate = Certificate.load(folder / "certificate.npz")
    replace(certificate, spread=Spread(N, (0, 1))).save(folder / "certificate.npz")


def other_shifts_everywhere(folder):
    spread = Spread(N, (0, 1, 2, 3))
    value = f"k = 2.5, d = 4, digest {spread.digest[:16]}"
    new_ensemble(folder, spread=spread, premises=with_premise(folder, "spread", value=value), recertify=False)


def unsorted_records(folder):
    other = Votes.load(folder / "votes.npy")
    Votes(np.array(other.matrix), other.spread, [*range(9), 11], other.split, premises=other.premises).save(
        folder / "votes.npy"
    )


def votes_of_another_run(folder):
    old = Votes.load(folder / "votes.npy")
    matrix = np.array(old.matrix)[np.random.default_rng(0).permutation(len(old.matrix))]
    new_ensemble(folder, matrix=matrix, recertify=False)


def relabelled(folder):
    names = [*range(9), 11]
    value = "10 labels, 0, 1, 2, 3, 4, 5, 6, 7, 8, 11"
    new_ensemble(folder, classes=names, premises=with_premise(folder, "classes", value=value))


def without_a_premise(folder):
    new_ensemble(folder, premises=[p for p in Votes.load(folder / "votes.npy").premises if p.what != "learner"])


def declared_features(folder):
    new_ensemble(folder, premises=with_premise(folder, "number of features", declared=True))


def split_moved(folder):
    partition = np.load(folder / "split.npy")
    a, b = 0, int(np.flatnonzero(partition != partition[0])[0])
    partition[[a, b]] = partition[[b, a]]
    write_whole(folder / "split.npy", lambda file: np.save(file, partition))


def split_out_of_range(folder):
    partition = np.load(folder / "split.npy")
    partition[0] = N
    write_whole(folder / "split.npy", lambda file: np.save(file, partition))


def abstaining(folder):
    matrix = np.array(Votes.load(folder / "votes.npy").matrix)
    matrix[4, 3] = 10
    new_ensemble(folder, matrix=matrix)


def block_of_other_votes(folder):
    block = folder / "votes" / "block-00000.npz"
    arrays, facts = open_arrays(block)
    arrays["votes"][0, 0] = (arrays["votes"][0, 0] + 1) % 10
    write_arrays(block, arrays, {name: value for name, value in facts.items() if name not in ("sha256", "digest")})


def new_model(folder, change):
    record = read_record(folder / "models" / "model.json")
    change(record)
    write_record(folder / "models" / "model.json", record)


def edited(change):
    return lambda folder: sign(folder, change)


def changed(name, row, by):
    return lambda folder: new_certificate(folder, lambda a: a[name].__setitem__(row, (a[name][row] + by) % 10))


FORGERIES = {
    "radius + 1": (radius_raised, {}, r"radius: the radius of test sample 17 is stated as (\d+), but its votes give"),
    "prediction": (changed("prediction", 5, 1), {}, "the prediction of test sample 5 is stated as"),
    "margin": (changed("margin", 6, 1), {}, "the margin of test sample 6 is stated as"),
    "runner-up": (changed("runner_up", 7, 3), {}, "the runner-up of test sample 7 is stated as"),
    "other shifts in one file": (certificate_of_other_shifts, {}, "and certificate.npz hold different spreads"),
    "other shifts, radii kept": (other_shifts_everywhere, {}, "radius: .* but its votes give"),
    "k in the manifest": (
        edited(lambda m: m["settings"].update(k=10, d=1)),
        {},
        r"manifest\.json states k = 10, d = 1, 10 subsets, but the spread has k = 5, d = 2",
    ),
    "k in the certificate": (
        lambda folder: new_facts(folder, lambda facts: facts.update(k=10)),
        {},
        r"certificate\.npz states k = 10, d = 2",
    ),
    "spread digest": (
        edited(lambda m: m["settings"].update(spread_digest="0" * 64)),
        {},
        r"manifest\.json states a spread digest",
    ),
    "classes in one file": (unsorted_records, {}, r"votes\.json and certificate\.npz name different classes"),
    "classes twice": (
        lambda folder: new_facts(folder, lambda facts: facts["classes"]["values"].__setitem__(0, 1)),
        {},
        "names a label twice",
    ),
    "classes in the manifest": (
        edited(lambda m: m["settings"].update(classes=list(range(1, 11)))),
        {},
        r"manifest\.json and certificate\.npz name different classes",
    ),
    "classes everywhere": (
        relabelled,
        {"data": DATA},
        r"split: split\.npy holds 300 training samples, but \d+ of the data",
    ),
    "classes_inferred in one file": (
        lambda folder: new_facts(folder, lambda facts: facts.update(classes_inferred=True)),
        {},
        "disagree on whether the classes were inferred",
    ),
    "votes of another run": (votes_of_another_run, {}, "of test sample .* but its votes give"),
    "a block of other votes": (block_of_other_votes, {}, r"block-00000\.npz holds other votes than votes\.npy"),
    "an abstention": (abstaining, {}, "base classifier 3 abstains on a non-empty subset"),
    "accuracy between two counts": (
        edited(lambda m: m.update(clean_accuracy=m["clean_accuracy"] + 0.001)),
        {},
        "manifest: clean_accuracy is stated as",
    ),
    "accuracy of one more": (
        edited(lambda m: m.update(clean_accuracy=(round(m["clean_accuracy"] * 40) + 1) / 40)),
        {"data": DATA},
        r"accuracy: clean_accuracy is stated as .* but \d+ of 40 are right",
    ),
    "threat model": (
        edited(lambda m: m["threat_model"].update({"change a test sample": 1})),
        {},
        'manifest: threat_model: change a test sample is stated as 1, but the rest of the files give "not covered"',
    ),
    "threat model of the certificate": (
        lambda folder: new_facts(
            folder, lambda facts: facts["origin"]["threat_model"].update({"flip the label of a training sample": 0})
        ),
        {},
        "origin of the certificate: threat_model",
    ),
    "learner of the certificate": (
        lambda folder: new_facts(folder, lambda facts: facts["origin"].update(learner="ResNet()")),
        {},
        r'origin of the certificate: learner is stated as "ResNet\(\)"',
    ),
    "unit of the manifest": (edited(lambda m: m.update(unit="contributors")), {}, "unit of the manifest is stated as"),
    "unit of the certificate": (
        lambda folder: new_facts(folder, lambda facts: facts.update(unit="contributors")),
        {},
        "manifest: unit is stated as",
    ),
    "a premise removed": (without_a_premise, {}, "the premise 'learner' is missing"),
    "a premise called declared": (declared_features, {}, r"number of features: 64 \(declared\)' does not follow"),
    "premises of the manifest": (
        edited(lambda m: m["premises"].pop()),
        {},
        r"manifest\.json and certificate\.npz list different premises",
    ),
    "a model file left out": (
        lambda folder: new_model(folder, lambda m: m["files"].pop("estimator.skops")),
        {},
        r"model\.json does not name estimator\.skops",
    ),
    "a model file elsewhere": (
        lambda folder: new_model(folder, lambda m: m["files"].update({"../votes.npy": "0" * 64})),
        {},
        r"names '\.\./votes\.npy', which is no file of a model",
    ),
    "subset sizes": (
        lambda folder: new_model(folder, lambda m: m["subset_sizes"].__setitem__(0, 0)),
        {},
        "subset_sizes is stated as",
    ),
    "n_train": (edited(lambda m: m.update(n_train=60_000)), {}, "n_train is stated as 60000"),
    "n_test": (edited(lambda m: m.update(n_test=41)), {}, "n_test is stated as 41"),
    "empty subsets": (edited(lambda m: m.update(empty_subsets=1)), {}, "empty_subsets is stated as 1"),
    "method": (edited(lambda m: m.update(method="tight")), {}, 'method is stated as "tight"'),
    "split in the settings": (
        edited(lambda m: m["settings"]["split"].update(kind="group")),
        {},
        "premises: the premise 'split: content",
    ),
    "two samples change places": (split_moved, {"data": DATA}, "training sample 0 belongs to partition"),
    "a partition that is none": (split_out_of_range, {}, "a partition that is not in 0 … 9"),
    "a run that is not complete": (edited(lambda m: m.update(status="running")), {}, "not complete"),
    "another format": (edited(lambda m: m.update(format="bezoar run 2")), {}, "of format 'bezoar run 2'"),
    "a path out of the run": (
        edited(lambda m: m["files"].update({"../../etc/passwd": "0" * 64})),
        {},
        "names '../../etc/passwd', which is no file of a run",
    ),
    "a file left out": (edited(lambda m: m["files"].pop("votes.npy")), {}, r"does not name votes\.npy"),
    "a method nobody knows": (
        lambda folder: new_facts(folder, lambda facts: facts.update(method="oracle")),
        {},
        'method is stated as "finite-aggregation"',
    ),
    "other training data": (
        lambda folder: None,
        {"data": replace(DATA, x_train=DATA.x_train[::-1])},
        "the x_train at hand is not the one",
    ),
    "a digest of the data left out": (
        lambda folder: (
            new_facts(folder, lambda facts: facts["origin"]["dataset"].pop("x_test")),
            sign(folder, lambda m: m["settings"]["dataset"].pop("x_test")),
        ),
        {"data": DATA},
        "the x_test at hand is not the one",
    ),
    "nonsense": (edited(lambda m: m.update(settings=[])), {}, "could not be followed"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forger_who_recomputes_digests_is_caught(honest, tmp_path, name):
    forge, options, words = FORGERIES[name]
    folder = tmp_path / "run"
    shutil.copytree(honest, folder)
    forge(folder)
    sign(folder)
    verdict = verify(folder, **options)
    assert not verdict.ok
    assert re.search(words, str(verdict)), str(verdict)
    assert verdict.verdict.startswith("NOT VERIFIED: ")


def test_radii_as_large_as_the_method_gives_are_asked_for(honest, tmp_path):
    """A smaller radius is sound, but it is not what the method says: the files are not what they were."""
    shutil.copytree(honest, tmp_path / "run")
    new_certificate(tmp_path / "run", lambda a: a["radius"].__setitem__(a["radius"].argmax(), 0))
    sign(tmp_path / "run")
    assert not verify(tmp_path / "run").ok


def swapped_columns(folder):
    matrix = np.array(Votes.load(folder / "votes.npy").matrix)
    matrix[:, [2, 8]] = matrix[:, [8, 2]]
    new_ensemble(folder, matrix=matrix)


def smaller_d_everywhere(folder):
    spread = Spread(N, (0,))
    value = f"k = 10, d = 1, digest {spread.digest[:16]}"
    new_ensemble(folder, spread=spread, premises=with_premise(folder, "spread", value=value))


@pytest.mark.parametrize(("forge", "bad"), [(swapped_columns, {2, 8}), (smaller_d_everywhere, set(range(N)))])
def test_votes_that_are_not_those_of_the_subsets_are_caught_by_retraining_alone(honest, tmp_path, forge, bad):
    folder = tmp_path / "run"
    shutil.copytree(honest, folder)
    forge(folder)
    if forge is swapped_columns:  # the accuracy may have moved with the votes; a forger would write the new one
        right = (Certificate.load(folder / "certificate.npz").labels == DATA.y_test).sum()
        sign(folder, lambda m: m.update(clean_accuracy=int(right) / 40))
    assert set(outcomes(verify(folder, data=DATA)).values()) == {"ok", "not checked"}
    for seed in range(4):
        found = verify(folder, data=DATA, retrain=3, seed=seed)
        caught = {check.name for check in found.failed}
        drawn = np.sort(np.random.default_rng([seed, 3]).choice(N, 3, replace=False))
        assert caught == ({"retraining"} if bad & set(drawn.tolist()) else set())
    everything = verify(folder, data=DATA, retrain=N)
    assert "trained again, votes otherwise on" in everything.verdict


def test_another_environment_is_named_when_votes_differ(honest, tmp_path):
    shutil.copytree(honest, tmp_path / "run")
    swapped_columns(tmp_path / "run")

    def other_numpy(there):
        there["environment"]["numpy"] = "1.0"

    new_facts(tmp_path / "run", lambda facts: facts["origin"]["environment"].update(numpy="1.0"))
    sign(tmp_path / "run", other_numpy)
    found = verify(tmp_path / "run", data=DATA, retrain=N)
    assert "made with another numpy (1.0 there," in found.failed[-1].words


def test_dropping_the_unseen_class_contradicts_the_premises(inferred, tmp_path):
    honest_radii = Certificate.load(inferred / "certificate.npz").radius
    shutil.copytree(inferred, tmp_path / "run")
    new_ensemble(tmp_path / "run", classes_inferred=False)
    assert "its premises say the opposite" in verify(tmp_path / "run").verdict
    new_ensemble(tmp_path / "run", premises=with_premise(tmp_path / "run", "classes", declared=True))
    forged = verify(tmp_path / "run")
    assert forged.ok  # nothing in the files contradicts it any more, and the checker says whose word it is
    assert "declared beforehand is the maker's word" in str(forged)
    assert (Certificate.load(tmp_path / "run" / "certificate.npz").radius >= honest_radii).all()


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "votes.json", "votes.npy", "certificate.npz", "spread.npz", "split.npy", "votes", "models"],
)
def test_no_flipped_bit_goes_unnoticed(honest, tmp_path, name):
    shutil.copytree(honest, tmp_path / "run")
    place = tmp_path / "run" / name
    for path in sorted(place.iterdir()) if place.is_dir() else [place]:
        body = path.read_bytes()
        for at in range(0, len(body), max(1, len(body) // 24)):
            path.write_bytes(body[:at] + bytes([body[at] ^ 1 << at % 8]) + body[at + 1 :])
            assert not verify(tmp_path / "run").ok, (path.name, at)
        path.write_bytes(body[:-1])
        assert not verify(tmp_path / "run").ok
        path.write_bytes(body)
    assert verify(tmp_path / "run").ok


# Loose certificates


@pytest.fixture
def loose(tmp_path):
    rng = np.random.default_rng(4)
    matrix = np.where(rng.random((60, 21)) < rng.random((60, 1)) / 2, rng.integers(0, 4, (60, 21)), 0)
    votes = Votes(matrix, Spread(21, (0, 1, 4, 14, 16)), range(4))
    votes.save(tmp_path / "votes.npy")
    return tmp_path, votes


@pytest.mark.parametrize("method", ["finite-aggregation", "dpa-bound", "tight"])
def test_loose_certificates_of_every_method(loose, method):
    folder, votes = loose
    certify(votes, method).save(folder / "certificate.npz")
    found = verify(folder / "certificate.npz", votes=folder / "votes.npy", sample=60)
    assert found.ok, str(found)
    (folder / "votes.json").unlink()
    assert verify(folder / "certificate.npz", votes=folder / "votes.npy").ok
    alone = verify(folder / "certificate.npz")
    assert alone.verdict.startswith("CANNOT CHECK: spread: the certificate comes without votes")
    assert not alone.ok


def test_a_tight_radius_that_is_too_large_is_refuted_by_an_attack(loose):
    folder, votes = loose
    tight = certify(votes, "tight")
    raised = np.flatnonzero(tight.radius > certify(votes).radius)
    exact = np.flatnonzero(tight.exact)
    assert len(raised) > 5
    assert len(exact) > 30

    def forged(**arrays):
        replace(tight, **arrays).save(folder / "certificate.npz")
        return verify(folder / "certificate.npz", votes=folder / "votes.npy", sample=60)

    for t in exact[:6]:
        larger = tight.radius.copy()
        larger[t] += 1
        assert (
            f"test sample {t} is stated as {larger[t]}, but {larger[t]} poisoned partitions can"
            in forged(radius=larger).verdict
        )
    smaller = tight.radius.copy()
    smaller[raised[0]] -= 1
    claimed = tight.exact.copy()
    claimed[raised[0]] = True
    assert (
        f"radius {smaller[raised[0]]} of test sample {raised[0]} is called exact, but no"
        in forged(radius=smaller, exact=claimed).verdict
    )
    below = certify(votes).radius - 1
    assert "but Theorem 2 alone gives" in forged(radius=np.maximum(below, -1)).verdict
    assert ": no rival" in forged(runner_up=tight.prediction.copy()).verdict
    assert forged().ok
    found = verify(folder / "certificate.npz", votes=folder / "votes.npy")
    assert "called exact 25 were confirmed" in found.verdict


def test_what_is_not_known_is_not_verified(loose):
    folder, votes = loose
    replace(certify(votes), method="run-off").save(folder / "certificate.npz")
    found = verify(folder / "certificate.npz", votes=folder / "votes.npy")
    assert found.verdict == "CANNOT CHECK: prediction: this checker does not know the method 'run-off'."
    assert not found.ok


def test_certificates_describe_themselves(honest):
    facts = open_arrays(honest / "certificate.npz")[1]
    manifest = read_record(honest / "manifest.json")
    assert facts["bezoar"] == manifest["environment"]["bezoar"]
    assert facts["spread"]["shifts"]
    assert facts["origin"] == {
        "dataset": manifest["settings"]["dataset"],
        "learner": "GaussianNB()",
        "threat_model": manifest["threat_model"],
        "environment": manifest["environment"],
    }
    assert Certificate.load(honest / "certificate.npz").origin == facts["origin"]
    assert verify(
        honest / "certificate.npz", votes=honest / "votes.npy", data=DATA, retrain=N, estimator=GaussianNB()
    ).ok


# The command, and what it does not import


def cli(*words):
    return CliRunner().invoke(app, ["verify", *map(str, words)])


def test_the_command_says_one_line_and_a_code(honest, tmp_path):
    done = cli(honest)
    assert done.exit_code == 0
    assert done.stdout.startswith("VERIFIED: ")
    assert done.stdout.count("\n") == 1
    assert "not checked: retraining" in done.stderr
    shutil.copytree(honest, tmp_path / "run")
    radius_raised(tmp_path / "run")
    sign(tmp_path / "run")
    done = cli(tmp_path / "run", "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["ok"] is False
    for words, message in (
        ((tmp_path / "nowhere",), "neither a run directory nor a certificate"),
        ((tmp_path / "run" / "votes", "--retrain", 1), "does not say which data"),
        ((tmp_path / "run", "--votes", "votes.npy"), "holds its own votes"),
    ):
        done = cli(*words)
        assert done.exit_code == 2
        assert message in done.stderr


def test_the_command_checks_against_the_data_the_run_names(tmp_path):
    run(DIGITS, FiniteAggregationClassifier(GaussianNB(), k=3, d=2, classes=range(10)), tmp_path)
    done = cli(tmp_path, "--retrain", 2, "--seed", 1, "--sample", 9)
    assert done.exit_code == 0, done.output
    assert "2 of 6 base classifiers, drawn at random and trained again, vote as stated" in done.stdout


def test_the_checker_shares_nothing_with_what_it_checks(honest, tmp_path):
    np.savez(
        tmp_path / "data.npz", **{name: getattr(DATA, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    )
    program = f"""
import sys
from types import SimpleNamespace
import numpy as np
from bezoar.verification import verify
data = SimpleNamespace(dtype="float64", **np.load({str(tmp_path / "data.npz")!r}))
verdict = verify({str(honest)!r}, data=data)
print(verdict.verdict)
loaded = [name for name in sys.modules if name.startswith("bezoar.") and not name.startswith("bezoar.verification")]
print(loaded, sorted({{"numba", "scipy", "sklearn"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    line, loaded = done.stdout.splitlines()
    assert line.startswith("VERIFIED: all 40 radii")
    assert line.endswith("Not checked: retraining.")
    assert loaded == "[] []"


def test_verify_says_what_is_wrong_with_its_own_arguments(honest):
    for options, message in (({"sample": 0}, "'sample' .* at least 1"), ({"retrain": -1}, "'retrain' .* at least 0")):
        with pytest.raises(ValueError, match=message):
            verify(honest, **options)
    with pytest.raises(FileNotFoundError, match="No such file"):
        verify(honest / "certificate.npz", votes=honest / "nothing.npy")
    assert outcomes(verify(honest, data=SimpleNamespace(dtype="float64")))["split"] == "failed"
