"""poisonproof train: the first stage of a run by itself."""

from __future__ import annotations

import inspect
from typing import Any

from poisonproof.cli import options, run

EXAMPLES = "Example: `poisonproof train my.csv --label class --k 20 --out runs/my`; then `poisonproof vote runs/my`"
OF_LATER_STAGES = ("votes_only", "rankings", "undefended", "resume")
OF_THE_RUN = (
    "dataset",
    "k",
    "d",
    "out",
    "spread",
    "learner",
    "data_dir",
    "download",
    "split",
    "n_jobs",
    "max_memory",
    "plan",
)


def command(**given: Any) -> None:
    """Split the data and train the base classifiers; keep them in a run directory, where they vote later.

    Takes what `poisonproof run` takes. An interrupted training goes on with the same command. `poisonproof vote RUN`
    lets the base classifiers vote on the test samples and certifies; `poisonproof vote RUN DATA` and `poisonproof
    predict` ask them about new data.
    """
    from poisonproof.display.numbers import in_bytes
    from poisonproof.runs.manifest import RunSettings
    from poisonproof.runs.train import train
    from poisonproof.system.progress import watched

    json = given.pop("json")
    said = {name.replace("_", "-"): given.pop(name) for name in list(given) if name not in OF_THE_RUN}
    asked = run.prepare(**given, said=said)
    with run.progress_bar() as progress, watched(progress):
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
        options.print_json(record)
    else:
        options.print_line(
            f"{folder}: {record['base_classifiers']} base classifiers on {record['n_train']} training samples, "
            f"{in_bytes(size)}; `poisonproof vote {folder}` lets them vote."
        )


_taken = inspect.signature(run.command, eval_str=True)
command.__signature__ = _taken.replace(  # type: ignore[attr-defined]
    parameters=[option for name, option in _taken.parameters.items() if name not in OF_LATER_STAGES]
)
