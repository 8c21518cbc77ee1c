"""A folder of images: one sub-folder for each class.

Every image is read by itself and brought to the schema's size and colours. What a file claims is checked before
memory is taken for it, and neither links that lead out of the folder nor pipes are opened. No image stops the reading.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.dataset import LabelledSamples, ReadReport
from poisonproof.data.files import MOST_BYTES
from poisonproof.data.options import ReadOptions
from poisonproof.data.tables import Batch
from poisonproof.display import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.samples.kinds import NumberSamples
from poisonproof.samples.schema import ImageSchema, closeness, to_schema

SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp")
FORMATS = ("PNG", "JPEG", "PPM", "BMP")
MOST_PIXELS = 1 << 26
GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B", "F")


class BadImageError(ValueError):
    """Why an image cannot be read as the schema asks, in words that follow its name."""


def pictures_in(folder: Path, *, labelled: bool) -> list[Path]:
    """The images of a folder of classes, or of a plain folder, by name; a class that cannot be listed stands for its
    own."""
    images = []
    for home in [item for item in _items(folder) if item.is_dir()] if labelled else [folder]:
        try:
            images += [item for item in _items(home) if item.suffix.lower() in SUFFIXES and not item.is_dir()]
        except OSError:
            images.append(home)
    if not images:
        where = "sub-folders, one for each class, of" if labelled else ""
        raise PoisonproofError(
            f"{folder} holds no {where} images ({', '.join(SUFFIXES)}).".replace("  ", " "), code="images.none"
        )
    return images


def guess_image_schema(folder: Path, size: tuple[int, int] | None, colour: bool | None) -> ImageSchema:
    """What most images of the folder are like, wherever the user did not say; each image is one vote."""
    sizes: Counter[tuple[int, int]] = Counter()
    coloured: Counter[bool] = Counter()
    for path in pictures_in(folder, labelled=True):
        try:
            _check_place(path, folder)
            with _opened(path) as picture:
                sizes[picture.size] += 1
                coloured[picture.mode not in GREY_MODES] += 1
        except BadImageError:
            continue
    if not sizes:
        raise PoisonproofError(f"No image in {folder} can be read.", code="images.none")
    first, *others = sorted(sizes, key=lambda one: (-sizes[one], one))
    second = sizes[others[0]] if others else 0
    guesses = {}
    if size is None:  # a size that is smaller wins a tie, and one that nobody has yet may be
        guesses[f"{first[0]}×{first[1]} pixels"] = max(1, sizes[first] - second)
    if colour is None:
        colour, lead = coloured[True] > coloured[False], coloured[True] - coloured[False]
        guesses["colour" if colour else "grey"] = lead if colour else 1 - lead
    closest = min(guesses, key=lambda what: guesses[what], default=None)
    why = "" if closest is None else closeness(closest, guesses[closest], "image")
    return ImageSchema(*(size or first), colour=colour, guessed=why)


class ImageReader:
    """A folder of images, one sub-folder for each class; without labels, images in the folder itself.

    Images are uint8, (n, height, width) or (n, height, width, 3); bad ones are left out, each by itself. ``resize``:
    whether images of another size are resized; otherwise they are bad.
    """

    kind = "images"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path, self.options = path, options
        declared = options.schema is not None and not to_schema(options.schema).guessed
        self.resize = options.image_size is not None or declared

    def guess_schema(self, report: ReadReport) -> ImageSchema:
        """What most images of the folder are like, wherever the user did not say."""
        return guess_image_schema(self.path, self.options.image_size, self.options.colour)

    def batches(
        self, schema: ImageSchema, *, labelled: bool, report: ReadReport, rows: int | None = None
    ) -> Iterator[Batch]:
        """The images, all at once or so many at a time."""
        folder, paths = self.path, pictures_in(self.path, labelled=labelled)
        needed, allowed = len(paths) * int(np.prod(schema.shape)), self.options.most_bytes or MOST_BYTES
        if rows is None and needed > allowed:
            raise PoisonproofError(
                f"The {len(paths)} images of {folder} take {in_bytes(needed)} at {schema.width}×{schema.height} pixels,"
                f" of which at most {in_bytes(allowed)} are read unless --max-size allows more.",
                code="data.too-large",
            )
        for start in range(0, len(paths), rows or len(paths)):
            here = paths[start : start + (rows or len(paths))]
            samples, bad = read_pictures(here, folder, schema, resize=self.resize or rows is not None)
            good = [path for path in here if path not in bad]
            labels = np.empty(len(good), object)
            labels[:] = [path.parent.name for path in good]
            for path, why in bad.items():
                name = str(path.relative_to(folder))
                report.add(folder.name, "image.left-out", f"{name} {why}")
                if report.listed:
                    report.unread.append((name, why))
            names = [str(path.relative_to(folder)) for path in good]
            yield Batch(LabelledSamples(NumberSamples(samples), labels if labelled else None, None, names))


def read_pictures(
    paths: Sequence[Path], folder: Path, schema: ImageSchema, *, resize: bool
) -> tuple[NDArray[np.uint8], dict[Path, str]]:
    """The pixels of the images that can be read, in their order, and why each of the others cannot."""
    samples = np.empty((len(paths), *schema.shape), np.uint8)
    bad: dict[Path, str] = {}
    for at, path in enumerate(paths):
        try:
            _check_place(path, folder)
            samples[at - len(bad)] = pixels(path, schema, resize=resize)
        except BadImageError as error:
            bad[path] = str(error)
    return samples[: len(paths) - len(bad)], bad


def _items(folder: Path) -> list[Path]:
    return sorted(item for item in folder.iterdir() if not item.name.startswith("."))


def _check_place(path: Path, folder: Path) -> None:
    """Refuse what is not a file inside the folder."""
    try:
        leads_out, is_file = not path.resolve().is_relative_to(folder.resolve()), path.is_file()
    except (OSError, RuntimeError):  # a circle of links
        leads_out, is_file = False, False
    if leads_out:
        raise BadImageError("is a link that leads out of the folder: put the image itself there")
    if not is_file:  # to open a pipe would wait for ever
        raise BadImageError("is not a file")


@contextmanager
def _opened(file: Path | BinaryIO) -> Iterator[Any]:
    """An image whose header was read and whose size is bearable; pixels are not decoded yet."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(file, formats=FORMATS)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise BadImageError(f"states more than {MOST_PIXELS} pixels and is not expanded") from None
    except Exception as error:  # a damaged image raises almost anything
        raise BadImageError(f"is not a whole image ({type(error).__name__})") from None
    with picture:
        if picture.width * picture.height > MOST_PIXELS:
            raise BadImageError(f"states more than {MOST_PIXELS} pixels and is not expanded")
        yield picture


def pixels(file: Path | BinaryIO, schema: ImageSchema, *, resize: bool) -> NDArray[np.uint8]:
    """The pixels of one image, by the schema; raises `BadImageError`."""
    from PIL import Image

    size = (schema.width, schema.height)
    with _opened(file) as picture:
        if picture.size != size and not resize:
            raise BadImageError(
                f"has {picture.width}×{picture.height} pixels and most have {schema.width}×{schema.height}: "
                f"resize all by --image-size {schema.width}x{schema.height}"
            )
        try:
            plain = picture.convert("RGB" if schema.colour else "L")
            return np.asarray(plain if plain.size == size else plain.resize(size, Image.Resampling.BILINEAR))
        except Exception as error:
            raise BadImageError(f"is not a whole image ({type(error).__name__})") from None
