"""Where samples come from: embedded sets, and the official files of the paper's image sets in a local folder."""

from __future__ import annotations

from bezoar.data.dataset import Dataset, held_out
from bezoar.data.load import DATASETS, load

__all__ = ["DATASETS", "Dataset", "held_out", "load"]
