"""One message as bytes: the record that a broker stores, and the frame that a producer sends."""

from typing import Final

from orbitmq.clock import Clock, local_month
from orbitmq.demo.terminal import dump, say
from orbitmq.message import properties, record, scan
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import Message
from orbitmq.wire.frame import HeaderEncoding
from orbitmq.wire.headers.send import SendMessageV2
from orbitmq.wire.session import Identity, Session

__all__ = ["show_bytes"]

_MESSAGE: Final = Message("orders", b'{"order": "o-42"}', tags="paid", keys=["o-42"])
_SHOWN_OF_A_FRAME: Final = 48


def show_bytes(clock: Clock) -> None:
    """Encode a message as a record and as frames, print the bytes, and decode them."""
    ids = UniqueIds(b"\x7f\x00\x00\x01", 1, 0x5EED, clock, local_month)
    message = _MESSAGE.replace(message_id=ids.next())
    _show_record(message, clock)
    for encoding in HeaderEncoding:
        _show_frame(message, clock, encoding)


def _show_record(message: Message, clock: Clock) -> None:
    say(repr(message))
    encoded = record.encode(
        record.Record(
            topic=message.topic.encode(),
            body=message.body,
            properties=properties.encode(message.wire_properties()),
            queue_id=0,
            flag=0,
            queue_offset=0,
            commit_log_offset=0,
            sys_flag=0,
            born_timestamp_ms=clock.now_ms(),
            born_host=Host.parse("127.0.0.1:54321"),
            store_timestamp_ms=clock.now_ms(),
            store_host=Host.parse("127.0.0.1:10911"),
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
    )
    dump(encoded)
    (stored,) = scan.decode_all(encoded)
    say(f"decoded: {stored.body!r} tags={stored.tags} keys={stored.keys}")


def _show_frame(message: Message, clock: Clock, encoding: HeaderEncoding) -> None:
    session: Session[None] = Session(Identity(encoding=encoding))
    header = SendMessageV2(
        producer_group="demo",
        topic=message.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=clock.now_ms(),
        flag=message.flag,
        properties=properties.encode(message.wire_properties()).decode(),
    )
    _, head = session.request(header, message.body, waiter=None, now=0, timeout=3)
    (frame,) = Session[None]().receive(head + message.body)
    say(f"the send request, with a {encoding.name} header of {len(head)} bytes:")
    dump(head[:_SHOWN_OF_A_FRAME])
    say(f"decoded: topic={frame.read(SendMessageV2).topic!r}")
