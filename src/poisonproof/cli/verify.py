"""poisonproof verify, audit, attest and gate: what those run who did not make a run, or do not believe who did."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof import registry
from poisonproof.cli import options, output
from poisonproof.cli.output import progress_bar
from poisonproof.display import percent
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.data.dataset import Dataset
    from poisonproof.evidence.facts import Facts
    from poisonproof.evidence.gate import Baseline
    from poisonproof.verification import Verdict

GIGABYTES = 8.0
MOST_ENTRIES = 1_000_000
VIOLATED, NOT_MET = 3, 6
NAMED = "the data that the run names"
EXAMPLES = {
    "verify": "Example: `poisonproof verify runs/digits digits --retrain 20`; "
    "`poisonproof verify certificate.npz --votes votes.npy`",
    "audit": "Example: `poisonproof audit runs/digits --targets 5`; "
    "`poisonproof audit runs/digits --kinds insert,flip --seed 7`",
    "attest": "Example: `poisonproof attest runs/digits --out runs/digits-evidence --key key.pem`",
    "gate": "Example: `poisonproof gate runs/digits --attack-size 10 --certified-fraction 0.8 --require-verified`",
}


class SignatureResult(NamedTuple):
    """Whether signed evidence is genuine and true, and a sentence about it."""

    signed: bool
    signature: str


class DataAtHand(NamedTuple):
    """The data to check against, if there are any, and in words where they come from, or why there are none."""

    dataset: Dataset | None
    source: str


@dataclass(frozen=True)
class Named:
    """What a user names to check a run: its data, what of it is their own code, because importing that runs it, and how
    much is trained again."""

    data: Annotated[
        str | None,
        options.data_argument("Data to check against; by default what the run was made from, if it is still there."),
    ] = None
    test: options.TestFile = None
    data_dir: options.DataDir = None
    learner: options.LearnerAgain = None
    encoder: options.EncoderAgain = None
    retrain: Annotated[
        int, typer.Option("--retrain", min=0, help="Train that many base classifiers again, drawn at random.")
    ] = 0

    def at_hand(self, path: Path, *, given: bool = False) -> DataAtHand:
        """The data that were given; otherwise those that the run names, if they are there and have its digests."""
        if given or self.data is not None:
            return self._given(path)
        is_run = os.path.lexists(path / "manifest.json")
        if not self.retrain and not is_run:
            return DataAtHand(None, "no data")
        try:
            named = self._of_manifest(path)
        except (ValueError, TypeError, LookupError, AttributeError, OSError, ImportError) as error:
            if self.retrain and not is_run:
                raise
            return DataAtHand(None, f"the data that the run names could not be read ({error}); give DATA.")
        if named is None:
            return DataAtHand(None, "the data that the run names no longer have the digests that it states; give DATA.")
        return _with_words(named, NAMED)

    def _given(self, path: Path) -> DataAtHand:
        """The data that were given, unless the run does not say how to read them: that is a fault of its files."""
        from poisonproof.runs.recipe import saved_recipe

        why = "the data given were not read, because the run does not say how"
        try:
            recipe = _manifest_of(path).get("recipe")
            own_tests = bool(recipe) and saved_recipe(path, strict=False)[1].read.test is not None
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            return DataAtHand(None, f"{why} ({error})")
        if own_tests and self.data is not None and self.test is None:
            return DataAtHand(None, "the test samples of the run are no part of DATA; name their file with --test.")
        try:
            return _with_words(self._read(path), "the data given", self.test)
        except (TypeError, LookupError, AttributeError) as error:
            return DataAtHand(None, f"{why} ({error})")
        except PoisonproofError as error:
            if recipe or not path.is_dir():
                raise
            return DataAtHand(None, f"{why} ({error})")

    def _of_manifest(self, path: Path) -> Dataset | None:
        """The data that a manifest names, which may be anybody's; None if their digests are not those it states."""
        manifest = _manifest_of(path)
        recipe = manifest.get("recipe") or {}
        for name in (recipe.get("data"), *(recipe.get("read", {}).get(option) for option in ("test", "schema"))):
            if name is not None:
                _refuse_odd_files(Path(name))
        named = self._read(path)
        stated = {name: digest for name, digest in manifest["settings"]["dataset"].items() if name != "name"}
        return named if named.digests() == stated else None

    def _read(self, path: Path) -> Dataset:
        """Of a run, read as the run read it; of a certificate without its run, by name."""
        from poisonproof.data.reading import load
        from poisonproof.runs.recipe import reopen

        manifest = _manifest_of(path)
        if manifest.get("recipe"):
            return reopen(path, self.data, self.data_dir, test=self.test, strict=False).dataset
        name = self.data or manifest.get("settings", {}).get("dataset", {}).get("name")
        if name is None:
            raise PoisonproofError(
                f"{path} does not say which data it was made from; give DATA.", code="verify.no-data"
            )
        return load(name, self.data_dir)

    def estimator(self, path: Path) -> Any:
        """The learner of a run, where it takes more than a preset to make it; None where the checker finds it."""
        from poisonproof.learners.presets import HEAD, is_object_name, load_learner, preset
        from poisonproof.runs.recipe import NONE, encoder_named_again, encoder_of, must_be_named

        recipe = _manifest_of(path).get("recipe")
        recipe = recipe if isinstance(recipe, dict) else {}
        of_run, name = recipe.get("encoder"), recipe.get("learner")
        head = None if self.learner is None else load_learner(self.learner)
        if self.encoder is None and (of_run in (None, NONE) or must_be_named(of_run)):
            return head
        if head is None and (is_object_name(name) or name not in (None, *registry.names("learners"))):
            return None
        encoder = encoder_named_again(path, of_run, self.encoder)
        head = preset(name or HEAD) if head is None else head
        return head if encoder is None else registry.in_front(encoder_of(encoder, cached=False), head)


def _with_words(dataset: Dataset, source: str, test: Path | None = None) -> DataAtHand:
    """These data, with where they and their test samples come from."""
    tests = [f"from {test.name}"] if test else [one.value for one in dataset.premises if one.code == "test-samples"]
    return DataAtHand(dataset, f"{source} (test samples: {tests[0]})" if tests else source)


def _manifest_of(path: Path) -> dict[str, Any]:
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


@options.taking("named", Named)
def verify(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory, or a certificate (.npz).")],
    named: Named,
    votes: Annotated[
        Path | None, typer.Option("--votes", help="The votes (.npy) of a certificate without its run.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", min=1, help="Recompute radii of, and ask about, only that many test samples, drawn at random."
        ),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask the kept base classifiers whether they vote as stated.")
    ] = True,
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
    if not os.path.lexists(path):
        raise PoisonproofError(f"{path} is neither a run directory nor a certificate.", code="verify.missing")
    import poisonproof

    if not max_size > 0:
        raise PoisonproofError(f"--max-size must be above 0. Got {max_size}.", code="options.value")
    if named.test is not None and named.data is None:
        raise PoisonproofError(
            "--test names the test samples that go with DATA; give DATA too.", code="options.missing"
        )
    at_hand = named.at_hand(path, given=options.typed("data_dir"))
    if at_hand.dataset is None and path.is_dir():
        output.note(at_hand.source)
    with progress_bar("checking") as progress:
        verdict = poisonproof.verify(
            path,
            votes=votes,
            data=at_hand.dataset,
            sample=sample,
            ask=ask,
            retrain=named.retrain,
            seed=seed,
            formal=formal,
            witness=witness,
            max_bytes=int(max_size * 1e9),
            source=at_hand.source,
            estimator=named.estimator(path),
            progress=progress,
        )
    signed = None
    if signature is not None:
        signed = _check_signed(path, signature, evidence, at_hand.dataset, verdict)
    elif evidence is not None:
        raise PoisonproofError(
            "--evidence says where signed evidence is; give --signature KEY to check it.", code="options.missing"
        )
    if json:
        output.print_json(verdict.as_dict() | ({} if signed is None else signed._asdict()))
    else:
        output.print_line(verdict.verdict if signed is None or signed.signed else f"NOT VERIFIED: {signed.signature}")
        if signed is not None and signed.signed:
            output.print_line(signed.signature)
        for check in (*verdict.failed, *verdict.not_checked):
            output.note(f"{check.outcome}: {check.name}: {check.words}")
    if signed is not None and not signed.signed:
        raise typer.Exit(3)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def audit(
    run: options.Run,
    data: options.RunData = None,
    targets: Annotated[int, typer.Option("--targets", min=1, help="How many test samples to attack.")] = 5,
    kinds: Annotated[
        str | None,
        typer.Option(
            "--kinds",
            autocompletion=options.one_of(lambda: import_module("poisonproof.auditing.attacks").ATTACKS, several=True),
            help="Which attacks: `remove,insert,flip,…`; otherwise all that apply.",
        ),
    ] = None,
    attack_size: options.AttackSizes = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            autocompletion=options.one_of(("finite-aggregation", "tight")),
            help="`finite-aggregation` or `tight`.",
        ),
    ] = "finite-aggregation",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of targets and attacks; the same gives the same.")] = 0,
    learner: options.LearnerAgain = None,
    encoder: options.EncoderAgain = None,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Remove, insert, flip, rewrite, plant backdoors, flood; retrain; compare with what was certified.

    Writes `audit.json` into the run.
    Exit code 3: an attack worked that the certificate excludes, and the case is printed.
    """
    options.check_run(run)
    import poisonproof
    from poisonproof.runs.recipe import UserCode, reopen
    from poisonproof.runs.run import only_writer
    from poisonproof.system.files import write_record
    from poisonproof.system.progress import watched

    output.warnings_as_notes()
    user_code = UserCode(learner, encoder)
    reopened = reopen(run, data, data_dir, user_code)
    reopened.check_same_data(run)
    dataset, model = reopened.dataset, reopened.model(run, user_code)
    with only_writer(run):
        with progress_bar("attacks on targets") as progress, watched(progress):
            report = poisonproof.audit(
                model,
                dataset.train.X,
                dataset.train.labels,
                dataset.test.X,
                groups=dataset.train.groups,
                targets=targets,
                kinds=None if kinds is None else [kind.strip() for kind in kinds.split(",")],
                sizes=None if attack_size is None else options.whole_numbers("--attack-size", attack_size),
                method=method,
                seed=seed,
            )
        write_record(run / "audit.json", report.as_dict())
    if json:
        output.print_json(report.as_dict())
    else:
        output.print_table(
            "attacks with retraining",
            ["kind", "attacks", "moved the prediction", "violations"],
            [[kind, *(str(count) for count in row.values())] for kind, row in report.by_kind().items()],
        )
        output.print_lines(str(report))
    if not report.ok:
        raise typer.Exit(VIOLATED)


@options.taking("named", Named)
def attest(
    run: options.Run,
    named: Named,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write into; by default RUN-evidence, beside the run.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", help="Private key (PEM; ed25519 or ECDSA) to sign with. See docs/evidence.md."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Verify a run, compute every figure again, and write evidence about it.

    `statement.json` (in-toto statement v1), `test-result.json` (the verdict, in-toto test result), `bom.cdx.json`
    (CycloneDX 1.6 with a model card), `model-card.md`, `evidence.html` and, with `--key`, `evidence.intoto.jsonl`,
    both statements signed (DSSE). Base classifiers may have voted or the training samples themselves. A run about which
    something is false yields no evidence: exit code 3.
    """
    options.check_run(run)
    from poisonproof.evidence.facts import folder_beside
    from poisonproof.evidence.signing import private_key, write

    signer = None if key is None else private_key(key)
    facts = _verified_facts(run, named)
    folder = folder_beside(run) if out is None else out
    written = write(facts, folder, signer)
    if json:
        output.print_json({"out": str(folder), "verdict": facts.verdict.word, "sha256": written})
        return
    rows = [[name, digest] for name, digest in written.items()]
    output.print_table(
        f"{facts.verdict.word}: evidence about {facts.name} in {folder}", ["file", "SHA-256"], rows, left=2
    )
    if key is None:
        output.note("the evidence is not signed; --key FILE signs it.")


@options.taking("named", Named)
def gate(
    run: options.Run,
    named: Named,
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
            help="Voters must have answered: base classifiers asked or trained again, samples counted again.",
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML, one case per condition.")] = None,
    json: options.Json = False,
) -> None:
    """Verify a run, compute its figures again, and compare them with what is asked for.

    Exit code 0: every condition is met. 6: one is not. 2: bad input. 3: something about the run is false. Shares are
    means over classes and compared exactly, as fractions; each must also be above that of a constant answer, which no
    poison can change. The n-th `--certified-fraction` belongs to the n-th `--attack-size`.
    """
    options.check_run(run)
    from poisonproof.evidence.gate import Thresholds, as_junit, as_record, conditions
    from poisonproof.system.files import write_bytes

    sizes, shares = attack_size or [], [_share(text, "--certified-fraction") for text in certified_fraction or []]
    if len(sizes) != len(shares):
        raise PoisonproofError(
            f"Every --attack-size needs its --certified-fraction. Got {len(sizes)} and {len(shares)}.",
            code="options.missing",
        )
    thresholds = Thresholds(
        tuple(zip(sizes, shares, strict=True)),
        None if clean is None else _share(clean, "--clean"),
        plain,
        allow_constant,
        None if max_drop_from is None else _baseline(max_drop_from, named),
        require_verified,
    )
    facts = _verified_facts(run, named)
    checked = conditions(facts, thresholds)
    if junit is not None:
        write_bytes(junit, as_junit(facts, checked))
    record = as_record(facts, checked)
    if json:
        output.print_json(record)
    else:
        title = (
            f"{'met' if record['met'] else 'NOT MET'}: {facts.name}, {facts.verdict.word}; a constant answer is right "
            f"on {percent(facts.evaluation.majority_share)} %"
        )
        rows = [[row.what, row.wanted, row.found, "met" if row.met else "NOT MET"] for row in checked]
        output.print_table(title, ["condition", "wanted", "found", ""], rows, left=1)
    if not record["met"]:
        raise typer.Exit(NOT_MET)


def _baseline(given: tuple[Path, str], named: Named) -> Baseline:
    """The other run; a learner or encoder that was named again is its own only if it says so."""
    from poisonproof.evidence.gate import Baseline

    other, most = given
    share, recipe = _share(most, "--max-drop-from"), _manifest_of(other).get("recipe") or {}
    same = replace(
        named,
        learner=named.learner if recipe.get("learner") == named.learner else None,
        encoder=named.encoder if recipe.get("encoder") == named.encoder else None,
        test=named.test if (recipe.get("read") or {}).get("test") else None,
        retrain=0,
    )
    return Baseline(_verified_facts(other, same), share)


def _share(text: str, option: str) -> Fraction:
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise PoisonproofError(
            f"{option} must be a share between 0 and 1, such as 0.8. Got '{text}'.", code="options.value"
        )
    return share


def _verified_facts(run: Path, named: Named) -> Facts:
    """The facts about a run; exit code 3, and the verdict on stderr, if something about it is false."""
    options.check_run(run)
    import poisonproof
    from poisonproof.evidence.facts import gather
    from poisonproof.verification.verdict import CheckFailed

    data = named.at_hand(run)
    with progress_bar("checking") as progress:
        verdict = poisonproof.verify(
            run,
            data=data.dataset,
            retrain=named.retrain,
            source=data.source,
            estimator=named.estimator(run),
            progress=progress,
        )
    if data.dataset is None and verdict.consistent:
        raise PoisonproofError(f"Figures need the labels of the test samples; {data.source}", code="labels.missing")
    try:
        return gather(run, data.dataset, verdict)
    except CheckFailed as error:
        output.note(str(error))
        raise typer.Exit(3) from None


def _check_signed(
    path: Path, signature: Path, evidence: Path | None, dataset: Dataset | None, verdict: Verdict
) -> SignatureResult:
    """What the signed evidence says, held against the run."""
    from poisonproof.evidence.facts import folder_beside, gather
    from poisonproof.evidence.signing import check_signed, public_key
    from poisonproof.verification.verdict import CheckFailed

    key = public_key(signature)
    if not path.is_dir():
        raise PoisonproofError(f"{path} is no run; evidence is signed about runs.", code="file.kind")
    if not verdict.consistent:
        return SignatureResult(signed=False, signature=verdict.verdict)
    try:
        facts = None if dataset is None else gather(path, dataset, verdict)
        return SignatureResult(signed=True, signature=check_signed(path, evidence or folder_beside(path), key, facts))
    except CheckFailed as error:
        return SignatureResult(signed=False, signature=str(error))
