"""Models of other libraries that lie in a folder on disk: sentence-transformers, transformers and timm.

The library that made a folder opens it, without asking a hub and without running code that the folder brings: weights
must be safetensors, and a folder that names modules of its own is refused. A model is run on one sample at a time, on
one thread of the processor, so no company changes an embedding.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import DamagedFileError, PoisonproofError, missing_extra
from poisonproof.maps.encoders import Encoder, EncoderRecord, UnreadableSampleError
from poisonproof.maps.image_encoders import Picture, images_of
from poisonproof.maps.text_encoders import texts_of
from poisonproof.system.archives import read_whole
from poisonproof.system.environment import processor
from poisonproof.system.files import reading, sha256_of
from poisonproof.system.torch_settings import settled

SENTENCES, TRANSFORMERS, TIMM = "sentence-transformers", "transformers", "timm"
MODULES = {SENTENCES: "sentence_transformers", TRANSFORMERS: "transformers", TIMM: "timm"}
# What the libraries do not open. The digest covers everything else: tokenizers come in files of many names.
NOT_READ = (".md", ".py", ".bin", ".onnx", ".h5", ".msgpack", ".ot", ".pb", ".xml", ".gguf", ".png", ".jpg", ".pdf")
NAMES_OF_CLASSES = ("types", "activation_function", "tokenizer_class")
OF_LIBRARIES = ("sentence_transformers.", "torch.nn.")
EXTRAS = {SENTENCES: "model-folders", TRANSFORMERS: "model-folders", TIMM: "timm"}
LONGEST = 512  # tokens, where neither the tokenizer nor the model states fewer
_lock = threading.Lock()
_models: dict[str, Callable[[Any], Any]] = {}


@dataclass(frozen=True)
class FolderEncoder(Encoder):
    """A model in a folder, run by the library that made it.

    Parameters
    ----------
    record, place, cache
        As in `Encoder`. The place is the folder; its digest is that of the names and contents of what is read there.
    library : "sentence-transformers", "transformers" or "timm"
    picture : Picture, optional
        How pictures enter; None where the model takes texts.
    """

    library: str = SENTENCES
    picture: Picture | None = None

    @property
    def spec(self) -> str:
        """Its folder."""
        return self.place

    def read(self, X: Any) -> Sequence[Any]:
        """Texts or pictures."""
        return texts_of(X, self.record.name) if self.picture is None else images_of(X, self.record.name)

    def embed(self, sample: Any) -> NDArray[Any]:
        """What the model says; of several places in a text or a picture, their mean."""
        model = self._model()
        try:
            with settled(0, "cpu") as torch, torch.inference_mode():
                entered = sample if self.picture is None else torch.from_numpy(self.picture.of(sample))
                return np.asarray(_mean_of_places(model(entered)))
        except (PoisonproofError, MemoryError, OSError, ImportError):  # through no fault of the sample
            raise
        except Exception as error:  # a text without tokens, for one: it must not stop the others
            raise UnreadableSampleError(
                f"The model in {self.place} raised on a sample ({type(error).__name__}: {error})."
            ) from error

    def probe(self) -> Any:
        """A word, or a grey picture."""
        return "word" if self.picture is None else np.full((8, 8, 3), 127, np.uint8)

    def runtime(self) -> str:
        """The library, PyTorch and the processor."""
        self._model()
        return f"{self.library} {version(self.library)} torch {version('torch')} {processor()}"

    def _model(self) -> Callable[[Any], Any]:
        with _lock:
            if self.record.weights not in _models:
                actual = folder_digest(Path(self.place))
                if actual != self.record.weights:
                    raise PoisonproofError(
                        f"The model in {self.place} has the SHA-256 {actual}, and the record of the encoder says "
                        f"{self.record.weights}; it is another, so nothing that was certified holds for it."
                    )
                with settled(0, "cpu"):
                    _models[self.record.weights] = _opened(self)
            return _models[self.record.weights]


def folder_encoder(folder: str | Path) -> FolderEncoder:
    """The model that sentence-transformers, transformers or timm saved in a folder."""
    place = Path(folder).absolute()
    library = _library_of(place)
    _check_safe(place, library)
    if find_spec(MODULES[library]) is None or find_spec("torch") is None:
        missing = "torch" if find_spec("torch") is None else library
        raise missing_extra(f"The model in {place}", missing, EXTRAS[library])
    picture = _picture(place, library)
    preprocessing = "its own tokenizer, one text at a time" if picture is None else str(picture)
    record = EncoderRecord(
        name=place.name,
        version="unknown",
        source=f"a folder that {library} saved",
        licence="see its card",
        weights=folder_digest(place),
        preprocessing=preprocessing,
        trained_on="what its card says; not covered by this proof",
        takes="texts" if picture is None else "images",
    )
    return FolderEncoder(record, str(place), library=library, picture=picture)


def folder_digest(folder: Path) -> str:
    """SHA-256 of the names and contents of all files that may be read."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and _is_read(path.relative_to(folder))):
        digest.update(f"{path.relative_to(folder).as_posix()} {sha256_of(path.resolve())}\n".encode())
    return digest.hexdigest()


def _is_read(name: Path) -> bool:
    return name.suffix.lower() not in NOT_READ and not any(part.startswith(".") for part in name.parts)


def _library_of(folder: Path) -> str:
    if (folder / "modules.json").is_file():
        return SENTENCES
    config = _json(folder / "config.json") if (folder / "config.json").is_file() else {}
    if "architecture" in config:
        return TIMM
    if "model_type" in config:
        return TRANSFORMERS
    raise PoisonproofError(
        f"{folder} holds no model that sentence-transformers, transformers or timm saved: no modules.json, and no "
        "config.json with 'model_type' or 'architecture'."
    )


def _check_safe(folder: Path, library: str) -> None:
    """Refuse what could run code when it is opened, and what lies elsewhere, where the digest does not reach."""
    for path in folder.rglob("*"):
        if path.is_symlink() and path.is_dir():
            raise PoisonproofError(f"{path} is a link to another folder; copy that folder to where the link is.")
        pickled = path.name in ("pytorch_model.bin", "model.bin") and not (path.parent / "model.safetensors").is_file()
        if pickled:
            raise PoisonproofError(
                f"The weights in {path} are a pickle, which runs code when it is opened; save the model again as "
                "safetensors."
            )
    if not any(folder.rglob("*.safetensors")):
        raise PoisonproofError(f"{folder} holds no weights; a model is saved there as safetensors.")
    if library == SENTENCES:
        with reading(folder / "modules.json", "is no list of modules"):
            modules = [
                (str(one.get("type", "")), str(one.get("path", ""))) for one in _json(folder / "modules.json", list)
            ]
        kinds = [kind for kind, _ in modules if not kind.startswith("sentence_transformers.")]
        if foreign := [*kinds, *_classes_named(folder)]:
            raise PoisonproofError(
                f"{folder} asks for the module '{foreign[0]}', which is not one of sentence-transformers; code that a "
                "folder brings is not run."
            )
        for _, place in modules:
            if not (folder / place).resolve().is_relative_to(folder.resolve()):
                raise PoisonproofError(f"{folder} asks for a module in '{place}', outside of the folder.")


def _classes_named(folder: Path) -> list[str]:
    """Classes of strangers that modules inside modules ask for: some versions of the library import what is named."""
    named: list[str] = []
    for path in sorted(folder.rglob("*config*.json")):
        stated = _json(path, object)
        for value in (stated.get(name) for name in NAMES_OF_CLASSES) if isinstance(stated, dict) else ():
            named += map(str, value.values() if isinstance(value, dict) else [value] if isinstance(value, str) else [])
    return [name for name in named if "." in name and not name.startswith(OF_LIBRARIES)]


def _picture(folder: Path, library: str) -> Picture | None:
    """How pictures enter, by what the model's makers declared; None for a model of texts."""
    if library == TIMM:
        stated = _json(folder / "config.json").get("pretrained_cfg", {})
        with reading(folder / "config.json", "declares no input_size, mean and std"):
            _, height, width = stated["input_size"]
            return Picture(int(height), int(width), _levels(stated["mean"]), _levels(stated["std"]))
    path = folder / "preprocessor_config.json"
    if library == SENTENCES or not path.is_file():
        return None
    with reading(path, "declares no size, image_mean and image_std"):
        stated = _json(path)
        size = stated["size"] if isinstance(stated["size"], dict) else {"shortest_edge": stated["size"]}
        height = size["height"] if "height" in size else size["shortest_edge"]
        levels = (_levels(stated["image_mean"]), _levels(stated["image_std"]))
        return Picture(int(height), int(size.get("width", height)), *levels)


def _levels(shares: Sequence[float]) -> tuple[float, float, float]:
    red, green, blue = (255.0 * float(share) for share in shares)
    return red, green, blue


def _json(path: Path, kind: type = dict) -> Any:
    with reading(path, "is no JSON"):
        value = json.loads(read_whole(path))
    if not isinstance(value, kind):
        raise DamagedFileError(f"{path} holds no JSON {'list' if kind is list else 'object'}.")
    return value


def _opened(encoder: FolderEncoder) -> Callable[[Any], Any]:
    """A function from what enters to what the model says, as a tensor."""
    try:
        if encoder.library == SENTENCES:
            return _sentences(encoder.place)
        if encoder.library == TIMM:
            return _timm(encoder.place)
        return _transformers(encoder.place, texts=encoder.picture is None)
    except (PoisonproofError, MemoryError):
        raise
    except Exception as error:
        raise PoisonproofError(
            f"{encoder.library} cannot open the model in {encoder.place} ({type(error).__name__}: {error})."
        ) from error


def _sentences(place: str) -> Callable[[Any], Any]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        place, device="cpu", local_files_only=True, trust_remote_code=False, model_kwargs={"use_safetensors": True}
    ).eval()
    return lambda text: model.encode([text], convert_to_tensor=True, show_progress_bar=False)


def _timm(place: str) -> Callable[[Any], Any]:
    import timm

    return timm.create_model(f"local-dir:{place}", pretrained=True, num_classes=0).eval()


def _transformers(place: str, texts: bool) -> Callable[[Any], Any]:
    from transformers import AutoModel, AutoTokenizer

    local = {"local_files_only": True, "trust_remote_code": False}
    model = AutoModel.from_pretrained(place, use_safetensors=True, **local).eval()
    if not texts:
        return lambda entered: model(pixel_values=entered).last_hidden_state
    tokenizer = AutoTokenizer.from_pretrained(place, **local)
    stated = getattr(model.config, "max_position_embeddings", LONGEST) or LONGEST
    longest = min(tokenizer.model_max_length, stated)

    def read(text: str) -> Any:
        tokens = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
        return model(**tokens).last_hidden_state

    return read


def _mean_of_places(answer: Any) -> Any:
    """One row of numbers: (1, width) as it is, the mean over tokens of (1, n, width), over places of (1, c, h, w)."""
    if answer.ndim == 3:
        answer = answer.mean(dim=1)
    elif answer.ndim == 4:
        answer = answer.mean(dim=(2, 3))
    return answer.float().numpy().reshape(-1)
