"""What exists, shown in one terminal: ``make demo``.

A message is encoded and its bytes are drawn; it crosses a real socket to a stand-in that keeps
it in a store, and comes back in a pull answer. The stand-in lives here alone: it shows that bytes,
frames, connections and the store work together, and is no broker.
"""

import asyncio
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

from orbitmq.clock import Clock, SystemClock, local_month
from orbitmq.message import properties, record, scan
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import Message
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.event_loop import new_event_loop
from orbitmq.net.listener import Listener
from orbitmq.store.message_store import MessageStore
from orbitmq.store.put import Incoming
from orbitmq.store.settings import StoreSettings
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, HeaderEncoding
from orbitmq.wire.headers.pull import PullMessage, PullMessageAnswer
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Identity, Response, Session

LOOPBACK = Address("127.0.0.1", 0)
STORE_HOST = Host.parse("127.0.0.1:10911")
SMALL_FILES = StoreSettings(
    segment_bytes=64 * 1024, queue_file_entries=100, index_slots=100, index_entries=400
)
MESSAGES = (
    Message("orders", b'{"order": "o-42", "paid": true}', tags="paid", keys=["o-42"]),
    Message("orders", b'{"order": "o-43", "paid": false}', tags="open", keys=["o-43"]),
    Message("orders", "{'Größe': '大'}".encode(), properties={"colour": "blue"}),
)


class StandIn:
    """Answers sends and pulls of one queue from a store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def serve(self, connection: Connection, request: Frame) -> Response:
        """Serve one request, of the two kinds it knows."""
        if request.code == RequestCode.SEND_MESSAGE_V2:
            return self._send(request.read(SendMessageV2), request, connection.peer)
        if request.code == RequestCode.PULL_MESSAGE:
            return self._pull(request.read(PullMessage))
        return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="a stand-in, no broker")

    def _send(self, send: SendMessageV2, request: Frame, peer: str) -> Response:
        message = Incoming(
            topic=send.topic,
            queue_id=send.queue_id,
            body=request.body,
            properties=(send.properties or "").encode(),
            flag=send.flag,
            sys_flag=send.sys_flag,
            born_timestamp_ms=send.born_timestamp,
            born_host=Host.parse(peer),
            store_host=STORE_HOST,
        )
        (result,) = self._store.append([message])
        answer = SendMessageAnswer(
            msg_id=result.message_ids(STORE_HOST),
            queue_id=send.queue_id,
            queue_offset=result.queue_offset,
        )
        return Response(header=answer)

    def _pull(self, pull: PullMessage) -> Response:
        found = self._store.lookup.select(
            pull.topic, pull.queue_id, pull.queue_offset, max_count=pull.max_msg_nums
        )
        answer = PullMessageAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=found.next_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
        )
        return Response(header=answer, body=tuple(found.views))


def main() -> None:
    """Show it all."""
    title("orbitmq: the bytes, the connections and the store of RocketMQ, in Python")
    say(f"Python {platform.python_version()}. There is no broker yet, nor a producer: what stands")
    say("is what they will be built on. A stand-in of this demo answers in their place,")
    say("with a real store directory below it.")
    clock = SystemClock()
    ids = UniqueIds(b"\x7f\x00\x00\x01", 1, 0x5EED, clock, local_month)
    message = MESSAGES[0].replace(message_id=ids.next())
    show_record(message, clock)
    show_frame(message, clock)
    with TemporaryDirectory() as directory:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(show_exchange(ids, clock, directory))
        show_store(directory)


def show_record(message: Message, clock: Clock) -> None:
    """Encode a message as a broker stores it, and read it back."""
    title("1. A message, as a record of the commit log")
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
            store_host=STORE_HOST,
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
    )
    dump(encoded)
    (stored,) = scan.decode_all(encoded)
    say(f"read back: {stored.body!r} tags={stored.tags} keys={stored.keys} from {stored.born_host}")


def show_frame(message: Message, clock: Clock) -> None:
    """Write the request that sends a message, in both header encodings, and read it back."""
    title("2. The request that sends it, as a frame, in both header encodings")
    for encoding in HeaderEncoding:
        session: Session[None] = Session(Identity(encoding=encoding))
        header = send_header(message, clock)
        _, head = session.request(header, message.body, waiter=None, now=0, timeout=3)
        (frame,) = Session[None]().receive(head + message.body)
        say(f"{encoding.name}: {len(head)} bytes of head, {len(message.body)} of body")
        dump(head[:64])
        say(f"read back: {frame!r}")
        say(f"           topic={frame.read(SendMessageV2).topic!r}")


async def show_exchange(ids: UniqueIds, clock: Clock, directory: str) -> None:
    """Send messages over a socket to the stand-in, and pull them back."""
    title("3. Over a socket on loopback into a store, and back")
    store = MessageStore(directory, SMALL_FILES)
    store.open()
    stand_in = StandIn(store)
    async with Listener(LOOPBACK, stand_in.serve) as listener, Dialer() as dialer:
        connection = await dialer.connection(listener.address)
        say(f"{connection!r}")
        for message in MESSAGES:
            sent = message.replace(message_id=ids.next())
            answer = await connection.request(send_header(sent, clock), sent.body)
            receipt = answer.read(SendMessageAnswer)
            say(f"sent   {sent.message_id}   {sent.body.decode()}")
            say(f"stored {receipt.msg_id}   at offset {receipt.queue_offset}")
        pull = PullMessage(
            consumer_group="demo",
            topic="orders",
            queue_id=0,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
        )
        answer = await connection.request(pull)
        for stored in scan.decode_all(bytes(answer.body), broker_name="stand-in"):
            say(f"pulled {stored.message_id}   {stored.body.decode()}")
        unknown = await connection.request(pull, code=4711)
        say("asked for what it can't do, it answers:")
        say(repr(unknown))
    store.close()


def show_store(directory: str) -> None:
    """Show what the stand-in left on the disk, and open it again."""
    title("4. The store directory it left: RocketMQ's files, byte for byte")
    for path in sorted(Path(directory).rglob("*")):
        if path.is_file():
            say(f"  {path.stat().st_size:9,d}  {path.relative_to(directory)}")
    store = MessageStore(directory, SMALL_FILES)
    store.open()
    (offset,) = store.index.query("orders", "o-43", 1, 0, 2**62)
    view = store.record(offset)
    assert view is not None
    say(f"opened again: the log ends at {store.log.end}; key o-43 leads to offset {offset}:")
    say(f"  {bytes(view.body).decode()}")
    store.close()


def send_header(message: Message, clock: Clock) -> SendMessageV2:
    """Return the header that a producer would write for a message."""
    return SendMessageV2(
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


def title(text: str) -> None:
    """Begin a part."""
    say("")
    say(text)
    say("─" * min(len(text), 79))


def dump(data: bytes | bytearray) -> None:
    """Print bytes as hexadecimal and as text, sixteen to a row."""
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        say(f"  {at:04x}  {' '.join(pairs(row.hex())):<47}  {text}")


def pairs(digits: str) -> Iterable[str]:
    """Yield the digits two by two."""
    return (digits[i : i + 2] for i in range(0, len(digits), 2))


def say(text: str) -> None:
    """Print a line, broken where a terminal of 80 columns ends."""
    broken = fill(text, 79, subsequent_indent="    ", drop_whitespace=False, break_on_hyphens=False)
    sys.stdout.write(f"{broken}\n")


if __name__ == "__main__":
    main()
