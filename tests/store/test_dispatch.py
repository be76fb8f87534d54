import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message import flags, properties, record
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import java_hash, tags_code
from orbitmq.store.dispatch import SCHEDULE_TOPIC, Dispatched, Dispatcher
from tests.store.logs import HERE, NOW

LEVELS = (1_000, 5_000, 10_000)


def dispatched(topic: str = "orders", text: bytes = b"", sys_flag: int = 0) -> list[Dispatched]:
    encoded = record.encode(
        record.Record(
            topic=topic.encode(), body=b"x", properties=text, queue_id=3, queue_offset=7,
            commit_log_offset=4711, sys_flag=sys_flag, born_timestamp_ms=NOW, born_host=HERE,
            store_host=HERE, store_timestamp_ms=NOW,
        )
    )  # fmt: skip
    view = RecordView(memoryview(encoded), 0, len(encoded))
    return Dispatcher(LEVELS).entries(view)


def test_a_record_means_one_entry() -> None:
    text = b"TAGS\x01paid\x02KEYS\x01o-42 o-43\x02UNIQ_KEY\x01ABC\x02"
    (entry,) = dispatched(text=text)
    assert (entry.topic, entry.queue_id, entry.queue_offset) == ("orders", 3, 7)
    assert (entry.commit_log_offset, entry.store_timestamp_ms) == (4711, NOW)
    assert entry.tags_code == java_hash("paid")
    assert (entry.unique_key, entry.keys, entry.tags) == (b"ABC", b"o-42 o-43", b"paid")


def test_a_record_without_properties_has_the_hash_zero() -> None:
    (entry,) = dispatched()
    assert (entry.tags_code, entry.unique_key, entry.keys, entry.tags) == (0, None, b"", None)


@pytest.mark.parametrize(
    ("level", "delay_ms"),
    [(b"1", 1_000), (b"3", 10_000), (b"18", 10_000), (b"0", 1_000), (b"x", 1_000)],
)
def test_a_delayed_record_is_filed_under_its_time(level: bytes, delay_ms: int) -> None:
    (entry,) = dispatched(SCHEDULE_TOPIC, b"DELAY\x01" + level + b"\x02TAGS\x01paid\x02")
    assert entry.tags_code == NOW + delay_ms


def test_a_delivered_record_still_has_its_level_and_is_filed_under_its_tags() -> None:
    (entry,) = dispatched("orders", b"DELAY\x013\x02TAGS\x01paid\x02")
    assert entry.tags_code == java_hash("paid")


@pytest.mark.parametrize(
    ("state", "in_queue"),
    [
        (flags.TRANSACTION_NONE, True),
        (flags.TRANSACTION_PREPARED, False),
        (flags.TRANSACTION_COMMIT, True),
        (flags.TRANSACTION_ROLLBACK, False),
    ],
)
def test_consumers_see_what_is_committed(state: int, in_queue: bool) -> None:
    (entry,) = dispatched(sys_flag=state)
    assert entry.in_queue is in_queue


def test_light_queues_get_an_entry_each() -> None:
    text = (
        b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x015,9\x02KEYS\x01k\x02"
    )
    main, first, second = dispatched(text=text)
    assert (first.topic, first.queue_id, first.queue_offset) == ("%LMQ%a", 0, 5)
    assert (second.topic, second.queue_offset) == ("%LMQ%b", 9)
    assert first.commit_log_offset == main.commit_log_offset
    assert (main.keys, first.keys) == (b"k", b"")


@pytest.mark.parametrize("topic", ["%RETRY%g", "orders"])
def test_light_queues_without_their_offsets_get_none(topic: str) -> None:
    assert len(dispatched(topic, b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02")) == 1


@pytest.mark.parametrize("topic", ["%RETRY%g", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
def test_old_offsets_of_what_is_delivered_later_or_again_are_passed_over(topic: str) -> None:
    text = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x015\x02"
    assert [entry.topic for entry in dispatched(topic, text)] == [topic]


def test_a_light_queue_that_could_be_no_directory_is_passed_over() -> None:
    text = b"INNER_MULTI_DISPATCH\x01%LMQ%../a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x015,9\x02"
    assert [entry.topic for entry in dispatched(text=text)] == ["orders", "%LMQ%b"]


@pytest.mark.parametrize("queue", [b"bills", b"%LMQ%" + b"a" * 251, b"%LMQ%a/b"])
def test_only_light_queues_are_dispatched_to(queue: bytes) -> None:
    """A client names them: the queue of another topic would get an offset twice."""
    text = b"INNER_MULTI_DISPATCH\x01" + queue + b"\x02INNER_MULTI_QUEUE_OFFSET\x010\x02"
    assert [entry.topic for entry in dispatched(text=text)] == ["orders"]


def test_an_offset_of_a_light_queue_that_no_file_can_have_is_passed_over() -> None:
    text = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01" + b"9" * 18 + b"\x02"
    assert len(dispatched(text=text)) == 1


PIECES = st.sampled_from(
    [b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"\x01", b"\x02", b"\xff", b"\x01b\x02"]
)


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_any_text_means_what_decoding_all_of_it_says(text: bytes) -> None:
    (entry,) = dispatched(text=text)
    found = properties.decode(text)
    told = {"TAGS": entry.tags, "UNIQ_KEY": entry.unique_key, "KEYS": entry.keys}
    for name, value in told.items():
        assert (value or b"").decode(errors="replace") == found.get(name, "")
    assert entry.tags_code == tags_code(found.get("TAGS"))
