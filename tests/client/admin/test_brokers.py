from typing import Any

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import BrokerFailed, InvalidInput, NoPermission, NoRoute
from tests.client.admin.stories import fill, with_cluster


def test_clusters_and_their_brokers_are_listed() -> None:
    async def story(admin: Admin) -> None:
        (cluster,) = await admin.clusters()
        assert cluster.name == "DefaultCluster"
        assert [(one.name, one.number, one.is_master) for one in cluster.brokers] == [
            ("broker-a", 0, True),
            ("broker-b", 0, True),
        ]

    with_cluster(story)


def test_a_broker_is_named_or_given_by_its_address() -> None:
    async def story(admin: Admin) -> None:
        (cluster,) = await admin.clusters()
        for name in ("broker-b", cluster.brokers[1].address):
            assert (await admin.broker_config(name))["brokerName"] == "broker-b"
        with pytest.raises(InvalidInput, match="the name or the address of one broker"):
            await admin.broker_config("DefaultCluster")
        with pytest.raises(NoRoute, match="no broker is named nowhere"):
            await admin.broker_config("nowhere")
        with pytest.raises(InvalidInput, match="host:port"):
            await admin.broker_config("nowhere:x")

    with_cluster(story)


def test_the_state_of_a_broker_is_typed() -> None:
    async def story(admin: Admin) -> None:
        status = await admin.broker_status("broker-a")
        assert status.version == "V5_4_0"
        assert status.started_ms > 0
        assert 0 < status.disk_used <= 1
        assert status.put_tps == status.get_tps == status.put_today == 0
        assert status.figures["bootTimestamp"] == str(status.started_ms)

    with_cluster(story, brokers=1)


def test_settings_are_changed_on_all_brokers_or_on_some() -> None:
    async def story(admin: Admin) -> None:
        changed = await admin.set_broker_config({"traceOn": "false"})
        assert changed == ("broker-a", "broker-b")
        await admin.set_broker_config({"traceOn": "true"}, on="broker-b")
        seen = [(await admin.broker_config(name))["traceOn"] for name in changed]
        assert seen == ["false", "true"]
        with pytest.raises(NoPermission) as caught:
            await admin.set_broker_config({"brokerName": "x"})
        assert len(caught.value.__notes__) == 2
        value: Any = True
        with pytest.raises(InvalidInput, match="traceOn"):
            await admin.set_broker_config({"traceOn": value})

    with_cluster(story)


def test_counters_and_progress_of_a_broker() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("orders", queues=1)
        await admin.create_group("billing")
        (queue,) = await admin.queues("orders")
        with pytest.raises(BrokerFailed, match="<TOPIC_PUT_NUMS> <orders> not exist"):
            await admin.broker_stats("broker-a", "TOPIC_PUT_NUMS", "orders")
        await fill(admin, "orders", {queue: 3})
        stats = await admin.broker_stats("broker-a", "TOPIC_PUT_NUMS", "orders")
        assert stats.minute.sum >= 0
        await admin.set_offset("billing", queue, 1)
        found = {one.group: one for one in await admin.broker_progress("broker-a")}
        assert found["billing"].lag == 2
        ordered = await admin.broker_progress("broker-a", ordered_only=True)
        assert {one.group: one.lag for one in ordered}["billing"] == 0

    with_cluster(story, brokers=1)


def test_a_master_says_which_slaves_it_has() -> None:
    async def story(admin: Admin) -> None:
        state = await admin.replication("broker-a")
        assert state.master
        assert (state.ha_connection_info, state.in_sync_slave_nums) == ((), 0)

    with_cluster(story, brokers=1)


def test_a_broker_without_elections_is_no_controller() -> None:
    async def story(admin: Admin) -> None:
        (cluster,) = await admin.clusters()
        at = cluster.brokers[0].address
        calls = [
            admin.controller_metadata(at),
            admin.sync_state(["broker-a"], controller=at),
            admin.elect_master("DefaultCluster", "broker-a", 2, controller=at),
            admin.clean_broker_metadata("broker-a", controller=at, cluster="DefaultCluster"),
            admin.controller_config(at),
            admin.set_controller_config({"enableElectUncleanMaster": "true"}, address=at),
        ]
        for call in calls:
            with pytest.raises(BrokerFailed, match="of no group with elections"):
                await call
        with pytest.raises(BrokerFailed, match="no enableControllerMode"):
            await admin.broker_epochs("broker-a")
        with pytest.raises(InvalidInput, match="host:port"):
            await admin.controller_metadata("nowhere")

    with_cluster(story, brokers=1)
