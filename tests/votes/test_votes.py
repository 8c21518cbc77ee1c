import numpy as np
import pytest

from poisonproof import Split, Spread, Votes, certify
from poisonproof.premises import Premise
from refused import refused

SPREAD = Spread.random(4, 2)


def some_votes(**options):
    matrix = np.random.default_rng(0).integers(0, 4, (50, 8))
    return Votes(matrix, SPREAD, ["a", "b", "c"], **options)


@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.uint8), (255, np.uint8), (256, np.uint16), (300, np.uint16)])
def test_votes_are_kept_in_the_smallest_type_that_holds_the_abstention(n_classes, dtype):
    matrix = np.full((1, 8), n_classes)
    votes = Votes(matrix, SPREAD, range(n_classes))
    assert votes.matrix.dtype == dtype
    assert votes.matrix.max() == len(votes.classes) == n_classes


def test_counts_leave_abstentions_out():
    votes = Votes([[0, 0, 1, 2, 2, 2, 2, 1]], SPREAD, list("ab"))
    assert votes.counts().tolist() == [[2, 2]]


@pytest.mark.parametrize("classes", [["a", "b", "c"], [3, 5, 7], [0.5, 1.5, 2.5]])
def test_saved_votes_come_back_mapped_and_whole(tmp_path, classes):
    premise = Premise("classes", "3 labels", declared=False)
    votes = Votes(
        some_votes().matrix,
        SPREAD,
        classes,
        Split("content", hash_labels=True),
        classes_inferred=True,
        premises=[premise],
    )
    votes.save(tmp_path / "v.npy")
    back = Votes.load(tmp_path / "v.npy")
    assert isinstance(back.matrix, np.memmap)
    assert np.array_equal(back.matrix, votes.matrix)
    assert np.array_equal(np.load(tmp_path / "v.npy"), votes.matrix)
    assert back.classes.tolist() == classes
    assert (back.spread, back.split, back.classes_inferred, back.premises) == (
        SPREAD,
        votes.split,
        True,
        votes.premises,
    )
    assert premise in votes.premises


@pytest.mark.parametrize(("split", "inferred"), [(None, False), ("content", True)])
def test_votes_made_by_hand_list_their_premises_like_every_other(split, inferred):
    stated = {premise.code: premise for premise in some_votes(split=split, classes_inferred=inferred).premises}
    assert str(stated["spread"]) == f"spread: {SPREAD}; the subsets were made with this spread (declared)"
    assert str(stated["split"]) == ("split: content, float64 (declared)" if split else "split: not known (by default)")
    assert stated["classes"].declared is not inferred
    assert stated["votes"].value.startswith("made elsewhere: column i is a function of subset i")
    own = Premise("model", "public", declared=True)
    assert {premise.code for premise in some_votes(premises=[own]).premises} == {*stated, "model"}


def test_another_spread_than_that_of_the_subsets_makes_radii_too_large_and_is_a_premise(tmp_path):
    """The spread that somebody types cannot be checked against votes; what `split` writes carries its own."""
    spread, other, rng = Spread.random(10, 4), Spread.paper(10, 4), np.random.default_rng(0)
    truth = rng.integers(3, size=1000)
    matrix = np.where(rng.random((1000, 40)) < 0.5, truth[:, None], rng.integers(3, size=(1000, 40)))
    spread.save(tmp_path / "subsets.npz")
    right = certify(Votes.from_subsets(matrix, tmp_path / "subsets.npz", range(3)))
    assert right.radius.tolist() == certify(Votes(matrix, spread, range(3))).radius.tolist()
    wrong = certify(Votes(matrix, other, range(3)))
    assert (wrong.radius > right.radius).any()
    assert f"spread: {other}; the subsets were made with this spread (declared)" in map(str, wrong.premises)
    assert f"spread: {spread}; as it was written with the subsets (declared)" in map(str, right.premises)


def test_a_table_spread_is_saved_too_and_one_that_shifts_describe(tmp_path):
    spread = Spread.from_table([[0, 1], [0, 1], [2, 3], [2, 3]])
    Votes([[0, 1, 0, 1]], spread, list("ab")).save(tmp_path / "v.npy")
    assert Votes.load(tmp_path / "v.npy").spread == spread
    circulant = Spread(4, None, Spread(4, (0, 1)).as_table())
    Votes([[0, 1, 0, 1]], circulant, list("ab")).save(tmp_path / "c.npy")
    assert Votes.load(tmp_path / "c.npy").spread == circulant == Spread(4, (0, 1))


def test_every_altered_byte_is_found_and_the_file_named(tmp_path):
    some_votes(split="content").save(tmp_path / "v.npy")
    for name in ("v.npy", "v.json"):
        path = tmp_path / name
        body = path.read_bytes()
        for at in range(0, len(body), 5):
            broken = bytearray(body)
            broken[at] ^= 1 << (at % 8)
            path.write_bytes(broken)
            with pytest.raises(ValueError, match=rf"{name} (is|states)"):
                Votes.load(tmp_path / "v.npy")
        for keep in (0, 1, len(body) // 2, len(body) - 1):
            path.write_bytes(body[:keep])
            with pytest.raises(ValueError, match=rf"{name} is"):
                Votes.load(tmp_path / "v.npy")
        path.write_bytes(body)
    Votes.load(tmp_path / "v.npy")


def test_votes_without_their_record_do_not_open(tmp_path):
    some_votes().save(tmp_path / "v.npy")
    (tmp_path / "v.json").unlink()
    with pytest.raises(FileNotFoundError, match="does not say which spread made it"):
        Votes.load(tmp_path / "v.npy")


def test_a_read_only_folder_keeps_what_it_had(tmp_path, monkeypatch):
    votes = some_votes()
    votes.save(tmp_path / "v.npy")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        votes.save(tmp_path / "v.npy")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Votes([0, 1], SPREAD, list("ab")), "two dimensions"),
        (
            lambda: Votes(np.zeros((2, 7), int), SPREAD, list("ab")),
            r"7 columns, but the spread has 8 subsets \(k = 4, d = 2\)",
        ),
        (
            lambda: Votes(np.zeros((2, 8)), SPREAD, list("ab")),
            "Votes must be whole numbers, class indices. Got dtype float64",
        ),
        (lambda: Votes(np.full((2, 8), np.nan), SPREAD, list("ab")), "The votes hold NaN"),
        (lambda: Votes(np.full((2, 8), -1), SPREAD, list("ab")), "0 … 1, or 2 to abstain. Got -1"),
        (lambda: Votes(np.full((2, 8), 3), SPREAD, list("ab")), "Got 3"),
        (lambda: Votes(np.zeros((2, 8), int), SPREAD, ["a"]), "at least two classes"),
        (lambda: Votes(np.zeros((2, 8), int), SPREAD, ["a", "a"]), "different labels"),
        (lambda: Votes(np.zeros((2, 8), int), SPREAD, [["a"], ["b"]]), "must name labels"),
        (
            lambda: Votes(np.zeros((2, 8), int), SPREAD, list("ab"), "magic"),
            "'content', 'pixel-sum' and 'group'",
        ),
        (lambda: some_votes().save("votes.npz"), r"saved as \.npy"),
    ],
)
def test_what_are_not_votes_is_refused_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_spread_must_be_a_spread():
    with refused("type"):
        Votes(np.zeros((2, 8), int), 8, list("ab"))
    with refused("type"):
        Votes(np.zeros((2, 8), int), SPREAD, list("ab"), 3)


@pytest.mark.parametrize("n_classes", [2, 3, 16, 17, 300])
def test_votes_are_counted_alike_however_many_classes(n_classes):
    rng = np.random.default_rng(n_classes)
    spread = Spread.random(70, 4)
    matrix = rng.integers(0, n_classes + 1, (40, spread.n_subsets))
    matrix[3] = n_classes  # all abstain
    counts = Votes(matrix, spread, range(n_classes)).counts()
    assert counts.tolist() == [np.bincount(row, minlength=n_classes + 1)[:-1].tolist() for row in matrix]


def test_the_share_of_right_votes_is_that_of_all():
    from poisonproof.runs.election import _base_accuracy

    rng = np.random.default_rng(0)
    spread = Spread.random(3, 2)
    matrix, labels = rng.integers(0, 3, (5000, 6)), np.array(["a", "b", "c"], object)[rng.integers(0, 3, 5000)]
    for classes in (["a", "b"], ["a", "b", "c"]):
        votes = Votes(np.minimum(matrix, len(classes)), spread, classes, classes_inferred=True)
        whole = (votes.matrix == votes.indices_of(labels)[:, None]).mean()
        assert _base_accuracy(votes, labels) == whole
