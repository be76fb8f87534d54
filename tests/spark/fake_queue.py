"""One queue of a broker that exists only here, and links to it: pulls are answered by the rules."""

from collections.abc import Callable, Iterable, Iterator

from orbitmq.errors import ConnectionClosed, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan
from orbitmq.wire.codes import VERSION_5_4_0, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import ANSWER_FLAG, Frame, HeaderEncoding
from orbitmq.wire.headers.pull import PullMessageAnswer
from tests.spark.records import record

QUEUE = MessageQueue("orders", "broker-a", 3)


class FakeQueue:
    """Records from one offset up to another, of which one answer has so many at most."""

    def __init__(self, least: int, end: int, *, at_once: int = 32, span: int = 800) -> None:
        self.least, self.end = least, end
        self.at_once, self.span = at_once, span
        self.wanted: Callable[[int], bool] = lambda _offset: True
        self.suggested = 0
        self.pulls: list[int] = []

    def answer(self, offset: int, count: int) -> Frame:
        """Answer a pull at an offset, as a broker does."""
        self.pulls.append(offset)
        if offset < self.least or offset > self.end:
            moved_to = self.least if offset < self.least else self.end
            return self.frame(ResponseCode.PULL_OFFSET_MOVED, moved_to)
        if offset == self.end:
            return self.frame(ResponseCode.PULL_NOT_FOUND, offset)
        found: list[bytes] = []
        reached = offset
        while reached < min(self.end, offset + self.span) and len(found) < min(count, self.at_once):
            if self.wanted(reached):
                found.append(record(reached, b"%d" % reached))
            reached += 1
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_RETRY_IMMEDIATELY
        return self.frame(code, reached, b"".join(found))

    def frame(self, code: int, reached: int, body: bytes = b"", remark: str = "") -> Frame:
        """Return an answer."""
        header = PullMessageAnswer(
            suggest_which_broker_id=self.suggested,
            next_begin_offset=reached,
            min_offset=self.least,
            max_offset=self.end,
        )
        fields: dict[str, str | None] = {**header.to_texts()}
        return Frame(
            *(code, 0, ANSWER_FLAG, VERSION_5_4_0, "JAVA", remark, fields, body),
            HeaderEncoding.ROCKETMQ,
        )


class FakeLink:
    """A connection to a fake queue."""

    def __init__(self, queue: FakeQueue, peer: str = "10.0.0.7:10911") -> None:
        self.peer = peer
        self.queue = queue
        self.broken = False
        self.on_its_way: dict[int, tuple[int, int]] = {}
        self.most_on_their_way = 0
        self.writes = 0
        self.asked: list[dict[str, str]] = []

    def start_all(self, headers: Iterable[Header]) -> list[int]:
        if self.broken:
            raise ConnectionClosed("the connection is closed", address=self.peer)
        self.writes += 1
        numbers = []
        for header in headers:
            texts = header.to_texts()
            self.asked.append(texts)
            number = len(self.asked)
            self.on_its_way[number] = int(texts["queueOffset"]), int(texts["maxMsgNums"])
            numbers.append(number)
        self.most_on_their_way = max(self.most_on_their_way, len(self.on_its_way))
        return numbers

    def result(self, number: int) -> Frame:
        asked = self.on_its_way.pop(number)
        if self.broken:
            raise ConnectionClosed("the connection broke", address=self.peer)
        return self.queue.answer(*asked)

    def abandon(self, number: int) -> None:
        self.on_its_way.pop(number, None)


class FakeBrokers:
    """The replicas of a queue by broker id; the primary stands in for one that is not there."""

    def __init__(self, *replicas: FakeQueue) -> None:
        self.links = {number: FakeLink(queue) for number, queue in enumerate(replicas)}
        self.failures: list[OrbitError] = []
        self.forgotten = 0

    @property
    def primary(self) -> FakeLink:
        return self.links[0]

    def connection(self, queue: MessageQueue, broker_id: int = 0) -> FakeLink:
        assert queue == QUEUE
        if self.failures:
            raise self.failures.pop(0)
        return self.links.get(broker_id, self.primary)

    def forget(self, queue: MessageQueue) -> None:
        assert queue == QUEUE
        self.forgotten += 1
        self.links = {number: FakeLink(link.queue) for number, link in self.links.items()}

    def wire_name(self, name: str) -> str:
        return f"ns%{name}"


def offsets_in(bodies: Iterable[bytes | bytearray | memoryview]) -> Iterator[int]:
    """Yield the queue offsets of the records in answers."""
    for body in bodies:
        view: RecordView
        for view in Scan(body):
            yield view.queue_offset
