"""poisonproof certify and split, for those who train elsewhere: index lists to train on, and radii for their votes.

`certify --shared`: what one attack on the whole test set leaves of the accuracy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof import registry
from poisonproof.cli import options, output
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from poisonproof import Certificate, CertifiedAccuracy, Votes
    from poisonproof.core.votes import Tallies
    from poisonproof.data.options import ReadOptions

EXAMPLES = {
    "certify": "Example: `poisonproof certify votes.npy --spread subsets.npz --classes 10 --labels y_test.npy`; "
    "`poisonproof certify runs/my/ballots.npz --against label_flip`; `poisonproof certify runs/digits --shared "
    "--attack-size 1,2,5`",
    "split": "Example: `poisonproof split train.npz --k 50 --d 16 --out subsets.npz`; "
    "`poisonproof split my.csv --label class --k 20 --d 1 --out subsets.npz`",
}
ATTACK_SIZES = "1,2,5,10"
DEFAULT_METHOD = "finite-aggregation"

CLASSES_INFERRED = "premise: the number of classes was read off the files (chosen from this data); give --classes"


def certify(
    votes: Annotated[
        Path,
        typer.Argument(
            help=".npy matrix (test samples, base classifiers) of class indices, or what samples said in a run, "
            "ballots.npz or neighbours.npz. With --shared also the directory of a run, which knows its own labels."
        ),
    ],
    spread: options.SpreadName = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", help=".npy with the class index of each test sample.")
    ] = None,
    classes: options.Classes = None,
    split: Annotated[str | None, typer.Option("--split", help="How the training set was split, if you know.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            autocompletion=options.one_of(("finite-aggregation", "dpa-bound", "tight", "run-off")),
            help="Of base classifiers: `finite-aggregation` (unless you say otherwise), `dpa-bound`, `tight` or "
            "`run-off`.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            autocompletion=options.one_of(("insert_remove", "insert", "remove", "label_flip", "modify")),
            help="What the attacker does, and radii count: `insert_remove` (unless you say otherwise), `insert` or "
            "`remove` alone, `label_flip`, `modify`.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Radii against being turned to this class, as a backdoor wants it."),
    ] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="How many test samples stay right when one attack faces them all.")
    ] = False,
    attack_size: options.AttackSizes = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", help="With --shared: seconds for each attack size.")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", help="With --shared: seed of the search for an attack.")] = 0,
    data_dir: options.DataDir = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the certificate as .npz.")] = None,
    json: options.Json = False,
) -> None:
    """Certify a vote matrix: prediction, runner-up, margin and radius of every test sample.

    With `--target LABEL`, the radius says how many poisons it takes at least until the prediction could become that
    class; within it the prediction may still become a third one.

    With `--shared`, two bounds for each attack size: what is proved for every attack of that size, and what the best
    attack found leaves. A time that runs out leaves them further apart, and as true.

    Column i must be base classifier i. Votes that poisonproof saved know their spread. Of votes made from subsets that
    `poisonproof split` wrote, that file holds spread and split (`--spread subsets.npz`). For any others the spread must
    be named, and is a premise, because a wrong one gives wrong radii. Rankings for `run-off` are read from
    NAME.rankings.npy beside NAME.npy, an array (test samples, base classifiers, classes) of classes from best to worst.

    Where training samples vote, a run keeps what they said in an .npz file, with the map and all other premises; their
    certificate (docs/proofs/ballots.md) is exact, and a radius for each kind of attack (`--against`) goes with it.
    """
    if not votes.exists():
        raise PoisonproofError(f"{votes}: No such file.", code="certify.missing")
    from poisonproof import certify
    from poisonproof.system.progress import watched

    if shared:
        for option, value in (("--target", target), ("--against", against), ("--split", split), ("--out", out)):
            if value is not None:
                raise PoisonproofError(
                    f"--shared asks about one attack on all test samples; leave {option} out.", code="options.conflict"
                )
        sizes = options.whole_numbers("--attack-size", attack_size or ATTACK_SIZES)
        tallies, truth = _with_labels(votes, labels, spread, classes, data_dir)
        _shared(tallies, truth, sizes, method or DEFAULT_METHOD, time_limit, seed, json)
        return
    if attack_size is not None:
        raise PoisonproofError(
            "--attack-size says how large the one attack of --shared is; give --shared too.", code="options.missing"
        )
    if target is not None and against is not None:
        raise PoisonproofError(
            "--target asks about samples inserted and removed; leave --against out, or --target.",
            code="options.conflict",
        )
    if votes.is_dir():
        raise PoisonproofError(
            f"{votes} is a folder; of a run, give its file: votes.npy, or, where samples vote, METHOD.npz.",
            code="file.kind",
        )
    matrix: Votes | Tallies
    if votes.suffix == ".npz":
        matrix = open_said(votes, {"--spread": spread, "--split": split, "--method": method}, classes)
    else:
        matrix = open_votes(votes, spread, labels, classes, split, rankings=method == "run-off")
    with progress_bar("certifying") as progress, watched(progress):
        wanted = None if target is None else options.named_class(target, matrix.classes)
        certificate = certify(matrix, method or DEFAULT_METHOD, target=wanted)  # type: ignore[call-overload]
    truth = open_labels(labels, matrix)
    if out:
        certificate.save(out)
    if target is not None:
        _print_target(certificate, truth, json)
    else:
        if against not in (None, "insert_remove"):  # whether radii against one kind of attack are exact is not claimed
            certificate = replace(certificate, radius=certificate.radius_against(against), exact=None)
        _print(certificate, truth, json, against)
    if not json:
        for premise in certificate.premises:
            output.note(f"premise: {premise}")


def open_said(path: Path, given: dict[str, str | None], classes: str | None) -> Tallies:
    """What samples said, as a run kept it; it knows all that options could say of it."""
    from poisonproof.core.votes import load_tallies

    for option in (option for option, value in given.items() if value is not None):
        raise PoisonproofError(
            f"{option} is about base classifiers, and in {path} training samples vote; leave it out.",
            code="options.other-method",
        )
    said: Tallies = load_tallies(path)
    if classes is not None and not _names(classes, said.classes):
        raise PoisonproofError(
            f"{path} was made with other classes than --classes says; leave --classes out.", code="options.conflict"
        )
    return said


def open_votes(
    path: Path,
    spread: str | None,
    labels: Path | None,
    classes: str | None,
    split: str | None,
    *,
    rankings: bool = False,
) -> Votes:
    """Votes that know their spread, or a plain matrix with the spread named on the command line."""
    from poisonproof import Votes
    from poisonproof.core.subsets import made_with
    from poisonproof.core.votes import rankings_file

    if path.with_suffix(".json").exists():
        known = Votes.load(path)
        differing = {
            "spread": spread is not None and options.parse_spread(spread) != known.spread,
            "classes": classes is not None and not _names(classes, known.classes),
            "split": split is not None and (known.split is None or split != known.split.kind),
        }
        for name in (name for name, differs in differing.items() if differs):
            raise PoisonproofError(
                f"{path} was made with another {name} than --{name} says; leave --{name} out.", code="options.conflict"
            )
        return known
    if path.suffix == ".npz":
        raise PoisonproofError(f"{path} is not a .npy matrix of votes of base classifiers.", code="file.kind")
    if spread is None:
        raise PoisonproofError(
            f"{path.name} does not say which spread made it, and a wrong one gives wrong radii; give what `poisonproof "
            "split` wrote, --spread subsets.npz, or name it: paper:K,D, random:K,D,SEED, or dpa:K if every sample "
            "reached one base classifier (d = 1).",
            code="spread.missing",
        )
    matrix, named = _array(path), options.parse_spread(spread)
    of_file = made_with(spread)[1] if Path(spread).is_file() else None
    if of_file is not None and split not in (None, of_file.kind):
        raise PoisonproofError(
            f"{spread} was made with another split than --split says; leave --split out.", code="options.conflict"
        )
    ranked = _array(rankings_file(path)) if rankings and rankings_file(path).exists() else None
    names: Sequence[Any]
    if classes is not None:
        names = options.named_classes(classes)
        names = range(len(names)) if classes.strip().isdecimal() else names
    elif ranked is not None:
        names = range(ranked.shape[-1])
        if not _are_whole(ranked):
            raise PoisonproofError(
                f"{rankings_file(path).name} has {len(names)} places and codes up to {int(ranked.max())}, so it does "
                "not tell whether rankings end or were cut; say how many classes there are: --classes N.",
                code="rankings.cut",
            )
    else:
        seen = [array for array in (matrix, _array(labels) if labels else matrix) if array.dtype.kind in "iu"]
        names = range(1 + max((int(array.max(initial=0)) for array in seen), default=0))
    how: dict[str, Any] = {"classes_inferred": classes is None, "rankings": ranked}
    if of_file is not None:
        return Votes.from_subsets(matrix, spread, names, **how)
    return Votes(matrix, named, names, split, **how)


def _are_whole(ranked: Any) -> bool:
    """Whether rankings have as many places as there are classes, as far as they tell.

    The code that is the number of places means "nothing more", or a class beyond the places that were kept. Where it
    comes twice in a ranking it is no class; where it never comes, no ranking ends early.
    """
    n_places = ranked.shape[-1]
    ends = (ranked == n_places).sum(axis=-1)
    return not ranked.size or (int(ranked.max()) <= n_places and (not ends.any() or bool((ends > 1).any())))


def _names(classes: str, known: Any) -> bool:
    """Whether `--classes` says what votes say themselves: their number, or the labels."""
    from poisonproof.samples.labels import label_cells

    names = options.named_classes(classes)
    return len(names) == len(known) and (
        classes.strip().isdecimal() or label_cells(names) == label_cells(known.tolist())
    )


def open_labels(path: Path | None, votes: Votes | Tallies) -> Any:
    """The label of each test sample, from class indices if the classes are not whole numbers."""
    from poisonproof.samples.labels import label_cells

    if path is None:
        return None
    truth = _array(path)
    if truth.dtype.kind not in "iu" or not any(isinstance(cell, str) for cell in label_cells(votes.classes.tolist())):
        return truth
    wrong = truth[(truth < 0) | (truth >= len(votes.classes))]
    if len(wrong):
        raise PoisonproofError(
            f"Label {wrong[0]} is not one of the {len(votes.classes)} classes.", code="labels.unknown"
        )
    return votes.classes[truth]


def _array(path: Path) -> Any:
    from poisonproof.system.archives import map_npy
    from poisonproof.system.files import reading

    with reading(path, "is not a whole .npy file"):
        return map_npy(path)


Columns = dict[str, tuple[str, Any]]
"""Shares by attack size: each with its name in JSON and its heading in the table."""


def _print_columns(certificate: Any, facts: dict[str, Any], columns: Columns, title: str, json: bool) -> None:
    from poisonproof.core.certificate import attack_sizes
    from poisonproof.display import percent

    sizes = attack_sizes(certificate)
    if json:
        record = {**certificate.facts(), **facts, "attack_size": sizes}
        record |= {name: [float(share) for share in shares] for name, (_, shares) in columns.items()}
        for name in ("prediction", "runner_up", "margin", "radius", "exact"):
            if (array := getattr(certificate, name, None)) is not None:
                record[name] = array.tolist()
        output.print_json(record)
        return
    rows = [[str(size), *(percent(shares[at]) for _, shares in columns.values())] for at, size in enumerate(sizes)]
    output.print_table(title, ["attack size", *(heading for heading, _ in columns.values())], rows)
    if "majority_share" in facts:
        share = percent(facts["majority_share"])
        output.print_line(f"Always answering the most frequent label is right on {share} %.")
    if certificate.classes_inferred:
        output.note(CLASSES_INFERRED)


def _median(radii: Any) -> int:
    import numpy as np

    return int(np.percentile(radii, 50, method="lower")) if len(radii) else 0


def _print_target(certificate: Any, truth: Any, json: bool) -> None:
    from poisonproof.core.certificate import attack_sizes

    sizes = attack_sizes(certificate)
    held = certificate.certified_share(sizes) if len(certificate) else [0.0] * len(sizes)
    columns: Columns = {"share_that_cannot_become_target": ("cannot become the target, %", held)}
    if truth is not None:
        of_others = certificate.certified_share(sizes, truth)
        columns["share_of_other_classes_that_cannot_become_target"] = ("of other classes, % (pointwise)", of_others)
    open_radii = certificate.radius[~certificate.already]
    title = (
        f"{len(open_radii)} predictions that are not {certificate.label} ({len(certificate) - len(open_radii)} are), "
        f"{certificate.method}, median radius {_median(open_radii)}"
    )
    _print_columns(certificate, {}, columns, title, json)


def _print(certificate: Certificate, truth: Any, json: bool, against: str | None) -> None:
    from poisonproof.core.certificate import attack_sizes

    sizes, facts = attack_sizes(certificate), {"against": against or "insert_remove"}
    held = [float((certificate.radius >= size).mean()) if len(certificate) else 0.0 for size in sizes]
    columns: Columns = {"share_with_radius": ("radius at least that, %", held)}
    if truth is not None:
        figures = certificate.evaluate(truth)
        if figures.caution is not None:
            output.note(f"WARNING: {figures.caution.sentence}")
        balanced = figures.certified_fraction_balanced(sizes)
        columns["certified_fraction"] = ("certified fraction, % (pointwise)", figures.certified_fraction(sizes))
        columns["certified_fraction_balanced"] = ("balanced, % (mean over classes)", balanced)
        facts |= {name: getattr(figures, name) for name in ("clean_accuracy", "majority_share", "balanced_accuracy")}
    threat = "" if against is None else f" against {against}"
    title = f"{len(certificate)} predictions, {certificate.method}, median radius{threat} {_median(certificate.radius)}"
    _print_columns(certificate, facts, columns, title, json)


def _shared(
    votes: Votes | Tallies, truth: Any, sizes: list[int], method: str, time_limit: float, seed: int, json: bool
) -> None:
    """Both bounds for every attack size."""
    from poisonproof import certified_accuracy, certify
    from poisonproof.display import percent as rounded

    accuracies: list[CertifiedAccuracy] = []
    with progress_bar("attack sizes") as progress:
        for size in sizes:
            progress(len(accuracies), len(sizes))
            one = certified_accuracy(votes, truth, size, method=method, time_limit=time_limit, seed=seed)  # type: ignore[arg-type]
            accuracies.append(one)
            if not json:
                output.note(f"attack size {size}: {one.proved} ({one.seconds:.1f} s)")
    certificate = certify(votes, method)  # type: ignore[call-overload]
    figures = certificate.evaluate(truth)
    balanced = figures.certified_fraction_balanced(sizes).tolist()
    if json:
        records = [
            {**one.as_dict(), "certified_fraction_balanced": share}
            for one, share in zip(accuracies, balanced, strict=True)
        ]
        shares = {"majority_share": figures.majority_share, "balanced_accuracy": figures.balanced_accuracy}
        output.print_json({**shares, "accuracies": records})
        return
    rows = [
        [
            str(one.attack_size),
            f"≥ {_share(one.certified_count, one.n_test)}",
            f"≥ {math.floor(10000 * share + 1e-9) / 100:.2f}",
            f"≥ {_share(one.lower_count, one.n_test)}, ≤ {_share(one.upper_count, one.n_test, up=True)}",
        ]
        for one, share in zip(accuracies, balanced, strict=True)
    ]
    clean = _share(accuracies[0].clean_count, accuracies[0].n_test)
    output.print_table(
        f"{accuracies[0].n_test} test samples, clean accuracy {clean} %. ≥ is certified, ≤ the best attack found",
        ["attack size", "fraction, % (pointwise)", "balanced, %", "accuracy, % (one shared attack)"],
        rows,
    )
    output.print_line(
        f"Balanced: mean over classes; without an attack {rounded(figures.balanced_accuracy)} %. Always "
        f"answering the most frequent class is right on {rounded(figures.majority_share)} % at every attack "
        "size."
    )
    if certificate.classes_inferred:
        output.note(CLASSES_INFERRED)


def _share(count: int, total: int, *, up: bool = False) -> str:
    """In percent with two digits; a bound is never rounded to the better side."""
    return f"{(10000 * count + up * (total - 1)) // total / 100:.2f}"


def _with_labels(
    votes: Path, labels: Path | None, spread: str | None, classes: str | None, data_dir: Path | None
) -> tuple[Votes | Tallies, Any]:
    """Votes and the labels of their test samples; a run's are read again from where it found its data."""
    if not votes.is_dir():
        if labels is None:
            raise PoisonproofError(
                f"{votes} does not hold the labels of its test samples; give --labels FILE.npy.", code="labels.missing"
            )
        matrix = open_votes(votes, spread, labels, classes, None)
        return matrix, open_labels(labels, matrix)
    from poisonproof.runs.election import election_named
    from poisonproof.runs.manifest import Manifest
    from poisonproof.runs.recipe import reopen

    for option, value in (("--labels", labels), ("--spread", spread), ("--classes", classes)):
        if value is not None:
            raise PoisonproofError(f"The run in {votes} knows its own; leave {option} out.", code="options.conflict")
    reopened = reopen(votes, None, data_dir)
    reopened.check_same_data(votes)
    settings = Manifest.of_run(votes).settings
    return election_named(settings.method).tallies(votes), reopened.dataset.test.labels


# What base classifiers of somebody's own are trained on


@options.taking("read", options.read_options)
def split(
    data: Annotated[
        str,
        options.data_argument(
            ".npy with the samples, .npz with x_train (and y_train) or X (and y), or anything that `run` takes; all "
            "samples are split."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Where to write the subsets.")],
    k: options.K = 50,
    d: options.D = 16,
    spread: options.SpreadName = None,
    split: options.SplitName = "content",
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            autocompletion=options.one_of(("float64", "uint8")),
            help="Declared form of the samples: `float64` or `uint8`.",
        ),
    ] = "float64",
    data_dir: options.DataDir = None,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Write which training samples train which base classifier.

    The .npz file holds `rows` and `starts`: subset i is `rows[starts[i]:starts[i + 1]]`, in canonical order;
    `partition`, the partition of each sample; and, of files that are read row by row, `names`: the line, row or picture
    that each sample is. It holds the spread and the split too, with digests: `poisonproof certify votes.npy --spread
    OUT` takes them from there.
    """
    import numpy as np

    from poisonproof import Split
    from poisonproof.core.spread import resolve_spread
    from poisonproof.core.subsets import Subsets, save_subsets
    from poisonproof.samples.labels import read_labels

    chosen = resolve_spread(options.parse_spread(spread) if spread else None, k, d, unless=(50, 16))
    given = _read(data, data_dir, read, dtype)
    if given.groups is not None and split != "content":
        raise PoisonproofError(
            f"With a column of contributors the split is 'group'; leave --split {split} out.", code="options.conflict"
        )
    how = Split("group" if given.groups is not None else split, given.dtype, given.n_features)  # type: ignore[arg-type]
    samples = how.samples(given.X)
    codes = np.zeros(len(samples), np.int64) if given.y is None else read_labels(given.y, read.classes).codes
    if len(codes) != len(samples):
        raise PoisonproofError(f"{data} holds {len(samples)} samples but {len(codes)} labels.", code="labels.count")
    subsets = Subsets.of(samples, codes, how.partitions(samples, chosen.n_partitions, groups=given.groups), chosen)
    save_subsets(out, subsets, how, given.names)
    empty = int((subsets.sizes == 0).sum())
    summary = {
        "out": str(out),
        "spread": f"{spread or 'random'}, {chosen}",
        "samples": len(samples),
        "subsets": len(subsets),
        "smallest": int(subsets.sizes.min()),
        "largest": int(subsets.sizes.max()),
        "empty": empty,
    }
    if json:
        output.print_json(summary)
    else:
        output.print_table(
            f"{Path(data).name} → {out.name}", list(summary)[2:], [[str(v) for v in list(summary.values())[2:]]]
        )
        output.print_line(f"spread: {summary['spread']}; {out.name} holds it, for `poisonproof certify --spread`")
    if empty:
        output.note(f"{empty} of {len(subsets)} subsets are empty; their base classifiers must abstain")


class _Given(NamedTuple):
    """What is to be split: samples, labels and contributors, and what each sample is called."""

    X: Any
    y: Any
    dtype: str
    groups: NDArray[Any] | None = None
    n_features: int | None = None
    names: Sequence[int | str] | None = None


def _read(name: str, data_dir: Path | None, read: ReadOptions, dtype: str) -> _Given:
    from poisonproof.data.dataset import ReadReport
    from poisonproof.data.reading import open_with_schema, read_all
    from poisonproof.samples.schema import ImageSchema, SparseSchema

    for option, value in (("--test", read.test), ("--held-out", read.held_out)):
        if value is not None:
            raise PoisonproofError(
                f"{option} holds samples out, and `split` splits all that it is given; leave it out.",
                code="options.conflict",
            )
    path = Path(name)
    if path.suffix in (".npy", ".npz") and not options.words_of(read):
        return _Given(*_arrays(path), dtype)
    if name in registry.names("datasets"):
        known = options.open_data(name, data_dir, read)
        return _Given(known.train.samples, known.train.labels, known.dtype)
    reader, schema = open_with_schema(path, read, report := ReadReport())
    part = read_all(reader, schema, report)
    for note in report.sentences():
        output.note(note)
    if schema.kind == "table" and not read.schema:
        output.note(f"premise: schema: {schema} (chosen from this data)")
    form = "uint8" if isinstance(schema, ImageSchema) or getattr(schema, "dtype", None) == "uint8" else dtype
    width = schema.n_features if isinstance(schema, SparseSchema) else None
    return _Given(part.samples, part.labels, form, part.groups, width, part.names)


def _arrays(path: Path) -> tuple[Any, Any]:
    from poisonproof.system.archives import map_npy, read_npz
    from poisonproof.system.files import reading as opening

    with opening(path, "is not a whole .npy or .npz file"):
        if path.suffix == ".npy":
            return map_npy(path), None
        arrays = read_npz(path, ("x_train", "y_train", "X", "y"))
    for x_name, y_name in (("x_train", "y_train"), ("X", "y")):
        if x_name in arrays:
            return arrays[x_name], arrays.get(y_name)
    raise PoisonproofError(f"{path} holds neither; it must hold x_train or X.", code="file.kind")
