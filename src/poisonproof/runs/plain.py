"""The folder of a run holds plain files and plain folders: nothing in it makes us read or write elsewhere.

Files are written under a fresh name and renamed, so a link that stands under their name is replaced, never followed;
what is left are the folders we write into, the lock, and what we read. The folder itself may be reached by links: its
name was given by the user, not by whoever filled it.
"""

from __future__ import annotations

import stat
from pathlib import Path

from poisonproof.errors import PoisonproofError
from poisonproof.runs.layout import (
    FOLDERS,
    LOCK,
    OWN,
    SCRATCH,
)
from poisonproof.system.files import PART


def check_plain(folder: Path) -> None:
    """Refuse the folder of a run in which a name of ours is a link, a pipe, a device, or a file for a folder."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name in OWN or path.name.endswith(PART):
            _check(path, is_folder=path.name in FOLDERS)
            if path.name in FOLDERS and path.name != SCRATCH:  # that one is removed, and links in it are not followed
                for inner in sorted(path.iterdir()):
                    _check(inner, is_folder=False)


def _check(path: Path, is_folder: bool) -> None:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(path, "a link")
    if is_folder != stat.S_ISDIR(status.st_mode) or not (is_folder or stat.S_ISREG(status.st_mode)):
        raise _refusal(path, "no plain folder" if is_folder else "no plain file")
    if path.name == LOCK and status.st_nlink > 1:
        raise _refusal(path, "another file's second name (a hard link)")


def _refusal(path: Path, what: str) -> PoisonproofError:
    return PoisonproofError(
        f"{path} is {what}, and nothing of a run may be: writing there could change what lies elsewhere. "
        "Remove it if you know where it comes from, or choose another folder."
    )
