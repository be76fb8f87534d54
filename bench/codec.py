"""The cost of encoding and decoding: ``make bench``."""

from collections.abc import Callable

from bench.measure import Figure, microseconds, report
from orbitmq.message import properties, record, scan
from orbitmq.message.host import Host
from orbitmq.message.model import Message
from orbitmq.message.tags import java_hash
from orbitmq.wire.frame import FrameReader, HeaderEncoding
from orbitmq.wire.headers.pull import PullMessageAnswer
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Identity, Response, Session

BODY = bytes(range(256)) * 4  # 1 KB
PROPERTIES = {
    "KEYS": "o-42",
    "TAGS": "paid",
    "WAIT": "true",
    "UNIQ_KEY": "7F00000100002A9F00000A1B2C3D0001",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
    "CLUSTER": "DefaultCluster",
}
RECORD = record.Record(
    topic=b"orders",
    body=BODY,
    properties=properties.encode(PROPERTIES),
    queue_id=1,
    flag=0,
    queue_offset=12345,
    commit_log_offset=123456789,
    sys_flag=0,
    born_timestamp_ms=1_700_000_000_000,
    born_host=Host.parse("127.0.0.1:54321"),
    store_timestamp_ms=1_700_000_000_001,
    store_host=Host.parse("127.0.0.1:10911"),
    reconsume_times=0,
    prepared_transaction_offset=0,
)
SEND = SendMessageV2(
    producer_group="billing",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties=properties.encode(PROPERTIES).decode(),
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    broker_name="broker-a",
)
STORED = SendMessageAnswer(
    msg_id="7F00000100002A9F00000000075BCD15",
    queue_id=1,
    queue_offset=12345,
    transaction_id="7F00000100002A9F00000A1B2C3D0001",
    region="DefaultRegion",
    trace_on=True,
)
PULLED = PullMessageAnswer(
    suggest_which_broker_id=0, next_begin_offset=12377, min_offset=0, max_offset=20000
)


def request_frame(encoding: HeaderEncoding) -> bytes:
    """Return the frame of a 1 KB send."""
    session: Session[None] = Session(Identity(encoding=encoding))
    _, head = session.request(SEND, BODY, waiter=None, now=0, timeout=3)
    return head + BODY


def figures() -> list[Figure]:
    """Measure everything."""
    json_frame, binary_frame = map(request_frame, (HeaderEncoding.JSON, HeaderEncoding.ROCKETMQ))
    reader = FrameReader()
    (request,) = reader.feed(json_frame)
    (binary,) = reader.feed(binary_frame)
    session: Session[None] = Session()
    stored, pulled = Response(header=STORED), Response(header=PULLED)
    pull_body = bytes(record.encode(RECORD)) * 32
    view = next(iter(scan.Scan(pull_body)))
    raw_properties = properties.encode(PROPERTIES)
    calls: list[tuple[str, Callable[[], object], float | None]] = [
        ("V2 send header decoded, JSON", lambda: request.read(SendMessageV2), 2),
        ("a 1 KB send cut from the stream, JSON", lambda: list(reader.feed(json_frame)), None),
        ("both: bytes to typed header, JSON", lambda: typed(reader, json_frame), None),
        ("the same, 32 in one read", lambda: typed(reader, json_frame * 32), None),
        ("V2 send header decoded, binary", lambda: binary.read(SendMessageV2), None),
        ("a 1 KB send cut from the stream, binary", lambda: list(reader.feed(binary_frame)), None),
        ("send answer encoded", lambda: session.answer(request, stored), 1),
        ("pull answer encoded", lambda: session.answer(request, pulled), 1),
        ("V2 send request encoded", lambda: session.oneway(SEND, BODY), None),
        ("1 KB record encoded", lambda: record.encode(RECORD), 3),
        ("pull body of 32 scanned", lambda: list(scan.Scan(pull_body)), 20),
        ("the same, checksums verified", lambda: list(scan.Scan(pull_body, verify=True)), None),
        ("one record to a StoredMessage", view.message, None),
        ("7 properties decoded", lambda: properties.decode(raw_properties), None),
        ("Message built", lambda: Message("orders", BODY, tags="paid", keys=("o-42",)), None),
        ("tag hashed", lambda: java_hash("TagA"), None),
    ]
    return [Figure(what, microseconds(call), aim) for what, call, aim in calls]


def typed(reader: FrameReader, data: bytes) -> list[SendMessageV2]:
    """Decode received bytes to typed headers."""
    return [frame.read(SendMessageV2) for frame in reader.feed(data)]


if __name__ == "__main__":
    report("codec", figures())
