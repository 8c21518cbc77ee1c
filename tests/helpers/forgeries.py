"""Forgeries: one table of what a forger may do to a run, and what `poisonproof verify` makes of it.

Each kind is tried three times: with the files alone, with the data given, and with every base classifier trained again.
It is caught, or the verdict names what it did not check. tests/verification/test_forgeries.py holds the checker to
this table, and docs/fill_verify.py prints it.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

# fmt: off
# isort: off
from forging import (
    BLOCK, N, all_right, another_runner_up, archive, arrays, beside, beyond, both, counts, edited, election, ensemble,
    exchange, exchanged_samples, facts, in_turn, kept_learner, kept_map, kept_voters, linked, members,
    members_of_another_run, model, more_rows, one_more_class, other_digest, other_first_place, other_split,
    other_spread, other_votes, packed_certificate, partition, pooled_codes, pooled_file, premise, rankings_alone,
    raw_votes, record, relabelled_and_kept_learner, relabelled_learner, renamed_classes, reworded, reworded_map,
    samples_are_read, samples_state, schema_everywhere, spread_of_the_certificate, unbalanced, vote_for,
    with_contributors,
)
# isort: on
# fmt: on

# fmt: on
from poisonproof.ballots import verify as of_samples
from poisonproof.core.certify import reachable_premise
from poisonproof.premises import Premise
from poisonproof.verification import fields as words

COLUMNS = ("files", "data", "retrained")


@dataclass(frozen=True)
class Caught:
    """The verdict is NOT VERIFIED, and says this (a regular expression)."""

    words: str


@dataclass(frozen=True)
class Unchecked:
    """The verdict is VERIFIED or CONSISTENT, and names this among what it did not check."""

    words: str


@dataclass(frozen=True)
class Forgery:
    """One kind: what a person reads, what is done to which run, and what each column makes of it."""

    name: str
    forge: Callable[[Path], object]
    files: Caught | Unchecked
    data: Caught | Unchecked
    retrained: Caught | Unchecked
    run: str = "plain"


def caught(name, forge, said, run="plain"):
    """Found in the files alone."""
    return Forgery(name, forge, Caught(said), Caught(said), Caught(said), run)


def with_data(name, forge, not_checked, said, run="plain"):
    """Found once the data are given."""
    return Forgery(name, forge, Unchecked(not_checked), Caught(said), Caught(said), run)


def by_retraining(name, forge, not_checked, said, run="plain"):
    """Found by training base classifiers again, and by nothing else."""
    return Forgery(name, forge, Unchecked(not_checked), Unchecked(not_checked), Caught(said), run)


def never(name, forge, not_checked, run="plain"):
    """The maker's word, whatever is given; the verdict says so."""
    return Forgery(name, forge, *[Unchecked(not_checked)] * 3, run)


def step(name, row, by):
    return arrays(lambda a: a[name].__setitem__(row, (a[name][row] + by) % 10))


ASKED = "as kept, asked again, votes otherwise"
# fmt: off
FORGERIES = (
    # the certificate
    caught("one radius raised by 1", arrays(lambda a: a["radius"].__setitem__(17, a["radius"][17] + 1)),
        "radius of test sample 17 is stated"),
    caught("every radius raised by 1", arrays(lambda a: a["radius"].__iadd__(1)), "40 of 40 are wrong"),
    caught("one radius lowered", arrays(lambda a: a["radius"].__setitem__(a["radius"].argmax(), 0)),
        "is stated as 0, but its votes give"),
    caught("a prediction", step("prediction", 5, 1), "the prediction of test sample 5 is stated as"),
    caught("a margin", step("margin", 6, 1), "the margin of test sample 6 is stated as"),
    caught("a runner-up", step("runner_up", 7, 3), "the runner-up of test sample 7 is stated as"),
    caught("a certificate about fewer test samples", arrays(lambda a: a.update({k: v[:-1] for k, v in a.items()})),
        "does not hold .* of 40 test samples"),
    caught("an array too many", arrays(lambda a: a.update(exact=a["radius"] > 0)), "does not hold"),
    caught("method called “tight”", both(lambda m: m.update(method="tight"), lambda f: f.update(method="tight")),
        "does not hold exact"),
    never("a method nobody knows", both(lambda m: m.update(method="oracle"), lambda f: f.update(method="oracle")),
        words.METHOD),
    caught("the method in the manifest alone", edited(lambda m: m.update(method="tight")),
        'method of manifest.json is stated as "tight"'),
    caught("unit of the certificate", facts(lambda f: f.update(unit="contributors")),
        "unit of certificate.npz is stated as"),
    caught("threat model of the certificate",
        facts(lambda f: f["origin"]["threat_model"].update({"flip the label of a training sample": 0})),
        "threat_model of the origin"),
    caught("learner of the certificate", facts(lambda f: f["origin"].update(learner="ResNet()")),
        "learner of the origin"),
    caught("a packed certificate", packed_certificate, "holds packed arrays"),
    # the spread
    caught("spread of the certificate alone", spread_of_the_certificate, "disagree on 'spread'"),
    caught("spread everywhere, radii kept", ensemble(other_spread((0, 1, 2, 3)), recertify=False),
        "but its votes give"),
    caught("a spread that is not balanced", unbalanced, "not balanced"),
    caught("k and d of the manifest", edited(lambda m: m["settings"].update(k=10, d=1)),
        "k of manifest.json, settings is stated as 10"),
    caught("k of the certificate", facts(lambda f: f.update(k=10)), "k of certificate.npz is stated as 10"),
    caught("digest of the spread", edited(lambda m: m["settings"].update(spread_digest="0" * 64)),
        "spread_digest of manifest.json, settings is stated"),
    with_data("spread swapped to d = 1 everywhere, certified anew", ensemble(other_spread((0,))), words.TRAINING,
        "subset_digests is not what the data"),
    by_retraining("the same, with subset digests computed anew", ensemble(other_spread((0,)), digests=True),
        words.TRAINING, "trained again, votes otherwise"),
    # classes
    caught("classes of the certificate alone", facts(lambda f: f["classes"]["values"].__setitem__(9, 11)),
        "disagree on 'classes'"),
    caught("a class named twice", facts(lambda f: f["classes"]["values"].__setitem__(0, 1)), "names a label twice"),
    caught("classes of the manifest alone", edited(lambda m: m["settings"].update(classes=list(range(1, 11)))),
        "disagree on 'classes'"),
    caught("“inferred” in the certificate alone", facts(lambda f: f.update(classes_inferred=True)),
        "disagree on 'classes_inferred'"),
    with_data("a class renamed everywhere", ensemble(renamed_classes([*range(9), 11])), words.DATA,
        "300 training samples, but"),
    with_data("two classes exchanged everywhere", ensemble(renamed_classes([1, 0, *range(2, 10)])), words.TRAINING,
        "the training labels at hand give other classes"),
    with_data("a class added that nobody votes for", ensemble(one_more_class), words.MODEL_RECORD,
        "subset_digests is not what the data"),
    caught("the invented class dropped, against the premises", ensemble(lambda v: {"classes_inferred": False}),
        "the premises say the opposite", "inferred"),
    never("the invented class dropped, and its premise too",
        ensemble(lambda v: {"classes_inferred": False, **premise("classes", declared=True)(v)}), words.BEFOREHAND,
        "inferred"),
    # votes and rankings
    caught("votes of other test samples, radii kept",
        ensemble(other_votes(lambda r: exchange(r, 0, 1, 0)), recertify=False), "but its votes give|was altered"),
    with_data("one vote, certified anew", ensemble(other_votes(lambda r: vote_for(r, 3, 4, 7))), words.VOTES, ASKED),
    with_data("two base classifiers’ votes exchanged, certified anew",
        ensemble(other_votes(lambda r: exchange(r, 2, 8))), words.VOTES, ASKED),
    with_data("every vote made right, certified anew", ensemble(other_votes(all_right)), words.VOTES, ASKED),
    caught("a block of other votes", archive(BLOCK, lambda held, said: other_first_place(held["votes"])),
        "block-00000.npz holds other"),
    caught("a block of other test samples", archive(BLOCK, lambda held, said: said.update(first_sample=1)),
        "block-00000.npz holds other"),
    never("a failure invented in a block",
        archive(BLOCK, lambda held, said: said.update(failures={"3": "ValueError: made up"})), words.BLOCKS),
    caught("an abstention on a subset that is not empty", ensemble(other_votes(lambda r: r.__setitem__((4, 3), 10))),
        "base classifier 3 abstains"),
    caught("a vote for no class", raw_votes(beyond), "holds other|neither one of 10 classes"),
    caught("votes that are no whole numbers", raw_votes(lambda m: m.astype(np.float64)), "not a table of class codes"),
    with_data("the last test samples left out everywhere",
        ensemble(lambda v: {"matrix": np.array(v.matrix)[:-5], "rankings": np.array(v.rankings)[:-5]}), words.DATA,
        "40 test samples at hand, but the votes are about 35"),
    with_data("well-certified test samples counted twice",
        ensemble(more_rows, also=lambda m: m.update(clean_accuracy=0.5)), words.DATA,
        "40 test samples at hand, but the votes are about 50"),
    with_data("lower places of all rankings", rankings_alone(lambda r: r.__setitem__((..., [1, 2]), r[..., [2, 1]])),
        words.VOTES, "asked again, ranks otherwise"),
    caught("a ranking that does not begin with the vote", rankings_alone(other_first_place),
        "does not begin with the vote"),
    caught("rankings that no record names", record("votes.json", lambda said: said.pop("rankings")),
        r"does not name votes\.rankings\.npy"),
    # kept base classifiers
    with_data("class codes of all kept members reversed",
        members(lambda kept: [replace(one, codes=one.codes[::-1].copy()) for one in kept]), words.MEMBERS, ASKED),
    with_data("two kept members exchanged",
        members(lambda kept: [replace(kept[1], index=0), replace(kept[0], index=1), *kept[2:]]), words.MEMBERS, ASKED),
    with_data("two kept members exchanged with their numbers", members(lambda kept: [kept[1], kept[0], *kept[2:]]),
        words.MEMBERS, "stands in the place of number 0"),
    with_data("kept members of another run", members(members_of_another_run), words.MEMBERS, ASKED),
    with_data("a kept member that always says 3",
        members(lambda kept: [replace(kept[0], model=None, fallback=3), *kept[1:]]), words.MEMBERS, ASKED),
    with_data("a kept member left out", members(lambda kept: kept[:-1]), words.MEMBERS,
        "9 base classifiers were kept, but 10 vote"),
    with_data("another learner kept", kept_learner, words.MEMBERS, "the learner that was kept is"),
    with_data("the learner relabelled everywhere", relabelled_learner, words.TRAINING, "the learner that was kept is"),
    by_retraining("the learner relabelled and kept", relabelled_and_kept_learner, words.TRAINING,
        "trained again, votes otherwise"),
    caught("a member file that the record does not name",
        lambda folder: shutil.copy(folder / "models/members-00000.skops", folder / "models/members-00009.skops"),
        r"does not name members-00009\.skops"),
    caught("the learner’s file left out of the record", model(lambda m: m["files"].pop("estimator.skops")),
        r"does not name estimator\.skops"),
    caught("a model file elsewhere", model(lambda m: m["files"].update({"../votes.npy": "0" * 64})),
        "which is no file of a model"),
    caught("subset sizes", model(lambda m: m["subset_sizes"].__setitem__(0, 0)),
        "subset_sizes of models/model.json is stated as"),
    with_data("subset digests", model(lambda m: m.update(subset_digests="00" * 16 * N)), words.MODEL_RECORD,
        "subset_digests is not what the data"),
    with_data("number of dropped training samples", model(lambda m: m.update(n_dropped_=3)), words.MODEL_RECORD,
        "n_dropped_ is not what the data"),
    with_data("number of features of the model", model(lambda m: m.update(n_features_in_=65)), words.MODEL_RECORD,
        "n_features_in_ is not what the data"),
    with_data("pooled members: coefficients negated", pooled_file("members-coefficients.npy", lambda a: -a),
        words.MEMBERS, ASKED, "pooled"),
    with_data("pooled members: features of other samples",
        pooled_file("members-features.npy", lambda a: a[::-1].copy()), words.MEMBERS, ASKED, "pooled"),
    with_data("pooled members: class codes reversed", pooled_codes, words.MEMBERS, ASKED, "pooled"),
    caught("pooled members called plain", edited(lambda m: m["settings"].update(pooled=None)), "pooled is stated as",
        "pooled"),
    never("kept members taken away", lambda folder: shutil.rmtree(folder / "models"), "that are gone"),
    # the split
    with_data("two training samples change partitions", partition(exchanged_samples), words.SPLIT,
        "training sample 0 belongs to partition"),
    caught("a partition that is none", partition(lambda p: p.__setitem__(0, N)), "a partition that is not in 0 … 9"),
    caught("the split of the settings alone", edited(lambda m: m["settings"]["split"].update(kind="group")),
        "the premise 'split' states"),
    caught("the split relabelled “group” everywhere", ensemble(other_split("group")), "no digest of contributors"),
    never("the same, with a digest of contributors", with_contributors, words.SPLIT),
    with_data("a split by contributor relabelled “content”", ensemble(other_split("content")), words.SPLIT,
        "belongs to partition", "grouped"),
    # premises, schema, hold-out
    caught("a premise removed", ensemble(lambda v: {"premises": [one for one in v.premises if one.code != "learner"]}),
        "the premise 'learner' is missing"),
    caught("a premise called declared", ensemble(premise("number-of-features", declared=True)),
        "the premise 'number-of-features' is stated with another origin"),
    caught("premises of the manifest alone", edited(lambda m: m["premises"].pop()), "disagree on 'premises'"),
    caught("a premise that only some partitions can be poisoned",
        ensemble(lambda v: {"premises": [*v.premises, reachable_premise(np.arange(N // 2), N)]}),
        "a run reckons with all partitions"),
    never("a premise added",
        ensemble(lambda v: {"premises": [*v.premises, Premise("blessing", "by the maker", declared=True)]}),
        "premises that this checker does not know ('blessing')"),
    caught("what was fitted before the split", ensemble(premise("fitted-before-the-split", value="nothing at all")),
        "the premise 'fitted-before-the-split' states \"nothing at all\""),
    never("where base classifiers were made", edited(lambda m: m.update(made_in=[[0, len(m["made_in"])]])),
        "where each base classifier was made"),
    with_data("how test samples were held out", ensemble(premise("test-samples", value="those of the file")),
        words.TEST_SAMPLES, "the premise 'test-samples' states \"those of the file\"", "table"),
    caught("the schema of the manifest alone",
        edited(lambda m: m["settings"]["schema"].update(classes=["no", "yes", "maybe"])),
        r"schema\.json is not the schema", "table"),
    with_data("the schema everywhere", schema_everywhere, words.SCHEMA_READ, "read by another schema", "table"),
    # what else the manifest says
    caught("an accuracy between two counts", edited(lambda m: m.update(clean_accuracy=m["clean_accuracy"] + 0.001)),
        "clean_accuracy of manifest.json is stated as"),
    with_data("an accuracy of one more",
        edited(lambda m: m.update(clean_accuracy=(round(m["clean_accuracy"] * 40) + 1) / 40)), words.ACCURACY,
        "are right"),
    never("the undefended accuracy", edited(lambda m: m.update(undefended_accuracy=0.999)), "the undefended accuracy"),
    never("the notes", edited(lambda m: m.update(notes=["nothing was left out"])), "the notes"),
    never("the timings", edited(lambda m: m.update(seconds={"prepare": 0.0})), "the timings"),
    never("the change log", edited(lambda m: m["changes"].append({"n_train": 1})), "the change log"),
    never("the environment",
        both(lambda m: m["environment"].update(numpy="9.9"), lambda f: f["origin"]["environment"].update(numpy="9.9")),
        "the environment"),
    caught("the environment of the manifest alone", edited(lambda m: m["environment"].update(numpy="9.9")),
        "environment of the origin"),
    never("how the data were read", edited(lambda m: m.update(recipe={"data": "other.csv", "read": {}})),
        "how the data are said to have been read"),
    never("the name of the data set",
        both(
            lambda m: m["settings"]["dataset"].update(name="mnist"),
            lambda f: f["origin"]["dataset"].update(name="mnist")),
        words.NAME),
    with_data("a digest of the data", other_digest("x_train", "0" * 64), words.DATA,
        "the x_train at hand is not the one"),
    with_data("a digest of the data left out", other_digest("x_test", None), words.DATA,
        "the x_test at hand is not the one"),
    caught("the threat model", edited(lambda m: m["threat_model"].update({"change a test sample": 1})),
        "threat_model of manifest.json: change a test sample is stated as 1"),
    caught("the unit of the manifest", edited(lambda m: m.update(unit="contributors")),
        "unit of manifest.json is stated as"),
    caught("the number of training samples", edited(lambda m: m.update(n_train=60_000)),
        "n_train of manifest.json is stated as 60000"),
    caught("the number of test samples", edited(lambda m: m.update(n_test=41)),
        "n_test of manifest.json is stated as 41"),
    caught("empty subsets", edited(lambda m: m.update(empty_subsets=1)),
        "empty_subsets of manifest.json is stated as 1"),
    caught("“votes only”", edited(lambda m: m["settings"].update(votes_only=True)),
        "votes_only of manifest.json, settings is stated as"),
    caught("“no rankings”", edited(lambda m: m["settings"].update(rankings=None)), "rankings is stated as"),
    never("an entry that nobody knows", edited(lambda m: m.update(blessed_by="the maker")),
        "entries of manifest.json that this checker does not know ('blessed_by')"),
    caught("a run that is not complete", edited(lambda m: m.update(status="running")), "not complete"),
    caught("another format", edited(lambda m: m.update(format="poisonproof run 9")), "of format 'poisonproof run 9'"),
    caught("settings that are none", edited(lambda m: m.update(settings=[])), "could not be followed"),
    # files
    caught("a path out of the run", edited(lambda m: m["files"].update({"../../etc/passwd": "0" * 64})),
        "which is no file of a run"),
    caught("a file left out", edited(lambda m: m["files"].pop("votes.npy")), r"does not name votes\.npy"),
    caught("a link in place of the votes", linked("votes.npy"), r"votes\.npy is a link"),
    caught("a link in place of the manifest", linked("manifest.json"), r"manifest\.json is a link"),
    caught("a link in place of a folder", linked("models"), "models is a link"),
    never("another report", beside("report.html", "<h1>VERIFIED</h1>"), words.WHAT_THE_REPORT_SAYS),
    never("the report taken away", lambda folder: (folder / "report.html").unlink(), "gone ('report.html')"),
    never("a report of which the manifest has no digest", edited(lambda m: m["files"].pop("report.html")),
        "report.html"),
    never("ballots: another report", beside("report.html", "<h1>VERIFIED</h1>"), words.WHAT_THE_REPORT_SAYS, "ballots"),
    never("another audit", beside("audit.json", "{}"), "audit.json"),
    never("a file more", beside("certificate-of-honour.txt", "trust me"), "('certificate-of-honour.txt')"),
    # where samples vote
    caught("ballots: a radius of 99", arrays(lambda a: a["radius"].__setitem__(0, 99)),
        "radius of test sample 0 is stated as 99", "ballots"),
    caught("ballots: a radius against flips of 99", arrays(lambda a: a["radius_against_label_flip"].__setitem__(0, 99)),
        "radius-against-label-flip of test sample 0 is stated as 99", "ballots"),
    caught("ballots: a runner-up", arrays(another_runner_up), "runner-up of test sample 0", "ballots"),
    caught("ballots: a radius called exact that is not known to be",
        in_turn(counts(lambda h, s: h["self_near"].fill(False)), arrays(lambda a: a["exact"].__setitem__(0, True))),
        "is called exact although", "ballots"),
    with_data("ballots: one more near, certified anew",
        counts(lambda h, s: h["near"][3].__setitem__(h["near"][3].argmin(), h["near"][3].min() + 1), recertify=True),
        of_samples.RECOUNT, "the votes on test sample 3 are not what the data give", "ballots"),
    caught("ballots: the limit of what is near", counts(lambda h, s: s["rule"].update(limit=1)), "limit", "ballots"),
    caught("ballots: the threshold of the settings", election(near=2.2), "the rule of the votes", "ballots"),
    caught("ballots: class sizes of the settings", election(class_sizes=[[label, 9] for label in range(10)]),
        "class sizes", "ballots"),
    caught("neighbours: their number in the settings", election(n_neighbors=9), "n_neighbors", "neighbours"),
    caught("ballots: the map of the settings", election(map={"name": "numbers", "unit": 15.0}), "the premise 'map",
        "ballots"),
    with_data("ballots: the map of the settings and its premise",
        in_turn(election(map={"name": "numbers", "unit": 15.0}), reworded_map), of_samples.RECOUNT,
        "are not what the data give", "ballots"),
    caught("ballots: an entry of the rule that the kept model does not have", election(blessed=True),
        "parameters of models/model.json: blessed is stated as null", "ballots"),
    never("ballots: an entry of the rule that nobody knows",
        in_turn(lambda folder: shutil.rmtree(folder / "models"), election(blessed=True)),
        "entries of manifest.json, settings, election that this checker does not know ('blessed')", "ballots"),
    with_data("ballots: a feature of a kept voter", kept_voters(lambda held: held["rows"].__setitem__((0, 0), 9)),
        of_samples.KEPT_VOTERS, "the rows of the kept voters are not those of the data", "ballots"),
    with_data("ballots: rows of kept voters exchanged",
        kept_voters(lambda held: held["places"].__setitem__([0, 1], held["places"][[1, 0]])), of_samples.KEPT_VOTERS,
        "the places of the kept voters are not those of the data", "ballots"),
    caught("ballots: the threshold of the kept model", model(lambda m: m["parameters"].update(near=9.9)),
        r"parameters of models/model.json: near is stated as 9\.9", "ballots"),
    caught("neighbours: the number of neighbours of the kept model",
        model(lambda m: m["parameters"].update(n_neighbors=1)),
        "parameters of models/model.json: n_neighbors is stated as 1", "neighbours"),
    caught("ballots: the scale of the kept model", model(lambda m: m.update(steps_per_unit=1.0)),
        "steps_per_unit of models/model.json is stated as 1", "ballots"),
    caught("ballots: the classes of the kept model", model(lambda m: m["classes"]["values"].reverse()),
        "disagree on 'classes'", "ballots"),
    caught("ballots: the premises of the kept model", model(lambda m: m["premises"].pop()), "disagree on 'premises'",
        "ballots"),
    with_data("ballots: another map kept", kept_map, of_samples.KEPT_VOTERS, "the map that was kept is not the one",
        "ballots"),
    with_data("neighbours: another map kept", kept_map, of_samples.KEPT_VOTERS, "the map that was kept", "neighbours"),
    never("ballots: dropped samples of the kept model", model(lambda m: m.update(n_dropped_=3)), of_samples.OF_MODEL,
        "ballots"),
    caught("ballots: premises of the manifest alone", edited(lambda m: m["premises"].pop()), "disagree on 'premises'",
        "ballots"),
    caught("ballots: the premise about nearness", reworded("near", {"distance": 0.1, "squared_steps": 1}),
        "the premise 'near", "ballots"),
    caught("ballots: a premise stated twice",
        samples_state(lambda premises: [{"code": "classes", "value": ["any"], "declared": True}, *premises]),
        "the premise 'classes' is stated twice", "ballots"),
    with_data("ballots: the number of features", reworded("number-of-features", 3), of_samples.BEFOREHAND,
        "the premise 'number-of-features' states 3", "ballots"),
    never("ballots: a premise added",
        samples_state(lambda premises: [*premises, {"code": "blessing", "value": "by the maker", "declared": True}]),
        "premises that this checker does not know ('blessing')", "ballots"),
    never("ballots: an entry that nobody knows", edited(lambda m: m.update(blessed_by="the maker")),
        "entries of manifest.json that this checker does not know ('blessed_by')", "ballots"),
    never("ballots: an entry of the kept model that nobody knows", model(lambda m: m.update(blessed_by="the maker")),
        "entries of models/model.json that this checker does not know ('blessed_by')", "ballots"),
    with_data("ballots: the balanced accuracy", edited(lambda m: m.update(balanced_accuracy=0.999)), words.BALANCED,
        "balanced_accuracy is stated as 0.999", "ballots"),
    with_data("ballots: an accuracy of one less",
        edited(lambda m: m.update(clean_accuracy=m["clean_accuracy"] - 1 / 40)), words.ACCURACY, "are right",
        "ballots"),
    caught("ballots: the threat model",
        edited(lambda m: m["threat_model"].update({"flip the label of a training sample": 1})), "threat_model",
        "ballots"),
    caught("ballots: who votes, in words",
        both(
            lambda m: m["settings"].update(learner="ballots, map of the heavens"),
            lambda f: f["origin"].update(learner="ballots, map of the heavens")),
        "learner of manifest.json, settings is stated as", "ballots"),
    caught("ballots: the environment of the manifest alone", edited(lambda m: m["environment"].update(numpy="9.9")),
        "environment", "ballots"),
    caught("ballots: pooled members", edited(lambda m: m["settings"].update(pooled=True)), "pooled", "ballots"),
    caught("ballots: empty subsets", edited(lambda m: m.update(empty_subsets=3)), "empty_subsets", "ballots"),
    caught("ballots: where they were made", edited(lambda m: m.update(made_in=[[0, 3]])), "made_in", "ballots"),
    caught("ballots: the split of the counts alone", counts(lambda held, said: said["split"].update(dtype="uint8")),
        "disagree on 'split'", "ballots"),
    with_data("ballots: how samples are read, everywhere", samples_are_read(dtype="uint8"), of_samples.READ_AS,
        "samples are read as", "ballots"),
    with_data("contributors: the number of training samples", edited(lambda m: m.update(n_train=60_000)),
        of_samples.N_TRAIN, "n_train is stated as 60000", "contributors"),
    with_data("contributors: one more near, radii kept",
        counts(lambda held, said: held["near"].__setitem__((0, 0), 1 - held["near"][0, 0])), of_samples.RECOUNT,
        "are not what the data give|but the votes give", "contributors"),
    never("ballots: kept voters taken away", lambda folder: shutil.rmtree(folder / "models"), "are gone", "ballots"),
    never("ballots: the notes", edited(lambda m: m.update(notes=["nothing was left out"])), "the notes", "ballots"),
    never("ballots: a file more", beside("certificate-of-honour.txt", "trust me"), "certificate-of-honour", "ballots"),
)
# fmt: on
