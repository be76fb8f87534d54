"""The fields of our classes against those that Java's reflection gives."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body
from tests.wire.bodies.classes import BY_JAVA_NAME, OURS

GOLDEN = Path(__file__).parents[2] / "golden"
JAVA_BODIES: dict[str, list[dict[str, str]]] = json.loads((GOLDEN / "constants.json").read_text())[
    "bodies"
]

# Not bodies of brokers, nameservers and clients: the controller, ACL 2.0, epochs of replicas.
LATER = {
    *("AclInfo", "AclInfo$PolicyEntryInfo", "AclInfo$PolicyInfo", "UserInfo"),
    *("BrokerReplicasInfo$ReplicaIdentity", "BrokerReplicasInfo$ReplicasInfo"),
    *("ElectMasterResponseBody", "RoleChangeNotifyEntry"),
}
NOT_ON_THE_WIRE = {
    "BrokerData": {"random"},
    "HARuntimeInfo$HAClientRuntimeInfo": {"isActivated"},
    "SubscriptionData": {"filterClassSource"},
}
# Written by the broker's own class, not by the one that slaves read with.
ALSO_ON_THE_WIRE = {"ConsumerOffsetSerializeWrapper": {"groupTopicMap"}}
NAMED_OTHERWISE = {
    "BatchAck": {
        "consumerGroup": "c",
        "topic": "t",
        "retry": "r",
        "startOffset": "so",
        "queueId": "q",
        "reviveQueueId": "rq",
        "popTime": "pt",
        "invisibleTime": "it",
        "bitSet": "b",
    },
    "HeartbeatData": {"isWithoutSub": "withoutSub"},
}
KINDS = {
    "int": inspect.type_info(Int32),
    "long": inspect.type_info(Int64),
    "boolean": inspect.BoolType(),
    "double": inspect.FloatType(),
}


def kinds(body_class: type[Body]) -> dict[str, inspect.Type]:
    info = inspect.type_info(body_class)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field.type for field in info.fields}


def test_every_class_of_java_is_declared_or_left_for_later() -> None:
    assert set(JAVA_BODIES) - set(BY_JAVA_NAME) == LATER


@pytest.mark.parametrize("java_name", sorted(set(JAVA_BODIES) & set(BY_JAVA_NAME)))
def test_names_and_types_of_fields_are_those_of_java(java_name: str) -> None:
    ours = kinds(BY_JAVA_NAME[java_name])
    renamed = NAMED_OTHERWISE.get(java_name, {})
    java = {
        renamed.get(field["name"], field["name"]): field["type"]
        for field in JAVA_BODIES[java_name]
        if field["name"] not in NOT_ON_THE_WIRE.get(java_name, set())
    }
    assert set(ours) == set(java) | ALSO_ON_THE_WIRE.get(java_name, set())
    for name, java_type in java.items():
        if java_type in KINDS:
            assert ours[name] == KINDS[java_type], name
        elif "Map<MessageQueue," in java_type:
            assert "QueueMap" in str(ours[name]), name


@pytest.mark.parametrize("body_class", OURS.values(), ids=OURS)
def test_fields_stand_in_the_order_java_writes_them(body_class: type[Body]) -> None:
    names = list(kinds(body_class))
    assert names == sorted(names)


@pytest.mark.parametrize("body_class", OURS.values(), ids=OURS)
def test_an_empty_object_has_all_defaults(body_class: type[Body]) -> None:
    assert body_class.from_json(b"{}") == body_class()


@pytest.mark.parametrize("body_class", OURS.values(), ids=OURS)
def test_null_is_none_or_the_default(body_class: type[Body]) -> None:
    declared = kinds(body_class)
    defaults = msgspec.structs.asdict(body_class())
    expected = {
        field.name: None if allows_none(declared[field.encode_name]) else defaults[field.name]
        for field in msgspec.structs.fields(body_class)
    }
    nulls = msgspec.json.encode(dict.fromkeys(declared))
    assert body_class.from_json(nulls) == body_class(**expected)


def allows_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.UnionType) and kind.includes_none
