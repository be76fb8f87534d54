"""What a change of the elected master does to messages, offsets, halves, and sends that wait."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace

from orbitmq.message.flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.send import (
    ConsumerSendMsgBack,
    RecallMessage,
    SendMessageAnswer,
    SendMessageV2,
)
from orbitmq.wire.headers.transaction import EndTransaction
from tests.broker.elected_world import TOPIC, Group, Node, run
from tests.broker.exchanges import pull_header, send_header
from tests.replication.worlds import log_bytes

Answer = TypeVar("Answer", Frame, Frame | None)


def timed(number: int, deliver_ms: int) -> SendMessageV2:
    text = f"TIMER_DELIVER_MS\x01{deliver_ms}\x02UNIQ_KEY\x01KEY-{number}\x02"
    return send_header(TOPIC, properties=text)


async def answer_after_a_change(group: Group, waiting: asyncio.Task[Answer]) -> Answer:
    """Have the second broker replace the first, where something waits, and return its answer."""
    first, second, *_ = group.nodes
    await group.until(lambda: first.log_end > second.log_end)
    first.client.is_cut = True
    await group.until(lambda: second.holds)
    second.heal()
    first.heal()
    return await waiting


def test_sends_that_wait_at_a_replaced_master_are_to_be_sent_again() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2, "slaveTimeout=60000")
        await group.send_many(first, "a")
        second.host.carries = False
        waiting = asyncio.create_task(group.send(first, b"waits", timeout_ms=60_000))
        answer = await answer_after_a_change(group, waiting)
        assert answer is not None
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "send it again" in str(answer.remark)
        await group.until(lambda: second.leads and second.in_sync == (1, 2))
        await group.send_many(second, "b")
        assert await group.read(second) == group.acknowledged

    run(story)


def sent_back(_answer: Frame) -> Header:
    return ConsumerSendMsgBack(offset=0, group="readers", delay_level=1, origin_topic=TOPIC)


def recalled(answer: Frame) -> Header:
    handle = answer.read(SendMessageAnswer).recall_handle
    assert handle is not None
    return RecallMessage(producer_group="senders", topic=TOPIC, recall_handle=handle)


@pytest.mark.parametrize("header_of", [sent_back, recalled])
def test_what_waits_at_a_replaced_master_is_not_taken_for_stored(
    header_of: Callable[[Frame], Header],
) -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2, "slaveTimeout=60000", "recallMessageEnable=true")
        await group.send_many(first, "a", 1)
        later = timed(1, group.clock.now_ms() + 3_600_000)
        header = header_of(await group.ask(first.address, later, body=b"later"))
        second.host.carries = False
        waiting = asyncio.create_task(group.ask(first.address, header, timeout_ms=60_000))
        answer = await answer_after_a_change(group, waiting)
        assert answer.code == ResponseCode.SYSTEM_ERROR  # it may be cut from the log
        assert "SERVICE_NOT_AVAILABLE" in str(answer.remark)
        await group.until(lambda: second.leads and second.in_sync == (1, 2))
        assert (await group.ask(second.address, header)).code == ResponseCode.SUCCESS

    run(story)


def test_offsets_delays_and_half_messages_go_on_after_a_change_of_the_master() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a", 5)
        header = send_header(TOPIC, properties="DELAY\x014\x02")  # 30 seconds
        assert (await group.ask(first.address, header, body=b"delayed")).code == 0
        pull = pull_header(TOPIC, 0, group="readers")
        assert (await group.ask(first.address, pull)).code == ResponseCode.SUCCESS
        commit = UpdateConsumerOffset(
            consumer_group="readers", topic=TOPIC, queue_id=0, commit_offset=3
        )
        assert (await group.ask(first.address, commit)).code == ResponseCode.SUCCESS
        await group.clock.sleep(15)  # the tables are taken over every ten seconds
        first.kill()
        await group.until(lambda: second.leads)
        query = QueryConsumerOffset(consumer_group="readers", topic=TOPIC, queue_id=0)
        answer = await group.ask(second.address, query)
        assert answer.read(QueryConsumerOffsetAnswer).offset == 3
        await group.clock.sleep(30)
        assert await group.read(second) == [*group.acknowledged, b"delayed"]

    run(story)


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_master_that_comes_back_without_its_disk_takes_no_tables_from_others(
    is_silent: bool,  # a loss of power: the follower does not hear that its connection is gone
) -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a")
        if is_silent:
            first.host.crash(silent=True)
        first.kill()
        first.disk = SimulatedDisk()
        second.client.is_cut = True  # so it does not hear that its master is gone
        await first.start()
        await group.clock.sleep(20)  # the tables are taken over every ten seconds
        assert TOPIC in second.broker.state.topics.table
        second.heal()
        await group.until(lambda: second.leads)
        assert await group.read(second) == group.acknowledged

    run(story)


def test_a_master_knows_the_topic_of_a_message_that_was_not_confirmed_here_yet() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a", 1)
        new = send_header("new", queue_id=2)
        assert (await group.ask(first.address, new, body=b"first")).code == ResponseCode.SUCCESS
        assert second.broker.state.topics.get("new") is None
        first.kill()
        await group.until(lambda: second.leads)
        topic = second.broker.state.topics.get("new")
        assert topic is not None
        assert topic.read_queue_nums == 3
        assert second.broker.state.store.lookup.max_offset("new", 2) == 1

    run(story)


def test_consumers_do_not_see_what_a_replaced_master_has_alone() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2, "slaveTimeout=60000")
        await group.send_many(first, "a")
        second.host.carries = False
        alone = asyncio.create_task(group.send(first, b"alone", timeout_ms=60_000))
        await group.until(lambda: first.log_end > second.log_end)
        first.client.is_cut = True
        await group.until(lambda: second.holds)
        first.client.is_cut = False  # it learns that it is replaced, and not by what
        await alone
        await group.until(lambda: first.serves_as_slave)
        pull = pull_header(TOPIC, 0)
        answer = await group.ask(first.address, pull)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "its master has to confirm, or to cut" in str(answer.remark)
        second.heal()
        await group.until(lambda: second.leads and second.in_sync == (1, 2))
        assert await group.read(first) == group.acknowledged

    run(story)


def test_on_a_slave_consumers_see_what_is_confirmed() -> None:
    async def story(group: Group) -> None:
        first, second, third = await group.start(3)
        await group.send_many(first, "a")
        third.part(from_etcd=False)  # and so nothing is confirmed until that is noticed
        before = first.log_end
        unsure = asyncio.create_task(group.send(first, b"unsure"))
        await group.until(lambda: second.log_end == first.log_end > before)
        lookup = second.broker.state.store.lookup
        assert lookup.max_offset(TOPIC, 0) == len(group.acknowledged)
        await unsure
        await group.until(lambda: first.in_sync == (1, 2))
        await group.until(lambda: lookup.max_offset(TOPIC, 0) == len(group.acknowledged) + 1)

    run(story)


def test_transactions_and_repeats_of_sends_go_on_after_a_change_of_the_master() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2, "sendDeduplicationEnable=true")
        text = "UNIQ_KEY\x01{}\x02"
        plain = send_header(TOPIC, properties=text.format("ONE"))
        receipts = [await group.ask(first.address, plain, body=b"once")]
        half_text = f"{text.format('HALF')}TRAN_MSG\x01true\x02PGROUP\x01senders\x02"
        half = await group.ask(
            first.address,
            replace(send_header(TOPIC, properties=half_text), sys_flag=TRANSACTION_PREPARED),
            body=b"half",
        )
        assert half.code == ResponseCode.SUCCESS, half.remark
        answer = half.read(SendMessageAnswer)
        first.kill()
        await group.until(lambda: second.leads)
        receipts.append(await group.ask(second.address, plain, body=b"once"))
        assert [one.read(SendMessageAnswer).queue_offset for one in receipts] == [0, 0]
        end = EndTransaction(
            producer_group="senders",
            tran_state_table_offset=answer.queue_offset,
            commit_log_offset=int(answer.msg_id[-16:], 16),
            commit_or_rollback=TRANSACTION_COMMIT,
            msg_id="HALF",
        )
        assert (await group.ask(second.address, end)).code == ResponseCode.SUCCESS
        await group.clock.sleep(1)
        assert await group.read(second) == [b"once", b"half"]

    run(story)


def test_what_a_replaced_master_has_alone_is_saved_and_cut_off() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a")
        header = timed(1, group.clock.now_ms() + 3_600_000)
        assert (await group.ask(first.address, header, body=b"late")).code == ResponseCode.SUCCESS
        await group.until(lambda: first.disk.exists("orbitmq-data/timerwheel"))
        second.host.carries = False  # the master goes on, until the silence is noticed
        for number in range(3):
            answer = await group.send(first, b"nobody else has it %d" % number)
            assert answer is not None
            assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        first.client.is_cut = True
        await group.until(lambda: second.holds)
        second.heal()
        await group.until(lambda: second.leads)
        await group.send_many(second, "b")
        first.client.is_cut = False
        await group.until(lambda: second.in_sync == (1, 2))
        await group.send_many(second, "c")
        assert log_bytes(first.broker.state.store) == log_bytes(second.broker.state.store)
        saved = first.disk.list("orbitmq-data/cutlog")
        assert saved
        # They might name records that were cut; the next master makes them from the timer topic.
        assert not first.disk.exists("orbitmq-data/timerwheel")
        assert await group.read(second) == group.acknowledged
        second.kill()
        await group.until(lambda: first.leads)
        assert await group.read(first) == group.acknowledged

    run(story)


def test_timed_messages_are_delivered_once_whoever_is_the_master() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        now_ms = group.clock.now_ms()

        async def send(node: Node, number: int, after_s: int) -> int:
            header = timed(number, now_ms + after_s * 1_000)
            answer = await group.ask(node.address, header, body=b"%d" % number, timeout_ms=9_000)
            return answer.code

        for number, after_s in enumerate((5, 6, 60, 61)):
            assert await send(first, number, after_s) == ResponseCode.SUCCESS
        await group.clock.sleep(15)
        second.host.carries = False
        assert await send(first, 8, 70) == ResponseCode.FLUSH_SLAVE_TIMEOUT
        await group.clock.sleep(2)  # its timers have taken it in
        first.client.is_cut = True
        await group.until(lambda: second.holds)
        second.heal()
        await group.until(lambda: second.leads)
        assert await send(second, 4, 62) == ResponseCode.SUCCESS
        first.heal()
        await group.until(lambda: second.in_sync == (1, 2))
        second.kill()  # the first, whose log was cut, delivers the rest
        await group.until(lambda: first.leads)
        await group.clock.sleep(60)
        assert await group.read(first) == [b"0", b"1", b"2", b"3", b"4"]

    run(story)


def test_a_timed_message_of_long_ago_is_not_delivered_again_by_the_next_master() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)

        async def deliver(node: Node, number: int) -> None:
            header = timed(number, group.clock.now_ms() + 5_000)
            answer = await group.ask(node.address, header, body=b"%d" % number)
            assert answer.code == ResponseCode.SUCCESS
            await group.clock.sleep(60)  # nothing else is stored

        await deliver(first, 1)
        first.part()
        await group.until(lambda: second.leads)
        await deliver(second, 2)
        first.heal()  # the time of its timers has gone on
        await group.until(lambda: second.in_sync == (1, 2))
        second.kill()
        await group.until(lambda: first.leads)
        await group.clock.sleep(10)
        assert await group.read(first) == [b"1", b"2"]

    run(story)
