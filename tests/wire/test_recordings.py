"""What real Java processes said to each other, read frame by frame.

Two recorded sessions (nameserver, broker, every kind of client) and hand-made requests with the
raw answers of the Java servers.
"""

import json
from typing import Any

import pytest

from orbitmq.wire.codes import name_of_request
from orbitmq.wire.frame import Frame, FrameReader
from orbitmq.wire.headers import answer_type, request_type
from orbitmq.wire.session import Session
from tests.golden_files import golden

SESSIONS = ["session_json", "session_rocketmq"]
PROBES = golden("probes")["probes"]


def streams(session: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the recorded frames of each connection and direction, in order."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for frame in golden(session)["frames"]:
        found.setdefault((frame["conn"], frame["dir"]), []).append(frame)
    return found


def read_all(recorded: list[dict[str, Any]], size: int | None = None) -> list[Frame]:
    stream = b"".join(bytes.fromhex(frame["hex"]) for frame in recorded)
    reader = FrameReader()
    step = size or len(stream)
    return [f for i in range(0, len(stream), step) for f in reader.feed(stream[i : i + step])]


@pytest.mark.parametrize("size", [None, 1, 1460])
@pytest.mark.parametrize("session", SESSIONS)
def test_every_stream_is_cut_into_the_frames_recorded(session: str, size: int | None) -> None:
    for recorded in streams(session).values():
        frames = read_all(recorded, size)
        assert [frame.code for frame in frames] == [one["code"] for one in recorded]
        assert [len(frame.body) for frame in frames] == [one["body_len"] for one in recorded]
        assert [frame.encoding.name for frame in frames] == [
            one["serialization"] for one in recorded
        ]


@pytest.mark.parametrize("session", SESSIONS)
def test_every_header_is_what_was_recorded(session: str) -> None:
    for recorded in streams(session).values():
        for frame, one in zip(read_all(recorded), recorded, strict=True):
            header = one["header"]
            assert frame.opaque == header["opaque"]
            assert frame.flag == header.get("flag", 0)
            assert frame.remark == header.get("remark")
            fields = (header.get("extFields") or {}).items()
            # The recorder kept empty texts; in the binary form they stand for null.
            empty = None if one["serialization"] == "ROCKETMQ" else ""
            assert frame.texts() == {name: text or empty for name, text in fields}


@pytest.mark.parametrize("session", SESSIONS)
def test_every_request_is_read_into_its_type_without_loss(session: str) -> None:
    seen = set()
    for recorded in streams(session).values():
        for frame in read_all(recorded):
            header = request_type(frame.code)
            if frame.is_answer or header is None:
                continue
            seen.add(name_of_request(frame.code))
            known = set(header.__struct_encode_fields__)
            sent = {n: t for n, t in frame.texts().items() if n in known and t is not None}
            assert sent.items() <= frame.read(header).to_texts().items()
    assert len(seen) > (40 if session == "session_json" else 8)


@pytest.mark.parametrize("session", SESSIONS)
def test_every_answer_finds_its_request_and_is_read_into_its_type(session: str) -> None:
    found = streams(session)
    for (connection, direction), recorded in found.items():
        back = read_all(found.get((connection, "s2c" if direction == "c2s" else "c2s"), []))
        asked = {f.opaque: f for f in read_all(recorded) if not f.is_answer and not f.is_oneway}
        for answer in (frame for frame in back if frame.is_answer):
            request = asked.pop(answer.opaque, None)
            if request is None:  # the recording leaves some requests out, such as too long ones
                continue
            header = answer_type(request.code)
            if header is not None and answer.code == 0 and answer.texts():
                known = set(header.__struct_encode_fields__)
                sent = {n: t for n, t in answer.texts().items() if n in known and t is not None}
                assert sent.items() <= answer.read(header).to_texts().items()


@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_settles_what_the_servers_answered(session: str) -> None:
    """Replay the client's side: our session hands out the numbers that Java's client used."""
    found = streams(session)
    for (connection, direction), recorded in found.items():
        if direction != "c2s":
            continue
        ours: Session[int] = Session()
        for request in read_all(recorded):
            header = request_type(request.code)
            if request.is_answer or request.is_oneway or header is None:
                continue
            ours._next_opaque = request.opaque
            typed = request.read(header)
            opaque, _ = ours.request(typed, waiter=request.code, now=0, timeout=1)
            assert opaque == request.opaque
        asked = ours.in_flight
        answers = read_all(found.get((connection, "s2c"), []))
        settled = [ours.take(answer) for answer in answers if answer.is_answer]
        assert sum(pending is not None for pending in settled) == asked - ours.in_flight


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe["name"])
def test_probes_are_read(probe: dict[str, Any]) -> None:
    if probe["response_hex"] in (None, "CLOSED", "TIMEOUT"):
        return
    frames = list(FrameReader().feed(bytes.fromhex(probe["response_hex"])))
    (answer,) = [frame for frame in frames if frame.is_answer]
    first = json.loads(probe["response_header_text"])  # a request of the server may come before
    assert (frames[0].code, frames[0].remark) == (first["code"], first.get("remark"))
    assert answer.opaque == probe["request_header"]["opaque"]
