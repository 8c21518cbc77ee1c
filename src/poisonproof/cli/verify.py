"""poisonproof verify: an independent check of a run or a certificate."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof import registry
from poisonproof.cli import encoding, options, output, reopening
from poisonproof.cli.output import progress_bar
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data import Dataset
    from poisonproof.verification import Verdict

GIGABYTES = 8.0
MOST_ENTRIES = 1_000_000
NAMED = "the data that the run names"
EXAMPLES = (
    "Example: `poisonproof verify runs/digits digits --retrain 20`; "
    "`poisonproof verify certificate.npz --votes votes.npy`"
)


class Seal(NamedTuple):
    """Whether signed evidence is genuine and true, and a sentence about it."""

    signed: bool
    signature: str


class AtHand(NamedTuple):
    """The data to check against, if there are any, and in words where they come from, or why there are none."""

    dataset: Dataset | None
    source: str


def command(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, or a certificate (.npz).")],
    data: Annotated[
        str | None,
        options.data_argument("Data to check against; by default what the run was made from, if it is still there."),
    ] = None,
    votes: Annotated[Path | None, typer.Option("--votes", help="The votes (.npy) of a loose certificate.")] = None,
    test: reopening.Test = None,
    data_dir: options.DataDir = None,
    learner: reopening.Learner = None,
    encoder: encoding.Again = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", min=1, help="Recompute radii of, and ask about, only that many test samples, drawn at random."
        ),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask the kept base classifiers whether they vote as stated.")
    ] = True,
    retrain: Annotated[
        int, typer.Option("--retrain", min=0, help="Train that many base classifiers again, drawn at random.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the draws; by default a fresh one, which no forger can know."),
    ] = None,
    formal: Annotated[
        bool,
        typer.Option(
            "--formal", help="Have radii checked by poisonproof-check, too, which is proved in Coq (make proof)."
        ),
    ] = False,
    witness: Annotated[
        Path | None, typer.Option("--witness", help="Keep what poisonproof-check was shown in this file.")
    ] = None,
    max_size: Annotated[
        float, typer.Option("--max-size", help="How many GB the files may have in all; more is refused.")
    ] = GIGABYTES,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", help="Public key (PEM): also check the evidence that `attest --key` signed."),
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option("--evidence", help="Where that evidence is; by default RUN-evidence, beside the run.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Check that radii follow from votes, votes from base classifiers, and all else that files and data can tell.

    VERIFIED (exit code 0): base classifiers were trained again, or those that the run kept were asked, or the training
    samples that vote were counted again, on data with the digests that it states. CONSISTENT (5): nothing contradicts,
    but the files alone were looked at. NOT VERIFIED (3): something is false, or could not be checked. The checker
    shares no code with what makes certificates. The verdict is one line and names what was not checked; the reasons go
    to stderr, and `--json` prints every check.
    With `--signature KEY`, evidence that was not signed with that key, is about other files, or says anything that is
    not true of the run is NOT VERIFIED too.
    """
    from poisonproof import verify

    if not max_size > 0:
        raise PoisonproofError(f"--max-size must be above 0. Got {max_size}.")
    given = data is not None or typed(context, "data_dir")
    if test is not None and data is None:
        raise PoisonproofError("--test names the test samples that go with DATA; give DATA too.")
    data_at_hand = at_hand(path, data, data_dir, given=given, needed=retrain > 0, test=test)
    if data_at_hand.dataset is None and path.is_dir():
        output.note(data_at_hand.source)
    with progress_bar("checking") as progress:
        verdict = verify(
            path,
            votes=votes,
            data=data_at_hand.dataset,
            sample=sample,
            ask=ask,
            retrain=retrain,
            seed=seed,
            formal=formal,
            witness=witness,
            max_bytes=int(max_size * 1e9),
            source=data_at_hand.source,
            estimator=learner_of(path, learner, encoder),
            progress=progress,
        )
    seal = None
    if signature is not None:
        seal = _seal(path, signature, evidence, data_at_hand.dataset, verdict)
    elif evidence is not None:
        raise PoisonproofError("--evidence says where signed evidence is; give --signature KEY to check it.")
    if json:
        output.print_json(verdict.as_dict() | ({} if seal is None else seal._asdict()))
    else:
        output.print_line(verdict.verdict if seal is None or seal.signed else f"NOT VERIFIED: {seal.signature}")
        if seal is not None and seal.signed:
            output.print_line(seal.signature)
        for check in (*verdict.failed, *verdict.not_checked):
            output.note(f"{check.outcome}: {check.name}: {check.words}")
    if seal is not None and not seal.signed:
        raise typer.Exit(3)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def typed(context: typer.Context, name: str) -> bool:
    """Whether an option was typed by the user rather than found in the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _seal(path: Path, signature: Path, evidence: Path | None, dataset: Dataset | None, verdict: Verdict) -> Seal:
    """What the signed evidence says, held against the run."""
    from poisonproof.evidence.facts import folder_beside, gather
    from poisonproof.evidence.signing import check_signed, public_key
    from poisonproof.verification.verdict import CheckFailed

    key = public_key(signature)
    if not path.is_dir():
        raise PoisonproofError(f"{path} is no run; evidence is signed about runs.")
    if not verdict.consistent:
        return Seal(signed=False, signature=verdict.verdict)
    try:
        facts = None if dataset is None else gather(path, dataset, verdict)
        return Seal(signed=True, signature=check_signed(path, evidence or folder_beside(path), key, facts))
    except CheckFailed as error:
        return Seal(signed=False, signature=str(error))


def at_hand(
    path: Path, data: str | None, data_dir: Path | None, *, given: bool, needed: bool, test: Path | None = None
) -> AtHand:
    """The data that were given; otherwise those that the run names, if they are there and have its digests."""
    if given:
        return _given(path, data, data_dir, test)
    if not needed and not os.path.lexists(path / "manifest.json"):
        return AtHand(None, "no data")
    try:
        named = _named_data(path, data_dir)
    except (ValueError, TypeError, LookupError, AttributeError, OSError, ImportError) as error:
        if needed and not os.path.lexists(path / "manifest.json"):
            raise
        return AtHand(None, f"the data that the run names could not be read ({error}); give DATA.")
    if named is None:
        return AtHand(None, "the data that the run names no longer have the digests that it states; give DATA.")
    return _with_words(named, NAMED)


def _with_words(dataset: Dataset, source: str, test: Path | None = None) -> AtHand:
    """These data, with where they and their test samples come from."""
    tests = [f"from {test.name}"] if test else [one.value for one in dataset.premises if one.code == "test-samples"]
    return AtHand(dataset, f"{source} (test samples: {tests[0]})" if tests else source)


def _given(path: Path, data: str | None, data_dir: Path | None, test: Path | None) -> AtHand:
    """The data that were given, unless the run does not say how to read them: that is a fault of its files."""
    why = "the data given were not read, because the run does not say how"
    try:
        recipe = manifest_of(path).get("asked")
        own_tests = bool(recipe) and reopening.begun(path, strict=False)[2].test is not None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        return AtHand(None, f"{why} ({error})")
    try:
        if own_tests and data is not None and test is None:
            return AtHand(None, "the test samples of the run are no part of DATA; name their file with --test.")
        return _with_words(_data(path, data, data_dir, test), "the data given", test)
    except (TypeError, LookupError, AttributeError) as error:
        return AtHand(None, f"{why} ({error})")
    except PoisonproofError as error:
        if recipe or not path.is_dir():
            raise
        return AtHand(None, f"{why} ({error})")


def _named_data(path: Path, data_dir: Path | None) -> Dataset | None:
    """The data that a manifest names, which may be anybody's; None if their digests are not those that it states."""
    manifest = manifest_of(path)
    asked = manifest.get("asked") or {}
    for name in (asked.get("data"), *(asked.get("options", {}).get(option) for option in ("test", "schema"))):
        if name is not None:
            _refuse_odd_files(Path(name))
    named = _data(path, None, data_dir)
    stated = {name: digest for name, digest in manifest["settings"]["dataset"].items() if name != "name"}
    return named if named.digests() == stated else None


def manifest_of(path: Path) -> dict[str, Any]:
    """What a run says of itself; nothing if it is amiss, which the checker itself tells."""
    from poisonproof.errors import DamagedFileError
    from poisonproof.system.archives import NoRegularFileError
    from poisonproof.system.files import read_record

    try:
        return read_record(path / "manifest.json")
    except (FileNotFoundError, NotADirectoryError, DamagedFileError, NoRegularFileError):
        return {}


def _refuse_odd_files(path: Path) -> None:
    """A pipe or a device that a stranger's manifest names is not waited for, wherever it lies below a folder."""
    if not path.exists():
        return
    places = (Path(place) / name for place, _, names in os.walk(path) for name in names) if path.is_dir() else [path]
    for count, place in enumerate(places):
        if count > MOST_ENTRIES:
            raise PoisonproofError(f"{path} holds more than {MOST_ENTRIES} files")
        if place.exists() and not stat.S_ISREG(place.stat().st_mode):
            raise PoisonproofError(f"{place} is no regular file")


def learner_of(path: Path, learner: str | None, encoder: str | None) -> Any:
    """The learner that a run names, where it takes more than a preset to make it; None where the checker finds it."""
    from poisonproof.learners.presets import HEAD, is_object_name, load_learner, preset

    asked = manifest_of(path).get("asked")
    asked = asked if isinstance(asked, dict) else {}
    of_run, name = asked.get("encoder"), asked.get("learner")
    head = None if learner is None else load_learner(learner)
    if encoder is None and (of_run in (None, encoding.NONE) or encoding.must_be_named(of_run)):
        return head
    if head is None and (is_object_name(name) or name not in (None, *registry.names("learners"))):
        return None
    encoder = encoding.checked_again(path, of_run, encoder)
    head = preset(name or HEAD) if head is None else head
    return head if encoder is None else registry.in_front(encoding.encoder_of(encoder, cached=False), head)


def _data(path: Path, given: str | None, data_dir: Path | None, test: Path | None = None) -> Dataset:
    """The data at hand: of a run, read as the run read it; of a loose certificate, by name."""
    from poisonproof.data import load

    manifest = manifest_of(path)
    if manifest.get("asked"):
        return reopening.reopen_data(path, given, data_dir, test=test, strict=False).dataset
    name = given or manifest.get("settings", {}).get("dataset", {}).get("name")
    if name is None:
        raise PoisonproofError(f"{path} does not say which data it was made from; give DATA.")
    return load(name, data_dir)
