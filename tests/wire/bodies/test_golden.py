"""Bodies that Java wrote: every byte of them is carried into our classes and back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.wire.json.body import Body
from orbitmq.wire.json.properties_text import properties_from_text, properties_to_text
from tests.wire.bodies.classes import BY_JAVA_NAME

GOLDEN = Path(__file__).parents[2] / "golden"


def load(name: str) -> dict[str, list[dict[str, str]]]:
    return dict(json.loads((GOLDEN / name).read_text()))


SAMPLES = [
    pytest.param(BY_JAVA_NAME[body["class"]], body["json_text"], id=f"{file} {body['name']}")
    for file in ("bodies.json", "bodies_fastjson1.json")
    for body in load(file)["bodies"]
    if "json_text" in body
]


@pytest.mark.parametrize(("body_class", "text"), SAMPLES)
def test_a_sample_is_written_back_as_java_wrote_it(body_class: type[Body], text: str) -> None:
    body = body_class.from_json(text.encode())
    assert body.to_json(java_keys=True).decode() == text


@pytest.mark.parametrize(("body_class", "text"), SAMPLES)
def test_our_own_form_of_a_sample_says_the_same(body_class: type[Body], text: str) -> None:
    body = body_class.from_json(text.encode())
    assert body_class.from_json(body.to_json()) == body


# What the bodies of the recorded sessions are: by request name, for requests and for answers.
REQUESTS = {
    "CHECK_CLIENT_CONFIG": "CheckClientRequestBody",
    "HEART_BEAT": "HeartbeatData",
    "LOCK_BATCH_MQ": "LockBatchRequestBody",
    "QUERY_ASSIGNMENT": "QueryAssignmentRequestBody",
    "REGISTER_BROKER": "RegisterBrokerBody",
    "SET_MESSAGE_REQUEST_MODE": "SetMessageRequestModeRequestBody",
    "UNLOCK_BATCH_MQ": "UnlockBatchRequestBody",
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": "SubscriptionGroupConfig",
}
ANSWERS = {
    "CONSUME_MESSAGE_DIRECTLY": "ConsumeMessageDirectlyResult",
    "GET_ALL_CONSUMER_OFFSET": "ConsumerOffsetSerializeWrapper",
    "GET_ALL_DELAY_OFFSET": "DelayOffsetSerializeWrapper",
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": "SubscriptionGroupWrapper",
    "GET_ALL_TOPIC_CONFIG": "TopicConfigAndMappingSerializeWrapper",
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER": "TopicList",
    "GET_BROKER_CLUSTER_INFO": "ClusterInfo",
    "GET_BROKER_RUNTIME_INFO": "KVTable",
    "GET_CONSUMER_CONNECTION_LIST": "ConsumerConnection",
    "GET_CONSUMER_LIST_BY_GROUP": "GetConsumerListByGroupResponseBody",
    "GET_CONSUMER_RUNNING_INFO": "ConsumerRunningInfo",
    "GET_CONSUME_STATS": "ConsumeStats",
    "GET_PRODUCER_CONNECTION_LIST": "ProducerConnection",
    "GET_ROUTEINFO_BY_TOPIC": "TopicRouteData",
    "GET_TOPIC_CONFIG": "TopicConfigAndQueueMapping",
    "GET_TOPIC_STATS_INFO": "TopicStatsTable",
    "INVOKE_BROKER_TO_RESET_OFFSET": "ResetOffsetBody",
    "LOCK_BATCH_MQ": "LockBatchResponseBody",
    "QUERY_ASSIGNMENT": "QueryAssignmentResponseBody",
    "QUERY_CONSUME_QUEUE": "QueryConsumeQueueResponseBody",
}


def body_of(frame_hex: str) -> bytes:
    """Return what follows the header: 4 bytes of length, 1 of encoding, 3 of header length."""
    frame = bytes.fromhex(frame_hex)
    return frame[8 + int.from_bytes(frame[5:8], "big") :]


def recorded_bodies() -> Iterator[tuple[str, str, bytes]]:
    """Yield (where, request or answer and its name, body) of all that was recorded."""
    for file in ("session_json.json", "session_rocketmq.json"):
        for frame in load(file)["frames"]:
            side = "answer" if frame["kind"] == "response" else "request"
            where = f"{file} {frame['seq']}"
            yield where, f"{side} {frame['request_name']}", body_of(frame["hex"])


def request_names() -> dict[int, str]:
    codes = json.loads((GOLDEN / "constants.json").read_text())["request_codes"]
    return {code: name for name, code in codes.items()}


def probed_bodies() -> Iterator[tuple[str, str, bytes]]:
    names = request_names()
    for probe in load("probes.json")["probes"]:
        header = probe["request_header"]
        if not isinstance(header, dict):
            continue  # a header broken on purpose
        name = names.get(header["code"], "")
        yield probe["name"], f"request {name}", body_of(probe["request_hex"])
        # The answer to a probe may have been followed by others on the same connection.
        yield probe["name"], f"answer {name}", first_body_of(probe["response_hex"])


def first_body_of(frames_hex: str | None) -> bytes:
    if frames_hex in (None, "CLOSED", "TIMEOUT"):
        return b""
    size = int(frames_hex[:8], 16)
    return body_of(frames_hex[: 2 * (4 + size)])


def class_of(side_and_name: str) -> type[Body] | None:
    side, name = side_and_name.split(" ", 1)
    java_name = (ANSWERS if side == "answer" else REQUESTS).get(name)
    return BY_JAVA_NAME[java_name] if java_name else None


def test_every_recorded_json_body_is_carried_over() -> None:
    seen = set()
    for where, name, body in recorded_bodies():
        body_class = class_of(name)
        if body_class is None:
            assert not body.startswith(b'{"'), f"{where}: {name} has a JSON body of no class"
        elif body:
            # Routes come in the standard form or in Java's, depending on who asks.
            read = body_class.from_json(body)
            assert body in (read.to_json(java_keys=True), read.to_json()), where
            seen.add(name)
    assert len(seen) >= 26


def test_every_probed_json_body_is_read() -> None:
    seen = set()
    for where, name, body in probed_bodies():
        body_class = class_of(name)
        if body_class is not None and body:
            read = body_class.from_json(body)
            assert body_class.from_json(read.to_json()) == read, where
            seen.add(name)
    assert len(seen) >= 8


def test_the_configuration_of_servers_is_read() -> None:
    configurations = [body for _, name, body in recorded_bodies() if name.endswith("_CONFIG")]
    configurations = [body for body in configurations if body and not body.startswith(b"{")]
    assert len(configurations) >= 3
    for body in configurations:
        assert properties_to_text(properties_from_text(body)) == body
