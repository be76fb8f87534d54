"""Load on a broker, orbitmq's or Java's: sends with pulls over raw connections, at full speed.

Each load runs in its own process, so that its CPU time is not counted as the broker's. It returns
the broker's CPU time and the messages per second.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.measure import resident_of
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.event_loop import new_event_loop
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import CreateTopic
from orbitmq.wire.headers.heartbeat import Heartbeat
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.headers.pull import COMMIT_OFFSET, SUSPEND, PullMessage, PullMessageAnswer
from orbitmq.wire.headers.send import SendMessageV2

KILOBYTE: Final = bytes(range(256)) * 4
QUEUES: Final = 4
PULL_MESSAGES: Final = 32
TIMEOUT_MS: Final = 20_000
_GROUP: Final = "bench"
_QUEUES_OF_A_TOPIC: Final = 100
_HOLD_MS: Final = 15_000
_BORN_MS: Final = 1_700_000_000_000
_IDLE_LOOK_S: Final = 0.05
_IDLE_LOOKS: Final = 60
_IDLE_SHARE: Final = 0.1  # of one core, which a JVM uses when it does nothing
_CPU_OF_PROCESS: Final = 2  # CPUCLOCK_SCHED of Linux: all threads, user and system


class Target(NamedTuple):
    """A broker under load."""

    address: Address
    pid: int
    topic: str


class Passed(NamedTuple):
    """The cost of a load to the broker."""

    cpu_us: float
    """CPU time of its process per message."""
    per_second: float
    """Messages per second; other work on the machine lowers it."""


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process, like ``clock_getcpuclockid`` on Linux."""
    return time.clock_gettime_ns(~pid << 3 | _CPU_OF_PROCESS)


async def until_idle(pid: int) -> None:
    """Wait until a process does nothing: what it finishes of an earlier load isn't measured."""
    for _ in range(_IDLE_LOOKS):
        spent = cpu_ns(pid)
        await asyncio.sleep(_IDLE_LOOK_S)
        if cpu_ns(pid) - spent < _IDLE_LOOK_S * _IDLE_SHARE * 1e9:
            return


# Loads: each runs in its own process


def pulls(target: Target, *, count: int) -> Passed:
    """Pull ``count`` stored messages from the start, one pull at a time per queue."""

    async def load(opened: Sequence[Connection]) -> None:
        await Pulls(target.topic, [0] * QUEUES, count).run(opened[0])

    return run(target, 1, load, count)


def tail(
    target: Target,
    *,
    window: int,
    count: int,
    sends: "Callable[[str, int], Sends] | None" = None,
    pulls: "Callable[[str, Sequence[int], int], Pulls] | None" = None,
) -> Passed:
    """Send ``count`` messages and pull each as it arrives; pulls wait at the ends of queues.

    ``sends`` and ``pulls`` replace :class:`Sends` and :class:`Pulls`.
    """
    ends: list[int] = []

    async def load(opened: Sequence[Connection]) -> None:
        arriving = (pulls or Pulls)(target.topic, ends, count)
        pulling = asyncio.create_task(arriving.run(opened[0]))
        await (sends or Sends)(target.topic, count).run(opened[1:], window)
        await pulling

    async def find_ends(opened: Sequence[Connection]) -> None:
        ends.extend(await ends_of(opened[0], target.topic))

    return run(target, 2, load, count, prepare=find_ends)


def run(
    target: Target,
    connections: int,
    load: Callable[[Sequence[Connection]], Awaitable[None]],
    count: int,
    prepare: Callable[[Sequence[Connection]], Awaitable[None]] | None = None,
) -> Passed:
    """Run a load over new connections, the first a consumer; ``prepare`` is not measured."""

    async def measured() -> Passed:
        async with AsyncExitStack() as stack:
            opened = [await connect(stack, target.address) for _ in range(connections)]
            await _join(opened[0], target.topic)
            if prepare is not None:
                await prepare(opened)
            await until_idle(target.pid)
            began, spent = time.perf_counter(), cpu_ns(target.pid)
            await load(opened)
            took, spent = time.perf_counter() - began, cpu_ns(target.pid) - spent
            return Passed(spent / count / 1000, count / took)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measured())


async def connect(stack: AsyncExitStack, address: Address) -> Connection:
    """Return a new connection; it is closed with ``stack``."""
    return await (await stack.enter_async_context(Dialer())).connection(address)


# Memory


class Crowd(NamedTuple):
    """The resident memory of a broker, in MB."""

    idle: float
    connected: float
    """With all connections, after a send over each."""
    queued: float
    """With all queues too, each with a message."""


def crowd(target: Target, *, connections: int, queues: int) -> Crowd:
    """Open connections, then fill queues; return the memory of the broker before and after."""

    async def grow() -> Crowd:
        idle = _resident(target.pid)
        async with AsyncExitStack() as stack:
            opened = [await connect(stack, target.address) for _ in range(connections)]
            for connection in opened:
                await _store(connection, target.topic, 0)
            connected = _resident(target.pid)
            for begin in range(0, queues, _QUEUES_OF_A_TOPIC):
                await _fill_queues(opened[0], f"{target.topic}-{begin}", _QUEUES_OF_A_TOPIC)
            return Crowd(idle, connected, _resident(target.pid))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(grow())


def create_topics(target: Target, topics: Sequence[str], queues: int) -> None:
    """Create topics, and store a message in each queue."""

    async def create() -> None:
        async with AsyncExitStack() as stack:
            connection = await connect(stack, target.address)
            for topic in topics:
                await _fill_queues(connection, topic, queues)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(create())


async def _fill_queues(connection: Connection, topic: str, queues: int) -> None:
    wanted = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
    )
    await _asked(connection, wanted)
    for queue_id in range(queues):
        await _store(connection, topic, queue_id)


async def _store(connection: Connection, topic: str, queue_id: int) -> None:
    wanted = send_header(topic, 0, queue_id)
    while not is_stored(await connection.request(wanted, b"-", timeout_ms=TIMEOUT_MS)):
        pass  # the broker is busy: try again


def _resident(pid: int) -> float:
    memory = resident_of(Path(f"/proc/{pid}/status").read_text())
    return memory.own + memory.mapped


# Sends


def send_header(topic: str, number: int, queue_id: int) -> SendMessageV2:
    """Return the header of a send like those of Java's producers, with a new unique key."""
    return SendMessageV2(
        producer_group=_GROUP,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=_BORN_MS + number,
        flag=0,
        properties=(
            f"UNIQ_KEY\x017F00000100002A9F00000A1B{number:08X}\x02WAIT\x01true\x02TAGS\x01paid\x02"
        ),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )


class Sends:
    """Sends messages to the queues of a topic, round-robin."""

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self._to_send = self._unanswered = count
        # Another run sends other messages, whose unique keys no broker has seen.
        self._number = time.time_ns() // 1_000 % 2**31
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, connections: Sequence[Connection], window: int) -> None:
        """Return when all are stored; raise the first error."""
        for _ in range(window):
            for connection in connections:
                self._send(connection)
        await self._done

    def _send(self, connection: Connection) -> None:
        if self._to_send:
            self._to_send -= 1
            self._number += 1  # a message that is sent again is another one
            header = self._header(self._number)
            answer = connection.start_request(header, KILOBYTE, timeout_ms=TIMEOUT_MS)
            answer.add_done_callback(partial(self._answered, connection))

    def _answered(self, connection: Connection, answer: "asyncio.Future[Frame]") -> None:
        if self._done.done():
            return
        try:
            if is_stored(answer.result()):
                self._unanswered -= 1
                self._stored(connection, answer.result())
            else:
                self._to_send += 1
            self._send(connection)
        except Exception as error:
            self._done.set_exception(error)
            return
        if not self._unanswered:
            self._done.set_result(None)

    # For loads that send other messages

    def _header(self, number: int) -> SendMessageV2:
        return send_header(self._topic, number, number % QUEUES)

    def _stored(self, connection: Connection, answer: Frame) -> None:
        """Do nothing."""


def is_stored(answer: Frame) -> bool:
    """Return whether a message was stored; False if the broker was too busy.

    Raises:
        RuntimeError: the broker refused it for another reason.
    """
    if answer.code == ResponseCode.SUCCESS:
        return True
    if answer.code == ResponseCode.SYSTEM_BUSY:
        return False
    raise RuntimeError(f"a send was refused: {answer!r}")


# Pulls


class Pulls:
    """Pulls the queues of a topic until a number of messages has arrived in total."""

    def __init__(self, topic: str, begins: Sequence[int], count: int) -> None:
        self._topic = topic
        self._begins = begins
        self._left = count

    async def run(self, connection: Connection) -> None:
        """Return when all messages have arrived; pulls in flight are cancelled."""
        async with asyncio.TaskGroup() as group:
            pulling = [
                group.create_task(self._pull(connection, queue_id, offset))
                for queue_id, offset in enumerate(self._begins)
            ]
            await asyncio.wait(pulling, return_when=asyncio.FIRST_COMPLETED)
            for one in pulling:
                one.cancel()

    async def _pull(self, connection: Connection, queue_id: int, offset: int) -> None:
        while self._left > 0:
            wanted = pull_header(self._topic, queue_id, offset)
            answer = await connection.request(wanted, timeout_ms=TIMEOUT_MS)
            if answer.code not in _PULLED:
                raise RuntimeError(f"a pull was refused: {answer!r}")
            found = answer.read(PullMessageAnswer)
            self._left -= found.next_begin_offset - offset
            offset = found.next_begin_offset
            self._arrived(answer.body)

    def _arrived(self, body: bytes | memoryview) -> None:
        """Do nothing; for loads that look at the messages."""


_PULLED: Final = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)


def pull_header(topic: str, queue_id: int, offset: int) -> PullMessage:
    """Return the header of a pull like those of Java's consumers."""
    return PullMessage(
        consumer_group=_GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=PULL_MESSAGES,
        sys_flag=COMMIT_OFFSET | SUSPEND,
        commit_offset=offset,
        suspend_timeout_millis=_HOLD_MS,
        sub_version=0,
        expression_type="TAG",
    )


async def _join(connection: Connection, topic: str) -> None:
    """Make the connection a member of the group that pulls."""
    subscription = SubscriptionData(topic=topic, sub_string="*")
    consumer = ConsumerData(
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        group_name=_GROUP,
        message_model=MessageModel.CLUSTERING,
        subscription_data_set=(subscription,),
    )
    beat = HeartbeatData(client_id="bench", consumer_data_set=(consumer,))
    await _asked(connection, Heartbeat(), beat.to_json())


async def ends_of(connection: Connection, topic: str) -> list[int]:
    """Return the end of each queue of a topic that :class:`Sends` fills."""
    return [await _end_of(connection, topic, queue) for queue in range(QUEUES)]


async def _end_of(connection: Connection, topic: str, queue_id: int) -> int:
    answer = await _asked(connection, GetMaxOffset(topic=topic, queue_id=queue_id))
    return answer.read(GetMaxOffsetAnswer).offset


async def _asked(connection: Connection, header: Header, body: bytes = b"") -> Frame:
    answer = await connection.request(header, body, timeout_ms=TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"{type(header).__name__} was refused: {answer!r}")
    return answer
