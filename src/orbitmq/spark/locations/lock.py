"""One owner of a directory at a time.

On a local file system the kernel holds the lock (``flock``), and frees it with the process that
had it, however that ended. Elsewhere owners leave leases::

    leases/TOKEN.json   {"who": …, "renewed_ms": …}     renewed each 15 s, expired after 90 s

    acquire: leave a lease ──▶ list all ──┬─ others, none alive ──▶ owner; the expired are deleted
                                          └─ one is alive ────────▶ own lease deleted, refused

Two that arrive together may both be refused, and are never both accepted, since each leaves its
lease before it looks. An owner that was frozen for longer than a lease finds that out by ``check``
before it commits. Clocks of the machines may differ by less than a minute.
"""

import fcntl
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec

from orbitmq.clock import Clock, SystemClock, utc_text
from orbitmq.errors import LocationInUse
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.locations.location import Location, local_path
from orbitmq.threads import Event, start_thread

__all__ = ["LEASE_MS", "Owner", "locked"]

log = logging.getLogger("orbitmq.spark")

LEASE_MS: Final = 90_000
_RENEW_S: Final = 15.0


class _Lease(msgspec.Struct):
    who: str
    renewed_ms: int


class Owner(Protocol):
    """The holder of a lock."""

    def check(self) -> None:
        """Raise LocationInUse if the lock was lost."""


@contextmanager
def locked(location: Location, folder: str, clock: Clock | None = None) -> Iterator[Owner]:
    """Own a location by a lock in a folder of it; raise LocationInUse if somebody else does."""
    path = local_path(location, f"{folder}/lock")
    if path is None:
        with _leased(location, f"{folder}/leases", clock or SystemClock()) as owner:
            yield owner
    else:
        location.make_folder(folder)
        with _flocked(location, path) as owner:
            yield owner


def _who() -> str:
    return f"process {os.getpid()} on {platform.node()}"


class _Flock:
    def check(self) -> None:
        """Nobody else can have it while this process lives."""


@contextmanager
def _flocked(location: Location, path: str) -> Iterator[Owner]:
    # Not inherited by what is started meanwhile: a JVM that outlives us must not keep it.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(location, os.read(descriptor, 200).decode(errors="replace")) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{_who()}\n".encode(), 0)
        yield _Flock()
    finally:
        os.close(descriptor)


def _in_use(location: Location, who: str) -> LocationInUse:
    return LocationInUse(
        f"{location.place} is in use by {who.strip() or 'another process'}; wait until it has "
        "ended, or choose another directory",
        place=location.place,
        owner=who.strip(),
    )


class _Leased:
    def __init__(self, location: Location, folder: str, clock: Clock) -> None:
        self._location = location
        self._folder = folder
        self._clock = clock
        self._name = f"{folder}/{SystemRandomness().token(8).hex()}.json"
        self.renew()

    def renew(self) -> None:
        self._renewed_ms = self._clock.now_ms()
        lease = _Lease(_who(), self._renewed_ms)
        self._location.replace(self._name, msgspec.json.encode(lease))

    def check(self) -> None:
        """Raise LocationInUse if the lease expired, or somebody deleted it as expired."""
        late_ms = self._clock.now_ms() - self._renewed_ms
        if late_ms >= LEASE_MS or self._location.size(self._name) is None:
            raise LocationInUse(
                f"the lease of {self._location.place} was not renewed for {late_ms / 1000:.0f} s, "
                "so that another process may have it now; nothing was committed. Run it again",
                place=self._location.place,
                owner="",
            )

    def look_around(self) -> None:
        """Delete expired leases; raise LocationInUse if another one is alive."""
        for file in self._location.names(self._folder):
            name = f"{self._folder}/{file}"
            if name == self._name:
                continue
            lease = self._location.load(name, _Lease)
            if lease is None:
                continue
            if self._clock.now_ms() - lease.renewed_ms < LEASE_MS:
                since = f"{lease.who}, since {utc_text(lease.renewed_ms)}"
                raise _in_use(self._location, since)
            log.warning("the lease of %s on %s has expired", lease.who, self._location.place)
            self._location.remove(name)

    def release(self) -> None:
        self._location.remove(self._name)


@contextmanager
def _leased(location: Location, folder: str, clock: Clock) -> Iterator[Owner]:
    lease = _Leased(location, folder, clock)
    ended = Event()

    def renew() -> None:
        while not ended.wait(_RENEW_S):
            try:
                lease.renew()
            except OSError as error:  # tried again; `check` notices if that takes too long
                log.warning("the lease of %s could not be renewed: %s", location.place, error)

    renewer = start_thread(renew, name="orbitmq-lease", daemon=True)
    try:
        lease.look_around()
        yield lease
    finally:
        ended.set()
        renewer.join()
        lease.release()
