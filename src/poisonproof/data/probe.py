"""What can be said about a file before anything heavy is imported: whether it is there, of a known kind, with the
columns that options name. Standard library only, so that a wrong name is told at once.

What this passes may still be refused by the reader; what it refuses, the reader would refuse in the same words.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from poisonproof import registry
from poisonproof.data.options import ReadOptions
from poisonproof.display import nearest
from poisonproof.errors import PoisonproofError

LONGEST_HEADER = 1 << 20


def check(source: str | Path, options: ReadOptions) -> None:
    """Refuse what cannot be read: a name that is neither a data set nor a file, files and columns that are not there.

    Of a table in a format other than CSV only its name is looked at.
    """
    path = Path(source)
    if not path.exists():
        known = registry.names("datasets")
        if str(source) in known:
            return
        raise PoisonproofError(
            f"There is no data set '{source}' (there are {', '.join(known)}), and no file or folder of that name; "
            f"{_what_else(str(source), known)}",
            code="file.missing",
        )
    for other in (options.test, options.schema):
        if isinstance(other, Path) and not other.exists():
            raise PoisonproofError(f"There is no file or folder {other}.", code="file.missing")
    if path.is_dir():
        return
    ending = ending_of(path.name)
    if ending is None:
        endings = ", ".join(registry.names("readers"))
        raise PoisonproofError(
            f"{path} is of no known kind; there are {endings} and folders of images.", code="file.kind"
        )
    named = [name for name in (options.label, options.group_column) if name is not None]
    header = _header(path, ending, options) if ending.startswith((".csv", ".tsv")) and named else None
    for name in named:
        if header is not None and name not in header:
            raise PoisonproofError(
                f"{path} has no column '{name}'; {nearest(name, header)}", code="schema.unknown-column"
            )


def ending_of(name: str) -> str | None:
    """The longest ending of a file's name that stands in the registry of readers."""
    endings = [ending for ending in registry.names("readers") if name.lower().endswith(ending)]
    return max(endings, key=len, default=None)


def _header(path: Path, ending: str, options: ReadOptions) -> list[str] | None:
    """The names of the columns; None where only the reader can tell, because the first line is not one plain record."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(options.delimiter or "", options.delimiter)
    delimiter = delimiter or ("\t" if ending.startswith(".tsv") else ",")
    try:
        with gzip.open(path) if ending.endswith(".gz") else path.open("rb") as file:
            line = file.readline(LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except (OSError, EOFError, ValueError, TypeError, csv.Error):
        return None
    names = [name.strip() for name in names]
    numbers = [name for name in names if name.replace(".", "", 1).isdigit()]
    return names if len(names) > 1 and not numbers and "\0" not in line else None


def _what_else(name: str, known: Sequence[str]) -> str:
    """What was probably meant, among the data sets and what lies in the current folder; or something to try."""
    from difflib import get_close_matches

    close = get_close_matches(name, [*known, *sorted(item.name for item in Path().iterdir())], 1, 0.6)
    return f"did you mean '{close[0]}'?" if close else "`poisonproof example table` writes a small one to try."
