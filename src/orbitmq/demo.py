"""What exists, shown in one terminal: ``make demo``.

A message is encoded and its bytes are drawn; then a nameserver and a broker start in this process,
and messages go the whole way: routed, sent, filtered by tags, delayed, found by key, kept on disk,
and read again after a restart. Requests are made by hand here, to show them.
"""

import asyncio
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

from orbitmq.clock import Clock, SystemClock, local_month
from orbitmq.embedded import EmbeddedCluster
from orbitmq.message import properties, record, scan
from orbitmq.message.host import Host
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import Message, StoredMessage
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.event_loop import new_event_loop
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.frame import HeaderEncoding
from orbitmq.wire.headers.pull import SUBSCRIPTION, SUSPEND, PullMessage
from orbitmq.wire.headers.query import QueryMessage
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2
from orbitmq.wire.session import Identity, Session

STORE_HOST = Host.parse("127.0.0.1:10911")
MESSAGES = (
    Message("orders", b'{"order": "o-42", "paid": true}', tags="paid", keys=["o-42"]),
    Message("orders", b'{"order": "o-43", "paid": false}', tags="open", keys=["o-43"]),
    Message("orders", "{'Größe': '大'}".encode(), properties={"colour": "blue"}),
)


def main() -> None:
    """Show it all."""
    title("orbitmq: RocketMQ's bytes, nameserver, broker and store, in Python")
    say(f"Python {platform.python_version()}. There is no consumer yet, nor a Spark source: the")
    say("clients for Java, Go and Node use what stands here, and so does this demo, with")
    say("requests made by hand to show them.")
    clock = SystemClock()
    ids = UniqueIds(b"\x7f\x00\x00\x01", 1, 0x5EED, clock, local_month)
    message = MESSAGES[0].replace(message_id=ids.next())
    show_record(message, clock)
    show_frame(message, clock)
    with TemporaryDirectory() as home, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(show_exchange(ids, clock, home))
        show_store(home)
        runner.run(show_restart(home))


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
    """Send messages to a broker by its route, and pull them back."""
    title("3. A nameserver and a broker in this process, and messages on their way")
    began_ms = clock.monotonic_ms()
    async with EmbeddedCluster(directory) as cluster, Dialer() as dialer:
        say(f"ready in {clock.monotonic_ms() - began_ms} ms: nameserver {cluster.nameserver}")
        nameserver = Address.parse(cluster.nameserver)
        answer = await dialer.request(nameserver, GetRouteInfo(topic="TBW102"))
        route = TopicRouteData.from_json(answer.body).broker_datas[0]
        say(f"the route leads to {route.broker_name} at {route.broker_addrs[0]}")
        connection = await dialer.connection(Address.parse(route.broker_addrs[0]))
        for message in MESSAGES:
            sent = message.replace(message_id=ids.next())
            answer = await connection.request(send_header(sent, clock), sent.body)
            receipt = answer.read(SendMessageAnswer)
            say(f"sent   {sent.message_id}   {sent.body.decode()}")
            say(f"stored {receipt.msg_id}   at offset {receipt.queue_offset}")
        for stored in await pulled(connection):
            say(f"pulled {stored.message_id}   {stored.body.decode()}")
        for stored in await pulled(connection, tags="paid"):
            say(f"tagged {stored.tags}: {stored.body.decode()}")
        await show_delay(connection, ids, clock)
        await show_query(connection)
        unknown = await connection.request(pull_header(), code=4711)
        say("asked for what it can't do, it answers:")
        say(repr(unknown))


async def show_delay(connection: Connection, ids: UniqueIds, clock: Clock) -> None:
    """Hold a pull at the end of a queue until a delayed message arrives there."""
    late = Message("reminders", b"it is time", delay_level=1, message_id=ids.next())
    await connection.request(send_header(late, clock), late.body)
    began_ms = clock.monotonic_ms()
    (stored,) = await pulled(connection, topic="reminders", hold_ms=15_000)
    waited_ms = clock.monotonic_ms() - began_ms
    say(f"a pull was held for {waited_ms} ms until a delayed message was due: {stored.body!r}")


async def show_query(connection: Connection) -> None:
    """Find a message by its key."""
    query = QueryMessage(
        topic="orders", key="o-43", max_num=1, begin_timestamp=0, end_timestamp=2**62
    )
    answer = await connection.request(query)
    (found,) = scan.decode_all(bytes(answer.body), broker_name="broker-a")
    say(f"key o-43 leads to offset {found.queue_offset} of queue {found.queue_id}")


async def pulled(
    connection: Connection, *, topic: str = "orders", tags: str = "*", hold_ms: int = 0
) -> list[StoredMessage]:
    """Return what one pull of queue 0 gets."""
    answer = await connection.request(
        pull_header(topic, tags=tags, hold_ms=hold_ms), timeout_ms=30_000
    )
    return scan.decode_all(bytes(answer.body), broker_name="broker-a")


def show_store(directory: str) -> None:
    """Show what the broker left on the disk."""
    title("4. The store directory it left: RocketMQ's files, byte for byte")
    home = Path(directory) / "broker-a"
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.name.endswith(".bak"):
            say(f"  {path.stat().st_size:10,d}  {path.relative_to(home)}")


async def show_restart(directory: str) -> None:
    """Start a broker on those files again; a Java broker could as well."""
    async with EmbeddedCluster(directory) as cluster, Dialer() as dialer:
        connection = await dialer.connection(Address.parse(cluster.brokers[0]))
        messages = await pulled(connection)
        say(f"started again on it: {len(messages)} messages of queue 0 of orders are there")


def pull_header(topic: str = "orders", *, tags: str = "*", hold_ms: int = 0) -> PullMessage:
    """Return a pull of queue 0 from its beginning, held if there is nothing."""
    return PullMessage(
        consumer_group="demo",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION | (SUSPEND if hold_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription=tags,
        sub_version=0,
    )


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
