import asyncio

import pytest

from bench.flood import BATCH, KINDS, Flood, Link, flood, frames_of, spread_over
from orbitmq.embedded import RunningCluster
from orbitmq.net.address import Address
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.session import Response, Session
from tests.bench.conftest import target_of


@pytest.mark.parametrize(("connections", "in_flight"), [(1, 8), (8, 8), (20, 8)])
def test_all_messages_are_stored(cluster: RunningCluster, connections: int, in_flight: int) -> None:
    topic = f"plain-{connections}"
    frames = frames_of("keyed", spread_over(topic), 100)
    passed = flood(target_of(cluster, topic), frames, connections=connections, in_flight=in_flight)
    stored = cluster.messages(topic)
    assert len(stored) == 100
    assert len({message.keys for message in stored}) == 100
    assert {message.tags for message in stored} == {"paid"}
    assert passed.cpu_us > 0


def test_a_batch_is_a_frame_of_many_messages(cluster: RunningCluster) -> None:
    frames = frames_of("batch", spread_over("batches"), 4 * BATCH)
    assert len(frames.by_number) == 4
    flood(target_of(cluster, "batches"), frames, connections=1, in_flight=2)
    assert len(cluster.messages("batches")) == 4 * BATCH


def test_the_text_of_a_4_9_client_is_not_closed() -> None:
    def texts(kind: str) -> list[str]:
        data = b"".join(frames_of(kind, spread_over("any"), 10).by_number.values())
        headers = (frame.read(SendMessageV2) for frame in FrameReader().feed(data))
        return [header.properties or "" for header in headers]

    assert all(text.endswith("\x02") for text in texts("keyed"))
    assert all(text.endswith("paid") for text in texts("keyed-4.9"))
    assert sum("DELAY" in text for text in texts("some delayed")) == 1
    assert set(KINDS) == {"keyed", "keyed-4.9", "some delayed", "batch"}


class Written(Link):
    """A link that only notes what is written."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.data.append(data)


def answer_of(request: bytes, code: int) -> Frame:
    """Return the answer to a request, as a client reads it."""
    (asked,) = FrameReader().feed(request)
    data = b"".join(Session[None]().answer(asked, Response(code)))
    (frame,) = FrameReader().feed(data)
    return frame


async def answered(*codes: int) -> tuple[list[bytes], BaseException | None]:
    """Answer two frames, in one read, and return what is written next and how the load ended."""
    frames = frames_of("keyed", spread_over("any"), 2)
    work, link = Flood(frames), Written()
    running = asyncio.create_task(work.run([link], 2))
    await asyncio.sleep(0)
    link.data.clear()
    requests = frames.by_number.values()
    work.take(link, [answer_of(*one) for one in zip(requests, codes, strict=True)])
    done, _ = await asyncio.wait([running], timeout=0)
    running.cancel()
    return link.data, done.pop().exception() if done else None


def test_what_a_busy_broker_refuses_is_sent_again() -> None:
    data, _ = asyncio.run(answered(ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY))
    assert len(data) == 1


def test_another_refusal_ends_the_load() -> None:
    _, error = asyncio.run(answered(ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION))
    assert isinstance(error, RuntimeError)


def test_a_closed_connection_ends_the_load() -> None:
    async def closed() -> None:
        async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        work = Flood(frames_of("keyed", spread_over("any"), 1))
        link = await Link.open(Address(host, port), work)
        with pytest.raises(ConnectionError):
            await work.run([link], 1)
        server.close()

    asyncio.run(closed())
