import re

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.sending.plain.cutting import Cut, PlainTopic
from orbitmq.broker.sending.plain.meanings import Meanings
from orbitmq.message import flags, properties
from orbitmq.message.host import Host
from orbitmq.wire.headers.send import SendMessageV2
from tests import kernels
from tests.broker.send_world import header
from tests.broker.sending.plain.exchange import frame

HERE, THERE = Host.parse("10.0.0.7:10911"), Host.parse("10.0.0.9:5000")
TOPICS = {
    "orders": PlainTopic("orders", 4, 0),
    "multi": PlainTopic("multi", 4, flags.MULTI_TAGS),
    "ü": PlainTopic("ü", 4, 0),
}


def new_cut(most: int = 100, bytes_max: int = 4096) -> Cut:
    return Cut(
        suffix=b"R\x01r\x02", born_host=THERE, store_host=HERE, most=most, bytes_max=bytes_max
    )


def cut_with(
    functions: kernels.Functions, data: bytes | bytearray, cut: Cut | None = None, at: int = 0
) -> tuple[int, Cut]:
    cut = cut or new_cut()
    return functions["cut_sends"](data, at, cut, TOPICS.get, Meanings()), cut


def send(number: int = 0, topic: str = "orders", **fields: object) -> bytes:
    given = {properties.UNIQUE_KEY: f"U{number}", properties.TAGS: "paid", "KEYS": f"o-{number}"}
    made: SendMessageV2 = header(topic, **{"properties": given, "queue_id": number % 4, **fields})
    return frame(made, b"body %d" % number, number)


def test_sends_become_records(implementation: kernels.Functions) -> None:
    data = send(1, flag=7, sys_flag=1, reconsume_times=2, born_timestamp=5) + send(2, "multi")
    at, cut = cut_with(implementation, data)
    assert at == len(data)
    assert cut.opaques == [1, 2]
    one, other = cut.records
    assert (one.topic, one.queue_id, one.unique_key, one.keys) == ("orders", 1, b"U1", b"o-1")
    assert (one.tags, one.tags_code, one.flag, one.sys_flag) == (b"paid", 3433164, 7, 1)
    assert (one.reconsume_times, one.born_timestamp_ms, one.messages) == (2, 5, 1)
    assert (one.born_host, one.store_host) == (THERE, HERE)
    assert bytes(one.body) == b"body 1"
    assert one.properties.endswith(b"\x02R\x01r\x02")
    assert (other.topic, other.sys_flag, other.size) == ("multi", flags.MULTI_TAGS, 0)


def test_the_first_other_frame_ends_it(implementation: kernels.Functions) -> None:
    for other in (
        send(1, "unknown"),
        send(1, queue_id=4),
        send(1, queue_id=-1),
        send(1, sys_flag=flags.TRANSACTION_PREPARED),
        send(1, batch=True),
        send(1, properties={}),
        send(1, properties={properties.UNIQUE_KEY: "U", properties.DELAY: "3"}),
        frame(header("orders"), bytes(5000), 1),
        send(1)[:-1],
        b"\xff" * 50,
        b"\x00\x00",
        b"\x00\x00\x00\x03\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\xff\xff{}{}",
    ):
        for data in (send(0) + other, bytearray(send(0) + other)):
            at, cut = cut_with(implementation, data)
            assert (at, cut.opaques) == (len(send(0)), [0])


def test_it_takes_as_many_as_it_may_and_begins_where_it_should(
    implementation: kernels.Functions,
) -> None:
    data = b"xyz" + send(0) + send(1) + send(2)
    at, cut = cut_with(implementation, data, new_cut(most=2), at=3)
    assert (at, cut.opaques) == (len(data) - len(send(2)), [0, 1])
    assert cut_with(implementation, data, new_cut(most=0), at=3)[0] == 3
    assert cut_with(implementation, data, at=len(data))[0] == len(data)
    assert cut_with(implementation, data, at=10 * len(data))[0] == 10 * len(data)


VALUES = [
    *(b'"4"', b"4", b'"-4"', b'"04"', b'"4.0"', b"4.0", b'"4e0"', b'""', b'" 4"', b"null", b"true"),
    *(b'"true"', b'"false"', b'"TRUE"', b"false", b'"1"', b"{}", b"[]", b'{"a":"b"}', b'"\\u0041"'),
    *(
        b'"99999999999"',
        b'"9999999999999999999"',
        b"-0",
        b'"-0"',
        b'"\xc3\xbc"',
        b'"\xff"',
        b'"\\n"',
    ),
    *(b'"orders"', b'"multi"', b'"UNIQ_KEY\\u0001U1\\u0002"', b'"UNIQ_KEY\\u0001U1"', b'"\x01"'),
    *(b'"UNIQ_KEY\\u0001a\\u0002TAGS\\u0001\xc3\xbc\\u0002KEYS\\u0001\xf0\x9f\x98\x80 x"',),
    *(b'"UNIQ_KEY\\u0001a\\u0002XKEYS\\u0001b"', b'"XUNIQ_KEY\\u0001a"', b'"\\u0002\\u0002"'),
    *(b'"UNIQ_KEY\\u0001a\\u0002KEYS\\u0001b\\u0001c"', b'"UNIQ_KEY\\u0001-\\u0002"', b'"\\ud800"'),
    *(
        b'"UNIQ_KEY\\u0001\xed\xa0\x80\\u0002"',
        b'"UNIQ_KEY\\u0001a\\u0002t\\u0001\\"\\u0002"',
        b'"',
    ),
]
NAMES = [*b"abcdefghijklmn"]
HEAD = ["code", "opaque", "flag", "version", "language", "remark"]
RPC = ["ns", "nsd", "bname", "oway", "lo"]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Return a send whose header may have been changed in all kinds of ways."""
    whole = send(draw(st.integers(0, 9)), draw(st.sampled_from([*TOPICS])))
    size = int.from_bytes(whole[4:8])
    head, body = whole[8 : 8 + size], whole[8 + size :]
    kind = draw(st.sampled_from(["whole", "whole", "value", "value", "more", "blanks", "bytes"]))
    value = draw(st.sampled_from(VALUES))
    if kind == "value":
        name = draw(st.sampled_from([*HEAD, *map(chr, NAMES)]))
        pattern = rb'"%b":("(?:[^"\\]|\\.)*"|[^,}]*)' % name.encode()
        head = re.sub(pattern, lambda _: b'"%b":%b' % (name.encode(), value), head, count=1)
    elif kind == "more":
        name = draw(st.sampled_from([*HEAD, *RPC, "z", "\\u0061", "extFields", "m"]))
        after = draw(st.sampled_from([b'"extFields":{', b"{"]))
        head = head.replace(after, after + b'"%b":%b,' % (name.encode(), value), 1)
    elif kind == "blanks":
        mark = draw(st.sampled_from([b",", b":", b"{", b"}"]))
        head = head.replace(mark, draw(st.sampled_from([b" ", b"\t\r\n", b"\v", b","])) + mark)
    elif kind == "bytes":
        at = draw(st.integers(0, len(head) - 1))
        head = head[:at] + draw(st.binary(max_size=2)) + head[at + draw(st.integers(0, 3)) :]
    head += draw(st.sampled_from([b"", b"", b"", b" ", b"}", b"\x00"]))
    return (4 + len(head) + len(body)).to_bytes(4) + len(head).to_bytes(4) + head + body


@kernels.needs_kernel
@given(st.lists(frames(), max_size=4), st.integers(0, 3), st.booleans())
def test_the_kernel_cuts_leading_sends_as_python_does(
    sends: list[bytes], lost: int, growing: bool
) -> None:
    data: bytes | bytearray = b"".join(sends)
    data = data[: len(data) - lost]
    if growing:
        data = bytearray(data)
    at, found = cut_with(kernels.in_kernel(), data)
    cut_with(kernels.in_python(), data[:at], expected := new_cut())
    assert (found.opaques, found.records) == (expected.opaques, expected.records)
    # What Python goes on with is all that Python alone would have taken.
    end, found = cut_with(kernels.in_python(), data, found, at)
    alone, expected = cut_with(kernels.in_python(), data)
    assert (end, found.opaques, found.records) == (alone, expected.opaques, expected.records)


@kernels.needs_kernel
@given(st.binary(max_size=64), st.integers(0, 80))
def test_the_kernel_survives_any_bytes(data: bytes, at: int) -> None:
    assert cut_with(kernels.in_kernel(), data, at=at)[0] == at


@kernels.needs_kernel
def test_the_kernel_takes_what_clients_write() -> None:
    closed = send(0)
    text = b'"i":"UNIQ_KEY\\u0001U\\u0002TAGS\\u0001d\xc3\xa9j\xc3\xa0"'  # as before 5.0
    head = re.sub(rb'"i":"[^"]*"', lambda _: text, closed[8:-6])
    open_ended = (4 + len(head) + 6).to_bytes(4) + len(head).to_bytes(4) + head + closed[-6:]
    at, cut = cut_with(kernels.in_kernel(), closed + open_ended)
    assert at == len(closed + open_ended)
    assert cut.records[1].tags == "déjà".encode()
