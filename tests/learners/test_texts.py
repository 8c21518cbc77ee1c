"""Words are read once for all base classifiers, and each has what it would have read itself, to the bit."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

import poisonproof.training.engine as shared_texts
import poisonproof.training.members as member_list
import poisonproof.training.stacked as stacked_module
from poisonproof import FiniteAggregationClassifier
from poisonproof.learners.auto import AutoClassifier
from poisonproof.learners.inspection import seeded
from poisonproof.learners.table import TableClassifier
from poisonproof.learners.text import BayesTextClassifier, RidgeTextClassifier, TextClassifier, WordReading
from poisonproof.samples.batches import EncodedTexts
from poisonproof.samples.convert import to_samples
from poisonproof.samples.kinds import TrainingSet
from poisonproof.training.engine import with_shared_texts
from poisonproof.training.members import fed_to, fit_member, vote_of
from poisonproof.training.stacked import stacked
from refused import refused
from stacks import LEARNERS, N_CLASSES, TEXTS, kinds_of_samples, members_of, odd_columns, odd_texts, one_by_one

READINGS = [WordReading(5.0, 1 << 18), WordReading(0.7, 64), WordReading(float(np.sqrt(0.5)), 1 << 12, pieces=True)]
OF_TEXTS = [name for name in LEARNERS if name != "choice"]


def read_alone(texts, reading):
    """The same in so many words, for one column."""
    signs = {"binary": True, "alternate_sign": False} if reading.pieces else {}
    parts = [HashingVectorizer(n_features=reading.n_hashed, ngram_range=(1, 2), **signs).transform(texts)]
    if reading.pieces:
        pieces = HashingVectorizer(n_features=reading.n_hashed, ngram_range=(3, 5), analyzer="char_wb", **signs)
        parts.append(pieces.transform(texts))
    rows = sp.csr_matrix(sp.hstack(parts, format="csr")) * reading.weight
    rows.sort_indices()
    return rows


def same_rows(one, other):
    return one.shape == other.shape and all(
        getattr(one, name).tolist() == getattr(other, name).tolist() for name in ("indptr", "indices", "data")
    )


def bits(model):
    """All that a model learned, as texts."""
    learned = {name: value for name, value in vars(model).items() if name.endswith("_")}
    return {
        name: bits(value) if hasattr(value, "fit") else (str(getattr(value, "dtype", "")), np.asarray(value).tolist())
        for name, value in learned.items()
        if name != "categories_"
    } | {"categories": getattr(model, "categories_", None)}


@pytest.mark.parametrize("reading", READINGS)
def test_the_row_of_a_text_is_a_function_of_that_text(reading):
    texts = odd_texts(np.random.default_rng(1), 50)
    whole = reading.rows(texts)
    assert same_rows(whole, read_alone(texts, reading))
    assert whole.shape == (50, reading.width)
    for at, text in enumerate(texts):
        assert same_rows(whole[at], read_alone([text], reading))
    assert whole[[at for at, text in enumerate(texts) if not text.strip()]].nnz == 0
    order = np.random.default_rng(2).integers(0, 50, 70)  # some twice, some never
    texts = np.array(texts, object)
    assert same_rows(EncodedTexts.of(reading, texts, order)[order], whole[order])
    assert EncodedTexts.of(reading, texts, order)[np.array([-1])].nnz == 0


@pytest.mark.parametrize("name", OF_TEXTS)
def test_base_classifiers_learn_the_same_however_words_come(name):
    rng = np.random.default_rng(3)
    samples, codes = to_samples(kinds_of_samples(rng, 90)[name]), rng.integers(0, 3, 90)
    learner, rows = LEARNERS[name], rng.permutation(90)[:40]
    form = samples.form_of(rows)
    by_itself = fit_member(learner, 4, TrainingSet(samples, codes, rows))
    everything = with_shared_texts(learner, samples, lambda: np.arange(90))
    its_own = with_shared_texts(learner, samples, lambda: rows)
    others = with_shared_texts(learner, samples, lambda: rows[:3])  # so most of them are not there
    assert everything.shared_texts
    assert everything.__sizeof__() > samples.__sizeof__() + 1000
    assert not samples.shared_texts
    as_it_came = seeded(learner, 4).fit(samples.take(rows, form), codes[rows])
    as_it_came = getattr(as_it_came, "chosen_", as_it_came)
    for fed_from in (everything, its_own, others):
        again = fit_member(learner, 4, TrainingSet(fed_from, codes, rows))
        assert bits(again.model) == bits(by_itself.model) == bits(as_it_came)
        fed = fed_to(again.model, fed_from, np.arange(90), form)
        assert again.model.predict(fed).tolist() == as_it_came.predict(samples.take(np.arange(90), form)).tolist()


def test_texts_among_columns_are_learned_as_they_were_before_words_were_shared():
    rng = np.random.default_rng(5)
    frame, codes = odd_columns(rng, 60), rng.integers(0, 3, 60)
    samples = to_samples(frame)
    fed = samples.take(np.arange(60), samples.form_of(np.arange(60)))
    model = fit_member(TextClassifier(TEXTS), 0, TrainingSet(samples, codes, np.arange(60))).model
    columns = [[cell if isinstance(cell, str) else "" for cell in fed[name]] for name in TEXTS]
    words = sp.csr_matrix(sp.hstack([read_alone(texts, model.readings[0]) for texts in columns], format="csr"))
    held = np.unique(words.indices)
    rest = fed.drop(columns=TEXTS)
    table = TableClassifier()._learn_encoding(rest)
    encoded = sp.hstack([sp.csr_matrix(table._encode(rest)), words[:, held]], format="csr")
    encoded.sort_indices()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = LogisticRegression(C=1.0, max_iter=200).fit(encoded, codes)
    assert model.held_.tolist() == held.tolist()
    assert model.weights_.tobytes() == np.ascontiguousarray(expected.coef_).tobytes()
    assert model.bias_.tobytes() == expected.intercept_.tobytes()


def test_each_text_is_hashed_once_for_a_whole_ensemble(monkeypatch):
    rng = np.random.default_rng(6)
    texts, y = odd_texts(rng, 150), rng.integers(0, 2, 150)
    read = []

    def counted(self, cells):
        read.extend(cells)
        return read_alone([cell if isinstance(cell, str) else "" for cell in cells], self)

    def votes(learner):
        read.clear()
        model = FiniteAggregationClassifier(learner, k=5, d=3, classes=[0, 1], n_jobs=1).fit(texts, y)
        n_fit = len(read)
        return model.votes(texts[:30]).matrix, n_fit, len(read) - n_fit

    monkeypatch.setattr(WordReading, "__call__", counted)
    for name, times in (("text", 1), ("choice of texts", 2)):
        once = votes(LEARNERS[name])
        assert once[1] <= times * (len(texts) + 1), "and the row of no text"
        assert once[2] <= times * (30 + 1)
        with monkeypatch.context() as patch:
            patch.setattr(shared_texts, "MOST_BYTES", 0)
            patch.setattr(stacked_module, "ROWS_OF_TEXTS", 7)
            each = votes(LEARNERS[name])
        assert each[1] >= 3 * len(texts)
        assert (each[0] == once[0]).all()


def test_workers_map_what_is_shared(monkeypatch):
    rng = np.random.default_rng(10)
    texts, y = odd_texts(rng, 150), rng.integers(0, 2, 150)
    votes = []
    for n_jobs, mapped in ((1, 1 << 16), (2, 100)):
        monkeypatch.setattr(member_list, "MAPPED_BYTES", mapped)
        model = FiniteAggregationClassifier(LEARNERS["choice of texts"], k=3, d=2, classes=[0, 1], n_jobs=n_jobs)
        votes.append(model.fit(texts, y).votes(texts).matrix)
    assert (votes[0] == votes[1]).all()


def test_other_learners_and_samples_share_nothing():
    rng = np.random.default_rng(7)

    class Derived(TextClassifier):
        pass

    texts, frame = to_samples(odd_texts(rng, 20)), to_samples(odd_columns(rng, 20))
    nothing, text = texts.subset(np.arange(0)), TextClassifier()
    asked = [
        (TableClassifier(), texts),
        (Derived(), texts),
        (text, frame),
        (text, nothing),
        (TextClassifier(["a"]), texts),
    ]
    for learner, samples in asked:
        assert with_shared_texts(learner, samples, lambda: np.arange(0)) is samples
    assert isinstance(fed_to(Derived(), texts, np.arange(20), None), np.ndarray)


def test_texts_that_came_as_categories_are_asked_alone_and_answer_the_same():
    """A base classifier knows the categories of its own subset alone: the words of other cells are no words to it."""
    rng = np.random.default_rng(8)
    frame = odd_columns(rng, 90)
    frame["said"] = frame["said"].astype("category")
    learner, codes, test = TextClassifier(["said"]), rng.integers(0, 3, 90), to_samples(frame)
    members = members_of(frame[:60].reset_index(drop=True), codes[:60], rng, learner=learner)
    assert stacked(members) is None
    for member in members[1:]:
        fed, frame = fed_to(learner, test, np.arange(90), member.form), test.take(np.arange(90), member.form)
        assert member.model.predict(fed).tolist() == member.model.predict(frame).tolist()


def test_columns_of_texts_must_be_there_once():
    frame = pd.DataFrame({"a": ["x y", "z"], "b": [1.0, 2.0]})
    samples = to_samples(frame)
    with refused("samples.kind"):
        fed_to(TextClassifier(["no"]), samples, np.arange(2), samples.form_of([0, 1])).encoded("no", READINGS[0])
    for learner, given in ((TextClassifier(["a"]), ["x", "y"]), (TextClassifier(), frame)):
        with refused("learner.wrong-kind"):
            learner.fit(given, [0, 1])
        member = fit_member(learner, 0, TrainingSet(to_samples(given), np.array([0, 1]), np.arange(2)))
        assert "takes a DataFrame if it names columns" in member.failure


@pytest.mark.parametrize("name", OF_TEXTS)
def test_one_row_and_thousands_are_answered_alike(name):
    rng = np.random.default_rng(9)
    train, test = kinds_of_samples(rng, 120)[name], to_samples(kinds_of_samples(rng, 2100)[name])
    members = members_of(train, rng.integers(0, N_CLASSES, 120), rng, learner=LEARNERS[name])
    whole = stacked(members)
    votes = whole.votes(test, N_CLASSES, n_jobs=2)
    assert len(np.unique(votes)) > 2
    assert votes.tolist() == one_by_one(members, test).tolist()
    shared = with_shared_texts(LEARNERS[name], test, lambda: np.arange(len(test)))
    assert (whole.votes(shared, N_CLASSES) == votes).all()
    for row in rng.integers(0, len(test), 20):
        assert (whole.votes(test.subset([row]), N_CLASSES) == votes[row]).all()


UNREADABLE = ("\ud800 x", "x" * 10 + "\udfff")  # half a character, which no encoding has: it is read as U+FFFD


@pytest.mark.parametrize("learner", [BayesTextClassifier(), RidgeTextClassifier(), AutoClassifier()])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_text_with_half_a_character_reaches_only_those_it_feeds(learner, n_jobs, tmp_path):
    """Words are hashed once for all: one that cannot be hashed must stop nobody else, in training and when asked."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(["a1", "b2", "c3", "d4", "e5"], 5)) for _ in range(80)]
    labels = np.arange(80) % 2
    asked = texts[:9]

    def fitted(texts, labels):
        return FiniteAggregationClassifier(learner, k=8, d=2, classes=[0, 1], n_jobs=n_jobs).fit(texts, labels)

    def said_alone(model, texts):
        plain = np.array(texts, object)
        return np.stack([vote_of(member, plain, len(plain), 2)[0] for member in model.members_], axis=1)

    def whole(text):
        return re.sub("[\ud800-\udfff]", "\ufffd", text)

    without = fitted(texts, labels)
    expected = without.votes(asked).matrix
    for odd in UNREADABLE:
        model = fitted([*texts, odd], np.append(labels, 0))
        assert (
            model.votes(asked).matrix == fitted([*texts, whole(odd)], np.append(labels, 0)).votes(asked).matrix
        ).all()
        split = model.split_
        fed = model.spread_.subsets_of(int(split.partitions(split.samples([odd]), 16)[0]))
        others = np.setdiff1d(np.arange(16), fed)
        assert (model.votes(asked).matrix[:, others] == expected[:, others]).all()
        assert (model.votes(asked).matrix == said_alone(model, asked)).all()
    without.save(tmp_path / "model")
    mixed = [*asked[:4], UNREADABLE[0], *asked[4:], UNREADABLE[1]]
    for model in (without, FiniteAggregationClassifier.load(tmp_path / "model")):
        votes = model.votes(mixed).matrix
        assert (np.delete(votes, [4, 10], axis=0) == expected).all()
        assert (votes == said_alone(model, [whole(text) for text in mixed])).all()
