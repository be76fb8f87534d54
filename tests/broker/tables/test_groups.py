import pytest
from msgspec.structs import replace

from orbitmq.broker.settings import BrokerRole
from orbitmq.broker.tables import groups as module
from orbitmq.broker.tables.topics import QUEUES_MAX
from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.wire.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from tests.broker.tables.test_topics import config_file
from tests.broker.world import World

BILLING = SubscriptionGroupConfig(group_name="billing", retry_max_times=3)


def test_a_broker_starts_with_the_groups_of_java() -> None:
    java = SubscriptionGroupTable.from_json(config_file("delay", "subscriptionGroup.json").encode())
    assert World().groups.table == java.subscription_group_table


def test_a_request_for_an_unknown_group_creates_it() -> None:
    world = World()
    assert "billing" not in world.groups
    assert world.groups.get("billing") == SubscriptionGroupConfig(group_name="billing")
    assert "billing" in world.groups
    assert world.groups.data_version.counter == 1
    world.groups.get("billing")
    assert world.groups.data_version.counter == 1


def test_a_group_of_a_light_queue_is_there_and_not_kept() -> None:
    world = World()
    name = "%LMQ%GID@@alice"
    assert name not in world.groups
    world.settings.store = replace(
        world.settings.store, lmq_enabled=True, multi_dispatch_enabled=True
    )
    assert name in world.groups
    assert world.groups.get(name) == SubscriptionGroupConfig(group_name=name)
    assert name not in world.groups.table


@pytest.mark.parametrize("name", ["", "a.b", "g" * 121])
def test_a_group_with_an_invalid_name_is_not_created(name: str) -> None:
    assert World().groups.get(name) is None


def test_a_slave_takes_the_masters_table_also_after_a_change_of_its_own_in_the_same_moment() -> (
    None
):
    master, slave = World().groups, World(broker_role=BrokerRole.SLAVE, broker_id=1).groups
    master.update([BILLING])
    slave.get("billing")
    slave.take(SubscriptionGroupTable.from_json(master.to_json().encode()))
    assert slave.get("billing") == BILLING


def test_creation_can_be_switched_off_but_not_for_rocketmqs_own() -> None:
    groups = World(auto_create_subscription_group=False).groups
    assert groups.get("billing") is None
    assert groups.get("CID_RMQ_SYS_ANY") is not None
    assert groups.get("TOOLS_CONSUMER") is not None


def test_no_more_groups_are_made_than_a_frame_can_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = World().groups
    monkeypatch.setattr(module, "GROUPS_MAX", len(groups.table) + 1)
    assert groups.get("first") is not None
    assert groups.get("second") is None
    with pytest.raises(InvalidInput, match="groups, and the limit is"):
        groups.update([BILLING])


def test_groups_are_changed_all_or_none() -> None:
    groups = World().groups
    bad = SubscriptionGroupConfig(group_name="bad", retry_queue_nums=QUEUES_MAX + 1)
    with pytest.raises(InvalidInput, match="retry_queue_nums of group bad is 65537"):
        groups.update([BILLING, bad])
    assert "billing" not in groups
    with pytest.raises(InvalidInput, match="attribute 'colour'"):
        groups.update([replace(BILLING, attributes={"+colour": "red"})])
    groups.update([BILLING])
    assert groups.get("billing") == BILLING
    assert groups.data_version.counter == 1


def test_a_group_that_is_deleted_takes_along_what_was_forbidden() -> None:
    groups = World().groups
    groups.update([BILLING])
    groups.forbid("billing", "orders", on=True)
    assert groups.delete("billing")
    assert "billing" not in groups
    assert not groups.is_forbidden("billing", "orders")
    assert not groups.delete("billing")


def test_forbidden_bits_are_kept_by_topic() -> None:
    groups = World().groups
    groups.forbid("billing", "orders", on=True)
    groups.forbid("billing", "orders", on=True, bit=1)
    groups.forbid("billing", "other", on=True)
    assert groups.forbidden() == {"billing": {"orders": 0b110, "other": 0b100}}
    groups.forbid("billing", "orders", on=False)
    assert not groups.is_forbidden("billing", "orders")
    assert groups.is_forbidden("billing", "orders", 1)
    assert groups.is_forbidden("billing", "other")
    groups.forbid("billing", "orders", on=False, bit=1)
    groups.forbid("billing", "other", on=False)
    assert groups.forbidden() == {}
    assert groups.forbidden({"billing": None}) == {}


def test_allowing_what_was_never_forbidden_leaves_nothing_behind() -> None:
    groups = World().groups
    groups.forbid("billing", "orders", on=False)
    assert groups.forbidden() == {}


@pytest.mark.parametrize("store", ["normal", "retry", "delay"])
def test_a_table_that_java_wrote_is_written_back_the_same(store: str) -> None:
    text = config_file(store, "subscriptionGroup.json")
    groups = World().groups
    groups.load_json(text)
    written = SubscriptionGroupTable.from_json(groups.to_json().encode())
    assert written == SubscriptionGroupTable.from_json(text.encode())


def test_a_table_is_read_back_with_what_is_forbidden() -> None:
    world = World()
    world.groups.update([BILLING])
    world.groups.forbid("billing", "orders", on=True)
    again = World().groups
    again.load_json(world.groups.to_json())
    assert again.table == world.groups.table
    assert again.is_forbidden("billing", "orders")
    assert again.data_version == world.groups.data_version


def test_a_text_that_is_no_table_changes_nothing() -> None:
    groups = World().groups
    before = groups.to_json()
    with pytest.raises(InvalidBody):
        groups.load_json('{"subscriptionGroupTable":[]}')
    assert groups.to_json() == before
