"""poisonproof split: index lists for people who train elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from poisonproof.cli import completion, options
from poisonproof.errors import PoisonproofError

EXAMPLES = "Example: `poisonproof split train.npz --k 50 --d 16 --out subsets.npz`"


def command(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help=".npy with the samples, or .npz with x_train (and y_train) or X (and y)."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Where to write the subsets.")],
    k: options.K = 50,
    d: options.D = 16,
    spread: options.SpreadName = None,
    split: options.SplitName = "content",
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            autocompletion=completion.one_of("float64", "uint8"),
            help="Declared form of the samples: `float64` or `uint8`.",
        ),
    ] = "float64",
    json: options.Json = False,
) -> None:
    """Write which training samples train which base classifier.

    The .npz file holds `rows` and `starts`: subset i is `rows[starts[i]:starts[i + 1]]`, in canonical order;
    and `partition`, the partition of each sample. `OUT.spread.npz` holds the spread that `poisonproof certify` needs.
    """
    import numpy as np

    from poisonproof import Split
    from poisonproof.partition.spread import resolve_spread
    from poisonproof.partition.subsets import Subsets
    from poisonproof.samples.labels import read_labels
    from poisonproof.system.files import write_arrays

    how = Split(split, dtype)  # type: ignore[arg-type]
    chosen = resolve_spread(options.parse_spread(spread) if spread else None, k, d, unless=(50, 16))
    X, y = _read(data)
    samples = how.samples(X)
    codes = np.zeros(len(samples), np.int64) if y is None else read_labels(y).codes
    if len(codes) != len(samples):
        raise PoisonproofError(f"{data} holds {len(samples)} samples but {len(codes)} labels.")
    subsets = Subsets.of(samples, codes, how.partitions(samples, chosen.n_partitions), chosen)
    starts = np.concatenate(([0], np.cumsum(subsets.sizes)))
    rows = np.concatenate([subsets.rows(i) for i in range(len(subsets))])
    facts = {"format": "poisonproof subsets 1", "spread_digest": chosen.digest, "split": how.as_dict()}
    write_arrays(out, {"rows": rows, "starts": starts, "partition": subsets.partition}, facts)
    spread_file = out.with_suffix(".spread.npz")
    chosen.save(spread_file)
    empty = int((subsets.sizes == 0).sum())
    summary = {
        "out": str(out),
        "spread": str(spread_file),
        "samples": len(samples),
        "subsets": len(subsets),
        "smallest": int(subsets.sizes.min()),
        "largest": int(subsets.sizes.max()),
        "empty": empty,
    }
    if json:
        options.print_json(summary)
    else:
        options.print_table(
            f"{data.name} → {out.name}", list(summary)[2:], [[str(v) for v in list(summary.values())[2:]]]
        )
    if empty:
        options.note(f"{empty} of {len(subsets)} subsets are empty; their base classifiers must abstain")


def _read(path: Path) -> tuple[Any, Any]:
    from poisonproof.system.archives import map_npy, read_npz
    from poisonproof.system.files import reading

    with reading(path, "is not a whole .npy or .npz file"):
        if path.suffix == ".npy":
            return map_npy(path), None
        arrays = read_npz(path, ("x_train", "y_train", "X", "y"))
    for x_name, y_name in (("x_train", "y_train"), ("X", "y")):
        if x_name in arrays:
            return arrays[x_name], arrays.get(y_name)
    raise PoisonproofError(f"{path} holds neither; it must hold x_train or X.")
