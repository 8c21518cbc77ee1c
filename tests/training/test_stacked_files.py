"""Base classifiers in a mapped file are those that were written, to the bit, and a file that lies is refused."""

import json
import pickle
from dataclasses import fields

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import poisonproof.training.stacked as stacked_files
from poisonproof import FiniteAggregationClassifier
from poisonproof.samples.convert import to_samples
from poisonproof.training.members import Member, load_member_files
from poisonproof.training.model_files import load_members, save_members
from poisonproof.training.stacked import TEXT, read_stack, stack_bytes
from refused import refused
from stacks import LEARNERS, N_CLASSES, TEXTS, kinds_of_samples, members_of, one_by_one


def same(one, other):
    """Whether two things hold the same, to the bit and by type."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()
    return all(same(vars(one)[name], vars(other)[name]) for name in vars(one)) if hasattr(one, "fit") else one == other


def some_members(kind, seed):
    rng = np.random.default_rng(seed)
    train = kinds_of_samples(rng, 120)[kind]
    members = members_of(train, rng.integers(0, N_CLASSES, 120), rng, learner=LEARNERS.get(kind))
    members[-1] = Member(len(members) - 1, None, np.array([2], np.int64), 2, failure="ValueError: no")
    return members, to_samples(kinds_of_samples(rng, 60)[kind])


@pytest.mark.parametrize("kind", ["table", "numbers", "gaps", "sparse", *LEARNERS])
def test_what_is_read_is_what_was_written(kind, tmp_path):
    members, test = some_members(kind, 0)
    path = save_members(tmp_path / "members-00000", members)
    assert path.suffix == ".npy"
    assert path.read_bytes() == stack_bytes(members), "the same bytes for the same base classifiers"
    back = load_members(path)
    for one, other in zip(members, back, strict=True):
        assert all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(Member))
    mapped = load_member_files([path])
    assert mapped.stacks
    assert mapped.ask(test, N_CLASSES).tolist() == one_by_one(members, test).tolist()
    assert mapped.failures == ["ValueError: no"]
    assert mapped.indices == list(range(len(members)))
    assert save_members(tmp_path / "again", mapped).read_bytes() == path.read_bytes()


def test_several_files_are_one_ensemble(tmp_path):
    members, test = some_members("table", 1)
    paths = [save_members(tmp_path / f"part-{at}", members[at : at + 3]) for at in range(0, len(members), 3)]
    mapped = load_member_files(paths)
    assert mapped.stacks
    assert len(mapped) == len(members)
    assert [member.index for member in mapped] == mapped.indices == list(range(len(members)))
    assert mapped[-1].failure == "ValueError: no"
    assert [member.index for member in mapped[3:6]] == [3, 4, 5]
    assert mapped.votes(test, N_CLASSES, n_jobs=1).tolist() == one_by_one(members, test).tolist()
    ranked = mapped.votes(test, N_CLASSES, rankings=True, n_jobs=1)
    assert ranked[:, :, 0].tolist() == one_by_one(members, test).tolist()
    again = pickle.loads(pickle.dumps(mapped))
    assert again.ask(test, N_CLASSES).tolist() == mapped.ask(test, N_CLASSES).tolist()


def test_a_loaded_model_shows_its_base_classifiers_and_goes_on(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), rng.integers(0, 2, 90)
    model = FiniteAggregationClassifier(k=4, d=2, classes=[0, 1]).fit(X, y)
    model.save(tmp_path)
    back = FiniteAggregationClassifier.load(tmp_path)
    assert back.members_.stacks
    assert all(map(same, back.estimators_, model.estimators_))
    back.save(tmp_path / "again")
    files = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert all((tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)


def test_a_mapped_file_is_never_written_to(tmp_path):
    path = save_members(tmp_path / "members", some_members("numbers", 0)[0])
    before = path.read_bytes()
    read_stack(path).stacked.lots[0].stack.bias[:] = 7
    assert path.read_bytes() == before


def test_what_cannot_be_stacked_is_kept_by_skops(tmp_path):
    members, _ = some_members("numbers", 0)
    stack = save_members(tmp_path / "members", members)
    next(member for member in members if member.model is not None).model.weights_[0, 0] = np.inf
    assert save_members(tmp_path / "members", members).suffix == ".skops"
    assert not stack.exists(), "there are never two files of one block"
    assert load_members(tmp_path / "members.skops")[1].model.weights_[0, 0] == np.inf
    other = FiniteAggregationClassifier(GaussianNB(), k=2, d=1, classes=range(3)).fit(np.eye(6), [0, 1, 2] * 2)
    assert stack_bytes(other.members_) is None
    assert stack_bytes([Member(0, None, np.zeros(0, np.int64), None)]) is None


def bent(path, name, change):
    """The file with one of its arrays changed, in a file that is otherwise right."""
    record = np.load(path)
    arrays = {field: record[field][0] for field in record.dtype.names}
    arrays[name] = change(arrays[name].copy())
    again = np.zeros(1, [(field, values.dtype, values.shape) for field, values in arrays.items()])
    for field, values in arrays.items():
        again[field][0] = values
    np.save(path, again)


def error_of(work):
    try:
        work()
    except ValueError as error:
        return str(error)
    return None


def text_with(**changes):
    def change(packed):
        text = json.loads(packed.tobytes())
        for name, value in changes.items():
            text[name] = value(text[name]) if callable(value) else value
        return np.frombuffer(json.dumps(text).encode(), np.uint8)

    return TEXT, change


def first_as(value):
    def change(values):
        values.flat[0] = value
        return values

    return change


LIES = {
    "a category of a base classifier that is not there": ("0 lanes", first_as(99)),
    "a category of the last that there could be": ("0 lanes", first_as((1 << 16) - 1)),
    "base classifiers of another type": ("0 lanes", lambda lanes: lanes.astype(np.int64)),
    "more entries than there are": ("0 starts", lambda starts: starts + 1),
    "entries that go backwards": ("0 starts", lambda starts: starts[::-1].copy()),
    "more scores than there are": ("0 slots", first_as(50)),
    "no score": ("0 slots", first_as(0)),
    "fewer weights than numbers": ("0 weights", lambda weights: weights[1:]),
    "fewer means than numbers": ("0 mean", lambda mean: mean[1:]),
    "a weight that is not finite": ("0 weights", first_as(np.nan)),
    "another type": ("0 bias", lambda bias: bias.astype(np.float32)),
    "a place outside": ("0 places", first_as(1000)),
    "a place twice": ("0 places", lambda places: np.full_like(places, places[0])),
    "fewer classes than scores": ("0 codes", lambda codes: codes[:, :1]),
    "a class below the first": ("0 codes", first_as(-3)),
    "fewer base classifiers in the text": text_with(indices=lambda indices: indices[1:]),
    "another format": text_with(format="poisonproof stack 0"),
    "no text": (TEXT, lambda text: np.frombuffer(b"{", np.uint8)),
    "columns that are not counted": text_with(groups=lambda groups: [{**g, "n_features": 3} for g in groups]),
}


def with_learner(**changes):
    return text_with(groups=lambda groups: [{**g, "learner": {**g["learner"], **changes}} for g in groups])


LIES_OF_WORDS = {
    "a word of a base classifier that is not there": ("0 lanes", first_as(99)),
    "words in another order": ("0 words", lambda words: words[::-1].copy()),
    "a word twice": ("0 words", lambda words: np.append(words[:1], words[:-1])),
    "a word before the first": ("0 words", first_as(-1)),
    "a word beyond the last": ("0 words", lambda words: np.append(words[:-1], 1 << 40)),
    "fewer words than are counted": ("0 words", lambda words: words[1:]),
    "words of another type": ("0 words", lambda words: words.astype(np.int32)),
    "entries that go backwards": ("0 starts", lambda starts: np.append(starts[:-1][::-1], starts[-1])),
    "an entry less": ("0 entries", lambda entries: entries[1:]),
    "a weight so large that a sum could overflow": ("0 entries", first_as(1e290)),
    "words that it does not read": with_learner(name="table", parameters={}),
    "fewer columns of texts": with_learner(parameters={"texts": []}),
    "more columns of texts": with_learner(parameters={"texts": ["said", "rare", "city"]}),
    "fewer features": with_learner(parameters={"texts": TEXTS, "n_hashed": 7}),
    "more features than there are numbers for": with_learner(parameters={"texts": TEXTS, "n_hashed": 1 << 31}),
    "features that are no number": with_learner(parameters={"texts": TEXTS, "n_hashed": 2.0**18}),
    "a length that is no number": with_learner(parameters={"texts": TEXTS, "weight": [5]}),
    "a column that is no name": with_learner(parameters={"texts": ["said", ["rare"]]}),
    "another learner": with_learner(name="os.system"),
    "another parameter": with_learner(parameters={"texts": TEXTS, "fit": 3}),
}


ALL_LIES = {"table": LIES, "columns": LIES_OF_WORDS}


@pytest.mark.parametrize(("kind", "lie"), [(kind, lie) for kind, lies in ALL_LIES.items() for lie in lies])
def test_a_file_that_lies_is_refused_before_a_kernel_reads_it(kind, lie, tmp_path):
    path = save_members(tmp_path / "members", some_members(kind, 0)[0])
    bent(path, TEXT, lambda text: text)
    read_stack(path)
    bent(path, *ALL_LIES[kind][lie])
    with refused("file.damaged"):
        read_stack(path)


@pytest.mark.parametrize("kind", ["table", "columns", "choice of texts"])
def test_bytes_that_were_changed_are_refused_or_harm_nobody(kind, tmp_path):
    """The digest of a file is compared before, so this is about files that somebody made."""
    members, test = some_members(kind, 1)
    path = save_members(tmp_path / "members", members)
    body, rng, n_refused = path.read_bytes(), np.random.default_rng(4), 0
    begun = body.index(b"\n") + 1
    for trial in range(300):
        changed = bytearray(body)
        end = begun if trial % 3 == 0 else len(body)  # the header often, which says where everything lies
        for at in rng.integers(0, end, rng.integers(1, 4)):
            changed[at] = rng.integers(0, 256)
        path.write_bytes(changed[: rng.integers(0, len(body))] if trial % 50 == 0 else changed)
        said = error_of(lambda: load_member_files([path]).ask(test, N_CLASSES))
        if said is not None:
            assert "members.npy" in said
            assert "\n" not in said
            n_refused += 1
    assert n_refused > 50


def test_more_than_a_record_holds_is_kept_by_skops(tmp_path, monkeypatch):
    members, test = some_members("text", 0)
    monkeypatch.setattr(stacked_files, "MOST_BYTES", 1000)
    path = save_members(tmp_path / "members", members)
    assert path.suffix == ".skops"
    assert load_member_files([path]).ask(test, N_CLASSES).tolist() == one_by_one(members, test).tolist()


def test_samples_of_another_width_are_refused(tmp_path):
    members, _ = some_members("numbers", 0)
    mapped = load_member_files([save_members(tmp_path / "members", members)])
    with refused("samples.features"):
        mapped.ask(to_samples(np.zeros((2, 7))), N_CLASSES)
