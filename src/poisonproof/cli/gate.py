"""poisonproof gate: a condition for build servers, by exit code."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poisonproof.cli import encoding, options, output
from poisonproof.cli.facts import Brought, DataName, Retrain, verified_facts
from poisonproof.cli.reopening import Learner, Run, Test
from poisonproof.cli.verify import manifest_of
from poisonproof.display import percent
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.evidence.gate import Baseline

NOT_MET = 6
EXAMPLES = "Example: `poisonproof gate runs/digits --attack-size 10 --certified-fraction 0.8 --require-verified`"


def command(
    run: Run,
    attack_size: Annotated[
        list[int] | None, typer.Option("--attack-size", min=0, help="How many poisons; may be given several times.")
    ] = None,
    certified_fraction: Annotated[
        list[str] | None,
        typer.Option("--certified-fraction", help="Smallest certified fraction at that attack size, 0 … 1."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Shares of all test samples, in place of the mean over classes.")
    ] = False,
    allow_constant: Annotated[
        bool,
        typer.Option("--allow-constant", help="Also pass what is no better than always giving one answer."),
    ] = False,
    clean: Annotated[
        str | None, typer.Option("--clean", help="Smallest accuracy (balanced, or with --plain clean), 0 … 1.")
    ] = None,
    max_drop_from: Annotated[
        tuple[Path, str] | None,
        typer.Option(
            "--max-drop-from",
            metavar="OTHER_RUN SHARE",
            help="At most that much less than another run on the same test samples, clean and at every attack size.",
        ),
    ] = None,
    require_verified: Annotated[
        bool,
        typer.Option(
            "--require-verified",
            help="Voters must have been heard: base classifiers asked or trained again, samples counted again.",
        ),
    ] = False,
    dataset: DataName = None,
    test: Test = None,
    data_dir: options.DataDir = None,
    learner: Learner = None,
    encoder: encoding.Again = None,
    retrain: Retrain = 0,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML, one case per condition.")] = None,
    json: options.Json = False,
) -> None:
    """Verify a run, compute its figures again, and compare them with what is asked for.

    Exit code 0: every condition is met. 6: one is not. 2: bad input. 3: something about the run is false. Shares are
    means over classes and compared exactly, as fractions; each must also be above that of a constant answer, which no
    poison can change. The n-th `--certified-fraction` belongs to the n-th `--attack-size`.
    """
    from poisonproof.evidence.gate import Thresholds, as_junit, as_record, conditions
    from poisonproof.system.files import write_bytes

    sizes, shares = attack_size or [], [_share(text, "--certified-fraction") for text in certified_fraction or []]
    if len(sizes) != len(shares):
        raise PoisonproofError(
            f"Every --attack-size needs its --certified-fraction. Got {len(sizes)} and {len(shares)}."
        )
    thresholds = Thresholds(
        tuple(zip(sizes, shares, strict=True)),
        None if clean is None else _share(clean, "--clean"),
        plain,
        allow_constant,
        None if max_drop_from is None else _baseline(max_drop_from, dataset, data_dir, Brought(learner, encoder, test)),
        require_verified,
    )
    facts = verified_facts(run, dataset, data_dir, retrain, Brought(learner, encoder, test))
    checked = conditions(facts, thresholds)
    if junit is not None:
        write_bytes(junit, as_junit(facts, checked))
    record = as_record(facts, checked)
    if json:
        output.print_json(record)
    else:
        title = (
            f"{'met' if record['met'] else 'NOT MET'}: {facts.name}, {facts.verdict.word}; a constant answer is right "
            f"on {percent(facts.figures.majority_share)} %"
        )
        rows = [[row.what, row.wanted, row.found, "met" if row.met else "NOT MET"] for row in checked]
        output.print_table(title, ["condition", "wanted", "found", ""], rows, left=1)
    if not record["met"]:
        raise typer.Exit(NOT_MET)


def _baseline(given: tuple[Path, str], dataset: str | None, data_dir: Path | None, brought: Brought) -> Baseline:
    """The other run; a learner or encoder that was named again is its own only if it says so."""
    from poisonproof.evidence.gate import Baseline

    other, most = given
    share, asked = _share(most, "--max-drop-from"), manifest_of(other).get("asked") or {}
    named = {**asked, "test": brought.test if (asked.get("options") or {}).get("test") else None}
    same = {name: value if named.get(name) == value else None for name, value in brought._asdict().items()}
    return Baseline(verified_facts(other, dataset, data_dir, brought=Brought(**same)), share)


def _share(text: str, option: str) -> Fraction:
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise PoisonproofError(f"{option} must be a share between 0 and 1, such as 0.8. Got '{text}'.")
    return share
