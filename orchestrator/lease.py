"""The lease of a run in a storage: one driver at a time, as far as a storage can tell.

An object holds who drives. The storage has no locks, so a driver writes its name, waits, and reads
it back; it renews it while it lives. Two drivers can both believe that they hold it only where one
stalls for longer than the wait between reading and writing, and only until the next look. That
does no harm: parts are never written over, each is named by its bytes, and of two rows of one
network either counts, because they are equal.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from orchestrator.part_files import StoreError
from orchestrator.remote import ATTEMPTS, Remote

NAME = "lease.json"

RENEW = 20.0
"""Seconds between two renewals."""

STALE = 90.0
"""Seconds by the storage's clock after which a lease that nobody renewed is free."""

SETTLE = 1.0
"""Seconds between writing a lease and reading it back."""

FRESH = 2.0
"""Seconds for which a look at the lease is good: a driver writes nothing on an older one."""

BRIEF = 3
"""Attempts at a request that comes again by itself."""

log = logging.getLogger("rulesweep")


class Lease:
    """A driver's hold on a run; `check` stops a driver that has lost it."""

    def __init__(self, remote: Remote, mirror: str, within: str = "") -> None:
        """Not held yet; `mirror` names the local folder whose lock the driver has.

        A shard has a lease of its own, `within` its part of the run.
        """
        self.remote, self.name = remote, PurePosixPath(within, NAME).as_posix()
        self.content = {
            "token": secrets.token_hex(8),
            "process": os.getpid(),
            "host": socket.gethostname(),
            "mirror": mirror,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._ended = threading.Event()
        self._looked = 0.0  # when it was last seen to be ours, by this process's clock
        self._writing = threading.Lock()

    def take(self, *, over: bool) -> None:
        """Take the lease, with `over` from whoever holds it.

        Raises:
            StoreError: another driver holds it.
        """
        if not over:
            self.refuse()
        for _ in range(BRIEF if over else 1):
            self._write()
            time.sleep(SETTLE)
            held = self._read()
            if self._is_ours(held):
                return
        raise StoreError(self._used(held or {}))

    def refuse(self) -> None:
        """Stop where another driver holds the lease.

        Raises:
            StoreError: it is so.
        """
        held = self._read()
        if held and not self._free(held):
            raise StoreError(self._used(held))

    def check(self) -> None:
        """Stop a driver whose run another one has taken.

        Raises:
            StoreError: it is so.
        """
        if time.monotonic() - self._looked > FRESH:
            held = self._read()
            if not self._is_ours(held):
                self._ended.set()
                raise StoreError(
                    f"{self.remote.uri} was taken over{_by(held or {})}; "
                    "this driver stops, and nothing is lost"
                )

    def renew(self) -> None:
        """Renew the lease from time to time, until it is given back or lost."""
        while not self._ended.wait(RENEW):
            try:
                with self._writing:
                    if self._ended.is_set() or not self._is_ours(self._read(BRIEF)):
                        return
                    self._write(BRIEF)
            except StoreError as error:  # the next put tells, if that does not end
                log.warning("the lease could not be renewed: %s", error)

    def give_back(self) -> None:
        """Free the run for the next driver, if it is still ours."""
        self._ended.set()
        try:
            with self._writing:
                if self._is_ours(self._read(BRIEF)):
                    self.remote.delete(self.name, BRIEF)
        except StoreError as error:
            log.warning("the lease could not be given back, it ends by itself: %s", error)

    def _free(self, held: dict[str, Any]) -> bool:
        """Whether its holder is gone: it drove from this very folder, or has long said nothing."""
        ours = self.content
        if (held.get("host"), held.get("mirror")) == (ours["host"], ours["mirror"]):
            return True  # and the folder's lock, which a living process keeps, is now ours
        clock = f"clock-{ours['token']}.json"
        self.remote.write(clock, b"{}")
        now, then = self.remote.modified(clock), self.remote.modified(self.name)
        self.remote.delete(clock)
        return then is None or now is None or now - then >= STALE

    def _read(self, attempts: int = ATTEMPTS) -> dict[str, Any] | None:
        began = time.monotonic()
        content = self.remote.read(self.name, attempts)
        try:
            held = json.loads(content) if content is not None else None
        except ValueError:
            held = {}
        held = held if isinstance(held, dict) or held is None else {}
        if self._is_ours(held):
            self._looked = began
        return held

    def _write(self, attempts: int = ATTEMPTS) -> None:
        text = json.dumps(self.content, indent=1) + "\n"
        self.remote.write(self.name, text.encode(), attempts)

    def _is_ours(self, held: dict[str, Any] | None) -> bool:
        return held is not None and held.get("token") == self.content["token"]

    def _used(self, held: dict[str, Any]) -> str:
        return (
            f"{self.remote.uri} is in use{_by(held)}; wait for it, stop it, "
            "take it over with --take-over, or give another with --out"
        )


def _by(held: dict[str, Any]) -> str:
    if "process" not in held:
        return " by another driver"
    return f" by process {held['process']} on {held.get('host')} since {held.get('since')}"


@contextmanager
def leased(remote: Remote, mirror: str, within: str, *, over: bool) -> Iterator[Lease]:
    """Hold the lease of a run, or of a shard within it.

    Raises:
        StoreError: another driver holds it.
    """
    lease = Lease(remote, mirror, within)
    lease.take(over=over)
    threading.Thread(target=lease.renew, name="lease", daemon=True).start()
    try:
        yield lease
    finally:
        lease.give_back()
