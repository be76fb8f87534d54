"""Every declared body, filled at random: Java reads what we write, and we what it writes back."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from msgspec.structs import replace

from orbitmq.wire import bodies
from orbitmq.wire.bodies.registration import BrokerRegistration
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.json.body import Body
from tests.interop.cases import CASES, Chance
from tests.interop.filling import Filling
from tests.interop.java import Java
from tests.interop.operations import (
    COMPRESS_REGISTRATION,
    OPEN_REGISTRATION,
    REWRITE_BODY,
    JsonBody,
)

# Classes of Java whose names are not ours.
JAVA_NAMES = {
    "AssignmentQuery": "QueryAssignmentRequestBody",
    "Assignments": "QueryAssignmentResponseBody",
    "BatchAcks": "BatchAckMessageRequestBody",
    "BrokerMembers": "GetBrokerMemberGroupResponseBody",
    "BrokerRegistration": "RegisterBrokerBody",
    "ConsumeQueueEntries": "QueryConsumeQueueResponseBody",
    "ConsumeTimeSpans": "QueryConsumeTimeSpanBody",
    "ConsumerIdList": "GetConsumerListByGroupResponseBody",
    "ConsumerOffsetTable": "ConsumerOffsetSerializeWrapper",
    "ConsumerStatus": "GetConsumerStatusBody",
    "CorrectionOffsets": "QueryCorrectionOffsetBody",
    "DelayOffsetTable": "DelayOffsetSerializeWrapper",
    "HAClientRuntimeInfo": "HARuntimeInfo$HAClientRuntimeInfo",
    "HAConnectionRuntimeInfo": "HARuntimeInfo$HAConnectionRuntimeInfo",
    "LmqOffsetTable": "LmqConsumerOffsetManager",
    "LocalOffsetTable": "OffsetSerializeWrapper",
    "LockRequest": "LockBatchRequestBody",
    "LockedQueues": "LockBatchResponseBody",
    "OffsetReset": "ResetOffsetBody",
    "OffsetResetForC": "ResetOffsetBodyForC",
    "QueueOffset": "MessageQueueForC",
    "ReplicaIdentity": "BrokerReplicasInfo$ReplicaIdentity",
    "ReplicasInfo": "BrokerReplicasInfo$ReplicasInfo",
    "RequestModeSetting": "SetMessageRequestModeRequestBody",
    "RequestModeTable": "MessageRequestModeSerializeWrapper",
    "SubscriptionAnswer": "QuerySubscriptionResponseBody",
    "SubscriptionCheck": "CheckClientRequestBody",
    "SubscriptionGroupTable": "SubscriptionGroupWrapper",
    "TimerMetrics": "TimerMetrics$TimerMetricsSerializeWrapper",
    "TopicConfigAndMappingTable": "TopicConfigAndMappingSerializeWrapper",
    "TopicConfigList": "CreateTopicListRequestBody",
    "TopicConfigTable": "TopicConfigSerializeWrapper",
    "TopicQueueMappingTable": "TopicQueueMappingSerializeWrapper",
    "TopicRemappingDetail": "TopicRemappingDetailWrapper",
    "TopicTimers": "TimerMetrics$Metric",
    "UnlockRequest": "UnlockBatchRequestBody",
}

# Bodies that 4.9 has no class for.
NEW_IN_5 = {
    "AssignmentQuery",
    "Assignments",
    "BatchAck",
    "BatchAcks",
    "BrokerMemberGroup",
    "BrokerMembers",
    "BrokerReplicasInfo",
    "BrokerSyncInfo",
    "CustomizedRetryPolicy",
    "EpochEntry",
    "EpochEntryCache",
    "ExponentialRetryPolicy",
    "GroupForbidden",
    "GroupRetryPolicy",
    "HAClientRuntimeInfo",
    "HAConnectionRuntimeInfo",
    "HARuntimeInfo",
    "LogicQueueMappingItem",
    "MessageQueueAssignment",
    "PopProcessQueueInfo",
    "ReplicaIdentity",
    "ReplicasInfo",
    "RequestModeSetting",
    "RequestModeTable",
    "SimpleSubscriptionData",
    "SubscriptionAnswer",
    "SubscriptionGroupList",
    "SyncStateSet",
    "TimerMetrics",
    "TopicConfigAndMappingTable",
    "TopicConfigAndQueueMapping",
    "TopicConfigList",
    "TopicQueueMappingDetail",
    "TopicQueueMappingInfo",
    "TopicQueueMappingOne",
    "TopicQueueMappingTable",
    "TopicRemappingDetail",
    "TopicTimers",
}

# Fields that take a few values only.
CHOICES: dict[str, tuple[object, ...]] = {
    "language": ("JAVA", "PYTHON", "GO"),
    # An AtomicLong in Java, of which fastjson 2.0.43, the one of 5.4.0, reads 32 bits alone.
    "counter": (0, 7, 2**31 - 1),
    # A broker keeps it in its file; the class that travels doesn't have it.
    "groupTopicMap": (None,),
}

# These have AtomicLongs too.
NARROW = {"LocalOffsetTable", "TimerMetrics", "TopicTimers"}

# Java's object has one even if the text has none.
VERSIONED = {"LmqOffsetTable", "TimerMetrics"}

# Java keeps these objects in sets, and compares them by this field.
ALWAYS = {"messageQueue"}


def descendants(body: type[Body]) -> Iterator[type[Body]]:
    for child in body.__subclasses__():
        yield child
        yield from descendants(child)


for module in pkgutil.iter_modules(bodies.__path__, f"{bodies.__name__}."):
    importlib.import_module(module.name)
# Other rooms have files of their own in that form, which Java keeps elsewhere.
DECLARED = sorted(
    {body for body in descendants(Body) if body.__module__.startswith(bodies.__name__)},
    key=lambda body: body.__name__,
)
EACH = CASES // len(DECLARED)


def random_bodies(chance: Chance, body: type[Body]) -> list[Body]:
    filling = Filling(chance, CHOICES, ALWAYS, bits=32 if body.__name__ in NARROW else 64)
    found = [filling.struct(body) for _ in range(EACH)]
    if body.__name__ in VERSIONED:
        version = DataVersion(timestamp=7)
        found = [replace(one, data_version=version) for one in found]
    return found


def sent_to_java(chance: Chance, body: Body) -> JsonBody:
    """Write a body in either of the forms that Java reads."""
    name = type(body).__name__
    text = body.to_json(java_keys=chance.random() < 0.5)
    return JsonBody(JAVA_NAMES.get(name, name), text)


def canonical(value: object) -> object:
    """Return a value that compares without order, since Java keeps many of these in sets."""
    match value:
        case msgspec.Struct():
            return [(name, canonical(getattr(value, name))) for name in value.__struct_fields__]
        case Mapping():
            pairs = [(canonical(key), canonical(item)) for key, item in value.items()]
            return sorted(pairs, key=repr)
        case tuple() | list():
            return sorted(map(canonical, value), key=repr)
    return value


def is_kept(read: object, sent: object) -> bool:
    """Tell whether ``read`` is ``sent``, but for fields that the other side doesn't know."""
    match read, sent:
        case msgspec.Struct(), msgspec.Struct():
            return all(
                getattr(read, field.name) == default_of(field)
                or is_kept(getattr(read, field.name), getattr(sent, field.name))
                for field in msgspec.structs.fields(read)
            )
        case Mapping(), Mapping():
            return set(read) == set(sent) and all(is_kept(read[key], sent[key]) for key in sent)
        case tuple(), tuple():
            pairs = ([is_kept(one, other) for other in sent] for one in read)
            return len(read) == len(sent) and all(map(any, pairs))
    return read == sent


def default_of(field: msgspec.structs.FieldInfo) -> object:
    """Return what a field is if nobody says; all fields of bodies have such a value."""
    made: object = field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else made


def each(bodies: list[type[Body]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("body", bodies, ids=[body.__name__ for body in bodies])


@each(DECLARED)
def test_a_body_comes_back_from_java_as_it_was(
    java_540: Java, chance: Chance, body: type[Body]
) -> None:
    sent = random_bodies(chance, body)
    answers = java_540.ask(REWRITE_BODY, [sent_to_java(chance, one) for one in sent])
    for one, answer in zip(sent, answers, strict=True):
        assert canonical(body.from_json(answer)) == canonical(one)


@each([body for body in DECLARED if body.__name__ not in NEW_IN_5])
def test_4_9_7_keeps_what_it_knows(java_497: Java, chance: Chance, body: type[Body]) -> None:
    sent = random_bodies(chance, body)
    answers = java_497.ask(REWRITE_BODY, [sent_to_java(chance, one) for one in sent])
    for one, answer in zip(sent, answers, strict=True):
        assert is_kept(body.from_json(answer), one)


def random_registration(chance: Chance) -> BrokerRegistration:
    """A registration as a broker makes it: topics under their names, which have no blanks."""
    made = Filling(chance, CHOICES | {"attributes": ({}, {"message.type": "NORMAL"})}).struct(
        BrokerRegistration
    )
    table = made.topics
    topics = [replace(one, topic_name=chance.name()) for one in table.topic_config_table.values()]
    mappings = [
        replace(one, topic=chance.name()) for one in table.topic_queue_mapping_info_map.values()
    ]
    table = replace(
        table,
        topic_config_table={topic.topic_name: topic for topic in topics},
        topic_queue_mapping_info_map={mapping.topic: mapping for mapping in mappings},
    )
    return replace(made, topics=table)


def without_mapping_version(registration: BrokerRegistration) -> object:
    """The compressed form has no version of the mappings, and Java makes up one."""
    topics = replace(registration.topics, mapping_data_version=DataVersion())
    return canonical(replace(registration, topics=topics))


def test_java_reads_our_compressed_registrations(java_540: Java, chance: Chance) -> None:
    compressed = [random_registration(chance).to_compressed() for _ in range(EACH)]
    for one, text in zip(compressed, java_540.ask(OPEN_REGISTRATION, compressed), strict=True):
        theirs = BrokerRegistration.from_json(text)
        ours = BrokerRegistration.from_compressed(one)
        assert without_mapping_version(ours) == without_mapping_version(theirs)


def test_we_read_compressed_registrations_of_java(java_540: Java, chance: Chance) -> None:
    sent = [random_registration(chance) for _ in range(EACH)]
    answers = java_540.ask(COMPRESS_REGISTRATION, [one.to_json() for one in sent])
    for one, answer in zip(sent, answers, strict=True):
        theirs = BrokerRegistration.from_compressed(answer)
        ours = BrokerRegistration.from_compressed(one.to_compressed())
        assert canonical(theirs) == canonical(ours)
