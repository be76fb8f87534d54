"""What leaves for a message: properties, flags, headers, batches."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.sending.packing import Packer, in_batches
from orbitmq.client.settings import ClientSettings, ProducerSettings
from orbitmq.errors import InvalidInput, MessageTooLarge
from orbitmq.message import batch, flags, properties
from orbitmq.message.compression import CompressionType, decompress
from orbitmq.message.ids import UniqueIds
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.codes import RequestCode

QUEUE = MessageQueue("orders", "broker-a", 3)


class Noon:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def packer(client: ClientSettings | None = None, **settings: object) -> Packer:
    ids = UniqueIds(
        b"\x7f\0\0\1",
        pid=1234,
        discriminator=0x18B4AAC2,
        clock=Noon(),
        month_of=lambda _at_ms: (1_698_796_800_000, 1_701_388_800_000),
    )
    made = ProducerSettings("billing", **settings)  # type: ignore[arg-type]
    return Packer(made, client or ClientSettings(), ids)


def told(text: str) -> dict[str, str]:
    return properties.decode(text.encode())


# One message


def test_a_message_travels_with_its_unique_id_and_stays_as_it_is() -> None:
    message = Message("orders", b"paid")
    prepared = packer().pack(message)
    assert prepared.send_id == "7F00000104D218B4AAC247B760000000"
    assert told(prepared.properties) == {"UNIQ_KEY": prepared.send_id, "WAIT": "true"}
    assert (prepared.body, prepared.sys_flag, prepared.code) == (
        b"paid",
        0,
        RequestCode.SEND_MESSAGE_V2,
    )
    assert message == Message("orders", b"paid")


@given(
    st.builds(
        Message,
        st.just("orders"),
        st.just(b"paid"),
        tags=st.none() | st.sampled_from(["paid", "späte"]),
        keys=st.lists(st.sampled_from(["o-42", "ö"]), max_size=3),
        properties=st.dictionaries(
            st.sampled_from(["a", "farbe"]), st.sampled_from(["1", "blau è"])
        ),
        sharding_key=st.none() | st.just("k"),
        delay_level=st.integers(0, 18),
        priority=st.none() | st.integers(0, 5),
        wait_stored=st.booleans(),
        check_immunity_s=st.none() | st.just(6),
        message_id=st.none() | st.just("MINE"),
    )
)
def test_the_text_says_what_the_message_does(message: Message) -> None:
    prepared = packer().pack(message)
    expected = {**message.wire_properties(), "UNIQ_KEY": prepared.send_id}
    assert told(prepared.properties) == expected
    assert prepared.send_id == (message.message_id or "7F00000104D218B4AAC247B760000000")


def test_timers_travel_as_properties() -> None:
    later = Message("orders", b"x", delay=timedelta(seconds=3))
    then = Message("orders", b"x", deliver_at=datetime(2030, 1, 1, tzinfo=UTC))
    assert told(packer().pack(later).properties)["TIMER_DELAY_MS"] == "3000"
    assert told(packer().pack(then).properties)["TIMER_DELIVER_MS"] == "1893456000000"


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(MessageTooLarge) as caught:
        packer(max_message_bytes=10).pack(Message("orders", b"x" * 11))
    assert (caught.value.length, caught.value.limit) == (11, 10)


def test_properties_over_the_limit_are_refused() -> None:
    for value in ("x" * 32_767, "€" * 10_922):
        with pytest.raises(MessageTooLarge, match="the limit is 32767"):
            packer().pack(Message("orders", b"x", properties={"long": value}))
    packer().pack(Message("orders", b"x", properties={"long": "x" * 32_000}))


def test_marks_make_half_messages_replies_and_retries() -> None:
    message = Message("orders", b"x")
    half = packer().pack(message, {properties.TRANSACTION_PREPARED: "true"})
    assert half.sys_flag == flags.TRANSACTION_PREPARED
    assert told(half.properties)["TRAN_MSG"] == "true"
    reply = packer().pack(message, {properties.MESSAGE_TYPE: "reply"})
    assert reply.code == RequestCode.SEND_REPLY_MESSAGE_V2
    marks = {properties.RECONSUME_TIME: "3", properties.MAX_RECONSUME_TIMES: "16"}
    retried = packer().pack(Message("%RETRY%billing", b"x"), marks)
    header = packer().headers_for(QUEUE).fill(retried, 0).to_texts()
    assert (header["j"], header["l"]) == ("3", "16")
    plain = packer().pack(message, marks)  # the rule is for retry topics alone
    assert packer().headers_for(QUEUE).fill(plain, 0).to_texts()["j"] == "0"


def test_a_parcel_shows_no_body() -> None:
    assert "secret" not in repr(packer().pack(Message("orders", b"secret")))


# Compression


@pytest.mark.parametrize("kind", CompressionType)
def test_large_bodies_are_compressed(kind: CompressionType) -> None:
    body = b"spam" * 1_024
    made = packer(compression_type=kind)
    prepared = made.pack(Message("orders", body))
    assert made.wants_compression(prepared)
    smaller = made.compressed(prepared)
    assert smaller.sys_flag == kind.sys_flag
    assert decompress(smaller.body, kind) == body
    assert not made.wants_compression(made.pack(Message("orders", body[:-1])))


def test_a_body_that_would_grow_stays_as_it_is() -> None:
    made = packer(compress_over_bytes=1)
    prepared = made.pack(Message("orders", b"x"))
    assert made.compressed(prepared) is prepared


# Headers


def test_the_short_header_has_all_that_java_sends() -> None:
    made = packer()
    header = made.headers_for(QUEUE).fill(
        made.pack(Message("orders", b"x", flag=7)), 1_700_000_000_000
    )
    texts = header.to_texts()
    assert told(texts.pop("i")).keys() == {"UNIQ_KEY", "WAIT"}
    assert texts == {
        "a": "billing",
        "b": "orders",
        "c": "TBW102",
        "d": "4",
        "e": "3",
        "f": "0",
        "g": "1700000000000",
        "h": "7",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }


def test_the_long_header_is_for_old_brokers() -> None:
    made = packer(short_header=False)
    prepared = made.pack(Message("orders", b"x"))
    texts = made.headers_for(QUEUE).fill(prepared, 5).to_texts()
    assert prepared.code == RequestCode.SEND_MESSAGE
    assert (texts["producerGroup"], texts["queueId"], texts["bornTimestamp"]) == (
        "billing",
        "3",
        "5",
    )
    assert "n" not in texts


def test_both_namespaces_and_the_unit_reach_the_header() -> None:
    first = packer(ClientSettings(namespace="ns", unit_mode=True))
    prepared = first.pack(Message("orders", b"x"))
    texts = first.headers_for(QUEUE).fill(prepared, 0).to_texts()
    assert (texts["a"], texts["b"], texts["k"]) == ("ns%billing", "ns%orders", "true")
    assert told(prepared.properties)["INSTANCE_ID"] == "ns"
    second = packer(ClientSettings(namespace_v2="eu"))
    texts = second.headers_for(QUEUE).fill(second.pack(Message("orders", b"x")), 0).to_texts()
    assert (texts["b"], texts["ns"], texts["nsd"]) == ("orders", "eu", "true")


def test_a_static_queue_names_the_broker_that_leads_it() -> None:
    made = packer()
    texts = (
        made.headers_for(QUEUE, "broker-z").fill(made.pack(Message("orders", b"x")), 0).to_texts()
    )
    assert texts["n"] == "broker-z"


# Batches


def test_a_batch_holds_its_messages_and_says_so() -> None:
    made = packer()
    messages = [Message("orders", b"one", tags="a", flag=1), Message("orders", b"two")]
    prepared = made.pack_batch(messages)
    parts = list(batch.split(prepared.body))
    assert [bytes(part.body) for part in parts] == [b"one", b"two"]
    assert [part.flag for part in parts] == [1, 0]
    ids = [properties.decode(bytes(part.properties))["UNIQ_KEY"] for part in parts]
    assert tuple(ids) == prepared.message_ids
    assert prepared.send_id not in ids
    texts = made.headers_for(QUEUE).fill(prepared, 0).to_texts()
    assert (texts["m"], prepared.code) == ("true", RequestCode.SEND_BATCH_MESSAGE)
    assert not packer(compress_over_bytes=1).wants_compression(prepared)


@pytest.mark.parametrize(
    ("release", "is_told"), [(0, False), (407, False), (479, False), (493, True)]
)
def test_the_id_of_a_batch_is_told_to_brokers_that_can_take_it(release: int, is_told: bool) -> None:
    made = packer()
    prepared = made.pack_batch([Message("orders", b"one"), Message("orders", b"two")])
    texts = made.headers_for(QUEUE).fill(prepared, 0, release).to_texts()
    told = properties.decode(texts["i"].encode())
    assert told.get("UNIQ_KEY") == (prepared.send_id if is_told else None)
    assert told["WAIT"] == "true"
    alone = made.headers_for(QUEUE).fill(made.pack(Message("orders", b"x")), 0, release).to_texts()
    assert alone["i"].count("UNIQ_KEY") == 1


@pytest.mark.parametrize(
    "other",
    [
        Message("bills", b"x"),
        Message("orders", b"x", wait_stored=False),
        Message("orders", b"x", delay_level=1),
        Message("orders", b"x", delay=timedelta(seconds=1)),
    ],
    ids=["topic", "wait", "level", "timer"],
)
def test_what_can_t_be_in_a_batch_is_refused(other: Message) -> None:
    with pytest.raises(InvalidInput):
        packer().pack_batch([Message("orders", b"x"), other])


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no messages"):
        packer().pack_batch([])


def test_a_batch_over_the_limit_is_refused() -> None:
    with pytest.raises(MessageTooLarge):
        packer(max_message_bytes=100).pack_batch([Message("orders", b"x" * 60)] * 2)


SOME = st.builds(
    Message,
    st.sampled_from(["orders", "bills", "%RETRY%g"]),
    st.binary(min_size=1, max_size=2_000),
    wait_stored=st.booleans(),
    delay_level=st.sampled_from([0, 0, 0, 1]),
    properties=st.sampled_from([{}, {"farbe": "blau" * 50}]),
)


@given(st.lists(st.tuples(SOME, st.sampled_from([None, 0, 1])), max_size=30))
def test_frames_hold_every_message_once_and_in_order(
    given_messages: list[tuple[Message, int | None]],
) -> None:
    messages = [message for message, _ in given_messages]
    places = [place for _, place in given_messages]
    frames = in_batches(messages, 8_192, places)
    assert sorted(index for frame in frames for index in frame) == list(range(len(messages)))
    made = packer(max_message_bytes=8_192)
    for frame in frames:
        assert frame == sorted(frame)
        assert len({places[index] for index in frame}) == 1
        if len(frame) > 1:  # what is put together can be sent together
            made.pack_batch([messages[index] for index in frame])
    first_of = [frame[0] for frame in frames]
    for place in (None, 0, 1):
        for topic in ("orders", "bills"):
            alike = [
                index
                for frame in frames
                for index in frame
                if (messages[index].topic, messages[index].wait_stored, places[index])
                == (topic, True, place)
            ]
            assert alike == sorted(alike)
    assert len(first_of) == len(frames)


# A batch in one pass, against one message at a time

TEXT = st.text("aß€ ", min_size=1, max_size=9).map(lambda text: f"x{text}x")
WORD = st.text("aß€", min_size=1, max_size=9)
VARIED = st.builds(
    Message,
    st.just("orders"),
    st.binary(min_size=1, max_size=200),
    tags=st.none() | WORD,
    keys=st.just(()) | st.lists(WORD, max_size=3),
    properties=st.just({}) | st.dictionaries(TEXT, TEXT, max_size=3),
    flag=st.integers(-(2**31), 2**31 - 1),
    sharding_key=st.none() | TEXT,
    priority=st.none() | st.integers(0, 9),
    check_immunity_s=st.none() | st.integers(0, 9),
    message_id=st.none() | WORD,
)


@given(st.lists(VARIED, min_size=1, max_size=20), st.booleans(), st.sampled_from(["", "ns"]))
def test_a_batch_has_the_bytes_that_each_message_has_alone(
    messages: list[Message], waits: bool, namespace: str
) -> None:
    messages = [message.replace(wait_stored=waits) for message in messages]
    made = packer(ClientSettings(namespace=namespace))
    for _ in range(2):  # what one batch remembers, the next one uses
        prepared = made.pack_batch(messages)
        alone = zip(messages, prepared.message_ids, strict=True)
        assert prepared.body == batch.encode(
            (one.flag, one.body, made.properties_text(one, one_id).encode())
            for one, one_id in alone
        )
        own = [one.message_id for one in messages]
        assert all(
            mine in (None, sent) for mine, sent in zip(own, prepared.message_ids, strict=True)
        )
        made_here = {sent for mine, sent in zip(own, prepared.message_ids, strict=True) if not mine}
        assert len(made_here) == own.count(None)


@pytest.mark.parametrize("plain", [{}, {"sharding_key": "k"}], ids=["plain", "special"])
def test_properties_in_a_batch_have_the_same_limit(plain: dict[str, str]) -> None:
    def with_note(size: int) -> Message:
        return Message("orders", b"x", properties={"note": "x" * size}, **plain)  # type: ignore[arg-type]

    made = packer()
    most = 1 + 32_767 - len(made.properties_text(with_note(1), "0" * 32))
    made.pack_batch([with_note(most)])
    with pytest.raises(MessageTooLarge, match="the limit is 32767"):
        made.pack_batch([with_note(most + 1)])


def test_the_tags_that_are_remembered_have_a_bound() -> None:
    made = packer()
    for number in range(1_100):
        made.pack_batch([Message("orders", b"x", tags=f"t{number}")])
    assert len(made._endings[True]) <= 1_024


def frames_one_by_one(
    messages: list[Message], limit: int, places: list[int | None]
) -> list[list[int]]:
    """Return what ``in_batches`` returns, by its rules alone."""
    found: list[list[int]] = []
    open_batches: dict[object, tuple[list[int], int]] = {}
    for index, message in enumerate(messages):
        key = (message.topic, message.wait_stored, places[index])
        delayed = message.delay_level or message.delay is not None
        texts = [message.tags or "", message.sharding_key or "", message.message_id or ""]
        characters = sum(map(len, texts)) + 3 + sum(len(key) + 1 for key in message.keys)
        characters += sum(len(n) + len(v) + 2 for n, v in message.properties.items())
        beyond_body = 4 * characters + len(message.topic) + 400
        if delayed or message.topic.startswith("%RETRY%") or beyond_body > 32_767:
            found.append([index])
            open_batches.pop(key, None)
            continue
        members, used = open_batches.get(key, ([], limit))
        size = len(message.body) + beyond_body
        if used + size > limit:
            members, used = [], 0
            found.append(members)
        members.append(index)
        open_batches[key] = (members, used + size)
    return found


OF_ALL_KINDS = st.builds(
    Message,
    st.sampled_from(["orders", "orders", "orders", "bills", "%RETRY%g"]),
    st.integers(1, 900).map(bytes),
    tags=st.none() | WORD,
    keys=st.just(()) | st.lists(WORD, max_size=2),
    wait_stored=st.sampled_from([True, True, True, False]),
    delay_level=st.sampled_from([0, 0, 0, 1]),
    sharding_key=st.none() | st.just("k"),
    message_id=st.none() | st.just("MINE"),
    properties=st.sampled_from([{}, {"note": "x" * 50}, {"note": "x" * 8_080}]),
)


@given(
    st.lists(st.tuples(OF_ALL_KINDS, st.sampled_from([None, 0, 1])), max_size=30),
    st.integers(400, 6_000),
)
def test_frames_are_made_by_the_rules_for_each_message(
    given_messages: list[tuple[Message, int | None]], limit: int
) -> None:
    messages = [message for message, _ in given_messages]
    places = [place for _, place in given_messages]
    assert in_batches(messages, limit, places) == frames_one_by_one(messages, limit, places)
    anywhere: list[int | None] = [None] * len(messages)
    assert in_batches(messages, limit) == frames_one_by_one(messages, limit, anywhere)
