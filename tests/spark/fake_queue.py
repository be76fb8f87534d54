"""A queue of a broker in memory, and connections to it; pulls are answered as brokers do."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from orbitmq.errors import ConnectFailed, ConnectionClosed, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan
from orbitmq.message.tags import SELECT_ALL
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.brokers import QueueConnection
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.options.options import Access
from orbitmq.spark.pulling.record_run import Records
from orbitmq.wire.bodies.static_topic import TopicConfigAndQueueMapping
from orbitmq.wire.codes import VERSION_5_4_0, ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import ANSWER_FLAG, Frame, HeaderEncoding
from orbitmq.wire.headers.pull import PullMessageAnswer
from tests.spark.records import record

QUEUE = MessageQueue("orders", "broker-a", 3)


class FakeQueue:
    """Records from one offset to another; an answer has at most ``at_once``."""

    def __init__(self, least: int, end: int, *, at_once: int = 32, span: int = 800) -> None:
        self.least, self.end = least, end
        self.at_once, self.span = at_once, span
        self.wanted: Callable[[int], bool] = lambda _offset: True
        self.is_filtered = False  # whether the pull to be answered has tags
        self.kept_from = least  # where the log begins, which the queue may not know yet
        self.attributes: dict[str, str] = {}
        self.suggested = 0
        self.pulls: list[int] = []

    def answer(self, offset: int, count: int) -> Frame:
        """Answer a pull at an offset, as a broker does."""
        self.pulls.append(offset)
        if offset < self.least:
            return self.frame(ResponseCode.PULL_OFFSET_MOVED, self.least, remark="OFFSET_TOO_SMALL")
        if offset > self.end:
            remark = "OFFSET_OVERFLOW_BADLY"
            return self.frame(ResponseCode.PULL_OFFSET_MOVED, self.end, remark=remark)
        if offset == self.end:
            return self.frame(ResponseCode.PULL_NOT_FOUND, offset, remark="OFFSET_OVERFLOW_ONE")
        wanted = self.wanted if self.is_filtered else lambda _offset: True
        found: list[bytes] = []
        reached, status = offset, "NO_MATCHED_MESSAGE"
        while reached < min(self.end, offset + self.span) and len(found) < min(count, self.at_once):
            if wanted(reached) and reached >= self.kept_from:
                found.append(record(reached, b"%d" % reached))
            elif not found:
                status = "MESSAGE_WAS_REMOVING" if wanted(reached) else "NO_MATCHED_MESSAGE"
            reached += 1
        if found:
            return self.frame(ResponseCode.SUCCESS, reached, b"".join(found), "FOUND")
        return self.frame(ResponseCode.PULL_RETRY_IMMEDIATELY, reached, remark=status)

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

    def config(self) -> Frame:
        """Answer the question how the topic is set."""
        body = TopicConfigAndQueueMapping(topic_name="ns%orders", attributes=self.attributes)
        return Frame(
            *(ResponseCode.SUCCESS, 0, ANSWER_FLAG, VERSION_5_4_0, "JAVA", "", {}, body.to_json()),
            HeaderEncoding.ROCKETMQ,
        )


class ContainedReplica(FakeQueue):
    """A replica in a broker container of Java's, whose primary is there: it has one code for all.

    All but FOUND, and the remark stays what it was (``PullMessageProcessor.composeResponseHeader``,
    and ``InnerBrokerController``, which knows whether there is a primary).
    """

    def frame(self, code: int, reached: int, body: bytes = b"", remark: str = "") -> Frame:
        if code != ResponseCode.SUCCESS:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
        return super().frame(code, reached, body, remark)


class FakeConnection(BlockingConnection):
    """A connection to a fake queue, without a socket."""

    def __init__(self, queue: FakeQueue, peer: str = "10.0.0.7:10911") -> None:
        # Not the constructor of a connection: that dials.
        self.peer = peer
        self.queue = queue
        self.broken = False
        self.in_flight: dict[int, dict[str, str]] = {}
        self.most_in_flight = 0
        self.writes = 0
        self.memory: memoryview | None = None  # to answer into
        self.used = 0
        self.asked: list[dict[str, str]] = []

    def __repr__(self) -> str:
        return f"<FakeConnection {self.peer}>"

    def start_all(self, headers: Iterable[Header], *, timeout_ms: int | None = None) -> list[int]:
        assert timeout_ms is None
        if self.broken:
            raise ConnectionClosed("the connection is closed", address=self.peer)
        self.writes += 1
        numbers = []
        for header in headers:
            texts = header.to_texts()
            self.asked.append(texts)
            number = len(self.asked)
            self.in_flight[number] = texts
            numbers.append(number)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        return numbers

    def result(self, number: int) -> Frame:
        texts = self.in_flight.pop(number)
        if self.broken:
            raise ConnectionClosed("the connection broke", address=self.peer)
        if "queueOffset" not in texts:
            return self.queue.config()
        self.queue.is_filtered = texts["subscription"] != SELECT_ALL
        answer = self.queue.answer(int(texts["queueOffset"]), int(texts["maxMsgNums"]))
        end = self.used + len(answer.body)
        if self.memory is not None and end <= len(self.memory):
            self.memory[self.used : end] = answer.body
            answer.body = self.memory[self.used : end]
            self.used = end + 7  # the header of the next one is between them
        return answer

    def receive_into(self, memory: memoryview | None) -> None:
        if self.memory is not None:  # what comes next may be written there
            end = min(self.used + 4_096, len(self.memory))
            self.memory[self.used : end] = bytes(end - self.used)
        self.memory, self.used = memory, 0

    def abandon(self, number: int) -> None:
        self.in_flight.pop(number, None)


class FakeReplicas(Cluster):
    """A cluster with one queue: its replicas by broker id; another replaces one that is down."""

    def __init__(self, *replicas: FakeQueue) -> None:
        super().__init__(Access(nameserver="127.0.0.1:9876"))
        self.links = {number: FakeConnection(queue) for number, queue in enumerate(replicas)}
        self.failures: list[OrbitError] = []
        self.away: set[int] = set()
        self.forgotten = 0

    @property
    def primary(self) -> FakeConnection:
        return self.links[0]

    def connection(
        self, queue: MessageQueue, broker_id: int = 0, *, exact: bool = False
    ) -> QueueConnection:
        assert queue == QUEUE
        if self.failures:
            raise self.failures.pop(0)
        for number in (broker_id,) if exact else (broker_id, *self.links):
            if number in self.links and number not in self.away:
                return QueueConnection(self.links[number], number)
        raise ConnectFailed(f"no connection to replica {broker_id}", address="10.0.0.7:10911")

    def forget(self, queue: MessageQueue) -> None:
        assert queue == QUEUE
        self.forgotten += 1
        self.links = {number: FakeConnection(link.queue) for number, link in self.links.items()}

    def wire_name(self, name: str) -> str:
        return f"ns%{name}"


def offsets_in(pulled: Iterable[Records]) -> Iterator[int]:
    """Yield the queue offsets of records; check their positions if these are given."""
    for records in pulled:
        views: list[RecordView] = list(Scan(records.data))
        sizes = [view.size for view in views]
        assert records.starts in (None, [0, *accumulate(sizes)][:-1])
        yield from (view.queue_offset for view in views)
