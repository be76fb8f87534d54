"""What Java's clients asked a Java broker, asked of ours in virtual time: it answers alike.

The recorded requests are sent byte for byte, each on the connection and at the moment it came.
Where the Java broker asked a client something, ours has to ask too, and gets the recorded answer.
A remark of a refusal begins with Java's; what the recording lacks is tested where it is made, and
against a live broker in ``tests/interop/test_refusals.py``.
"""

import asyncio
import json
import struct
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.message import scan
from orbitmq.net.address import Address
from orbitmq.settings import Property
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.json.fastjson import standard_json
from tests.golden_files import golden
from tests.java_remarks import begins_as_java_s

Recorded = dict[str, Any]

BEGAN_MS = 1_794_739_781_000
"""When the recording began, so that what is asked for by time is found."""

NOT_SERVED_YET = {
    *("recall a timer message", "sql consumer"),
    *("tx commit", "tx rollback", "tx unknown", "tx check wait", "set request mode"),
}
NOT_RECORDED = {"consume message directly"}
"""The broker's question to the client is there, the tool's to the broker is not."""

HOLD_S = 30
"""Longer than any pull is held."""

OWN_FIELDS = {
    "SEND_MESSAGE_V2": {"msgId"},  # with the broker's address
    "SEND_BATCH_MESSAGE": {"msgId"},
    "SEND_REPLY_MESSAGE_V2": {"msgId"},
    "GET_EARLIEST_MSG_STORETIME": {"timestamp"},
    "QUERY_MESSAGE": {"indexLastUpdatePhyoffset", "indexLastUpdateTimestamp"},
    "GET_BROKER_CONFIG": {"version"},
    "GET_ALL_TOPIC_CONFIG": {"totalTopicNum"},
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": {"totalGroupNum"},
}
"""Values that depend on time or machine, or count what is not supported yet."""

OWN_VALUES = {"clientAddr", "lastTimestamp", "lastUpdateTimestamp"}
COMPARED_ELSEWHERE = {"GET_BROKER_RUNTIME_INFO", "GET_BROKER_CONFIG"}
TABLES = {
    "GET_ALL_TOPIC_CONFIG": "topicConfigTable",
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": "subscriptionGroupTable",
}
JAVA_EXCEPTIONS = {
    "send with missing required field b (topic)": "a NullPointerException, and where it was thrown",
}
"""Probes that fail inside Java; its remark is about its code, ours about the request."""

OWN_OF_A_MESSAGE = (
    "born_host",
    "store_host",
    "store_timestamp_ms",
    "commit_log_offset",
    "message_id",
)


PROBES = [
    one
    for one in golden("probes")["probes"]
    if one["to"] == "broker"
    and one["response_hex"] is not None
    and one["request_header"]["code"] != RequestCode.RECALL_MESSAGE  # not served yet
]


class RecordedTime:
    """The loop's time, as the clock on the wall of the recording."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return BEGAN_MS + self._clock.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()


class Wire(asyncio.Protocol):
    """A client that sends bytes as they are, and answers as the recorded one did."""

    def __init__(self, recorded_answers: dict[int, bytes]) -> None:
        self._recorded_answers = recorded_answers
        self._reader = FrameReader()
        self.transport: asyncio.Transport | None = None
        self.answers: dict[int, Frame] = {}
        self.asked: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.is_answer:
                self.answers[frame.opaque] = frame
                continue
            self.asked.append(frame.code)
            if not frame.is_oneway and frame.code in self._recorded_answers:
                self.send(renumbered(self._recorded_answers[frame.code], frame.opaque))

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


def renumbered(frame: bytes, opaque: int) -> bytes:
    """Return a frame, whose header is JSON, as the answer to another request."""
    (header_size,) = struct.unpack(">I", b"\0" + frame[5:8])
    header = json.loads(frame[8 : 8 + header_size])
    text = json.dumps({**header, "opaque": opaque}).encode()
    rest = struct.pack(">I", len(text)) + text + frame[8 + header_size :]
    return struct.pack(">I", len(rest)) + rest


def frames() -> list[Recorded]:
    return [one for one in golden("session_json")["frames"] if one["link"] == "client-broker"]


def requests() -> list[Recorded]:
    """Return what clients asked, as far as it is served."""
    return [
        one
        for one in frames()
        if one["dir"] == "c2s" and "request" in one["kind"] and one["phase"] not in NOT_SERVED_YET
    ]


def answers_of_clients() -> dict[int, bytes]:
    """Return what clients answered the broker, by the code it had asked with."""
    return {
        int(RequestCode[one["request_name"]]): bytes.fromhex(one["hex"])
        for one in frames()
        if one["dir"] == "c2s" and one["kind"] == "response"
    }


class Exchange(NamedTuple):
    """A request, what Java answered, and what we did."""

    request: Recorded
    java: Frame
    ours: Frame | None

    def __str__(self) -> str:
        return f"{self.request['seq']} {self.request['request_name']}"


class Session(NamedTuple):
    """All that came of the recording and of the probes behind it."""

    exchanges: list[Exchange]
    asked: dict[int, list[int]]
    probes: dict[str, Frame | None]


@cache
def session() -> Session:
    """Return what our broker makes of it all. Treat it as read-only."""

    async def main(clock: VirtualClock) -> Session:
        network = MemoryNetwork()
        machine = Machine(
            network=network,
            disk=SimulatedDisk(),
            clock=RecordedTime(clock),
            workers=lambda _name, _count: InlineWorkers(),
        )
        async with Broker(broker_settings(), machine) as broker:
            wires = await replay(network, broker.address)
            asked = {number: list(wire.asked) for number, wire in wires.items()}
            probes = await probe(network, broker.address)
        return Session(exchanges(wires), asked, probes)

    return run_virtual(main)


def broker_settings() -> LiveSettings:
    said = {
        "listenPort": "10911",
        "storePathRootDir": "/store",
        "mappedFileSizeCommitLog": str(8 * 1024 * 1024),
    }
    return LiveSettings.load(Property(name, value, "test") for name, value in said.items())


async def connect(network: MemoryNetwork, address: Address) -> Wire:
    wire = Wire(answers_of_clients())
    await network.connect(wire, address, tls=None)
    return wire


async def replay(network: MemoryNetwork, address: Address) -> dict[int, Wire]:
    """Send the whole recording, each frame at its moment; return the connections."""
    loop = asyncio.get_running_loop()
    wires: dict[int, Wire] = {}
    for frame in requests():
        if frame["conn"] not in wires:
            wires[frame["conn"]] = await connect(network, address)
        await asyncio.sleep(max(0, frame["t_ms"] / 1000 - loop.time()))
        wires[frame["conn"]].send(bytes.fromhex(frame["hex"]))
    await asyncio.sleep(HOLD_S)
    return wires


async def probe(network: MemoryNetwork, address: Address) -> dict[str, Frame | None]:
    """Send each probe on a connection of its own; return the first answers."""
    refill = await connect(network, address)
    (to_queue_1,) = [one for one in requests() if one["phase"] == "send to queue 1"]
    for _ in range(2):  # the probes expect eight messages there
        refill.send(bytes.fromhex(to_queue_1["hex"]))
    answers = {}
    for one in PROBES:
        wire = await connect(network, address)
        wire.send(bytes.fromhex(one["request_hex"]))
        await asyncio.sleep(HOLD_S)
        answers[one["name"]] = next(iter(wire.answers.values()), None)
    return answers


def exchanges(wires: dict[int, Wire]) -> list[Exchange]:
    """Return the requests that Java answered, each with both answers."""
    java = {
        (one["conn"], one["header"]["opaque"]): read(one["hex"])
        for one in frames()
        if one["dir"] == "s2c" and one["kind"] == "response"
    }
    return [
        Exchange(one, java[key], wires[one["conn"]].answers.get(one["header"]["opaque"]))
        for one in requests()
        if (key := (one["conn"], one["header"]["opaque"])) in java
    ]


def read(text: str) -> Frame:
    """Return the answer in recorded bytes, which may hold a request of the broker before it."""
    found = [frame for frame in FrameReader().feed(bytes.fromhex(text)) if frame.is_answer]
    return found[0]


# The session


def test_each_request_has_an_answer_of_the_same_code() -> None:
    assert len(session().exchanges) > 100
    for one in session().exchanges:
        assert one.ours is not None, one
        assert one.ours.code == one.java.code, one
        assert bool(one.ours.remark) or one.ours.code == ResponseCode.SUCCESS, one


def test_the_remarks_of_refusals_begin_with_java_s() -> None:
    refused = [one for one in session().exchanges if one.java.code != ResponseCode.SUCCESS]
    assert len({one.java.remark for one in refused}) >= 3
    for one in refused:
        assert one.ours is not None
        assert begins_as_java_s(one.ours.remark, one.java.remark), one


def test_the_fields_of_answers_are_java_s() -> None:
    for one in session().exchanges:
        assert one.ours is not None
        ours, java = one.ours.texts(), one.java.texts()
        own = OWN_FIELDS.get(one.request["request_name"], set())
        assert ours.keys() == java.keys(), one
        assert {name for name in ours if ours[name] != java[name]} <= own, one


def test_pulls_and_queries_give_the_same_messages() -> None:
    compared = 0
    for one in session().exchanges:
        if one.request["request_name"].endswith(("PULL_MESSAGE", "QUERY_MESSAGE")):
            assert one.ours is not None
            ours, java = messages_of(one.ours), messages_of(one.java)
            assert ours == java, one
            compared += len(java)
    assert compared > 30


def messages_of(answer: Frame) -> list[dict[str, object]]:
    """Return all of each message that is not the broker's own."""
    found = scan.decode_all(bytes(answer.body), broker_name="broker-a")
    return [
        {
            name: value
            for name, value in msgspec.structs.asdict(message).items()
            if name not in OWN_OF_A_MESSAGE
        }
        for message in found
    ]


def test_json_bodies_say_what_java_s_say() -> None:
    compared = 0
    for one in session().exchanges:
        name = one.request["request_name"]
        if bytes(one.java.body[:1]) != b"{" or name in COMPARED_ELSEWHERE:
            continue
        assert one.ours is not None
        ours, java = (values_of(answer) for answer in (one.ours, one.java))
        if name in TABLES:  # Java's has what phases made that are not served yet
            ours, java = ours[TABLES[name]], java[TABLES[name]]
            java = {key: java[key] for key in ours}
        assert ours == java, one
        compared += 1
    assert compared > 15


def values_of(answer: Frame) -> Any:
    """Return a JSON body as values that can be compared."""
    return comparable(msgspec.json.decode(standard_json(bytes(answer.body)).text))


def comparable(value: Any) -> Any:
    """Return a value without what is the broker's own; a queue that is a key, by its fields."""
    if isinstance(value, dict):
        return {
            str(sorted(json.loads(key).items())) if key.startswith("{") else key: comparable(inner)
            for key, inner in value.items()
            if key not in OWN_VALUES
        }
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def test_clients_are_asked_what_java_asked_them() -> None:
    java: dict[int, list[int]] = {number: [] for number in session().asked}
    for one in frames():
        left_out = one["phase"] in NOT_SERVED_YET | NOT_RECORDED
        if one["dir"] == "s2c" and "request" in one["kind"] and not left_out:
            java[one["conn"]].append(one["code"])
    assert session().asked == java
    assert RequestCode.GET_CONSUMER_RUNNING_INFO in java[9]


# Probes


@pytest.mark.parametrize("recorded", PROBES, ids=lambda recorded: recorded["name"])
def test_probes_are_answered_alike(recorded: Recorded) -> None:
    ours = session().probes[recorded["name"]]
    java = read(recorded["response_hex"])
    assert ours is not None
    assert (ours.code, ours.opaque) == (java.code, java.opaque)
    assert ours.texts().keys() == java.texts().keys()
    assert bool(ours.body) == bool(java.body)
    if recorded["request_header"]["code"] == RequestCode.PULL_MESSAGE:
        assert ours.texts() == java.texts()
    if java.code != ResponseCode.SUCCESS and recorded["name"] not in JAVA_EXCEPTIONS:
        assert begins_as_java_s(ours.remark, java.remark)
