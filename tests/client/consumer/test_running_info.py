from orbitmq.client.consumer.assignment.strategies import ConsistentHash
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.running_info import properties_of, queue_info
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.running import ProcessQueueInfo
from tests.client.stored import a_stored_message


class Clock:
    """Its monotonic time began a thousand milliseconds after 1970."""

    def now_ms(self) -> int:
        return 9_000

    def monotonic_ms(self) -> int:
        return 8_000


def an_inbox() -> Inbox:
    inbox = Inbox(MessageQueue("orders", "broker-a", 3))
    inbox.put([a_stored_message(at=at, body=bytes(600_000)) for at in (7, 8, 9)])
    inbox.finish(inbox.take(1, 5_000))
    inbox.take(1, 6_000)
    inbox.pulled_ms = 7_000
    return inbox


def test_properties_have_the_names_of_java() -> None:
    settings = ConsumerSettings("billing", concurrency=4, broadcasting=True, consume_from=5)
    found = properties_of(settings)
    assert {name: found[name] for name in found if name.startswith("PROP_")} == {
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CLIENT_VERSION": "V5_4_0",
        "PROP_CONSUMEORDERLY": "false",
        "PROP_THREADPOOL_CORE_SIZE": "4",
    }
    assert (found["messageModel"], found["consumeThreadMin"]) == ("BROADCASTING", "4")
    assert found["consumeFromWhere"] == "CONSUME_FROM_TIMESTAMP"


def test_a_pull_consumer_is_active() -> None:
    found = properties_of(PullConsumerSettings("audit", strategy=ConsistentHash(10)))
    assert found["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert (found["strategy"], found["autoCommit"]) == ("CONSISTENT_HASH", "true")
    assert "PROP_CONSUMEORDERLY" not in found


def test_a_queue_is_described_with_times_since_1970() -> None:
    found = queue_info(an_inbox(), 8, Clock(), is_ordered=True, is_loop=True)
    assert found == ProcessQueueInfo(
        commit_offset=8,
        cached_msg_count=2,
        cached_msg_size_in_mib=1,
        cached_msg_min_offset=8,
        cached_msg_max_offset=9,
        transaction_msg_count=1,
        locked=True,
        last_pull_timestamp=8_000,
        last_consume_timestamp=7_000,
    )


def test_other_threads_read_no_offsets_of_messages() -> None:
    found = queue_info(an_inbox(), None, Clock(), is_ordered=False, is_loop=False)
    assert (found.cached_msg_count, found.commit_offset, found.locked) == (2, -1, False)
    assert (found.cached_msg_min_offset, found.cached_msg_max_offset) == (0, 0)


def test_a_queue_without_messages() -> None:
    inbox = Inbox(MessageQueue("orders", "broker-a", 3))
    inbox.drop()
    found = queue_info(inbox, None, Clock(), is_ordered=False, is_loop=True)
    assert found == ProcessQueueInfo(commit_offset=-1, dropped=True)
