"""Files that are read forward in bounded memory, plain or gzip; lines of them; and what may be read at all."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from poisonproof.data.dataset import ReadReport
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.system.machine import memory

LONGEST_LINE = 1 << 22
MOST_BYTES = 1 << 32
MOST_EXPANSION = 100
FREE_EXPANSION = 1 << 26
MEMORY_PER_BYTE = 3
COMPRESSED = 1 << 16  # bytes that are expanded at once
GZIP = 31  # as zlib names the format


class Body:
    """Bytes that somebody sent, where a reader opens a file; ``name`` says by its ending what they hold."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content, self.name, self.suffix = content, name, Path(name).suffix

    def __str__(self) -> str:
        return "The body"

    def open(self, mode: str = "rb") -> IO[bytes]:
        """A stream from the beginning."""
        return io.BytesIO(self.content)


Opens = Path | Body
"""What a reader opens: a file, or bytes that somebody sent."""


def size_of(path: Opens) -> int:
    """How many bytes there are."""
    return len(path.content) if isinstance(path, Body) else path.stat().st_size


class BoundedFile:
    """A file that is read forward, expanded on the way if it is gzip, and no further than is allowed.

    Who has to go back says so beforehand: `mark` is a place, to which `back` returns without expanding anything twice.
    """

    def __init__(self, path: Opens, file: IO[bytes], allowed: int) -> None:
        self.path, self.file, self.allowed, self.position = path, file, allowed, 0
        self.member: Any = zlib.decompressobj(GZIP) if is_gzip(path) else None

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
        data = self.file.read(size) if self.member is None else b"".join(self._expanded(size))
        self.position += len(data)
        if self.position > self.allowed:
            raise PoisonproofError(
                f"{self.path} expands to more than {in_bytes(self.allowed)}, which is refused unless --max-size allows "
                "more.",
                code="data.too-large",
            )
        return data

    def skip(self, size: int) -> None:
        """Pass over so many bytes."""
        while size > 0 and (data := self.read(min(size, 1 << 20))):
            size -= len(data)

    def passed_over(self, size: int) -> None:
        """So many bytes were of a record that nobody holds; they do not count, or one long record would stop a file."""
        self.allowed += size

    def mark(self) -> tuple[int, int, int, Any]:
        """Where the file stands."""
        return self.position, self.allowed, self.file.tell(), None if self.member is None else self.member.copy()

    def back(self, mark: tuple[int, int, int, Any]) -> None:
        """Stand there again, once."""
        self.position, self.allowed, place, self.member = mark
        self.file.seek(place)

    def _expanded(self, size: int) -> Iterator[bytes]:
        """The next bytes of a gzip file, and of the members that follow, zeros between them aside."""
        try:
            while size > 0:
                rest = self.member.unconsumed_tail
                if self.member.eof:
                    rest = self.member.unused_data.lstrip(b"\0")
                    while not rest and (more := self.file.read(COMPRESSED)):
                        rest = more.lstrip(b"\0")
                    if not rest:
                        return
                    self.member = zlib.decompressobj(GZIP)
                rest = rest or self.file.read(COMPRESSED)
                data = self.member.decompress(rest, size)
                if not (rest or data or self.member.eof):
                    raise PoisonproofError(
                        f"{self.path} is damaged: it is not a whole gzip file (it ends too soon).", code="file.damaged"
                    )
                size -= len(data)
                yield data
        except zlib.error as error:
            raise PoisonproofError(
                f"{self.path} is damaged: it is not a whole gzip file ({error}).", code="file.damaged"
            ) from None


def is_gzip(path: Opens) -> bool:
    """Whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


@contextmanager
def opened(path: Opens, most_bytes: int | None) -> Iterator[BoundedFile]:
    """A file to be read forward.

    Parameters
    ----------
    path : path
    most_bytes : int, optional
        How many bytes may be read, after expansion. Otherwise 4 GB, and a hundred times the size of a compressed
        file.
    """
    size, allowed = size_of(path), most_bytes or MOST_BYTES
    if is_gzip(path):
        allowed = most_bytes or min(allowed, max(FREE_EXPANSION, MOST_EXPANSION * size))
    else:
        check_size(path, size, allowed)
        if most_bytes is None:
            check_memory(path, size)
    with path.open("rb") as file:
        yield BoundedFile(path, file, allowed)


def lines(path: Opens, most_bytes: int | None, report: ReadReport) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and content of the lines of a plain file; blank ones are passed over, others that are left out
    are counted."""
    with opened(path, most_bytes) as bounded:
        number, goes_on = 1, False
        while line := bounded.file.readline(LONGEST_LINE):
            whole = line.endswith(b"\n") or len(line) < LONGEST_LINE
            if not whole and not goes_on:
                report.add(path.name, "line.too-long", number)
            elif goes_on:
                pass
            elif b"\0" in line:
                report.add(path.name, "line.nul", number)
            elif line.strip():
                yield number, line.removesuffix(b"\n").removesuffix(b"\r")
            number, goes_on = number + whole, not whole


def check_size(path: Opens, size: int, allowed: int) -> None:
    """Refuse what is larger than allowed, and say what it would need."""
    if size > allowed:
        raise PoisonproofError(
            f"{path} holds {in_bytes(size)} of data, of which at most {in_bytes(allowed)} are read unless --max-size "
            f"allows more; reading all of it takes about {in_bytes(MEMORY_PER_BYTE * size)} of memory.",
            code="data.too-large",
        )


def check_memory(path: Opens, size: int) -> None:
    """Refuse what would not fit into the memory that is free, and say what it would need."""
    needed, free = MEMORY_PER_BYTE * size, memory().free
    if free is not None and needed > free:
        raise PoisonproofError(
            f"{path} holds {in_bytes(size)} of data, and reading it takes about {in_bytes(needed)} of memory, of "
            f"which {in_bytes(free)} are free; read a part of it, or insist with --max-size {-(-size // 10**8) / 10}.",
            code="data.too-large",
        )


def is_utf_8(body: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def decoded(body: bytes) -> str:
    """Bytes as a text: UTF-8, or Latin-1 if they are not UTF-8; a matter of these bytes alone."""
    return body.decode() if is_utf_8(body) else body.decode("latin-1")
