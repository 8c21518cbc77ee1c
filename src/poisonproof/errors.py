"""What the user can mend: every error of ours is one sentence that names the thing, the rule and the remedy."""

from __future__ import annotations


class PoisonproofError(ValueError):
    """Something that the user can mend. The command line prints its sentence and exits with code 2."""


class DamagedFileError(PoisonproofError):
    """A file that is not what it states to be; one sentence that names it."""
