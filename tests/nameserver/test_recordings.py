"""What brokers and clients of Java asked a Java nameserver, asked of ours: it answers alike.

The recorded requests are sent byte for byte, in the order in which they came, each on the
connection it came on.
"""

import asyncio
from typing import Any

import msgspec
import pytest

from orbitmq.net.address import Address
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.json.fastjson import standard_json
from orbitmq.wire.json.properties_text import properties_from_text
from tests.golden_files import golden
from tests.nameserver.parties import Party, topics, who, with_nameserver

Recorded = dict[str, Any]

OWN_SETTINGS = {"listenHost", "listenPort", "logLevel", "kvConfigPath"}
"""Where a nameserver listens and what it writes is its own."""


class Wire(asyncio.Protocol):
    """A client that sends bytes as they are."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Frame | None] | None = None
        self._reader = FrameReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._settle(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle(None)

    async def ask(self, data: bytes) -> Frame | None:
        """Return the answer; None if the connection closes instead."""
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self._answer

    def _settle(self, answer: Frame | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


async def connect(network: MemoryNetwork, address: Address) -> Wire:
    wire = Wire()
    await network.connect(wire, address, tls=None)
    return wire


def exchanges() -> list[tuple[Recorded, Recorded]]:
    """Return each request to the nameserver with its answer, in the order of the requests."""
    frames = [frame for frame in golden("session_json")["frames"] if "namesrv" in frame["link"]]
    answers = {
        (frame["conn"], frame["header"]["opaque"]): frame
        for frame in frames
        if frame["dir"] == "s2c"
    }
    return [
        (frame, answers[key])
        for frame in frames
        if frame["dir"] == "c2s" and (key := (frame["conn"], frame["header"]["opaque"])) in answers
    ]


def body_of(recorded: Recorded) -> bytes:
    size = recorded["body_len"]
    return bytes.fromhex(recorded["hex"])[-size:] if size else b""


def json_of(body: bytes | memoryview) -> object:
    """Return a JSON body as values; names that Java keeps in a set have no order."""
    value = msgspec.json.decode(standard_json(bytes(body)).text) if body else None
    if isinstance(value, dict) and "topicList" in value:
        value["topicList"] = sorted(value["topicList"])
    return value


def first_line(remark: str | None) -> str | None:
    return remark and remark.partition("\n")[0]


def assert_alike(ours: Frame | None, request: Recorded, recorded: Recorded) -> None:
    assert ours is not None
    header, what = recorded["header"], request["request_name"]
    assert (ours.code, ours.opaque) == (header["code"], header["opaque"]), what
    assert first_line(ours.remark) == first_line(header.get("remark")), what
    assert ours.texts() == (header.get("extFields") or {}), what
    theirs = body_of(recorded)
    if request["code"] == RequestCode.GET_NAMESRV_CONFIG:
        told, java = properties_from_text(ours.body), properties_from_text(theirs)
        assert {name for name in told if told[name] != java.get(name)} <= OWN_SETTINGS
    else:
        assert json_of(ours.body) == json_of(theirs), what


def test_a_recorded_session_is_answered_alike() -> None:
    async def scenario(party: Party) -> None:
        wires: dict[str, Wire] = {}
        recorded = exchanges()
        assert len(recorded) > 100
        for request, answer in recorded:
            wire = wires.get(request["conn"])
            if wire is None:
                wire = await connect(party.network, party.nameserver.address)
                wires[request["conn"]] = wire
            assert_alike(await wire.ask(bytes.fromhex(request["hex"])), request, answer)

    with_nameserver(scenario)


PROBES = [probe for probe in golden("probes")["probes"] if probe["to"] == "namesrv"]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe["name"])
def test_probes_are_answered_alike(probe: Recorded) -> None:
    """Route answers are compared byte for byte: here is where clients look for every quote."""

    async def scenario(party: Party) -> None:
        async with party.dialer() as broker:
            header = who(address="127.0.0.1:19020")
            await party.ask(header, topics("GoldTopic", "Other").to_json(), by=broker)
            wire = await connect(party.network, party.nameserver.address)
            answer = await wire.ask(bytes.fromhex(probe["request_hex"]))
        if probe["response_hex"] in ("CLOSED", "TIMEOUT"):
            assert answer is None  # where Java would stay silent, we hang up
            return
        (java,) = FrameReader().feed(bytes.fromhex(probe["response_hex"]))
        assert answer is not None
        assert (answer.code, answer.opaque) == (java.code, java.opaque)
        assert first_line(answer.remark) == first_line(java.remark)
        assert bytes(answer.body) == bytes(java.body)

    with_nameserver(scenario)
