"""Where samples come from: embedded sets, the official files of the paper's image sets, and a user's own files."""

from __future__ import annotations

from poisonproof.data.dataset import Dataset, held_out
from poisonproof.data.named import load
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import kind_of, open_files, read

__all__ = ["Dataset", "ReadOptions", "held_out", "kind_of", "load", "open_files", "read"]
