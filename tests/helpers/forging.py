"""What forgers do: they have poisonproof's own save functions, change what they like and write every digest anew."""

import hashlib
import io
import json
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from sklearn.naive_bayes import GaussianNB

from poisonproof import (
    BallotClassifier,
    Certificate,
    Dataset,
    FiniteAggregationClassifier,
    NeighborVoteClassifier,
    Spread,
    Votes,
    certify,
    load,
    open_files,
)
from poisonproof.ballots.maps import map_for
from poisonproof.ballots.tallies import Ballots
from poisonproof.ballots.verify import map_in_words
from poisonproof.core.votes import labels_to_json
from poisonproof.data.options import ReadOptions
from poisonproof.estimators.prepared import prepare
from poisonproof.learners.feature_maps import VectorFeatures
from poisonproof.learners.kernel_ridge import KernelRidgeClassifier
from poisonproof.learners.table import TableClassifier
from poisonproof.premises import to_records
from poisonproof.runs.election import threat_model
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.report import write_report
from poisonproof.runs.run import run
from poisonproof.system.files import (
    open_arrays,
    read_record,
    sha256_of,
    write_arrays,
    write_record,
    write_text,
    write_whole,
)
from poisonproof.training.model_files import dumped, load_members, members_file, save_members

DIGITS = load("digits")
DATA = Dataset.of(
    "digits",
    DIGITS.train.X[:300],
    DIGITS.train.labels[:300],
    DIGITS.test.X[:40],
    DIGITS.test.labels[:40],
    DIGITS.classes,
)
GROUPED = replace(DATA, train=replace(DATA.train, groups=np.arange(300) % 60))
N = 10
BLOCK, POOL = "votes/block-00000.npz", "models/members-pool.npz"


# The runs that are forged


def make(folder, estimator=None, dataset=DATA, classes=range(10), split="content", report=False, **options):
    model = FiniteAggregationClassifier(estimator or GaussianNB(), k=5, d=2, classes=classes, split=split)
    outcome = run(dataset, model, folder, RunSettings(**options))
    if report:
        write_report(outcome)
    return folder


def table_data(folder):
    rng = np.random.default_rng(7)
    rows = [f"{a:.2f},{b:.2f},{'yes' if a + b > 0 else 'no'}" for a, b in rng.normal(size=(240, 2))]
    write_text(folder / "table.csv", "\n".join(["width,height,answer", *rows]) + "\n")
    return open_files(folder / "table.csv", ReadOptions(label="answer", classes=["no", "yes"]))


def make_runs(folder):
    """Every run that is forged, with its data: name → (folder, data)."""
    table = table_data(folder)
    pooled = KernelRidgeClassifier(VectorFeatures(unit=16.0))
    return {
        "plain": (make(folder / "plain", rankings=True, report=True), DATA),
        "inferred": (make(folder / "inferred", classes=None), DATA),
        "pooled": (make(folder / "pooled", estimator=pooled), DATA),
        "grouped": (make(folder / "grouped", dataset=GROUPED, split="group"), GROUPED),
        "table": (make(folder / "table", TableClassifier(), table, ["no", "yes"]), table),
        "ballots": (let_samples_vote(folder / "ballots", BallotClassifier, near=2.1), DATA),
        "neighbours": (let_samples_vote(folder / "neighbours", NeighborVoteClassifier, n_neighbors=7), DATA),
        "contributors": (let_samples_vote(folder / "contributors", BallotClassifier, GROUPED, near=2.1), GROUPED),
    }


def let_samples_vote(folder, kind, dataset=DATA, **rule):
    model = kind(map_for(dataset), classes=range(10), **rule)
    write_report(run(dataset, model, folder, RunSettings(undefended=False)))
    return folder


# What a forger can do


def sign(folder, edit=None):
    """Every digest anew: of the base classifiers in model.json and in the blocks, and of all files in the manifest."""
    record = folder / "models" / "model.json"
    if record.exists():
        model = read_record(record)
        model["files"] = _digests(folder / "models", model["files"])
        write_record(record, model)
    for block in (folder / "votes").glob("block-*.npz"):
        arrays, facts = open_arrays(block)
        if facts.get("members") is None:
            continue
        members = folder / "models" / members_file(folder / "models", facts["first_subset"] // 64)
        if members.exists():
            write_arrays(block, arrays, {**facts, "members": sha256_of(members)})
    manifest = read_record(folder / "manifest.json")
    if edit:
        edit(manifest)
    if isinstance(manifest["files"], dict):
        manifest["files"] = _digests(folder, manifest["files"])
    write_record(folder / "manifest.json", manifest)


def _digests(folder, stated):
    return {name: sha256_of(folder / name) if (folder / name).is_file() else digest for name, digest in stated.items()}


def edited(change):
    """The manifest, changed."""
    return lambda folder: sign(folder, change)


def record(name, change):
    """A JSON file of the run, changed."""

    def forge(folder):
        said = read_record(folder / name)
        change(said)
        write_record(folder / name, said)

    return forge


def archive(name, change):
    """The arrays of an npz file and what it says about itself, changed."""

    def forge(folder):
        held, said = open_arrays(folder / name)
        held = {key: array.copy() for key, array in held.items()}
        change(held, said)
        write_arrays(folder / name, held, said)

    return forge


def facts(change):
    """What the certificate says about itself, changed."""
    return archive("certificate.npz", lambda held, said: change(said))


def arrays(change):
    """The arrays of the certificate, changed."""
    return archive("certificate.npz", lambda held, said: change(held))


def model(change):
    """The record of the kept base classifiers or voters, changed."""
    return record("models/model.json", change)


def kept_voters(change):
    """The voters that were kept, changed."""
    return archive("models/voters.npz", lambda held, said: change(held))


def in_turn(*forged):
    def forge(folder):
        for one in forged:
            one(folder)

    return forge


def both(of_manifest, of_certificate):
    return in_turn(facts(of_certificate), edited(of_manifest))


def members(change):
    """The kept base classifiers, changed."""

    def forge(folder):
        path = folder / "models" / members_file(folder / "models", 0)
        save_members(path, change(load_members(path)))

    return forge


def ensemble(make_changes, *, recertify=True, digests=False, also=lambda manifest: None):
    """Votes, spread, classes, split, premises … changed in every file, and certified by poisonproof itself.

    ``make_changes`` gives the new values from the old votes; with ``digests`` the subset digests are computed anew.
    """

    def forge(folder):
        old, certificate = Votes.load(folder / "votes.npy"), Certificate.load(folder / "certificate.npz")
        names = ("matrix", "spread", "classes", "split", "classes_inferred", "premises", "rankings")
        known = {name: getattr(old, name) for name in names}
        for name in ("matrix", "rankings"):
            known[name] = None if known[name] is None else np.array(known[name])
        votes = Votes(**(known | make_changes(old)))
        _write_votes(folder, votes)
        made = certify(votes) if recertify else replace(certificate, spread=votes.spread, premises=votes.premises)
        replace(made, origin=certificate.origin).save(folder / "certificate.npz")
        if (folder / "models").exists():
            model(lambda record: _describe_model(record, votes, digests))(folder)
        right = int((made.labels == DATA.test.labels[: votes.n_test]).sum()) if votes.n_test <= 40 else None

        def manifest(there):
            _describe(there, votes, certificate)
            if right is not None and recertify and "schema" not in there["settings"]:
                there["clean_accuracy"] = right / votes.n_test
                there["majority_share"], there["balanced_accuracy"] = _by_label(
                    made.labels, DATA.test.labels[: votes.n_test]
                )
            also(there)

        sign(folder, manifest)
        facts(lambda said: said["origin"].update(threat_model=threat_model(votes.split)))(folder)

    return forge


def _by_label(answers, truth):
    """The share of the most frequent label, and the mean over labels of how many are answered right."""
    labels, counts = np.unique(truth, return_counts=True)
    return float(counts.max() / len(truth)), float(
        np.mean([(answers[truth == label] == label).mean() for label in labels])
    )


def _write_votes(folder, votes):
    votes.save(folder / "votes.npy")
    votes.spread.save(folder / "spread.npz")
    said = votes.matrix if votes.rankings is None else votes.rankings
    for path in (folder / "votes").glob("*.npz"):
        held, about = open_arrays(path)
        width = held["votes"].shape[1]
        part = said[:, about["first_subset"] :][:, :width] if "first_subset" in about else said
        write_arrays(path, {**held, "votes": part}, about)


def _describe_model(record, votes, digests):
    sizes = np.zeros(votes.spread.n_subsets, int)
    np.add.at(sizes, votes.spread.as_table(), np.array(record["partition_sizes"])[:, None])
    record |= {
        "spread": votes.spread.as_dict(),
        "split": votes.split.as_dict(),
        "premises": to_records(votes.premises),
        "subset_sizes": sizes.tolist(),
        "classes": labels_to_json(votes.classes),
        "classes_inferred": votes.classes_inferred,
    }
    if digests:
        given = None if votes.classes_inferred else votes.classes.tolist()
        again = FiniteAggregationClassifier(GaussianNB(), spread=votes.spread, split=votes.split, classes=given)
        record["subset_digests"] = prepare(again, DATA.train.X, DATA.train.labels).digests.tobytes().hex()


def _describe(there, votes, certificate):
    there["settings"] |= {
        "k": votes.spread.k,
        "d": votes.spread.d,
        "spread_digest": votes.spread.digest,
        "split": votes.split.as_dict(),
        "classes": votes.classes.tolist(),
    }
    there |= {
        "premises": to_records(votes.premises),
        "threat_model": threat_model(votes.split),
        "unit": "contributors" if votes.split.kind == "group" else "training samples",
        "n_test": votes.n_test,
    }


def premise(what, **changes):
    """The premises of the votes with one of them changed."""
    return lambda votes: {
        "premises": [replace(given, **changes) if given.code == what else given for given in votes.premises]
    }


def other_spread(shifts):
    def change(votes):
        spread = Spread(N, shifts)
        return {"spread": spread, **premise("spread", value=spread.facts)(votes)}

    return change


def other_split(kind):
    def change(votes):
        split = replace(votes.split, kind=kind)
        return {"split": split, **premise("split", value=split.facts)(votes)}

    return change


def other_votes(change):
    """Rankings with other first places, and the votes that they make."""

    def changes(votes):
        ranked = np.array(votes.rankings)
        change(ranked)
        return {"matrix": ranked[..., 0].copy(), "rankings": ranked}

    return changes


def vote_for(ranked, t, i, code):
    """Put a class first in one ranking."""
    rest = [place for place in ranked[t, i].tolist() if place != code]
    ranked[t, i] = [code, *rest][: ranked.shape[2]]


def all_right(ranked):
    for t, label in enumerate(DATA.test.labels):
        for i in range(ranked.shape[1]):
            vote_for(ranked, t, i, int(label))


def exchange(array, one, other, axis=1):
    places = np.arange(array.shape[axis])
    places[[one, other]] = other, one
    array[...] = np.take(array, places, axis)


def more_rows(votes):
    best = np.argsort(-votes.counts().max(axis=1), kind="stable")[:10]
    rows = np.concatenate([np.arange(votes.n_test), best])
    return {"matrix": np.array(votes.matrix)[rows], "rankings": np.array(votes.rankings)[rows]}


def renamed_classes(names):
    def change(votes):
        return {"classes": names, **premise("classes", value=list(names))(votes)}

    return change


def one_more_class(votes):
    n, width = 11, votes.rankings.shape[2]
    ranked = np.full((*votes.rankings.shape[:2], n), n, np.uint8)
    ranked[..., :width] = np.where(np.array(votes.rankings) == width, n, votes.rankings)
    return {"matrix": ranked[..., 0].copy(), "rankings": ranked, **renamed_classes(list(range(n)))(votes)}


def partition(change):
    return array_file("split.npy", change)


def exchanged_samples(held):
    other = int(np.flatnonzero(held != held[0])[0])
    held[[0, other]] = held[[other, 0]]


def spread_of_the_certificate(folder):
    certificate = Certificate.load(folder / "certificate.npz")
    replace(certificate, spread=Spread(N, (0, 1))).save(folder / "certificate.npz")


def unbalanced(folder):
    table = Spread(N, (0, 1)).as_table().tolist()
    table[0] = [3, 4]
    facts(lambda said: said.update(spread={"n_subsets": N, "table": table}))(folder)


def array_file(name, change):
    """An npy file, changed."""

    def forge(folder):
        held = np.load(folder / name)
        change(held)
        write_whole(folder / name, lambda file: np.save(file, held))

    return forge


def raw_votes(change):
    """A vote matrix that poisonproof itself would not write."""

    def forge(folder):
        matrix = change(np.load(folder / "votes.npy"))
        write_whole(folder / "votes.npy", lambda file: np.save(file, matrix))
        digest = sha256_of(folder / "votes.npy")
        record("votes.json", lambda said: said["matrix"].update(sha256=digest))(folder)

    return forge


def beyond(matrix):
    matrix[0, 0] = 99
    return matrix


def rankings_alone(change):
    """Rankings changed in their file and in the blocks, while the votes stay."""

    def forge(folder):
        array_file("votes.rankings.npy", change)(folder)
        digest, ranked = sha256_of(folder / "votes.rankings.npy"), np.load(folder / "votes.rankings.npy")
        record("votes.json", lambda said: said["rankings"].update(sha256=digest))(folder)
        archive(BLOCK, lambda held, said: held.update(votes=ranked))(folder)

    return forge


def other_first_place(ranked):
    ranked[2, 5, [0, 1]] = ranked[2, 5, [1, 0]]


def members_of_another_run(kept):
    other = FiniteAggregationClassifier(GaussianNB(), k=5, d=2, classes=range(10))
    return other.fit(DIGITS.train.X[300:600], DIGITS.train.labels[300:600]).members_


def kept_learner(folder):
    learner = dumped(GaussianNB(var_smoothing=0.1))
    write_whole(folder / "models" / "estimator.skops", lambda file: file.write(learner))


OTHER_LEARNER = "GaussianNB(var_smoothing=0.1)"


def relabelled_learner(folder):
    ensemble(premise("learner", value=OTHER_LEARNER))(folder)
    facts(lambda said: said["origin"].update(learner=OTHER_LEARNER))(folder)
    sign(folder, lambda manifest: manifest["settings"].update(learner=OTHER_LEARNER))


def relabelled_and_kept_learner(folder):
    kept_learner(folder)
    relabelled_learner(folder)
    again = FiniteAggregationClassifier(GaussianNB(var_smoothing=0.1), k=5, d=2, classes=range(10))
    digests = prepare(again, DATA.train.X, DATA.train.labels).digests
    model(lambda record: record.update(subset_digests=digests.tobytes().hex()))(folder)


def pooled_file(name, change):
    """One of the mapped files of pooled base classifiers, changed, with the digest that the pool states of it."""

    def forge(folder):
        path = folder / "models" / name
        held = change(np.load(path))
        write_whole(path, lambda file: np.save(file, held))
        archive(POOL, lambda held, about: about["files"].update({name: sha256_of(path)}))(folder)

    return forge


@partial(archive, POOL)
def pooled_codes(pool, about):
    starts = np.concatenate(([0], np.cumsum(pool["n_codes"].astype(np.int64))))
    for start, stop in pairwise(starts):
        pool["codes"][start:stop] = pool["codes"][start:stop][::-1].copy()


def schema_everywhere(folder):
    path = folder / "schema.json"
    schema = json.loads(path.read_text())
    schema["delimiter"] = ";"
    write_text(path, json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
    sign(folder, lambda manifest: manifest["settings"].update(schema=schema))


def other_digest(name, digest):
    def change(settings):
        settings["dataset"].pop(name)
        if digest:
            settings["dataset"][name] = digest

    return both(lambda manifest: change(manifest["settings"]), lambda said: change(said["origin"]))


OTHER_CONTRIBUTORS = {"groups": "0" * 64}
with_contributors = in_turn(
    ensemble(other_split("group")),
    both(
        lambda manifest: manifest["settings"]["dataset"].update(OTHER_CONTRIBUTORS),
        lambda said: said["origin"]["dataset"].update(OTHER_CONTRIBUTORS),
    ),
)


def beside(name, text):
    return lambda folder: write_text(folder / name, text)


def linked(name):
    """A file or folder of the run moved away, with a link in its place."""

    def forge(folder):
        elsewhere = folder.parent / f"{folder.name}-elsewhere"
        (folder / name).rename(elsewhere)
        (folder / name).symlink_to(elsewhere)

    return forge


def packed_certificate(folder):
    held, said = open_arrays(folder / "certificate.npz")
    body = io.BytesIO()
    np.savez_compressed(body, facts=np.frombuffer(json.dumps(said, ensure_ascii=False).encode(), np.uint8), **held)
    seal_whole(folder / "certificate.npz", body.getvalue())


def seal_whole(path, body):
    """A zip archive with the seal that poisonproof puts at the end of its own."""
    seal = b"sha256 "
    whole = body[:-2] + (len(seal) + 64).to_bytes(2, "little") + seal
    path.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())


# Where samples vote


COUNTS = {"ballots": "ballots.npz", "neighbours": "neighbours.npz"}


def counts(change, *, recertify=False):
    """What samples said, changed in its file and in the blocks, and certified by poisonproof itself if wanted."""

    def forge(folder):
        (path,) = [folder / name for name in COUNTS.values() if (folder / name).exists()]
        held, said = open_arrays(path)
        held = {name: array.copy() for name, array in held.items()}
        change(held, said)
        write_arrays(path, held, said)
        votes, own = ("near", "self_near") if path.stem == "ballots" else ("order", "first")
        for block in (folder / "votes").glob("*.npz"):
            write_arrays(block, {"votes": held[votes], "own": held[own]}, open_arrays(block)[1])
        if recertify:
            stated = Certificate.load(folder / "certificate.npz")
            replace(certify(Ballots.load(path)), origin=stated.origin).save(folder / "certificate.npz")

    return forge


def another_runner_up(held):
    held["runner_up"][0] = next(c for c in range(10) if c not in (held["runner_up"][0], held["prediction"][0]))


def election(**changes):
    """The rule of the vote in the settings of the manifest."""
    return edited(lambda manifest: manifest["settings"]["election"].update(changes))


def kept_map(folder):
    other = dumped(VectorFeatures(unit=1.0))
    write_whole(folder / "models" / "map.skops", lambda file: file.write(other))


def of_samples(change, of_settings=lambda manifest: None):
    """What counts, certificate and model say alike, changed in each of them, and the manifest."""

    def forge(folder):
        (name,) = [name for name in COUNTS.values() if (folder / name).exists()]
        for place in (name, "certificate.npz"):
            archive(place, lambda held, said: change(said))(folder)
        model(change)(folder)
        sign(folder, of_settings)

    return forge


def samples_state(change):
    """Premises of samples that vote, changed in every file."""

    def changed(said):
        said["premises"] = change([dict(premise) for premise in said["premises"]])

    return of_samples(changed, changed)


def reworded(what, value):
    return samples_state(lambda premises: [one | {"value": value} if one["code"] == what else one for one in premises])


def samples_are_read(**changes):
    """The split, by which samples are read, changed in every file."""
    return of_samples(
        lambda said: said["split"].update(changes), lambda there: there["settings"]["split"].update(changes)
    )


def reworded_map(folder):
    value = map_in_words(read_record(folder / "manifest.json")["settings"]["election"])
    reworded("map", value)(folder)
