"""Where samples come from: embedded sets, the official files of the paper's image sets, and a user's own files."""

from __future__ import annotations

from poisonproof.data.dataset import Dataset, held_out
from poisonproof.data.named import DATASETS, load
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import Rows, read
from poisonproof.data.user_files import kind_of, open_files

__all__ = ["DATASETS", "Dataset", "ReadOptions", "Rows", "held_out", "kind_of", "load", "open_files", "read"]
