"""Schemas are guessed by one vote for each unit, and say how many odd units could have changed the closest guess."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poisonproof.data import guessing
from poisonproof.data.csv import CsvTable
from poisonproof.data.guessing import guess_schema
from poisonproof.samples.cells import number_in
from poisonproof.samples.schema import MISSING

CELLS = st.sampled_from(["1", "2.5", "7", "NA", "", "x", "y", "z", "a b c d e"])
TURNED = re.compile(r"closest guess: column '(\w+)' as (\w+); (\d+) odd (row|contributor)s? could have changed that")


def guessed(path, header, rows, group=None):
    path.write_text("\n".join([",".join(header), *(",".join(row) for row in rows)]) + "\n")
    return guess_schema(CsvTable(path), "label", group)


def plain_role(units):
    """The role of a column by the cells of each unit, as the documentation says it."""
    units = [cells for unit in units if (cells := [cell for cell in unit if cell not in MISSING])]
    if not units:
        return "ignore"

    def share_of(says):
        return sum(2 * sum(map(says, cells)) > len(cells) for cells in units) / len(units)

    if share_of(lambda cell: number_in(cell) is not None) >= 0.9:
        return "number"
    if share_of(lambda cell: len(cell.split()) >= 4) > 0.5:
        return "text"
    smallest = Counter(min(cells) for cells in units)
    alone = sum(count == 1 for count in smallest.values()) / len(units)
    return "ignore" if len(units) > 20 and alone > 0.5 else "category"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(CELLS, st.integers(0, 10**6).map("c{}".format)), min_size=1, max_size=70),
    st.integers(1, 40),
    st.booleans(),
)
def test_roles_are_those_of_units_asked_one_by_one(tmp_path_factory, cells, n_units, grouped):
    rows = [["yes", f"u{at * at % n_units}", cell] for at, cell in enumerate(cells)]
    units = {}
    for at, (_, who, cell) in enumerate(rows):
        units.setdefault(who if grouped else at, []).append(cell)
    path = tmp_path_factory.getbasetemp() / "roles.csv"
    schema = guessed(path, ["label", "who", "x"], rows, "who" if grouped else None)
    assert dict(schema.columns)["x"] == plain_role(units.values())


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_fewer_units_than_the_premise_says_turn_no_guess(tmp_path, seed, grouped):
    """Units come, go and, where they are contributors, change; 25 × 2 tables, 20 attacks on each."""
    rng = np.random.default_rng(seed)
    header, pool = ["label", "who", "x", "y"], ["1", "2", "x", "", "a b c d", "z"]
    n_units, odd = int(rng.integers(2, 60)), rng.choice([0.02, 0.1, 0.3, 0.6])

    def drawn(unit, at):
        cells = [str(at), f"id{at}{unit}", "w"] if rng.random() > odd else pool
        return ["yes", f"u{unit}", *(str(rng.choice(cells)) for _ in "xy")]

    rows = [drawn(unit, at) for unit in range(n_units) for at in range(int(rng.integers(1, 4)) if grouped else 1)]
    rows = (
        rows
        if seed % 3
        else [[*row[:2], str(at) if rng.random() > odd / 4 else "x", row[3]] for at, row in enumerate(rows)]
    )
    group = "who" if grouped else None
    before = guessed(tmp_path / "t.csv", header, rows, group)
    column, role, turned, unit = TURNED.fullmatch(before.guessed).groups()
    assert (dict(before.columns)[column], unit) == (role, "contributor" if grouped else "row")
    for _ in range(20):
        now = list(rows)
        for step in range(int(turned) - 1):
            act, target = rng.integers(3 if grouped else 2), int(rng.integers(n_units))
            if act and grouped:  # it goes, or changes
                now = [row for row in now if row[1] != f"u{target}"]
            elif act and len(now) > 1:
                now.pop(target % len(now))
            if act != 1 or not now:
                who = target if act == 2 else 1000 + step
                copied = now[int(rng.integers(len(now)))][2:] if now and rng.random() < 0.5 else None
                now += [["yes", f"u{who}", *(copied or [str(rng.choice(pool)) for _ in "xy"])]]
        assert guessed(tmp_path / "t.csv", header, now, group).columns == before.columns
    if role == "number" and not grouped:
        now = [*rows, *[["yes", "u", "odd", "odd"]] * int(turned)]
        assert dict(guessed(tmp_path / "t.csv", header, now).columns)[column] != role


def test_one_contributor_has_one_vote(tmp_path):
    """By rows, 2,000 odd cells of one of them decided what the column is for all."""
    rows = [["yes", f"u{who}", f"{who}.{at}"] for who in range(30) for at in range(3)]
    schema = guessed(tmp_path / "t.csv", ["label", "who", "x"], [["no", "m", "odd"]] * 2000 + rows, "who")
    assert dict(schema.columns)["x"] == "number"
    assert schema.guessed == "closest guess: column 'x' as number; 3 odd contributors could have changed that"


def test_a_contributor_in_front_of_the_file_pushes_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(guessing, "ROWS_TO_GUESS_FROM", 54)
    rows = [["yes", f"u{who}", "1"] for who in range(60)]
    schema = guessed(tmp_path / "t.csv", ["label", "who", "x"], [["no", "m", "odd"]] * 60 + rows, "who")
    assert dict(schema.columns)["x"] == "number"
    assert "6 odd rows could" in guessed(tmp_path / "t.csv", ["label", "who", "x"], rows, None).guessed
