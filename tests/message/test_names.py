from collections.abc import Callable
from typing import TypedDict

import pytest

from orbitmq.errors import InvalidGroup, InvalidInput, InvalidTopic, MessageTooLarge
from orbitmq.message import names
from tests.golden_files import golden


class Verdict(TypedDict):
    name: str
    client_topic_error: str | None
    client_group_error: str | None
    client_send_forbidden_error: str | None
    broker_topic_valid: bool
    broker_group_valid: bool
    is_system_topic: bool


class Wrapped(TypedDict):
    namespace: str | None
    resource: str
    wrapped: str
    already: bool


class Unwrapped(TypedDict):
    resource: str
    namespace: str | None
    without_given_namespace: str
    without_any_namespace: str
    namespace_of: str


GOLDEN = golden("names")
VERDICTS: list[Verdict] = GOLDEN["validators"]
WRAPPED: list[Wrapped] = GOLDEN["wrap_namespace"]
UNWRAPPED: list[Unwrapped] = GOLDEN["without_namespace"]


def accepts(check: Callable[[str], None], name: str) -> bool:
    try:
        check(name)
    except (InvalidTopic, InvalidGroup):
        return False
    return True


@pytest.mark.parametrize("java", VERDICTS, ids=lambda java: java["name"][:20])
def test_accepts_what_java_accepts(java: Verdict) -> None:
    name = java["name"]
    assert accepts(names.check_topic, name) == (java["client_topic_error"] is None)
    assert accepts(names.check_group, name) == (java["client_group_error"] is None)
    assert accepts(names.check_sendable, name) == (java["client_send_forbidden_error"] is None)
    assert accepts(names.check_stored_topic, name) == java["broker_topic_valid"]
    assert accepts(names.check_group, name) == java["broker_group_valid"]
    assert names.is_system_topic(name) == java["is_system_topic"]


@pytest.mark.parametrize("name", ["", " ", "a.b", "a" * 128])
def test_an_error_has_field_and_length(name: str) -> None:
    with pytest.raises(InvalidTopic) as topic_error:
        names.check_topic(name)
    with pytest.raises(InvalidGroup) as group_error:
        names.check_group(name)
    assert (topic_error.value.field, topic_error.value.length) == ("topic", len(name))
    assert (group_error.value.field, group_error.value.length) == ("group", len(name))


def test_only_the_broker_takes_long_names_of_retry_topics() -> None:
    longest = "%DLQ%" + "g" * 250
    names.check_stored_topic(longest)
    with pytest.raises(InvalidTopic, match="255 characters, the limit is 127"):
        names.check_topic(longest)
    with pytest.raises(InvalidTopic, match="256 characters, the limit is 255") as caught:
        names.check_stored_topic(longest + "g")
    assert (caught.value.length, caught.value.limit) == (256, 255)


def test_a_long_name_is_not_shown_whole() -> None:
    with pytest.raises(InvalidGroup) as caught:
        names.check_group("g" * 10_000)
    assert len(str(caught.value)) < 120


def test_a_name_that_is_no_text() -> None:
    with pytest.raises(InvalidTopic, match="topic must be a str, not bytes"):
        names.check_topic(b"orders")  # type: ignore[arg-type]


def test_a_line_end_is_no_part_of_a_name() -> None:
    with pytest.raises(InvalidTopic, match=r"holds '\\n' at position 6"):
        names.check_topic("orders\n")


def test_every_topic_forbidden_to_send_to_is_a_system_topic() -> None:
    assert all(map(names.is_system_topic, names.FORBIDDEN_TO_SEND))
    assert not names.is_system_topic("%RETRY%billing")


def test_body_sizes() -> None:
    names.check_body(4 * 1024 * 1024)
    with pytest.raises(MessageTooLarge, match="4194305 bytes, the limit is 4194304") as caught:
        names.check_body(4 * 1024 * 1024 + 1)
    assert (caught.value.field, caught.value.length) == ("body", 4194305)
    with pytest.raises(MessageTooLarge, match="the limit is 10"):
        names.check_body(11, limit=10)


def test_properties_sizes() -> None:
    names.check_properties(32767)
    with pytest.raises(MessageTooLarge) as caught:
        names.check_properties(32768)
    assert (caught.value.field, caught.value.limit) == ("properties", 32767)


def test_derived_names() -> None:
    assert names.retry_topic("CG") == GOLDEN["retry_topic_of_CG"]
    assert names.dead_letter_topic("CG") == GOLDEN["dlq_topic_of_CG"]
    assert names.reply_topic("DefaultCluster") == GOLDEN["reply_topic_of_DefaultCluster"]
    assert names.pop_retry_topic("CG", "TopicA") == GOLDEN["pop_retry_v1"]
    assert names.pop_retry_topic("CG", "TopicA", version=2) == GOLDEN["pop_retry_v2"]
    assert names.vip_address("127.0.0.1:10911") == GOLDEN["vip_addr_of_127.0.0.1:10911"]


def test_kinds_of_names() -> None:
    assert names.is_retry_topic("%RETRY%CG")
    assert not names.is_retry_topic("%DLQ%CG")
    assert names.is_dead_letter_topic("%DLQ%CG")
    assert not names.is_dead_letter_topic("DLQ")
    assert names.is_lmq("%LMQ%x")
    assert not names.is_lmq("x")


@pytest.mark.parametrize("address", ["127.0.0.1", ":10911", "a:2", "a:65536", "a:x", "a:", "a:²"])
def test_vip_address_needs_a_port(address: str) -> None:
    with pytest.raises(InvalidInput, match="must be host:port"):
        names.vip_address(address)


@pytest.mark.parametrize("java", WRAPPED, ids=lambda java: f"{java['namespace']}-{java['wrapped']}")
def test_wrap_namespace(java: Wrapped) -> None:
    namespace, name = java["namespace"], java["resource"]
    assert names.wrap_namespace(namespace, name) == java["wrapped"]
    assert names.has_namespace(name, namespace) == java["already"]


@pytest.mark.parametrize(
    "java", UNWRAPPED, ids=lambda java: f"{java['resource']}-{java['namespace']}"
)
def test_strip_namespace(java: Unwrapped) -> None:
    name = java["resource"]
    assert names.strip_namespace(name, java["namespace"]) == java["without_given_namespace"]
    assert names.strip_any_namespace(name) == java["without_any_namespace"]
    assert names.namespace_of(name) == java["namespace_of"]


def test_system_names_are_in_no_namespace() -> None:
    assert names.namespace_of("rmq_sys_a%b") == ""
    assert names.strip_any_namespace("CID_RMQ_SYS_a%b") == "CID_RMQ_SYS_a%b"
