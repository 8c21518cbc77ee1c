"""One command with no options but the label, on real data sets: what a new user gets, beside what a practitioner has.

``POISONPROOF_DATA=DIR python -m research.studies.real_data`` measures and writes real_data.json; ``--kind
table`` measures tables only and leaves the other rows as they are; ``--page`` only writes real-data.md from it. Each
set is written as CSV and given to `poisonproof run FILE --label COLUMN`; its figures are read from --json, the strong
undefended model's among them (gradient boosting for tables, tf-idf of words and characters with a linear model for
texts). Test samples are met once, with the defaults as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from poisonproof import Certificate
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import open_files
from poisonproof.display import percent
from research.studies.real_sets import RealSet, real_sets, texts_folder

HERE = Path(__file__).parent
RECORD, PAGE = HERE / "real_data.json", HERE / "real-data.md"
SIZES = (1, 2, 5, 8)
GOAL = 4  # points between the strong undefended model and ours, where a base classifier has 200 samples or more


def measured(one: RealSet, folder: Path) -> dict[str, Any]:
    """What the command says of one set, what it took, and what stands beside it."""
    path = folder / "data.csv"
    one.frame().to_csv(path, index=False)
    words = [sys.executable, "-m", "poisonproof", "run", str(path), "--label", one.label, "--json", "--out"]
    before = os.times()
    done = subprocess.run([*words, str(folder / "run")], capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{one.name}: {done.stderr}")
    said = json.loads(done.stdout)
    data = open_files(path, ReadOptions(label=one.label))
    certificate = Certificate.load(folder / "run" / "certificate.npz")
    assert certificate.evaluate(data.test.labels).clean_accuracy == said["clean_accuracy"]
    return {
        "name": one.name,
        "kind": one.kind,
        "source": one.source,
        "n_train": len(data.train),
        "n_test": len(data.test),
        "classes": len(said["by_class"]),
        "k": said["k"],
        "d": said["d"],
        "majority": said["majority_share"],
        "strong": said["strong_undefended_accuracy"],
        "undefended": said["undefended_accuracy"],
        "clean": said["clean_accuracy"],
        "balanced": said["balanced_accuracy"],
        "certified": certificate.evaluate(data.test.labels).certified_fraction(SIZES).tolist(),
        "certified_balanced": certificate.evaluate(data.test.labels).certified_fraction_balanced(SIZES).tolist(),
        "learner": next((one for one in said["premises"] if one.startswith("learner: ")), None),
        "warning": said["warning"],
        "cpu_seconds": round(sum(after[2:4]) - sum(before[2:4]), 1),
    }


def page(record: list[dict[str, Any]]) -> str:
    """research/studies/real-data.md."""
    large = [row for row in record if row["n_train"] / row["k"] >= 200]
    gap = sum(row["strong"] - row["clean"] for row in large) / max(1, len(large))
    header = ["set", "from", "train / test", "classes", "always the most frequent", "strong, undefended", "clean"]
    header += ["balanced", *(f"at {size}" for size in SIZES), *(f"balanced at {size}" for size in SIZES), "CPU seconds"]
    lines = [
        [
            f"{row['name']} ({row['kind']})",
            row["source"],
            f"{row['n_train']:,} / {row['n_test']:,}",
            str(row["classes"]),
            percent(row["majority"]),
            percent(row["strong"]),
            percent(row["clean"]) + (" (!)" if row["warning"] else ""),
            percent(row["balanced"]),
            *map(percent, row["certified"]),
            *map(percent, row["certified_balanced"]),
            f"{row['cpu_seconds']:.0f}",
        ]
        for row in record
    ]
    ruled = [header, ["---", "---", *["--:"] * (len(header) - 2)], *lines]
    table = "\n".join(f"| {' | '.join(line)} |" for line in ruled)
    warned = "\n".join(f"- **{row['name']}**: {row['warning']}." for row in record if row["warning"])
    below = [row["name"] for row in record if row["clean"] <= row["majority"] and not row["warning"]]
    ks = ", ".join(sorted({f"k = {row['k']:g}, d = {row['d']}" for row in record}))
    return f"""# Real data, with no options

What `poisonproof run FILE --label COLUMN` gives on real data sets, with no other option ({ks}): accuracy and certified
fraction (pointwise) in %, at attack sizes {", ".join(map(str, SIZES))}, as shares of test samples and balanced (mean
over classes). Beside it: always answering the most frequent class, and what a practitioner would train without any
guarantee (gradient boosting for tables, tf-idf of words and characters with a linear model for texts). This page is
made by `python -m research.studies.real_data` from research/studies/real_data.json; a test compares them.

{table}

(!) marks where the command itself warns, before any figure, that the result is of little use:

{warned or "- nowhere."}

Sets where clean accuracy is not above the share of the most frequent class and the command does not say so:
{", ".join(below) or "none"}. Where a base classifier learns from 200 samples or more ({len(large)} sets), the mean gap
between the strong undefended model and the default's clean accuracy is {100 * gap:.1f} points; at most {GOAL} were
wanted, which {"holds" if 100 * gap <= GOAL else "does not hold"}.

Headlines with 12 % of a rare class: a base classifier sees about twenty headlines of the rare class, of seven words
each, so base classifiers disagree and little is certified; with `--k 10` each would see about forty, and no radius
could pass 5 (the report says this of every run in which a class is that scarce). On whole news items with as rare a
class, held-out training data: balanced 93.1 at attack size 0, with the same defaults.

The default for tables is `auto`: each base classifier takes logistic regression or, where cross-validation in its own
subset has them clearly ahead, boosted small trees. Neither is best everywhere (benchmarks/RESULTS.md, on training data
held out).

The reader, the split into training and test samples, and all figures are the command's own. CPU seconds are those of
the whole command, imports and report included, on one machine, once kernels have been compiled there.
"""


def recorded() -> dict[str, dict[str, Any]]:
    """What was measured before, by name."""
    return {row["name"]: row for row in json.loads(RECORD.read_text())} if RECORD.exists() else {}


def main() -> None:
    """Measure, or only write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", help="measure these sets again: parts of names, with semicolons")
    parser.add_argument("--kind", help="measure sets of this kind again: table, text or image")
    parser.add_argument("--missing", action="store_true", help="measure only sets that the record lacks")
    asked = parser.parse_args()
    kept = asked.missing or asked.page or asked.kind or asked.only
    if not kept:
        RECORD.write_text("[]\n")
    sets = [] if asked.page else list(real_sets(texts_folder()))
    for one in sets:
        if asked.only and not any(part in one.name for part in asked.only.split(";")):
            continue
        if (asked.missing and one.name in recorded()) or (asked.kind and asked.kind != one.kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = measured(one, Path(folder))
        print(json.dumps(row), flush=True)
        rows = {**recorded(), one.name: row}  # read again: others may measure at the same time
        names = dict.fromkeys([*(other.name for other in sets), *rows])
        RECORD.write_text(json.dumps([rows[name] for name in names if name in rows], indent=1) + "\n")
    record = json.loads(RECORD.read_text())
    PAGE.write_text(page(record))


if __name__ == "__main__":
    main()
