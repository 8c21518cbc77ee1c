"""Files of another format are refused in one sentence, and a command that is gone says where it went."""

import numpy as np
import pytest

from command_line import poisonproof
from poisonproof import BallotClassifier, Certificate, FiniteAggregationClassifier, Votes
from poisonproof.ballots.tallies import Ballots, Neighbours
from poisonproof.cli.main import REMOVED
from poisonproof.core.certificate import TargetCertificate
from poisonproof.errors import install_command, missing_extra
from poisonproof.runs.manifest import Manifest
from poisonproof.samples.schema import read_schema
from poisonproof.stochastic.certificate import StochasticCertificate
from poisonproof.system.files import write_arrays, write_record
from refused import check_sentence, refused

OLDER = {
    "manifest.json": ("run 3", Manifest.read),
    "model.json": ("model 2", FiniteAggregationClassifier.load),
    "votes.json": ("votes 1", lambda folder: Votes.load(folder / "votes.npy")),
    "voters/model.json": ("voters 1", lambda folder: BallotClassifier.load(folder / "voters")),
    "schema.json": ("schema 1", lambda folder: read_schema(folder / "schema.json")),
    "certificate.npz": ("certificate 1", lambda folder: Certificate.load(folder / "certificate.npz")),
    "target.npz": ("target certificate 1", lambda folder: TargetCertificate.load(folder / "target.npz")),
    "drawn.npz": ("stochastic certificate 1", lambda folder: StochasticCertificate.load(folder / "drawn.npz")),
    "ballots.npz": ("ballots 1", lambda folder: Ballots.load(folder / "ballots.npz")),
    "neighbors.npz": ("neighbours 1", lambda folder: Neighbours.load(folder / "neighbors.npz")),
}
ARRAYS = {
    "certificate.npz": Certificate.ARRAYS,
    "target.npz": TargetCertificate.ARRAYS,
    "drawn.npz": StochasticCertificate.ARRAYS,
    "ballots.npz": ("near", "totals", "sizes", "self_near"),
    "neighbors.npz": ("order", "first"),
}


@pytest.mark.parametrize("file", OLDER)
def test_a_file_of_0_2_is_refused(tmp_path, file):
    kind, opened = OLDER[file]
    (tmp_path / file).parent.mkdir(exist_ok=True)
    if file.endswith(".npz"):
        write_arrays(tmp_path / file, dict.fromkeys(ARRAYS[file], np.zeros(1)), {"format": f"poisonproof {kind}"})
    else:
        write_record(tmp_path / file, {"format": f"poisonproof {kind}"})
    with refused("schema.file" if kind == "schema 1" else "file.format"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("command", "status"), [("update", 2), ("predict", 2), ("serve", 2), ("audit", 2), ("verify", 3)]
)
def test_a_run_folder_of_0_2_is_refused_by_commands(tmp_path, command, status):
    write_record(tmp_path / "manifest.json", {"format": "poisonproof run 3", "status": "complete"})
    rest = ["new.csv"] if command == "predict" else []
    sentence = " ".join(poisonproof(command, tmp_path, *rest, code=status).stderr.split())
    assert "is of format 'poisonproof run 3'" in sentence
    check_sentence(sentence)


@pytest.mark.parametrize("command", REMOVED)
def test_a_removed_command_says_where_it_went(command):
    sentence = " ".join(poisonproof(command, "x", "--y", code=2).stderr.split())
    assert f"There is no `poisonproof {command}` any more." in sentence
    check_sentence(sentence)


def test_extras_are_named_as_a_checkout_installs_them():
    """The package is on no index: its name there is somebody else's to take."""
    assert install_command("dask") == "pip install '.[dask]'"
    assert install_command("dask") in str(missing_extra("A cluster", "Dask", "dask"))
