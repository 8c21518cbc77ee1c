"""Texts behind a public encoder: every frozen configuration on the held-out fifth of a set, once.

    python -m research.frontier.texts.py --texts DIR

DIR holds ag_news.csv.gz and reviews.csv.gz. Configurations are in benchmarks/frontier/encoders.json, results go to
benchmarks/frontier/results.json, both with the track "public encoder". The constants are those of the preset `head`
and round numbers of neighbours: none was chosen on these texts. The fifth that is held out is the one that
`poisonproof run` holds out, by content. Embeddings are kept in `--cache`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import poisonproof
from poisonproof import FiniteAggregationClassifier, NeighborVoteClassifier
from poisonproof.data.dataset import held_out
from poisonproof.encoders.base import Encoder
from research.frontier.maps import Shape
from research.frontier.measure import Measured, Row, key_of, read_results, result_of, words, write_results
from research.maps.named import encoder as named_encoder

FOLDER = Path(__file__).parent
FILES = {"ag_news": "ag_news.csv.gz", "reviews": "reviews.csv.gz"}


def texts_of(path: Path) -> tuple[NDArray[np.object_], NDArray[Any]]:
    """The column "text" of a file and its labels."""
    roles = {"label": "label", "text": "text"} | ({"title": "ignore"} if path.name.startswith("ag") else {})
    rows = poisonproof.read(path, schema=roles)
    return np.array(list(rows.X), object), np.asarray(rows.y)


def main() -> None:
    """Measure what has no result yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/poisonproof-embeddings"))
    parser.add_argument("--configurations", type=Path, default=FOLDER / "encoders.json")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json")
    options = parser.parse_args()
    configurations = json.loads(options.configurations.read_text("utf-8"))
    for dataset, file in FILES.items():
        X, y = texts_of(options.texts / file)
        out = held_out(list(X), 0.2)
        for row in (row for row in configurations["rows"] if row["dataset"] == dataset):
            if key_of(row) not in {key_of(done) for done in read_results(options.results)["rows"]}:
                result = measured(row, Shape(name=row["map"], **configurations["maps"][row["map"]]), X, y, out, options)
                print(words(result), flush=True)
                write_results([*read_results(options.results)["rows"], result], options.results)


def measured(row: Row, shape: Shape, X: Any, y: Any, out: Any, options: argparse.Namespace) -> Row:
    """One row: fitted on the other four fifths, certified on the fifth that is held out."""
    started = time.process_time()
    encoder = named_encoder(shape.features).cached(options.cache)
    classes, codes = np.unique(y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(row, encoder, classes.tolist())
        certificate = model.fit(list(X[~out]), y[~out]).certify(list(X[out]))
    found = Measured(certificate.prediction.astype(np.int64), certificate.radius.astype(np.int64))
    result = result_of(row, shape, found, codes[out], codes[~out], len(classes))
    if row["method"] == "base classifiers vote":
        result |= {"family": "ensemble", "n_voters": model.spread_.n_subsets}
    cost = {"cpu_seconds": round(time.process_time() - started, 1)}
    return result | {"encoder": encoder.record.as_dict(), "map_digest": "", "cost": cost}


def model_of(row: Row, encoder: Encoder, classes: list[Any]) -> Any:
    """The classifier of a row, not yet fitted."""
    settings = row["parameters"]
    if row["method"] == "neighbours":
        return NeighborVoteClassifier(encoder, n_neighbors=settings["n_neighbors"], classes=classes)
    return FiniteAggregationClassifier(k=settings["k"], d=settings["d"], classes=classes, encoder=encoder)


if __name__ == "__main__":
    main()
