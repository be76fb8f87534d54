"""Sends at full speed, whose frames are encoded before the clock starts.

The generator only writes bytes and reads answers, so that a fast broker is not measured at the
speed of a slow client::

    frames ──▶ Link 1 ··· Link n ──▶ broker      as many frames as one read answers go out next, in
       ▲         │                               one write for each link
       └ refused ┘
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

import msgspec

from bench.load import KILOBYTE, QUEUES, Passed, Target, cpu_ns, is_stored, send_header, until_idle
from orbitmq.message import batch
from orbitmq.net.address import Address
from orbitmq.net.event_loop import new_event_loop
from orbitmq.wire.codes import VERSION_5_4_0, Language, RequestCode
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.session import Identity, Session

__all__ = ["KINDS", "Frames", "Link", "Load", "Place", "flood", "frames_of", "spread_over"]

BATCH: Final = 16
_JAVA: Final = Identity(language=Language.JAVA, version=VERSION_5_4_0)
_KEEP: Final = 1e9  # seconds: the session's own timeouts don't matter


class Frames(NamedTuple):
    """Encoded requests, each under its number."""

    by_number: dict[int, bytes]
    together: int
    """Messages of a frame."""


Place = Callable[[int], tuple[str, int]]
"""The topic and queue of a message, by its number."""


def spread_over(topic: str, queues: int = QUEUES) -> Place:
    """Return the place of messages that go to the queues of one topic in turn."""
    return lambda number: (topic, number % queues)


def frames_of(kind: str, place: Place, count: int, body: bytes = KILOBYTE) -> Frames:
    """Return the frames of ``count`` messages, of one of :data:`KINDS`."""
    session: Session[None] = Session(_JAVA, in_flight_max=count)
    together, code, fill = KINDS[kind]
    first = _first_number()
    found = {}
    for number in range(first, first + count // together):
        topic, queue_id = place(number)
        header, sent = fill(topic, number, queue_id, body)
        opaque, head = session.request(header, sent, waiter=None, now=0, timeout=_KEEP, code=code)
        found[opaque] = head + sent
    return Frames(found, together)


def _first_number() -> int:
    """Return a number from which messages have unique keys that no broker has seen."""
    return time.time_ns() // 1_000 % 2**31


def _text(number: int) -> str:
    """Return the properties that Java's producers send with a key and a tag."""
    return (
        f"KEYS\x01o-{number}\x02UNIQ_KEY\x017F00000100002A9F00000A1B{number:08X}\x02"
        "WAIT\x01true\x02TAGS\x01paid\x02"
    )


def _keyed(topic: str, number: int, queue_id: int, body: bytes) -> tuple[SendMessageV2, bytes]:
    header = send_header(topic, number, queue_id)
    return msgspec.structs.replace(header, properties=_text(number)), body


def _keyed_49(topic: str, number: int, queue_id: int, body: bytes) -> tuple[SendMessageV2, bytes]:
    """Make a send of a 4.9 client, which does not close the last property."""
    header = send_header(topic, number, queue_id)
    return msgspec.structs.replace(header, properties=_text(number).removesuffix("\x02")), body


def _some_delayed(
    topic: str, number: int, queue_id: int, body: bytes
) -> tuple[SendMessageV2, bytes]:
    """Make a send, and one in ten with a delay level."""
    text = _text(number) + ("" if number % 10 else "DELAY\x011\x02")
    return msgspec.structs.replace(send_header(topic, number, queue_id), properties=text), body


def _batch(topic: str, number: int, queue_id: int, body: bytes) -> tuple[SendMessageV2, bytes]:
    numbers = range(number * BATCH, (number + 1) * BATCH)
    sent = batch.encode((0, body, _text(each % 2**32).encode()) for each in numbers)
    header = send_header(topic, number, queue_id)
    return msgspec.structs.replace(header, batch=True, properties="WAIT\x01true\x02"), sent


_Fill = Callable[[str, int, int, bytes], tuple[SendMessageV2, bytes]]
KINDS: Final[dict[str, tuple[int, int, _Fill]]] = {
    "keyed": (1, RequestCode.SEND_MESSAGE_V2, _keyed),
    "keyed-4.9": (1, RequestCode.SEND_MESSAGE_V2, _keyed_49),
    "some delayed": (1, RequestCode.SEND_MESSAGE_V2, _some_delayed),
    "batch": (BATCH, RequestCode.SEND_BATCH_MESSAGE, _batch),
}
"""Kind of send → messages of a frame, request code, and what makes header and body."""


# Sending


class Load(ABC):
    """Gets the answers of some links."""

    def __init__(self) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @abstractmethod
    def take(self, link: "Link", answers: list[Frame]) -> None:
        """Look at the answers of one read."""

    def end(self, error: Exception | None = None) -> None:
        """End the load, well or with an error; the first end counts."""
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


class Link(asyncio.Protocol):
    """One connection, whose answers a load gets."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls, address: Address, load: Load) -> "Link":
        """Return a connected link."""
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(load), address.host, address.port)
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        if answers := list(self._reader.feed(data)):
            self._load.take(self, answers)

    def connection_lost(self, error: Exception | None) -> None:
        self._load.end(error or ConnectionError("the broker closed a connection"))

    def write(self, data: bytes) -> None:
        """Send bytes."""
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        assert self._transport is not None
        self._transport.close()


class Flood(Load):
    """All frames, over some links, with a number of them in flight in total.

    A link has as many places as it may have frames in flight; the place that is free longest is
    used next, so that all links take part even if there are more of them than frames in flight.
    """

    def __init__(self, frames: Frames) -> None:
        super().__init__()
        self._frames = frames.by_number
        self._waiting = deque(frames.by_number)
        self._unanswered = len(frames.by_number)
        self._places: deque[Link] = deque()

    async def run(self, links: Sequence[Link], in_flight: int) -> None:
        """Return when all are stored; raise the first error."""
        for _ in range(-(-in_flight // len(links))):
            self._places.extend(links)
        self._write(in_flight)
        await self._done

    def take(self, link: Link, answers: list[Frame]) -> None:
        """Count answers, and send as many frames."""
        try:
            for answer in answers:
                if is_stored(answer):
                    self._unanswered -= 1
                else:
                    self._waiting.append(answer.opaque)
        except RuntimeError as error:
            self.end(error)
        self._places.extend([link] * len(answers))
        self._write(len(answers))
        if not self._unanswered:
            self.end()

    def _write(self, count: int) -> None:
        waiting, frames, places = self._waiting, self._frames, self._places
        turn: dict[Link, list[bytes]] = {}
        for _ in range(min(count, len(waiting))):
            turn.setdefault(places.popleft(), []).append(frames[waiting.popleft()])
        for link, data in turn.items():
            link.write(b"".join(data))


def flood(target: Target, frames: Frames, *, connections: int, in_flight: int) -> Passed:
    """Send all frames; return the cost to the broker, per message."""

    async def measured() -> Passed:
        work = Flood(frames)
        links = [await Link.open(target.address, work) for _ in range(connections)]
        try:
            await until_idle(target.pid)
            began, spent = time.perf_counter(), cpu_ns(target.pid)
            await work.run(links, in_flight)
            took, spent = time.perf_counter() - began, cpu_ns(target.pid) - spent
        finally:
            for link in links:
                link.close()
        count = len(frames.by_number) * frames.together
        return Passed(spent / count / 1000, count / took)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measured())
