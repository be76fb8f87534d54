"""Answers to requests that were written together: read together, in any order and any pieces."""

from collections.abc import Sequence

import pytest

from orbitmq.wire.burst import Burst, settle_leading
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    Buffer,
    HeaderEncoding,
    Outgoing,
    encode_head,
)
from orbitmq.wire.headers.send import SendMessageAnswer
from orbitmq.wire.session import Session

STORED = SendMessageAnswer(msg_id="OID", queue_id=3, queue_offset=12)


class Sends(Burst[str]):
    """Notes what its requests end with."""

    __slots__ = ("settled",)

    def __init__(self, count: int) -> None:
        super().__init__(310, count)
        self.settled: list[list[tuple[int, SendMessageAnswer]]] = []

    def frames(self) -> Sequence[Buffer]:
        return [b"frame"] * self.count

    def settle(self, positions: Sequence[int], answers: Sequence[SendMessageAnswer]) -> None:
        self.settled.append(list(zip(positions, answers, strict=True)))

    def waiter(self, position: int) -> str:
        return f"waiter {position}"

    @property
    def positions(self) -> list[int]:
        return [position for run in self.settled for position, _ in run]


def answer(
    opaque: int,
    *,
    code: int = ResponseCode.SUCCESS,
    header: Header | None = STORED,
    flag: int = ANSWER_FLAG,
    body: bytes = b"",
    encoding: HeaderEncoding = HeaderEncoding.JSON,
) -> bytes:
    texts = None if header is None else header.to_texts()
    outgoing = Outgoing(code, opaque, flag, 493, "JAVA", ext_fields=texts)
    return encode_head(outgoing, len(body), encoding) + body


def begun(session: Session[str], count: int, now: float = 0.0) -> Sends:
    burst = Sends(count)
    session.begin(burst, now=now, timeout=3)
    return burst


def test_answers_of_one_read_settle_together() -> None:
    session: Session[str] = Session()
    burst = begun(session, 4)
    data = b"".join(answer(opaque) for opaque in (2, 0, 3))
    assert session.settle(data, 0) == len(data)
    assert burst.settled == [[(2, STORED), (0, STORED), (3, STORED)]]
    assert (burst.left, session.in_flight) == (1, 1)
    assert repr(burst) == "<Sends 1 of 4 in flight>"


def test_each_burst_gets_its_own() -> None:
    session: Session[str] = Session()
    first, second = begun(session, 2), begun(session, 2)
    data = b"".join(answer(opaque) for opaque in (0, 2, 3, 1))
    assert session.settle(data, 0) == len(data)
    assert (first.positions, second.positions) == ([0, 1], [0, 1])
    assert [len(run) for run in first.settled] == [1, 1]
    assert session.in_flight == 0


@pytest.mark.parametrize(
    "odd",
    [
        answer(1, code=ResponseCode.SYSTEM_BUSY),
        answer(1, code=ResponseCode.FLUSH_DISK_TIMEOUT),
        answer(1, header=None),
        answer(1, flag=0),
        answer(7),
        answer(0),  # a second time
        answer(1, body=bytes(5_000)),
        answer(1, encoding=HeaderEncoding.ROCKETMQ),
        answer(1)[:-1],
        answer(1)[:7],
        answer(1).replace(b'"queueId":"3"', b'"queueId":"x"'),
        b"\x00\x00\x00\x03\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\xff" + bytes(4),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_plain_is_left_where_it_is(odd: bytes) -> None:
    session: Session[str] = Session()
    burst = begun(session, 3)
    before = answer(0)
    assert session.settle(before + odd + answer(2), 0) == len(before)
    assert burst.positions == [0]
    assert session.in_flight == 2


def test_an_answer_may_have_a_small_body() -> None:
    session: Session[str] = Session()
    burst = begun(session, 2)
    data = answer(0, body=b"why not") + answer(1)
    assert session.settle(data, 0) == len(data)
    assert burst.positions == [0, 1]


def test_requests_that_were_sent_alone_are_left_alone() -> None:
    waiting: dict[int, object] = {0: "sent alone"}
    assert settle_leading(answer(0), 0, waiting) == 0
    assert waiting == {0: "sent alone"}


def test_reads_that_end_anywhere_lose_nothing() -> None:
    data = b"".join(answer(opaque) for opaque in range(3))
    for cut in range(len(data) + 1):
        session: Session[str] = Session()
        burst = begun(session, 3)
        for part in (data[:cut], data[cut:]):
            assert list(session.receive(part, session.settle)) == []
        assert burst.positions == [0, 1, 2]


def test_a_request_that_is_answered_otherwise_goes_on_alone() -> None:
    session: Session[str] = Session()
    burst = begun(session, 3, now=5.0)
    data = answer(1, code=ResponseCode.SYSTEM_BUSY)
    (frame,) = session.receive(data, session.settle)
    pending = session.take(frame)
    assert pending is not None
    assert (pending.opaque, pending.code, pending.waiter) == (1, 310, "waiter 1")
    assert (pending.sent, pending.deadline) == (5.0, 8.0)
    assert (burst.left, session.in_flight) == (2, 2)
