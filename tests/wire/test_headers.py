"""The declared headers against the header classes of Java, read out by reflection."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from orbitmq.wire import fields, headers
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.headers import pull
from orbitmq.wire.headers.send import SendMessage, SendMessageV2
from tests.golden_files import golden

JAVA_HEADERS: dict[str, dict[str, Any]] = golden("constants")["headers"]

# Codes that no part of orbitmq exchanges yet. The list may only shrink.
NOT_DECLARED = {
    # numbers that nothing in RocketMQ 5.x uses
    "QUERY_BROKER_OFFSET", "GET_TOPIC_CONFIG_LIST", "GET_TOPIC_NAME_LIST", "TRIGGER_DELETE_FILES",
    "GET_CLIENT_CONFIG", "SUSPEND_CONSUMER", "RESUME_CONSUMER", "RESET_CONSUMER_OFFSET_IN_CONSUMER",
    "RESET_CONSUMER_OFFSET_IN_BROKER", "ADJUST_CONSUMER_THREAD_POOL", "WHO_CONSUME_THE_MESSAGE",
    "REGISTER_FILTER_SERVER", "REGISTER_MESSAGE_FILTER_CLASS", "GET_SYNC_STATE_DATA_REQUEST",
    # RocksDB stores
    "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", "EXPORT_ROCKSDB_CONFIG_TO_JSON",
    # the controller
    "CONTROLLER_ALTER_SYNC_STATE_SET", "CONTROLLER_REGISTER_BROKER",
    "CONTROLLER_GET_SYNC_STATE_DATA",
    "GET_BROKER_EPOCH_CACHE", "NOTIFY_BROKER_ROLE_CHANGED", "UPDATE_CONTROLLER_CONFIG",
    "GET_CONTROLLER_CONFIG", "CONTROLLER_GET_NEXT_BROKER_ID",
    "CONTROLLER_APPLY_BROKER_ID", "BROKER_CLOSE_CHANNEL_REQUEST",
    "CHECK_NOT_ACTIVE_BROKER_REQUEST", "GET_BROKER_LIVE_INFO_REQUEST",
    "RAFT_BROKER_HEART_BEAT_EVENT_REQUEST",
    # cold reads, access control, timer engines, pop roll-back
    "UPDATE_COLD_DATA_FLOW_CTR_CONFIG", "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
    "GET_COLD_DATA_FLOW_CTR_INFO", "SET_COMMITLOG_READ_MODE", "AUTH_CREATE_USER",
    "AUTH_UPDATE_USER", "AUTH_DELETE_USER", "AUTH_GET_USER", "AUTH_LIST_USER", "AUTH_CREATE_ACL",
    "AUTH_UPDATE_ACL", "AUTH_DELETE_ACL", "AUTH_GET_ACL", "AUTH_LIST_ACL", "SWITCH_TIMER_ENGINE",
    "POP_ROLLBACK",
}  # fmt: skip

# Fields that travel beside those of Java's class, set by its hooks and processors.
BESIDE_THE_CLASS = {
    "SendMessageAnswer": {"MSG_REGION", "TRACE_ON"},
    "QueryMessage": {"_UNIQUE_KEY_QUERY"},
    "GetRouteInfo": {"__ZONE_NAME", "__ZONE_MODE"},
    "RegisterBroker": {"__ZONE_NAME"},
}
# Required in Java 5.4, and not sent by its peers of earlier releases.
NOT_REQUIRED_HERE = {
    ("GetAllTopicConfig", "topicSeq"),
    ("GetAllTopicConfigAnswer", "totalTopicNum"),
    ("GetAllSubscriptionGroup", "groupSeq"),
    ("GetAllSubscriptionGroupAnswer", "totalGroupNum"),
}

JAVA_NAME = {
    "UnregisterBroker": "UnRegisterBrokerRequestHeader",
    "ConsumeMessageDirectly": "ConsumeMessageDirectlyResultRequestHeader",
    "QueryCorrectionOffset": "QueryCorrectionOffsetHeader",
    "GetConsumeStatsInBroker": "GetConsumeStatsInBrokerHeader",
    "ResetMasterFlushOffset": "ResetMasterFlushOffsetHeader",
    "SendMessageV2": "SendMessageRequestHeaderV2",
}
PLAIN = {
    "String": inspect.StrType, "BoundaryType": inspect.StrType,
    "Integer": inspect.IntType, "int": inspect.IntType,
    "Long": inspect.IntType, "long": inspect.IntType,
    "Boolean": inspect.BoolType, "boolean": inspect.BoolType,
}  # fmt: skip
UPPER = {"Integer": 2**31 - 1, "int": 2**31 - 1, "Long": 2**63 - 1, "long": 2**63 - 1}


def all_headers() -> list[type[Header]]:
    public = [getattr(module, name) for module in headers.CONVERSATIONS for name in module.__all__]
    return [thing for thing in public if isinstance(thing, type)]


def java_class_of(header: type[Header]) -> str | None:
    name = header.__name__
    if name.endswith("Answer"):
        return f"{name.removesuffix('Answer')}ResponseHeader"
    return JAVA_NAME.get(name, f"{name}RequestHeader")


def test_every_code_is_declared_or_listed_as_not_yet() -> None:
    undeclared = {code.name for code in RequestCode if headers.request_type(code) is None}
    assert undeclared == NOT_DECLARED


@pytest.mark.parametrize("header", all_headers(), ids=lambda header: header.__name__)
def test_fields_are_those_of_the_java_class(header: type[Header]) -> None:
    if header.__name__ == "HeartbeatAnswer":  # Java sets these two without a class
        assert set(header.__struct_encode_fields__) == {"IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"}
        return
    java = {field["name"]: field for field in JAVA_HEADERS[str(java_class_of(header))]["fields"]}
    ours = set(header.__struct_encode_fields__) - BESIDE_THE_CLASS.get(header.__name__, set())
    assert ours == set(java)


@pytest.mark.parametrize("header", all_headers(), ids=lambda header: header.__name__)
def test_types_bounds_and_what_is_required_are_those_of_java(header: type[Header]) -> None:
    java_class = JAVA_HEADERS.get(str(java_class_of(header)), {"fields": []})
    java = {field["name"]: field for field in java_class["fields"]}
    for field in inspect.type_info(header).fields:  # type: ignore[attr-defined]
        if field.encode_name not in java:
            continue
        declared = java[field.encode_name]
        kinds = field.type.types if isinstance(field.type, inspect.UnionType) else [field.type]
        assert type(kinds[0]) is PLAIN[declared["type"]], field.name
        if isinstance(kinds[0], inspect.IntType):
            assert kinds[0].le == UPPER[declared["type"]], field.name
        # A primitive of Java has a value when the field is missing; only a reference can be null.
        may_be_null = declared["type"][0].isupper() and "default" not in declared
        required = declared["req"] == "required" and may_be_null
        if (header.__name__, field.encode_name) not in NOT_REQUIRED_HERE:
            assert field.required == required, field.name


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_a_code_leads_to_the_header_class_that_java_has_for_it(code: RequestCode) -> None:
    header = headers.request_type(code)
    named = [name for name, java in JAVA_HEADERS.items() if java.get("request_code") == code]
    requests = [name for name in named if "Response" not in name]
    if header is None or header is NoFields or not requests:
        return
    assert java_class_of(header) in requests


def test_the_letters_of_the_short_send_header_stand_for_the_long_one() -> None:
    short = dict(
        zip(SendMessageV2.__struct_fields__, SendMessageV2.__struct_encode_fields__, strict=True)
    )
    letters = {name: letter for name, letter in short.items() if len(letter) == 1}
    assert "".join(sorted(letters.values())) == "abcdefghijklmn"
    assert set(letters) - {"broker_name"} == set(SendMessage.__struct_fields__) - {
        "namespace", "namespaced", "target_broker", "oneway", "logical",
    }  # fmt: skip


def test_the_letters_appear_in_one_place() -> None:
    letter = re.compile(r"""name=["'][a-n]["']""")
    places = [
        module.__name__
        for module in headers.CONVERSATIONS
        if letter.search(Path(str(module.__file__)).read_text())
    ]
    assert places == ["orbitmq.wire.headers.send"]


def test_declaring_a_code_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="SEND_MESSAGE is declared twice"):
        fields.declares(RequestCode.SEND_MESSAGE)(NoFields)
    with pytest.raises(TypeError, match="HEART_BEAT is declared twice"):
        fields.without_fields(RequestCode.HEART_BEAT)


def test_headers_are_frozen() -> None:
    header = SendMessage(
        producer_group="p", topic="t", default_topic="d", default_topic_queue_nums=4, queue_id=0,
        sys_flag=0, born_timestamp=0, flag=0,
    )  # fmt: skip
    with pytest.raises(AttributeError):
        header.topic = "u"  # type: ignore[misc]
    assert msgspec.structs.replace(header, topic="u").topic == "u"


def test_the_bits_of_a_pull_are_those_of_java() -> None:
    bits = (pull.COMMIT_OFFSET, pull.SUSPEND, pull.SUBSCRIPTION, pull.CLASS_FILTER, pull.LITE_PULL)
    assert bits == (1, 2, 4, 8, 16)
