import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from orbitmq.broker.handlers.operator.config import ConfigHandlers
from orbitmq.broker.settings import LiveSettings
from orbitmq.net.connection import Handler
from orbitmq.net.refusal import Refusal
from orbitmq.net.settings_file import SettingsFile
from orbitmq.settings import read
from orbitmq.store.log.append import PutStatus
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.admin import GetBrokerConfigAnswer
from orbitmq.wire.json.properties_text import properties_from_text
from orbitmq.wire.session import Response
from tests.broker.fake_clients import Client, frame
from tests.broker.world import World, ask
from tests.store.logs import incoming


def table(world: World) -> Mapping[int, Handler]:
    return ConfigHandlers(
        settings=world.settings,
        topics=world.topics,
        store=world.store,
        clock=world.clock,
        file=SettingsFile(world.settings.file, world.workers),
    ).table()


def get(world: World) -> Frame:
    return ask(table(world), NoFields(), code=RequestCode.GET_BROKER_CONFIG)


def update(world: World, text: bytes) -> Frame:
    return ask(table(world), NoFields(), text, code=RequestCode.UPDATE_BROKER_CONFIG)


def test_settings_are_returned_by_javas_names_with_their_version() -> None:
    world = World(broker_name="broker-b")
    answer = get(world)
    results = properties_from_text(answer.body)
    assert results["brokerName"] == "broker-b"
    assert results["autoCreateTopicEnable"] == "true"
    assert results["flushDiskType"] == "ASYNC_FLUSH"
    version = answer.read(GetBrokerConfigAnswer).version
    assert DataVersion.from_json(version.encode()) == world.settings.data_version


def test_an_update_holds_at_once() -> None:
    world = World()
    world.clock.now += 7
    assert update(world, b"maxMessageSize=1024\nlongPollingEnable=false\n").code == 0
    assert world.settings.store.max_message_bytes == 1024
    assert not world.settings.broker.long_polling_enable
    assert properties_from_text(get(world).body)["maxMessageSize"] == "1024"
    assert world.settings.data_version.timestamp == world.clock.now
    assert world.topics.data_version.counter == 0


def test_the_log_level_is_that_of_the_process() -> None:
    logger, world = logging.getLogger("orbitmq"), World()
    before = logger.level
    try:
        assert update(world, b"logLevel=DEBUG").code == 0
        assert logger.level == logging.DEBUG
        assert update(world, b"logLevel=loud").code == ResponseCode.INVALID_PARAMETER
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize("size", [1_000, 20_000])
def test_another_message_size_holds_for_the_next_message(size: int) -> None:
    world = World()
    assert update(world, b"maxMessageSize=10000").code == 0
    assert update(world, b"maxMessageSize=%d" % size).code == 0
    messages = [incoming(bytes(length)) for length in (size, size + 1)]
    assert [result.status for result in world.store.append(messages)] == [
        PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL,
    ]  # fmt: skip


def test_new_topics_have_as_many_queues_as_was_set_last() -> None:
    world = World()
    assert update(world, b"defaultTopicQueueNums=16").code == 0
    created = world.topics.for_send("orders", "TBW102", 32, 0)
    assert created is not None
    assert (created.read_queue_nums, created.write_queue_nums) == (16, 16)
    assert world.changes == [[], ["orders"]]  # clients ask nameservers for its queues


def test_topics_are_created_by_sends_from_when_it_is_set_on() -> None:
    world = World(auto_create_topic_enable=False)
    assert world.topics.for_send("orders", "TBW102", 4, 0) is None
    assert update(world, b"autoCreateTopicEnable=true").code == 0
    assert world.changes == [["TBW102"]]
    assert world.topics.for_send("orders", "TBW102", 4, 0) is not None
    assert update(world, b"autoCreateTopicEnable=false").code == 0
    assert world.topics.for_send("bills", "TBW102", 4, 0) is None


def test_the_store_takes_what_it_can_at_once() -> None:
    world = World()
    assert update(world, b"fileReservedTime=24\nmaxTransferCountOnMessageInMemory=64\n").code == 0
    assert world.store.settings.reserved_hours == 24
    assert world.store.settings.pull_count_in_memory == 64
    refused = update(world, b"mappedFileSizeCommitLog=1048576\n")
    assert refused.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(("permission", "versions"), [(b"4", 1), (b"6", 0)])
def test_a_new_permission_is_registered_with_nameservers(permission: bytes, versions: int) -> None:
    world = World()
    assert update(world, b"brokerPermission=" + permission).code == 0
    assert world.topics.data_version.counter == versions


def test_an_update_is_written_to_the_file_of_the_broker(tmp_path: Path) -> None:
    world = World()
    file = tmp_path / "broker.conf"
    file.write_text("# big ones\nmaxMessageSize = 4194304\n")
    world.settings.file = str(file)
    assert update(world, b"maxMessageSize=1024\ntraceOn=false").code == 0
    assert file.read_text() == "# big ones\nmaxMessageSize=1024\ntraceOn=false\n"
    assert LiveSettings.load(read(str(file))).store.max_message_bytes == 1024


def test_nothing_that_was_refused_is_written(tmp_path: Path) -> None:
    world = World()
    file = tmp_path / "broker.conf"
    file.write_text("traceOn=true\n")
    world.settings.file = str(file)
    assert update(world, b"traceOn=false\naclEnable=true").code == ResponseCode.NO_PERMISSION
    assert file.read_text() == "traceOn=true\n"


def test_a_key_that_is_harmless_here_is_accepted() -> None:
    world = World()
    assert update(world, b"sendMessageThreadPoolNums=64\ntraceOn=false").code == 0
    assert not world.settings.broker.trace_on


JAVA_S_WORDS = {
    ResponseCode.NO_PERMISSION: "Can not update config in black list.",
    ResponseCode.SYSTEM_ERROR: "string2Properties error",
}
"""A value that can't be is our own to refuse; Java logs it and answers with a success."""


@pytest.mark.parametrize(
    ("text", "code", "remark"),
    [
        (b"traceOn=false\nstorePathRootDir=/tmp", ResponseCode.NO_PERMISSION, "storePathRootDir"),
        (b"namesrvAddr=10.0.0.1:9876", ResponseCode.NO_PERMISSION, "can't be changed while the"),
        (b"aclEnable=true", ResponseCode.NO_PERMISSION, "there is no access control yet"),
        (b"noSuchThing=1", ResponseCode.NO_PERMISSION, "the request:1: noSuchThing is not known"),
        (b"maxMessageSize=big", ResponseCode.INVALID_PARAMETER, "the request:1: maxMessageSize"),
        (b"traceOn=\\u12", ResponseCode.SYSTEM_ERROR, "hexadecimal"),
        (b"traceOn=\xff", ResponseCode.SYSTEM_ERROR, "not UTF-8 at byte 8"),
        (b"#" * 65_537, ResponseCode.INVALID_PARAMETER, "the limit is 65536"),
    ],
)
def test_what_may_not_be_set_is_refused_with_the_reason(
    text: bytes, code: ResponseCode, remark: str
) -> None:
    world = World()
    answer = update(world, text)
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert (answer.remark or "").startswith(JAVA_S_WORDS.get(code, ""))
    assert world.settings.broker.trace_on
    assert world.settings.data_version.counter == 0


def set_read_mode(world: World, mode: str | None) -> Frame:
    code = RequestCode.SET_COMMITLOG_READ_MODE
    request = frame(code, fields={} if mode is None else {"READ_AHEAD_MODE": mode})
    handler = table(world)[code]
    try:
        answer = handler(Client().connection, request)
    except Refusal as refusal:
        answer = refusal.response()
    assert isinstance(answer, Response)
    return frame(answer.code, remark=answer.remark)


def test_read_ahead_is_turned_off_and_on() -> None:
    world = World()
    for mode, on in (("1", False), ("0", True)):
        answer = set_read_mode(world, mode)
        assert answer.code == ResponseCode.SUCCESS
        assert answer.remark == f"set commitlog readahead mode success, mode: {mode}"
        assert world.store.settings.read_ahead is on


@pytest.mark.parametrize("mode", ["2", "", None])
def test_another_mode_of_reading_is_refused(mode: str | None) -> None:
    world = World()
    answer = set_read_mode(world, mode)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert (answer.remark or "").startswith("set commitlog readahead mode param value error")
    assert world.store.settings.read_ahead
