"""What stands in the folder of a run, and whether it is as it was written.

The manifest states the digests of the results; a block of votes carries its own, and the settings of the run that
made it, so that no file is taken for another one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bezoar.files import DamagedFileError, open_arrays, read_record, reading, sha256_of
from bezoar.store import MEMBERS_PER_FILE, RECORD, members_file, model_files

BLOCK = MEMBERS_PER_FILE
RESULTS = ("votes.npy", "votes.json", "certificate.npz", "spread.npz", "split.npy")
SCRATCH = "scratch"
OWN = ("manifest.json", "report.html", "run.lock", "votes", "models", SCRATCH, *RESULTS)

Block = tuple[dict[str, NDArray[Any]], dict[str, Any]]


def damage(folder: str | Path) -> list[str]:
    """What is wrong with the files of a run, one sentence each; nothing for a run of which every bit is as written.

    Of a run that is not complete only the blocks can be judged.
    """
    folder = Path(folder)
    try:
        manifest = read_record(folder / "manifest.json")
        said = [f"{folder / name} is altered or missing." for name in altered(folder, manifest, members=True)]
    except DamagedFileError as error:
        return [str(error)]
    for path in sorted((folder / "votes").glob("*.npz")):
        try:
            facts = open_arrays(path, ("votes",))[1]
            with reading(path):
                if facts["settings"] != key_of(manifest["settings"]):
                    raise DamagedFileError(f"{path} is a block of another run.")
                if (stated := facts.get("members")) is not None:
                    members = folder / "models" / members_file(facts["first_subset"] // BLOCK)
                    if not members.exists() or sha256_of(members) != stated:
                        raise DamagedFileError(f"{members} is damaged or missing.")
        except DamagedFileError as error:
            said.append(str(error))
    return list(dict.fromkeys(said))


def key_of(settings: dict[str, Any]) -> str:
    """What a block states to belong to its run: the digest of the settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def results_of(settings: dict[str, Any]) -> list[str]:
    """The files of a complete run that its manifest states digests of."""
    if settings["votes_only"]:
        return list(RESULTS)
    return [*RESULTS, *(f"models/{name}" for name in (*model_files(n_subsets_of(settings)), RECORD))]


def n_subsets_of(settings: dict[str, Any]) -> int:
    """k·d, a whole number even where k is none."""
    return round(settings["k"] * settings["d"])


def altered(folder: Path, manifest: dict[str, Any], members: bool = False) -> list[str]:
    """Files of a complete run that are not as the manifest states; blocks speak for base classifiers themselves."""
    stated = manifest.get("files")
    if stated is None:
        return []
    with reading(folder / "manifest.json"):
        settings = manifest["settings"]
        if not settings["votes_only"] and n_subsets_of(settings) > BLOCK * len(stated):
            raise ValueError("it lists fewer files than it has blocks")
        names = [name for name in results_of(settings) if members or "members-" not in name]
        return [n for n in names if not (folder / n).exists() or sha256_of(folder / n) != stated.get(n)]


def kept_block(
    folder: Path, key: str, block: int, size: tuple[int, int], votes_only: bool, say: Callable[[str], None]
) -> Block | None:
    """A block that an earlier run left whole, with its base classifiers; None if it is absent or damaged."""
    kept = whole_block(folder / "votes" / block_file(block), key, {"first_subset": block * BLOCK}, size, say)
    members = folder / "models" / members_file(block)
    if kept and not votes_only and (not members.exists() or sha256_of(members) != kept[1].get("members")):
        say(f"{members} is damaged or missing. It is computed again.")
        return None
    return kept


def whole_block(
    path: Path, key: str, place: dict[str, int], size: tuple[int, int], say: Callable[[str], None]
) -> Block | None:
    """What a file holds, if it is whole and the block of this run that belongs there; else None, and why is said."""
    if not path.exists():
        return None
    try:
        arrays, facts = open_arrays(path, ("votes",))
        belongs = all(facts.get(name) == value for name, value in {"settings": key, **place}.items())
        if not belongs or arrays["votes"].shape != size:
            raise DamagedFileError(f"{path} is not that block of this run.")
    except DamagedFileError as error:
        say(f"{error} It is computed again.")
        return None
    return arrays, facts


def block_file(block: int) -> str:
    """The name of the file that holds the votes of a block of base classifiers."""
    return f"block-{block:05d}.npz"
