"""Peers that misbehave against a whole broker, over loopback, while another client is served.

What is tested is that others are answered, not how fast. ``ORBITMQ_SOAK=1`` runs the full numbers.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from orbitmq.embedded import EmbeddedCluster
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.randomness import SeededRandomness
from orbitmq.wire.bodies.heartbeat import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import ANSWER_FLAG, FRAME_BYTES_MAX, Frame, FrameReader
from orbitmq.wire.headers.heartbeat import Heartbeat
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.session import Session
from tests.broker.crowds import CROWDED, PATIENCE_MS, run
from tests.broker.exchanges import pull_header, send_header

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
PIPELINED = 100_000 if SOAK else 2_000
TOPICS = 20_000 if SOAK else 200
SUBSCRIPTIONS = 10_000
REPLIES = 60
ROUNDS = 10
LARGE: Final = bytes(200_000)


class Party:
    """A broker, a client that it has to go on serving, and the way to further peers."""

    def __init__(self, broker: Address, client: Connection) -> None:
        self.broker = broker
        self.client = client
        self.plugs: list[Plug] = []
        self._served = 0

    async def serve_others(self) -> None:
        """Have the client send a message, again while the broker is busy, and pull it."""
        code: int = ResponseCode.SYSTEM_BUSY
        while code == ResponseCode.SYSTEM_BUSY:
            sent = await self.client.request(
                send_header("others"), b"a message", timeout_ms=PATIENCE_MS
            )
            code = sent.code
        assert code == ResponseCode.SUCCESS
        answer = await self.client.request(
            pull_header("others", self._served), timeout_ms=PATIENCE_MS
        )
        assert [message.body for message in decode_all(answer.body)] == [b"a message"]
        self._served += 1

    async def reply(self, header: Header, body: bytes) -> Frame:
        """Have the client reply to a request."""
        code = RequestCode.SEND_REPLY_MESSAGE_V2
        return await self.client.request(header, body, code=code, timeout_ms=PATIENCE_MS)

    async def plug(self) -> "Plug":
        """Return a bare connection to the broker, on which anything can be written."""
        plug = Plug(*await asyncio.open_connection(self.broker.host, self.broker.port))
        self.plugs.append(plug)
        return plug


class Plug:
    """A raw TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._session: Session[None] = Session(in_flight_max=1 << 30)
        self._frames = FrameReader(FRAME_BYTES_MAX)

    def ask(self, header: Header, body: bytes = b"") -> None:
        """Write a request, whether or not anybody reads answers."""
        _, head = self._session.request(header, body, waiter=None, now=0, timeout=1)
        self.writer.write(head)
        self.writer.write(body)

    async def answers(self, count: int) -> list[Frame]:
        """Return so many answers."""
        found: list[Frame] = []
        while len(found) < count:
            data = await self.reader.read(1 << 20)
            assert data, f"the broker closed the connection after {len(found)} answers"
            found += [one for one in self._frames.feed(data) if one.flag & ANSWER_FLAG]
        return found

    async def is_closed(self) -> bool:
        """Return whether the broker ends the connection; wait till it has."""
        try:
            while await self.reader.read(1 << 20):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        """Go without a word."""
        self.writer.transport.abort()


@asynccontextmanager
async def party(**settings: str) -> AsyncIterator[Party]:
    async with EmbeddedCluster(settings=CROWDED | settings) as cluster, Dialer() as dialer:
        broker = Address.parse(cluster.brokers[0])
        here = Party(broker, await dialer.connection(broker))
        try:
            yield here
        finally:
            for plug in here.plugs:
                plug.close()


def test_a_client_that_reads_no_answers_delays_no_other() -> None:
    async def story() -> None:
        async with party() as here:
            for _ in range(20):
                await here.client.request(send_header("large"), LARGE, timeout_ms=PATIENCE_MS)
            deaf = await here.plug()
            deaf.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(PIPELINED):
                deaf.ask(pull_header("large", 0))
            for _ in range(ROUNDS):
                await here.serve_others()
            deaf.close()
            await here.serve_others()

    run(story())


def garbage() -> list[bytes]:
    chance = SeededRandomness(1)
    return [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),  # a TLS greeting
        b"\xff\xff\xff\xff" + bytes(64),  # a frame of a negative size
        b"\x7f\xff\xff\xff" + bytes(64),  # of two gigabytes
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\xff\xff\xff" + bytes(64),  # a header longer than its frame
        b"\x00\x00\x00\x08\x00\x00\x00\x04null",
        b'\x00\x00\x00\x0a\x00\x00\x00\x06{"a":1',  # not whole
        *(chance.token(200) for _ in range(20)),
    ]


def test_noise_on_the_port_does_not_disturb_other_clients() -> None:
    async def story() -> None:
        async with party() as here:
            for noise in garbage():
                plug = await here.plug()
                plug.writer.write(noise)
                plug.writer.write_eof()
                assert await plug.is_closed(), noise
                plug.close()
                await here.serve_others()

    run(story())


def test_half_a_frame_waits_alone() -> None:
    async def story() -> None:
        async with party() as here:
            plugs = [await here.plug() for _ in range(50)]
            for size, plug in enumerate(plugs, start=1):
                plug.writer.write((b"\x00\x10\x00\x00" + b"\x00\x00\x01\x00{" * 10)[:size])
                await plug.writer.drain()
            for _ in range(ROUNDS):
                await here.serve_others()
            for plug in plugs:
                plug.close()

    run(story())


def test_every_one_of_many_pipelined_pulls_is_answered() -> None:
    async def story() -> None:
        async with party() as here:
            await here.serve_others()
            plug = await here.plug()
            reading = asyncio.create_task(plug.answers(PIPELINED))
            for _ in range(PIPELINED):
                plug.ask(pull_header("others", 1, hold_ms=PATIENCE_MS))
            await plug.writer.drain()
            # It wakes all that are held; more than one connection may have are turned away.
            await here.serve_others()
            codes = {answer.code for answer in await reading}
            assert codes <= {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}
            plug.close()
            await here.serve_others()

    run(story())


def too_much() -> list[tuple[SendMessageV2, bytes]]:
    long_text = f"a\x01{'x' * 40_000}\x02"
    return [
        (send_header("orders"), bytes(4 * 1024 * 1024 + 1)),
        (send_header("orders", properties=long_text), b"x"),
        (send_header("x" * 128), b"x"),
        (send_header("orders", queue_id=1 << 30), b"x"),
        (send_header("not a topic"), b"x"),
        (send_header(""), b"x"),
        (send_header("SCHEDULE_TOPIC_XXXX"), b"x"),
    ]


def test_a_send_over_a_limit_is_refused_and_the_connection_stays() -> None:
    async def story() -> None:
        async with party() as here:
            for header, body in too_much():
                answer = await here.client.request(header, body, timeout_ms=PATIENCE_MS)
                assert answer.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY), header
                assert answer.remark, header
                await here.serve_others()

    run(story())


def test_a_frame_over_the_limit_ends_its_connection_alone() -> None:
    async def story() -> None:
        async with party() as here:
            plug = await here.plug()
            plug.writer.write((FRAME_BYTES_MAX + 1).to_bytes(4) + bytes(1 << 20))
            assert await plug.is_closed()
            plug.close()
            await here.serve_others()

    run(story())


def test_a_flood_of_new_topics_leaves_room_for_others() -> None:
    async def story() -> None:
        async with party() as here:
            plug = await here.plug()
            reading = asyncio.create_task(plug.answers(TOPICS))
            for number in range(TOPICS):
                plug.ask(send_header(f"flood-{number}"), b"x")
            for _ in range(ROUNDS):
                await here.serve_others()
            codes = {answer.code for answer in await reading}
            assert codes <= {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}
            plug.close()

    run(story())


def test_heartbeats_with_thousands_of_subscriptions_are_taken_and_forgotten() -> None:
    consumer = ConsumerData(
        group_name="greedy",
        subscription_data_set=tuple(
            SubscriptionData(topic=f"topic-{number}", sub_string="*", sub_version=1)
            for number in range(SUBSCRIPTIONS)
        ),
    )
    body = HeartbeatData(client_id="greedy-1", consumer_data_set=(consumer,)).to_json()

    async def story() -> None:
        async with party() as here:
            plug = await here.plug()
            for _ in range(ROUNDS):
                plug.ask(Heartbeat(), body)
            for _ in range(ROUNDS):
                await here.serve_others()
            answers = await plug.answers(ROUNDS)
            assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
            plug.close()
            await here.serve_others()

    run(story())


def test_replies_to_a_client_that_reads_nothing_delay_no_other() -> None:
    me = HeartbeatData(client_id="deaf", producer_data_set=(ProducerData(group_name="askers"),))
    to_deaf = send_header("DefaultCluster_REPLY_TOPIC", properties="REPLY_TO_CLIENT\x01deaf\x02")

    async def story() -> None:
        async with party(replyThreadPoolQueueCapacity="50") as here:
            deaf = await here.plug()
            deaf.ask(Heartbeat(), me.to_json())
            await deaf.answers(1)
            deaf.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
            replies = [asyncio.create_task(here.reply(to_deaf, LARGE)) for _ in range(REPLIES)]
            for _ in range(ROUNDS):
                await here.serve_others()
            deaf.close()  # what was not confirmed ends with its connection
            codes = {answer.code for answer in await asyncio.gather(*replies)}
            assert codes == {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY}
            await here.serve_others()

    run(story())
