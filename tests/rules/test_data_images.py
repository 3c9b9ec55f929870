"""Image sets: found where people keep them, verified and decoded."""

import gzip
import hashlib
import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rules.data import DataError, DatasetInfo, load
from rules.files import SYSTEM, RawFile
from rules.images import (
    CIFAR10,
    IDX_FILES,
    ImageSet,
    decode_cifar10,
    decode_idx,
    decode_mnist,
    read_images,
)  # fmt: skip

FASHION = SYSTEM / "fashion-mnist"
needs_fashion = pytest.mark.skipif(
    not FASHION.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed"
)
TRAIN_IMAGES, TRAIN_LABELS, *_ = IDX_FILES


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


PIXELS = np.random.default_rng(1).integers(0, 256, (6, 2, 3), dtype=np.uint8)
LABELS = np.arange(6, dtype=np.uint8) % 3
RAW = dict(zip(IDX_FILES, map(idx, (PIXELS, LABELS, PIXELS[:4], LABELS[:4])), strict=True))


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


TINY = ImageSet(
    DatasetInfo("tiny", "six images", inputs=6, classes=3, source="this file"),
    files=tuple(RawFile(name, digest(content)) for name, content in RAW.items()),
    folders=("Tiny/raw",),
    urls=(),
    decode=decode_mnist,
    advice="look into this test",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RULESWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RULESWEEP_DATA", raising=False)
    return tmp_path / "cache"


def put(folder: Path, suffix: str = ".gz") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in RAW.items():
        packed = gzip.compress(content, mtime=0) if suffix else content
        (folder / f"{name}{suffix}").write_bytes(packed)
    return folder


def check_tiny(arrays: dict[str, np.ndarray]) -> None:
    np.testing.assert_array_equal(arrays["x_train"], PIXELS.reshape(6, 6))
    np.testing.assert_array_equal(arrays["y_train"], LABELS)
    np.testing.assert_array_equal(arrays["x_test"], PIXELS[:4].reshape(4, 6))
    np.testing.assert_array_equal(arrays["y_test"], LABELS[:4])


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("folder", ["", "tiny", "Tiny/raw"])
def test_files_are_found_flat_by_name_and_as_torchvision_keeps_them(
    tmp_path: Path, folder: str, suffix: str
):
    put(tmp_path / "mine" / folder, suffix)
    check_tiny(read_images(TINY, tmp_path / "mine"))


def test_the_folder_given_comes_before_the_environment_s_and_that_before_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    roots = [tmp_path / "given", tmp_path / "environment", cache]
    monkeypatch.setenv("RULESWEEP_DATA", str(roots[1]))
    for root in roots:
        put(root)
    for root in roots:
        check_tiny(read_images(TINY, roots[0]))
        (root / f"{TRAIN_IMAGES}.gz").write_bytes(b"spoilt")
        with pytest.raises(DataError, match=f"^{root}/{TRAIN_IMAGES}.gz is corrupt"):
            read_images(TINY, roots[0])
        (root / f"{TRAIN_IMAGES}.gz").unlink()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            gzip.compress(RAW[TRAIN_IMAGES], mtime=0)[:-9],
            r"a file that cannot be read \(Compressed file",
        ),
        (gzip.compress(RAW[TRAIN_IMAGES], mtime=0)[:40] + b"?" * 20, "a file that cannot be read"),
        (b"", digest(b"")),
        (RAW[TRAIN_IMAGES][:-1], digest(RAW[TRAIN_IMAGES][:-1])),
        (gzip.compress(RAW[TRAIN_LABELS], mtime=0), digest(RAW[TRAIN_LABELS])),
    ],
)
def test_a_corrupt_file_is_named_with_its_hash_and_what_to_delete(
    tmp_path: Path, content: bytes, found: str
):
    path = put(tmp_path / "mine") / f"{TRAIN_IMAGES}.gz"
    path.write_bytes(content)
    expected = digest(RAW[TRAIN_IMAGES])
    message = rf"^{path} is corrupt, .* expected {expected} .* found {found}.*; delete .* {path}"
    with pytest.raises(DataError, match=message):
        read_images(TINY, tmp_path / "mine")


def records(count: int) -> tuple[np.ndarray, bytes]:
    rows = np.random.default_rng(count).integers(0, 256, (count, 3073), dtype=np.uint8)
    return rows, rows.tobytes()


def tiny_cifar() -> tuple[ImageSet, dict[str, np.ndarray], bytes]:
    """A set like CIFAR-10 with two records a file, their rows, and the archive of the files."""
    rows, archive = {}, io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for count, file in enumerate(CIFAR10.files, 1):
            rows[file.name], content = records(count)
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{file.name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    content = archive.getvalue()
    images = replace(
        CIFAR10,
        files=tuple(
            RawFile(name, f"md5:{hashlib.md5(row.tobytes()).hexdigest()}")
            for name, row in rows.items()
        ),
        archive=RawFile("cifar-10-binary.tar.gz", digest(content), unpack=False),
        urls=(),
    )
    return images, rows, content


def check_cifar(arrays: dict[str, np.ndarray], rows: dict[str, np.ndarray]) -> None:
    train = np.concatenate([rows[f"data_batch_{batch}.bin"] for batch in range(1, 6)])
    np.testing.assert_array_equal(arrays["x_train"], train[:, 1:])
    np.testing.assert_array_equal(arrays["y_train"], train[:, 0])
    np.testing.assert_array_equal(arrays["x_test"], rows["test_batch.bin"][:, 1:])
    np.testing.assert_array_equal(arrays["y_test"], rows["test_batch.bin"][:, 0])


def test_cifar10_is_read_from_its_folder_or_its_archive(tmp_path: Path):
    images, rows, archive = tiny_cifar()
    folder = tmp_path / "unpacked" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, row in rows.items():
        (folder / name).write_bytes(row.tobytes())
    check_cifar(read_images(images, folder.parent), rows)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(archive)
    check_cifar(read_images(images, tmp_path), rows)


def test_a_broken_archive_is_refused(tmp_path: Path):
    images, _, archive = tiny_cifar()
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(archive[:-1])
    with pytest.raises(DataError, match=rf"^{path} is corrupt.*of the cifar-10-binary.tar.gz"):
        read_images(images, tmp_path)


def test_a_cifar10_file_of_broken_records_is_refused():
    with pytest.raises(DataError, match=r"a\.bin has 3074 bytes; a multiple of 3073 is wanted"):
        decode_cifar10({"a.bin": bytes(3074)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(LABELS[:, None]), "an.idx has magic number 0x802; 0x803 is wanted"),
        (b"PK\x03\x04" + bytes(100), "an.idx has magic number 0x504b0304"),
        (idx(PIXELS)[:-1], r"an.idx has 35 bytes after its header; sizes \[6, 2, 3\] want 36"),
        (idx(PIXELS) + b"?", "an.idx has 37 bytes after its header"),
        (
            struct.pack(">4I", 0x803, *[2**32 - 1] * 3),
            "sizes .* want 79228162458924105385300197375",
        ),
        (idx(PIXELS)[:15], "an.idx is truncated: 15 bytes, an IDX header takes 16"),
    ],
)
def test_an_idx_file_that_contradicts_its_header_is_refused(content: bytes, message: str):
    with pytest.raises(DataError, match=message):
        decode_idx(content, "an.idx", 3)


@needs_fashion
def test_fashion_mnist_is_the_published_one():
    data = load("fashion-mnist")
    assert data.fingerprint == "fec754e92e48008c"
    assert (data.x_train.shape, data.x_train.dtype) == ((60_000, 784), np.uint8)
    assert np.bincount(data.y_train).tolist() == [6000] * 10
    assert np.bincount(data.y_test).tolist() == [1000] * 10
    assert data.offset / 255 == pytest.approx(0.2860, abs=5e-5)
    assert data.scale / 255 == pytest.approx(0.3530, abs=5e-5)
