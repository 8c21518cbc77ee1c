"""poisonproof doctor: what this machine offers, and what to type for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poisonproof.cli import options, output
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.doctor import Findings

EXAMPLES = "Example: `poisonproof doctor`; `poisonproof doctor --json`"


def command(json: options.Json = False) -> None:
    """Versions, cores, memory, threads, and optional parts found here; for what is missing, the command.

    Paste it into a bug report. Nothing is changed or sent.
    """
    from poisonproof.doctor import examine

    findings = examine()
    if json:
        output.print_json(findings.as_dict())
    else:
        _print(findings)
    if not findings.ok:
        raise PoisonproofError(
            f"The example of the docs has radius 1, and here it came out as {findings.toy_radius}: believe no radius "
            "from this installation, and make a new one with `pip install --force-reinstall .` in a checkout."
        )


def _print(findings: Findings) -> None:
    from poisonproof.doctor import SLOW_SECONDS

    def line(name: str, words: str) -> None:
        output.print_line(f"{name:<16}{words}")

    line("poisonproof", findings.versions["poisonproof"])
    line("system", f"Python {findings.versions['Python']}, {findings.system}")
    line("libraries", ", ".join(f"{name} {version}" for name, version in list(findings.versions.items())[2:]))
    line("cores", f"{findings.cores} of {findings.cores_in_all} may be used")
    free = "" if findings.memory_free is None else f", {_bytes(findings.memory_free)} free"
    line("memory", f"{_bytes(findings.memory_total)}{free}; {_bytes(findings.disk_free)} free on this disk")
    line("linear algebra", "; ".join(findings.linear_algebra) + " (each base classifier uses one)")
    named = "".join(f", {name}={value}" for name, value in findings.thread_variables.items())
    line("Numba", f"{findings.numba_threads} threads{named}")
    slow = " (Numba compiled; the next time is quicker)" if findings.toy_seconds > SLOW_SECONDS else ""
    verdict = "as it must" if findings.ok else "NOT 1, AS IT MUST"
    line("self-test", f"the toy example has radius {findings.toy_radius}, {verdict}; {findings.toy_seconds} s{slow}")
    line("browser", "none needed: report.html is one file that any browser opens")
    for part in findings.optional:
        present = ", ".join(f"{name} {version}" for name, version in part.present.items())
        absent = f"missing {', '.join(part.missing)}: {part.command}" if part.missing else ""
        line(f"[{part.name}]", "; ".join(words for words in (present, absent) if words))


def _bytes(size: int | None) -> str:
    from poisonproof.display import in_bytes

    return "?" if size is None else in_bytes(size)
