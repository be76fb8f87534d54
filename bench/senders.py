"""The two producers under comparison, orbitmq's and Java's, each to be run in its own process.

Both send messages of 1 KB with a tag to a topic, with a fixed number in flight, and return the CPU
time of their process. Java's keeps its process, since it takes tens of thousands of sends until its
code is compiled. Both retry sends that a busy broker refuses.
"""

import asyncio
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time_ns
from typing import Final, NamedTuple

from bench.java_program import java_program, last_words
from bench.load import KILOBYTE, TIMEOUT_MS, cpu_ns
from bench.measure import Resident, in_child, resident
from orbitmq import blocking
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import SendRefusedBusy
from orbitmq.message.model import Message
from orbitmq.net.event_loop import new_event_loop

TOPIC: Final = "bench"
_STORED: Final = "stored "
_WARM_FRAMES: Final = 500  # for routes, connections, and the interpreter's specialisation


class Load(NamedTuple):
    """How many messages to send, and how."""

    in_flight: int
    """Sends in flight."""
    together: int
    """Messages per send."""
    gathered: bool
    """Whether the client batches messages automatically."""
    threads: bool
    """Whether Java's client waits in threads or uses callbacks; orbitmq's uses tasks."""
    messages: int
    blocking: bool = False
    """Whether orbitmq's blocking client is used, with a thread per send in flight."""


class Spent(NamedTuple):
    """The cost of a load to the client."""

    cpu_us: float
    """CPU time of its process per message."""
    per_second: float
    refused: int
    """Sends that a busy broker refused and that were retried."""


# Ours


def send_ours(nameserver: str, load: Load) -> Spent:
    """Send with orbitmq's producer; return the cost to this process."""
    return (_send_from_threads if load.blocking else _send_from_tasks)(nameserver, load)


def _send_from_tasks(nameserver: str, load: Load) -> Spent:
    async def measured() -> Spent:
        async with _producer(nameserver, load) as producer:
            sends = Sends(producer, load, KILOBYTE)
            await sends.run(min(_WARM_FRAMES, load.messages // load.together))
            sends.refused = 0
            began, spent = perf_counter(), process_time_ns()
            await sends.run(load.messages // load.together)
            return _spent_since(began, spent, load, sends.refused)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measured())


def _send_from_threads(nameserver: str, load: Load) -> Spent:
    with blocking.Producer("bench", nameserver=nameserver, send_timeout_ms=TIMEOUT_MS) as producer:
        sends = ThreadSends(producer, load.in_flight, KILOBYTE)
        sends.run(min(_WARM_FRAMES, load.messages))
        began, spent = perf_counter(), process_time_ns()
        refused = sends.run(load.messages)
        return _spent_since(began, spent, load, refused)


def _spent_since(began: float, spent: int, load: Load, refused: int) -> Spent:
    took, spent = perf_counter() - began, process_time_ns() - spent
    return Spent(spent / load.messages / 1000, load.messages / took, refused)


def _producer(nameserver: str, load: Load) -> Producer:
    return Producer(
        "bench", nameserver=nameserver, auto_batch=load.gathered, send_timeout_ms=TIMEOUT_MS
    )


class Sends:
    """Tasks that each await one send after another."""

    def __init__(self, producer: Producer, load: Load, body: bytes) -> None:
        self._producer = producer
        self._load = load
        self._body = body
        self._left = 0
        self.refused = 0

    async def run(self, frames: int) -> None:
        """Return when ``frames`` sends are stored; raise the first error."""
        self._left = frames
        work = self._send_batches if self._load.together > 1 else self._send_each
        async with asyncio.TaskGroup() as group:
            for _ in range(self._load.in_flight):
                group.create_task(work())

    async def _send_each(self) -> None:
        while self._left > 0:
            self._left -= 1
            try:
                await self._producer.send(Message(TOPIC, self._body, tags="paid"))
            except SendRefusedBusy:
                self._again()

    async def _send_batches(self) -> None:
        while self._left > 0:
            self._left -= 1
            together = range(self._load.together)
            try:
                await self._producer.send_many(
                    [Message(TOPIC, self._body, tags="paid") for _ in together]
                )
            except SendRefusedBusy:
                self._again()

    def _again(self) -> None:
        self._left += 1
        self.refused += 1


class ThreadSends:
    """Threads that each make one send after another."""

    def __init__(self, producer: blocking.Producer, threads: int, body: bytes) -> None:
        self._producer = producer
        self._threads = threads
        self._body = body

    def run(self, messages: int) -> int:
        """Store ``messages`` messages and return how many sends were refused."""
        unsent = iter(range(messages))  # shared: each thread takes the next one
        with ThreadPoolExecutor(self._threads) as pool:
            working = [pool.submit(self._send_each, unsent) for _ in range(self._threads)]
            return sum(one.result() for one in working)

    def _send_each(self, unsent: Iterator[int]) -> int:
        refused = 0
        for _ in unsent:
            while not self._is_stored():
                refused += 1
        return refused

    def _is_stored(self) -> bool:
        try:
            self._producer.send(Message(TOPIC, self._body, tags="paid"))
        except SendRefusedBusy:
            return False
        return True


# Memory


def memory_of_ours(nameserver: str, load: Load, *, body: bytes, steps: int) -> list[Resident]:
    """Send messages in steps, in a new process; return its memory after each step.

    Raises:
        RuntimeError: the system has no ``/proc``.
    """
    return in_child(_memory_of_ours, nameserver, load, body, steps)


def _memory_of_ours(nameserver: str, load: Load, body: bytes, steps: int) -> list[Resident]:
    async def measured() -> list[Resident]:
        found = []
        async with _producer(nameserver, load) as producer:
            sends = Sends(producer, load, body)
            for _ in range(steps):
                await sends.run(load.messages // steps)
                if (memory := resident()) is None:
                    raise RuntimeError("there is no /proc to read memory from; run this on Linux")
                found.append(memory)
        return found

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measured())


# Java's


class JavaSender:
    """Java's producers, one per nameserver, in one process."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def send(self, nameserver: str, load: Load) -> Spent:
        """Send, and return the cost to the process, compiler and garbage collector included.

        Raises:
            RuntimeError: a send failed; the message ends with Java's output.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began, spent = perf_counter(), cpu_ns(self._process.pid)
        words = (load.in_flight, load.together, load.gathered, load.threads, load.messages)
        print(nameserver, *words, file=self._process.stdin, flush=True)
        for line in self._process.stdout:  # its logger writes there too
            if line.startswith(_STORED):
                took, spent = perf_counter() - began, cpu_ns(self._process.pid) - spent
                refused = int(line.removeprefix(_STORED))
                return Spent(spent / load.messages / 1000, load.messages / took, refused)
        raise RuntimeError(f"Java's producer ended, {last_words(self._process, self._log)}")


@contextmanager
def java_sender(directory: Path) -> Iterator[JavaSender]:
    """Run Java's producer; raise RuntimeError as ``java_program`` does."""
    with java_program(directory, "SendLoad", TOPIC, str(len(KILOBYTE))) as (process, log):
        yield JavaSender(process, log)
