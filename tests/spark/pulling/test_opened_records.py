import zlib

import pytest

from orbitmq.errors import CompressionFailed, CorruptRecord
from orbitmq.message import batch, flags
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import split_inner
from orbitmq.spark.pulling.opened_records import plain_records
from tests.spark.records import HERE_IPV6, compressed, record

INNER = flags.NEED_UNWRAP | flags.INNER_BATCH


def view_of(raw: bytes) -> RecordView:
    return RecordView(memoryview(raw), 0, len(raw))


def made_plain(raw: bytes) -> list[RecordView]:
    found = list(plain_records(view_of(raw)))
    views = [view_of(one) for _, one in found]
    assert [view.queue_offset for view in views] == [offset for offset, _ in found]
    return views


def test_a_compressed_body_is_opened_and_all_else_stays() -> None:
    raw = compressed(5, b"pizza " * 1000)
    (plain,) = made_plain(raw)
    before, after = view_of(raw), plain.message()
    assert plain.body == b"pizza " * 1000
    assert not plain.sys_flag & flags.COMPRESSED
    assert plain.body_crc == before.body_crc
    assert after.body == before.message().body
    assert (after.properties, after.topic) == (before.message().properties, "orders")


def test_a_plain_record_stays_as_it_is() -> None:
    raw = record(5, b"x", {"TAGS": "paid"}, store_host=HERE_IPV6)
    assert [one for _, one in plain_records(view_of(raw))] == [raw]


@pytest.mark.parametrize("squeeze", [False, True])
def test_an_inner_batch_is_split_as_everywhere(squeeze: bool) -> None:
    body = batch.encode([(1, b"one", b"TAGS\x01a\x02"), (2, b"two", b""), (3, b"", b"K\x01v\x02")])
    sys_flag = INNER
    if squeeze:
        body, sys_flag = zlib.compress(body), INNER | flags.COMPRESSED
    raw = record(40, body, {"X": "outer"}, sys_flag=sys_flag, born_host=HERE_IPV6)
    expected = split_inner(view_of(raw).message())
    found = [view.message() for view in made_plain(raw)]
    for part, same in zip(found, expected, strict=True):
        assert (part.queue_offset, part.flag, part.body) == (
            same.queue_offset,
            same.flag,
            same.body,
        )
        assert part.properties == same.properties
        assert part.commit_log_offset == same.commit_log_offset
        assert (part.born_host, part.body_crc) == (HERE_IPV6, 0)


def test_an_inner_batch_without_messages_is_no_batch() -> None:
    with pytest.raises(CorruptRecord, match="inner batch without a body"):
        list(plain_records(view_of(record(1, b"", sys_flag=INNER))))


def test_a_body_that_cannot_be_opened_is_an_error() -> None:
    raw = record(1, b"no zlib", sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB)
    with pytest.raises(CompressionFailed, match="not a ZLIB stream"):
        list(plain_records(view_of(raw)))
