"""Messages and what is in them, ours and Java's, over random cases in both directions."""

import pytest
from msgspec.structs import astuple, replace

from orbitmq.clock import SystemClock, local_month
from orbitmq.message import batch, compression, flags, ids, properties, record, scan, tags
from orbitmq.message.compression import CompressionType
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from tests.interop.cases import CASES, Chance
from tests.interop.java import Java
from tests.interop.operations import (
    BODY_CRC,
    COMPRESS,
    CREATE_OFFSET_ID,
    CREATE_UNIQUE_ID,
    DECODE_BATCH,
    DECODE_STORED,
    DECOMPRESS,
    ENCODE_BATCH,
    ENCODE_STORED,
    READ_OFFSET_ID,
    READ_PROPERTIES,
    READ_UNIQUE_ID,
    TAG_HASH,
    WRITE_PROPERTIES,
    Address,
    Batched,
    Compressed,
    OffsetId,
    Stored,
    UniqueId,
)

LONGEST_OLD_TOPIC = 127
"""Bytes of a topic in the first version of the record, the one 4.9 knows."""

RECORDS_IN_A_BUFFER = 3


def random_stored(chance: Chance, topic: str | None = None) -> Stored:
    """A message as a consumer gets it, but for what follows from its bytes."""
    born, store = chance.address(), chance.address()
    sys_flag = chance.choice((0, flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK))
    sys_flag |= chance.choice((0, flags.MULTI_TAGS))
    sys_flag |= flags.BORN_HOST_IPV6 if len(born.ip) == 16 else 0
    sys_flag |= flags.STORE_HOST_IPV6 if len(store.ip) == 16 else 0
    return Stored(
        topic=chance.text(30) if topic is None else topic,
        body=chance.body(),
        flag=chance.int32(),
        properties=chance.properties(),
        queue_id=chance.int32(),
        queue_offset=chance.int64(),
        physical_offset=chance.int64(),
        sys_flag=sys_flag | chance.choice((0, *(kind.sys_flag for kind in CompressionType))),
        born_timestamp_ms=chance.int64(),
        born_host=born,
        store_timestamp_ms=chance.int64(),
        store_host=store,
        reconsume_times=chance.int32(),
        prepared_offset=chance.int64(),
        body_crc=chance.int32(),
    )


def our_record(message: Stored) -> bytes:
    """Encode a message with our codec; a body marked as compressed is given plain."""
    body = message.body or b""
    if message.sys_flag & flags.COMPRESSED:
        body = compression.compress(body, CompressionType.of(message.sys_flag))
    made = record.Record(
        topic=message.topic.encode(),
        body=body,
        properties=properties.encode(message.properties),
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        commit_log_offset=message.physical_offset,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=Host(*astuple(message.born_host)),
        store_timestamp_ms=message.store_timestamp_ms,
        store_host=Host(*astuple(message.store_host)),
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_offset,
        body_crc=message.body_crc,
    )
    return bytes(record.encode(made))


def in_java_words(message: StoredMessage) -> Stored:
    """What a message of ours says, in the words Java's side uses."""
    return Stored(
        topic=message.topic,
        body=message.body,
        flag=message.flag,
        properties=dict(message.properties),
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.commit_log_offset,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=Address(*message.born_host),
        store_timestamp_ms=message.store_timestamp_ms,
        store_host=Address(*message.store_host),
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_transaction_offset,
        body_crc=message.body_crc,
        size=message.store_size,
        message_id=message.message_id,
    )


def once_read(message: Stored, encoded: bytes) -> Stored:
    """What a reader of its record makes of a message: the body opened, size and id known."""
    offset_id = ids.offset_id(Host(*astuple(message.store_host)), message.physical_offset)
    return replace(
        message,
        body=message.body or b"",
        sys_flag=message.sys_flag & ~flags.COMPRESSED,
        size=len(encoded),
        message_id=message.properties.get(properties.UNIQUE_KEY, offset_id),
    )


def without_javas_ways(message: Stored) -> Stored:
    """Java leaves an empty body null, and up to 4.9 marks a body it has opened as compressed."""
    sys_flag = message.sys_flag & ~flags.COMPRESSED
    return replace(message, body=message.body or b"", sys_flag=sys_flag)


def test_java_reads_our_records(java: Java, chance: Chance) -> None:
    for messages in chance.several(lambda: random_stored(chance)):
        encoded = [our_record(message) for message in messages]
        answers = java.ask(DECODE_STORED, encoded)
        for message, bytes_, answer in zip(messages, encoded, answers, strict=True):
            assert [*map(without_javas_ways, answer)] == [once_read(message, bytes_)]


def test_java_reads_our_records_in_a_row(java: Java, chance: Chance) -> None:
    rows = [
        [random_stored(chance) for _ in range(RECORDS_IN_A_BUFFER)]
        for _ in range(CASES // RECORDS_IN_A_BUFFER)
    ]
    answers = java.ask(DECODE_STORED, [b"".join(map(our_record, row)) for row in rows])
    for row, answer in zip(rows, answers, strict=True):
        assert [one.queue_offset for one in answer] == [one.queue_offset for one in row]


def test_5_4_0_reads_our_long_topics(java_540: Java, chance: Chance) -> None:
    sizes = (LONGEST_OLD_TOPIC, LONGEST_OLD_TOPIC + 1, 255, 256, 32767)
    messages = [random_stored(chance, topic="t" * size) for size in sizes]
    answers = java_540.ask(DECODE_STORED, [our_record(message) for message in messages])
    assert [len(one.topic) for (one,) in answers] == list(sizes)


def test_we_read_records_of_java(java: Java, chance: Chance) -> None:
    for messages in chance.several(lambda: random_stored(chance)):
        answers = java.ask(ENCODE_STORED, messages)
        for message, encoded in zip(messages, answers, strict=True):
            (read,) = scan.decode_all(encoded)
            assert in_java_words(read) == once_read(message, encoded)


def test_body_checksums_agree(java: Java, chance: Chance) -> None:
    host = Host(bytes(4), 0)
    for bodies in chance.several(chance.body):
        for body, crc in zip(bodies, java.ask(BODY_CRC, bodies), strict=True):
            made = record.Record(
                topic=b"t",
                body=body,
                queue_id=0,
                born_timestamp_ms=0,
                born_host=host,
                store_host=host,
            )
            (view,) = scan.Scan(record.encode(made))
            assert view.body_crc == crc


def test_tag_hashes_agree_on_any_text(java: Java, chance: Chance) -> None:
    for texts in chance.several(lambda: chance.text(surrogates=True)):
        hashes = java.ask(TAG_HASH, [text.encode("utf-16-be", "surrogatepass") for text in texts])
        assert hashes == [tags.tags_code(text) for text in texts]


def test_java_reads_our_properties(java: Java, chance: Chance) -> None:
    for sets in chance.several(chance.properties):
        assert java.ask(READ_PROPERTIES, [properties.encode(one).decode() for one in sets]) == sets


def test_we_read_properties_of_java(java: Java, chance: Chance) -> None:
    for sets in chance.several(chance.properties):
        for one, text in zip(sets, java.ask(WRITE_PROPERTIES, sets), strict=True):
            assert properties.decode(text.encode()) == one


def test_any_property_text_is_read_alike(java: Java, chance: Chance) -> None:
    def random_text() -> str:
        return "".join(chance.choices("ab\1\2", k=chance.randrange(20)))

    for texts in chance.several(random_text):
        for text, read in zip(texts, java.ask(READ_PROPERTIES, texts), strict=True):
            assert properties.decode(text.encode()) == read, ascii(text)


def random_batch(chance: Chance) -> list[Batched]:
    return [
        Batched(chance.int32(), chance.body(100), chance.properties())
        for _ in range(chance.randint(1, 4))
    ]


def test_java_reads_our_batches(java: Java, chance: Chance) -> None:
    for batches in chance.several(lambda: random_batch(chance), CASES // 2):
        encoded = [
            batch.encode((one.flag, one.body, properties.encode(one.properties)) for one in each)
            for each in batches
        ]
        assert java.ask(DECODE_BATCH, encoded) == batches


def test_we_read_batches_of_java(java: Java, chance: Chance) -> None:
    for batches in chance.several(lambda: random_batch(chance), CASES // 2):
        for each, encoded in zip(batches, java.ask(ENCODE_BATCH, batches), strict=True):
            assert each == [
                Batched(one.flag, bytes(one.body), properties.decode(bytes(one.properties)))
                for one in batch.split(encoded)
            ]


def test_offset_ids_agree(java: Java, chance: Chance) -> None:
    for places in chance.several(lambda: OffsetId(chance.address(), chance.int64())):
        texts = [
            ids.offset_id(Host(*astuple(place.host)), place.physical_offset) for place in places
        ]
        assert java.ask(CREATE_OFFSET_ID, places) == texts
        assert java.ask(READ_OFFSET_ID, texts) == places
        read = [ids.parse_offset_id(text) for text in texts]
        assert [OffsetId(Address(*host), offset) for host, offset in read] == places


def test_java_reads_our_unique_ids(java: Java, chance: Chance) -> None:
    # Java dates an id of this very millisecond one month back, so these are a second old.
    made_ms = SystemClock().now_ms() - 1_000
    for ip, shown in (b"\x0a\x00\x00\x07", "10.0.0.7"), (b"\xfd" + bytes(15), "fd00" + ":0000" * 7):
        maker = ids.UniqueIds(ip, 70_000, chance.int32(), StoppedClock(made_ms), local_month)
        for read in java.ask(READ_UNIQUE_ID, [maker.next() for _ in range(100)]):
            assert read == UniqueId(shown, 70_000 & 0xFFFF, made_ms)


class StoppedClock:
    """The time of day, always the same."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


def test_we_read_unique_ids_of_java(java: Java) -> None:
    before_ms = SystemClock().now_ms()
    texts = java.ask(CREATE_UNIQUE_ID, [None] * 100)
    after_ms = SystemClock().now_ms()
    assert len(set(texts)) == len(texts)
    for text, theirs in zip(texts, java.ask(READ_UNIQUE_ID, texts), strict=True):
        ours = ids.parse_unique_id(text)
        assert ours.pid == theirs.pid == java.pid & 0xFFFF
        assert before_ms <= ours.created_ms(after_ms, local_month) <= after_ms


@pytest.mark.parametrize("kind", CompressionType)
def test_java_opens_what_we_compress(java: Java, chance: Chance, kind: CompressionType) -> None:
    for bodies in chance.several(lambda: chance.body(2_000), CASES // 10):
        packed = [
            Compressed(kind.name, compression.compress(body, kind, level=chance.randint(1, 9)))
            for body in bodies
        ]
        assert java.ask(DECOMPRESS, packed) == bodies


@pytest.mark.parametrize("kind", CompressionType)
def test_we_open_what_java_compresses(java: Java, chance: Chance, kind: CompressionType) -> None:
    for bodies in chance.several(lambda: chance.body(2_000), CASES // 10):
        plain = [Compressed(kind.name, body, level=chance.randint(1, 9)) for body in bodies]
        answers = java.ask(COMPRESS, plain)
        assert [compression.decompress(packed, kind) for packed in answers] == bodies
