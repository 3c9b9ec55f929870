"""The only door to remote storage: the objects below one URI, every request bounded and retried."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from random import SystemRandom
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import pyarrow as pa

from orchestrator.part_files import StoreError

T = TypeVar("T")

ATTEMPTS = 8
"""Times that a request is tried: with the pauses between them about a minute."""

FIRST_ATTEMPTS = 4
"""Times that the first request is tried, by which a wrong address shows itself."""

PAUSE, LONGEST = 0.5, 20.0
"""Seconds between the first two attempts, doubled from then on; and at most."""

CONNECT, ANSWER = 5.0, 10.0
"""Seconds to connect, and without a byte, after which a request counts as failed."""

REFUSED = {
    "NO_SUCH_BUCKET": "there is no such bucket; make it, or mend the address",
    "ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE|TOKEN|UNRECOGNIZED_CLIENT|AUTHENTICATION": (
        "the storage refuses these credentials; set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY to a key that may read, write and delete there"
    ),
}
"""What no second attempt mends, by the words of the error, and what would."""


@dataclass(frozen=True)
class Entry:
    """An object: its bytes, and when it was written by the storage's clock, in Unix seconds."""

    size: int
    modified: float


def is_uri(run: str | Path) -> bool:
    """Whether a run is named by the URI of a storage, and not by a folder.

    Raises:
        StoreError: a URI that became a path and so lost a slash.
    """
    if isinstance(run, Path):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(run)):
            raise StoreError(f"{run}: give a URI as text; a Path loses one of its slashes")
        return False
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", run) is not None


def joined(uri: str, *names: str) -> str:
    """The URI of something below a URI; its options, as `?endpoint_override=...`, stay."""
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(path="/".join([parts.path.rstrip("/"), *names])))


class Remote:
    """The objects below a URI. All calls may come from several threads."""

    def __init__(self, uri: str) -> None:
        """Find the storage, and ask it once whether it is there.

        Raises:
            StoreError: a URI that names none, no such bucket, no right to it, no answer.
        """
        self.uri = joined(uri)  # without a slash at its end
        if "@" in urlsplit(uri).netloc:
            raise StoreError(
                f"{uri.split('://')[0]}://...@...: keys in an address would be written to logs; "
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
            )
        try:
            self._files, self._base = _filesystem(self.uri)
        except (pa.ArrowException, ValueError, OSError) as error:
            raise StoreError(f"{uri} names no storage: {_reason(error)}") from error
        self._aside = not self.uri.startswith(("s3:", "gs:"))  # there a put is whole or not there
        bucket = self._base.partition("/")[0]
        if bucket and self._modified(bucket, FIRST_ATTEMPTS) is None:
            raise StoreError(f"{uri}: {REFUSED['NO_SUCH_BUCKET']}")

    def entries(self) -> dict[str, Entry]:
        """All objects below the URI, by their names from there on."""
        from pyarrow.fs import FileSelector, FileType

        below = FileSelector(self._base, recursive=True, allow_not_found=True)
        found = self._tried("listed", lambda: self._files.get_file_info(below))
        return {
            info.path.removeprefix(self._base).lstrip("/"): Entry(info.size, _seconds(info))
            for info in found
            if info.type == FileType.File and ".." not in PurePosixPath(info.path).parts
        }

    def modified(self, name: str) -> float | None:
        """When an object was written, by the storage's clock; None where there is none."""
        return self._modified(f"{self._base}/{name}", ATTEMPTS)

    def read(self, name: str, attempts: int = ATTEMPTS) -> bytes | None:
        """An object's bytes; None where there is none."""

        def get() -> bytes:
            with self._files.open_input_file(f"{self._base}/{name}") as file:
                return bytes(file.read())

        try:
            return self._tried(f"read ({name})", get, attempts)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes, attempts: int = ATTEMPTS) -> None:
        """Write an object; it is whole or not there, and when this returns it is there to stay."""
        path = f"{self._base}/{name}"

        def put() -> None:
            target = f"{path}.tmp" if self._aside else path
            if self._aside:
                self._files.create_dir(path.rpartition("/")[0], recursive=True)
            with self._files.open_output_stream(target) as stream:
                stream.write(content)
            if self._aside:
                self._files.move(target, path)

        self._tried(f"written ({name})", put, attempts)

    def delete(self, name: str, attempts: int = ATTEMPTS) -> None:
        """Delete an object, if it is there."""
        path = f"{self._base}/{name}"
        try:
            self._tried(f"written ({name})", lambda: self._files.delete_file(path), attempts)
        except FileNotFoundError:
            return

    def _modified(self, path: str, attempts: int) -> float | None:
        from pyarrow.fs import FileType

        info = self._tried("reached", lambda: self._files.get_file_info(path), attempts)
        return None if info.type == FileType.NotFound else _seconds(info)

    def _tried(self, what: str, request: Callable[[], T], attempts: int = ATTEMPTS) -> T:
        """What a request gives, after as many attempts as are allowed."""
        for attempt in range(1, attempts + 1):
            try:
                return request()
            except FileNotFoundError:
                raise
            except OSError as error:
                hint = next((h for words, h in REFUSED.items() if re.search(words, str(error))), "")
                if hint or isinstance(error, PermissionError):
                    raise StoreError(f"{self.uri}: {hint or _reason(error)}") from error
                reason = _reason(error)
            if attempt < attempts:
                pause = min(LONGEST, PAUSE * 2 ** (attempt - 1)) * SystemRandom().uniform(0.5, 1.5)
                said = "%s could not be %s, again in %.1f s (attempt %d of %d): %s"
                log.warning(
                    said, self.uri.partition("?")[0], what, pause, attempt, attempts, reason
                )
                time.sleep(pause)
        raise StoreError(
            f"{self.uri} could not be {what} in {attempts} attempts: {reason}; "
            "mend that and run again: nothing is lost"
        )


log = logging.getLogger("rulesweep")


def _filesystem(uri: str) -> tuple[Any, str]:
    """The file system of a URI with our own time limits, and the path in it."""
    from pyarrow import fs

    files, base = fs.FileSystem.from_uri(uri)
    if files.type_name == "s3":
        options = dict(parse_qsl(urlsplit(uri).query))
        files = fs.S3FileSystem(
            region=files.region,
            scheme=options.get("scheme", "https"),
            endpoint_override=options.get("endpoint_override"),
            connect_timeout=CONNECT,
            request_timeout=ANSWER,
            allow_delayed_open=True,  # a small object is one request
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),  # ours are told
        )
    if not base.strip("/"):
        raise ValueError("it has no bucket and no folder, as s3://bucket/runs/depth has")
    return files, base.rstrip("/")


def _seconds(info: Any) -> float:
    return float(info.mtime_ns or 0) / 1e9


def _reason(error: BaseException) -> str:
    """The first line of an error, without what surrounds it."""
    text = str(error).strip().partition("\n")[0]
    return re.sub(r"^.*AWS Error |; Details:.*| \(Request ID.*", "", text)
