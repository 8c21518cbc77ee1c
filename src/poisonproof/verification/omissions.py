"""What a verification did not look at, in words: whatever a run states that none of its checks covers.

A reader takes what a verdict passes over in silence for checked. So everything in the files is either covered by a
check that was made, or named here; entries that this checker does not know are named too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poisonproof.verification import claims
from poisonproof.verification.evidence import MODEL, REPORT, WITHOUT_DIGEST, Evidence
from poisonproof.verification.sample_files import SampleEvidence
from poisonproof.verification.verdict import Check

VOTES = "the votes and rankings"
MEMBERS = "the kept base classifiers, which were not asked"
TRAINING = "that base classifiers were trained by the learner stated, on the subsets of spread and split (--retrain)"
NOT_DRAWN = "base classifiers and test samples that were not drawn"
DATA = "the digests of the data"
SPLIT = "the split of the training samples"
ACCURACY = "the clean accuracy"
BALANCED = "the balanced accuracy and the share of the most frequent class"
MODEL_RECORD = f"what {MODEL} says of subset digests, features and dropped samples"
SCHEMA_READ = "the schema"
TEST_SAMPLES = "how test samples were held out"
BEFOREHAND = (
    "that classes, schema, k, d and the learner were chosen beforehand, what was fitted before the split, and that no "
    "premise was left unsaid"
)
PURITY = "the purity of the learner"
WHAT_THE_REPORT_SAYS = "what report.html says"
REACHABLE = "that no partition can be poisoned but those that a premise names"
RECOUNT = "that the votes are those of the data in the map that is stated"
READ_AS = "how samples are read (the split)"
N_TRAIN = "the number of training samples"
KEPT_VOTERS = "the kept voters and what the kept model answers"
OF_MODEL = f"what {MODEL} says of features, contributors and dropped samples"
EXACT = "which radii are called exact"
FIXED_MAP = "the map itself, which was asked and not written anew"
BEFOREHAND_OF_SAMPLES = (
    "that classes, schema, class sizes, map, threshold and number of neighbours were chosen beforehand, and that no "
    "premise was left unsaid"
)
ORIGIN = "the learner, data and environment that the certificate names as its origin"
BLOCKS = "what blocks of votes hold besides votes"
# What a manifest says that nothing can be computed from.
WORDS_OF_THE_MAKER = {
    "undefended_accuracy": "the undefended accuracy",
    "strong_undefended_accuracy": "the undefended accuracy",
    "strong_undefended": "the undefended accuracy",
    "no_undefended": "the undefended accuracy",
    "notes": "the notes",
    "seconds": "the timings",
    "environment": "the environment",
    "environments": "where each base classifier was made",
    "made_in": "where each base classifier was made",
    "changes": "the change log",
    "asked": "how the data are said to have been read (asked)",
}
NAME = "the name of the data set"

KNOWN: dict[str, tuple[str, ...]] = {
    "manifest.json": (
        *("format", "status", "settings", "premises", "threat_model", "unit", "method", "n_train", "n_test"),
        *("empty_subsets", "clean_accuracy", "majority_share", "balanced_accuracy", "files", "digest"),
        *WORDS_OF_THE_MAKER,
    ),
    "manifest.json, settings": (
        *("dataset", "k", "d", "spread_digest", "split", "learner", "classes", "votes_only"),
        *("rankings", "pooled", "schema"),
    ),
    "votes.json": (
        *("format", "matrix", "rankings", "spread", "spread_digest", "classes", "classes_inferred", "split"),
        *("premises", "digest"),
    ),
    "certificate.npz": (
        *(
            "format",
            "poisonproof",
            "method",
            "k",
            "d",
            "n_subsets",
            "spread",
            "spread_digest",
            "split",
            "unit",
            "classes",
        ),
        *("classes_inferred", "premises", "origin"),
    ),
    MODEL: (
        *("format", "pooled", "files", "spread", "split", "classes", "classes_inferred", "feature_names"),
        *("subset_sizes", "partition_sizes", "subset_digests", "premises", "n_features_in_", "n_dropped_"),
        *("kind_of_samples_", "digest"),
    ),
}

_OF_COUNTS = ("format", "classes", "classes_inferred", "split", "rule", "premises")
OF_SAMPLES: dict[str, tuple[str, ...]] = {
    "manifest.json, settings": (*KNOWN["manifest.json, settings"], "election"),
    "manifest.json, settings, election": (
        *("method", "near", "n_neighbors", "metric", "one_sided", "voices", "class_sizes", "class_sizes_from"),
        *("steps_per_unit", "map"),
    ),
    "certificate.npz": (*KNOWN["certificate.npz"], "election"),
    "ballots.npz": (*_OF_COUNTS, "one_sided", "voices"),
    "neighbours.npz": (*_OF_COUNTS, "n_neighbors", "n_samples", "contributors"),
    MODEL: (
        *("format", "type", "parameters", "sizes", "steps_per_unit", "classes", "split", "contributors", "premises"),
        *("files", "feature_names", "n_features_in_", "n_dropped_", "kind_of_samples_", "classes_inferred_", "digest"),
    ),
}


def unchecked(evidence: Evidence, checks: Sequence[Check], data: Any) -> tuple[str, ...]:
    """What nobody looked at; the gravest first."""
    made = {check.name: check for check in checks if check.outcome == "ok"}
    of_voters = _of_samples if isinstance(evidence, SampleEvidence) else _of_the_ensemble
    return tuple(dict.fromkeys([*of_voters(evidence, made), *_of_the_files(evidence, made, data)]))


def _of_samples(evidence: Evidence, made: Mapping[str, Check]) -> Iterator[str]:
    """What depends on checks that were not made, where training samples vote."""
    if "recount" not in made:
        yield RECOUNT
        yield READ_AS
        if evidence.manifest and evidence.settings["split"]["kind"] == "group":
            yield N_TRAIN
    if "data" not in made:
        yield DATA
    if evidence.model is not None:
        if "model" not in made:
            yield KEPT_VOTERS
        yield OF_MODEL
    if "model" not in made:
        yield EXACT
    if any(check.details.get("drawn", 0) < check.details.get("total", 0) for check in made.values()):
        yield "test samples that were not drawn"
    if "accuracy" not in made and evidence.manifest:
        yield ACCURACY
        yield BALANCED


def _of_the_ensemble(evidence: Evidence, made: Mapping[str, Check]) -> Iterator[str]:
    if "retraining" not in made:
        if "members" not in made:
            yield VOTES
        yield TRAINING
    if evidence.model is not None and "members" not in made:
        yield MEMBERS
    if any(check.details.get("drawn", 0) < check.details.get("total", 0) for check in made.values()):
        yield NOT_DRAWN
    if "split" not in made:
        yield DATA
        yield SPLIT
    if "accuracy" not in made and evidence.manifest:
        yield ACCURACY
        if "balanced_accuracy" in evidence.manifest or "majority_share" in evidence.manifest:
            yield BALANCED
    if evidence.model is not None and "model" not in made:
        yield MODEL_RECORD


def _of_the_files(evidence: Evidence, made: Mapping[str, Check], data: Any) -> Iterator[str]:
    if evidence.manifest:
        read = "split" in made or "data" in made
        if "schema" in evidence.settings and (not read or getattr(data, "schema", None) is None):
            yield SCHEMA_READ
            yield TEST_SAMPLES
        followed = ("environments", "made_in") if isinstance(evidence, SampleEvidence) else ()  # by a check of theirs
        yield from (text for name, text in WORDS_OF_THE_MAKER.items() if name not in followed)
        yield NAME
        yield BLOCKS
    else:
        yield ORIGIN
    if evidence.manifest and REPORT in evidence.manifest["files"] and REPORT not in evidence.absent:
        yield WHAT_THE_REPORT_SAYS
    if evidence.absent:
        yield f"files that the manifest names and that are gone ({_some(evidence.absent)})"
    reports = [name for name in evidence.others if name in WITHOUT_DIGEST[1:] and name != "run.lock"]
    strange = [name for name in evidence.others if name not in WITHOUT_DIGEST]
    if reports:
        yield ", ".join(reports)
    if strange:
        yield f"files that the manifest does not name ({_some(strange)})"
    if any(premise["code"] == claims.REACHABLE for premise in evidence.facts["premises"]):
        yield REACHABLE
    yield from _unknown(evidence, made)
    yield from (FIXED_MAP, BEFOREHAND_OF_SAMPLES) if isinstance(evidence, SampleEvidence) else (BEFOREHAND, PURITY)


def _unknown(evidence: Evidence, made: Mapping[str, Check]) -> Iterator[str]:
    """Entries and premises that no check knows; newer versions may write more than this one."""
    by_samples = isinstance(evidence, SampleEvidence)
    records: dict[str, Mapping[str, Any]] = dict(evidence.records)
    if evidence.manifest:
        records = {"manifest.json": evidence.manifest, "manifest.json, settings": evidence.settings, **records}
    if by_samples and evidence.manifest:
        records["manifest.json, settings, election"] = evidence.settings["election"]
    if evidence.model is not None:
        records[MODEL] = evidence.model
    for where, record in records.items():
        known = (OF_SAMPLES if by_samples and where in OF_SAMPLES else KNOWN)[where]
        if strange := [name for name in record if name not in known]:
            yield f"entries of {where} that this checker does not know ({_some(strange)})"
    premises = claims.PREMISES_OF_SAMPLES if by_samples else (*claims.PREMISES, claims.REACHABLE)
    named = {*premises, "schema", "test-samples", "categorical-columns", "fitted-before-the-split"}
    if "encoder" in made:  # its weights have the digest on record
        named |= {"encoder", "width-of-the-map"}
    if strange := [str(premise["code"]) for premise in evidence.facts["premises"] if premise["code"] not in named]:
        yield f"premises that this checker does not know ({_some(strange)})"


def _some(names: Sequence[str]) -> str:
    """A few names; quoted so that no character in them can pass for the checker's own words."""
    shown = ", ".join(repr(name if len(name) <= 60 else name[:57] + "…") for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
