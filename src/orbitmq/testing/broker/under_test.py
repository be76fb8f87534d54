"""The broker under test, and what tests do with it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from orbitmq.broker.machine import Machine
from orbitmq.broker.sending.fast_fail import waited_too_long
from orbitmq.client.core.loop_thread import check_no_loop
from orbitmq.embedded import EmbeddedCluster, RunningCluster
from orbitmq.errors import InvalidInput
from orbitmq.message.model import StoredMessage
from orbitmq.testing.broker.clock import MovedClock
from orbitmq.testing.broker.disk import FillableDisk
from orbitmq.testing.broker.faults import (
    Answered,
    AnswerLost,
    CutOff,
    DiskFull,
    Effect,
    Fault,
    Faults,
    Late,
    Lost,
    Requests,
    Unreachable,
    codes_of,
)
from orbitmq.testing.broker.network import GuardedNetwork
from orbitmq.testing.broker.progress import Behind, behind
from orbitmq.wire.codes import ResponseCode

__all__ = ["BrokerUnderTest", "start"]

T = TypeVar("T")

_LOOK_S: Final = 0.01
_SETTLE_S: Final = 30
_BUSY_MS: Final = 200  # the wait after which brokers answer that they are busy
# Slots of a tenth of a second: with Java's second a timer is up to that late.
_SETTINGS: Final[Mapping[str, str]] = {"timerPrecisionMs": "100"}


class BrokerUnderTest(RunningCluster):
    """A nameserver and a broker on a thread of their own; a context manager. See ``start``.

    Faults begin at once, and last until they are ended, ``with`` does so, or until they have
    struck ``times`` requests. ``requests`` says which they strike: ``send``, ``send_back``,
    ``end_transaction``, ``pull``, ``commit``, ``heartbeat``, ``any``, or members of
    ``RequestCode``; with ``topic``, only those that name it.
    """

    def __init__(
        self,
        directory: str | None = None,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._clock = MovedClock()
        self._faults = Faults()
        self._network = GuardedNetwork(self._faults)
        super().__init__(
            lambda: EmbeddedCluster(
                directory,
                brokers=brokers,
                settings={**_SETTINGS, **(settings or {})},
                machine=self._machine,
            )
        )

    def __repr__(self) -> str:
        return f"<BrokerUnderTest {self._faults!r}>"

    def _machine(self, pid: int) -> Machine:
        disk = FillableDisk(lambda: self._faults.is_disk_full)
        return Machine(network=self._network, disk=disk, clock=self._clock, pid=pid)

    # Time

    def now_ms(self) -> int:
        """Return the broker's time of day, in milliseconds since 1970."""
        return self._clock.now_ms()

    def advance(self, seconds: float | timedelta) -> None:
        """Move the broker's time of day on; return when what has become due is in its topic.

        That is messages with a delay level or a delivery time, and retries of consumers.
        Transactions in doubt are asked about, once; the answer of a producer comes later
        (``wait_messages``). Connected clients don't notice.

        Raises:
            InvalidInput: the time would go back.
            TimeoutError: the broker was not done after 30 s.
        """
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        if seconds < 0:
            raise InvalidInput(f"seconds is {seconds}; time only moves on", field="seconds")
        self._submit(self._advance(round(seconds * 1_000))).result()

    async def _advance(self, by_ms: int) -> None:
        self._clock.move(by_ms)
        states = [broker.state for broker in self._cluster.running]
        for state in states:
            state.checks.begin_round()
        try:
            async with asyncio.timeout(_SETTLE_S):
                is_settled = False
                while not is_settled:
                    for state in states:
                        # To the end of the slot that is due now, so that it is delivered.
                        now_ms, slot_ms = self.now_ms(), state.settings.store.timer_precision_ms
                        state.delays.tick(now_ms)
                        state.timers.tick(now_ms + slot_ms)
                        state.checks.tick(now_ms)
                    await asyncio.sleep(_LOOK_S / 10)
                    is_settled = all(
                        state.delays.is_settled
                        and state.timers.is_settled
                        and state.checks.is_settled
                        for state in states
                    )
        except TimeoutError:
            raise TimeoutError(
                f"the broker has not delivered everything that became due within {_SETTLE_S} s"
            ) from None

    # What there is

    def create_topic(
        self, topic: str, *, queues: int = 4, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic on each broker; the arguments are those of ``Admin.create_topic``.

        Raises:
            OrbitError: the name or an attribute is invalid.
        """
        from orbitmq.client.admin.admin import Admin  # noqa: PLC0415 - many tests need none

        cluster = self._cluster.running[0].settings.broker.broker_cluster_name

        async def create() -> None:
            async with Admin(nameserver=self.nameserver) as admin:
                await admin.create_topic(topic, queues=queues, attributes=attributes, on=cluster)

        self._submit(create()).result()

    def wait_messages(
        self,
        topic: str,
        count: int = 1,
        *,
        tags: str | None = None,
        key: str | None = None,
        timeout_s: float = 30,
    ) -> list[StoredMessage]:
        """Return the messages of a topic, as ``messages`` does, when there are ``count`` or more.

        Raises:
            TimeoutError: there were fewer after ``timeout_s``.
            WrongLoop: an event loop runs on this thread; use ``wait_messages_async``.
        """
        check_no_loop(f"{self!r}.wait_messages")
        return self._submit(self._await_messages(topic, count, tags, key, timeout_s)).result()

    async def wait_messages_async(
        self,
        topic: str,
        count: int = 1,
        *,
        tags: str | None = None,
        key: str | None = None,
        timeout_s: float = 30,
    ) -> list[StoredMessage]:
        """Do what ``wait_messages`` does, while the caller's loop goes on."""
        waiting = self._await_messages(topic, count, tags, key, timeout_s)
        return await asyncio.wrap_future(self._submit(waiting))

    async def _await_messages(
        self, topic: str, count: int, tags: str | None, key: str | None, timeout_s: float
    ) -> list[StoredMessage]:
        found: list[StoredMessage] = []

        async def look() -> bool:
            nonlocal found
            found = self._cluster.messages(topic, tags=tags, key=key)
            return len(found) >= count

        if not await _come_true(look, timeout_s):
            raise TimeoutError(
                f"topic {topic} had {len(found)} of {count} such messages after {timeout_s:g} s"
            )
        return found

    def wait_consumed(self, group: str, *, topic: str | None = None, timeout_s: float = 30) -> None:
        """Return when a group has consumed all that it can see: all its topics, or one.

        Messages that wait for a retry are not seen until it is due (``advance``). Consumers that
        are connected are asked, so this doesn't wait for the next commit.

        Raises:
            TimeoutError: it has not after ``timeout_s``; the text says which queues are left.
            WrongLoop: an event loop runs on this thread; use ``wait_consumed_async``.
        """
        check_no_loop(f"{self!r}.wait_consumed")
        self._submit(self._await_consumed(group, topic, timeout_s)).result()

    async def wait_consumed_async(
        self, group: str, *, topic: str | None = None, timeout_s: float = 30
    ) -> None:
        """Do what ``wait_consumed`` does, while the caller's loop goes on."""
        await asyncio.wrap_future(self._submit(self._await_consumed(group, topic, timeout_s)))

    async def _await_consumed(self, group: str, topic: str | None, timeout_s: float) -> None:
        left: list[Behind] | None = None

        async def look() -> bool:
            nonlocal left
            left = await behind(self._cluster.running, group, topic)
            return left == []

        if not await _come_true(look, timeout_s):
            why = "; ".join(map(str, left)) if left else "no consumer of it has connected"
            raise TimeoutError(f"group {group} has not consumed within {timeout_s:g} s: {why}")

    # Faults

    def busy(
        self, requests: Requests = "send", *, topic: str | None = None, times: int | None = None
    ) -> Fault:
        """Answer that the broker is busy (SYSTEM_BUSY), as it does when its disk is slow."""
        busy = waited_too_long(_BUSY_MS, 0, limit_ms=_BUSY_MS)
        assert busy is not None
        return self.answer(busy.code, busy.remark, requests, topic=topic, times=times)

    def answer(
        self,
        code: int | ResponseCode,
        remark: str,
        requests: Requests = "send",
        *,
        topic: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Answer with a response code, such as FLUSH_DISK_TIMEOUT, without doing what is asked."""
        return self._begin(Answered(int(code), remark), requests, topic, times)

    def drop(
        self, requests: Requests = "send", *, topic: str | None = None, times: int | None = None
    ) -> Fault:
        """Lose requests: the broker never gets them, and the client runs into its timeout."""
        return self._begin(Lost(), requests, topic, times)

    def drop_answers(
        self, requests: Requests = "send", *, topic: str | None = None, times: int | None = None
    ) -> Fault:
        """Lose answers: the broker does what is asked, and the client doesn't hear of it.

        A producer that tries again has sent its message twice: what consumers have to stand.
        """
        return self._begin(AnswerLost(), requests, topic, times)

    def delay(
        self,
        seconds: float,
        requests: Requests = "send",
        *,
        topic: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Let requests arrive later by some seconds of real time."""
        if seconds < 0:
            raise InvalidInput(f"seconds is {seconds}; it must be 0 or more", field="seconds")
        return self._begin(Late(seconds), requests, topic, times)

    def disconnect(
        self, requests: Requests = "send", *, topic: str | None = None, times: int | None = None
    ) -> Fault:
        """Reset the connection that a request comes on, without doing what is asked."""
        return self._begin(CutOff(), requests, topic, times)

    def unreachable(self) -> Fault:
        """Reset all connections to the broker, and new ones; its nameserver still names it."""
        return self._begin(Unreachable(), "any", None, None)

    def disk_full(self) -> Fault:
        """Fill the broker's disk: it refuses sends, and serves consumers.

        As on a disk that is really full, it removes log files but for the newest.
        """
        return self._begin(DiskFull(), "any", None, None)

    def _begin(
        self, effect: Effect, requests: Requests, topic: str | None, times: int | None
    ) -> Fault:
        fault = Fault(effect, codes_of(requests), topic=topic, times=times, on_end=self._end)
        self._submit(self._change(partial(self._faults.all.append, fault))).result()
        return fault

    def _end(self, fault: Fault) -> None:
        if not self._is_closed:
            self._submit(self._change(partial(self._faults.remove, fault))).result()

    async def _change(self, change: Callable[[], None]) -> None:
        """Change the faults, and have the brokers feel it at once."""
        change()
        if self._faults.is_unreachable:
            self._network.cut_all()
        for broker in self._cluster.running:
            broker.state.store.clean()  # it looks at the disk


async def _come_true(condition: Callable[[], Awaitable[bool]], timeout_s: float) -> bool:
    """Wait until a condition is true; return whether it was in time."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if await condition():
                    return True
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        return False


def start(
    directory: str | None = None,
    *,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> BrokerUnderTest:
    """Start a broker under test, and return it when clients can use it.

    Close it, or use it with ``with``. The arguments and errors are those of
    ``orbitmq.embedded.start``: a directory for the store, by default a temporary one, a number of
    brokers, which share time and faults, and settings of ``broker.conf``.
    """
    return BrokerUnderTest(directory, brokers=brokers, settings=settings)
