"""What a refusal must be: our own error, its code, and one sentence that a person can read."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from poisonproof.errors import PoisonproofError


@contextmanager
def refused(
    code: str, kind: type[PoisonproofError] = PoisonproofError
) -> Iterator[pytest.ExceptionInfo[PoisonproofError]]:
    """An error of ours with this code; its sentence is one line of at most 400 characters that ends in a full stop."""
    with pytest.raises(kind) as caught:
        yield caught
    check_sentence(str(caught.value))
    assert caught.value.code == code, (caught.value.code, str(caught.value))


def check_sentence(sentence: str) -> None:
    """One line, short, printable, ended."""
    assert sentence.isprintable(), sentence
    assert len(sentence) <= 400, sentence
    assert sentence.endswith((".", "?", "`")), sentence
