"""The frontier behind a public encoder: every frozen configuration on a whole test set, once.

    python -m research.frontier.encoders.py --data-dir DIR --held-out cifar10 gtsrb   # on training images held out
    python -m research.frontier.encoders.py --data-dir DIR cifar10 gtsrb mnist        # on the test sets

Configurations are in benchmarks/frontier/encoders.json and were committed before the second command was run. Results
go to benchmarks/frontier/results.json with a track of their own: pre-training is what makes the difference, so they
are never put into one table with rows that learn from the training set alone. Embeddings are kept in `--cache`, as
the library keeps them, and what our own map beside an encoder says in `--features`. Parts, distances and certificates
of samples that vote are those of benchmarks/frontier.py; base classifiers are the library's, the preset `head`.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof import FiniteAggregationClassifier
from poisonproof.core.split import Split
from poisonproof.encoders.base import Encoder
from research.frontier.maps import Shape, described
from research.frontier.measure import (
    Measured,
    Part,
    Row,
    in_order,
    key_of,
    of_all,
    parts_of,
    read_results,
    result_of,
    votes,
    words,
    write_results,
)
from research.maps.joined import JoinedEncoder, side_by_side
from research.maps.named import encoder as named_encoder
from research.maps.whitening import Whitening

FOLDER = Path(__file__).parent
AT_ONCE = 4096
BASE_CLASSIFIERS = "base classifiers vote"


@dataclass(frozen=True)
class EncoderShape(Shape):
    """A map that begins with an encoder; ``features`` is its name."""

    @property
    def length(self) -> float:
        """What counts as length 1."""
        return 1024.0 if self.whitened_by else 2048.0


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", choices=("mnist", "cifar10", "gtsrb"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/poisonproof-embeddings"))
    parser.add_argument("--features", type=Path, default=Path("/tmp/poisonproof-frontier"))
    parser.add_argument("--held-out", action="store_true", help="training images held out instead of the test set")
    parser.add_argument("--only", default="", help="maps whose name contains this")
    parser.add_argument("--limit", type=int, default=0, help="so many held-out images")
    parser.add_argument("--configurations", type=Path, default=FOLDER / "encoders.json")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json")
    options = parser.parse_args()
    options.features.mkdir(parents=True, exist_ok=True)
    configurations = json.loads(options.configurations.read_text("utf-8"))
    for name in options.datasets:
        rows = [row for row in configurations["rows"] if row["dataset"] == name and options.only in row["map"]]
        parts = parts_of(name, options)
        for chosen in dict.fromkeys(row["map"] for row in rows):
            shape = EncoderShape(name=chosen, **configurations["maps"][chosen])
            done = set() if options.held_out else {key_of(row) for row in read_results(options.results)["rows"]}
            own = [row for row in rows if row["map"] == chosen and key_of(row) not in done]
            voting = [row for row in own if row["method"] != BASE_CLASSIFIERS]
            if voting:
                measure(shape, voting, parts, options)
            for row in own:
                if row["method"] == BASE_CLASSIFIERS:
                    measure_ensemble(shape, row, parts, options)


def measure_ensemble(shape: EncoderShape, row: Row, parts: dict[str, Any], options: argparse.Namespace) -> None:
    """One ensemble of heads: the library's own classifier, from the images on, its embeddings read from the cache."""
    data, asked, started = parts["data"], parts["asked"], time.process_time()
    encoder = named_encoder(shape.features).cached(options.cache)
    images = (data.train.X if asked.of == "train" else data.test.X)[asked.rows]
    for some in (data.train.X[parts["all"]], images):
        encoder(some)
    embedding, n_classes = time.process_time() - started, len(data.classes)
    settings = {name: row["parameters"][name] for name in ("k", "d")}
    model = FiniteAggregationClassifier(
        **settings, classes=range(n_classes), split=Split(dtype="uint8"), encoder=encoder
    )
    labels = data.train.labels[parts["all"]]
    model.fit(data.train.X[parts["all"]], labels)
    fitting = time.process_time() - started - embedding
    certificate = model.certify(images)
    found = Measured(certificate.prediction.astype(np.int64), certificate.radius.astype(np.int64))
    result = result_of(row, shape, found, parts["truth"], labels, n_classes)
    result |= {
        "family": "ensemble",
        "n_voters": model.spread_.n_subsets,
        "encoder": encoder.record.as_dict(),
        "map_digest": "",
        "cost": {
            "cpu_seconds": round(time.process_time() - started, 1),
            "of_which_embeddings": round(embedding, 1),
            "of_which_fitting": round(fitting, 1),
        },
    }
    print(words(result), result["cost"], flush=True)
    if not options.held_out:
        write_results([*read_results(options.results)["rows"], result], options.results)


def measure(shape: EncoderShape, rows: list[Row], parts: dict[str, Any], options: argparse.Namespace) -> None:
    """All rows of one map."""
    data, started = parts["data"], time.process_time()
    encoder = named_encoder(shape.features).cached(options.cache)
    trusted = shape.whitened_by == "trusted"
    voters = np.setdiff1d(parts["all"], parts["aside"]) if trusted else parts["all"]
    labels = data.train.labels[voters]
    order = np.lexsort((labels, Split("content").samples(data.train.X[voters]).content_hashes))
    voters, labels = voters[order], labels[order]
    base = embedded(encoder, data, Part("train", voters), options)
    asked = embedded(encoder, data, parts["asked"], options)
    encoding, digest = time.process_time() - started, ""
    if shape.whitened_by:
        shaping = embedded(encoder, data, Part("train", parts["shaping"]), options) if trusted else of_all(base)
        whitening = Whitening.of(in_order(shaping), shape.directions, shape.exponent)
        base, asked, digest = whitening(base), whitening(asked), whitening.digest
    totals = np.bincount(labels, minlength=len(data.classes))
    found = votes(shape, rows, base, asked[:, None], labels, totals)
    for row, measured in zip(rows, found, strict=True):
        result = result_of(row, shape, measured, parts["truth"], labels, len(data.classes))
        result |= {
            "encoder": encoder.record.as_dict(),
            "map_digest": digest,
            "cost": {
                "cpu_seconds": round(time.process_time() - started, 1),
                "of_which_embeddings": round(encoding, 1),
                "rows_that_share_it": len(rows),
            },
        }
        print(words(result), flush=True)
        if not options.held_out:
            write_results([*read_results(options.results)["rows"], result], options.results)


def embedded(encoder: Encoder, data: Any, part: Part, options: argparse.Namespace) -> NDArray[np.int16]:
    """Embeddings (n, width) of a part; what a map beside the encoder says is kept as benchmarks/frontier.py does."""
    if isinstance(encoder, JoinedEncoder):
        own = embedded(encoder.encoder.cached(options.cache), data, part, options)
        shape = Shape(name=encoder.beside, features=encoder.beside)
        assert not shape.mirror_minimum, "halves of mirrored maps are summed in the library only"
        other = described(data.name, data, shape, part, options.features)[:, 0]
        return side_by_side(own, other, encoder.factor, encoder.record.length)
    images = data.train.X if part.of == "train" else data.test.X
    pieces = [encoder(images[part.rows[at : at + AT_ONCE]])[:, 0] for at in range(0, len(part.rows), AT_ONCE)]
    return np.concatenate(pieces)


if __name__ == "__main__":
    main()
