"""The rows that a store should give, made one by one by plain Python."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from orbitmq.message import batch, flags, properties
from orbitmq.message.ids import offset_id
from orbitmq.message.record_view import RecordView
from orbitmq.store.reader.reader import StoreReader

Row = dict[str, object]
Codes = dict[tuple[str, int, int], int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMITS = datetime(1, 1, 3), datetime(9999, 12, 31)  # noqa: DTZ001
_BOTH = flags.NEED_UNWRAP | flags.INNER_BATCH


def rows_of(reader: StoreReader, views: Iterable[RecordView]) -> list[Row]:
    """Return the rows of records; those of an inner batch are several."""
    codes = tag_codes(reader)
    return [row for view in views for row in _rows(view, codes)]


def tag_codes(reader: StoreReader) -> Codes:
    """Return what the queues have, by topic, queue and log offset."""
    return {
        (*name, entry.commit_log_offset): entry.tags_code
        for name in reader.queues()
        for _, entry in reader.queue(*name).written()
    }


def _rows(view: RecordView, codes: Codes) -> Iterator[Row]:
    message = view.message()
    whole: Row = {
        "topic": message.topic,
        "broker": None,
        "queue_id": message.queue_id,
        "timestamp": _time(message.store_timestamp_ms),
        "born_timestamp": _time(message.born_timestamp_ms),
        "offset_message_id": offset_id(view.store_host, view.commit_log_offset),
        "reconsume_times": message.reconsume_times,
        "body_crc": view.body_crc,
        "physical_offset": view.commit_log_offset,
        "sys_flag": view.sys_flag,
        "queue_tag_code": codes.get((message.topic, message.queue_id, view.commit_log_offset)),
    }
    if view.sys_flag & _BOTH != _BOTH:
        given = dict(message.properties)
        yield whole | _own(message.body, given, message.flag, message.queue_offset, whole)
        return
    for offset, part in enumerate(batch.split(message.body), message.queue_offset):
        given = dict(properties.decode(bytes(part.properties)))
        own = _own(bytes(part.body), given, part.flag, offset, whole)
        yield whole | own | {"body_crc": 0}


def _own(body: bytes, given: dict[str, str], flag: int, offset: int, whole: Row) -> Row:
    return {
        "key": given.get("KEYS"),
        "value": body,
        "tags": given.get("TAGS"),
        "message_id": given.get("UNIQ_KEY", whole["offset_message_id"]),
        "properties": sorted(given.items()),
        "flag": flag,
        "queue_offset": offset,
    }


def _time(ms: int) -> datetime:
    """Return a time as Python can show it; a flipped bit may make it any."""
    least, most = (_at.replace(tzinfo=UTC) - _EPOCH for _at in _LIMITS)
    return _EPOCH + min(max(timedelta(milliseconds=ms), least), most)
