"""--encoder as a person meets it: run, predict, update, verify, audit, plan, compare; and what goes wrong."""

import csv
import html
import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import poisonproof as library
from command_line import poisonproof
from encoding import SMALL, network, pictures
from poisonproof.encoders import embeddings as embeddings
from poisonproof.encoders import packaged
from poisonproof.encoders.cache import EmbeddingCache, sample_keys
from poisonproof.runs import recipe
from poisonproof.runs.answers import Question
from poisonproof.runs.manifest import Manifest
from poisonproof.system.files import read_record
from refused import refused
from tests.helpers.premises import in_words

OPTIONS = ("--k", 4, "--d", 2, "--n-jobs", 1, "--classes", "0,1,2")
BAD = """
import numpy as np
random = np.random.default_rng()
def nan(X):
    return np.full((len(X), 3), np.nan)
def twice(X):
    return random.normal(size=(len(X), 3))
def raises(X):
    raise ValueError("no model here")
"""
FUNCTION = "import numpy as np\ndef colours(X):\n    return np.asarray(X, float).reshape(len(X), -1)[:, :24] + 1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("encoder") / "shapes"
    for at, (image, label) in enumerate(zip(*pictures(90), strict=True)):
        home = place / str(label)
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(home / f"{at:03}.png")
    return place


@pytest.fixture(scope="module")
def made(folder):
    done = poisonproof("run", folder, "--encoder", SMALL, *OPTIONS, "--out", folder.parent / "run")
    return folder.parent / "run", done


def test_one_command_from_images_to_a_report(made, folder, tmp_path):
    run, done = made
    digest = packaged.NETWORKS["efficientnet-lite0"].digest
    manifest = read_record(run / "manifest.json")
    (premise,) = [words for words in in_words(manifest) if words.startswith("encoder: ")]
    assert digest in premise
    assert "ImageNet-1k, public; not covered by this proof" in premise
    assert "encoder" in done.stderr
    assert digest in (run / "report.html").read_text()
    assert manifest["clean_accuracy"] > 0.8
    assert manifest["recipe"]["encoder"] == SMALL
    again = poisonproof("run", folder, "--encoder", SMALL, *OPTIONS, "--out", run)
    assert "going on with the run" in again.stderr
    poisonproof("predict", run, folder / "1", "--out", tmp_path / "ones.csv", "--n-jobs", 1)
    answers = [row["prediction"] for row in csv.DictReader((tmp_path / "ones.csv").open())]
    assert answers.count("1") > 0.9 * len(answers)


def test_verify_checks_weights_and_embeddings(made, monkeypatch):
    run, _ = made
    done = poisonproof("verify", run, "--retrain", 3, "--json")
    assert "premises that this checker does not know" not in done.stdout
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["encoder"]["outcome"] == "ok"
    assert "computed again, are as kept" in checks["encoder"]["words"]
    assert checks["retraining"]["outcome"] == "ok"
    network = packaged.NETWORKS["efficientnet-lite0"]
    monkeypatch.setitem(packaged.NETWORKS, "efficientnet-lite0", network._replace(digest="0" * 64))
    assert "NOT VERIFIED" in poisonproof("verify", run, code=3).stdout


def test_forged_embeddings_are_found(made, tmp_path):
    run = shutil.copytree(made[0], tmp_path / "run")
    rows = np.load(run / "models" / "members-features.npy")
    np.save(run / "models" / "members-features.npy", rows[::-1])
    assert "NOT VERIFIED" in poisonproof("verify", run, code=3).stdout


def test_removed_rows_lose_their_embeddings(folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folder, tmp_path / "shapes")
    poisonproof("run", tmp_path / "shapes", "--encoder", SMALL, *OPTIONS, "--out", run)
    data = library.open_files(tmp_path / "shapes", library.ReadOptions(classes=["0", "1", "2"]))
    encoder = recipe.encoder_of(SMALL)

    keys = sample_keys(encoder.read(data.train.X))
    assert EmbeddingCache.of(encoder.cache, encoder.identity).holds(keys).all()
    done = poisonproof("update", run, "--remove", "3,7", "--n-jobs", 1)
    assert "2 embeddings of removed rows were deleted from the cache" in done.stderr
    held = EmbeddingCache.of(encoder.cache, encoder.identity).holds(keys)
    assert np.flatnonzero(~held).tolist() == [3, 7]
    assert len(read_record(run / "manifest.json")["changes"]) == 1


def test_real_attacks_through_the_encoder(made):
    run, _ = made
    done = poisonproof("audit", run, "--targets", 2, "--kinds", "insert,flip,remove", "--json")
    assert json.loads(done.stdout)["violations"] == []


@pytest.mark.parametrize("words", [("ballots", "--near", 0.9), ("neighbours", "--n-neighbors", 15)], ids=lambda w: w[0])
def test_samples_vote_through_an_encoder(folder, tmp_path, words):
    run = tmp_path / "run"
    options = ("--encoder", SMALL, "--classes", "0,1,2", "--n-jobs", 1)
    poisonproof("run", folder, "--method", *words, *options, "--out", run)
    manifest = read_record(run / "manifest.json")
    (premise,) = [words for words in in_words(manifest) if words.startswith("encoder: ")]
    assert packaged.NETWORKS["efficientnet-lite0"].digest in premise
    assert premise in html.unescape((run / "report.html").read_text())
    assert manifest["clean_accuracy"] > 0.8
    encoder = recipe.encoder_of(SMALL)
    data = library.open_files(folder, library.ReadOptions(classes=["0", "1", "2"]))
    keys = sample_keys(encoder.read(data.train.X))
    cache = EmbeddingCache.of(encoder.cache, encoder.identity)
    assert cache.holds(keys).all()
    done = poisonproof("update", run, "--remove", "3,7", "--n-jobs", 1)
    assert "2 embeddings of removed rows were deleted from the cache" in done.stderr
    assert np.flatnonzero(~EmbeddingCache.of(encoder.cache, encoder.identity).holds(keys)).tolist() == [3, 7]
    encoder(data.train.X)  # what was removed is there again, for other tests


def test_images_without_a_learner_get_the_encoder_or_a_map_of_images(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(packaged, "USUAL_FOR_IMAGES", SMALL)
    done = poisonproof("run", folder, *OPTIONS, "--votes-only", "--out", tmp_path / "a")
    assert f"encoder: {SMALL}, ImageNet-1k, public; not covered by this proof; learner: head" in done.stderr
    assert read_record(tmp_path / "a" / "manifest.json")["recipe"]["encoder"] == SMALL
    assert "VERIFIED" in poisonproof("verify", tmp_path / "a", "--retrain", 2).stdout
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    from poisonproof.learners.presets import learner_for
    from poisonproof.samples.schema import ImageSchema

    assert recipe.encoder_for(ImageSchema(8, 8, colour=True), None, None) is None
    with refused("learner.colour-images"):
        learner_for(ImageSchema(8, 8, colour=True))
    assert learner_for(ImageSchema(8, 8, colour=False))[0] == "glyphs"
    assert recipe.encoder_for(None, None, None) is None
    assert recipe.encoder_for(ImageSchema(8, 8, colour=True), "none", None) is None


def served(run, data, words, monkeypatch):
    """What the server would answer about a folder: the command opens the run, and is not let listen."""
    opened = []
    monkeypatch.setattr("poisonproof.serving.app.serve", lambda kept, settings, ready: opened.append(kept))
    poisonproof("serve", run, *words)
    images = np.stack([np.asarray(Image.open(path)) for path in sorted(data.iterdir())])
    return [(row[0], str(row[1])) for row in opened[0].answers(images, Question()).rows()]


def test_evidence_hears_base_classifiers_behind_an_encoder(made, tmp_path, monkeypatch):
    """Named encoders are made again; one of the user's own is named again, by `attest` and `gate` as by `verify`."""
    run, _ = made
    poisonproof("attest", run, "--out", tmp_path / "named")
    bom = json.loads((tmp_path / "named" / "bom.cdx.json").read_text())
    part = next(part for part in bom["components"] if part["bom-ref"].startswith("encoder:"))
    assert part["hashes"][0]["content"] == packaged.NETWORKS["efficientnet-lite0"].digest
    assert part["licenses"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours.py").write_text(FUNCTION)
    own = ("--encoder", "ours:colours")
    poisonproof("run", "digits", *own, "--k", 3, "--d", 1, "--no-undefended", "--out", "run")
    done = poisonproof("gate", "run", "--clean", 0, "--require-verified", "--json", code=6)
    assert json.loads(done.stdout)["verdict"] == "CONSISTENT"
    gate = ("gate", "run", "--clean", 0, "--require-verified", "--max-drop-from", "run", 0, "--json")
    assert json.loads(poisonproof(*gate, *own).stdout)["verdict"] == "VERIFIED"
    done = poisonproof("attest", "run", *own, "--json")
    assert json.loads(done.stdout)["verdict"] == "VERIFIED"
    done = poisonproof("gate", "run", "--clean", 0, "--encoder", "ours:shapes", code=2)
    assert "was made with the encoder 'ours:colours', not 'ours:shapes'" in " ".join(done.stderr.split())


def test_texts_files_and_functions(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTION)
    network(tmp_path / "small.onnx")
    (tmp_path / "small.json").write_text('{"size": [16, 16], "trained_on": "noise"}')
    data = library.open_files(folder, library.ReadOptions(classes=["0", "1", "2"]))
    X = np.concatenate([data.train.X, data.test.X])
    vectors = X.reshape(len(X), -1)[:, ::5].astype(float)
    library.write_embeddings("gpu.npz", X, vectors, name="a large model", trained_on="the web, public")
    for name in ("small.onnx", "gpu.npz", "mine:colours"):
        run = tmp_path / name.replace(":", "-")
        run = run.with_name(f"{run.name}-run")
        poisonproof("run", folder, "--encoder", name, "--learner", "table", *OPTIONS, "--out", run)
        assert any(words.startswith("encoder: ") for words in in_words(read_record(run / "manifest.json")))
        own = ("--encoder", name)
        again = own if ":" in name else ()
        assert "VERIFIED" in poisonproof("verify", run, "--retrain", 1, *own).stdout
        assert f"say so again: --encoder {name}" in poisonproof("update", run, "--remove", "1", code=2).stderr
        poisonproof("predict", run, folder / "1", "--out", f"{run}.csv", "--n-jobs", 1, *again)
        lines = Path(f"{run}.csv").read_text().splitlines()
        answers = [(row["prediction"], row["radius"]) for row in csv.DictReader(lines)]
        assert {radius for _, radius in answers} != {"0"}
        assert served(run, folder / "1", again, monkeypatch) == answers
        poisonproof("update", run, "--remove", "1", "--n-jobs", 1, *own)
    (tmp_path / "moved").mkdir()
    for name in ("small.onnx", "small.json", "gpu.npz"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    for name in ("small.onnx", "gpu.npz"):
        run = tmp_path / f"{name}-run"
        assert "VERIFIED" in poisonproof("verify", run, "--retrain", 1, "--encoder", f"moved/{name}").stdout
    run = tmp_path / "mine-colours-run"
    for words in (("update", run, "--remove", "2"), ("predict", run, folder / "1"), ("serve", run, "--port", 0)):
        assert "say so again: --encoder mine:colours" in poisonproof(*words, code=2).stderr
    said = poisonproof("predict", tmp_path / "gpu.npz-run", folder / "1", "--encoder", "mine:colours", code=2).stderr
    assert "not 'mine:colours'" in said
    (tmp_path / "mine.py").write_text(FUNCTION.replace("+ 1", "+ 2"))
    importlib.reload(sys.modules["mine"])
    for words in (("predict", run, folder / "1"), ("serve", run, "--port", 0)):
        said = poisonproof(*words, "--encoder", "mine:colours", code=2).stderr
        assert "nothing that was certified holds for it" in " ".join(said.split())
    both = ("the bank has no stock", "the ball was a late goal")
    texts = "".join(f"{both[at % 2]} at {at},{at % 2}\n" for at in range(60))
    (tmp_path / "texts.csv").write_text("text,y\n" + texts)
    words = ("--label", "y", "--classes", "0,1", "--encoder", "wordllama", "--k", 3, "--n-jobs", 1)
    poisonproof("run", tmp_path / "texts.csv", *words, "--out", tmp_path / "texts-run")
    assert read_record(tmp_path / "texts-run" / "manifest.json")["clean_accuracy"] > 0.9


def test_embeddings_of_a_function_are_kept_where_it_states_what_it_is(tmp_path, monkeypatch):
    """What it calls is not in its digest: another helper would be given the embeddings of the old one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POISONPROOF_CACHE", str(tmp_path / "cache"))
    (tmp_path / "helped.py").write_text(
        "import numpy as np\nfrom poisonproof.encoders.base import EncoderRecord\n"
        "def helper(X):\n    return np.asarray(X, float).reshape(len(X), -1)\n"
        "def alone(X):\n    return helper(X)\n"
        "def stated(X):\n    return helper(X)\n"
        "stated.record = EncoderRecord('mine', '3', 'me', 'mine', 'of version 3', 'none', 'nothing', 'anything')\n"
    )
    assert recipe.encoder_of("helped:alone").cache is None
    assert recipe.encoder_of("helped:stated").cache == str(tmp_path / "cache" / "embeddings")


@pytest.mark.parametrize("method", [("--learner", "table"), ("--method", "neighbours", "--n-neighbors", 5)])
def test_no_file_is_opened_because_a_strangers_run_names_it(folder, tmp_path, monkeypatch, method):
    """`verify` and `update` open what the auditor names, and nothing else that a manifest or a model may name."""
    monkeypatch.chdir(tmp_path)
    data = library.open_files(folder, library.ReadOptions(classes=["0", "1", "2"]))
    X = np.concatenate([data.train.X, data.test.X])
    library.write_embeddings("gpu.npz", X, X.reshape(len(X), -1)[:, ::5], name="large", trained_on="the web")
    options = OPTIONS if method[0] == "--learner" else OPTIONS[4:]
    poisonproof("run", folder, "--encoder", "gpu.npz", *method, *options, "--out", "run")
    again = ("--retrain", 1) if method[0] == "--learner" else ()
    embeddings._tables.clear()
    opened = []
    monkeypatch.setattr(embeddings, "open_arrays", lambda path, names: opened.append(path) or 1 / 0)
    done = poisonproof("verify", "run", *again, code=5)
    assert "and nothing is opened because a run says so" in " ".join(done.stderr.split())
    assert "say so again: --encoder gpu.npz" in poisonproof("update", "run", "--remove", "1", code=2).stderr
    manifest = Manifest.read(Path("run"))
    manifest.but(recipe={**manifest.recipe, "encoder": "wordllama"}).write(Path("run"))
    poisonproof("update", "run", "--remove", "1", code=2)
    poisonproof("verify", "run", *again, code=3)
    assert opened == []


def test_plan_and_compare_take_an_encoder(folder, tmp_path):
    common = ("--encoder", SMALL, "--classes", "0,1,2", "--n-jobs", 1)
    done = poisonproof("compare", folder, *common, "--k", 3, "--classifiers", 6, "--rows", "dpa,finite", "--json")
    assert json.loads(done.stdout)
    words = ("--attack-size", 1, "--k", "3,4", "--d", "1", "--out", tmp_path / "p.json")
    done = poisonproof("plan", folder, *common, *words)
    assert f"--encoder {SMALL}" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--encoder", "resnet"), "There is no encoder 'resnet'"),
        (("--encoder", "nowhere.onnx"), "There is no ONNX file"),
        (("--encoder", "wordllama"), "takes texts, and these samples are images"),
        (("--encoder", SMALL, "--learner", "glyphs"), "has a feature map of its own"),
        (("--encoder", SMALL, "--learner", "text"), "behind --encoder"),
        (("--learner", "head"), "say which with --encoder"),
        (("--encoder", "nothing:here"), "its module 'nothing' does not import"),
        (("--encoder", SMALL, "--method", "ballots", "--near", 1, "--features", "glyphs"), "leave --features and"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(folder, tmp_path, words, sentence):
    options = ("--classes", "0,1,2", "--out", tmp_path / "run")
    assert sentence in " ".join(poisonproof("run", folder, *words, *options, code=2).stderr.split())


def test_a_missing_extra_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    said = poisonproof("run", folder, "--encoder", SMALL, *OPTIONS, "--out", tmp_path / "run", code=2).stderr
    assert "pip install '.[encoders]'" in said
