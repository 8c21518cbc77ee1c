"""What the user can mend: every error of ours is one sentence that names the thing, the rule and the remedy."""

from __future__ import annotations

FORMER_NAME = "bezoar"


class PoisonproofError(ValueError):
    """Something that the user can mend. The command line prints its sentence and exits with code 2."""


class DamagedFileError(PoisonproofError):
    """A file that is not what it states to be; one sentence that names it."""


class UnnamedFileError(PoisonproofError):
    """A file that somebody else's files name and the user does not: it is not opened."""


class WrongTypeError(PoisonproofError, TypeError):
    """An argument of a type that cannot be meant."""


class MissingExtraError(PoisonproofError, ImportError):
    """A library that is only installed on demand; the sentence says how."""


def missing_extra(purpose: str, library: str, extra: str) -> MissingExtraError:
    """The error to raise where a library of an extra is not installed."""
    return MissingExtraError(f"{purpose} needs {library}; in a checkout of poisonproof: {install_command(extra)}.")


def install_command(extra: str) -> str:
    """What installs an extra. The package is on no index yet, so it names the checkout."""
    return f"pip install '.[{extra}]'"


def check_format(where: object, stated: object, known: str) -> None:
    """Refuse a file of another format than the one this version reads and writes."""
    if stated == known:
        return
    if isinstance(stated, str) and stated.startswith(f"{FORMER_NAME} "):
        raise PoisonproofError(
            f"{where} was written under the project's former name, {FORMER_NAME}, before its contracts were tightened, "
            "and is not read any more; make it again."
        )
    raise PoisonproofError(f"{where} is of format {stated!r}; this version reads {known!r}.")
