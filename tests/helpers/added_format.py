"""A file format from outside the package: JSON Lines with a header, `["length", "kind"]`, and rows like it."""

import json
from itertools import islice

from poisonproof import registry
from poisonproof.data.dataset import ReadReport
from poisonproof.data.tables import RawBatch
from poisonproof.samples.columns import ObjectCells

ROWS_PER_BATCH = 4096


class JsonLines:
    kind = "table"

    def __init__(self, path):
        self.path, self.unreadable = path, []
        with path.open(encoding="utf-8") as file:
            self.header = json.loads(file.readline())

    @classmethod
    def open(cls, path, options):
        return cls(path)

    def raw_batches(self, columns, report: ReadReport):
        rows = self._good_rows(report)
        while batch := list(islice(rows, ROWS_PER_BATCH)):
            numbers, cells = zip(*batch, strict=True)
            by_name = dict(zip(self.header, zip(*cells, strict=True), strict=True))
            yield RawBatch(numbers, {name: ObjectCells(by_name[name]) for name in columns})

    def _good_rows(self, report):
        """The number of each line and its cells; a line that is no such list is left out, and no other."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(islice(file, 1, None), 2):
                try:
                    cells = json.loads(line)
                except (ValueError, RecursionError):
                    cells = None
                if isinstance(cells, list) and len(cells) == len(self.header):
                    yield number, cells
                else:
                    report.add(self.path.name, "csv.number-of-cells", number)


def add():
    registry.add("readers", ".jsonl", JsonLines)
