import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.errors import InvalidInput, NoPermission
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
