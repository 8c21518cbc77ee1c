"""poisonproof plan --samples N --rows-per-file M: what growth costs on a cluster, on paper."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from poisonproof.cli import options
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from poisonproof.planning.growth import Needs, Scene

MOST = Decimal(10**18)


def amount(option: str, text: str) -> int:
    """A whole number as people write large ones, `60000` or `1e9`, or one sentence."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(0)
    if not (number.is_finite() and 1 <= number <= MOST and number == number.to_integral_value()):
        raise PoisonproofError(f"{option} must be a whole number from 1 to 1e18, like 60000 or 1e9. Got '{text}'.")
    return int(number)


def show(scene: Scene, ks: list[int], ds: list[int], json: bool) -> None:
    """Print what ensembles of each k and d, and ballots, would take."""
    from poisonproof.planning.growth import MEASURED, assumptions, ballots, ensemble

    needs = [*(ensemble(scene, k, d) for k in ks for d in ds), ballots(scene)]
    words = assumptions(scene)
    if json:
        growth = {"scene": {**asdict(scene), "files": scene.files}, "needs": [asdict(one) for one in needs]}
        growth |= {"constants": asdict(MEASURED), "assumptions": list(words)}
        options.print_json({"estimated": True, "growth": growth})
        return
    options.print_table(
        f"{scene.samples:,} training samples in {scene.files:,} file(s), {scene.workers:,} worker(s) of one core: "
        "every figure is estimated",
        [
            "who votes",
            "k",
            "d",
            "storage",
            "network",
            "CPU hours",
            "takes, hours",
            "memory of a worker",
            "of the caller",
        ],
        [_cells(one) for one in needs],
        left=1,
    )
    for sentence in words:
        options.print_line(sentence)
    options.print_line("The measured constants and where they come from: --json, docs/scale.md.")


def _cells(needs: Needs) -> list[str]:
    from poisonproof.display.numbers import in_bytes

    def hours(amount: float) -> str:
        return f"{amount:,.0f}" if amount >= 100 else f"{amount:.2g}"

    return [
        needs.who,
        *("–" if number is None else f"{number:,}" for number in (needs.k, needs.d)),
        in_bytes(needs.storage, up=True),
        in_bytes(needs.network, up=True),
        hours(needs.cpu_hours),
        hours(needs.hours),
        in_bytes(needs.worker_memory, up=True),
        in_bytes(needs.caller_memory, up=True),
    ]
