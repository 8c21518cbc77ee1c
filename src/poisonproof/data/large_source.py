"""Files that may be larger than memory: how they are read in a pass, and what was decided about all rows at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from poisonproof.data.dataset import Dataset, LabelledSamples, ReadReport
from poisonproof.data.files import FREE_EXPANSION, MOST_EXPANSION, is_gzip
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import TableSource, kind_of, open_with_schema, schema_premises, share_of, table_files
from poisonproof.errors import PoisonproofError
from poisonproof.samples.kinds import TextSamples
from poisonproof.samples.labels import class_array
from poisonproof.samples.schema import FEATURES, TableSchema
from poisonproof.system.files import sha256_of

ANY_SIZE = 1 << 60
FIRST_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """Files that are to be read in a pass: how, and what was decided about all rows at once."""

    path: Path
    options: ReadOptions
    schema: TableSchema
    reader: TableSource

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Source:
        """The tables of a file or a folder; nothing but their headers, and what a schema is guessed from, is read."""
        if options.test is not None and options.held_out is not None:
            raise PoisonproofError("Give --test or --held-out, not both.", code="options.test-twice")
        kind = kind_of(path, options)
        if kind != "table":
            raise PoisonproofError(
                f"{path} holds {kind}; only tables (CSV, Parquet, a folder of Parquet files) may be larger than memory."
            )
        unbounded = replace(options, most_bytes=_allowed(path, options))
        reader, schema = open_with_schema(path, unbounded, ReadReport())
        assert isinstance(reader, TableSource)
        assert isinstance(schema, TableSchema)
        if not schema.named(*FEATURES):
            raise PoisonproofError(
                f"No column of {path} is a number, a category or a text; there is nothing to learn from."
            )
        reader.table(schema)
        return cls(path, options, schema, reader)

    @property
    def grouped(self) -> bool:
        """Whether rows have contributors."""
        return self.schema.group is not None

    def outline(self) -> Dataset:
        """A data set without samples: what there is to know before the pass."""
        nobody = np.zeros(0, object)
        empty = LabelledSamples(TextSamples(nobody), nobody, nobody if self.grouped else None)
        premises = schema_premises(self.schema, self.options, grouped=self.grouped)
        return Dataset(
            self.path.name,
            empty,
            empty,
            None if self.options.classes is None else class_array(self.options.classes),
            schema=self.schema,
            premises=premises,
        )

    @cached_property
    def files(self) -> list[list[str]]:
        """Names and SHA-256 of the files."""
        return [[file.name, sha256_of(file)] for file in table_files(self.path)]

    def made_of(self) -> dict[str, Any]:
        """What the rows are a function of: files by name and content, and how to read them."""
        test = self.options.test
        return {
            "files": self.files,
            "schema": self.schema.as_dict(),
            "held_out": None if test is not None else share_of(self.options),
            "classes": None if self.options.classes is None else list(self.options.classes),
        }

    def n_rows(self) -> int | None:
        """About how many rows there are, if the files say so or their first lines do."""
        counts = [_rows_in(file) for file in table_files(self.path)]
        return None if None in counts else sum(count for count in counts if count is not None)


def _allowed(path: Path, options: ReadOptions) -> int:
    """How many bytes may be read: any number that is there, and of compressed files a bounded multiple."""
    if options.most_bytes is not None:
        return options.most_bytes
    if is_gzip(path):
        return max(FREE_EXPANSION, MOST_EXPANSION * path.stat().st_size)
    return ANY_SIZE


def _rows_in(path: Path) -> int | None:
    """How many rows a Parquet file states, or about how many lines of the first ones' length a file has."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    if is_gzip(path):
        return None
    with path.open("rb") as file:
        first = file.read(FIRST_BYTES)
    return round(path.stat().st_size / max(1, len(first)) * max(1, first.count(b"\n")))
