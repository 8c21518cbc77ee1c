"""The checks, one function each: a sentence if all is well, `NotTrueError` or `NotCheckedError` if not.

A forger may have recomputed every digest, so nothing is believed because a file says so: what several files say must
agree, and whatever follows from something else is computed again.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.verification import claims
from poisonproof.verification.content import (
    complete,
    data_digests,
    labels_of,
    partitions,
    places_among,
)
from poisonproof.verification.evidence import MODEL, Evidence
from poisonproof.verification.records import same, short
from poisonproof.verification.theorem import read_spread
from poisonproof.verification.verdict import NotCheckedError, NotTrueError

ROWS_PER_LOOK = 1024
ROUNDING = 1e-12  # a mean over classes is stated as a float
MOST_CLASSES = 65_535  # votes are codes of two bytes, and one of them abstains
NO_DATA = "the data are not at hand; give data= (DATA, --data-dir)."


def spread(evidence: Evidence) -> str:
    """One balanced map, the same in every file, with the digest, k and d that are stated."""
    n = evidence.matrix.shape[1]
    for name, record in evidence.records.items():  # each file's table, and what sorting and counting it takes
        evidence.reader.check_room(8 * 8 * n * len(record["spread"].get("shifts", ())), f"the spread of {name}")
    maps = {name: read_spread(record["spread"], n, name) for name, record in evidence.records.items()}
    stated = {name: record["spread_digest"] for name, record in evidence.records.items() if name != MODEL}
    if evidence.spread_file is not None:
        arrays, facts = evidence.spread_file
        record = {name: array.tolist() for name, array in arrays.items()}
        maps["spread.npz"] = read_spread(record, n, "spread.npz")
        stated["spread.npz"] = facts["spread"]
    map_ = maps["certificate.npz"]
    for name, other in maps.items():
        if not np.array_equal(other.table, map_.table):
            raise NotTrueError(f"{name} and certificate.npz hold different spreads.")
    numbers = {"certificate.npz": (evidence.facts["k"], evidence.facts["d"], evidence.facts["n_subsets"])}
    if evidence.manifest:
        stated["manifest.json"] = evidence.settings["spread_digest"]
        numbers["manifest.json"] = (evidence.settings["k"], evidence.settings["d"], n)
    for name, digest in stated.items():
        if digest != map_.digest:
            raise NotTrueError(f"{name} states a spread digest that its spread does not have.")
    for name, given in numbers.items():
        if not same(list(given), [map_.k, map_.d, n]):
            raise NotTrueError(
                f"{name} states k = {given[0]}, d = {given[1]}, {given[2]} subsets, but the spread has "
                f"k = {map_.k:g}, d = {map_.d}, {n} subsets."
            )
    evidence.found_spread = map_
    return f"balanced, k = {map_.k:g}, d = {map_.d}, the same in {', '.join(maps)}."


def classes(evidence: Evidence) -> str:
    """One list of different labels in every file; whether they were inferred agrees with the premises."""
    listed, inferred = evidence.facts["classes"], evidence.facts["classes_inferred"]
    if len({*labels_of(listed["values"]), None}) <= len(listed["values"]):
        raise NotTrueError("the class list names a label twice, or something that is no label.")
    if len(listed["values"]) > MOST_CLASSES:
        raise NotTrueError(f"{len(listed['values'])} classes are named, but votes tell at most {MOST_CLASSES} apart.")
    if type(inferred) is not bool or len(listed["values"]) < (1 if inferred else 2):
        raise NotTrueError(f"there must be two classes or more, declared or inferred. Got {len(listed['values'])}.")
    for name, record in evidence.records.items():
        if not same(record["classes"], listed):
            raise NotTrueError(f"{name} and certificate.npz name different classes.")
        if not same(record["classes_inferred"], inferred):
            raise NotTrueError(f"{name} and certificate.npz disagree on whether the classes were inferred.")
        for code, _, declared in claims.listed(record):
            if code == "classes" and declared is inferred:
                raise NotTrueError(
                    f"{name} says that the classes were {'inferred' if inferred else 'declared'}, "
                    "and its premises say the opposite."
                )
    if evidence.manifest and not same(evidence.settings["classes"], listed["values"]):
        raise NotTrueError("manifest.json and certificate.npz name different classes.")
    if inferred:
        return f"{len(listed['values'])}, read off the data, so one more rival is reckoned with."
    return f"{len(listed['values'])}, the same everywhere; that they were declared beforehand is the maker's word."


def votes(evidence: Evidence) -> str:
    """Class codes for every test sample and base classifier; in a run, only empty subsets abstain."""
    matrix, n_classes = evidence.matrix, evidence.n_classes
    if matrix.ndim != 2 or matrix.dtype.kind not in "iu":
        raise NotTrueError(f"the votes are not a table of class codes: {matrix.dtype}, shape {matrix.shape}.")
    never, always = np.ones(matrix.shape[1], np.bool_), np.ones(matrix.shape[1], np.bool_)
    for start in range(0, len(matrix), ROWS_PER_LOOK):
        part = matrix[start : start + ROWS_PER_LOOK]
        if part.size and not 0 <= int(part.min()) <= int(part.max()) <= n_classes:
            raise NotTrueError(f"a vote is neither one of {n_classes} classes nor an abstention.")
        never &= (part != n_classes).all(axis=0)
        always &= (part == n_classes).all(axis=0)
    evidence.votes_in_range = True
    sentence = f"{matrix.shape[0]} test samples, {matrix.shape[1]} base classifiers, all codes in range"
    if evidence.partition is None:
        return f"{sentence}; which subsets are empty is not known."
    empty = subset_sizes(evidence) == 0
    wrong = np.flatnonzero(np.where(empty, ~always, ~never))
    if len(wrong):
        what = "votes on an empty" if empty[wrong[0]] else "abstains on a non-empty"
        raise NotTrueError(f"base classifier {wrong[0]} {what} subset.")
    return f"{sentence}; the {int(empty.sum())} with empty subsets abstain and no other does."


def rankings(evidence: Evidence) -> str:
    """Every ranking begins with the vote, names no class twice, and ends once it names none."""
    if evidence.rankings is None:
        return "none were kept."
    ranked, matrix, n_classes = evidence.rankings, evidence.matrix, evidence.n_classes
    if ranked.shape[:-1] != matrix.shape or not 1 <= ranked.shape[-1] <= n_classes or ranked.dtype.kind not in "iu":
        raise NotTrueError(f"the rankings are no table of 1 to {n_classes} places for each vote: shape {ranked.shape}.")
    for t, (ranking, votes) in enumerate(zip(ranked, matrix, strict=True)):
        inside = np.sort(ranking, axis=1)
        rules = {
            "holds a code that is no class": (ranking < 0) | (ranking > n_classes),
            "does not begin with the vote": (ranking[:, :1] != votes[:, None]),
            "names a class twice": (inside[:, 1:] == inside[:, :-1]) & (inside[:, 1:] < n_classes),
            "goes on after its end": (ranking[:, 1:] < n_classes) & (ranking[:, :-1] == n_classes),
        }
        for rule, broken in rules.items():
            if broken.any():
                i = int(np.flatnonzero(broken.any(axis=1))[0])
                raise NotTrueError(f"the ranking of test sample {t} by base classifier {i} {rule}.")
    return "each begins with the vote and names no class twice."


def subset_sizes(evidence: Evidence) -> NDArray[np.int64]:
    """Training samples per subset, from split.npy and the spread."""
    partition, map_ = evidence.partition, evidence.spread
    if partition is None or partition.ndim != 1 or partition.dtype.kind not in "iu":
        raise NotTrueError("split.npy does not hold one partition per training sample.")
    if len(partition) and not 0 <= int(partition.min()) <= int(partition.max()) < map_.n:
        raise NotTrueError(f"split.npy holds a partition that is not in 0 … {map_.n - 1}.")
    sizes = np.zeros(map_.n, np.int64)
    np.add.at(sizes, map_.table, np.bincount(partition, minlength=map_.n)[:, None])
    return sizes


def premises(evidence: Evidence, data: Any) -> str:
    """The premises are the same in every file, and those that follow from the settings say so."""
    by_name = agreed_premises(evidence)
    assert evidence.manifest is not None
    settings = evidence.settings
    wanted = claims.premises(
        evidence.spread,
        settings["split"],
        settings["learner"],
        settings["classes"],
        evidence.facts["classes_inferred"],
        by_pilot=by_name.get("spread", [None, True])[1] is False,
    )
    learner = {"learner": settings["learner"]}
    picked, declared = by_name.get("learner", [None, True])
    if same(picked, learner | {"given_as": (evidence.manifest.get("asked") or {}).get("learner")}):
        wanted["learner"] = (picked, True)
    if "schema" in settings and isinstance(picked, dict) and same(picked, learner | {"because": picked.get("because")}):
        wanted["learner"] = (picked, declared)  # the reader says why
    return hold_premises(by_name, wanted | premises_of_data(settings, by_name, data))


def agreed_premises(evidence: Evidence) -> dict[str, list[Any]]:
    """The premises by name, as [value, declared], which every file lists alike; an error if one does not."""
    listed = evidence.facts["premises"]
    of_votes = [premise for premise in listed if premise["code"] != claims.REACHABLE]  # said when they are certified
    if evidence.manifest and len(of_votes) < len(listed):
        raise NotTrueError("a run reckons with all partitions, and a premise says that only some can be poisoned.")
    for name, record in evidence.records.items():
        if not same(record["premises"], listed if record is evidence.facts else of_votes):
            raise NotTrueError(f"{name} and certificate.npz list different premises.")
    by_name: dict[str, list[Any]] = {}
    for code, value, declared in claims.listed(evidence.facts):
        if code in by_name:
            raise NotTrueError(f"the premise '{code}' is stated twice.")
        by_name[code] = [value, declared]
    if not evidence.manifest:
        raise NotCheckedError(f"{len(listed)} are stated; only a run says what they must be.")
    if not same(evidence.manifest["premises"], listed):
        raise NotTrueError("manifest.json and certificate.npz list different premises.")
    return by_name


def premises_of_data(
    settings: dict[str, Any], by_name: dict[str, list[Any]], data: Any
) -> dict[str, tuple[Any, bool | None]]:
    """The premises about how the data were read: of a user's own files, and of the data at hand."""
    wanted: dict[str, tuple[Any, bool | None]] = {}
    if "schema" in settings:
        wanted |= {"schema": (claims.ANY, by_name.get("schema", [None, False])[1]), "test-samples": (claims.ANY, True)}
    if data is None:
        return wanted
    x = data.train.X
    texts = not hasattr(x, "shape") or len(x.shape) == 1
    width, by_schema = claims.features(settings["split"])
    if width is None:
        wanted["number-of-features"] = (1 if texts else int(np.prod(x.shape[1:])), False)
    if hasattr(x, "columns") and "schema" not in settings:
        wanted |= {"categorical-columns": (claims.ANY, by_schema), "schema": (claims.ANY, by_schema)}
    return wanted | {premise.code: (premise.value, premise.declared) for premise in getattr(data, "premises", ())}


def hold_premises(by_name: dict[str, list[Any]], wanted: dict[str, tuple[Any, bool | None]]) -> str:
    """An error if one of the premises that must be there is missing or says something else."""
    for code, (value, declared) in wanted.items():
        if code not in by_name:
            raise NotTrueError(f"the premise '{code}' is missing.")
        stated, origin = by_name[code]
        if value is not claims.ANY and not same(stated, value):
            raise NotTrueError(
                f"the premise '{code}' states {short(stated)}, which does not follow from the settings; "
                f"they give {short(value)}."
            )
        if not claims.fits(origin, declared):
            raise NotTrueError(f"the premise '{code}' is stated with another origin than follows from the settings.")
    return f"{len(by_name)} stated, the same everywhere; that there are no others is the maker's word."


def manifest(evidence: Evidence) -> str:
    """What the manifest and the certificate say in words and numbers follows from the rest."""
    facts, split = evidence.facts, agreed_split(evidence)
    if split is not None and (split["kind"] not in claims.KINDS or type(split["hash_labels"]) is not bool):
        raise NotTrueError(f"the split {split['kind']!r} is not known.")
    stated: dict[str, tuple[Any, Any]] = {"unit": (facts["unit"], claims.unit(split))}
    origin = facts.get("origin") or {}
    if evidence.manifest:
        stated |= _of_the_run(evidence, origin)
    elif split is not None and "threat_model" in origin:
        stated["origin of the certificate: threat_model"] = (origin["threat_model"], claims.threat_model(split))
    for name, (given, right) in stated.items():
        follows(name, given, right)
    if not evidence.manifest:
        return unit_alone(facts["unit"], origin)
    return f"{len(stated)} statements follow from the rest."


def unit_alone(unit: str, origin: dict[str, Any]) -> str:
    """What a loose certificate says about itself."""
    return f"unit {unit!r}" + ("." if origin else "; the certificate does not say where it comes from.")


def agreed_split(evidence: Evidence) -> Any:
    """The split, which every file states alike; an error if one does not."""
    split = evidence.facts["split"]
    for name, record in evidence.records.items():
        if not same(record["split"], split):
            raise NotTrueError(f"{name} and certificate.npz state different splits.")
    return split


def follows(name: str, given: Any, right: Any) -> None:
    """An error that names the first difference if a statement is not what the rest of the files give."""
    if not same(given, right):
        where, one, other = _first_difference(name, given, right)
        raise NotTrueError(f"{where} is stated as {one}, but the rest of the files give {other}.")


def _of_the_run(evidence: Evidence, origin: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    manifest, settings = evidence.manifest or {}, evidence.settings
    split, n_test = settings["split"], evidence.n_test
    if split["kind"] == "group" and "groups" not in settings["dataset"]:
        raise NotTrueError("the split is by contributor, but the manifest states no digest of contributors.")
    sizes = subset_sizes(evidence)
    right = manifest["clean_accuracy"] * n_test
    partition = evidence.partition if evidence.partition is not None else np.zeros(0, np.int64)
    stated = {
        "split": (evidence.facts["split"], split),
        "unit of the manifest": (manifest["unit"], claims.unit(split)),
        "threat_model": (manifest["threat_model"], claims.threat_model(split)),
        "method": (manifest["method"], evidence.facts["method"]),
        "n_test": (manifest["n_test"], n_test),
        "n_train": (manifest["n_train"], len(partition)),
        "empty_subsets": (manifest["empty_subsets"], int((sizes == 0).sum())),
        "votes_only": (settings["votes_only"], MODEL not in manifest["files"]),
        "rankings": (bool(settings.get("rankings")), evidence.rankings is not None),
        "clean_accuracy": (manifest["clean_accuracy"], round(right) / n_test if 0 <= round(right) <= n_test else None),
    }
    known = {
        "environment": manifest["environment"],
        "dataset": settings["dataset"],
        "learner": settings["learner"],
        "threat_model": manifest["threat_model"],
    }
    if origin:
        stated |= {f"origin of the certificate: {name}": (origin.get(name), value) for name, value in known.items()}
    if evidence.model:
        stated["pooled"] = (bool(settings.get("pooled")), bool(evidence.model.get("pooled")))
        held = np.bincount(partition, minlength=evidence.spread.n)
        stated |= {
            f"{MODEL}: subset_sizes": (evidence.model["subset_sizes"], sizes.tolist()),
            f"{MODEL}: partition_sizes": (evidence.model["partition_sizes"], held.tolist()),
        }
    return stated


def same_data(evidence: Evidence, data: Any, groups: Any) -> dict[str, Any]:
    """The digests that are stated of the data, which those at hand have; an error if they have not."""
    if data is None:
        raise NotCheckedError(NO_DATA)
    stated = evidence.settings.get("dataset") or (evidence.facts.get("origin") or {}).get("dataset") or {}
    for name, digest in data_digests(data, groups).items():
        if stated and digest != stated.get(name):
            raise NotTrueError(f"the {name} at hand is not the one of which the digest is stated.")
    schema = getattr(data, "schema", None)
    if schema is not None and not same(schema.as_dict(), evidence.settings.get("schema")):
        raise NotTrueError("the data at hand were read by another schema than the one that is stated.")
    if "groups" in stated and groups is None:
        raise NotCheckedError("the digest of contributors is stated, and they are not at hand; give groups=.")
    return dict(stated)


def data_and_split(evidence: Evidence, data: Any, groups: Any) -> str:
    """The data have the digests that are stated, and split.npy is what their content gives."""
    stated = same_data(evidence, data, groups)
    split, partition = evidence.facts["split"], evidence.partition
    if partition is None or split is None:
        agree = "; the digests of the data agree" if stated else ""
        raise NotCheckedError(f"there is no split.npy to compare with{agree}.")
    known = places_of(evidence, data.train.labels) >= 0
    if split["kind"] == "group" and groups is not None:
        known &= np.array([name is not None for name in labels_of(groups)], np.bool_)
    by_content = partitions(split, evidence.spread.n, data.train.X, data.train.labels, groups)
    if known.sum() != len(partition):  # a learner that takes no missing values is not given samples that have some
        known &= complete(data.train.X)
    by_content = by_content[known]
    if by_content.shape != partition.shape:
        raise NotTrueError(
            f"split.npy holds {len(partition)} training samples, but {len(by_content)} of the data can be trained on."
        )
    wrong = np.flatnonzero(by_content != partition)
    if len(wrong):
        raise NotTrueError(
            f"training sample {wrong[0]} belongs to partition {by_content[wrong[0]]} by its content, but split.npy "
            f"says {partition[wrong[0]]}; {len(wrong)} of {len(by_content)} are wrong."
        )
    stand = "have the digests that are stated and the partitions that their content gives"
    return f"{len(by_content)} training samples {stand}."


def accuracy(evidence: Evidence, data: Any) -> str:
    """Clean and balanced accuracy, from the certificate's predictions (which were checked against the votes)."""
    if data is None:
        raise NotCheckedError(NO_DATA)
    if not evidence.manifest:
        raise NotCheckedError("only a run states one.")
    truth = places_of(evidence, data.test.labels)
    if len(truth) != evidence.n_test:
        raise NotTrueError(f"there are {len(truth)} test samples at hand, but the votes are about {evidence.n_test}.")
    right = evidence.certificate.arrays["prediction"] == truth
    stated, recounted = evidence.manifest["clean_accuracy"], int(right.sum()) / len(right)
    if not same(stated, recounted):
        raise NotTrueError(f"clean_accuracy is stated as {stated}, but {int(right.sum())} of {len(right)} are right.")
    by_class: dict[Any, list[bool]] = {}
    for label, is_right in zip(labels_of(data.test.labels), right.tolist(), strict=True):
        by_class.setdefault(label, []).append(is_right)
    figures = {
        "majority_share": Fraction(max(map(len, by_class.values())), len(right)),
        "balanced_accuracy": sum((Fraction(sum(part), len(part)) for part in by_class.values()), Fraction(0))
        / len(by_class),
    }
    for name, figure in figures.items():  # runs that were made before there were any say nothing
        if name in evidence.manifest and abs(evidence.manifest[name] - float(figure)) > ROUNDING:
            raise NotTrueError(f"{name} is stated as {evidence.manifest[name]}, but the labels give {float(figure)}.")
    return f"{int(right.sum())} of {len(right)} test samples are right, as stated."


def places_of(evidence: Evidence, labels: Any) -> NDArray[np.int64]:
    """Index of each label in the class list; −1 for none."""
    return places_among(evidence.facts["classes"]["values"], labels)


def _first_difference(name: str, given: Any, right: Any) -> tuple[str, str, str]:
    """Where two values differ, and how, as short texts."""
    if isinstance(given, dict) and isinstance(right, dict):
        key = next(key for key in {**right, **given} if not same(given.get(key), right.get(key)))
        return _first_difference(f"{name}: {key}", given.get(key), right.get(key))
    return name, short(given), short(right)
