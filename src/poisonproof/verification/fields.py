"""Every field of every record, and the check that covers it; what no check covered is named.

A reader takes what a verdict passes over in silence for checked. So each entry of a file stands in a table: under the
name of the check that covers it, or under a sentence if nothing can be computed that would tell. Named are the
sentences, what a check would have covered that was not made, and entries that the table does not know.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from poisonproof.verification.files import MODEL, REPORT, WITHOUT_DIGEST, RunFiles

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
METHOD = "predictions and radii, which are of a method that this checker does not know"
EXACT = "which radii are called exact"
REACHABLE = "that no partition can be poisoned but those that a premise names"
WHAT_THE_REPORT_SAYS = "what report.html says"
ORIGIN = "the learner, data and environment that the certificate names as its origin"
BLOCKS = "what blocks of votes hold besides votes"
NAME = "the name of the data set"

SETTINGS = "manifest.json, settings"

Table = Mapping[str, Mapping[str, Sequence[str]]]
"""File → check that covers (one word) or sentence → entries."""

OF_A_MANIFEST: Mapping[str, Sequence[str]] = {
    "files": ("format", "status", "settings", "files", "digest"),
    "premises": ("premises",),
    "manifest": ("threat_model", "unit", "method", "n_train", "n_test", "empty_subsets"),
    "accuracy": ("clean_accuracy", "majority_share", "balanced_accuracy"),
    "the undefended accuracy": (
        *("undefended_accuracy", "strong_undefended_accuracy", "strong_undefended", "no_undefended"),
    ),
    "the notes": ("notes",),
    "the timings": ("seconds",),
    "the environment": ("environment",),
    "where each base classifier was made": ("environments", "made_in"),
    "the change log": ("changes",),
    "how the data are said to have been read (recipe)": ("recipe",),
}
OF_SETTINGS: Mapping[str, Sequence[str]] = {
    "spread": ("k", "d", "spread_digest"),
    "classes": ("classes",),
    "manifest": ("dataset", "split", "votes_only", "rankings", "pooled"),
    "premises": ("learner",),
    "files": ("schema",),
}
OF_A_CERTIFICATE: Mapping[str, Sequence[str]] = {
    "files": ("format", "poisonproof"),
    "radius": ("method",),
    "spread": ("k", "d", "n_subsets", "spread", "spread_digest"),
    "manifest": ("split", "unit", "origin"),
    "classes": ("classes", "classes_inferred"),
    "premises": ("premises",),
}
OF_THE_ORIGIN: Mapping[str, Sequence[str]] = {"manifest": ("threat_model", "dataset", "learner", "environment")}
PREMISES = ("classes", "number-of-features", "fitted-before-the-split", "schema", "test-samples", "categorical-columns")

FIELDS: Table = {
    "manifest.json": OF_A_MANIFEST,
    SETTINGS: OF_SETTINGS,
    "votes.json": {
        "files": ("format", "matrix", "rankings", "digest"),
        "spread": ("spread", "spread_digest"),
        "classes": ("classes", "classes_inferred"),
        "manifest": ("split",),
        "premises": ("premises",),
    },
    "certificate.npz": OF_A_CERTIFICATE,
    "the origin in certificate.npz": OF_THE_ORIGIN,
    "spread.npz": {"spread": ("spread", "spread_digest")},
    MODEL: {
        "files": ("format", "files", "digest"),
        "spread": ("spread",),
        "classes": ("classes", "classes_inferred"),
        "manifest": ("pooled", "split", "subset_sizes", "partition_sizes"),
        "premises": ("premises",),
        "model": ("feature_names", "subset_digests", "n_features_in_", "n_dropped_", "kind_of_samples_"),
    },
    "premises": {
        "premises": (*PREMISES, "spread", "split", "learner"),
        REACHABLE: ("reachable-partitions",),
        "what the parts of the learner that were given fitted were fitted on": ("parts-given-fitted",),
        "encoder": ("encoder", "width-of-the-map"),
    },
}
IF_NOT_MADE: Mapping[str, Sequence[str]] = {
    "accuracy": (ACCURACY, BALANCED),
    "model": (MODEL_RECORD,),
    "radius": (METHOD,),
    "encoder": ("the encoder",),
}
"""What to say of entries whose check was not made, where the verdict's other words do not say it."""


def but(entries: Mapping[str, Sequence[str]], **covered: Sequence[str]) -> dict[str, Sequence[str]]:
    """The same table of a file, with some entries covered by other checks."""
    moved = {entry for names in covered.values() for entry in names}
    rest: dict[str, Sequence[str]] = {
        cover: tuple(name for name in names if name not in moved) for cover, names in entries.items()
    }
    return rest | {check: (*rest.get(check, ()), *names) for check, names in covered.items()}


def not_covered(table: Table, files: RunFiles, made: Container[str]) -> Iterator[str]:
    """What no check covered of the records and premises; entries that the table does not know are quoted."""
    premises = {str(premise["code"]): premise for premise in files.facts["premises"]}
    for where, record in {**records_of(files), "premises": premises}.items():
        covers = {entry: cover for cover, entries in table[where].items() for entry in entries}
        for cover in dict.fromkeys(covers[entry] for entry in record if entry in covers):
            if " " in cover:
                yield cover
            elif cover not in made:
                yield from IF_NOT_MADE.get(cover, ())
        if strange := [name for name in record if name not in covers]:
            of = "premises" if where == "premises" else f"entries of {where}"
            yield f"{of} that this checker does not know ({abbreviated(strange)})"


def not_covered_of_files(files: RunFiles) -> Iterator[str]:
    """Files that are gone, that nothing names, or whose words are for people."""
    if files.manifest is None:
        yield ORIGIN
        return
    yield NAME
    yield BLOCKS
    if REPORT in files.manifest["files"] and REPORT not in files.missing:
        yield WHAT_THE_REPORT_SAYS
    if files.missing:
        yield f"files that the manifest names and that are gone ({abbreviated(files.missing)})"
    reports = [name for name in files.unlisted if name in WITHOUT_DIGEST[1:] and name != "run.lock"]
    strange = [name for name in files.unlisted if name not in WITHOUT_DIGEST]
    if reports:
        yield ", ".join(reports)
    if strange:
        yield f"files that the manifest does not name ({abbreviated(strange)})"


def records_of(files: RunFiles) -> dict[str, Mapping[str, Any]]:
    """The records whose entries stand in the table, by file."""
    records: dict[str, Mapping[str, Any]] = {}
    if files.manifest:
        records = {"manifest.json": files.manifest, SETTINGS: files.settings}
    if files.settings.get("election"):
        records[f"{SETTINGS}, election"] = files.settings["election"]
    if files.origin:
        records["the origin in certificate.npz"] = files.origin
    return records | files.records


def abbreviated(names: Sequence[str]) -> str:
    """A few names; quoted so that no character in them can pass for the checker's own words."""
    shown = ", ".join(repr(name if len(name) <= 60 else name[:57] + "…") for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
