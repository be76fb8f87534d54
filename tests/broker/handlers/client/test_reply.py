"""Replies over a network in memory, to a requester that is a fake."""

from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.broker.clients.members import Members
from orbitmq.broker.handlers.client.reply import ReplyHandlers
from orbitmq.broker.sending.replies import Replies
from orbitmq.message import flags, properties
from orbitmq.message.compression import CompressionType, compress
from orbitmq.message.ids import offset_id
from orbitmq.message.names import reply_topic
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ReplyMessage, SendMessage, SendMessageAnswer, SendMessageV2
from tests.broker.fake_clients import Client
from tests.broker.send_world import HERE, SendWorld, header
from tests.broker.world import ask

TOPIC = reply_topic("DefaultCluster")
REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
TO_ASKER = {"MSG_TYPE": "reply", "REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "c-1", "TTL": "900"}


class Scene(SendWorld):
    """A broker with one requester."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.members = Members()
        self.requester = Client("asker")
        self.members.join_producers("askers", self.requester.member())
        self.replies = ReplyHandlers(
            replies=Replies(
                members=self.members,
                settings=self.settings,
                clock=self.clock,
                store_host=lambda: HERE,
            ),
            checks=self.checks,
            inbox=self.inbox,
            settings=self.settings,
            store_host=lambda: HERE,
        )

    def reply(self, body: bytes = b"42", **fields: Any) -> Frame:
        given = header(TOPIC, **{"properties": TO_ASKER, **fields})
        return ask(self.replies.table(), given, body, code=int(RequestCode.SEND_REPLY_MESSAGE_V2))


def test_a_reply_is_pushed_then_stored() -> None:
    scene = Scene()
    answer = scene.reply()
    assert answer.code == ResponseCode.SUCCESS
    stored = answer.read(SendMessageAnswer)
    assert (stored.msg_id, stored.queue_offset) == (offset_id(HERE, 0), 0)
    ((pushed, body, _, _),) = scene.requester.asked
    assert isinstance(pushed, ReplyMessage)
    assert (pushed.topic, bytes(body)) == (TOPIC, b"42")
    (message,) = scene.stored(TOPIC)
    assert message.body == b"42"
    assert message.properties == TO_ASKER | REGION  # without the time of the push, as in Java


def test_a_reply_with_fields_by_name_is_the_same() -> None:
    scene = Scene(store_reply_message_enable=False)
    letters = header(TOPIC, properties=TO_ASKER)
    named = SendMessage(
        **{
            name: getattr(letters, name)
            for name in SendMessage.__struct_fields__
            if name in SendMessageV2.__struct_fields__
        }
    )
    code = int(RequestCode.SEND_REPLY_MESSAGE)
    answer = ask(scene.replies.table(), named, b"42", code=code)
    assert answer.texts() == {"msgId": "0", "queueId": "0", "queueOffset": "0"} | REGION
    assert len(scene.requester.asked) == 1
    assert scene.stored(TOPIC) == []


def test_a_compressed_reply_can_be_read_from_its_topic() -> None:
    scene = Scene()
    text = b"forty-two " * 100
    zlib = CompressionType.ZLIB
    scene.reply(compress(text, zlib), sys_flag=zlib.sys_flag | flags.TRANSACTION_PREPARED)
    (message,) = scene.stored(TOPIC)
    assert message.body == text


@pytest.mark.parametrize("stores", [True, False])
def test_a_requester_that_is_gone_is_an_error_and_the_reply_is_kept(stores: bool) -> None:
    scene = Scene(store_reply_message_enable=stores)
    scene.members.drop(scene.requester.connection)
    answer = scene.reply()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("push reply message fail, channel of <asker> not found")
    kept = {"msgId": offset_id(HERE, 0), "queueId": "0", "queueOffset": "0"} if stores else {}
    assert answer.texts() == kept | REGION
    assert len(scene.stored(TOPIC)) == stores


def test_a_reply_passes_the_checks_of_a_send() -> None:
    scene = Scene(auto_create_topic_enable=False)
    answer = ask(
        scene.replies.table(),
        header("other_REPLY_TOPIC", properties=TO_ASKER),
        code=int(RequestCode.SEND_REPLY_MESSAGE_V2),
    )
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.texts() == REGION
    assert scene.reply(queue_id=99).code == ResponseCode.INVALID_PARAMETER
    assert scene.requester.asked == []


def test_a_pushed_reply_that_is_not_stored_is_a_success(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    too_long = properties.join(TO_ASKER | {"long": "x" * 40_000}).decode()
    given = replace(header(TOPIC), properties=too_long)
    answer = ask(scene.replies.table(), given, code=int(RequestCode.SEND_REPLY_MESSAGE_V2))
    assert answer.code == ResponseCode.SUCCESS
    assert answer.read(SendMessageAnswer).msg_id == "0"
    assert "a reply was not stored" in caplog.text
