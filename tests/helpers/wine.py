"""Complete runs of one table, whoever votes: base classifiers, ballots, neighbours."""

import csv

from command_line import poisonproof
from tables import wine_rows, write_csv


def wine_runs(tmp_path_factory):
    """Ballots of two radii, neighbours and base classifiers on one split, and the true labels."""
    folder = tmp_path_factory.mktemp("beside")
    names, rows = wine_rows()
    write_csv(folder / "wine.csv", names, rows[::2])
    write_csv(folder / "test.csv", names, rows[1::4])
    data = (folder / "wine.csv", "--label", "class", "--classes", "a,b,c", "--test", folder / "test.csv")
    ways = {
        "narrow": ("--method", "ballots", "--near", 1.5),
        "wide": ("--method", "ballots", "--near", 1.5, "--one-sided"),
        "neighbours": ("--method", "neighbours", "--n-neighbors", 9),
        "base": ("--k", 5, "--no-undefended"),
    }
    for name, words in ways.items():
        poisonproof("run", *data, *words, "--out", folder / name)
    with (folder / "test.csv").open() as file:
        return folder, [row["class"] for row in csv.DictReader(file)]
