"""The image sets: found on this machine or downloaded, verified, and decoded to bytes in rows."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rules.dataset import Array, Arrays, DataError, DatasetInfo
from rules.files import RawFile, cache_folder, data_roots, download, locate

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class ImageSet:
    """An image set: its files, where people keep them, where they come from, how they decode."""

    info: DatasetInfo
    files: tuple[RawFile, ...]
    folders: tuple[str, ...]  # below a root, where other tools put the files
    urls: tuple[str, ...]  # each followed by the name of a file
    decode: Callable[[Mapping[str, bytes]], Arrays]
    advice: str  # how to get the files by hand
    archive: RawFile | None = None  # holds all files; the thing that is downloaded, if any


def read_images(images: ImageSet, data_dir: Path | None = None) -> Arrays:
    """The arrays of an image set: images uint8 (examples, inputs), labels uint8 (examples,).

    Looks in `data_dir`, RULESWEEP_DATA, the system's data folder and the cache, then downloads
    to `data_dir`, or else to the cache.

    Raises:
        DataError: if a file is corrupt, or missing and not to be downloaded.
    """
    target = Path(data_dir).expanduser() if data_dir else cache_folder()
    return images.decode(_raw_files(images, _folders(images, data_dir), target))


def files_present(images: ImageSet, data_dir: Path | None = None) -> bool:
    """Whether all files of an image set lie in one of the folders that are searched."""
    folders = _folders(images, data_dir)
    if images.archive is not None and locate(images.archive, folders) is not None:
        return True
    return all(locate(file, folders) is not None for file in images.files)


def _folders(images: ImageSet, data_dir: Path | None) -> list[Path]:
    return [
        root / folder
        for root in data_roots(data_dir)
        for folder in (*images.folders, images.info.name, ".")
    ]


def _raw_files(images: ImageSet, folders: list[Path], target: Path) -> dict[str, bytes]:
    paths = {file: locate(file, folders) for file in images.files}
    if images.archive and None in paths.values():
        path = locate(images.archive, folders) or _download(images, images.archive, target)
        return _members(images.files, images.archive.read(path))
    return {
        file.name: file.read(path or _download(images, file, target))
        for file, path in paths.items()
    }


def _download(images: ImageSet, file: RawFile, target: Path) -> Path:
    name = f"{file.name}.gz" if file.unpack else file.name
    path = target / images.info.name / name
    try:
        download(file, [url + name for url in images.urls], path)
    except DataError as error:
        raise DataError(
            f"{images.info.name} is not on this machine, and {error}; {images.advice}, and give "
            "their folder as data_dir or in RULESWEEP_DATA"
        ) from error
    return path


def _members(files: tuple[RawFile, ...], archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {Path(m.name).name: s.read() for m in tar if (s := tar.extractfile(m))}
    return {file.name: found[file.name] for file in files}


def decode_idx(content: bytes, name: str, dimensions: int) -> Array:
    """The array of bytes in an IDX file (LeCun, Cortes, Burges, 1998), its sizes as given.

    Raises:
        DataError: if the magic number is not that of bytes in so many dimensions, or the
            length is not what the sizes say.
    """
    head = 4 * (1 + dimensions)
    if len(content) < head:
        raise DataError(f"{name} is truncated: {len(content)} bytes, an IDX header takes {head}")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", content[:head])
    if magic != 0x800 + dimensions:
        raise DataError(f"{name} has magic number {magic:#x}; {0x800 + dimensions:#x} is wanted")
    if len(content) - head != np.prod(shape, dtype=object):
        raise DataError(
            f"{name} has {len(content) - head} bytes after its header; sizes {shape} want "
            f"{np.prod(shape, dtype=object)}"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def decode_mnist(raw: Mapping[str, bytes]) -> Arrays:
    """The four IDX files of MNIST and its relatives, images flattened row by row."""
    x_train, y_train, x_test, y_test = (
        decode_idx(raw[name], name, 3 if "images" in name else 1) for name in IDX_FILES
    )
    x_train, x_test = (pixels.reshape(len(pixels), -1) for pixels in (x_train, x_test))
    return Arrays(x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def decode_cifar10(raw: Mapping[str, bytes]) -> Arrays:
    """The binary version of CIFAR-10: rows of a label and 3 x 32 x 32 pixels, colour first.

    Raises:
        DataError: if a file is not a whole number of rows.
    """
    rows = {}
    for name, content in raw.items():
        if len(content) % 3073:
            raise DataError(f"{name} has {len(content)} bytes; a multiple of 3073 is wanted")
        rows[name] = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    test = rows.pop("test_batch.bin")
    train = np.concatenate([rows[name] for name in sorted(rows)])
    return Arrays(x_train=train[:, 1:], y_train=train[:, 0], x_test=test[:, 1:], y_test=test[:, 0])


def _idx_files(*digests: str) -> tuple[RawFile, ...]:
    """The four files' digests in the order of IDX_FILES, all sha256."""
    pairs = zip(IDX_FILES, digests, strict=True)
    return tuple(RawFile(name, f"sha256:{digest}") for name, digest in pairs)


MNIST = ImageSet(
    DatasetInfo(
        "mnist",
        "handwritten digits, 28 x 28 grey pixels; 60,000 to train, 10,000 to test",
        inputs=784,
        classes=10,
        source="LeCun, Bottou, Bengio, Haffner, Gradient-based learning applied to document "
        "recognition, 1998",
    ),
    files=_idx_files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    folders=("MNIST/raw",),
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    decode=decode_mnist,
    advice="get its four files elsewhere (torchvision's MNIST/raw will do)",
)

FASHION_MNIST = ImageSet(
    DatasetInfo(
        "fashion-mnist",
        "articles of clothing, 28 x 28 grey pixels; 60,000 to train, 10,000 to test",
        inputs=784,
        classes=10,
        source="Xiao, Rasul, Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking "
        "machine learning algorithms, 2017",
    ),
    files=_idx_files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    folders=("FashionMNIST/raw",),
    urls=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    decode=decode_mnist,
    advice="install Debian's dataset-fashion-mnist, or get its four files elsewhere "
    "(torchvision's FashionMNIST/raw will do)",
)

CIFAR10 = ImageSet(
    DatasetInfo(
        "cifar10",
        "photographs, 3 x 32 x 32 pixels, colour first; 50,000 to train, 10,000 to test",
        inputs=3072,
        classes=10,
        source="Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    ),
    files=tuple(
        RawFile(name, f"md5:{digest}")
        for name, digest in (
            ("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25"),
            ("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692"),
            ("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421"),
            ("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb"),
            ("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d"),
            ("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d"),
        )
    ),
    folders=("cifar-10-batches-bin",),
    urls=(
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/",
    ),
    decode=decode_cifar10,
    advice="get cifar-10-binary.tar.gz elsewhere (not the Python version: it is made of pickles)",
    archive=RawFile(
        "cifar-10-binary.tar.gz",
        "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        unpack=False,
    ),
)
"""Its digests are published ones, not computed for this from the files: the archive's sha256 is
that of tensorflow-datasets, its members' MD5 sums stand in the build scripts of several projects.
"""

IMAGES = {images.info.name: images for images in (FASHION_MNIST, MNIST, CIFAR10)}
