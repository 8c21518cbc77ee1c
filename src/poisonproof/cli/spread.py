"""poisonproof spread: designed spreads near a k and d."""

from __future__ import annotations

from typing import Annotated

import typer

from poisonproof.cli import options, output

EXAMPLES = "Example: `poisonproof spread 50 5`, then `poisonproof run digits --spread plane:4,12`"


def command(
    k: Annotated[float, typer.Argument(help="Inverse sensitivity: a sample reaches 1/k of the base classifiers.")],
    d: Annotated[float, typer.Argument(help="Spread degree: how many base classifiers a sample reaches.")],
    json: options.Json = False,
) -> None:
    """Suggest spreads whose overlap the tight certificate turns into radius, nearest to K and D first.

    Two partitions of one block share `overlap` base classifiers, of different blocks none. The name is what `--spread`
    takes. Certify the votes with `--method tight`.
    """
    from poisonproof import Spread

    designs = Spread.suggest(k, d)
    if json:
        names = ("name", "n_subsets", "k", "d", "blocks", "block_size", "overlap")
        output.print_json({"designs": [{name: getattr(design, name) for name in names} for design in designs]})
        return
    output.print_table(
        f"Designed spreads near k = {k:g}, d = {d:g}",
        ["--spread", "base classifiers", "k", "d", "blocks", "block size", "overlap"],
        [
            [
                design.name,
                str(design.n_subsets),
                f"{design.k:.1f}",
                str(design.d),
                str(design.blocks),
                str(design.block_size),
                str(design.overlap),
            ]
            for design in designs
        ],
    )
