import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import GroupNotFound, InvalidGroup, NoRoute
from tests.client.admin.stories import with_cluster


def test_a_group_is_created_changed_and_deleted() -> None:
    async def story(admin: Admin) -> None:
        assert await admin.create_group("billing", retry_max_times=3) == ("broker-a", "broker-b")
        assert await admin.create_group("audit", on="broker-b") == ("broker-b",)
        assert await admin.groups() == {"audit": ("broker-b",), "billing": ("broker-a", "broker-b")}
        assert await admin.groups(on="broker-a") == {"billing": ("broker-a",)}
        changed = await admin.update_group("billing", consume_enable=False, on="DefaultCluster")
        assert changed == ("broker-a", "broker-b")
        configs = await admin.group_config("billing")
        assert [
            (one.group_name, one.retry_max_times, one.consume_enable) for one in configs.values()
        ] == [("billing", 3, False)] * 2
        assert list(await admin.group_config("audit")) == ["broker-b"]
        assert await admin.update_group("audit", retry_queue_nums=2) == ("broker-b",)
        await admin.delete_group("billing")
        for call in (admin.group_config("billing"), admin.update_group("billing")):
            with pytest.raises(GroupNotFound):
                await call

    with_cluster(story)


def test_groups_of_rocketmq_itself_are_shown_on_request() -> None:
    async def story(admin: Admin) -> None:
        assert await admin.groups() == {}
        assert "CID_RMQ_SYS_TRANS" in await admin.groups(include_system=True)

    with_cluster(story, brokers=1)


def test_an_invalid_group_and_an_unknown_broker_are_refused() -> None:
    async def story(admin: Admin) -> None:
        with pytest.raises(InvalidGroup):
            await admin.create_group("a.b")
        with pytest.raises(NoRoute, match="no cluster and no broker is named nowhere"):
            await admin.create_group("billing", on="nowhere")

    with_cluster(story, brokers=1)


def test_which_group_reads_which_topic() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("orders", queues=1)
        await admin.create_group("billing")
        assert await admin.topic_groups("orders") == await admin.group_topics("billing") == []
        for queue in await admin.queues("orders"):
            await admin.set_offset("billing", queue, 0)
        assert await admin.topic_groups("orders") == ["billing"]
        assert await admin.group_topics("billing") == ["orders"]
        await admin.delete_group("billing", clean_offsets=True)
        assert await admin.topic_groups("orders") == []

    with_cluster(story)


def test_a_group_is_forbidden_to_read_a_topic() -> None:
    async def story(admin: Admin) -> None:
        await admin.create_topic("orders", queues=1)
        await admin.create_group("billing")
        assert await admin.group_readable("billing", "orders")
        done = await admin.set_group_readable("billing", "orders", readable=False)
        assert done == ("broker-a", "broker-b")
        assert not await admin.group_readable("billing", "orders")
        await admin.set_group_readable("billing", "orders", readable=True)
        assert await admin.group_readable("billing", "orders")

    with_cluster(story)
