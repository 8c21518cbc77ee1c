"""The independent checker agrees with slow references, passes honest runs and catches forgers who recompute digests."""

import hashlib
import json
import os
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
from colliding import colliding_rows, with_the_hash_of
from forgeries import FORGERIES
from forging import DATA, DIGITS, N, both, make, sign, table_data
from poisonproof import Certificate, Dataset, FiniteAggregationClassifier, Split, Spread, Votes, certify, verify
from poisonproof.cli.main import app
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.learners.inspection import describe
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.presets import preset
from poisonproof.runs.election import threat_model
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import damage, run
from poisonproof.system.files import open_arrays, read_record, sha256_of, write_record
from poisonproof.verification import fields
from poisonproof.verification.checks import threat_model as plain_threat_model
from poisonproof.verification.content import data_digests, partitions
from poisonproof.verification.proof_search import HarmfulError, Partitions, prove
from poisonproof.verification.theorem import (
    Branch,
    Dual,
    Largest,
    dpa_bound,
    leads,
    proves,
    read_spread,
    theorem_2,
    weights,
)
from poisonproof.verification.verdict import detection_probability
from refused import refused


class OwnNB(GaussianNB):
    """A learner of somebody's own."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return make(tmp_path_factory.mktemp("honest"))


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    return make(tmp_path_factory.mktemp("ranked"), rankings=True)


@pytest.fixture(scope="module")
def inferred(tmp_path_factory):
    return make(tmp_path_factory.mktemp("inferred"), classes=None, votes_only=True)


def outcomes(verdict):
    return {check.name: check.outcome for check in verdict.checks}


# Arithmetic against the slow references


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


def test_theorem_2_agrees_with_the_slow_reference():
    rng = np.random.default_rng(1)
    ties = abstentions = tables = 0
    for case in range(600):
        spread, n_classes, unseen = random_spread(rng), int(rng.integers(2, 6)), bool(case % 2)
        votes = random_votes(rng, spread.n_subsets, n_classes)
        plain = read_spread(spread.as_dict(), spread.n_subsets, "here")
        assert (plain.digest, plain.k, plain.d) == (spread.digest, spread.k, spread.d)
        reference = oracle.theorem_2(votes.tolist(), spread.as_table(), n_classes, unseen)
        row, counted = theorem_2(votes, plain, n_classes, unseen), leads(votes, n_classes, unseen)
        assert row.prediction == counted.prediction
        assert {**row._asdict(), "margin": counted.margin, "rivals": None} == {**reference, "rivals": None}
        bound = certify(Votes(votes[None], spread, range(n_classes), classes_inferred=unseen), "dpa-bound")
        within = np.flatnonzero(rng.random(spread.n_partitions) < rng.random())
        some = certify(Votes(votes[None], spread, range(n_classes), classes_inferred=unseen), reachable=within)
        among = theorem_2(votes, plain, n_classes, unseen, np.isin(np.arange(spread.n_partitions), within))
        assert (among.radius, among.runner_up) == (some.radius[0], some.runner_up[0])
        plain_bound = dpa_bound(row, spread.d)
        assert (plain_bound.radius, plain_bound.runner_up) == (bound.radius[0], bound.runner_up[0])
        top = np.sort(counted.counts)
        ties += top[-1] == top[-2]
        abstentions += n_classes in votes
        tables += plain.shifts is None
    assert min(ties, abstentions, tables) > 50


def best_cover(weight, table, size, allowed):
    chosen = combinations(np.flatnonzero(allowed), min(size, int(allowed.sum())))
    return max(int(weight[oracle.reached_by(some, table)].sum()) for some in chosen)


def test_a_proof_is_found_exactly_where_there_is_no_attack():
    rng = np.random.default_rng(2)
    seen = {True: 0, False: 0}
    for _ in range(60):
        spread, n_classes = random_spread(rng), int(rng.integers(2, 4))
        n, table = spread.n_subsets, spread.as_table()
        plain, everywhere = read_spread(spread.as_dict(), n, "here"), np.ones(n, bool)
        votes = random_votes(rng, n, n_classes)
        row = theorem_2(votes, plain, n_classes, True)
        for rival in row.rivals:
            w = weights(votes, row.prediction, rival, n_classes)
            for size in range(n + 1):
                exists = best_cover(w, table, size, everywhere) > rival.lead
                given = w, Partitions(np.arange(n), table, plain), everywhere, size, rival.lead
                if exists:
                    with pytest.raises(HarmfulError):
                        prove(*given)
                else:
                    assert proves(prove(*given), w, plain, everywhere, size, rival.lead)
                assert not (exists and size <= rival.radius and rival.lead >= 0)
                seen[exists] += 1
    assert min(seen.values()) > 100


def random_tree(rng, n, depth):
    kind = rng.integers(3 if depth else 2)
    if kind == 0:
        return Largest(int(rng.integers(-1, 5)))
    if kind == 1:
        return Dual(int(rng.integers(-1, 700)), rng.integers(-20, 530, n))
    return Branch(int(rng.integers(-1, n + 1)), random_tree(rng, n, depth - 1), random_tree(rng, n, depth - 1))


def test_no_tree_proves_what_is_false():
    """Trees made up at random, and those of true proofs with a lead that is too small."""
    rng = np.random.default_rng(5)
    accepted = 0
    for _ in range(1500):
        spread = random_spread(rng)
        n, table, w = spread.n_subsets, spread.as_table(), rng.integers(0, 3, spread.n_subsets)
        plain, allowed = read_spread(spread.as_dict(), spread.n_subsets, "here"), rng.random(n) < 0.8
        size = int(rng.integers(0, 4))
        cover = best_cover(w, table, size, allowed)
        for lead in (cover - 1, cover, cover + int(rng.integers(4))):
            found = proves(random_tree(rng, n, 2), w, plain, allowed, size, lead)
            assert not found or lead >= cover
            accepted += found
        true = prove(w, Partitions(np.arange(n), table, plain), allowed, size, cover)
        assert proves(true, w, plain, allowed, size, cover)
        assert not proves(true, w, plain, allowed, size, cover - 1)
        assert not proves(true, w, plain, allowed, size + 1, best_cover(w, table, size + 1, allowed) - 1)
    assert accepted > 50


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
    with refused("verify.bound"):
        detection_probability(4, 5, 1)


# Content, split and digests against poisonproof's own


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
def test_split_and_digests_agree_with_poisonproof(name, labels):
    X, split = kinds_of_samples()[name]
    groups = [f"contributor {i % 4}" if i % 2 else i for i in range(30)] if name == "groups" else None
    expected = split.partitions(split.samples(X), 7, labels, groups)
    assert partitions(split.as_dict(), 7, X, labels, groups).tolist() == expected.tolist()
    some = Dataset.of(name, X, labels, X[:5], labels[:5], np.arange(3), dtype=split.dtype, groups=groups)
    assert data_digests(some, groups) == some.digests()


def test_two_samples_of_one_hash_are_two_to_the_digests():
    numbers = np.array(colliding_rows())
    pixels = np.array([list(range(16)), list(with_the_hash_of(bytes(range(16)), b"poisoned"))], np.uint8)
    frame = pd.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1]})
    for X, dtype in ((numbers, "float64"), (pixels, "uint8"), (frame, "float64")):
        one, other = (Dataset.of("d", X[rows], [0], X[:1], [0], None, dtype=dtype) for rows in (slice(1), slice(1, 2)))
        assert (one.train.samples.content_hashes == other.train.samples.content_hashes).all()
        assert one.digests()["x_train"] != other.digests()["x_train"]
        assert data_digests(one) == one.digests()
        assert data_digests(other) == other.digests()


def test_digests_are_sha256_over_those_of_whole_contents():
    labels = ["ü", 2**60 + 1, -0.0, None]
    some = Dataset.of("d", np.zeros((1, 2)), labels, ["a text", "ü"], [1], None)
    contents = [b"t\x02" + bytes(7) + "ü".encode(), b"i\x13" + bytes(7) + b"1152921504606846977", b"n" + bytes(8), b"m"]
    for name, rows in {"y_train": contents, "x_train": [bytes(16)], "x_test": [b"a text", "ü".encode()]}.items():
        digests = b"".join(hashlib.sha256(row).digest() for row in rows)
        expected = hashlib.sha256(f"|V32 ({len(rows)},) ".encode() + digests).hexdigest()
        assert some.digests()[name] == data_digests(some)[name] == expected


@pytest.mark.parametrize("split", [Split(), Split("pixel-sum"), Split("group"), Split(hash_labels=True)])
def test_the_threat_table_is_the_one_poisonproof_prints(split):
    assert plain_threat_model(split.as_dict()) == threat_model(split)
    assert plain_threat_model(split.as_dict())["change a test sample"] == "not covered"


# Honest runs


def test_an_honest_run_is_consistent_verified_by_asking_and_verified_by_retraining(honest):
    verdict = verify(honest)
    assert verdict.verdict.startswith(
        "CONSISTENT: all 40 radii follow from the votes of 10 base classifiers by Theorem 2. "
        "No vote was made again. Not checked: the votes and rankings; "
    )
    assert (verdict.word, verdict.ok, verdict.consistent, verdict.exit_code) == ("CONSISTENT", False, True, 5)
    assert [check.name for check in verdict.not_checked] == ["split", "accuracy", "model", "members", "retraining"]
    asked = verify(honest, data=DATA)
    assert (asked.word, asked.ok, asked.exit_code) == ("VERIFIED", True, 0)
    assert "On the data given, the 10 kept base classifiers, asked about all 40 test samples, vote as" in asked.verdict
    assert fields.TRAINING in asked.unchecked
    assert verify(honest, data=DATA, source="the data that the run names").data == "the data that the run names"
    whole = verify(honest, data=DATA, retrain=N)
    assert set(outcomes(whole).values()) == {"ok"}, str(whole)
    assert "1 with 100.0 %" in whole.verdict
    assert fields.TRAINING not in whole.unchecked
    assert json.loads(json.dumps(whole.as_dict()))["not_checked"] == list(whole.unchecked)


def test_inferred_classes_pooled_learners_and_tables_are_verified(inferred, tmp_path):
    assert verify(inferred, data=DATA, estimator=GaussianNB(), retrain=N).ok
    alone = verify(inferred, data=DATA, retrain=1)
    assert outcomes(alone)["retraining"] == "not checked"
    assert "give estimator=" in alone.not_checked[-1].words
    pooled = make(tmp_path / "pooled", KernelRidgeClassifier(VectorFeatures(unit=16.0)), votes_only=True)
    found = verify(pooled, data=DATA, estimator=KernelRidgeClassifier(VectorFeatures(unit=16.0)), retrain=3, seed=5)
    assert found.ok, str(found)
    other = verify(pooled, data=DATA, estimator=KernelRidgeClassifier(gamma=3.0), retrain=3)
    assert "the learner at hand is KernelRidgeClassifier(gamma=3.0)" in other.failed[0].words


def test_a_preset_is_known_by_its_description(tmp_path):
    folder = make(tmp_path, preset("table"))
    shutil.rmtree(folder / "models")
    found = verify(folder, data=DATA, retrain=2)
    assert found.ok
    assert outcomes(found)["retraining"] == "ok"
    assert "that it names are gone" in found.checks[0].words


@pytest.mark.parametrize("name", ["numbers", "images", "sparse", "texts", "table", "groups"])
def test_the_default_learner_of_every_kind_of_samples_is_kept_by_its_name(tmp_path, name):
    """What stands in the record is the learner that was resolved, never None: it depends on the samples."""
    X, split = kinds_of_samples()[name]
    groups = [f"maker {i % 6}" for i in range(30)] if split.kind == "group" else None
    labels = np.arange(30) % 3
    dataset = Dataset.of(name, X, labels, X[:5], labels[:5], np.arange(3), dtype=split.dtype, groups=groups)
    model = FiniteAggregationClassifier(k=2, d=1, classes=range(3), split=split)
    run(dataset, model, tmp_path / "run", RunSettings(undefended=False))
    found = verify(tmp_path / "run", data=dataset, retrain=1)
    assert found.word == "VERIFIED", str(found)
    kept = FiniteAggregationClassifier.load(tmp_path / "run" / "models")
    assert describe(kept.estimator) == read_record(tmp_path / "run" / "manifest.json")["settings"]["learner"]


def test_a_sample_of_radii_says_how_likely_it_misses(honest):
    verdict = verify(honest, sample=10, seed=0)
    assert verdict.consistent
    assert "10 of 40 (drawn at random)" in verdict.verdict
    assert "1 with 25.0 %" in verdict.verdict
    radius = next(check for check in verdict.as_dict()["checks"] if check["name"] == "radius")
    assert radius["found_with"] == {"1": 0.25, "4": int(float(detection_probability(40, 4, 10)) * 1e6) / 1e6}
    assert verify(honest, sample=10).seed != verify(honest, sample=10).seed


# Forgers who have poisonproof's own save functions: tests/helpers/forgeries.py has the table, the rest is here


def forged(honest, folder, name):
    """A copy of an honest run after one forgery of the table."""
    forgery = next(forgery for forgery in FORGERIES if forgery.name == name)
    shutil.copytree(honest, folder)
    forgery.forge(folder)
    sign(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("two base classifiers’ votes exchanged, certified anew", {2, 8}),
        ("the same, with subset digests computed anew", set(range(N))),
    ],
)
def test_retraining_catches_what_it_draws(ranked, tmp_path, name, bad):
    folder = forged(ranked, tmp_path / "run", name)
    alone = verify(folder, data=DATA, ask=False)
    assert alone.word == "CONSISTENT", str(alone)
    for seed in range(4):
        found = verify(folder, data=DATA, retrain=3, seed=seed, ask=False)
        caught = {check.name for check in found.failed}
        drawn = np.sort(np.random.default_rng([seed, 3]).choice(N, 3, replace=False))
        assert caught == ({"retraining"} if bad & set(drawn.tolist()) else set())
    assert "trained again, votes otherwise on" in verify(folder, data=DATA, retrain=N, ask=False).verdict


def test_a_sample_of_test_samples_is_asked_about(honest, tmp_path):
    found = verify(honest, data=DATA, sample=10, seed=1)
    assert found.ok
    assert "asked about 10 of 40 test samples, vote as stated to the bit; of false rows of votes" in found.verdict
    assert fields.NOT_DRAWN in found.unchecked
    assert fields.NOT_DRAWN not in verify(honest, data=DATA).unchecked


def test_members_of_types_that_nobody_vouches_for_are_not_asked(tmp_path):
    folder = make(tmp_path / "own", OwnNB())
    found = verify(folder, data=DATA)
    assert found.word == "CONSISTENT"
    assert fields.MEMBERS in found.unchecked
    assert "types that are not known to be safe" in str(found)
    assert verify(folder, data=DATA, estimator=OwnNB()).word == "VERIFIED"


def test_another_environment_is_named_when_votes_differ(ranked, tmp_path):
    folder = forged(ranked, tmp_path / "run", "two base classifiers’ votes exchanged, certified anew")
    both(
        lambda manifest: manifest["environment"].update(numpy="1.0"),
        lambda facts: facts["origin"]["environment"].update(numpy="1.0"),
    )(folder)
    found = verify(folder, data=DATA, retrain=N)
    assert [check.name for check in found.failed] == ["members", "retraining"]
    assert all("made with another numpy (1.0 there," in check.words for check in found.failed)


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
            assert not verify(tmp_path / "run").consistent, (path.name, at)
        path.write_bytes(body[:-1])
        assert not verify(tmp_path / "run").consistent
        path.write_bytes(body)
    assert verify(tmp_path / "run").consistent


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
    assert found.word == "CONSISTENT", str(found)
    (folder / "votes.json").unlink()
    assert verify(folder / "certificate.npz", votes=folder / "votes.npy").consistent
    alone = verify(folder / "certificate.npz")
    assert alone.verdict.startswith("NOT VERIFIED: cannot check spread: the certificate comes without votes")
    assert alone.exit_code == 3


@pytest.mark.parametrize("within", [[], [3, 4, 5, 9], range(0, 21, 2), range(21)])
def test_certificates_within_reachable_partitions_are_computed_again(loose, within):
    """The premise carries the partitions, so that nobody is called a liar for trusting the others (Theorem 4)."""
    folder, votes = loose
    certificate = certify(votes, reachable=list(within))
    certificate.save(folder / "certificate.npz")
    found = verify(folder / "certificate.npz", votes=folder / "votes.npy")
    assert found.word == "CONSISTENT", str(found)
    assert f"within {len(within)} reachable partitions (Theorem 4)" in found.verdict
    assert fields.REACHABLE in found.unchecked

    def forged(**changes):
        replace(certificate, **changes).save(folder / "certificate.npz")
        return verify(folder / "certificate.npz", votes=folder / "votes.npy").verdict

    *_, stated = certificate.premises
    assert "base classifiers reckon with all partitions" in forged(method="dpa-bound")
    assert "does not name partitions of 21" in forged(premises=(replace(stated, value=f"{stated.value} "),))
    lower = np.maximum(certificate.radius - 1, 0)
    assert "is stated as" in forged(radius=np.where(certificate.radius > 0, lower, 1))
    if 0 < len(within) < 21:
        assert "is stated as" in forged(premises=())
        others = sorted({*range(21)} - {*within})
        assert "is stated as" in forged(premises=certify(votes, reachable=others).premises)


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
    below = certify(votes).radius - 1
    assert "but Theorem 2 alone gives" in forged(radius=np.maximum(below, -1)).verdict
    assert ": no rival" in forged(runner_up=tight.prediction.copy()).verdict
    assert forged().consistent
    assert fields.EXACT in forged(exact=~tight.exact).unchecked


def test_what_is_not_known_is_not_verified(loose):
    folder, votes = loose
    replace(certify(votes), method="oracle").save(folder / "certificate.npz")
    found = verify(folder / "certificate.npz", votes=folder / "votes.npy")
    assert found.verdict.startswith("CONSISTENT: this checker does not know the method 'oracle'.")
    assert fields.METHOD in found.unchecked
    replace(certify(votes), method="run-off").save(folder / "certificate.npz")
    found = verify(folder / "certificate.npz", votes=folder / "votes.npy")
    assert (
        found.verdict
        == "NOT VERIFIED: cannot check prediction: there are no rankings, and a run-off election needs them."
    )


def ranked_certificate(folder, d, inferred, places=4):
    """Run-off of 40 test samples by 24 base classifiers, some of which abstain."""
    rng = np.random.default_rng(d)
    spoken = rng.random((40, 24, 4)) + rng.choice([0, 0.3, 1.0], (40, 1, 1)) * rng.random((40, 1, 4))
    rankings = np.argsort(-spoken, axis=2)
    rankings[rng.random(rankings.shape[:2]) < 0.1] = 4
    rankings = rankings[..., :places]
    votes = Votes(rankings[..., 0], Spread.random(24 // d, d), range(4), rankings=rankings, classes_inferred=inferred)
    votes.save(folder / "votes.npy")
    certificate = certify(votes, "run-off")
    certificate.save(folder / "certificate.npz")
    return certificate


@pytest.mark.parametrize(("d", "inferred"), [(1, False), (3, False), (2, True)])
def test_radii_of_a_run_off_election_are_computed_again(tmp_path, d, inferred):
    certificate = ranked_certificate(tmp_path, d, inferred)
    assert certificate.radius.max() > 2
    found = verify(tmp_path / "certificate.npz", votes=tmp_path / "votes.npy")
    assert found.word == "CONSISTENT", found.verdict
    (radius,) = [check for check in found.checks if check.name == "radius"]
    assert "all 40 radii follow from the rankings of 24 base classifiers by run-off election" in radius.words
    assert fields.EXACT in found.unchecked

    def forged(**arrays):
        replace(certificate, **arrays).save(tmp_path / "forged.npz")
        return verify(tmp_path / "forged.npz", votes=tmp_path / "votes.npy").verdict

    at = np.arange(40) == 7
    larger, smaller = certificate.radius + at, certificate.radius - (np.arange(40) == certificate.radius.argmax())
    assert f"test sample 7 is stated as {larger[7]}, but its rankings do not prove that" in forged(radius=larger)
    assert f"but its rankings prove {certificate.radius.max()}" in forged(radius=smaller)
    assert "the prediction of test sample 7" in forged(
        prediction=np.where(at, 3 - certificate.prediction, certificate.prediction)
    )
    assert "the margin of test sample 7" in forged(margin=certificate.margin + at)
    assert ": no rival" in forged(runner_up=certificate.prediction.copy())


@pytest.mark.parametrize(("d", "inferred", "places"), [(1, False, 2), (2, True, 1), (2, False, 2), (3, True, 2)])
def test_radii_of_cut_rankings_are_computed_again(tmp_path, d, inferred, places):
    certificate = ranked_certificate(tmp_path, d, inferred, places)
    assert certificate.radius.max() > 1
    assert verify(tmp_path / "certificate.npz", votes=tmp_path / "votes.npy").word == "CONSISTENT"
    for at in (7, int(certificate.radius.argmax())):
        larger = certificate.radius + (np.arange(40) == at)
        replace(certificate, radius=larger).save(tmp_path / "forged.npz")
        verdict = verify(tmp_path / "forged.npz", votes=tmp_path / "votes.npy").verdict
        assert f"test sample {at} is stated as {larger[at]}, but its rankings do not prove that" in verdict


def test_certificates_describe_themselves(honest):
    facts = open_arrays(honest / "certificate.npz")[1]
    manifest = read_record(honest / "manifest.json")
    assert facts["poisonproof"] == manifest["environment"]["poisonproof"]
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
    assert done.exit_code == 5
    assert done.stdout.startswith("CONSISTENT: ")
    assert done.stdout.count("\n") == 1
    assert "no longer have the digests" in done.stderr  # "digits" by name is larger than the data of this run
    assert "not checked: retraining" in done.stderr
    forged(honest, tmp_path / "run", "one radius raised by 1")
    done = cli(tmp_path / "run", "--json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert (found["ok"], found["word"]) == (False, "NOT VERIFIED")
    for words, message in (
        ((tmp_path / "nowhere",), "neither a run directory nor a certificate"),
        ((tmp_path / "run" / "votes", "--retrain", 1), "does not say which data"),
        ((tmp_path / "run", "--votes", "votes.npy"), "holds its own votes"),
        ((tmp_path / "run", "--max-size", 0), "--max-size must be above 0"),
    ):
        done = cli(*words)
        assert done.exit_code == 2, done.output
        assert message in done.stderr


def test_the_command_checks_against_the_data_the_run_names(tmp_path):
    run(DIGITS, FiniteAggregationClassifier(GaussianNB(), k=3, d=2, classes=range(10)), tmp_path)
    done = cli(tmp_path, "--retrain", 2, "--seed", 1, "--sample", 9)
    assert done.exit_code == 0, done.output
    assert "On the data that the run names, the 6 kept" in done.stdout
    assert "2 of 6 base classifiers, drawn at random and trained again, vote as stated" in done.stdout
    assert cli(tmp_path, "--no-ask").exit_code == 5


@pytest.mark.posix
def test_the_command_finds_the_file_that_the_run_was_made_from(tmp_path):
    table_data(tmp_path)
    table, folder = tmp_path / "table.csv", tmp_path / "run"
    made = ["run", str(table), "--label", "answer", "--k", "3", "--d", "1", "--out", str(folder), "--n-jobs", "1"]
    assert CliRunner().invoke(app, made).exit_code == 0
    done = cli(folder)
    assert done.exit_code == 0, done.output
    assert "On the data that the run names" in done.stdout
    table.write_text(table.read_text() + "9,9,yes\n")
    done = cli(folder)
    assert (done.exit_code, "no longer have the digests" in done.stderr) == (5, True), done.output
    assert cli(folder, table).exit_code == 3  # data that were given must be the run's
    table.unlink()
    done = cli(folder)
    assert (done.exit_code, "could not be read" in done.stderr) == (5, True), done.output
    os.mkfifo(table)
    done = cli(folder)
    assert (done.exit_code, "is no regular file" in done.stderr) == (5, True), done.output


@pytest.fixture(scope="module")
def by_command(tmp_path_factory):
    """A run made by the command line, with its report, and its data."""
    folder = tmp_path_factory.mktemp("by-command")
    table_data(folder)
    words = ["--label", "answer", "--k", "3", "--d", "1", "--no-undefended", "--out", str(folder / "run")]
    made = CliRunner().invoke(app, ["run", str(folder / "table.csv"), *words])
    assert made.exit_code == 0, made.output
    return folder / "run", folder / "table.csv"


def test_a_report_may_be_gone_but_not_altered(by_command, tmp_path):
    honest, table = by_command
    folder = tmp_path / "run"
    shutil.copytree(honest, folder)
    report = folder / "report.html"
    assert read_record(folder / "manifest.json")["files"]["report.html"] == sha256_of(report)
    assert damage(folder) == []
    assert fields.WHAT_THE_REPORT_SAYS in cli(folder, table).stdout  # what it says is named all the same
    page = report.read_text()
    report.write_text(page.replace("</title>", " VERIFIED</title>"))
    done = cli(folder, table)
    assert done.exit_code == 3, done.output
    assert "report.html was altered" in done.stdout
    assert damage(folder) == [f"{report} is altered or missing."]
    report.unlink()
    done = cli(folder, table)
    assert done.exit_code == 0, done.output
    assert "gone ('report.html')" in done.stdout
    assert damage(folder) == []
    for again in (["run", table, "--label", "answer", "--k", 3, "--d", 1, "--no-undefended", "--out", folder],
                  ["update", folder, "--remove", "3"]):  # fmt: skip
        assert CliRunner().invoke(app, [str(word) for word in again]).exit_code == 0
        assert read_record(folder / "manifest.json")["files"]["report.html"] == sha256_of(report)
        assert cli(folder).exit_code == 0


@pytest.mark.parametrize("name", ["blessed_by", "recipe", "settings", "files", "status", "premises", "n_train"])
def test_whatever_a_manifest_says_there_is_a_verdict(by_command, tmp_path, name):
    """With the data given too: exit code 2 is for the user's own words, and the manifest is the forger's."""
    honest, table = by_command
    shutil.copytree(honest, tmp_path / "run")
    manifest = read_record(honest / "manifest.json")
    for nonsense in (5, None, [], {"a": []}, "x"):
        write_record(tmp_path / "run" / "manifest.json", {**manifest, name: nonsense})
        for words in ((), (table,), ("--retrain", 1)):
            done = cli(tmp_path / "run", *words)
            if name == "blessed_by":
                assert done.exit_code == 0, (nonsense, done.output)
                assert "entries of manifest.json that this checker does not know ('blessed_by')" in done.stdout
            else:
                assert done.exit_code in (3, 5), (nonsense, words, done.output, done.exception)


def test_the_checker_shares_nothing_with_what_it_checks(honest, tmp_path):
    parts = {"train": DATA.train, "test": DATA.test}
    arrays = {f"{name}_{what}": getattr(part, what) for name, part in parts.items() for what in ("X", "labels")}
    np.savez(tmp_path / "data.npz", **arrays)
    program = f"""
import sys
from types import SimpleNamespace
import numpy as np
from poisonproof.verification import verify
held = np.load({str(tmp_path / "data.npz")!r})
parts = (SimpleNamespace(X=held[name + "_X"], labels=held[name + "_labels"], groups=None) for name in ("train", "test"))
data = SimpleNamespace(dtype="float64", train=next(parts), test=next(parts))
verdict = verify({str(honest)!r}, data=data, ask=False)
print(verdict.verdict)
ours = [name for name in sys.modules if name.startswith("poisonproof.")]
# What encoders may open stands in system.files, which imports the archives that makers write.
shared = ("poisonproof.errors", "poisonproof.system", "poisonproof.system.files", "poisonproof.system.archives")
loaded = [name for name in ours if not name.startswith("poisonproof.verification") and name not in shared]
print(loaded, sorted({{"numba", "scipy", "sklearn"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    line, loaded = done.stdout.splitlines()
    assert line.startswith("CONSISTENT: all 40 radii")
    assert loaded == "[] []"


def test_verify_says_what_is_wrong_with_its_own_arguments(honest):
    for options, message in (
        ({"max_bytes": 0}, "'max_bytes' .* at least 1"),
        ({"sample": 0}, "'sample' .* at least 1"),
        ({"retrain": -1}, "'retrain' .* at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            verify(honest, **options)
    with pytest.raises(FileNotFoundError, match="No such file"):
        verify(honest / "certificate.npz", votes=honest / "nothing.npy")
    assert outcomes(verify(honest, data=SimpleNamespace(dtype="float64")))["split"] == "failed"
