import asyncio
import logging
from typing import Any

import pytest

from orbitmq.broker.clients.members import Members
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.handlers.client.pull import PullHandlers
from orbitmq.broker.pulling.held_pulls import HeldPulls
from orbitmq.broker.pulling.pull_checks import PullChecks
from orbitmq.broker.settings import BrokerRole
from orbitmq.clock import Clock
from orbitmq.message.scan import decode_all
from orbitmq.message.tags import tags_code
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.handlers import Handlers
from orbitmq.net.listener import Listener
from orbitmq.net.refusal import Refusal
from orbitmq.store.serving.pull_reader import GetMessageResult, PullReader
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.pull import (
    COMMIT_OFFSET,
    SUBSCRIPTION,
    SUSPEND,
    PullMessage,
    PullMessageAnswer,
)
from orbitmq.wire.session import Response
from tests.broker.fake_clients import Client, frame
from tests.broker.world import MEMORY_BYTES, World
from tests.store.logs import NOW, incoming


class Scene(World):
    """A topic of one queue, and a broker that serves pulls of it."""

    def __init__(self, *, capacity: int = 10, clock: Clock | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.topics.update([TopicConfig(topic_name="orders", read_queue_nums=1)])
        self.members = Members()
        self.stats = BrokerStats("DefaultCluster", NOW)
        self.held = HeldPulls(capacity)
        self.client = Client()
        self.handlers = PullHandlers(
            settings=self.settings,
            checks=PullChecks(
                settings=self.settings,
                topics=self.topics,
                groups=self.groups,
                members=self.members,
                filters=self.filters,
                own_host=lambda: "10.0.0.9",
            ),
            offsets=self.offsets,
            store=self.store,
            held=self.held,
            stats=self.stats,
            clock=clock or self.clock,
        )
        self.store.on_arrival = self.handlers.arrived

    def pull(self, *, code: int | None = None, **fields: Any) -> Response | None:
        return self.client.ask(self.handlers.table(), pull(**fields), code=code)

    def now(self, **fields: Any) -> tuple[Response, PullMessageAnswer]:
        """Return the answer to a pull that is not held."""
        answer = self.pull(**fields)
        return results(answer)

    def later(self) -> tuple[Response, PullMessageAnswer]:
        """Return the one answer that came to a pull which was held."""
        ((_, answer),) = self.client.answers
        return results(answer)


def pull(**fields: Any) -> PullMessage:
    given = {
        "consumer_group": "billing", "topic": "orders", "queue_id": 0, "queue_offset": 0,
        "max_msg_nums": 32, "sys_flag": SUBSCRIPTION | SUSPEND, "commit_offset": 0,
        "suspend_timeout_millis": 15_000, "sub_version": 0, "subscription": "*",
    }  # fmt: skip
    return PullMessage(**{**given, **fields})


def results(answer: Response | None) -> tuple[Response, PullMessageAnswer]:
    assert answer is not None
    assert isinstance(answer.header, PullMessageAnswer)
    return answer, answer.header


def bodies(answer: Response) -> list[bytes]:
    assert isinstance(answer.body, tuple)
    return [message.body for message in decode_all(b"".join(answer.body))]


# One pull


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_messages_come_from_an_offset_on(code: int) -> None:
    scene = Scene()
    scene.store.append([incoming(b"%d" % number) for number in range(4)])
    answer, header = scene.now(code=code, queue_offset=1, max_msg_nums=2)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert bodies(answer) == [b"1", b"2"]
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (3, 0, 4)
    assert header.suggest_which_broker_id == 0


def test_a_limit_of_bytes_is_kept_but_for_the_first_message() -> None:
    scene = Scene()
    scene.store.append([incoming(bytes(1_000)) for _ in range(3)])
    assert len(bodies(scene.now(max_msg_bytes=2_500)[0])) == 2
    assert len(bodies(scene.now(max_msg_bytes=10)[0])) == 1


def test_only_messages_with_the_tags_come() -> None:
    scene = Scene()
    for tag in ("paid", "late", "paid"):
        scene.store.append([incoming(tag.encode(), properties=f"TAGS\x01{tag}\x02".encode())])
    answer, header = scene.now(subscription="late")
    assert bodies(answer) == [b"late"]
    assert header.next_begin_offset == 3


SQL: Any = {"subscription": "amount > 5", "expression_type": "SQL92"}


def amount(value: object) -> bytes:
    return f"TAGS\x01paid\x02amount\x01{value}\x02".encode()


def test_only_messages_with_the_properties_come() -> None:
    scene = Scene(enable_property_filter=True)
    for value in (5, 6, "many", 7):
        scene.store.append([incoming(str(value).encode(), properties=amount(value))])
    answer, header = scene.now(**SQL)
    assert bodies(answer) == [b"6", b"7"]
    assert header.next_begin_offset == 4
    answer, header = scene.now(**{**SQL, "subscription": "amount > 99"})
    assert (answer.code, answer.remark) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE",
    )  # fmt: skip
    assert header.next_begin_offset == 4


def test_only_a_message_with_the_properties_wakes() -> None:
    scene = Scene(enable_property_filter=True)
    assert scene.pull(**SQL) is None
    scene.store.append([incoming(properties=amount(5))])
    assert scene.client.answers == []
    scene.store.append([incoming(b"six", properties=amount(6))])
    assert bodies(scene.later()[0]) == [b"six"]


def test_a_long_filter_is_not_asked_for_every_message_of_a_held_pull() -> None:
    scene = Scene(enable_property_filter=True)
    expensive = " OR ".join(f"amount = {number}" for number in range(1_000, 2_000))
    assert scene.pull(**{**SQL, "subscription": expensive}) is None
    scene.store.append([incoming(properties=amount(5))])
    answer, header = scene.later()
    assert (answer.code, header.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 1)


def test_where_nothing_matches_the_next_pull_begins_behind() -> None:
    scene = Scene()
    scene.put("orders", count=3)
    answer, header = scene.now(subscription="other")
    assert (answer.code, answer.remark) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        "NO_MATCHED_MESSAGE",
    )
    assert header.next_begin_offset == 3


@pytest.mark.parametrize(
    ("count", "min_offset", "asked", "remark", "corrected"),
    [
        (3, 0, 9, "OFFSET_OVERFLOW_BADLY", 3),
        (3, 2, 1, "OFFSET_TOO_SMALL", 2),
        (0, 0, 9, "NO_MESSAGE_IN_QUEUE", 0),
    ],
)
def test_an_offset_outside_the_queue_is_corrected(
    count: int, min_offset: int, asked: int, remark: str, corrected: int
) -> None:
    scene = Scene()
    scene.put("orders", count=count)
    if queue := scene.store.queues.queue("orders", 0):
        queue.min_offset = min_offset
    answer, header = scene.now(queue_offset=asked)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, remark)
    assert header.next_begin_offset == corrected


def test_a_pull_without_suspend_is_answered_at_once() -> None:
    scene = Scene()
    answer, header = scene.now(sys_flag=SUBSCRIPTION)
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    scene.put("orders")
    answer, header = scene.now(sys_flag=SUBSCRIPTION, queue_offset=1)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
    assert header.next_begin_offset == 1


def test_an_operator_s_reset_is_where_the_next_pull_begins() -> None:
    scene = Scene()
    scene.put("orders", count=5)
    scene.offsets.assign_reset("billing", "orders", 0, 2)
    answer, header = scene.now(queue_offset=4)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (2, 0, 5)
    assert scene.now(queue_offset=2)[0].code == ResponseCode.SUCCESS


def test_the_commit_of_a_pull_does_not_undo_a_reset() -> None:
    scene = Scene()
    scene.put("orders", count=5)
    scene.offsets.assign_reset("billing", "orders", 0, 2)
    before = scene.offsets.query("billing", "orders", 0)
    answer, _ = scene.now(queue_offset=4, sys_flag=SUBSCRIPTION | COMMIT_OFFSET, commit_offset=4)
    assert answer.remark == "OFFSET_RESET"
    assert scene.offsets.query("billing", "orders", 0) == before


def test_a_pull_may_commit_and_tells_how_far_its_group_has_pulled() -> None:
    scene = Scene()
    scene.put("orders", count=5)
    scene.pull(sys_flag=SUBSCRIPTION | COMMIT_OFFSET, commit_offset=3)
    assert scene.offsets.query("billing", "orders", 0) == 3
    assert scene.offsets.query_pull("billing", "orders", 0) == 5
    scene.pull(sys_flag=SUBSCRIPTION, commit_offset=1)
    assert scene.offsets.query("billing", "orders", 0) == 3


def test_far_behind_a_replica_is_suggested_if_it_may_be_read() -> None:
    scene = Scene(slave_read_enable=True)
    scene.groups.update([SubscriptionGroupConfig(group_name="billing", broker_id=3)])
    scene.put("orders")
    assert scene.now()[1].suggest_which_broker_id == 3
    scene.put("bills", count=MEMORY_BYTES // 100)  # the first message leaves what is in memory
    assert scene.now()[1].suggest_which_broker_id == 1


@pytest.mark.parametrize("offset", [0, 9])
def test_a_slave_sets_no_group_back_or_forward(offset: int) -> None:
    scene = Scene(broker_role=BrokerRole.SLAVE, broker_id=1, slave_read_enable=True)
    scene.put("orders", count=5)
    queue = scene.store.queues.queue("orders", 0)
    assert queue is not None
    queue.min_offset = 2  # it has copied the last files of the log alone
    assert scene.pull(queue_offset=offset) is None  # its master may have the message
    scene.put("orders", count=1)
    answer, header = scene.later()
    assert (answer.code, header.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, offset)


def test_an_empty_slave_sets_no_group_back() -> None:
    scene = Scene(broker_role=BrokerRole.SLAVE, broker_id=1, slave_read_enable=True)
    answer, header = scene.now(queue_offset=9, sys_flag=SUBSCRIPTION)
    assert (answer.code, header.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, 9)


def test_answers_have_the_flags_of_topic_and_group() -> None:
    scene = Scene()
    scene.topics.update([TopicConfig(topic_name="orders", topic_sys_flag=2)])
    scene.groups.update([SubscriptionGroupConfig(group_name="billing", group_sys_flag=4)])
    scene.put("orders")
    header = scene.now()[1]
    assert (header.topic_sys_flag, header.group_sys_flag) == (2, 4)


def test_pulls_are_counted() -> None:
    scene = Scene()
    scene.put("orders", count=2)
    scene.pull()
    scene.pull(sys_flag=SUBSCRIPTION, queue_offset=2)
    for second in range(1, 12):
        scene.stats.sample(NOW + second * 1_000)
    item = scene.stats.item("GROUP_GET_NUMS", "orders@billing")
    assert item is not None
    assert item.stats_minute is not None
    assert item.stats_minute.sum == 2


def test_what_may_not_be_pulled_is_refused() -> None:
    with pytest.raises(Refusal, match="topic.nothing. not exist"):
        Scene().pull(topic="nothing")


# Held pulls


def test_a_pull_without_messages_waits_for_one() -> None:
    scene = Scene()
    assert scene.pull() is None
    assert scene.client.answers == []
    scene.put("orders")
    answer, header = scene.later()
    assert (answer.code, header.next_begin_offset) == (ResponseCode.SUCCESS, 1)
    assert len(scene.held) == 0


def test_messages_of_one_turn_come_together() -> None:
    scene = Scene()
    scene.pull()
    scene.put("orders", count=5)
    assert len(bodies(scene.later()[0])) == 5


def test_groups_at_the_same_offset_share_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []
    get_messages = PullReader.get_messages

    def counted(*args: Any, **given: Any) -> GetMessageResult:
        asked.append((given["max_count"], given["wants"] is not None))
        return get_messages(*args, **given)

    scene = Scene()
    for fields in (
        {"consumer_group": "billing"},
        {"consumer_group": "audit"},
        {"consumer_group": "slow", "max_msg_nums": 1},
        {"consumer_group": "picky", "subscription": "paid"},
        {"consumer_group": "fussy", "subscription": "paid"},
    ):
        assert scene.pull(**fields) is None
    monkeypatch.setattr(PullReader, "get_messages", counted)
    scene.store.append([incoming(b"a"), incoming(b"b", properties=b"")])
    assert [bodies(answer) for _, answer in scene.client.answers] == [
        [b"a", b"b"], [b"a", b"b"], [b"a"], [b"a"], [b"a"],
    ]  # fmt: skip
    assert asked == [(32, False), (1, False), (32, True), (32, True)]
    for group, offset in (("billing", 2), ("audit", 2), ("slow", 1)):
        assert scene.offsets.query_pull(group, "orders", 0) == offset
    scene.store.append([incoming(b"c")])
    answer, _ = scene.now(consumer_group="audit", queue_offset=2)  # nothing is kept for later
    assert bodies(answer) == [b"c"]


def test_only_a_message_with_the_tags_wakes() -> None:
    scene = Scene()
    scene.pull(subscription="late")
    scene.put("orders")  # paid
    assert scene.client.answers == []
    scene.store.append([incoming(b"late", properties=b"TAGS\x01late\x02")])
    assert bodies(scene.later()[0]) == [b"late"]


def test_a_pull_without_matching_messages_gets_its_next_offset() -> None:
    scene = Scene()
    scene.pull(subscription="late")
    scene.put("orders", count=3)
    scene.handlers.serve_passed_over()
    answer, header = scene.later()
    assert (answer.code, header.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 3)


@pytest.mark.parametrize(
    ("asked_ms", "settings", "held_ms"),
    [
        (15_000, {}, 15_000),
        (15_000, {"long_polling_enable": False}, 1_000),
        (10**12, {}, 60_000),
        (-5, {}, 0),
    ],
)
def test_a_wait_ends_in_time(asked_ms: int, settings: dict[str, Any], held_ms: int) -> None:
    scene = Scene(**settings)
    scene.pull(suspend_timeout_millis=asked_ms)
    scene.clock.now = NOW + held_ms - 1
    scene.handlers.tick()
    assert scene.client.answers == []
    scene.clock.now += 1
    scene.handlers.tick()
    assert scene.later()[0].code == ResponseCode.PULL_NOT_FOUND


def test_a_held_pull_is_answered_when_its_group_is_reset() -> None:
    scene = Scene()
    scene.put("orders", count=2)
    assert scene.pull(queue_offset=2) is None
    scene.offsets.assign_reset("billing", "orders", 0, 0)
    scene.handlers.moved("orders", 0)
    answer, header = scene.later()
    assert (answer.code, header.next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 0)


def test_at_the_limit_of_held_pulls_a_pull_is_refused() -> None:
    scene = Scene(capacity=1)
    assert scene.pull() is None
    with pytest.raises(Refusal) as refused:
        scene.pull()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    assert refused.value.remark == (
        "[OVERLOAD]system busy, start flow control for a while: 1 pulls are held, the limit of "
        "pullThreadPoolQueueCapacity"
    )


def test_many_released_pulls_are_answered_over_several_turns() -> None:
    async def story(_clock: VirtualClock) -> list[int]:
        scene = Scene(capacity=1000)
        for _ in range(600):
            scene.pull()
        scene.put("orders")
        counts = []
        while len(scene.client.answers) < 600:
            counts.append(len(scene.client.answers))
            await asyncio.sleep(0)
        return counts

    assert run_virtual(story) == [256, 512]


def test_a_stop_answers_all_held_pulls_at_once() -> None:
    async def story(_clock: VirtualClock) -> int:
        scene = Scene(capacity=1000)
        for _ in range(600):
            scene.pull()
        scene.handlers.close()
        return len(scene.client.answers)

    assert run_virtual(story) == 600


def test_a_stop_answers_held_pulls_and_holds_no_more() -> None:
    scene = Scene()
    scene.pull()
    scene.handlers.close()
    assert scene.later()[0].code == ResponseCode.PULL_NOT_FOUND
    with pytest.raises(
        Refusal, match="the broker is stopping"
    ):  # "nothing" would be asked again at once
        scene.pull()


def test_a_held_pull_is_checked_again() -> None:
    scene = Scene()
    scene.pull()
    scene.topics.delete("orders")
    scene.put("orders")
    ((_, answer),) = scene.client.answers
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_held_pull_commits_only_once() -> None:
    scene = Scene()
    scene.pull(sys_flag=SUBSCRIPTION | SUSPEND | COMMIT_OFFSET, commit_offset=0)
    scene.offsets.commit("billing", "orders", 0, 1)
    scene.put("orders")
    assert scene.offsets.query("billing", "orders", 0) == 1
    assert scene.offsets.query_pull("billing", "orders", 0) == 1


def test_one_pull_s_trouble_does_not_keep_others_from_their_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene, troubled = Scene(), Client("troubled")
    table = scene.handlers.table()
    troubled.ask(table, pull())
    (held,) = scene.held._by_queue["orders", 0]
    held.request = frame(RequestCode.PULL_MESSAGE)  # its fields are gone
    scene.pull()
    with caplog.at_level(logging.ERROR, logger="orbitmq.broker"):
        scene.put("orders")
    assert scene.later()[0].code == ResponseCode.SUCCESS
    ((_, answer),) = troubled.answers
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "a held pull of" in caplog.messages[0]


def test_a_consumer_gets_its_message_the_moment_it_is_stored() -> None:
    async def story(clock: VirtualClock) -> int:
        scene, network, address = Scene(clock=clock), MemoryNetwork(), Address("broker-a", 10911)
        async with Listener(address, Handlers(scene.handlers.table()), network=network):
            async with Dialer(network=network) as dialer:
                waiting = asyncio.create_task(dialer.request(address, pull(), timeout_ms=30_000))
                await clock.sleep(3)
                assert not waiting.done()
                scene.put("orders")
                answer = await waiting
                assert [message.body for message in decode_all(answer.body)] == [b"body"]
                return clock.monotonic_ms()

    assert run_virtual(story) == 3_000


def test_a_message_without_tags_does_not_match_a_filter_by_tags() -> None:
    scene = Scene()
    scene.store.append([incoming(b"without", properties=b"")])
    assert tags_code(None) == 0
    assert scene.now(subscription="paid")[0].remark == "NO_MATCHED_MESSAGE"
