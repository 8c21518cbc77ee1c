"""poisonproof train: the first stage of a run by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poisonproof.cli import options, output, reading
from poisonproof.cli.output import progress_bar
from poisonproof.cli.run import EnsembleOptions, prepare

if TYPE_CHECKING:
    from poisonproof.data import ReadOptions

EXAMPLES = "Example: `poisonproof train my.csv --label class --k 20 --out runs/my`; then `poisonproof vote runs/my`"


@options.taking("ensemble", EnsembleOptions)
@options.taking("read", reading.read_options)
def command(ensemble: EnsembleOptions, json: options.Json = False, *, read: ReadOptions) -> None:
    """Split the data and train the base classifiers; keep them in a run directory, where they vote later.

    Takes what `poisonproof run` takes. An interrupted training goes on with the same command. `poisonproof vote RUN`
    lets the base classifiers vote on the test samples and certifies; `poisonproof vote RUN DATA` and `poisonproof
    predict` ask them about new data.
    """
    from poisonproof.display import in_bytes
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.train import train
    from poisonproof.system.progress import watched

    asked = prepare(ensemble, read)
    with progress_bar() as progress, watched(progress):
        manifest = train(*asked.what, RunSettings(**asked.how))
    folder = asked.what[2]
    size = sum(path.stat().st_size for path in (folder / "models").iterdir())
    record = {
        "out": str(folder),
        "status": manifest.status,
        "n_train": manifest.n_train,
        "base_classifiers": manifest.settings.n_subsets,
        "bytes": size,
    }
    if json:
        output.print_json(record)
    else:
        output.print_line(
            f"{folder}: {record['base_classifiers']} base classifiers on {record['n_train']} training samples, "
            f"{in_bytes(size)}; `poisonproof vote {folder}` lets them vote."
        )
