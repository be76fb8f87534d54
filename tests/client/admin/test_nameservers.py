import asyncio

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import ConnectFailed, InvalidInput, NoPermission
from orbitmq.wire.bodies.route import TopicRouteData
from tests.client.admin.stories import with_cluster


def test_keys_are_set_listed_and_deleted() -> None:
    async def story(admin: Admin) -> None:
        assert await admin.kv_config("colours", "sky") is None
        assert await admin.kv_namespace("colours") == {}
        await admin.set_kv_config("colours", "sky", "blue")
        assert await admin.kv_config("colours", "sky") == "blue"
        assert await admin.kv_namespace("colours") == {"sky": "blue"}
        await admin.delete_kv_config("colours", "sky")
        assert await admin.kv_config("colours", "sky") is None
        with pytest.raises(InvalidInput, match="value"):
            await admin.set_kv_config("colours", "sky", None)  # type: ignore[arg-type]

    with_cluster(story, brokers=1)


def test_settings_are_read_and_changed() -> None:
    async def story(admin: Admin) -> None:
        ((address, settings),) = (await admin.nameserver_config()).items()
        assert settings["orderMessageEnable"] == "false"
        changed = await admin.set_nameserver_config({"orderMessageEnable": "true"})
        assert changed == (address,)
        assert (await admin.nameserver_config())[address]["orderMessageEnable"] == "true"
        with pytest.raises(NoPermission):
            await admin.set_nameserver_config({"kvConfigPath": "elsewhere"})

    with_cluster(story, brokers=1)


def test_writes_to_a_broker_are_stopped_and_allowed_again() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("orders", queues=2)
        wiped = await admin.wipe_write_perm("broker-a")
        assert all(count > 0 for count in wiped.values())
        assert {one.broker_name for one in await admin.queues("orders")} == {"broker-b"}
        assert await admin.add_write_perm("broker-a") == wiped
        assert {one.broker_name for one in await admin.queues("orders")} == {"broker-a", "broker-b"}

    with_cluster(story)


def test_each_nameserver_says_what_it_knows() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as first, EmbeddedCluster(brokers=2) as second:
            first_brokers = first.brokers
            nameservers = [first.nameserver, second.nameserver, "127.0.0.1:1"]
            async with Admin(nameserver=nameservers[0]) as admin:
                await admin.create_topic("orders", queues=2)
            async with Admin(nameserver=";".join(nameservers), keep_open_ms=0) as admin:
                clusters = await admin.clusters_by_nameserver()
                routes = await admin.route_by_nameserver("orders")
        assert set(clusters) == set(routes) == set(nameservers)
        (one, two, silent) = (clusters[address] for address in nameservers)
        assert isinstance(one, tuple)
        assert isinstance(two, tuple)
        assert [broker.address for broker in one] == list(first_brokers)
        assert [broker.name for broker in two] == ["broker-a", "broker-b"]
        assert isinstance(silent, ConnectFailed)
        (known, unknown, silent_route) = (routes[address] for address in nameservers)
        assert isinstance(known, TopicRouteData)
        assert [queue.write_queue_nums for queue in known.queue_datas] == [2]
        assert unknown is None
        assert isinstance(silent_route, ConnectFailed)

    asyncio.run(main())
