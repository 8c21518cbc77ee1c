"""An auditor who distrusts the maker of a run, the writer of its evidence, and the one who signed it."""

import copy
import hashlib
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from sklearn.naive_bayes import GaussianNB

from command_line import poisonproof
from poisonproof import (
    BallotClassifier,
    FiniteAggregationClassifier,
    NeighborVoteClassifier,
    Votes,
    certify,
    load,
    run,
    verify,
)
from poisonproof.ballots.maps import map_for
from poisonproof.core.votes import load_tallies
from poisonproof.evidence import signing
from poisonproof.evidence.documents import DOCUMENTS, page, predicate, render, violation
from poisonproof.evidence.facts import gather
from poisonproof.evidence.signing import ENVELOPES, PAYLOAD, check_signed, write
from poisonproof.runs.manifest import RunSettings
from poisonproof.system.files import open_arrays, read_record, sha256_of, write_arrays
from poisonproof.verification.verdict import CheckFailed, Verdict
from refused import refused
from resigning import rewritten, signed_anew
from sample_voters import THREATS

FEW = load("digits").without(range(300, 1415))
FEW = replace(FEW, test=FEW.test.take(np.arange(40)))
MODELS = {
    "ensemble": lambda: FiniteAggregationClassifier(GaussianNB(), k=3, d=2, classes=range(10), n_jobs=1),
    "ballots": lambda: BallotClassifier(map_for(FEW), near=2.1, classes=range(10)),
    "neighbours": lambda: NeighborVoteClassifier(map_for(FEW), n_neighbors=7, classes=range(10)),
}
UNUSED = ("recipe", "changes", "environment", "environments", "made_in", "notes", "seconds")


@pytest.fixture(scope="module", params=MODELS)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param
    run(FEW, MODELS[request.param](), folder, RunSettings(undefended=False))
    return folder, gather(folder, FEW, verify(folder, data=FEW, seed=1))


def test_every_figure_is_counted_again(made):
    """From a model that is fitted and asked anew."""
    folder, facts = made
    certificate, y = MODELS[folder.name]().fit(FEW.train.X, FEW.train.labels).certify(FEW.test.X), FEW.test.labels
    of_samples = folder / f"{folder.name}.npz"
    votes = load_tallies(of_samples) if of_samples.exists() else Votes.load(folder / "votes.npy")
    right, found = certificate.labels == y, facts.figures
    assert found["right"] == right.sum()
    for row in found["certified"]:
        size = row["attack_size"]
        held = right & (certificate.radius >= size)
        assert row["right_and_certified"] == held.sum()
        assert row["balanced"] == pytest.approx(np.mean([held[y == c].mean() for c in np.unique(y)]))
        assert facts.evaluation.exact_fraction(size) == Fraction(int(held.sum()), len(y))
        assert float(facts.evaluation.exact_fraction(size, balanced=True)) == pytest.approx(row["balanced"])
    assert found["majority"] == {"label": np.bincount(y).argmax(), "share": np.bincount(y).max() / len(y)}
    assert {row["act"] for row in found["acts"]} == set(THREATS)
    for row in found["acts"]:
        held, half = certificate.radius_against(row["act"]), row["half_of_the_test_set"]
        assert row["median_radius"] == np.percentile(held, 50, method="lower")
        assert (right & (held >= half)).sum() * 2 >= len(y) > (right & (held > half)).sum() * 2
    for row in found["classes"]:
        of_class, target = y == row["label"], certify(votes, target=row["label"])
        assert (row["samples"], row["right"]) == (of_class.sum(), (right & of_class).sum())
        median = np.percentile(target.radius[~target.already], 50, method="lower")
        assert row["median_radius_of_others_against_this_target"] == median
    assert facts.verdict.word == "VERIFIED"


def test_every_form_is_valid_and_says_who_votes(made, tmp_path):
    folder, facts = made
    write(facts, tmp_path)
    for name in ("statement.json", "test-result.json"):
        Statement.copy_from_pb(json_format.Parse((tmp_path / name).read_text(), statement_pb2.Statement())).validate()
    record, text = json.loads((tmp_path / "statement.json").read_text()), (tmp_path / "bom.cdx.json").read_text()
    assert violation(record) is None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    front, card = (tmp_path / "model-card.md").read_text().split("---\n")[1:]
    first = yaml.safe_load(front)["model-index"][0]["results"][0]["metrics"][0]
    assert first["value"] == facts.evaluation.clean_accuracy
    stated, flips = record["predicate"]["certificate"], record["predicate"]["threat_model"]
    assert flips["flip the label of a training sample"] == (1 if folder.name == "ensemble" else 2)
    if folder.name == "ensemble":
        assert "base classifiers" in card
        return
    assert stated["election"]["voters"] == 300
    assert stated["election"]["map"] == {"name": "numbers", "unit": 16.0, "scale": 64.0, "limit": 1000}
    assert {"near": 2.1, "n_neighbors": 7}.items() & stated["election"].items()
    model = json.loads(text)["metadata"]["component"]
    told = {part["name"]: part["value"] for part in model["properties"]}
    assert told["poisonproof:election.map.name"] == "numbers"
    assert told["poisonproof:verdict"] == "VERIFIED"
    assert "training samples that vote" in model["modelCard"]["modelParameters"]["architectureFamily"]
    for words in (card, page(facts)):
        assert facts.certificate.election["words"] in words
        assert "base classifier" not in words
    assert "the training samples were counted again" in page(facts)
    both, neither = copy.deepcopy(record), copy.deepcopy(record)
    both["predicate"]["certificate"]["k"] = 50
    del neither["predicate"]["certificate"]["election"]
    assert violation(both) == "predicate.certificate: False schema does not allow 50"
    assert "'k' is a required property" in violation(neither)


def test_a_forged_run_yields_no_evidence_by_a_verdict_about_another(made, tmp_path):
    """Of forged runs themselves the verdict is NOT VERIFIED: tests/verification/test_forgeries.py."""
    folder, facts = made
    forged = shutil.copytree(folder, tmp_path / "run")
    arrays, record = open_arrays(forged / "certificate.npz", ())
    write_arrays(forged / "certificate.npz", {**arrays, "radius": arrays["radius"] + 1}, record)
    with pytest.raises(CheckFailed, match=r"certificate.npz of .* was altered"):
        gather(forged, FEW, facts.verdict)
    digests = {"certificate.npz": sha256_of(forged / "certificate.npz")}
    rewritten(forged, lambda manifest: manifest["files"].update(digests))
    with pytest.raises(CheckFailed, match="do not follow from its votes"):
        gather(forged, FEW, facts.verdict)
    with refused("labels.missing"):
        gather(folder, None, facts.verdict)


def values_of(record, way=()):
    """Ways to every value in a record, of a list to the first."""
    for key, value in record.items() if isinstance(record, dict) else [*enumerate(record)][:1]:
        yield (*way, key)
        if isinstance(value, dict | list):
            yield from values_of(value, (*way, key))


def another(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return "0" * 64 if len(value) == 64 else f"{value}x"
    if isinstance(value, dict):
        return dict([*value.items()][1:]) if value else {"x": 1}
    return (value[1:] if value else ["x"]) if isinstance(value, list) else 1


def forms(facts):
    """All that evidence says but for the digest of the manifest itself."""
    said = json.dumps(predicate(facts)) + "".join(
        body.decode() for name, body in render(facts).items() if name != "bom.cdx.json"
    )
    return said.replace(facts.artefacts["manifest.json"], "")


def test_nothing_in_a_manifest_reaches_the_evidence_unless_it_is_true(made, tmp_path):
    """Each value by itself is changed and the digest computed anew: no evidence, or evidence that does not say it."""
    folder, facts = made
    right, manifest, refused = forms(facts), read_record(folder / "manifest.json"), 0
    forged = shutil.copytree(folder, tmp_path / folder.name)
    body = (forged / "manifest.json").read_bytes()
    for way in values_of(manifest):
        if way[0] in (*UNUSED, "digest"):
            continue

        def change(record, way=way):
            for step in way[:-1]:
                record = record[step]
            record[way[-1]] = another(record[way[-1]])

        rewritten(forged, change)
        try:
            found = gather(forged, FEW, verify(forged, data=FEW, seed=1))
        except CheckFailed:
            refused += 1
        else:
            assert forms(found) == right, way
        (forged / "manifest.json").write_bytes(body)
    assert refused > 40


def signed_lie(evidence, key, name, change):
    """A document, changed; the statement names its new digest and is signed again by the same key."""
    body = change((evidence / name).read_bytes())
    (evidence / name).write_bytes(body)
    lines = (evidence / ENVELOPES).read_text().splitlines()
    if name == "test-result.json":
        lines[1] = json.dumps(signing.sign(body, key))
        (evidence / ENVELOPES).write_text("\n".join(lines) + "\n")
    digest = hashlib.sha256(body).hexdigest()
    signed_anew(evidence, key, lambda record: record["predicate"]["documents"].update({name: digest}))


def in_json(change):
    def changed(body):
        record = json.loads(body)
        change(record)
        return (json.dumps(record, indent=1) + "\n").encode()

    return changed


def kinder_metric(record):
    metrics = record["metadata"]["component"]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    metrics[4]["value"] = "0.999"


def no_limitations(record):
    record["metadata"]["component"]["modelCard"]["considerations"]["technicalLimitations"].pop(0)


def another_result(record):
    record["predicate"]["passedTests"].append("blessing")


LIES = {
    "a figure of the bill of materials": ("bom.cdx.json", in_json(kinder_metric), "performanceMetrics.4.value"),
    "a premise of the bill of materials": ("bom.cdx.json", in_json(no_limitations), "technicalLimitations"),
    "no bill of materials": ("bom.cdx.json", lambda body: b"{}", "is no bill of materials of ours"),
    "half a bill of materials": ("bom.cdx.json", lambda body: body[:900], "cannot be read as JSON"),
    "a figure of the card": ("model-card.md", lambda body: body.replace(b"| clean |", b"| clean | 1"), "model-card.md"),
    "the verdict of the page": ("evidence.html", lambda body: body.replace(b"VERIFIED", b"BLESSED"), "evidence.html"),
    "a test that was never made": ("test-result.json", in_json(another_result), "test-result.json"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_document_that_lies_is_refused_although_it_was_signed(made, tmp_path, lie):
    folder, facts = made
    name, change, words = LIES[lie]
    key = ed25519.Ed25519PrivateKey.generate()
    write(facts, tmp_path, key)
    check_signed(folder, tmp_path, key.public_key(), facts)
    signed_lie(tmp_path, key, name, change)
    with pytest.raises(CheckFailed, match=words):
        check_signed(folder, tmp_path, key.public_key(), facts)


def unnamed(record):
    del record["predicate"]["documents"]["bom.cdx.json"]


def kinder_word(record):
    """What no check made again, called VERIFIED."""
    for check in record["predicate"]["verification"]["checks"]:
        if check["name"] in ("members", "recount"):
            check["outcome"] = "not checked"


def no_checks(record):
    record["predicate"]["verification"]["checks"] = [{}]


def without_premise(record):
    record["predicate"]["premises"].pop(1)


def a_premise_more(record):
    record["predicate"]["premises"].append({"code": "blessing", "value": "yes", "declared": True})


def more_certified(record):
    record["predicate"]["evaluation"]["certified"][1]["right_and_certified"] += 1


def larger_half(record):
    record["predicate"]["evaluation"]["acts"][0]["half_of_the_test_set"] += 1


def other_voters(record):
    certificate = record["predicate"]["certificate"]
    if "election" in certificate:
        certificate["election"]["voters"] += 1
    else:
        certificate["base_classifiers"] += 1


def cheaper_flips(record):
    record["predicate"]["threat_model"]["flip the label of a training sample"] = 9


def other_subject(record):
    record["subject"][2]["digest"]["sha256"] = "0" * 64


SIGNED_LIES = [
    (unnamed, r"does not name bom\.cdx\.json, so nobody signed what it says"),
    (kinder_word, "says VERIFIED, which does not follow from the checks that it lists"),
    (no_checks, "no statement of ours|cannot be followed"),
    (without_premise, "leaves out or changes the premise"),
    (a_premise_more, "names the premise 'blessing', which the run does not have"),
    (more_certified, r"says evaluation.certified.1.right_and_certified = \d+, but the run gives"),
    (larger_half, r"says evaluation.acts.0.half_of_the_test_set = \d+, but the run gives"),
    (other_voters, r"says certificate.(election.voters|base_classifiers) = \d+, but the run gives"),
    (cheaper_flips, "says threat_model.flip the label of a training sample = 9, but the run gives"),
    (other_subject, "is not the file that was signed"),
    (lambda record: record["subject"].pop(), "is not the file that was signed"),
    (lambda record: record.pop("subject"), "no statement of ours .*'subject' is a required property"),
]


@pytest.mark.parametrize(("change", "words"), SIGNED_LIES)
def test_a_signed_statement_that_lies_is_refused(made, tmp_path, change, words):
    folder, facts = made
    key = ed25519.Ed25519PrivateKey.generate()
    write(facts, tmp_path, key)
    said = check_signed(folder, tmp_path, key.public_key(), facts)
    assert f"is true of the run: {len(facts.artefacts)} files, {len(facts.certificate.premises)} premises." in said
    assert "its figures were not compared" in check_signed(folder, tmp_path, key.public_key(), None)
    signed_anew(tmp_path, key, change)
    with pytest.raises(CheckFailed, match=words):
        check_signed(folder, tmp_path, key.public_key(), facts)


def test_genuine_evidence_survives_a_move_another_verdict_and_another_version(made, tmp_path):
    """The folder of a run has another name, and the auditor looks at less than the maker did, or with another seed."""
    folder, facts = made
    key = ed25519.Ed25519PrivateKey.generate()
    write(facts, tmp_path / "evidence", key)
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    found = gather(moved, FEW, verify(moved, data=FEW, ask=False, sample=5, seed=2))
    assert found.verdict.word == "CONSISTENT"
    assert "not compared" not in check_signed(moved, tmp_path / "evidence", key.public_key(), found)
    signed_anew(tmp_path / "evidence", key, lambda record: record["predicate"]["tool"].update(version="0.1.9"))
    said = check_signed(moved, tmp_path / "evidence", key.public_key(), found)
    assert "its documents are those of poisonproof 0.1.9, and their words were not compared" in said


def test_a_verdict_comes_back_from_its_record(made):
    _, facts = made
    again = Verdict.from_dict(json.loads(json.dumps(facts.verdict.as_dict())))
    assert again.as_dict() == facts.verdict.as_dict()
    assert again.verdict == facts.verdict.verdict


@pytest.fixture(scope="module")
def sequence(tmp_path_factory):
    """A run by the command line with its signed evidence, two keys, and another run with its own."""
    place = tmp_path_factory.mktemp("audit")
    for name in ("key", "other"):
        key = ed25519.Ed25519PrivateKey.generate()
        (place / f"{name}.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (place / f"{name}.pub").write_bytes(public)
    for name, k in (("run", 3), ("second", 2)):
        poisonproof("run", "digits", "--learner", "table", "--k", k, "--d", 1, "--no-undefended", "--out", place / name)
        poisonproof("attest", place / name, "--key", place / "key.pem")
    return place


def changed_byte(name):
    def change(place):
        path = place / "run-evidence" / name
        body = bytearray(path.read_bytes())
        body[len(body) // 2] ^= 1
        path.write_bytes(body)

    return change


def swapped(name):
    return lambda place: shutil.copy(place / "second-evidence" / name, place / "run-evidence" / name)


def linked(name):
    def change(place):
        path = place / name
        path.rename(place / "aside")
        path.symlink_to(place / "aside")

    return change


def truncated(name):
    def change(place):
        path = place / "run-evidence" / name
        path.write_bytes(path.read_bytes()[:-200])

    return change


def of_another_run(place):
    shutil.rmtree(place / "run-evidence")
    shutil.copytree(place / "second-evidence", place / "run-evidence")


def of_another_type(place):
    path = place / "run-evidence" / ENVELOPES
    path.write_text(path.read_text().replace(PAYLOAD, "application/json", 1))


def in_another_order(place):
    path = place / "run-evidence" / ENVELOPES
    path.write_text("".join(line + "\n" for line in reversed(path.read_text().splitlines())))


def without_signatures(place):
    path = place / "run-evidence" / ENVELOPES
    lines = [json.dumps({**json.loads(line), "signatures": []}) for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))


def other_file_of_the_run(place):
    path = place / "run" / "split.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def raised_in_the_manifest(place):
    rewritten(place / "run", lambda record: record.update(clean_accuracy=1.0))


FORGERIES = {
    **{f"a byte of {name}": (changed_byte(name), "") for name in (*DOCUMENTS, "statement.json", ENVELOPES)},
    **{f"swapped {name}": (swapped(name), name) for name in (*DOCUMENTS, "statement.json")},
    "swapped signatures": (swapped(ENVELOPES), "statement.json"),
    "evidence of another run": (of_another_run, "about another run"),
    "another payload type": (of_another_type, "holds 'application/json', not"),
    "statements in another order": (in_another_order, "statement.json"),
    "no signatures": (without_signatures, "not signed with this key"),
    **{f"truncated {name}": (truncated(name), "") for name in ("statement.json", "bom.cdx.json", ENVELOPES)},
    **{f"a link for {name}": (linked(f"run-evidence/{name}"), "is a link") for name in (*DOCUMENTS, ENVELOPES)},
    "a link for the statement": (linked("run-evidence/statement.json"), "is a link"),
    "a link in the run": (linked("run/votes.npy"), "votes.npy"),
    "a file of the run": (other_file_of_the_run, "split.npy was altered"),
    "a number of the manifest": (raised_in_the_manifest, "clean_accuracy"),
}


OF_THE_RUN = ("a link in the run", "a file of the run", "a number of the manifest")


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_was_forged_is_refused_and_named(sequence, tmp_path, forgery):
    change, words = FORGERIES[forgery]
    place = shutil.copytree(sequence, tmp_path / "audit", symlinks=True)
    change(place)
    if forgery in (*OF_THE_RUN, "evidence of another run"):
        done = poisonproof("verify", place / "run", "--no-ask", "--signature", place / "key.pub", code=3)
        said = " ".join((done.stdout + done.stderr).split())
        assert "NOT VERIFIED" in said
        assert words in said
    if forgery not in OF_THE_RUN:
        with pytest.raises(CheckFailed) as refusal:
            check_signed(place / "run", place / "run-evidence", signing.public_key(place / "key.pub"), None)
        assert words in str(refusal.value)


def test_genuine_evidence_passes_and_keys_that_are_none_are_the_users_mistake(sequence, tmp_path):
    place = sequence
    done = poisonproof("verify", place / "run", "--signature", place / "key.pub")
    assert "is true of the run" in " ".join(done.stdout.split())
    done = poisonproof("verify", place / "run", "--no-ask", "--signature", place / "other.pub", code=3)
    assert "not signed with this key" in " ".join(done.stdout.split())
    (tmp_path / "text").write_text("no key")
    for given, words in (
        (tmp_path / "text", "is no public key"),
        (place / "key.pem", "is no public key"),
        (tmp_path, "is no file"),
        (tmp_path / "nowhere", "No such file"),
    ):
        done = poisonproof("verify", place / "run", "--no-ask", "--signature", given, code=2)
        assert words in " ".join(done.stderr.split())
    for given in (tmp_path / "text", place / "key.pub"):
        done = poisonproof("attest", place / "run", "--out", tmp_path / "out", "--key", given, code=2)
        assert "is no private key" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_the_gate_speaks_by_exit_code_table_json_and_junit(sequence, tmp_path):
    """Every option, on runs whose figures are known."""
    from lxml import etree

    best, second = sequence / "run", sequence / "second"
    record = json.loads((sequence / "run-evidence" / "statement.json").read_text())["predicate"]["evaluation"]
    at_one = next(row for row in record["certified"] if row["attack_size"] == 1)
    share = f"{at_one['right_and_certified']}/382"
    asked = ("--plain", "--attack-size", 1, "--certified-fraction", share)
    done = poisonproof("gate", best, *asked, "--require-verified", "--clean", 0.5, "--junit", tmp_path / "gate.xml")
    assert "met: run, VERIFIED; a constant answer is right on 11.7 %" in " ".join(done.stdout.split())
    suite = etree.parse(tmp_path / "gate.xml").find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    done = poisonproof("gate", best, *asked, "--attack-size", 0, "--certified-fraction", 1, "--json", code=6)
    found = json.loads(done.stdout)
    assert [row["met"] for row in found["conditions"]] == [True, False]
    assert not found["met"]
    drop = ("--certified-fraction", 0, "--max-drop-from", best)
    worse = poisonproof("gate", second, "--attack-size", 1, *drop, 0, code=6)
    assert "at attack size 1, against run" in " ".join(worse.stdout.split())
    poisonproof("gate", second, "--attack-size", 0, *drop, 1)
    for words, said in (
        ((), "asks for nothing"),
        (("--clean", "80"), "must be a share between 0 and 1"),
        (("--attack-size", 1), "Every --attack-size needs its --certified-fraction"),
        (("--max-drop-from", best, "-0.1"), "must be a share between 0 and 1"),
        (("--max-drop-from", tmp_path, "0.1"), "holds no run"),
    ):
        assert said in " ".join(poisonproof("gate", second, *words, code=2).stderr.split())
    forged = shutil.copytree(best, tmp_path / "run")
    raised = forged / "votes.npy"
    votes = np.load(raised)
    votes[:] = votes[:, :1]
    np.save(raised, votes)
    for words in (("--clean", 0), ("--max-drop-from", best, 1)):
        assert "votes.npy was altered" in " ".join(poisonproof("gate", forged, *words, code=3).stderr.split())
    done = poisonproof("gate", best, "--clean", 0, "--max-drop-from", forged, 1, code=3)
    assert "votes.npy was altered" in " ".join(done.stderr.split())
