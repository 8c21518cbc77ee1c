"""Where samples come from: embedded sets, the official files of the paper's image sets, and a user's own files."""

from __future__ import annotations

from bezoar.data.dataset import Dataset, held_out
from bezoar.data.load import DATASETS, load
from bezoar.data.own import How, open_own
from bezoar.data.reading import Rows, read

__all__ = ["DATASETS", "Dataset", "How", "Rows", "held_out", "load", "open_own", "read"]
