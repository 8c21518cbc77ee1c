"""What stands in the folder of a run, and whether it is as it was written.

The manifest states the digests of the results; blocks of votes carry their own besides, with what each of their
columns is a function of (`poisonproof.runs.vote_cache`), so that no file is taken for another one's.
"""

from __future__ import annotations

import re
from pathlib import Path

from poisonproof.core.votes import rankings_file
from poisonproof.errors import DamagedFileError, PoisonproofError
from poisonproof.runs.manifest import FILE, Identity, Manifest
from poisonproof.system.files import open_arrays, reading, sha256_of
from poisonproof.training.engine import engine_named
from poisonproof.training.member_files import ESTIMATOR, MEMBERS_PER_FILE, members_file
from poisonproof.training.model_files import RECORD
from poisonproof.training.pooled import POOL, check_pooled

RESULTS = ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy")
COUNTS = {"ballots": "ballots.npz", "neighbours": "neighbours.npz"}  # what samples said, by method
OF_VOTERS = ("model.json", "voters.npz", "map.skops")
RANKINGS = rankings_file(Path("votes.npy")).name
SCHEMA = "schema.json"
REPORT = "report.html"
AUDIT = ("audit.json", "audit.svg")
SCRATCH = "scratch"
LOCK = "run.lock"
PARTITIONS = "partitions"
FOLDERS = ("votes", "models", SCRATCH, PARTITIONS)
OWN = ("manifest.json", REPORT, LOCK, *FOLDERS, SCHEMA, RANKINGS, *AUDIT, *RESULTS, *COUNTS.values())
# What says something about the training data; the spread does not.
CONCLUSIONS = (
    *(name for name in RESULTS if name != "spread.npz"),
    *COUNTS.values(),
    RANKINGS,
    *AUDIT,
    REPORT,
    f"models/{RECORD}",
    f"models/{ESTIMATOR}",
    *(f"models/{name}" for name in OF_VOTERS if name != RECORD),
)
BLOCK_FILE = re.compile(r"votes/block-\d{5,}\.npz")


def damage(folder: str | Path) -> list[str]:
    """What is wrong with the files of a run, one sentence each; nothing for a run of which every bit is as written.

    Of a run that is not complete only the blocks can be judged.
    """
    folder = Path(folder)
    try:
        manifest = Manifest.read(folder)
        sentences = [f"{folder / name} is altered or missing." for name in altered(folder, manifest, members=True)]
    except PoisonproofError as error:
        return [str(error)]
    for path in sorted((folder / "votes").glob("*.npz")):
        try:
            facts = open_arrays(path, ("votes",))[1]
            with reading(path):
                if (stated := facts.get("members")) is not None:
                    models = folder / "models"
                    members = models / members_file(models, facts["first_subset"] // MEMBERS_PER_FILE)
                    if not members.exists() or sha256_of(members) != stated:
                        raise DamagedFileError(f"{members} is damaged or missing.")
        except DamagedFileError as error:
            sentences.append(str(error))
    if (folder / "models" / POOL).exists():
        try:
            check_pooled(folder / "models")
        except DamagedFileError as error:
            sentences.append(str(error))
    return list(dict.fromkeys(sentences))


def results_of(folder: Path, identity: Identity) -> list[str]:
    """The files of a complete run that its manifest states digests of."""
    if identity.election is not None:
        return _results_of_samples(folder, identity, COUNTS[identity.election["method"]])
    names = [*RESULTS, *([SCHEMA] if identity.schema is not None else []), *([RANKINGS] if identity.rankings else [])]
    names += sorted(f"votes/{path.name}" for path in (folder / "votes").glob("*.npz"))
    if not identity.votes_only:
        files = engine_named(pooled=bool(identity.pooled)).files(identity.n_subsets, folder / "models")
        names += [f"models/{name}" for name in (ESTIMATOR, *files, RECORD)]
    return names


def _results_of_samples(folder: Path, identity: Identity, counts: str) -> list[str]:
    blocks = sorted(f"votes/{path.name}" for path in (folder / "votes").glob("*.npz"))
    kept = [] if identity.votes_only else [f"models/{name}" for name in OF_VOTERS]
    return [counts, "certificate.npz", *([SCHEMA] if identity.schema is not None else []), *blocks, *kept]


def altered(folder: Path, manifest: Manifest, *, members: bool = False) -> list[str]:
    """Files of a complete run that are not as the manifest states.

    Blocks of votes and base classifiers speak for themselves when a run goes on; ``members`` judges them too.
    """
    stated, identity = manifest.files, manifest.settings
    if stated is None:
        return []
    by_members = not (identity.votes_only or identity.pooled)
    if by_members and identity.n_subsets > MEMBERS_PER_FILE * len(stated):
        raise DamagedFileError(f"{folder / FILE} is damaged: it lists fewer files than it has blocks.")
    expected = results_of(folder, identity)
    optional = (name for name in stated if BLOCK_FILE.fullmatch(name))
    names = [*expected, *(name for name in optional if name not in expected)]
    if members and REPORT in stated and (folder / REPORT).exists():  # people take it away before they share a run
        names.append(REPORT)
    judged = [name for name in names if members or not ("members-" in name or BLOCK_FILE.fullmatch(name))]
    return [name for name in judged if not (folder / name).exists() or sha256_of(folder / name) != stated.get(name)]
