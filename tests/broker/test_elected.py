"""Brokers that elect their master: which one leads, which are in sync, what they refuse."""

import asyncio
import logging
import sys

import pytest

from orbitmq.broker.elected import ElectedBroker
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import ConsensusFailed, InvalidInput, MissingExtra
from orbitmq.settings import from_arguments
from orbitmq.store.disk.durable import make_durable_directory, read_file, replace_file
from orbitmq.wire.codes import ResponseCode
from tests.broker.elected_world import SAID, Group, Node, run
from tests.replication.worlds import log_bytes


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
