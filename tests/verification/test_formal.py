"""The machine-checked checker: closed proofs, agreement with certify and brute force, refusal of everything else."""

import importlib.util
import inspect
import io
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import oracle
from poisonproof import (
    BallotClassifier,
    NeighborVoteClassifier,
    Spread,
    Votes,
    certify,
    load,
    run,
    verify,
)
from poisonproof.ballots.verify import write_ballots, write_neighbours
from poisonproof.cli.main import app
from poisonproof.core import theorem2
from poisonproof.core.spread import SpreadArrays
from poisonproof.verification import formal, proof_search
from poisonproof.verification.formal import Setting, write_ensemble, write_run_off
from poisonproof.verification.theorem import read_spread
from refused import refused
from runoff_oracle import as_array, elect, random_case, smallest_attack_trying_everything

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
SOURCES = sorted(path for path in PROOFS.glob("*.v") if path.name != "Assumptions.v")
NO_COQ = "*** coq, ocaml and zarith are not here: `make proof` says how to get them ***"
STATEMENT = re.compile(r"^ *(?:Theorem|Lemma) +([\w']+)", re.MULTILINE)
THEOREM = re.compile(r"^ *Theorem +([\w']+)", re.MULTILINE)


def have_coq():
    if not (shutil.which("make") and shutil.which("coqc") and shutil.which("ocamlfind")):
        return False
    return subprocess.run(["ocamlfind", "query", "zarith"], capture_output=True, check=False).returncode == 0


def built():
    """The proofs compiled and the checker built, by one test process for all."""
    if not have_coq():
        pytest.skip(NO_COQ)
    with FileLock(PROOFS / ".lock"):
        ran = subprocess.run(["make", "-C", PROOFS, "-j", "2", "all"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def checker():
    built()
    return PROOFS / "checker" / formal.PROGRAM


def ask(checker, text):
    given = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([checker], input=given, capture_output=True, check=False)


def answers(checker, write, *arguments, **named):
    file = io.BytesIO()
    write(file, *arguments, **named)
    ran = ask(checker, file.getvalue())
    assert ran.returncode in (0, 3), ran.stderr
    return np.array([line.endswith(b"accepted") for line in ran.stdout.splitlines()[:-1]])


def map_of(spread):
    record = {"n_subsets": spread.n_subsets}
    record |= {"shifts": sorted(spread.shifts)} if spread.shifts else {"table": spread.as_table().tolist()}
    return read_spread(record, spread.n_subsets, "the spread")


def setting(votes, **options):
    return Setting(map_of(votes.spread), len(votes.classes), votes.classes_inferred, **options)


# What the proofs are


def test_nothing_is_assumed_and_nothing_left_out():
    """Asked of Coq itself: every theorem is closed under the global context, and so are the lemmas it uses."""
    built()
    asked = [f"{path.stem}.{name}" for path in SOURCES for name in THEOREM.findall(path.read_text())]
    lines = (PROOFS / "assumptions.txt").read_text().splitlines()
    assert len(asked) >= 41
    assert lines == ["Closed under the global context"] * len(asked)
    printed = re.findall(r"^Print Assumptions (\S+)\.$", (PROOFS / "Assumptions.v").read_text(), re.MULTILINE)
    assert sorted(printed) == sorted(asked)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_back_door_in_the_sources(path):
    code = re.sub(r"\(\*.*?\*\)", "", path.read_text(), flags=re.DOTALL)
    assert not re.findall(
        r"\b(Axioms?|Admitted|admit|Parameters?|Conjecture|Abort|Unset Guard Checking|bypass_check|Primitive)\b", code
    )
    assert not re.findall(r"^ *(Corollary|Fact|Remark|Proposition|Example)\b", code, re.MULTILINE)  # Theorem or Lemma
    assert set(re.findall(r"From (\w+) Require", code)) <= {"Coq", "Poisonproof"}
    assert not re.search(r"Classical|FunctionalExtensionality|ProofIrrelevance|Reals|Int63|PArray|Program", code)


def test_only_coqs_own_mapping_and_comparisons_are_extracted_by_hand():
    code = (PROOFS / "Extract.v").read_text()
    assert re.findall(r"Extract (?:Inlined )?(?:Constant|Inductive) (\S+)", code) == [
        *("Z.leb", "Z.ltb", "Z.eqb", "Z.add", "Z.sub")
    ]


def test_the_readme_names_statements_that_exist():
    names = {name for path in SOURCES for name in STATEMENT.findall(path.read_text())}
    defined = {
        name
        for path in SOURCES
        for name in re.findall(r"^ *(?:Definition|Fixpoint|Inductive|Record) +([\w']+)", path.read_text(), re.MULTILINE)
    }
    for page in (PROOFS / "README.md", ROOT / "docs" / "machine-checked.md"):
        table = [line for line in page.read_text().splitlines() if line.startswith("| `") and ".v`" in line]
        assert table
        for line in table:
            named = set(re.findall(r"`(\w+)`", line))
            assert named <= names | defined, named - names - defined


# What it accepts and refuses


def test_it_agrees_with_certify_on_random_ensembles(checker, monkeypatch):
    """`make proof` does the same on 2,000."""
    monkeypatch.setenv(formal.SETTING, str(checker))
    specification = importlib.util.spec_from_file_location("formal_campaign", ROOT / "benchmarks" / "formal.py")
    campaign = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(campaign)
    tried = campaign.campaign(60, seed=7)
    assert tried["radii accepted"] == 240
    assert tried["raised radii refused"] > 100
    methods = ("finite-aggregation", "dpa-bound", "tight", "run-off", "ballots", "neighbours")
    assert min(tried[method] for method in methods) > 0


@pytest.mark.parametrize("unseen", [False, True])
def test_nothing_that_brute_force_breaks_is_accepted(checker, unseen):
    """Every radius up to one beyond all partitions, with the best hints; d > 1, tables and abstentions included."""
    rng = np.random.default_rng(int(unseen))
    too_timid = 0
    for _ in range(12):
        spread = [Spread.random(2, 2, seed=int(rng.integers(99))), Spread.random(5, 1), Spread.random(3, 2)][
            rng.integers(3)
        ]
        if rng.random() < 0.5:
            spread = Spread.from_table(rng.permutation(spread.n_subsets)[spread.as_table()])
        matrix = rng.integers(3, size=(1, spread.n_subsets)) * (rng.random((1, spread.n_subsets)) < 0.5)
        votes = Votes(matrix, spread, ["a", "b"], classes_inferred=unseen)
        prediction = oracle.winner(matrix[0].tolist(), 2)
        smallest = oracle.smallest_attack_trying_everything(matrix[0].tolist(), spread.as_table(), 2, unseen)
        sizes = np.arange(spread.n_subsets + 2)
        for p in (0, 1):
            accepted = answers(
                checker,
                write_ensemble,
                setting(votes, tight=True),
                np.repeat(matrix, len(sizes), axis=0),
                np.full(len(sizes), p),
                sizes,
            )
            if p != prediction:
                assert not accepted.any()
            else:
                assert not accepted[smallest:][: len(sizes) - smallest].any() or smallest > spread.n_subsets
                too_timid += int((~accepted[:smallest]).sum())
    assert too_timid == 0  # the searches settle such small cases exactly


def test_no_hint_talks_it_into_anything(checker):
    """Hints made up at random, against the smallest attack that there is."""
    rng = np.random.default_rng(3)
    spread = Spread(6, (0, 1, 3))
    table = spread.as_table()

    def tree(depth):
        kind = rng.integers(3 if depth else 2)
        if kind == 0:
            return f"largest {rng.integers(7)}"
        if kind == 1:
            return f"dual {rng.integers(900)} {' '.join(map(str, rng.integers(513, size=6)))}"
        return f"branch {rng.integers(8)} {tree(depth - 1)} {tree(depth - 1)}"

    accepted = 0
    for _ in range(40):
        votes = (rng.random(6) < 0.2).astype(int).tolist()
        smallest = oracle.smallest_attack_for_one_rival(votes, table, 2)
        p = oracle.winner(votes, 2)
        samples = []
        for _ in range(40):
            size = int(rng.integers(0, 4))
            searched = " ".join(f"0 {rng.integers(4)} {rng.integers(9)} {tree(1)}" for _ in range(2))
            hint = f"tree {tree(3)}" if rng.random() < 0.5 else f"groups 2 {searched}"
            samples.append(
                (size, f"sample {p} {size} {rng.integers(9)} 1 votes {' '.join(map(str, votes))} hint {1 - p} {hint}")
            )
        text = "\n".join(
            [
                "poisonproof witness 1 ensemble classes 2 declared spread shifts 6 3 0 1 3 reachable all",
                "groups 1 1 least 6 0 1 2 3 4 5",
                f"samples {len(samples)}",
                *(s for _, s in samples),
                "end",
            ]
        )
        ran = ask(checker, text)
        assert ran.returncode in (0, 3), ran.stderr
        for (size, _), line in zip(samples, ran.stdout.splitlines(), strict=False):
            if line.endswith(b"accepted"):
                assert size < smallest
                accepted += size > 0
    assert accepted > 20


def test_ballots_are_exact_by_brute_force(checker):
    """All ways to insert and remove a few samples; near and far are all that a ballot knows of a sample."""
    rng = np.random.default_rng(5)
    for two_sided, inferred in product([True, False], [False, True]):
        totals, near = np.array([3, 3]), rng.integers(0, 4, size=(1, 2))
        kinds = [(c, bool(side)) for c in range(-1 if inferred else 0, 2) for side in range(2)]
        held = [(c, at < near[0, c]) for c in range(2) for at in range(totals[c])]

        def elected(samples, two_sided=two_sided):
            labels = sorted({0, 1} | {c for c, _ in samples})
            score = {c: sum((2 * side - 1 if two_sided else side) for s, side in samples if s == c) for c in labels}
            return max(labels, key=lambda c: (score[c], -c))

        p = elected(held)
        smallest = next(
            size
            for size in range(1, 20)
            for removed in range(min(size, 6) + 1)
            for gone in combinations(range(6), removed)
            for added in product(kinds, repeat=size - removed)
            if elected([s for i, s in enumerate(held) if i not in gone] + list(added)) != p
        )
        sizes = np.arange(smallest + 2)
        accepted = answers(
            checker,
            write_ballots,
            near=np.repeat(near, len(sizes), axis=0),
            totals=totals,
            sizes=[0, 0],
            prediction=np.full(len(sizes), p),
            radius=sizes,
            two_sided=two_sided,
            inferred=inferred,
        )
        assert accepted.tolist() == [size < smallest for size in sizes]


def test_neighbours_withstand_what_they_are_said_to(checker):
    """Insertions at any place of the order, removals of any sample."""
    rng = np.random.default_rng(6)
    for _ in range(6):
        labels, voters = rng.integers(2, size=7) * (rng.random(7) < 0.4), int(rng.integers(1, 6))
        p = int(np.bincount(labels[:voters], minlength=2).argmax())

        def attacked(size, labels=labels, voters=voters, p=p):
            for removed in range(min(size, 7) + 1):
                for gone in combinations(range(7), removed):
                    rest = [int(label) for at, label in enumerate(labels) if at not in gone]
                    for place in range(len(rest) + 1):
                        after = (rest[:place] + [1 - p] * (size - removed) + rest[place:])[:voters]
                        if int(np.bincount(after, minlength=2).argmax()) != p:
                            return True
            return False

        smallest = next(size for size in range(1, 12) if attacked(size))
        sizes = np.arange(smallest + 1)
        accepted = answers(
            checker,
            write_neighbours,
            labels=[labels] * len(sizes),
            n_voters=voters,
            n_training=7,
            n_classes=2,
            prediction=np.full(len(sizes), p),
            radius=sizes,
        )
        assert accepted.tolist() == [size < smallest for size in sizes]


def test_no_run_off_that_brute_force_breaks_is_accepted(checker):
    """Every radius up to one beyond all partitions, for every class; at d = 1 all that holds is accepted."""
    rng = np.random.default_rng(8)
    too_timid = by_members = 0
    for case in range(16):
        spread = Spread.random(4, 1) if case % 2 else Spread.random(3, 2, seed=case)
        rankings = random_case(rng, spread.n_subsets, 3)
        votes = Votes(as_array(rankings, 3)[None, :, 0], spread, range(3))
        smallest = smallest_attack_trying_everything(rankings, spread.as_table().tolist(), 3)
        sizes = np.arange(spread.n_subsets + 2)
        elected = elect(rankings, range(3))
        for p in range(3):
            file = io.BytesIO()
            ranked = np.repeat(as_array(rankings, 3)[None], len(sizes), axis=0)
            write_run_off(file, setting(votes), ranked, np.full(len(sizes), p), sizes)
            by_members += file.getvalue().count(b"members")
            ran = ask(checker, file.getvalue())
            accepted = np.array([line.endswith(b"accepted") for line in ran.stdout.splitlines()[:-1]])
            assert len(accepted) == len(sizes), ran.stderr
            assert not accepted[sizes >= (smallest if p == elected else 0)].any(), (rankings, spread)
            if p == elected and spread.d == 1:
                too_timid += int((~accepted[: int(min(smallest, len(sizes)))]).sum())
    assert too_timid == 0
    assert by_members > 0


def test_no_multipliers_talk_it_into_a_run_off(checker):
    """Multipliers and limits made up at random, against the smallest attack that there is."""
    rng = np.random.default_rng(9)
    accepted = 0
    for _ in range(12):
        rankings = random_case(rng, 5, 3)
        elected, smallest = (
            elect(rankings, range(3)),
            smallest_attack_trying_everything(rankings, [[i] for i in range(5)], 3),
        )
        others = [c for c in range(3) if c != elected]
        ranked = " ".join(f"{len(r)} {' '.join(map(str, r))}" for r in rankings)
        samples = []

        def limit():
            return f"{rng.choice(['partitions', 'members'])} {rng.integers(1, 4)}"

        for _ in range(300):
            size = int(rng.integers(1, 4))
            pushed = f"pushed {others[0]} {others[1]} {rng.integers(3)} {rng.integers(3)} {limit()}"
            beaten = [
                f"beaten {c} {rng.integers(2)} {limit()} "
                + (f"1 {others[1 - at]} {rng.integers(3)}" if rng.random() < 0.3 else "0")
                for at, c in enumerate(others)
            ]
            samples.append((size, f"sample {elected} {size} 1 2 rankings {ranked} {pushed} {' '.join(beaten)}"))
        head = "poisonproof witness 1 run-off classes 3 declared spread shifts 5 1 0 reachable all"
        ran = ask(checker, f"{head} samples {len(samples)} {' '.join(s for _, s in samples)} end")
        assert ran.returncode in (0, 3), ran.stderr
        for (size, _), line in zip(samples, ran.stdout.splitlines(), strict=False):
            if line.endswith(b"accepted"):
                assert size < smallest
                accepted += size > 0
    assert accepted > 5


def test_overlapping_spreads_are_proved_by_groups(checker):
    spread = Spread.planes(3, 2)
    rng = np.random.default_rng(1)
    matrix = (rng.random((6, spread.n_subsets)) < [[0.0], [0.02], [0.05], [0.1], [0.2], [0.3]]).astype(int)
    votes = Votes(matrix, spread, ["a", "b"])
    plain, tight = certify(votes), certify(votes, "tight")
    assert (tight.radius > plain.radius).any()
    file = io.BytesIO()
    write_ensemble(file, setting(votes, tight=True), matrix, tight.prediction, tight.radius)
    assert b" groups " in file.getvalue()
    ran = ask(checker, file.getvalue())
    assert ran.returncode == 0, ran.stdout
    without = re.sub(rb"groups 2 1 exactly\n(.*\n){2}", b"groups 0\n", file.getvalue())
    assert ask(checker, without).returncode == 3


# Broken kernels

BREAKAGES = {
    "a wrong tie-break": (" - (below < above or below == len(counts) - 1)", " - (below > above)"),
    "no tie-break": (" - (below < above or below == len(counts) - 1)", ""),
    "off by one": ("return fitted + affordable", "return fitted + affordable + 1"),
    "a vote lost": ("first[i] = one + (votes[i] == plus)", "first[i] = 0 + (votes[i] == plus)"),
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_a_broken_kernel_is_caught(checker, what):
    old, new = BREAKAGES[what]
    source = inspect.getsource(theorem2)
    assert old in source
    namespace = {}
    exec(re.sub(r"@njit\(.*\)\n", "", source.replace(old, new)), namespace)
    rng = np.random.default_rng(2)
    spread = Spread.random(4, 2)
    matrix = np.where(rng.random((200, 8)) < 0.5, 2, rng.integers(3, size=(200, 8)))
    votes = Votes(matrix, spread, ["a", "b", "c"])
    right = certify(votes)
    found = [np.empty(200, np.int64) for _ in range(4)]
    arrays = SpreadArrays(np.empty(0, np.int64), spread.as_table())
    namespace["certify_rows"](votes.matrix, arrays, 3, False, np.empty(0, np.int64), *found)
    prediction, _, _, radius = found
    wrong = (radius > right.radius) | (prediction != right.prediction)
    assert wrong.any()
    accepted = answers(checker, write_ensemble, setting(votes), matrix, prediction, radius)
    assert (accepted == ~wrong).all()


# Bad input

GOOD = """poisonproof witness 1
ensemble
classes 2 declared
spread shifts 4 2 0 1
reachable all
groups 0
samples 2
sample 0 1 4 0
votes 0 0 0 0
sample 0 0 4 0
votes 0 0 1 2
end
"""


RUN_OFF = """poisonproof witness 1
run-off
classes 2 declared
spread shifts 3 1 0
reachable all
samples 1
sample 0 0 0 1
rankings 2 0 1 2 0 1 2 1 0
beaten 1 1 partitions 2 0
end
"""

BAD = {
    GOOD: [
        ("votes 0 0 1 2\nend\n", "votes 0 0", "ends too early"),
        ("end\n", "", "ends too early"),
        ("votes 0 0 1 2", "votes 0 0 1 3", "neither a class"),
        ("votes 0 0 1 2", "votes 0 0 1 -1", "negative"),
        ("votes 0 0 1 2", "votes 0 0 1", "should be a number"),
        ("votes 0 0 1 2", "votes 0 0 1 2 0", "should stand where"),
        ("votes 0 0 1 2", "votes 0 0 1 x", "should be a number"),
        ("sample 0 1 4 0", "sample 0 -1 4 0", "negative"),
        ("sample 0 1 4 0", "sample 2 1 4 0", "one of the 2 classes"),
        ("sample 0 1 4 0", "sample 0 1 -4 0", "negative"),
        ("shifts 4 2 0 1", "shifts 8 2 0 1", "should be a number"),  # the spread of another ensemble
        ("shifts 4 2 0 1", "shifts 4 2 0 4", "must lie in 0 ... 3"),
        ("shifts 4 2 0 1", "shifts 0 2 0 1", "must lie in"),
        ("shifts 4 2 0 1", "table 4 1 2 0 7", "must lie in 0 ... 3"),
        ("groups 0", "groups 1 1 least 2 0 1", "not those of the spread"),
        ("groups 0", "groups 1 3 least 4 0 1 2 3", "not those of the spread"),
        ("classes 2", "classes 0", "at least one class"),
        ("classes 2", "classes 99999999999999999999999", "are not read"),
        ("witness 1", "witness 2", "should stand where"),
        ("ensemble", "assembly", "the kind of voters"),
    ],
    RUN_OFF: [
        ("beaten 1 1 partitions 2 0\nend\n", "", "ends too early"),
        ("rankings 2 0 1", "rankings 2 0 2", "must lie in 0 ... 1"),
        ("rankings 2 0 1", "rankings 2 0 -1", "negative"),
        ("rankings 2 0 1", "rankings 3 0 1 1", "a ranking names 3 classes"),
        ("rankings 2 0 1", "rankings", "should"),
        ("sample 0 0", "sample 2 0", "one of the 2 classes"),
        ("sample 0 0", "sample 0 -1", "negative"),
        ("declared", "inferred", "declared classes alone"),
        ("partitions 2", "parts 2", "should be partitions or members"),
        ("shifts 3 1 0", "shifts 4 1 0", "should"),  # the spread of another ensemble
    ],
}


@pytest.mark.parametrize("good", [GOOD, RUN_OFF], ids=["ensemble", "run-off"])
def test_bad_input_is_refused_in_one_sentence(checker, good):
    assert b" accepted, 0 refused" in ask(checker, good).stdout
    for old, new, words in BAD[good]:
        assert old in good
        ran = ask(checker, good.replace(old, new, 1))
        assert ran.returncode == 2, ran
        (line,) = ran.stderr.decode().splitlines()
        assert words in line
        assert line.endswith(".")


def test_numbers_have_no_limit(checker):
    """A radius of thirty digits is compared, not wrapped around."""
    ran = ask(checker, GOOD.replace("sample 0 1 4 0", f"sample 0 {10**30} 4 0"))
    assert ran.returncode == 3
    assert ran.stdout.startswith(b"sample 0 refused")
    dual = "hint 1 tree dual 0 " + " ".join([str(2**64)] * 4)
    ran = ask(checker, GOOD.replace("sample 0 1 4 0\nvotes 0 0 0 0", f"sample 0 2 4 1\nvotes 0 0 0 0\n{dual}"))
    assert ran.returncode == 3


def test_a_file_that_is_not_there(checker):
    ran = subprocess.run([checker, "no/such/witness"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 1


# In the product


@pytest.fixture
def program(checker, monkeypatch):
    monkeypatch.setenv(formal.SETTING, str(checker))
    return checker


def formally(certificate, folder):
    """The verdict about a loose certificate of the votes in a folder, and its formal check."""
    certificate.save(folder / "certificate.npz")
    verdict = verify(folder / "certificate.npz", votes=folder / "votes.npy", formal=True)
    return verdict, next(check for check in verdict.checks if check.name == "formal")


@pytest.fixture
def saved(tmp_path):
    """A loose certificate with its votes; method "tight" proves more than Theorem 2 of four samples."""
    rng = np.random.default_rng(4)
    share = rng.uniform(0, 0.4, size=(60, 1))
    matrix = (rng.random((60, 160)) < share).astype(int)
    votes = Votes(matrix, Spread.random(20, 8), ["a", "b", "c"])
    above = certify(votes, "tight", n_jobs=1).radius > certify(votes).radius
    assert above.sum() == 4
    votes = Votes(np.concatenate([matrix[above], matrix[:4]]), votes.spread, votes.classes)
    votes.save(tmp_path / "votes.npy")
    certify(votes).save(tmp_path / "certificate.npz")
    return tmp_path, votes


def test_verify_says_what_was_checked_and_what_is_trusted(program, saved):
    folder, _ = saved
    words = ["verify", folder / "certificate.npz", "--votes", folder / "votes.npy", "--formal", "--witness"]
    result = CliRunner().invoke(app, [*map(str, words), str(folder / "kept.witness")])
    assert result.exit_code == 5, result.output
    assert "Machine-checked: 8 of 8 radii were accepted by poisonproof-check" in result.stdout
    assert "end_to_end in proofs/Checker.v" in result.stdout
    assert "Trusted: that every base classifier is a function of its own subset" in result.stdout
    assert ask(program, (folder / "kept.witness").read_bytes()).returncode == 0


@pytest.mark.parametrize(
    "model",
    [BallotClassifier(near=34.0, scale=1, classes=range(10)), NeighborVoteClassifier(n_neighbors=9, classes=range(10))],
    ids=["ballots", "neighbours"],
)
def test_runs_in_which_samples_vote_are_machine_checked(program, tmp_path, model):
    digits = load("digits").without(range(200, 1415))
    n_test = len(run(digits, model, tmp_path / "run").certificate)
    verdict = verify(tmp_path / "run", data=digits, formal=True)
    assert verdict.word == "VERIFIED", str(verdict)
    assert f"Machine-checked: {n_test} of {n_test} radii were accepted by poisonproof-check" in verdict.verdict
    assert "Trusted: " in verdict.verdict


@pytest.mark.parametrize("within", [[], [1, 2], "all"])
def test_radii_within_reachable_partitions_are_machine_checked(program, saved, within):
    folder, votes = saved
    within = range(votes.spread.n_partitions) if within == "all" else within
    verdict, check = formally(certify(votes, reachable=list(within)), folder)
    assert verdict.word == "CONSISTENT", str(verdict)
    assert "8 of 8 radii were accepted" in check.words
    assert "end_to_end_reachable in proofs/Checker.v" in check.words


def test_verify_fails_where_the_checker_refuses(program, saved):
    folder, votes = saved
    certificate = certify(votes)
    verdict, check = formally(replace(certificate, radius=certificate.radius + (np.arange(8) == 5)), folder)
    assert (verdict.word, check.outcome) == ("NOT VERIFIED", "failed")
    assert "1 of 8 radii were refused by poisonproof-check, the first that of test sample 5" in check.words


def test_tight_radii_without_a_proof_are_not_passed_over(program, saved, monkeypatch):
    folder, votes = saved
    tight = certify(votes, "tight")
    verdict, check = formally(tight, folder)
    assert verdict.word == "CONSISTENT", verdict
    assert "dual bounds, trees and groups" in check.words
    assert (tight.radius > certify(votes).radius).any()
    monkeypatch.setattr("poisonproof.verification.formal.prove", lambda *given: None)
    verdict, check = formally(tight, folder)
    assert (verdict.word, check.outcome) == ("NOT VERIFIED", "not checked")


def test_verify_has_run_off_elections_checked(program, tmp_path):
    rankings = np.argsort(-np.random.default_rng(2).random((10, 12, 3)) - np.arange(3) * 0.2, axis=2)
    for inferred in (False, True):
        votes = Votes(rankings[..., 0], Spread.random(6, 2), range(3), rankings=rankings, classes_inferred=inferred)
        votes.save(tmp_path / "votes.npy")
        certificate = certify(votes, "run-off")
        verdict, check = formally(certificate, tmp_path)
        if inferred:
            assert verdict.word == "NOT VERIFIED"
            assert "for declared classes alone" in check.words
            continue
        assert verdict.word == "CONSISTENT", verdict.verdict
        assert "end_to_end_run_off in proofs/RunOffChecker.v" in check.words
        verdict, check = formally(replace(certificate, radius=certificate.radius + 1), tmp_path)
        assert check.outcome == "failed"
        assert "radii were refused by poisonproof-check" in check.words


def test_without_the_program_it_is_said_how_to_get_it(saved, monkeypatch, tmp_path):
    folder, _ = saved
    monkeypatch.delenv(formal.SETTING, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(formal, "BUILT", tmp_path / "nothing")
    result = CliRunner().invoke(app, ["verify", str(folder / "certificate.npz"), "--formal"])
    assert result.exit_code == 2
    assert "'make proof' in a checkout" in result.stderr
    monkeypatch.setenv(formal.SETTING, str(tmp_path / "nothing"))
    with refused("formal.program"):
        formal.find_checker()
    with refused("verify.witness"):
        verify(folder / "certificate.npz", witness=tmp_path / "w")


def test_an_answer_that_is_none_is_not_taken_for_one(saved, monkeypatch, tmp_path):
    folder, votes = saved
    for name, script in {"silent": "exit 0", "cheat": "echo '8 samples: 8 accepted, 0 refused'"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        monkeypatch.setenv(formal.SETTING, str(tmp_path / name))
        assert formally(certify(votes), folder)[0].word == "NOT VERIFIED"


def test_the_search_finds_duals_and_trees(saved):
    """Hints are worth something only if they are found: T1 and T2 where Theorem 2 is not enough."""
    _, votes = saved
    tight = certify(votes, "tight", n_jobs=1)
    file = io.BytesIO()
    write_ensemble(file, setting(votes, tight=True), votes.matrix, tight.prediction, tight.radius)
    assert set(re.findall(rb"tree (\w+)", file.getvalue())) == {b"dual", b"branch"}
    assert proof_search.GRID == 256
