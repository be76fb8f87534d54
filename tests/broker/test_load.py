"""Many of everything at once, over loopback. ``ORBITMQ_SOAK=1`` runs the full numbers."""

import asyncio
import gc
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq.embedded import EmbeddedCluster
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from tests.broker.crowds import (
    CROWDED,
    PATIENCE_MS,
    need_descriptors,
    open_files,
    run,
    topic_of,
)
from tests.broker.exchanges import pull_header, send_header


class Scale(NamedTuple):
    connections: int
    topics: int
    queues: int  # of each topic
    held: int


SCALE = Scale(1000, 2000, 5, 500) if os.environ.get("ORBITMQ_SOAK") == "1" else Scale(60, 60, 5, 50)

# Both ends of each connection are in this process, and some hundred files of the store.
DESCRIPTORS = 2 * SCALE.connections + 1_000


@pytest.fixture(autouse=True)
def _enough_descriptors() -> None:
    need_descriptors(DESCRIPTORS)


def test_everything_is_answered_and_nothing_is_left_behind(tmp_path: Path) -> None:
    run(asyncio.sleep(0))  # uvloop keeps a pipe from its first loop on
    others = connections()  # tests before this one may have left some, and garbage with files
    before = open_files()
    run(crowd(tmp_path))
    run(after_a_restart(tmp_path))
    assert [one for one in connections() if one not in others] == []
    assert open_files() - before == Counter()  # what others left may be closed meanwhile


def connections() -> list[Connection]:
    """Return all connections that there are in this process."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Connection)]


async def crowd(directory: Path) -> None:
    """Have all connections make topics, send to every queue, and wait for messages."""
    async with AsyncExitStack() as running:
        cluster = EmbeddedCluster(str(directory), settings=CROWDED)
        await running.enter_async_context(cluster)
        broker = Address.parse(cluster.brokers[0])
        clients = [await connected(running, broker) for _ in range(SCALE.connections)]
        await make_topics(clients)
        await fill_queues(clients)
        await wake_held_pulls(clients)
        waiting = await hold_pulls(clients, offset=2)
        closing = asyncio.create_task(cluster.close())
        answers = await asyncio.gather(*waiting)
        assert {answer.code for answer in answers} == {ResponseCode.PULL_NOT_FOUND}
        await closing
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def connected(running: AsyncExitStack, broker: Address) -> Connection:
    dialer = await running.enter_async_context(Dialer())
    return await dialer.connection(broker)


async def make_topics(clients: list[Connection]) -> None:
    creations = (
        clients[number % len(clients)].request(
            topic_of(f"topic-{number}", SCALE.queues), timeout_ms=PATIENCE_MS
        )
        for number in range(SCALE.topics)
    )
    assert {answer.code for answer in await asyncio.gather(*creations)} == {ResponseCode.SUCCESS}


async def fill_queues(clients: list[Connection]) -> None:
    """Send one message to every queue, a few hundred at a time as a broker allows."""
    for places in slices(list(queues())):
        sends = (
            clients[index % len(clients)].request(
                send_header(topic, queue_id=queue_id), b"first", timeout_ms=PATIENCE_MS
            )
            for index, (topic, queue_id) in enumerate(places)
        )
        answers = await asyncio.gather(*sends)
        assert {(one.code, one.remark) for one in answers} == {(ResponseCode.SUCCESS, None)}


async def hold_pulls(clients: list[Connection], *, offset: int) -> list[asyncio.Future[Frame]]:
    """Have one pull held for each of the first queues; return their answers to come."""
    waiting = []
    checks = []
    for index, (topic, queue_id) in zip(range(SCALE.held), queues(), strict=False):
        client = clients[index % len(clients)]
        header = pull_header(topic, offset, queue_id=queue_id, hold_ms=PATIENCE_MS)
        waiting.append(client.start_request(header, timeout_ms=2 * PATIENCE_MS))
        # Requests of one connection are served in their order: an answer to this one says that the
        # pull before it is held.
        checks.append(client.request(GetMaxOffset(topic=topic, queue_id=queue_id)))
    answers = await asyncio.gather(*checks)
    assert {one.read(GetMaxOffsetAnswer).offset for one in answers} == {offset}
    assert not any(one.done() for one in waiting)
    return waiting


async def wake_held_pulls(clients: list[Connection]) -> None:
    waiting = await hold_pulls(clients, offset=1)
    for index, (topic, queue_id) in zip(range(SCALE.held), queues(), strict=False):
        clients[-1 - index % len(clients)].oneway(send_header(topic, queue_id=queue_id), b"second")
    answers = await asyncio.gather(*waiting)
    found = [[message.body for message in decode_all(answer.body)] for answer in answers]
    assert found == [[b"second"]] * SCALE.held


async def after_a_restart(directory: Path) -> None:
    """All queues are there again, with what they hold."""
    async with (
        EmbeddedCluster(str(directory), settings=CROWDED) as cluster,
        Dialer() as dialer,
    ):
        broker = await dialer.connection(Address.parse(cluster.brokers[0]))
        ends = [
            broker.request(pull_header(topic, 0, queue_id=queue_id), timeout_ms=PATIENCE_MS)
            for topic, queue_id in queues()
        ]
        bodies = [
            [message.body for message in decode_all(answer.body)]
            for answer in await asyncio.gather(*ends)
        ]
        assert bodies[: SCALE.held] == [[b"first", b"second"]] * SCALE.held
        assert bodies[SCALE.held :] == [[b"first"]] * (len(bodies) - SCALE.held)


def queues() -> Iterator[tuple[str, int]]:
    for number in range(SCALE.topics):
        for queue_id in range(SCALE.queues):
            yield f"topic-{number}", queue_id


def slices(places: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    for begin in range(0, len(places), 500):
        yield places[begin : begin + 500]
