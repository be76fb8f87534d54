from collections.abc import Mapping

import pytest

from orbitmq.broker.handlers.operator.topics import TopicHandlers
from orbitmq.broker.tables.topics import TOPICS_FILE
from orbitmq.message.names import pop_retry_topic
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.registration import TopicConfigAndMappingTable
from orbitmq.wire.bodies.topic import TopicConfig, TopicConfigList, TopicConfigTable, TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import (
    CreateTopic,
    CreateTopicList,
    DeleteTopic,
    GetAllTopicConfig,
    GetAllTopicConfigAnswer,
    GetTopicConfig,
)
from tests.broker.world import World, ask

ORDERS = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)


class Scene(World):
    """A world that serves requests about topics, and records announcements."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.announced = 0
        self.deleted: list[str] = []

    def table(self) -> Mapping[int, Handler]:
        return TopicHandlers(
            topics=self.topics,
            offsets=self.offsets,
            settings=self.settings,
            persistence=self.persistence,
            workers=self.workers,
            announce=self._announce,
            on_delete=self.deleted.append,
        ).table()

    async def _announce(self) -> None:
        assert self.file(TOPICS_FILE) == self.topics.to_json()  # on disk before it is announced
        self.announced += 1


def create(topic: str = "orders", **fields: object) -> CreateTopic:
    given = {
        "topic": topic, "default_topic": "TBW102", "read_queue_nums": 4, "write_queue_nums": 4,
        "perm": 6, "topic_filter_type": "SINGLE_TAG",
    }  # fmt: skip
    return CreateTopic(**{**given, **fields})  # type: ignore[arg-type]


def test_a_topic_is_created_written_and_announced() -> None:
    scene = Scene()
    assert ask(scene.table(), create(attributes="+message.type=FIFO")).code == 0
    topic = scene.topics.get("orders")
    assert topic is not None
    assert (topic.read_queue_nums, topic.attributes) == (4, {"message.type": "FIFO"})
    assert scene.announced == 1
    written = TopicConfigTable.from_json((scene.file(TOPICS_FILE) or "").encode())
    assert written.topic_config_table["orders"] == topic


def test_the_same_topic_again_is_no_change() -> None:
    scene = Scene()
    assert ask(scene.table(), create()).code == 0
    assert ask(scene.table(), create()).code == 0
    assert scene.announced == 1


@pytest.mark.parametrize(
    ("header", "code", "remark"),
    [
        (create("bad.topic"), ResponseCode.INVALID_PARAMETER, "holds '.' at position 3"),
        (create("bad.topic"), ResponseCode.INVALID_PARAMETER, "The specified topic: bad.topic, "),
        (create("t" * 128), ResponseCode.INVALID_PARAMETER, "the limit is 127"),
        (create(" "), ResponseCode.INVALID_PARAMETER, "blank"),
        (create("TBW102"), ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        (create("broker-a"), ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        (create(attributes="+message.type=MIXED"), ResponseCode.INVALID_PARAMETER, "MIXED"),
        (create(attributes="message.type=FIFO"), ResponseCode.SYSTEM_ERROR, "message.type"),
        (create(topic_filter_type="NO_TAG"), ResponseCode.SYSTEM_ERROR, "NO_TAG"),
        (create(read_queue_nums=-1), ResponseCode.SYSTEM_ERROR, "read_queue_nums"),
    ],
)
def test_an_invalid_topic_is_refused(header: CreateTopic, code: int, remark: str) -> None:
    scene = Scene()
    answer = ask(scene.table(), header)
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert scene.topics.get("orders") is None
    assert scene.announced == 0


def test_settings_open_what_is_closed() -> None:
    scene = Scene(validate_system_topic_when_update_topic=False, enable_mixed_message_type=True)
    assert ask(scene.table(), create("TBW102", perm=6)).code == 0
    assert ask(scene.table(), create(attributes="+message.type=MIXED")).code == 0


def test_a_list_is_created_whole_or_not_at_all() -> None:
    scene = Scene()
    both = TopicConfigList(topic_config_list=(ORDERS, TopicConfig(topic_name="other")))
    assert ask(scene.table(), CreateTopicList(), both.to_json()).code == 0
    assert scene.topics.get("orders") == ORDERS
    assert scene.announced == 1
    more = TopicConfigList(
        topic_config_list=(TopicConfig(topic_name="third"), TopicConfig(topic_name="bad topic"))
    )
    answer = ask(scene.table(), CreateTopicList(), more.to_json())
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert scene.topics.get("third") is None


def test_a_body_that_is_no_list_is_answered_so() -> None:
    answer = ask(Scene().table(), CreateTopicList(), b"[]")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "TopicConfigList" in (answer.remark or "")


def test_a_topic_is_deleted_with_its_offsets_and_retry_topics() -> None:
    scene = Scene()
    retries = [pop_retry_topic("billing", "orders", version=version) for version in (2, 1)]
    scene.topics.update([TopicConfig(topic_name=name) for name in ("orders", *retries)])
    scene.offsets.commit("billing", "orders", 0, 7)
    assert ask(scene.table(), DeleteTopic(topic="orders")).code == 0
    assert scene.deleted == ["orders", *retries]
    assert all(scene.topics.get(name) is None for name in scene.deleted)
    assert scene.offsets.query("billing", "orders", 0) == -1
    assert "orders" not in (scene.file(TOPICS_FILE) or "")


def test_retry_topics_may_stay() -> None:
    scene = Scene(clear_retry_topic_when_delete_topic=False)
    scene.topics.update([TopicConfig(topic_name=name) for name in ("t", "%RETRY%g_t")])
    scene.offsets.commit("g", "t", 0, 7)
    assert ask(scene.table(), DeleteTopic(topic="t")).code == 0
    assert scene.deleted == ["t"]


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        (" ", "The specified topic is blank."),
        ("SCHEDULE_TOPIC_XXXX", "The topic[SCHEDULE_TOPIC_XXXX] is conflict with system topic."),
        ("rmq_sys_any", "The topic[rmq_sys_any] is conflict with system topic."),
    ],
)
def test_what_is_rocketmqs_own_is_not_deleted(topic: str, remark: str) -> None:
    scene = Scene()
    answer = ask(scene.table(), DeleteTopic(topic=topic))
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, remark)
    assert scene.deleted == []


def test_a_topic_is_returned_in_java_s_form() -> None:
    scene = Scene()
    scene.topics.update([ORDERS])
    answer = ask(scene.table(), GetTopicConfig(topic="orders", logical=True))
    assert bytes(answer.body) == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"orders","topicSysFlag":0,"writeQueueNums":4}'
    )
    answer = ask(scene.table(), GetTopicConfig(topic="other"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "No topic in this broker. topic: other"


def test_all_topics_are_returned_at_once_to_tools_without_pages() -> None:
    scene = Scene(split_metadata_size=2)
    answer = ask(scene.table(), GetAllTopicConfig())
    body = TopicConfigAndMappingTable.from_json(answer.body)
    assert body.topic_config_table == scene.topics.table
    assert body.data_version == scene.topics.data_version
    assert answer.read(GetAllTopicConfigAnswer).total_topic_num == len(scene.topics.table)


def test_pages_of_topics_together_are_the_table() -> None:
    scene = Scene(split_metadata_size=5)
    version = scene.topics.data_version.to_json().decode()
    found: dict[str, TopicConfig] = {}
    while len(found) < len(scene.topics.table):
        header = GetAllTopicConfig(topic_seq=len(found), data_version=version, max_topic_num=2_000)
        body = TopicConfigAndMappingTable.from_json(ask(scene.table(), header).body)
        assert 0 < len(body.topic_config_table) <= 5
        found |= body.topic_config_table
    assert found == scene.topics.table


def test_pages_can_be_switched_off() -> None:
    scene = Scene(enable_split_metadata=False)
    answer = ask(scene.table(), GetAllTopicConfig(topic_seq=3, max_topic_num=1))
    body = TopicConfigAndMappingTable.from_json(answer.body)
    assert body.topic_config_table == scene.topics.table


def test_the_reserved_names_are_listed() -> None:
    answer = ask(Scene().table(), NoFields(), code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    names = TopicList.from_json(answer.body).topic_list
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster"} <= set(names)
    assert list(names) == sorted(names)
