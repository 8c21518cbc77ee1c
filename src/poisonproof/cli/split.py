"""poisonproof split: index lists for people who train elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from poisonproof.cli import completion, options, output, reading
from poisonproof.errors import PoisonproofError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from poisonproof.data.options import ReadOptions

EXAMPLES = (
    "Example: `poisonproof split train.npz --k 50 --d 16 --out subsets.npz`; "
    "`poisonproof split my.csv --label class --k 20 --d 1 --out subsets.npz`"
)


@options.taking("read", reading.read_options)
def command(
    data: Annotated[
        str,
        options.data_argument(
            ".npy with the samples, .npz with x_train (and y_train) or X (and y), or anything that `run` takes; all "
            "samples are split."
        ),
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
    data_dir: options.DataDir = None,
    json: options.Json = False,
    *,
    read: ReadOptions,
) -> None:
    """Write which training samples train which base classifier.

    The .npz file holds `rows` and `starts`: subset i is `rows[starts[i]:starts[i + 1]]`, in canonical order;
    `partition`, the partition of each sample; and, of files that are read row by row, `names`: the line, row or picture
    that each sample is. It holds the spread and the split too, with digests: `poisonproof certify votes.npy --spread
    OUT` takes them from there.
    """
    import numpy as np

    from poisonproof import Split
    from poisonproof.core.spread import resolve_spread
    from poisonproof.core.subsets import Subsets, save_subsets
    from poisonproof.samples.labels import read_labels

    chosen = resolve_spread(options.parse_spread(spread) if spread else None, k, d, unless=(50, 16))
    given = _read(data, data_dir, read, dtype)
    if given.groups is not None and split != "content":
        raise PoisonproofError(f"With a column of contributors the split is 'group'; leave --split {split} out.")
    how = Split("group" if given.groups is not None else split, given.dtype, given.n_features)  # type: ignore[arg-type]
    samples = how.samples(given.X)
    codes = np.zeros(len(samples), np.int64) if given.y is None else read_labels(given.y, read.classes).codes
    if len(codes) != len(samples):
        raise PoisonproofError(f"{data} holds {len(samples)} samples but {len(codes)} labels.")
    subsets = Subsets.of(samples, codes, how.partitions(samples, chosen.n_partitions, groups=given.groups), chosen)
    save_subsets(out, subsets, how, given.names)
    empty = int((subsets.sizes == 0).sum())
    summary = {
        "out": str(out),
        "spread": f"{spread or 'random'}, {chosen}",
        "samples": len(samples),
        "subsets": len(subsets),
        "smallest": int(subsets.sizes.min()),
        "largest": int(subsets.sizes.max()),
        "empty": empty,
    }
    if json:
        output.print_json(summary)
    else:
        output.print_table(
            f"{Path(data).name} → {out.name}", list(summary)[2:], [[str(v) for v in list(summary.values())[2:]]]
        )
        output.print_line(f"spread: {summary['spread']}; {out.name} holds it, for `poisonproof certify --spread`")
    if empty:
        output.note(f"{empty} of {len(subsets)} subsets are empty; their base classifiers must abstain")


class _Given(NamedTuple):
    """What is to be split: samples, labels and contributors, and what each sample is called."""

    X: Any
    y: Any
    dtype: str
    groups: NDArray[Any] | None = None
    n_features: int | None = None
    names: Sequence[int | str] | None = None


def _read(name: str, data_dir: Path | None, read: ReadOptions, dtype: str) -> _Given:
    from poisonproof import registry
    from poisonproof.data.dataset import ReadReport
    from poisonproof.data.reading import open_with_schema, read_all
    from poisonproof.samples.schema import ImageSchema, SparseSchema

    for option, value in (("--test", read.test), ("--held-out", read.held_out)):
        if value is not None:
            raise PoisonproofError(
                f"{option} holds samples out, and `split` splits all that it is given; leave it out."
            )
    path = Path(name)
    if path.suffix in (".npy", ".npz") and not reading.words_of(read):
        return _Given(*_arrays(path), dtype)
    if name in registry.names("datasets"):
        known = reading.open_data(name, data_dir, read)
        return _Given(known.train.samples, known.train.labels, known.dtype)
    reader, schema = open_with_schema(path, read, report := ReadReport())
    part = read_all(reader, schema, report)
    for note in report.sentences():
        output.note(note)
    if schema.kind == "table" and not read.schema:
        output.note(f"premise: schema: {schema} (chosen from this data)")
    form = "uint8" if isinstance(schema, ImageSchema) or getattr(schema, "dtype", None) == "uint8" else dtype
    width = schema.n_features if isinstance(schema, SparseSchema) else None
    return _Given(part.samples, part.labels, form, part.groups, width, part.names)


def _arrays(path: Path) -> tuple[Any, Any]:
    from poisonproof.system.archives import map_npy, read_npz
    from poisonproof.system.files import reading as opening

    with opening(path, "is not a whole .npy or .npz file"):
        if path.suffix == ".npy":
            return map_npy(path), None
        arrays = read_npz(path, ("x_train", "y_train", "X", "y"))
    for x_name, y_name in (("x_train", "y_train"), ("X", "y")):
        if x_name in arrays:
            return arrays[x_name], arrays.get(y_name)
    raise PoisonproofError(f"{path} holds neither; it must hold x_train or X.")
