"""Evidence where training samples vote: true of the run, valid by the same schemas, and refused where it is forged."""

import copy
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ed25519
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from command_line import poisonproof
from poisonproof import BallotClassifier, NeighborVoteClassifier, certify, load, run, verify
from poisonproof.ballots.maps import map_for
from poisonproof.core.certificate import Certificate
from poisonproof.evidence.documents import page, violation
from poisonproof.evidence.facts import gather
from poisonproof.evidence.signing import check_signed, write
from poisonproof.system.files import open_arrays, sha256_of, write_arrays
from poisonproof.verification.verdict import CheckFailed
from resigning import rewritten, signed_anew
from sample_voters import THREATS

FEW = load("digits").without(range(300, 1415))
FEW = replace(FEW, test=FEW.test.take(np.arange(50)))
MODELS = {
    "ballots": lambda: BallotClassifier(map_for(FEW), near=2.1, classes=range(10)),
    "neighbours": lambda: NeighborVoteClassifier(map_for(FEW), n_neighbors=7, classes=range(10)),
}
METHODS = tuple(MODELS)
KEY = ed25519.Ed25519PrivateKey.generate()


@pytest.fixture(scope="module", params=METHODS)
def made(request, tmp_path_factory):
    """A run in which samples vote, and the facts about it."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    run(FEW, MODELS[request.param](), folder)
    return folder, gather(folder, FEW, verify(folder, data=FEW))


def test_every_figure_is_counted_again(made):
    """From a classifier that is fitted and asked anew."""
    folder, facts = made
    model = MODELS[folder.name]().fit(FEW.train.X, FEW.train.labels)
    certificate, votes = model.certify(FEW.test.X), model._votes_of(model._heard(FEW.test.X))
    right, found = certificate.labels == FEW.test.labels, facts.figures
    assert found["right"] == right.sum()
    for row in found["certified"]:
        assert row["right_and_certified"] == (right & (certificate.radius >= row["attack_size"])).sum()
    assert {row["act"] for row in found["acts"]} == set(THREATS)
    for row in found["acts"]:
        held, half = certificate.radius_against(row["act"]), row["half_of_the_test_set"]
        assert row["median_radius"] == np.percentile(held, 50, method="lower")
        assert (right & (held >= half)).sum() * 2 >= len(right) > (right & (held > half)).sum() * 2
    for row in found["classes"]:
        against = certify(votes, target=row["label"])
        median = np.percentile(against.radius[~against.already], 50, method="lower")
        assert row["median_radius_of_others_against_this_target"] == median
    assert facts.verdict.word == "VERIFIED"


def test_every_form_is_valid_and_says_who_votes(made, tmp_path):
    folder, facts = made
    write(facts, tmp_path)
    for name in ("statement.json", "test-result.json"):
        Statement.copy_from_pb(json_format.Parse((tmp_path / name).read_text(), statement_pb2.Statement())).validate()
    record = json.loads((tmp_path / "statement.json").read_text())
    assert violation(record) is None
    stated = record["predicate"]["certificate"]
    assert stated["election"]["voters"] == 300
    assert stated["election"]["map"] == {"name": "numbers", "unit": 16.0, "scale": 64.0, "limit": 1000}
    assert (
        stated["election"].get("near", stated["election"].get("n_neighbors"))
        == {"ballots": 2.1, "neighbours": 7}[folder.name]
    )
    assert "k" not in stated
    assert record["predicate"]["threat_model"]["flip the label of a training sample"] == 2
    text = (tmp_path / "bom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    model = json.loads(text)["metadata"]["component"]
    told = {part["name"]: part["value"] for part in model["properties"]}
    assert told["poisonproof:election.map.name"] == "numbers"
    assert told["poisonproof:verdict"] == "VERIFIED"
    assert "training samples that vote" in model["modelCard"]["modelParameters"]["architectureFamily"]
    front, card = (tmp_path / "model-card.md").read_text().split("---\n")[1:]
    assert (
        yaml.safe_load(front)["model-index"][0]["results"][0]["metrics"][0]["value"] == facts.evaluation.clean_accuracy
    )
    for words in (card, page(facts)):
        assert facts.certificate.election["words"] in words
        assert "base classifier" not in words
    assert "the training samples were counted again" in page(facts)


def test_a_statement_cannot_claim_both_kinds_of_voters_or_neither(made, tmp_path):
    _, facts = made
    write(facts, tmp_path)
    record = json.loads((tmp_path / "statement.json").read_text())
    both, neither = copy.deepcopy(record), copy.deepcopy(record)
    both["predicate"]["certificate"]["k"] = 50
    del neither["predicate"]["certificate"]["election"]
    assert violation(both) == "predicate.certificate: False schema does not allow 50"
    assert "'k' is a required property" in violation(neither)


def without_the_map(record):
    record["predicate"]["premises"] = [p for p in record["predicate"]["premises"] if p["code"] != "map"]


def more_voters(record):
    record["predicate"]["certificate"]["election"]["voters"] += 1


def cheaper_flips(record):
    record["predicate"]["threat_model"]["flip the label of a training sample"] = 1


def larger_half(record):
    record["predicate"]["evaluation"]["acts"][0]["half_of_the_test_set"] += 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_the_map, "leaves out or changes the premise 'map'"),
        (more_voters, "says certificate.election.voters = 301, but the run gives 300"),
        (cheaper_flips, "says threat_model.flip the label of a training sample = 1, but the run gives 2"),
        (larger_half, r"says evaluation.acts.0.half_of_the_test_set = \d+, but the run gives"),
    ],
)
def test_a_signed_lie_is_refused_and_named(made, tmp_path, change, words):
    folder, facts = made
    write(facts, tmp_path, KEY)
    said = check_signed(folder, tmp_path, KEY.public_key(), facts)
    assert f"is true of the run: {len(facts.artefacts)} files, {len(facts.certificate.premises)} premises." in said
    signed_anew(tmp_path, KEY, change)
    with pytest.raises(CheckFailed, match=words):
        check_signed(folder, tmp_path, KEY.public_key(), facts)


def test_a_forged_run_yields_no_evidence(made, tmp_path):
    """A raised radius, counts that favour the prediction, and either with every digest computed anew."""
    folder, facts = made

    def raised(arrays):
        arrays["radius"][3] += 1

    def kinder(arrays):
        name = "near" if folder.name == "ballots" else "order"
        arrays[name][3] = arrays[name][4]

    for at, (name, forge) in enumerate([("certificate.npz", raised), (f"{folder.name}.npz", kinder)]):
        forged = shutil.copytree(folder, tmp_path / str(at))
        arrays, record = open_arrays(forged / name, ())
        arrays = {key: array.copy() for key, array in arrays.items()}
        forge(arrays)
        write_arrays(forged / name, arrays, record)
        with pytest.raises(CheckFailed, match=f"{name} was altered"):
            gather(forged, FEW, verify(forged, data=FEW))
        digests = {name: sha256_of(forged / name)}
        rewritten(forged, lambda manifest, digests=digests: manifest["files"].update(digests))
        with pytest.raises(CheckFailed, match="NOT VERIFIED"):
            gather(forged, FEW, verify(forged, data=FEW))
        with pytest.raises(CheckFailed, match="do not follow from its votes"):
            gather(forged, FEW, facts.verdict)  # even by a verdict about another run


def test_the_command_line_exits_with_3_and_writes_nothing(tmp_path):
    poisonproof("run", "digits", "--method", "neighbours", "--n-neighbors", 9, "--out", tmp_path / "run")
    certificate = Certificate.load(tmp_path / "run" / "certificate.npz")
    forged = replace(certificate, radius=certificate.radius + 1)
    forged.save(tmp_path / "run" / "certificate.npz")
    rewritten(
        tmp_path / "run",
        lambda manifest: manifest["files"].update({"certificate.npz": sha256_of(tmp_path / "run" / "certificate.npz")}),
    )
    for words in (("attest", "--out", tmp_path / "evidence"), ("gate", "--clean", 0)):
        done = poisonproof(words[0], tmp_path / "run", *words[1:], code=3)
        assert "NOT VERIFIED: radius" in " ".join(done.stderr.split())
    assert not (tmp_path / "evidence").exists()
    done = poisonproof("attest", tmp_path / "run", "--key", tmp_path / "no.pem", code=2)
    assert "No such file" in done.stderr
    done = poisonproof("attest", tmp_path / "elsewhere", code=2)
    assert "holds no run" in " ".join(done.stderr.split())
    done = poisonproof("attest", tmp_path / "run", "--out", tmp_path / "evidence", code=3)
    assert "NOT VERIFIED" in done.stderr
