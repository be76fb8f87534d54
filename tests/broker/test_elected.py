"""Brokers that elect their master: whatever happens to one, what was acknowledged is there."""

import asyncio
import itertools
import logging
import os
import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from orbitmq.broker.elected import ElectedBroker
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import ConsensusFailed, InvalidInput, MissingExtra
from orbitmq.message.flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from orbitmq.randomness import SeededRandomness
from orbitmq.settings import from_arguments
from orbitmq.store.disk.durable import make_durable_directory, read_file, replace_file
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
from tests.broker.elected_world import SAID, TOPIC, Group, Node, run
from tests.broker.exchanges import pull_header, send_header
from tests.replication.worlds import log_bytes

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
SEEDS = 200 if SOAK else 6
TROUBLES = 10 if SOAK else 3


def timed(number: int, deliver_ms: int) -> SendMessageV2:
    text = f"TIMER_DELIVER_MS\x01{deliver_ms}\x02UNIQ_KEY\x01KEY-{number}\x02"
    return send_header(TOPIC, properties=text)


def test_two_brokers_elect_a_master_and_the_slave_is_in_sync_and_in_the_route() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        assert first.leads
        assert not second.leads
        await group.send_many(first, "a")
        assert await group.read(first) == group.acknowledged
        assert await group.route() == {0: str(first.address), 2: str(second.address)}
        assert second.log_end == first.log_end

    run(story)


def test_the_slave_of_a_killed_master_leads_with_all_that_was_acknowledged() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "before")
        first.kill()
        master = await group.master()
        assert master is second
        await group.send_many(second, "after")
        assert await group.read(second) == group.acknowledged
        await group.until(lambda: second.in_sync == (2,))
        assert await group.route() == {0: str(second.address)}
        await first.start()
        await group.until(lambda: second.in_sync == (1, 2))
        assert not first.leads
        await group.send_many(second, "with both")
        assert first.log_end == second.log_end
        assert await group.route() == {0: str(second.address), 1: str(first.address)}

    run(story)


def test_a_master_that_is_stopped_hands_over_at_once_and_comes_back_as_a_slave() -> None:
    async def story(group: Group) -> None:
        first, second, third = await group.start(3)
        await group.send_many(first, "a")
        before_ms = group.clock.monotonic_ms()
        await first.stop()
        master = await group.master()
        assert group.clock.monotonic_ms() - before_ms < 2_500  # without the lease's five seconds
        await group.send_many(master, "b")
        await first.start()
        await group.until(lambda: master.in_sync == (1, 2, 3))
        assert await group.read(master) == group.acknowledged
        assert [node.leads for node in (first, second, third)].count(True) == 1

    run(story)


def test_the_slave_of_a_master_whose_process_is_gone_leads_before_the_lease_ends() -> None:
    async def story(group: Group) -> None:
        first, *_ = await group.start(3)
        await group.send_many(first, "before")
        before_ms = group.clock.monotonic_ms()
        first.kill()
        master = await group.master()
        answer = await group.send(master, b"after")
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
        assert group.clock.monotonic_ms() - before_ms < 1_000
        assert master.in_sync == (2, 3)
        assert await group.read(master) == group.acknowledged
        assert (await group.route())[0] == str(master.address)

    run(story)


def test_a_master_behind_a_firewall_that_rejects_goes_on_when_etcd_reaches_it() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a")
        epoch = first.epoch
        first.reject()
        await group.until(lambda: first.in_sync == (1,))
        assert first.leads
        assert first.epoch == epoch
        await group.send_many(first, "alone")
        await group.clock.sleep(30)  # refused all the time, and not in sync any more
        assert first.leads
        first.heal()
        await group.until(lambda: first.in_sync == (1, 2))
        assert await group.read(first) == group.acknowledged
        assert (first.epoch, second.log_end) == (epoch, first.log_end)

    run(story)


def test_a_master_that_is_replaced_while_it_lives_acknowledges_nothing_more() -> None:
    async def story(group: Group) -> None:
        first, second, third = await group.start(3)
        await group.send_many(first, "a")
        first.client.is_cut = True  # and so it hears of nothing
        group.network.reject(first.host, second.host)  # the third follows it as before
        await group.until(lambda: second.holds or third.holds)
        assert first.holds  # by its own clock
        answer = await group.send(first, b"unsure", timeout_ms=60_000)
        assert answer is not None
        assert answer.code != ResponseCode.SUCCESS
        first.heal()
        await group.until(lambda: second.leads or third.leads)
        master = second if second.leads else third
        await group.send_many(master, "b")
        await group.until(lambda: master.in_sync == (1, 2, 3))
        assert await group.read(master) == group.acknowledged
        assert log_bytes(first.broker.state.store) == log_bytes(master.broker.state.store)

    run(story)


def test_a_slave_that_is_not_in_sync_is_not_elected_unless_that_is_allowed() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        second.part()
        await group.until(lambda: first.in_sync == (1,))
        await group.send_many(first, "alone")
        first.kill()
        second.heal()
        await group.clock.sleep(60)
        assert not second.leads
        answer = await group.send(second, b"refused")
        assert answer is not None
        assert answer.code == ResponseCode.SYSTEM_BUSY
        await first.start()  # it is in sync
        master = await group.master()
        assert master is first
        await group.until(lambda: first.in_sync == (1, 2))
        assert await group.read(first) == group.acknowledged
        second.part()
        await group.until(lambda: first.in_sync == (1,))
        first.kill()
        second.heal()
        second.broker.settings.reload(
            from_arguments([*SAID, f"listenPort={second.address.port}"])
            + from_arguments(["enableElectUncleanMaster=true"]),
            0,
        )
        await group.until(lambda: second.leads)

    run(story)


def test_a_send_is_acknowledged_when_all_in_sync_have_it_and_seen_by_consumers_then() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a")
        second.part(from_etcd=False)
        answer = await group.send(first, b"late")
        assert answer is not None
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert first.log_end > second.log_end
        assert await group.read(first) == group.acknowledged
        await group.until(lambda: first.in_sync == (1,))  # it was silent for too long
        assert await group.read(first) == [*group.acknowledged, b"late"]

    run(story)


def test_too_few_in_sync_refuse_sends_with_both_numbers() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2, "minInSyncReplicas=2")
        await group.send_many(first, "a")
        await second.stop()
        await group.until(lambda: first.in_sync == (1,))
        answer = await group.send(first, b"refused")
        assert answer is not None
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "in-sync replicas not enough: 1, and minInSyncReplicas is 2" in str(answer.remark)
        await second.start("minInSyncReplicas=2")
        await group.until(lambda: first.in_sync == (1, 2))
        await group.send_many(first, "b")

    run(story)


def test_a_master_without_etcd_goes_on_for_its_lease_and_again_when_etcd_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        caplog.set_level(logging.WARNING, "orbitmq.failover")
        for node in (first, second):
            node.client.is_cut = True
        await group.send_many(first, "on the lease")
        await group.until(lambda: not first.holds)
        answer = await group.send(first, b"refused")
        assert answer is not None
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "can't prove any more that it is the master" in str(answer.remark)
        assert await group.read(first) == group.acknowledged
        await group.clock.sleep(60)
        for node in (first, second):
            node.client.is_cut = False
        master = await group.master()
        await group.send_many(master, "back")
        assert await group.read(master) == group.acknowledged

    run(story)
    for what in ("can't be read: no answer in time", "can be read again"):
        assert len([one for one in caplog.messages if what in one]) == 2  # once for each broker


def test_a_master_cut_off_acknowledges_nothing_that_the_next_one_lacks() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a")
        first.client.is_cut = True
        second.host.carries = False
        waiting = asyncio.create_task(group.send(first, b"unsure"))
        await group.until(lambda: not first.holds)
        answer = await waiting
        assert answer is not None
        assert answer.code in (
            ResponseCode.FLUSH_SLAVE_TIMEOUT,
            ResponseCode.SERVICE_NOT_AVAILABLE,
        )
        await group.until(lambda: second.holds)
        second.host.carries = True
        await group.until(lambda: second.leads)
        refused = await group.send(first, b"refused")
        assert refused is not None
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        await group.send_many(second, "b")
        assert await group.read(second) == group.acknowledged
        route = await group.route()
        assert route[0] == str(second.address)

    run(story)


def test_sends_that_wait_at_a_replaced_master_are_to_be_sent_again() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2, "slaveTimeout=60000")
        await group.send_many(first, "a")
        second.host.carries = False
        waiting = asyncio.create_task(group.send(first, b"waits", timeout_ms=60_000))
        await group.until(lambda: first.log_end > second.log_end)
        first.client.is_cut = True
        await group.until(lambda: second.holds)
        second.heal()
        first.heal()
        answer = await waiting
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
        await group.until(lambda: first.log_end > second.log_end)
        first.client.is_cut = True
        await group.until(lambda: second.holds)
        second.heal()
        first.heal()
        answer = await waiting
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


def test_a_broker_that_was_none_of_a_group_brings_its_log_when_it_starts_first() -> None:
    async def story(group: Group) -> None:
        first, second, _ = group.nodes
        said = [one for one in SAID if not one.startswith("enableControllerMode")]
        settings = LiveSettings.load(from_arguments([*said, f"listenPort={first.address.port}"]))
        async with Broker(settings, first.machine()):
            for number in range(20):
                await group.send(first, b"before %d" % number)
        await group.start(2)
        assert first.leads
        await group.send_many(first, "after")
        first.kill()
        await group.until(lambda: second.leads)
        assert await group.read(second) == group.acknowledged
        await first.start()
        await group.until(lambda: second.in_sync == (1, 2))

    run(story)


def test_a_learner_copies_and_never_leads() -> None:
    async def story(group: Group) -> None:
        first, second, third = group.nodes
        await first.start("asyncLearner=true")
        await group.clock.sleep(30)
        assert not first.holds  # it was alone, and the group new
        await second.start()
        await group.until(lambda: second.leads)
        await third.start()
        await group.until(lambda: second.in_sync == (2, 3))
        await group.send_many(second, "a")
        await group.until(lambda: first.log_end == second.log_end)
        assert second.in_sync == (2, 3)
        second.kill()
        await group.until(lambda: third.leads)
        await group.send_many(third, "b")
        await group.until(lambda: first.log_end == third.log_end)

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


def test_a_broker_that_is_new_needs_etcd_and_one_that_has_an_id_does_not() -> None:
    async def story(group: Group) -> None:
        (first,) = await group.start(1)
        await group.send_many(first, "a")
        await first.stop()
        first.client.is_cut = group.nodes[1].client.is_cut = True
        with pytest.raises(ConsensusFailed):
            await group.nodes[1].start()
        await first.start()
        assert not first.holds
        first.client.is_cut = False
        await group.until(lambda: first.leads)
        assert await group.read(first) == group.acknowledged

    run(story)


def test_a_broker_that_can_t_begin_as_master_leaves_it_to_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(group: Group) -> None:
        first, second, third = await group.start(3)
        port = await group.network.host("node-2").listen(
            asyncio.Protocol,
            second.address._replace(port=second.address.port + 1),
            tls=None,
            mode=None,  # type: ignore[arg-type]
            handshake_timeout_ms=0,
        )
        await group.send_many(first, "a")
        first.kill()
        await group.until(lambda: third.leads)
        await group.send_many(third, "b")
        assert await group.read(third) == group.acknowledged
        assert second.elected is not None
        assert "no election any more: can't listen on" in str(await second.elected.ended())
        await port.close()

    run(story)
    assert "takes part in no election any more: can't listen on" in caplog.text


def test_of_two_processes_with_one_id_only_the_newer_counts_for_the_master(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "orbitmq.replication")

    async def story(group: Group) -> None:
        first, older = await group.start(2)
        newer = group.nodes[2]
        await group.send_many(first, "a")
        path = "orbitmq-data/brokerIdentity"
        identity = read_file(older.disk, path)
        assert identity is not None
        make_durable_directory(newer.disk, "orbitmq-data")
        replace_file(newer.disk, path, identity)
        await newer.start()
        assert older.elected is not None
        await group.until(lambda: older.elected._inside is None)  # type: ignore[union-attr]
        await group.until(lambda: newer.log_end == first.log_end)
        assert "another process runs with the id 2 of this broker; this one ser" in caplog.text
        assert "another process runs" in str(await older.elected.ended())
        caplog.clear()
        await group.clock.sleep(10)
        assert "is broker 2" not in caplog.text  # they would replace each other's connections
        await group.until(lambda: first.in_sync == (1, 2))
        await group.send_many(first, "b")
        await group.clock.sleep(30)  # a nameserver keeps the older for as long as it is registered
        assert (await group.route())[2] == str(newer.address)
        await older.stop()
        first.kill()
        await group.until(lambda: newer.leads)
        assert await group.read(newer) == group.acknowledged

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


class Storm:
    """Two or three brokers; one or two at a time are in trouble while messages are sent.

    Some live behind a firewall that rejects, so that others take a master for gone.

    Every third time a broker that is killed loses power, too, and flushes before it acknowledges.
    """

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.chance = SeededRandomness(seed)
        self.nodes = group.nodes[: 2 + seed % 2]
        self.well = list(self.nodes)
        self.is_over = False
        self.has_power = bool(seed % 3)
        self.said = () if self.has_power else ("flushDiskType=SYNC_FLUSH",)

    async def trouble(self) -> None:
        """Kill, stop or part brokers that are well, and mend it, some times."""
        for _ in range(TROUBLES):
            await self.group.clock.sleep(self.chance.uniform(0, 8))
            if not self.well:
                continue
            node = self.well.pop(self.chance.below(len(self.well)))
            kind = self.chance.below(7)
            if kind == 0:
                node.kill(power=self.has_power)
            elif kind == 1:
                await node.stop()
            elif kind <= 4:
                node.part(from_etcd=kind != 2, from_network=kind != 3)
            else:
                node.part(from_etcd=kind == 5, from_network=False)
                node.reject()
            await self.group.clock.sleep(self.chance.uniform(0, 20))
            if kind <= 1:
                await node.start(*self.said)
            else:
                node.heal()
            self.well.append(node)

    async def send(self) -> None:
        """Send messages to whoever takes itself for the master."""
        for number in itertools.count():
            for node in [one for one in self.nodes if one.leads]:
                await self.group.send(node, b"%d to %d" % (number, node.number), timeout_ms=4_000)
            await self.group.clock.sleep(0.05)
            if self.is_over:
                return

    async def rage(self) -> None:
        """Return when all is mended, and all brokers are in sync."""
        senders = [asyncio.create_task(self.send()) for _ in range(2)]
        await asyncio.gather(self.trouble(), self.trouble())
        await self.group.master()
        self.is_over = True
        await asyncio.gather(*senders)
        numbers = tuple(node.number for node in self.nodes)
        await self.group.until(
            lambda: any(node.leads and node.in_sync == numbers for node in self.nodes)
        )
        await self.group.until(lambda: len({node.log_end for node in self.nodes}) == 1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_nothing_acknowledged_is_lost(seed: int) -> None:
    async def story(group: Group) -> None:
        storm = Storm(group, seed)
        await group.start(len(storm.nodes), *storm.said)
        await storm.rage()
        first, *others = [log_bytes(node.broker.state.store) for node in storm.nodes]
        assert all(one == first for one in others)
        read = await group.read(await group.master())
        assert set(group.acknowledged) <= set(read)
        assert len(group.acknowledged) > 10

    run(story)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [("listenPort=0", "needs a port of its own"), ("haMasterAddress=10.0.0.1:10912", "elected")],
)
def test_settings_that_contradict_elections_are_refused(said: str, complaint: str) -> None:
    settings = LiveSettings.load(from_arguments([*SAID, said]))
    with pytest.raises(InvalidInput, match=complaint):
        ElectedBroker(settings)


def test_a_file_for_etcd_that_is_missing_is_refused_at_the_start() -> None:
    said = [*SAID, "listenPort=10911", "etcdTlsEnable=true", "etcdTlsTrustCertPath=/gone/ca.pem"]
    with pytest.raises(InvalidInput, match=r"etcdTlsTrustCertPath: /gone/ca\.pem can't be read"):
        ElectedBroker(LiveSettings.load(from_arguments(said)))


def test_the_representation_says_who_it_is() -> None:
    async def story(group: Group) -> None:
        (first,) = await group.start(1)
        assert "broker-a" in repr(first.elected)
        assert isinstance(first, Node)

    run(story)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("orbitmq.failover.etcd")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aetcd", None)
    settings = LiveSettings.load(from_arguments([*SAID, "listenPort=10911"]))
    with pytest.raises(MissingExtra, match=r"orbitmq\[failover\]"):
        ElectedBroker(settings)
