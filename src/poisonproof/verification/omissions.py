"""What a verification did not look at, in words: whatever a run states that none of its checks covers.

A reader takes what a verdict passes over in silence for checked. So everything in the files is either covered by a
check that was made, or named here; entries that this checker does not know are named too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poisonproof.verification import claims
from poisonproof.verification.evidence import MODEL, WITHOUT_DIGEST, Evidence
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
    "that classes, k, d and the learner were chosen beforehand, what was fitted before the split, and that no premise "
    "was left unsaid"
)
PURITY = "the purity of the learner"
FIXED_MAP = "the map itself, which was asked and not written anew"
BEFOREHAND_OF_SAMPLES = (
    "that classes, class sizes, map, threshold and number of neighbours were chosen beforehand, and that no premise "
    "was left unsaid"
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


def unchecked(evidence: Evidence, checks: Sequence[Check], data: Any) -> tuple[str, ...]:
    """What nobody looked at; the gravest first."""
    made = {check.name: check for check in checks if check.outcome == "ok"}
    return tuple(dict.fromkeys([*_of_the_ensemble(evidence, made), *_of_the_files(evidence, made, data)]))


def unchecked_of_samples(evidence: Evidence, checks: Sequence[Check]) -> tuple[str, ...]:
    """The same where training samples vote."""
    made = {check.name for check in checks if check.outcome == "ok"}
    sentences = {
        "recount": "that the votes are those of the data in the map that is stated",
        "data": DATA,
        "accuracy": ACCURACY,
        "model": "the kept voters" if evidence.model is not None else "",
        "trusted": "the trusted samples" if _names_trusted(evidence) else "",
    }
    silent = [words for name, words in sentences.items() if name not in made and words]
    drawn = any(check.details.get("drawn", 0) < check.details.get("total", 0) for check in checks)
    silent += ["test samples that were not drawn"] if drawn else []
    if evidence.manifest:
        of_members = ("undefended_accuracy", "environments", "made_in")
        silent += [text for name, text in WORDS_OF_THE_MAKER.items() if name not in of_members]
        silent.append(NAME)
    if evidence.absent:
        silent.append(f"files that the manifest names and that are gone ({_some(evidence.absent)})")
    if others := [name for name in evidence.others if name not in ("manifest.json", "run.lock")]:
        silent.append(f"files that no digest covers ({_some(others)})")
    return tuple(dict.fromkeys([*silent, FIXED_MAP, BEFOREHAND_OF_SAMPLES]))


def _names_trusted(evidence: Evidence) -> bool:
    return any(premise[0] == "trusted samples" for premise in evidence.facts["premises"])


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
        if "schema" in evidence.settings and ("split" not in made or getattr(data, "schema", None) is None):
            yield SCHEMA_READ
            yield TEST_SAMPLES
        yield from WORDS_OF_THE_MAKER.values()
        yield NAME
        yield BLOCKS
    else:
        yield ORIGIN
    if evidence.absent:
        yield f"files that the manifest names and that are gone ({_some(evidence.absent)})"
    reports = [name for name in evidence.others if name in WITHOUT_DIGEST[1:] and name != "run.lock"]
    strange = [name for name in evidence.others if name not in WITHOUT_DIGEST]
    if reports:
        yield ", ".join(reports)
    if strange:
        yield f"files that the manifest does not name ({_some(strange)})"
    yield from _unknown(evidence, made)
    yield BEFOREHAND
    yield PURITY


def _unknown(evidence: Evidence, made: Mapping[str, Check]) -> Iterator[str]:
    """Entries and premises that no check knows; newer versions may write more than this one."""
    records: dict[str, Mapping[str, Any]] = dict(evidence.records)
    if evidence.manifest:
        records = {"manifest.json": evidence.manifest, "manifest.json, settings": evidence.settings, **records}
    for where, record in records.items():
        if strange := [name for name in record if name not in KNOWN[where]]:
            yield f"entries of {where} that this checker does not know ({_some(strange)})"
    known = [*claims.PREMISES, "schema", "test samples", "categorical columns", "fitted before the split"]
    if "encoder" in made:  # its weights have the digest on record
        known.append("encoder")
    if strange := [str(premise[0]) for premise in evidence.facts["premises"] if premise[0] not in known]:
        yield f"premises that this checker does not know ({_some(strange)})"


def _some(names: Sequence[str]) -> str:
    """A few names; quoted so that no character in them can pass for the checker's own words."""
    shown = ", ".join(repr(name if len(name) <= 60 else name[:57] + "…") for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
