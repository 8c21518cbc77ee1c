"""A folder of images: one sub-folder for each class.

Every image is read by itself and brought to the schema's size and colours. What a file claims is checked before
memory is taken for it, and neither links that lead out of the folder nor pipes are opened.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poisonproof.data.readers.lines import MOST_BYTES
from poisonproof.data.readers.part import Part, texts
from poisonproof.display.numbers import in_bytes
from poisonproof.errors import PoisonproofError
from poisonproof.samples.schema import ImageSchema

SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp")
FORMATS = ("PNG", "JPEG", "PPM", "BMP")
MOST_PIXELS = 1 << 26
GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B", "F")


class BadImageError(ValueError):
    """An image that cannot be read as the schema asks."""


def pictures_in(folder: Path, *, labelled: bool) -> list[Path]:
    """The images of a folder of classes, or of a plain folder, by name; linked classes that lie outside are refused."""
    inside = folder.resolve()
    images = []
    homes = [item for item in _items(folder) if item.is_dir()] if labelled else [folder]
    for home in homes:
        images += [item for item in _items(home) if item.suffix.lower() in SUFFIXES and not item.is_dir()]
    for home in homes:
        if not home.resolve().is_relative_to(inside):
            raise PoisonproofError(f"{home} is a link that leads out of {folder}; put the images themselves there.")
    if not images:
        where = "sub-folders, one for each class, of" if labelled else ""
        raise PoisonproofError(f"{folder} holds no {where} images ({', '.join(SUFFIXES)}).".replace("  ", " "))
    return images


def guess_image_schema(folder: Path, size: tuple[int, int] | None, colour: bool | None) -> ImageSchema:
    """What most images of the folder are like, wherever the user did not say."""
    sizes: Counter[tuple[int, int]] = Counter()
    coloured: Counter[bool] = Counter()
    for path in pictures_in(folder, labelled=True):
        try:
            with _opened(path, folder) as picture:
                sizes[picture.size] += 1
                coloured[picture.mode not in GREY_MODES] += 1
        except BadImageError:
            continue
    if not sizes:
        raise PoisonproofError(f"No image in {folder} can be read.")
    width, height = size or min(sizes, key=lambda one: (-sizes[one], one))
    return ImageSchema(width, height, colour=coloured[True] > coloured[False] if colour is None else colour)


def read_folder(
    folder: Path, schema: ImageSchema, *, labelled: bool, resize: bool, skip_bad: bool, most_bytes: int | None
) -> Part:
    """Images as uint8, (n, height, width) or (n, height, width, 3).

    Parameters
    ----------
    folder : path
    schema : ImageSchema
    labelled : bool
        Whether sub-folders are classes; otherwise the images lie in the folder itself.
    resize : bool
        Whether images of another size are resized; otherwise they are bad.
    skip_bad : bool
        Whether bad images are left out, one by one; otherwise they stop the reading.
    most_bytes : int, optional
        How many bytes the pixels may take; otherwise 4 GB.
    """
    paths = pictures_in(folder, labelled=labelled)
    shape = (schema.height, schema.width, 3) if schema.colour else (schema.height, schema.width)
    needed = len(paths) * int(np.prod(shape))
    if needed > (most_bytes or MOST_BYTES):
        raise PoisonproofError(
            f"The {len(paths)} images of {folder} take {in_bytes(needed)} at {schema.width}×{schema.height} pixels, "
            f"of which at most {in_bytes(most_bytes or MOST_BYTES)} are read unless --max-size allows more."
        )
    samples, good, bad = read_pictures(paths, folder, schema, resize=resize)
    notes = notes_of_bad(bad, len(paths), skip_bad=skip_bad)
    labels = texts([path.parent.name for path in good]) if labelled else None
    return Part(samples, labels, None, [str(path.relative_to(folder)) for path in good], notes)


def read_pictures(
    paths: Sequence[Path], folder: Path, schema: ImageSchema, *, resize: bool
) -> tuple[NDArray[np.uint8], list[Path], list[str]]:
    """The pixels of these images, those that could be read, and a sentence about each that could not."""
    shape = (schema.height, schema.width, 3) if schema.colour else (schema.height, schema.width)
    samples = np.empty((len(paths), *shape), np.uint8)
    good: list[Path] = []
    bad: list[str] = []
    for path in paths:
        try:
            samples[len(good)] = _pixels(path, folder, schema, resize)
            good.append(path)
        except BadImageError as error:
            bad.append(str(error))
    return samples[: len(good)], good, bad


def notes_of_bad(bad: Sequence[str], total: int, *, skip_bad: bool) -> tuple[str, ...]:
    """What is to be said of images that cannot be used, or the end of it where none may be left out."""
    if bad and not skip_bad:
        raise PoisonproofError(
            f"{len(bad)} of {total} images cannot be used; {bad[0]}, or leave them out by --skip-bad."
        )
    return (f"{len(bad)} of {total} images were left out; {bad[0]}.",) if bad else ()


def _items(folder: Path) -> list[Path]:
    return sorted(item for item in folder.iterdir() if not item.name.startswith("."))


@contextmanager
def _opened(path: Path, folder: Path) -> Iterator[Any]:
    """An image whose header was read and whose size is bearable; pixels are not decoded yet."""
    from PIL import Image

    try:
        leads_out, is_file = not path.resolve().is_relative_to(folder.resolve()), path.is_file()
    except (OSError, RuntimeError):  # a circle of links
        leads_out, is_file = False, False
    if leads_out:
        raise BadImageError(f"{path} is a link that leads out of {folder}: put the image itself there")
    if not is_file:  # to open a pipe would wait for ever
        raise BadImageError(f"{path} is not a file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(path, formats=FORMATS)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise BadImageError(f"{path} states more than {MOST_PIXELS} pixels and is not expanded") from None
    except Exception as error:  # a damaged image raises almost anything
        raise BadImageError(f"{path} is not a whole image ({type(error).__name__})") from None
    with picture:
        if picture.width * picture.height > MOST_PIXELS:
            raise BadImageError(f"{path} states more than {MOST_PIXELS} pixels and is not expanded")
        yield picture


def _pixels(path: Path, folder: Path, schema: ImageSchema, resize: bool) -> NDArray[np.uint8]:
    from PIL import Image

    size = (schema.width, schema.height)
    with _opened(path, folder) as picture:
        if picture.size != size and not resize:
            raise BadImageError(
                f"{path} has {picture.width}×{picture.height} pixels and most have {schema.width}×{schema.height}: "
                f"resize all by --image-size {schema.width}x{schema.height}"
            )
        try:
            plain = picture.convert("RGB" if schema.colour else "L")
            return np.asarray(plain if plain.size == size else plain.resize(size, Image.Resampling.BILINEAR))
        except Exception as error:
            raise BadImageError(f"{path} is not a whole image ({type(error).__name__})") from None
