"""The two push consumers under comparison, orbitmq's and Java's, each in its own process.

Both consume a topic from its beginning in a new group. Time and CPU time of the process count from
the first message to the last. The latency of a message is the time from its send to the handler:
its body begins with the time of the send, in nanoseconds since 1970. Java's keeps its process, so
that its code is compiled.
"""

import asyncio
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter_ns, process_time_ns, time_ns
from typing import Final, NamedTuple

from bench.java_program import java_program, last_words
from bench.load import KILOBYTE, TIMEOUT_MS
from bench.measure import in_child
from orbitmq import Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.message.model import Message, StoredMessage
from orbitmq.net.event_loop import new_event_loop

__all__ = ["Consume", "Consumed", "JavaConsumer", "consume_ours", "java_consumer", "produce"]

_STARTED, _CONSUMED = "started", "consumed "
_STAMP: Final = struct.Struct(">q")
_IN_FLIGHT: Final = 256
_groups: Final = count(1)

Consume = Callable[[str, str, int, int, Callable[[], None]], "Consumed"]
"""Consume from a nameserver and a topic: how many, how many of them without a latency, and what to
call when the consumer has started."""


class Consumed(NamedTuple):
    """The cost of consuming, and its latencies."""

    cpu_us: float
    """CPU time of the process per message."""
    per_second: float
    p50_ms: float
    p99_ms: float


def consumed(
    took_us: float, cpu_us: float, messages: int, p50_us: float, p99_us: float
) -> Consumed:
    """Return the result of one run.

    >>> consumed(2_000_000, 500_000, 100_000, 1_500, 9_000)
    Consumed(cpu_us=5.0, per_second=50000.0, p50_ms=1.5, p99_ms=9.0)
    """
    return Consumed(cpu_us / messages, messages / took_us * 1e6, p50_us / 1000, p99_us / 1000)


# Ours


def consume_ours(
    nameserver: str, topic: str, messages: int, skipped: int, started: Callable[[], None]
) -> Consumed:
    """Consume with orbitmq's consumer in its own process."""
    started()  # a message that is sent before the consumer has started is among those skipped
    return in_child(_consume_ours, nameserver, topic, messages, skipped)


def _consume_ours(nameserver: str, topic: str, messages: int, skipped: int) -> Consumed:
    async def measured() -> Consumed:
        stamps: list[int] = []
        ended = asyncio.Event()
        began = [0, 0]
        took = [0, 0]
        consumer = Consumer(
            f"bench-{time_ns()}",
            nameserver=nameserver,
            subscribe={topic: "*"},
            consume_from="first",
        )

        @consumer.on_message
        async def take(message: StoredMessage) -> None:
            if not stamps:
                began[:] = perf_counter_ns(), process_time_ns()
            stamps.append(time_ns() - _STAMP.unpack_from(message.body)[0])
            if len(stamps) == messages:
                took[:] = perf_counter_ns() - began[0], process_time_ns() - began[1]
                ended.set()

        async with consumer:
            await ended.wait()
        counted = sorted(stamps[skipped:messages])
        p50, p99 = counted[len(counted) // 2], counted[len(counted) * 99 // 100]
        return consumed(took[0] / 1000, took[1] / 1000, messages, p50 / 1000, p99 / 1000)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measured())


# Java's


class JavaConsumer:
    """Java's push consumers, in a process that stays."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def consume(
        self, nameserver: str, topic: str, messages: int, skipped: int, started: Callable[[], None]
    ) -> Consumed:
        """Consume in a new group."""
        assert self._process.stdin is not None
        group = f"bench-java-{next(_groups)}"
        print(nameserver, group, topic, messages, skipped, file=self._process.stdin, flush=True)
        self._line(_STARTED)
        started()
        took_us, cpu_us, p50_us, p99_us = map(int, self._line(_CONSUMED).split())
        return consumed(took_us, cpu_us, messages, p50_us, p99_us)

    def _line(self, beginning: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # its logger writes there too
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        raise RuntimeError(f"Java's consumer ended, {last_words(self._process, self._log)}")


@contextmanager
def java_consumer(directory: Path) -> Iterator[JavaConsumer]:
    """Run Java's consumers; raise RuntimeError as ``java_program`` does."""
    with java_program(directory, "ConsumeLoad") as (process, log):
        yield JavaConsumer(process, log)


# What is consumed


def produce(nameserver: str, topic: str, messages: int, per_second: int | None = None) -> None:
    """Send messages of 1 KB with the time of their send, as fast as possible or at a rate."""
    in_child(_produce, nameserver, topic, messages, per_second)


def _produce(nameserver: str, topic: str, messages: int, per_second: int | None) -> None:
    async def send() -> None:
        async with (
            Producer("bench", nameserver=nameserver, send_timeout_ms=TIMEOUT_MS) as producer,
            asyncio.TaskGroup() as group,
        ):

            async def stamped(count: int) -> None:
                for _ in range(count):
                    body = _STAMP.pack(time_ns()) + KILOBYTE[_STAMP.size :]
                    await producer.send(Message(topic, body))

            if per_second is None:
                for number in range(_IN_FLIGHT):
                    group.create_task(stamped(len(range(number, messages, _IN_FLIGHT))))
            else:
                loop = asyncio.get_running_loop()
                began = loop.time()
                for number in range(messages):
                    await asyncio.sleep(max(0.0, began + number / per_second - loop.time()))
                    group.create_task(stamped(1))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(send())
