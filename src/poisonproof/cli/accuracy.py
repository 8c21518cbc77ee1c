"""poisonproof accuracy: what one attack on the whole test set leaves of the accuracy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poisonproof.cli import certify, completion, options, output
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof import CertifiedAccuracy, Votes
    from poisonproof.ballots.tallies import Ballots

EXAMPLES = (
    "Example: `poisonproof accuracy runs/digits --attack-size 1,2,5`; "
    "`poisonproof accuracy votes.npy --spread paper:50,16 --classes 10 --labels y.npy`"
)

ATTACK_SIZES = "1,2,5,10"


def command(
    votes: Annotated[
        Path,
        typer.Argument(
            help=".npy matrix (test samples, base classifiers) of class indices, or the directory of a run, which "
            "knows its own labels."
        ),
    ],
    labels: Annotated[
        Path | None, typer.Option("--labels", help=".npy with the class index of each test sample.")
    ] = None,
    attack_size: options.AttackSizes = ATTACK_SIZES,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for each attack size.")] = 60.0,
    spread: options.SpreadName = None,
    classes: options.Classes = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            autocompletion=completion.one_of("finite-aggregation", "tight"),
            help="Pointwise radii to start from: `finite-aggregation` or `tight`.",
        ),
    ] = "finite-aggregation",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the search for an attack.")] = 0,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Certified accuracy: how many test samples stay right when one attack faces them all.

    Two bounds: what is proved for every attack of that size, and what the best attack found leaves. A time that runs
    out leaves them further apart, and as true.
    """
    from poisonproof import certified_accuracy
    from poisonproof import certify as pointwise
    from poisonproof.display import percent as rounded

    sizes = options.whole_numbers("--attack-size", attack_size or ATTACK_SIZES)
    if votes.is_dir():
        matrix: Votes | Ballots
        matrix, truth = _of_run(votes, labels, spread, classes, data_dir)
    elif labels is None:
        raise PoisonproofError(f"{votes} does not hold the labels of its test samples; give --labels FILE.npy.")
    else:
        matrix = certify.open_votes(votes, spread, labels, classes, None)
        truth = certify.open_labels(labels, matrix)
    accuracies: list[CertifiedAccuracy] = []
    with progress_bar("attack sizes") as progress:
        for size in sizes:
            progress(len(accuracies), len(sizes))
            one = certified_accuracy(matrix, truth, size, method=method, time_limit=time_limit, seed=seed)  # type: ignore[arg-type]
            accuracies.append(one)
            if not json:
                output.note(f"attack size {size}: {one.proved} ({one.seconds:.1f} s)")
    certificate = pointwise(matrix, method)  # type: ignore[call-overload]
    figures = certificate.evaluate(truth)
    balanced = figures.certified_fraction_balanced(sizes).tolist()
    if json:
        records = [
            {**one.as_dict(), "certified_fraction_balanced": share}
            for one, share in zip(accuracies, balanced, strict=True)
        ]
        shares = {name: getattr(certificate, name)(truth) for name in ("majority_share", "balanced_accuracy")}
        output.print_json({**shares, "accuracies": records})
        return
    _print(accuracies, balanced)
    output.print_line(
        f"Balanced: mean over classes; without an attack {rounded(figures.balanced_accuracy)} %. Always "
        f"answering the most frequent class is right on {rounded(figures.majority_share)} % at every attack "
        "size."
    )
    if matrix.classes_inferred:
        output.note(certify.CLASSES_INFERRED)


def _of_run(
    run: Path, labels: Path | None, spread: str | None, classes: str | None, data_dir: Path | None
) -> tuple[Votes | Ballots, Any]:
    """The votes of a run, and its test labels, read again from where the run found its data."""
    from poisonproof.ballots.tallies import Ballots
    from poisonproof.runs.recipe import reopen

    given = {"--labels": labels, "--spread": spread, "--classes": classes}
    for option in (option for option, value in given.items() if value is not None):
        raise PoisonproofError(f"The run in {run} knows its own; leave {option} out.")
    reopened = reopen(run, None, data_dir)
    reopened.check_same_data(run)
    if (run / "ballots.npz").exists():
        return Ballots.load(run / "ballots.npz"), reopened.dataset.test.labels
    if (run / "neighbours.npz").exists():
        raise PoisonproofError(
            f"In {run} neighbours vote; what one attack does to all test samples is bounded for base classifiers and "
            "ballots only."
        )
    if not (run / "votes.npy").exists():
        raise PoisonproofError(
            f"The run in {run} is not complete; the `poisonproof run` command that began it goes on with it."
        )
    return certify.open_votes(run / "votes.npy", None, None, None, None), reopened.dataset.test.labels


def _print(accuracies: list[CertifiedAccuracy], balanced: list[float]) -> None:
    def percent(count: int, total: int, *, up: bool = False) -> str:
        """With two digits; a bound is never rounded to the better side."""
        return f"{(10000 * count + up * (total - 1)) // total / 100:.2f}"

    header = ["attack size", "fraction, % (pointwise)", "balanced, %", "accuracy, % (one shared attack)"]
    rows = [
        [
            str(one.attack_size),
            f"≥ {percent(one.certified_count, one.n_test)}",
            f"≥ {math.floor(10000 * share + 1e-9) / 100:.2f}",
            f"≥ {percent(one.lower_count, one.n_test)}, ≤ {percent(one.upper_count, one.n_test, up=True)}",
        ]
        for one, share in zip(accuracies, balanced, strict=True)
    ]
    clean = percent(accuracies[0].clean_count, accuracies[0].n_test)
    title = f"{accuracies[0].n_test} test samples, clean accuracy {clean} %. ≥ is certified, ≤ the best attack found"
    output.print_table(title, header, rows)
