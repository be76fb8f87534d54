"""Brokers that elect their master: whatever happens to one, what was acknowledged is there."""

import asyncio
import logging

import pytest

from orbitmq.broker.elected import ElectedBroker
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import ConsensusFailed, InvalidInput
from orbitmq.settings import from_arguments
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from tests.broker.elected_world import SAID, TOPIC, Group, Node, run
from tests.broker.exchanges import pull_header, send_header


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


def test_a_slave_serves_consumers_what_is_confirmed() -> None:
    async def story(group: Group) -> None:
        first, second = await group.start(2)
        await group.send_many(first, "a")
        await group.clock.sleep(11)
        answer = await group.ask(second.address, pull_header(TOPIC, 0))
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY or answer.body

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
        await port.close()

    run(story)
    assert "can't change its role" in caplog.text


@pytest.mark.parametrize(
    ("said", "complaint"),
    [("listenPort=0", "needs a port of its own"), ("haMasterAddress=10.0.0.1:10912", "elected")],
)
def test_settings_that_contradict_elections_are_refused(said: str, complaint: str) -> None:
    settings = LiveSettings.load(from_arguments([*SAID, said]))
    with pytest.raises(InvalidInput, match=complaint):
        ElectedBroker(settings)


def test_the_representation_says_who_it_is() -> None:
    async def story(group: Group) -> None:
        (first,) = await group.start(1)
        assert "broker-a" in repr(first.elected)
        assert isinstance(first, Node)

    run(story)
