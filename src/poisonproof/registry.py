"""What can be had by name: one line for each reader, learner, certificate method, family of voters and command.

A line names an object as ``"module:object"``, and its module is imported when somebody asks for it. So no package
imports a slice (ballots, encoders, stochastic, serving, evidence): delete a slice's folder and its lines, and the rest
works.

From outside the package, `add` adds a line for this process. There are no entry points: nothing is imported because it
is installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from poisonproof.errors import PoisonproofError

LINES: dict[str, dict[str, str | tuple[str, str] | Any]] = {
    # Commands, with their line of `--help`.
    "commands": {
        "plan": ("poisonproof.cli.plan:plan", "Try on the training data what to choose for an attack size."),
        "run": ("poisonproof.cli.run:run", "Split, train, vote and certify; write a folder with report.html."),
        "predict": ("poisonproof.cli.predict:predict", "Answer new samples by a run, each with its radius."),
        "serve": ("poisonproof.cli.predict:serve", "Answer over HTTP."),
        "audit": ("poisonproof.cli.verify:audit", "Attack a run for real, and retrain what the attacks reach."),
        "update": ("poisonproof.cli.run:update", "Train again only what changed rows reach."),
        "verify": ("poisonproof.cli.verify:verify", "Check a run or a certificate without the code that made it."),
        "attest": ("poisonproof.cli.verify:attest", "Write signed evidence of a run for others."),
        "gate": ("poisonproof.cli.verify:gate", "Pass or fail a run in a pipeline."),
        "certify": ("poisonproof.cli.certify:certify", "Radii for votes that were made elsewhere."),
        "compare": ("poisonproof.cli.plan:compare", "One table of what each method certifies on your data."),
        "split": ("poisonproof.cli.certify:split", "The subsets to train base classifiers of your own on."),
        "example": ("poisonproof.cli.tools:example", "Write a small real data set to try the commands on."),
        "doctor": ("poisonproof.cli.tools:doctor", "What this machine offers, and what to type for the rest."),
    },
    # Pilots of planning beside that of base classifiers.
    "pilots": {
        "samples": "poisonproof.ballots.pilot:pilot",
    },
    # Kinds of rows in a comparison, in the order in which they stand.
    "comparisons": {
        "ensembles": "poisonproof.planning.compare:Ensembles",
        "draws": "poisonproof.stochastic.comparison:DrawnRows",
        "samples": "poisonproof.ballots.pilot:SampleRows",
    },
    # How base classifiers are trained, asked and saved.
    "engines": {
        "members": "poisonproof.training.members:MemberEngine",
        "pooled": "poisonproof.training.pooled:PooledEngine",
    },
    # Data sets by name, made from the folder that holds data files.
    "datasets": {"digits": "poisonproof.data.reading:digits"},
    # What reads a file, by the ending of its name.
    "readers": {
        ".csv": "poisonproof.data.csv:CsvTable",
        ".csv.gz": "poisonproof.data.csv:CsvTable",
        ".tsv": "poisonproof.data.csv:CsvTable",
        ".tsv.gz": "poisonproof.data.csv:CsvTable",
        ".parquet": "poisonproof.data.arrow_files:ParquetTable",
        ".npz": "poisonproof.data.arrays:NpzReader",
        ".svm": "poisonproof.data.arrays:SvmlightReader",
        ".svmlight": "poisonproof.data.arrays:SvmlightReader",
        ".libsvm": "poisonproof.data.arrays:SvmlightReader",
    },
    # What makes radii of votes of base classifiers, by the method of a certificate.
    "certificates": {
        "finite-aggregation": "poisonproof.core.certify:finite_aggregation",
        "dpa-bound": "poisonproof.core.certify:dpa_bound",
        "tight": "poisonproof.core.certify:tight",
        "run-off": "poisonproof.core.certify:run_off",
    },
    # What samples or base classifiers said, by the format that their file states.
    "tallies": {
        "poisonproof ballots 2": "poisonproof.ballots.tallies:Ballots",
        "poisonproof neighbours 2": "poisonproof.ballots.tallies:Neighbours",
    },
    # What makes a learner without arguments; `auto` and `text` are given the columns that hold texts.
    "learners": {
        "table": "poisonproof.learners.table:TableClassifier",
        "text": "poisonproof.learners.text:TextClassifier",
        "auto": "poisonproof.learners.auto:AutoClassifier",
        "forest": "poisonproof.learners.trees:TreesClassifier",
        "boosting": "poisonproof.learners.trees:boosting",
        "bayes": "poisonproof.learners.text:BayesTextClassifier",
        "ridge": "poisonproof.learners.text:RidgeTextClassifier",
        "glyphs": "poisonproof.learners.kernel_ridge:glyphs",
        "head": "poisonproof.learners.kernel_ridge:head",
    },
    # What makes an encoder from its full name, such as "efficientnet-lite0@160", or from the file with that ending.
    "encoders": {
        "efficientnet-lite0": "poisonproof.encoders.packaged:efficientnet",
        "efficientnet-lite1": "poisonproof.encoders.packaged:efficientnet",
        "efficientnet-lite2": "poisonproof.encoders.packaged:efficientnet",
        "wordllama": "poisonproof.encoders.packaged:wordllama",
        ".onnx": "poisonproof.encoders.onnx:onnx_encoder",
        ".npz": "poisonproof.encoders.embeddings:open_embeddings",
    },
    # What gives the name of the encoder that a kind of data gets if nobody names one, or None if it is not installed.
    "usual encoders": {
        "images": "poisonproof.encoders.packaged:usual_for_images",
    },
    # What the rest asks of the slice of encoders: one from what the user gave, and a learner with one in front of it.
    "encoding": {
        "encoder": "poisonproof.encoders.base:encoder",
        "in front": "poisonproof.encoders.encoded:in_front",
    },
    # Types of ours that a file of skops may hold: each takes what it is given as data.
    "types": {
        name.partition(":")[2]: name
        for name in (
            "poisonproof.learners.table:TableClassifier",
            "poisonproof.learners.text:TextClassifier",
            "poisonproof.learners.text:BayesTextClassifier",
            "poisonproof.learners.text:RidgeTextClassifier",
            "poisonproof.learners.trees:TreesClassifier",
            "poisonproof.learners.trees:Trees",
            "poisonproof.learners.auto:AutoClassifier",
            "poisonproof.learners.kernel_ridge:KernelRidgeClassifier",
            "poisonproof.learners.network:TorchClassifier",
            "poisonproof.learners.feature_maps:VectorFeatures",
            "poisonproof.learners.feature_maps:GlyphFeatures",
            "poisonproof.ballots.maps:HashedFeatures",
            "poisonproof.ballots.maps:CategoryColumn",
            "poisonproof.ballots.maps:NumberColumn",
            "poisonproof.ballots.maps:TableFeatures",
            "poisonproof.encoders.encoded:EncodedClassifier",
            "poisonproof.encoders.base:EncoderRecord",
            "poisonproof.encoders.onnx:ImageEncoder",
            "poisonproof.encoders.onnx:ImageInput",
            "poisonproof.encoders.packaged:EfficientNet",
            "poisonproof.encoders.packaged:TokenSumEncoder",
            "poisonproof.encoders.embeddings:EmbeddingTable",
        )
    },
    # Options of a slice that commands take.
    "options": {
        "voters": "poisonproof.ballots.options:VoterOptions",
    },
    # Who votes in a run, by what --method calls it (`poisonproof.runs.election`).
    "elections": {
        "ensemble": "poisonproof.runs.election:EnsembleElection",
        "ballots": "poisonproof.ballots.election:BallotElection",
        "neighbours": "poisonproof.ballots.election:NeighborElection",
    },
    # What carries out an audit, by the name of the class of what is attacked.
    "audits": {
        "FiniteAggregationClassifier": "poisonproof.auditing.audit:EnsembleAudit",
        "BallotClassifier": "poisonproof.ballots.attacks:SampleAudit",
        "NeighborVoteClassifier": "poisonproof.ballots.attacks:SampleAudit",
    },
    # Who checks a run in which somebody else than base classifiers votes, by the method that it states.
    "verifiers": {
        "ballots": "poisonproof.ballots.verify:SampleChecks",
        "neighbours": "poisonproof.ballots.verify:SampleChecks",
    },
}


def add(kind: str, name: str, what: str | tuple[str, str] | Any) -> None:
    """Add a line: ``what`` is an object, or where it is found, ``"module:object"``; a command has its help besides."""
    if kind not in LINES:
        raise PoisonproofError(
            f"There is no registry of {kind!r}; there are {', '.join(sorted(LINES))}.", code="registry.kind"
        )
    if name in LINES[kind]:
        raise PoisonproofError(f"The registry of {kind} has {name!r} already.", code="registry.taken")
    LINES[kind][name] = what


def names(kind: str) -> list[str]:
    """The names there are, in the order of their lines."""
    return list(LINES[kind])


def find(kind: str, name: str) -> Any:
    """The object of a name; one sentence that lists the names if there is none."""
    what = _line(kind, name)
    if isinstance(what, tuple):
        what = what[0]
    if not isinstance(what, str):
        return what
    module, _, attribute = what.partition(":")
    return getattr(importlib.import_module(module), attribute)


def help_of(kind: str, name: str) -> str:
    """The line of help that stands beside a name; nothing is imported."""
    what = _line(kind, name)
    return what[1] if isinstance(what, tuple) else ""


def _line(kind: str, name: str) -> Any:
    lines = LINES[kind]
    if name not in lines:
        near = get_close_matches(name, lines, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(lines)}."
        raise PoisonproofError(f"There is no {name!r} among the {kind}; {meant}", code="registry.unknown")
    return lines[name]


def built_in(kind: str, name: str) -> Any:
    """The object of a line that poisonproof itself has, whatever was added in this process; None if there is none."""
    what = LINES[kind].get(name)
    return find(kind, name) if isinstance(what, str) and what.startswith("poisonproof.") else None


def every(kind: str) -> Iterator[tuple[str, Any]]:
    """All names of a kind with their objects."""
    for name in names(kind):
        yield name, find(kind, name)


def trusted_types() -> tuple[str, ...]:
    """The types of ours that a file of skops may hold, as skops names them."""
    return tuple(str(line).replace(":", ".") for line in LINES["types"].values())


def encoder(source: Any) -> Any:
    """What `poisonproof.encoder` gives."""
    return find("encoding", "encoder")(source)


def in_front(encoder: Any, learner: Any) -> Any:
    """The learner with an encoder in front of it."""
    return find("encoding", "in front")(encoder, learner)
