from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from orbitmq.broker.handlers.operator.groups import GroupHandlers
from orbitmq.broker.tables.groups import GROUPS_FILE
from orbitmq.broker.tables.offsets import OFFSETS_FILE
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.group import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroup,
    GetAllSubscriptionGroupAnswer,
    GetSubscriptionGroupConfig,
    UpdateGroupForbidden,
)
from tests.broker.world import World, ask

BILLING = SubscriptionGroupConfig(group_name="billing", retry_max_times=3)
CREATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
CREATE_LIST = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST


class Scene(World):
    """A world whose groups can be asked for."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.deleted: list[str] = []

    def table(self) -> Mapping[int, Handler]:
        return GroupHandlers(
            groups=self.groups,
            topics=self.topics,
            offsets=self.offsets,
            settings=self.settings,
            persistence=self.persistence,
            workers=self.workers,
            on_delete=self.deleted.append,
        ).table()


def test_a_group_is_created_and_written() -> None:
    scene = Scene()
    assert ask(scene.table(), NoFields(), BILLING.to_json(), code=CREATE).code == 0
    assert scene.groups.get("billing") == BILLING
    written = SubscriptionGroupTable.from_json((scene.file(GROUPS_FILE) or "").encode())
    assert written.subscription_group_table["billing"] == BILLING


def test_groups_of_a_list_are_created_whole_or_not_at_all() -> None:
    scene = Scene()
    bad = SubscriptionGroupList(group_config_list=(BILLING, replace(BILLING, group_name="a b")))
    answer = ask(scene.table(), NoFields(), bad.to_json(), code=CREATE_LIST)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert (answer.remark or "").startswith("The specified group: a b, contains illegal characters")
    assert "billing" not in scene.groups
    good = SubscriptionGroupList(group_config_list=(BILLING, replace(BILLING, group_name="b")))
    assert ask(scene.table(), NoFields(), good.to_json(), code=CREATE_LIST).code == 0
    assert {"billing", "b"} <= scene.groups.table.keys()


@pytest.mark.parametrize(
    ("group", "code"),
    [
        (replace(BILLING, group_name=""), ResponseCode.INVALID_PARAMETER),
        (replace(BILLING, retry_queue_nums=-1), ResponseCode.SYSTEM_ERROR),
        (replace(BILLING, attributes={"+colour": "red"}), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_an_invalid_group_is_refused(group: SubscriptionGroupConfig, code: int) -> None:
    scene = Scene()
    assert ask(scene.table(), NoFields(), group.to_json(), code=CREATE).code == code
    assert "billing" not in scene.groups


@pytest.mark.parametrize(("clean", "offset"), [(True, -1), (False, 7)])
def test_a_group_is_deleted_with_its_offsets_if_asked(clean: bool, offset: int) -> None:
    scene = Scene()
    scene.groups.update([BILLING])
    scene.offsets.commit("billing", "orders", 0, 7)
    header = DeleteSubscriptionGroup(group_name="billing", clean_offset=clean)
    assert ask(scene.table(), header).code == 0
    assert "billing" not in scene.groups
    assert scene.deleted == ["billing"]
    assert scene.offsets.query("billing", "orders", 0) == offset
    assert "billing" not in (scene.file(GROUPS_FILE) or "")
    assert (scene.file(OFFSETS_FILE) is not None) is clean


def test_a_request_for_a_group_returns_and_creates_it() -> None:
    scene = Scene()
    answer = ask(scene.table(), GetSubscriptionGroupConfig(group="billing"))
    results = SubscriptionGroupConfig.from_json(answer.body)
    assert results == SubscriptionGroupConfig(group_name="billing")
    closed = Scene(auto_create_subscription_group=False)
    answer = ask(closed.table(), GetSubscriptionGroupConfig(group="billing"))
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_all_groups_are_returned_at_once_to_tools_without_pages() -> None:
    scene = Scene(split_metadata_size=2)
    scene.groups.forbid("billing", "orders", on=True)
    scene.groups.get("billing")
    answer = ask(scene.table(), GetAllSubscriptionGroup())
    body = SubscriptionGroupTable.from_json(answer.body)
    assert body.subscription_group_table == scene.groups.table
    assert body.forbidden_table == {"billing": {"orders": 4}}
    assert body.data_version == scene.groups.data_version
    total = answer.read(GetAllSubscriptionGroupAnswer).total_group_num
    assert total == len(scene.groups.table)


def test_pages_of_groups_together_are_the_table() -> None:
    scene = Scene(split_metadata_size=3)
    scene.groups.forbid("TOOLS_CONSUMER", "orders", on=True)
    version = scene.groups.data_version.to_json().decode()
    found: dict[str, SubscriptionGroupConfig] = {}
    while len(found) < len(scene.groups.table):
        header = GetAllSubscriptionGroup(group_seq=len(found), data_version=version)
        body = SubscriptionGroupTable.from_json(ask(scene.table(), header).body)
        page = body.subscription_group_table
        assert 0 < len(page) <= 3
        assert ("TOOLS_CONSUMER" in body.forbidden_table) is ("TOOLS_CONSUMER" in page)
        found |= page
    assert found == scene.groups.table


def test_a_group_is_kept_from_reading_and_let_again() -> None:
    scene = Scene()
    scene.groups.update([BILLING])
    scene.topics.update([TopicConfig(topic_name="orders")])
    asked = UpdateGroupForbidden(group="billing", topic="orders")
    for readable in (False, True):
        answer = ask(scene.table(), replace(asked, readable=readable))
        results = GroupForbidden.from_json(answer.body)
        assert results == GroupForbidden(group="billing", topic="orders", readable=readable)
        assert GroupForbidden.from_json(ask(scene.table(), asked).body) == results
        assert ("orders" in (scene.file(GROUPS_FILE) or "")) is not readable


@pytest.mark.parametrize(
    ("group", "topic", "code"),
    [
        ("nobody", "TBW102", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("TOOLS_CONSUMER", "nothing", ResponseCode.TOPIC_NOT_EXIST),
    ],
)
def test_only_what_exists_is_forbidden(group: str, topic: str, code: int) -> None:
    scene = Scene()
    header = UpdateGroupForbidden(group=group, topic=topic, readable=False)
    assert ask(scene.table(), header).code == code
    assert scene.groups.forbidden() == {}
