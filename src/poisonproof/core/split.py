"""Split: training sample → partition, from its own content alone."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from poisonproof.errors import PoisonproofError, WrongTypeError
from poisonproof.samples.cells import cell_codes
from poisonproof.samples.frames import as_frame
from poisonproof.samples.hashing import hash_bytes, hash_numbers
from poisonproof.samples.labels import label_cells, one_by_one

if TYPE_CHECKING:  # votes are certified without what reads samples
    from poisonproof.samples.kinds import Samples
    from poisonproof.samples.schema import TableSchema


DTYPES = ("float64", "uint8")
Kind = Literal["content", "pixel-sum", "group"]
Threat = Literal["insert_remove", "label_flip", "modify"]


@dataclass(frozen=True)
class Split:
    """How a training sample finds its partition, and so what each attack costs.

    Parameters
    ----------
    kind : "content", "pixel-sum" or "group"
        ``content``: a 64-bit hash (xxh64) of the sample's canonical bytes. ``pixel-sum``: the sum of
        its values, as in the paper. ``group``: a hash of its contributor's id, so that the radius
        counts contributors; ids must be authenticated.
    dtype : "float64" or "uint8"
        The declared form of dense numbers; images may be declared as uint8.
    n_features : int, optional
        The declared number of features; otherwise that of the training data, which is a premise.
    hash_labels : bool
        Whether the label is part of the content. By default it is not, so that a label flip touches
        one partition.
    schema : TableSchema or mapping of columns to roles, optional
        How the cells of a DataFrame are read: ``{"age": "number", "city": "category", "note": "text"}``. A cell that
        is not the number it should be is missing, in its own row only; columns that are not named are refused.
        Without it the dtypes of the frame stand, which is a premise: whoever read the table decided on them.
    """

    kind: Kind = "content"
    dtype: str = "float64"
    n_features: int | None = None
    hash_labels: bool = False
    schema: TableSchema | None = None

    def __post_init__(self) -> None:
        if self.schema is not None:
            object.__setattr__(self, "schema", _table_schema(self.schema))
            if self.dtype != "float64" or self.n_features is not None:
                raise PoisonproofError(
                    "A schema says how many features there are and that numbers are float64; leave both.",
                    code="split.parameter",
                )
        if self.kind not in get_args(Kind):
            raise PoisonproofError(
                f"The 'split' parameter must be one of 'content', 'pixel-sum' and 'group'. Got {self.kind!r} instead.",
                code="split.kind",
            )
        if self.dtype not in DTYPES:
            raise PoisonproofError(
                f"The 'dtype' of a split must be one of {list(DTYPES)}. Got {self.dtype!r} instead.",
                code="split.parameter",
            )
        if self.n_features is not None and operator.index(self.n_features) < 1:
            raise PoisonproofError(
                f"The 'n_features' of a split must be at least 1. Got {self.n_features} instead.",
                code="split.parameter",
            )
        if self.hash_labels and self.kind != "content":
            raise PoisonproofError(
                f"Only the 'content' split can hash labels. Got kind={self.kind!r}.", code="split.parameter"
            )

    @classmethod
    def of(cls, split: Self | str | None) -> Self | None:
        """A split from its record or its name; None stays None, for votes made elsewhere."""
        if split is None or isinstance(split, cls):
            return split
        if isinstance(split, str):
            return cls(split)  # type: ignore[arg-type]
        raise WrongTypeError(f"The 'split' parameter must be a name or a poisonproof.Split. Got {split!r} instead.")

    def cost(self, threat: Threat) -> int:
        """How many units of attack size one such act costs.

        One insertion or removal is 1. A label flip is 1, or 2 where the label decides the partition.
        A feature change may move a sample from one partition to another: 2. A contributor may do
        anything to its own samples for 1.
        """
        if threat not in get_args(Threat):
            raise PoisonproofError(
                f"A threat is one of {list(get_args(Threat))}. Got {threat!r} instead.", code="certify.threat"
            )
        if threat == "insert_remove" or self.kind == "group":
            return 1
        if threat == "label_flip":
            return 2 if self.hash_labels else 1
        return 2

    def samples(self, X: Any) -> Samples:
        """X in canonical form, as declared."""
        from poisonproof.samples.convert import read_by_schema, to_samples
        from poisonproof.samples.kinds import Samples

        if self.schema is not None and not isinstance(X, Samples):
            return read_by_schema(as_frame(X), self.schema)
        return to_samples(X, dtype=self.dtype, n_features=self.n_features)

    def partitions(
        self, samples: Samples, n_partitions: int, labels: Any = None, groups: Any = None
    ) -> NDArray[np.int64]:
        """The partition of each sample; row i is a function of sample i alone.

        Samples without a contributor share a partition here; an ensemble leaves them out.
        """
        if self.kind == "group":
            if groups is None:
                raise PoisonproofError(
                    "The 'group' split needs groups: one contributor id per training sample.", code="split.groups"
                )
            cells = label_cells(one_by_one(groups))
            if len(cells) != len(samples):
                raise PoisonproofError(
                    f"There are {len(samples)} samples but {len(cells)} groups; give one per sample.",
                    code="split.groups",
                )
            return _modulo(hash_numbers(cell_codes(cells)[:, None]), n_partitions)
        if groups is not None:
            raise PoisonproofError(
                f"Groups were given, but the split is '{self.kind}'; use split='group' to split by them.",
                code="split.groups",
            )
        if self.kind == "pixel-sum":
            return samples.sums() % n_partitions
        hashes = samples.content_hashes
        if self.hash_labels:
            if labels is None:
                raise PoisonproofError("This split hashes labels, so it needs them.", code="labels.missing")
            codes = cell_codes(label_cells(labels))
            pairs = (h.tobytes() + c.tobytes() for h, c in zip(hashes.astype("<u8"), codes.astype("<f8"), strict=True))
            hashes = hash_bytes(pairs, len(samples))
        return _modulo(hashes, n_partitions)

    def __str__(self) -> str:
        return f"{self.kind}, {self.dtype}{', labels hashed' if self.hash_labels else ''}"

    @property
    def facts(self) -> dict[str, Any]:
        """How samples are told apart, for a premise."""
        return {"kind": self.kind, "dtype": self.dtype, "hash_labels": self.hash_labels}

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values, for a file."""
        record = asdict(self)
        del record["schema"]
        if self.schema is not None:
            record["schema"] = self.schema.as_dict()
        return record

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """The split that `as_dict` wrote, checked anew."""
        schema = record.get("schema")
        if schema is not None:
            from poisonproof.samples.schema import TableSchema, schema_from_dict

            read = schema_from_dict(schema)
            if not isinstance(read, TableSchema):
                raise PoisonproofError(f"A split reads tables by a schema. Got one for {read.kind}.", code="split.kind")
            record = {**record, "schema": read}
        try:
            return cls(**record)
        except TypeError:
            raise PoisonproofError(
                f"A split record holds unknown entries: {sorted(record)}.", code="split.record"
            ) from None


def _table_schema(given: Any) -> TableSchema:
    from poisonproof.samples.schema import TableSchema, to_schema

    schema = to_schema(given) if isinstance(given, TableSchema | Mapping) else None
    if not isinstance(schema, TableSchema):
        raise WrongTypeError(
            "The 'schema' of a split must be a TableSchema or a mapping of columns to roles, such as "
            f"{{'age': 'number'}}. Got {type(given).__name__} instead."
        )
    return schema


def _modulo(hashes: NDArray[np.uint64], n_partitions: int) -> NDArray[np.int64]:
    return (hashes % np.uint64(n_partitions)).astype(np.int64)
