"""poisonproof doctor: what this machine offers, and what to type for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poisonproof.cli import options
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.doctor import Findings

EXAMPLES = "Example: `poisonproof doctor`; `poisonproof doctor --json`"


def command(data_dir: options.DataDir = None, json: options.Json = False) -> None:
    """Versions, cores, memory, threads, optional parts and data sets found here; for what is missing, the command.

    Paste it into a bug report. Nothing is changed or sent.
    """
    from poisonproof.doctor import examine

    found = examine(data_dir)
    if json:
        options.print_json(found.as_dict())
    else:
        _print(found)
    if not found.ok:
        raise PoisonproofError(
            f"The example of the docs has radius 1, and here it came out as {found.toy_radius}: believe no radius from "
            "this installation, and make a new one with `pip install --force-reinstall .` in a checkout."
        )


def _print(found: Findings) -> None:
    from poisonproof.doctor import SLOW_SECONDS

    def line(name: str, words: str) -> None:
        options.print_line(f"{name:<16}{words}")

    line("poisonproof", found.versions["poisonproof"])
    line("system", f"Python {found.versions['Python']}, {found.system}")
    line("libraries", ", ".join(f"{name} {version}" for name, version in list(found.versions.items())[2:]))
    line("cores", f"{found.cores} of {found.cores_in_all} may be used")
    free = "" if found.memory_free is None else f", {_bytes(found.memory_free)} free"
    line("memory", f"{_bytes(found.memory_total)}{free}; {_bytes(found.disk_free)} free on this disk")
    line("linear algebra", "; ".join(found.linear_algebra) + " (each base classifier uses one)")
    named = "".join(f", {name}={value}" for name, value in found.thread_variables.items())
    line("Numba", f"{found.numba_threads} threads{named}")
    slow = " (Numba compiled; the next time is quicker)" if found.toy_seconds > SLOW_SECONDS else ""
    verdict = "as it must" if found.ok else "NOT 1, AS IT MUST"
    line("self-test", f"the toy example has radius {found.toy_radius}, {verdict}; {found.toy_seconds} s{slow}")
    line("browser", "none needed: report.html is one file that any browser opens")
    for part in found.optional:
        there = ", ".join(f"{name} {version}" for name, version in part.present.items())
        absent = f"missing {', '.join(part.missing)}: {part.command}" if part.missing else ""
        line(f"[{part.name}]", "; ".join(words for words in (there, absent) if words))
    for data in found.data:
        line(data.name, data.where or f"not found: {data.remedy}")


def _bytes(size: int | None) -> str:
    from poisonproof.display.numbers import in_bytes

    return "?" if size is None else in_bytes(size)
