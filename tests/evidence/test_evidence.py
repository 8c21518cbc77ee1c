"""Evidence: true of the run, valid by the official schemas, and refused where one word of it is false."""

import base64
import copy
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from jsonschema import Draft202012Validator
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner, SSlibKey
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from poisonproof import FiniteAggregationClassifier, PremiseWarning, Votes, certify, load, verify
from poisonproof.cli.main import app
from poisonproof.core.metrics import Evaluation
from poisonproof.data.dataset import Dataset
from poisonproof.evidence import gate as gates
from poisonproof.evidence import signing
from poisonproof.evidence.documents import bom, card, of_the_data, page, schema, violation
from poisonproof.evidence.facts import figures, gather
from poisonproof.evidence.signing import ENVELOPES, PAYLOAD, check_signed, write
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.report import Summary, class_rows
from poisonproof.runs.run import run
from poisonproof.system.files import read_record
from poisonproof.verification.verdict import CheckFailed
from refused import refused
from resigning import rewritten

ROOT = Path(__file__).parents[2]
HOSTILE = '</script><b>x</b> "quoted": [y]\n---'


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def made(digits, tmp_path_factory):
    """A run that kept its base classifiers, and the facts about it."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    model = FiniteAggregationClassifier(GaussianNB(), k=6, d=3, classes=range(10), n_jobs=1)
    run(digits, model, folder, RunSettings(undefended=False))
    return folder, gather(folder, digits, verify(folder, data=digits))


@pytest.fixture(scope="module")
def keys():
    return {"ed25519": ed25519.Ed25519PrivateKey.generate(), "ecdsa": ec.generate_private_key(ec.SECP256R1())}


@pytest.fixture
def signed(made, keys, tmp_path):
    """A copy of the run with its signed evidence, which a test may spoil."""
    folder, facts = made
    shutil.copytree(folder, tmp_path / "run")
    write(facts, tmp_path / "evidence", keys["ed25519"])
    return tmp_path / "run", tmp_path / "evidence", keys["ed25519"], facts


def test_a_frequent_class_alone_makes_no_headline(made):
    """The headline needs half of the test set and half on average over classes; a constant answer is said to be one."""
    _, facts = made
    certificate = facts.certificate
    radius = np.arange(len(certificate)) % 7
    for truth in (
        certificate.prediction,
        np.where(radius > 3, certificate.prediction, (certificate.prediction + 1) % 10),
    ):
        named = replace(facts, certificate=replace(certificate, radius=radius), y=truth)
        size = named.evaluation.headline_size
        shares = [
            (named.evaluation.exact_fraction(s), named.evaluation.exact_fraction(s, balanced=True)) for s in range(8)
        ]
        assert size == max([s for s, pair in enumerate(shares) if min(pair) * 2 >= 1], default=0)
    rare = np.where(np.arange(len(radius)) < 20, 1, 0)
    named = replace(facts, certificate=replace(certificate, prediction=np.zeros_like(rare), radius=radius), y=rare)
    assert named.evaluation.exact_fraction(3) > Fraction(1, 2) > named.evaluation.exact_fraction(3, balanced=True)
    assert named.evaluation.headline_size == 0
    assert named.evaluation.caution.kind == "one answer"
    assert "A constant answer is perfectly robust" in page(named)
    assert "A constant answer is perfectly robust" in card(named)
    assert facts.evaluation.caution is None


def test_labels_that_nobody_has_shown_count_as_wrong():
    from poisonproof import Spread

    votes = Votes([[0, 0], [1, 1], [0, 0]], Spread.random(2, 1), ["a", "b"], "content", classes_inferred=True)
    found = figures(votes, certify(votes), certify(votes).evaluate(["a", "b", "c"]))
    assert (found["right"], found["samples"]) == (2, 3)
    assert [(row["label"], row["right"]) for row in found["classes"]] == [("a", 1), ("b", 1), ("c", 0)]
    assert found["balanced_accuracy"] == pytest.approx(2 / 3)
    fewer = figures(votes, certify(votes), certify(votes).evaluate(["a", "c", "c"]))
    assert fewer["acts"][0] == {"act": "insert_remove", "median_radius": 0, "half_of_the_test_set": None}


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    """A run whose test samples have three labels more than its training samples; those of two classes are right."""
    folder = tmp_path_factory.mktemp("unseen") / "run"
    X, y = (np.repeat([0, 1000], 40) + np.arange(80))[:, None], np.repeat(["no", "yes"], 40)
    of_test, labels = np.array([[0], [1000]] * 15), np.array(["no", "yes"] * 6 + ["x", "y", "z"] * 6)
    dataset = Dataset.of("t", X, y, of_test, labels, None)
    model = FiniteAggregationClassifier(GaussianNB(), k=4, d=1, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PremiseWarning)
        outcome = run(dataset, model, folder, RunSettings(undefended=False))
    return outcome, gather(folder, dataset, verify(folder, data=dataset))


def test_gate_evidence_and_pages_have_the_figures_of_the_run_where_test_labels_are_unseen(unseen):
    """Each label is a class of its own in the run; as one class together they had let a gate at 0.6 pass."""
    outcome, facts = unseen
    manifest = read_record(outcome.folder / "manifest.json")
    assert manifest["balanced_accuracy"] == pytest.approx(2 / 5)
    assert manifest["majority_share"] == pytest.approx(6 / 30)
    evaluation = of_the_data(facts)["evaluation"]
    assert evaluation["balanced_accuracy"] == manifest["balanced_accuracy"]
    assert evaluation["majority"]["share"] == manifest["majority_share"]
    summary = Summary(outcome, [row["attack_size"] for row in evaluation["certified"]])
    assert [row["balanced"] for row in evaluation["certified"]] == summary.balanced.tolist()
    assert [row["label"] for row in evaluation["classes"]] == ["no", "yes", "x", "y", "z"]
    rows = {one.label: (one.n_test, one.clean_accuracy) for one in summary.by_class}
    assert {row["label"]: (row["samples"], row["right"] / row["samples"]) for row in evaluation["classes"]} == rows
    assert {row.name: (row.n, row.right / row.n) for row in class_rows(outcome, 1)} == rows
    assert facts.evaluation.caution == outcome.certificate.evaluate(outcome.y_test).caution
    for share, met in ((Fraction(2, 5), True), (Fraction(3, 5), False)):
        (row,) = gates.conditions(facts, gates.Thresholds(clean=share))
        assert row.met is met
    assert "balanced 20.0 %" in page(facts)


def half_at(right, radius):
    truth = np.zeros(len(radius), int)
    return Evaluation(1 - np.array(right), radius, truth, np.array(right, bool), ["a", "b"]).half()


def test_half_of_the_test_set_counts_those_that_are_wrong():
    radius = np.array([9, 5, 3, 1, 0])
    for right, half in (([0, 1, 1, 1, 0], 1), ([1, 1, 1, 1, 1], 3), ([1, 1, 0, 0, 0], None)):
        assert half_at(right, radius) == half
    assert half_at([0, 1, 1, 1], radius[:4]) == 3


def test_statements_are_in_toto_statements_of_our_schema_and_of_a_vetted_one(made, tmp_path):
    _, facts = made
    write(facts, tmp_path)
    Draft202012Validator.check_schema(schema())
    for name, kind in (("statement.json", None), ("test-result.json", test_result_pb2.TestResult)):
        text = (tmp_path / name).read_text()
        read = json_format.Parse(text, statement_pb2.Statement())
        Statement.copy_from_pb(read).validate()
        assert {subject.name: subject.digest["sha256"] for subject in read.subject} == facts.artefacts
        if kind is not None:
            result = json_format.ParseDict(json_format.MessageToDict(read)["predicate"], kind())
            assert result.result == "PASSED"
            assert "radius" in result.passed_tests
    record = json.loads((tmp_path / "statement.json").read_text())
    assert violation(record) is None
    assert record["predicate"]["premises"] == [
        {"code": p.code, "value": p.value, "declared": p.declared} for p in facts.certificate.premises
    ]
    assert str(tmp_path) not in json.dumps(record)
    for path, value in (("_type", "v2"), ("predicate.premises", None), ("predicate.evaluation.right", -1)):
        wrong = copy.deepcopy(record)
        *way, last = path.split(".")
        place = wrong
        for step in way:
            place = place[step]
        place[last] = value
        assert path in violation(wrong)
    less = copy.deepcopy(record)
    del less["predicate"]["threat_model"]
    assert "'threat_model' is a required property" in violation(less)


def test_the_bill_of_materials_is_valid_cyclonedx_and_holds_the_figures(made, tmp_path):
    _, facts = made
    write(facts, tmp_path)
    text = (tmp_path / "bom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    record = json.loads(text)
    assert (record["bomFormat"], record["specVersion"]) == ("CycloneDX", "1.6")
    model = record["metadata"]["component"]
    assert model["type"] == "machine-learning-model"
    hashes = {part["name"]: part["hashes"][0]["content"] for part in model["components"]}
    assert hashes == facts.artefacts
    digests = [(p["name"], p["value"]) for part in record["components"] for p in part["properties"]]
    assert sorted(digests) == sorted((f"poisonproof:sha256:{name}", value) for name, value in facts.digests.items())
    metrics = {
        (m["type"], m["slice"]): m["value"] for m in model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    }
    assert float(metrics["certified fraction (pointwise)", "attack size 1"]) == float(
        facts.evaluation.exact_fraction(1)
    )
    assert float(metrics["clean accuracy", "test set"]) == facts.evaluation.clean_accuracy
    assert ("share of the largest class", "test set, a constant answer") in metrics
    limits = " ".join(model["modelCard"]["considerations"]["technicalLimitations"])
    assert all(premise.words in limits for premise in facts.certificate.premises)
    assert "Not covered by the proof: change a test sample." in limits


@pytest.mark.parametrize(
    ("licence", "known"), [("MIT", True), ("Apache-2.0 (its licence file; its metadata say UNKNOWN)", False)]
)
def test_an_encoder_is_a_component_with_licence_and_hash(made, licence, known):
    """As the certificate's premise names it; the bill of materials is validated when it is written."""
    from poisonproof.encoders.base import EncoderRecord

    _, facts = made
    words = ("lite 0", "1.2.0", "PyPI lite0, large", licence, "0" * 64, "160 pixels, centred", "ImageNet", "images")
    premises = (*facts.certificate.premises, EncoderRecord(*words).premise)
    named = replace(facts, certificate=replace(facts.certificate, premises=premises))
    found = {part["bom-ref"]: part for part in json.loads(bom(named))["components"]}["encoder:lite 0"]
    assert (found["type"], found["version"]) == ("machine-learning-model", "1.2.0")
    assert found["licenses"][0]["license"]["id" if known else "name"] == licence
    assert found["hashes"] == [{"alg": "SHA-256", "content": "0" * 64}]
    assert found["description"] == "PyPI lite0, large; trained on ImageNet"
    assert not any(part["bom-ref"].startswith("encoder:") for part in json.loads(bom(facts))["components"])


def test_the_model_card_has_front_matter_that_hubs_read(made, tmp_path):
    import yaml

    _, facts = made
    manifest = copy.deepcopy(facts.manifest)
    manifest["settings"]["dataset"]["name"] = HOSTILE
    write(replace(facts, manifest=manifest), tmp_path)
    text = (tmp_path / "model-card.md").read_text()
    _, front, body = text.split("---\n", 2)
    record = yaml.safe_load(front)
    assert record["library_name"] == "poisonproof"
    assert record["datasets"] == [HOSTILE.replace("\n", "\\n")]
    results = record["model-index"][0]["results"][0]["metrics"]
    assert results[0] == {"type": "accuracy", "name": "clean accuracy", "value": facts.evaluation.clean_accuracy}
    assert len(results) == 1 + len(facts.figures["certified"])
    assert "<b>" not in body
    assert "VERIFIED" in body
    assert "chosen from this data" in body


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_what_we_sign_others_verify_and_the_other_way_round(keys, kind):
    key, payload = keys[kind], b'{"a": 1}'
    envelope = signing.sign(payload, key)
    theirs = SSlibKey.from_crypto(key.public_key(), keyid=signing.key_id(key.public_key()))
    assert Envelope.from_dict(copy.deepcopy(envelope)).verify([theirs], 1)
    other = Envelope(payload, PAYLOAD, {})
    other.sign(CryptoSigner(key, theirs))
    assert signing.open_envelope(other.to_dict(), key.public_key()) == payload
    changed = {**envelope, "payload": base64.b64encode(b'{"a": 2}').decode()}
    for wrong in (changed, {**envelope, "signatures": []}):
        with pytest.raises(CheckFailed, match="not signed with this key"):
            signing.open_envelope(wrong, key.public_key())
    with pytest.raises(CheckFailed, match=r"not 'application/vnd\.in-toto"):
        signing.open_envelope({**envelope, "payloadType": "text/plain"}, key.public_key())
    for broken in ({}, [], {**envelope, "payload": "&"}):
        with pytest.raises(CheckFailed, match="not a DSSE envelope"):
            signing.open_envelope(broken, key.public_key())
    stranger = ed25519.Ed25519PrivateKey.generate().public_key()
    with pytest.raises(CheckFailed, match="not signed with this key"):
        signing.open_envelope(envelope, stranger)


def test_key_files_are_opened_or_refused_in_one_sentence(tmp_path, monkeypatch, keys):
    def write(name, key, password=None):
        how = NoEncryption() if password is None else BestAvailableEncryption(password)
        (tmp_path / name).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub").write_bytes(pem)
        return tmp_path / name

    for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()):
        path = write("ec", ec.generate_private_key(curve))
        envelope = signing.sign(b"x", signing.private_key(path))
        assert signing.open_envelope(envelope, signing.public_key(tmp_path / "ec.pub")) == b"x"
    locked = write("locked", keys["ed25519"], b"secret")
    with refused("evidence.private-key"):
        signing.private_key(locked)
    monkeypatch.setenv("POISONPROOF_KEY_PASSWORD", "secret")
    assert signing.key_id(signing.private_key(locked).public_key()) == signing.key_id(keys["ed25519"].public_key())
    monkeypatch.delenv("POISONPROOF_KEY_PASSWORD")
    for other in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256K1())):
        with refused("evidence.key-kind"):
            signing.private_key(write("other", other))
    (tmp_path / "text").write_text("hello")
    with refused("evidence.private-key"):
        signing.private_key(tmp_path / "text")
    with refused("evidence.public-key"):
        signing.public_key(tmp_path / "text")
    with refused("evidence.key-file"):
        signing.public_key(tmp_path / "nowhere")


def test_every_changed_byte_of_what_is_signed_is_refused(signed):
    """The envelopes and all documents, a byte in every 97."""
    folder, evidence, key, _ = signed
    for path in sorted(evidence.iterdir()):
        body = path.read_bytes()
        for at in range(0, len(body), max(97, len(body) // 25)):
            changed = bytearray(body)
            changed[at] ^= 1
            path.write_bytes(changed)
            with pytest.raises(CheckFailed):
                check_signed(folder, evidence, key.public_key(), None)
        path.write_bytes(body)
    check_signed(folder, evidence, key.public_key(), None)


def test_a_swapped_file_another_run_and_missing_documents_are_named(signed, digits, tmp_path):
    folder, evidence, key, _ = signed
    (folder / "split.npy").write_bytes((folder / "votes.npy").read_bytes())
    digest = hashlib.sha256((folder / "split.npy").read_bytes()).hexdigest()
    rewritten(folder, lambda manifest: manifest["files"].update({"split.npy": digest}))
    with pytest.raises(CheckFailed, match=r"manifest.json of .* is not the file that was signed \(and 1 more\)"):
        check_signed(folder, evidence, key.public_key(), None)
    other = tmp_path / "other"
    model = FiniteAggregationClassifier(GaussianNB(), k=3, d=1, n_jobs=1)
    run(digits, model, other, RunSettings(votes_only=True, undefended=False))
    with pytest.raises(CheckFailed, match="is about another run"):
        check_signed(other, evidence, key.public_key(), None)
    write(gather(other, digits, verify(other, data=digits)), evidence, key)
    check_signed(other, evidence, key.public_key(), None)
    (evidence / "bom.cdx.json").unlink()
    with pytest.raises(CheckFailed, match=r"'bom\.cdx\.json', which the statement names, is missing"):
        check_signed(other, evidence, key.public_key(), None)
    (evidence / ENVELOPES).unlink()
    with refused("evidence.unsigned"):
        check_signed(other, evidence, key.public_key(), None)


def test_attest_anew_without_a_key_removes_the_old_signature(signed):
    _, evidence, _, facts = signed
    write(facts, evidence)
    assert not (evidence / ENVELOPES).exists()


def test_a_gate_compares_exactly(made):
    _, facts = made
    asked = partial(gates.Thresholds, allow_constant=True)
    share, balanced = facts.evaluation.exact_fraction(1), facts.evaluation.exact_fraction(1, balanced=True)
    assert balanced != share
    for least, plain in ((share, True), (balanced, False)):
        above = least + Fraction(1, 10**9)
        found = gates.conditions(facts, asked(((1, least), (1, above)), clean=Fraction(1, 2), plain=plain))
        assert [row.met for row in found] == [True, True, False]
        assert [("balanced" in row.what) for row in found] == [not plain] * 3
    same = gates.conditions(facts, asked(((1, balanced),), baseline=gates.Baseline(facts, Fraction(0))))
    assert [row.met for row in same] == [True, True, True]
    worse = replace(facts, y=(facts.evaluation.truth + 1) % 10)
    less = gates.conditions(worse, asked(baseline=gates.Baseline(facts, Fraction(1, 100))))
    assert not any(row.met for row in less)
    elsewhere = replace(facts, digests={**facts.digests, "y_test": "0" * 64})
    for thresholds, code in (
        (asked(), "gate.empty"),
        (asked(baseline=gates.Baseline(elsewhere, Fraction(1))), "gate.other-test-samples"),
    ):
        with refused(code):
            gates.conditions(facts, thresholds)


def test_a_constant_answer_passes_no_gate_unless_it_is_allowed(made):
    """Every test sample is called "0": right on 87 %, of two classes 50 %, and no poison changes that."""
    _, facts = made
    truth = (np.arange(len(facts.evaluation.truth)) % 100 >= 87).astype(np.int64)
    constant = replace(facts.certificate, prediction=np.zeros_like(truth), radius=np.full_like(truth, 99))
    answers, asked = replace(facts, certificate=constant, y=truth), ((9, Fraction(2, 5)),)
    for plain in (False, True):
        rows = gates.conditions(answers, gates.Thresholds(asked, Fraction(0), plain))
        assert [row.met for row in rows] == [False, False]
        assert all("a constant answer" in row.wanted for row in rows)
        rows = gates.conditions(answers, gates.Thresholds(asked, Fraction(0), plain, allow_constant=True))
        assert [row.met for row in rows] == [True, True]
    one_more = replace(
        answers, certificate=replace(constant, prediction=np.where(np.arange(len(truth)) == 99, truth, 0))
    )
    assert all(row.met for row in gates.conditions(one_more, gates.Thresholds(asked, Fraction(0))))


def test_a_gate_speaks_junit(made):
    """Valid by Ant's schema of JUnit files, as sphinx-test-reports ships it."""
    import sphinxcontrib.test_reports
    from lxml import etree

    _, facts = made
    ant = Path(sphinxcontrib.test_reports.__file__).with_name("schemas") / "JUnit.xsd"
    hostile = replace(facts, name=HOSTILE)
    for wanted in (
        gates.Thresholds(((10**6, Fraction(1, 2)),), plain=True, verified=True),
        gates.Thresholds(clean=Fraction(0)),
    ):
        for named in (facts, hostile):
            found = gates.conditions(named, wanted)
            etree.XMLSchema(file=str(ant)).assertValid(etree.fromstring(gates.as_junit(named, found)))
    found = gates.conditions(facts, gates.Thresholds(((10**6, Fraction(1, 2)),), plain=True, verified=True))
    suite = etree.fromstring(gates.as_junit(facts, found)).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    told = {part.get("name"): part.get("value") for part in suite.iter("property")}
    assert told["verdict"] == "VERIFIED"
    assert float(told["majority_share"]) == facts.evaluation.majority_share
    failed = suite.findall(".//testcase[failure]")
    assert [case.get("name") for case in failed] == ["certified fraction (pointwise) at attack size 1000000"]
    assert failed[0].find("failure").get("message") == "wanted ≥ 50 %, found 0.0 %"
    record = gates.as_record(facts, found)
    assert record["met"] is False
    assert [row["met"] for row in record["conditions"]] == [True, False]


def shell_blocks(page):
    return re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


def present(record, way):
    """Whether a record has this field; in a list, whether one of its entries has it."""
    if not way:
        return True
    if isinstance(record, list):
        return any(present(part, way) for part in record)
    return isinstance(record, dict) and way[0] in record and present(record[way[0]], way[1:])


def test_the_crosswalk_names_every_control_and_only_fields_that_there_are(made, tmp_path):
    """In the files of three runs: with kept base classifiers, with contributors, and one in which samples vote."""
    from poisonproof import BallotClassifier
    from poisonproof.ballots.maps import map_for
    from poisonproof.encoders.base import EncoderRecord

    folder, facts = made
    few = load("digits").without(range(200, 1415))
    few = replace(few, test=few.test.take(np.arange(20)))
    grouped = replace(few, train=replace(few.train, groups=np.arange(200) % 40))
    gathered = [facts]
    for name, dataset, model in (
        ("grouped", grouped, FiniteAggregationClassifier(GaussianNB(), k=2, d=1, split="group", n_jobs=1)),
        ("ballots", few, BallotClassifier(map_for(few), near=2.1)),
    ):
        run(dataset, model, tmp_path / name, RunSettings(undefended=False))
        gathered.append(gather(tmp_path / name, dataset, verify(tmp_path / name, data=dataset)))
    files = {"statement": [], "bom": [], "test-result": [], "manifest": [], "model": []}
    for at, found in enumerate(gathered):
        write(found, tmp_path / str(at))
        for name, file in (("statement", "statement.json"), ("bom", "bom.cdx.json"), ("test-result", None)):
            record = json.loads((tmp_path / str(at) / (file or "test-result.json")).read_text())
            files[name].append({**record["predicate"], **record} if name == "statement" else record)
    words = ("lite 0", "1.2.0", "PyPI lite0", "MIT", "0" * 64, "160 pixels", "ImageNet", "images")
    premises = (*facts.certificate.premises, EncoderRecord(*words).premise)
    encoded = replace(facts, certificate=replace(facts.certificate, premises=premises))
    files["bom"].append(json.loads(bom(encoded)))
    files["manifest"].append(json.loads((folder / "manifest.json").read_text()))
    files["model"].append(json.loads((folder / "models" / "model.json").read_text()))
    page = (ROOT / "docs" / "compliance.md").read_text()
    for control in ["1.3.3", "1.4.6", "1.4.7", "1.5.1", "1.5.2", "11.2.4", "15(5)", "AML.T0020", "LLM04", "2.7"]:
        assert control in page
    named = set(re.findall(r"`(statement|bom|test-result|manifest|model)\.([A-Za-z0-9_.\[\]]+)`", page))
    named -= {("statement", "json"), ("bom", "cdx.json"), ("test-result", "json"), ("manifest", "json")}
    assert len(named) > 25
    for file, field in named:
        assert any(present(record, field.replace("[]", "").split(".")) for record in files[file]), (file, field)
    for file in re.findall(r"`([a-z-]+\.(?:npy|html|md|json|jsonl))`", page):
        attested = {*(path.name for path in (tmp_path / "0").iterdir()), "evidence.intoto.jsonl", "schema.json"}
        assert file in attested or (folder / file).exists(), file
    assert not present(files["statement"][0], ["evaluation", "certified", "radius"])


def at_the_command_line(line, code=0):
    """A line of the documentation; ours in this process, which has everything compiled."""
    words = shlex.split(line)
    if words[0] == "poisonproof":
        done = CliRunner().invoke(app, words[1:])
        found, said = done.exit_code, done.stdout + done.stderr
    else:
        done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
        found, said = done.returncode, done.stdout + done.stderr
    assert found == code, f"{line}: {found}\n{said}"
    return said


def test_workflow_and_stages_of_the_page_are_yaml_whose_commands_work(tmp_path, monkeypatch):
    """On scikit-learn's table of breast cancers, as a build server would run them."""
    import yaml
    from sklearn.datasets import load_breast_cancer

    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "evidence.md").read_text(), re.S)
    workflow, stages = (yaml.safe_load(block) for block in blocks)
    steps = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    lines = [*steps, *(stage["cmd"] for stage in stages["stages"].values())]
    ours = [shlex.split(line) for line in lines if line.startswith("poisonproof")]
    assert [words[1] for words in ours] == ["run", "gate", "attest", "run", "attest"]
    for words in ours:
        known = CliRunner().invoke(app, [words[1], "--help"], terminal_width=200).stdout
        assert all(word in known for word in words if word.startswith("--"))
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "class"})
    table.to_csv("data/train.csv", index=False)
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    monkeypatch.setenv("SIGNING_KEY", key.decode())
    for line in steps:
        if not line.startswith("pip "):
            at_the_command_line(f"{line} --no-undefended" if " run " in line else line)
    assert 'failures="0"' in Path("gate.xml").read_text()
    assert (Path("runs/new-evidence") / ENVELOPES).exists()
    at_the_command_line(stages["stages"]["evidence"]["cmd"])
    assert {"runs/new", "data/train.csv"} == set(stages["stages"]["evidence"]["deps"])


@pytest.mark.parametrize(("block", "name", "votes"), [(0, "digits", "votes.npy"), (1, "ballots", "ballots.npz")])
def test_the_documented_sequences_from_run_to_gate(tmp_path, monkeypatch, block, name, votes):
    """run, verify, attest, sign, verify the signature, gate: as docs/evidence.md says; and what is then refused."""
    monkeypatch.chdir(tmp_path)
    text = shell_blocks("evidence.md")[block]
    lines = [line.partition(" #")[0].strip() for line in text.splitlines() if line.strip()]
    assert [line.split()[1] for line in lines if line.startswith("poisonproof")] == [
        *("run", "verify", "attest", "verify", "gate")
    ]
    for line in lines:
        at_the_command_line(line)
    folder = f"runs/{name}"
    assert {path.name for path in Path(f"{folder}-evidence").iterdir()} == {
        *("bom.cdx.json", "evidence.html", "evidence.intoto.jsonl", "model-card.md"),
        *("statement.json", "test-result.json"),
    }
    at_the_command_line(f"poisonproof gate {folder} --attack-size 999 --certified-fraction 0.99 --json", 6)
    said = at_the_command_line(f"poisonproof gate {folder} --attack-size 9", 2)
    assert "Every --attack-size needs its --certified-fraction. Got 1 and 0." in said
    assert "must be a share" in at_the_command_line(f"poisonproof gate {folder} --clean 80", 2)
    assert "give --signature KEY" in at_the_command_line(f"poisonproof verify {folder} --no-ask --evidence x", 2)
    at_the_command_line(f"poisonproof verify {folder} --no-ask", 5)
    card = Path(f"{folder}-evidence/model-card.md")
    card.write_text(card.read_text().replace("VERIFIED", "BLESSED"))
    said = at_the_command_line(f"poisonproof verify {folder} --no-ask --signature key.pub", 3)
    assert "NOT VERIFIED: model-card.md" in said
    forged = Path(folder) / votes
    forged.write_bytes(forged.read_bytes()[:-1] + b"!")
    for command in (f"attest {folder} --out elsewhere", f"gate {folder} --clean 0"):
        assert f"{votes} was altered" in at_the_command_line(f"poisonproof {command}", 3)
    assert not Path("elsewhere").exists()
