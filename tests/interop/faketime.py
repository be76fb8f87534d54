"""A clock of its own for a process, which can be set while it runs: by libfaketime, loaded into it.

Only the time of day is set, as when an operator or NTP sets the clock of a machine: time that runs
forward alone stays what it is, and so do waits, and the times of files. ``time.sleep`` fails in
such a process, since the library takes its moment for a time of day; servers of ours don't sleep.
"""

from pathlib import Path
from typing import Final

from orbitmq.client.admin.results import BrokerStatus
from orbitmq.clock import SystemClock
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from tests.interop import counterparts
from tests.interop.java_server import PATIENT
from tests.interop.waiting import until

__all__ = ["FakeClock", "forget_clock_of"]

_SLACK_MS: Final = 30_000
"""By how much an answer about a clock may be late; set it by more."""
_SHARED_MEMORY: Final = Path("/dev/shm")
_OPTIONS: Final = {
    "FAKETIME_CACHE_DURATION": "0",  # the file is read again whenever a second begins
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    # The "fix" assumes that it is faked: waits of threads for Python's lock would end at once, and
    # be tried again without a pause.
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    "NO_FAKE_STAT": "1",
}


class FakeClock:
    """The clock of a process that is started with its environment. There has to be a libfaketime.

    Args:
        file: says how far it is ahead; the directory must be there.

    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def __repr__(self) -> str:
        return f"<FakeClock {self._file.read_text().strip()} s>"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a process needs to go by this clock."""
        library = counterparts.faketime_library()
        assert library is not None
        return {
            **_OPTIONS,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "LD_PRELOAD": str(library),
        }

    def set(self, ahead_s: int, *, seen_by: Address | None = None) -> None:
        """Set it ahead of the machine's, or behind.

        A process sees that within a second. A broker of ours that it belongs to can be waited for,
        so that a clock that nothing goes by is an error: TimeoutError.
        """
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}\n")
        new.replace(self._file)
        if seen_by is not None:
            what = f"the clock of {seen_by} is {ahead_s} s ahead"
            until(lambda: _is_ahead(seen_by, ahead_s), what=what)


def _is_ahead(broker: Address, seconds: int) -> bool:
    """Return whether a broker says that it goes by a clock that is so far ahead."""
    now_ms = SystemClock().now_ms()
    try:
        with BlockingConnection(broker, settings=PATIENT) as connection:
            answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_RUNTIME_INFO)
    except OrbitError:
        return False
    said_ms = BrokerStatus.of(KVTable.from_json(answer.body).table).now_ms
    return said_ms is not None and abs(said_ms - now_ms - seconds * 1_000) < _SLACK_MS


def forget_clock_of(pid: int) -> None:
    """Remove what the library left of a process that was killed, before another has its number."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        (_SHARED_MEMORY / name).unlink(missing_ok=True)
