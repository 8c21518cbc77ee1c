"""Errors you can fix: one sentence that names the thing, the rule and the remedy, and a short code."""

from __future__ import annotations

from typing import Any


class PoisonproofError(ValueError):
    """An error you can fix. The command line prints its sentence and exits with code 2.

    ``code`` names the rule that was broken (``"schema.unknown-column"``), for programs and tests; the sentence is for
    people and may be reworded.
    """

    code = "input"

    def __init__(self, sentence: str, *, code: str | None = None) -> None:
        super().__init__(sentence)
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), str(self), self.code)


def _unpickled(kind: type[PoisonproofError], sentence: str, code: str) -> PoisonproofError:
    """An error that a worker raised; `BaseException` would hand on the sentence alone."""
    return kind(sentence, code=code)


class DamagedFileError(PoisonproofError):
    """A file that is not what it states to be; one sentence that names it."""

    code = "file.damaged"


class UnnamedFileError(PoisonproofError):
    """A file that somebody else's files name and the user does not: it is not opened."""

    code = "file.unnamed"


class WrongTypeError(PoisonproofError, TypeError):
    """An argument of a type that cannot be meant."""

    code = "type"


class MissingExtraError(PoisonproofError, ImportError):
    """A library that is only installed on demand; the sentence says how."""

    code = "missing-extra"


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
    raise PoisonproofError(
        f"{where} is of format {stated!r}; this version reads {known!r}: make it again.", code="file.format"
    )
