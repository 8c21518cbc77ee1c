"""Official files by pooch: fetched under a temporary name, checked, and only then put in their place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poisonproof.display import shown
from poisonproof.errors import DamagedFileError
from poisonproof.system.files import FULL

MIRROR = "POISONPROOF_MIRROR"
SECONDS = 60
GTSRB = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370"
# Where each file lies, and the MD5 that its publishers or everybody since have stated.
SOURCES = {
    "train-images-idx3-ubyte.gz": ("http://yann.lecun.com/exdb/mnist", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte.gz": ("http://yann.lecun.com/exdb/mnist", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte.gz": ("http://yann.lecun.com/exdb/mnist", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte.gz": ("http://yann.lecun.com/exdb/mnist", "ec29112dd5afa0611ce80d1b7f02629c"),
    "cifar-10-binary.tar.gz": ("https://www.cs.toronto.edu/~kriz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "GTSRB_Final_Training_Images.zip": (GTSRB, "f33fd80ac59bff73c82d25ab499e03a3"),
    "GTSRB_Final_Test_Images.zip": (GTSRB, "c7e4e6327067d32654124b0fe9e82185"),
    "GTSRB_Final_Test_GT.zip": (GTSRB, "fe31e9c9270bbcd7b84b7f21a9d9d9e5"),
}


def cache() -> Path:
    """Where downloads are kept if nobody says where."""
    import pooch

    return Path(pooch.os_cache("poisonproof"))


def fetch(files: Sequence[str], folder: Path) -> None:
    """Put official files into a folder; one that is not what its checksum says is removed, and named.

    They come from their publishers, or from the address in the environment variable POISONPROOF_MIRROR: whatever the
    source, the checksum decides.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")
    for name in files:
        base, md5 = SOURCES[name]
        url = f"{(os.environ.get(MIRROR) or base).rstrip('/')}/{name}"
        with _Bar(name) as bar:
            downloader = pooch.HTTPDownloader(progressbar=bar, timeout=SECONDS)
            try:
                pooch.retrieve(url, f"md5:{md5}", fname=name, path=folder, downloader=downloader)
            except ValueError as error:
                raise DamagedFileError(
                    f"What {url} gave is not {name}: its MD5 is not {md5}. It was removed; try again, or put the file "
                    f"into {folder} yourself."
                ) from error
            except OSError as error:
                if error.errno in FULL:
                    raise
                raise ConnectionError(
                    f"{name} could not be fetched from {url} ({type(error).__name__}); put it into {folder} yourself, "
                    f"or name a mirror in {MIRROR}."
                ) from error


class _Bar:
    """A bar on a terminal's stderr, silence elsewhere; pooch sets the total and tells of every piece."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.task = self.bar.add_task(shown(name), total=None)
        self.total = 0

    def __enter__(self) -> Any:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.bar.disable:  # Rich before 13.8 ends even a bar that is not shown with an empty line
            self.bar.stop()

    def update(self, size: int) -> None:
        self.bar.update(self.task, advance=size, total=self.total)

    def reset(self) -> None:
        self.bar.reset(self.task)

    def close(self) -> None:
        self.bar.refresh()
