from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from orbitmq.errors import ConnectionClosed, LocalProtocolError, TooManyRequests
from orbitmq.wire import auth
from orbitmq.wire.burst import Burst
from orbitmq.wire.codes import Language, RequestCode, ResponseCode
from orbitmq.wire.frame import (
    ANSWER_FLAG,
    FRAME_BYTES_MAX,
    Buffer,
    Frame,
    FrameReader,
    HeaderEncoding,
    Outgoing,
    encode_head,
)
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.headers.pop import PopMessage
from orbitmq.wire.headers.pull import PullMessage
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.headers.send import SendMessageAnswer
from orbitmq.wire.pull_template import FilledPullAnswer
from orbitmq.wire.session import Identity, Response, Session

ROUTE = GetRouteInfo(topic="orders")
CREDENTIALS = auth.Credentials("alice", "open sesame")
BOTH = pytest.mark.parametrize("encoding", HeaderEncoding)


def ask(session: Session[str], waiter: str = "w", *, now: float = 0, timeout: float = 3) -> Frame:
    """Send a request and return it as the peer sees it."""
    _, head = session.request(ROUTE, waiter=waiter, now=now, timeout=timeout)
    (frame,) = FrameReader().feed(head)
    return frame


def answer_to(request: Frame, response: Response | None = None) -> Frame:
    buffers = Session[None]().answer(request, response or Response())
    (frame,) = FrameReader().feed(b"".join(buffers))
    return frame


@BOTH
def test_two_sessions_joined_in_memory_ask_and_answer_each_other(encoding: HeaderEncoding) -> None:
    client: Session[str] = Session(Identity(encoding=encoding))
    server: Session[str] = Session(Identity(language=Language.JAVA))
    header = GetMaxOffset(topic="orders", queue_id=3)
    asked = [client.request(header, b"!", waiter=name, now=0, timeout=3) for name in "abc"]
    answers = []
    for request in server.receive(b"".join(head + b"!" for _, head in asked)):
        assert request.read(GetMaxOffset) == header
        assert bytes(request.body) == b"!"
        response = Response(header=GetMaxOffsetAnswer(offset=request.opaque * 10), body=b"body")
        answers.append(b"".join(server.answer(request, response)))
    settled = {}
    for answer in client.receive(b"".join(reversed(answers))):
        pending = client.take(answer)
        assert pending is not None
        assert bytes(answer.body) == b"body"
        settled[pending.waiter] = answer.read(GetMaxOffsetAnswer).offset
    assert settled == {"a": 0, "b": 10, "c": 20}
    assert client.in_flight == 0


def test_the_default_identity_is_python_and_version_5_4_0() -> None:
    frame = ask(Session())
    assert (frame.language, frame.version) == (Language.PYTHON, 493)
    frame = ask(Session(Identity(language=Language.GO, version=407)))
    assert (frame.language, frame.version) == (Language.GO, 407)


def test_an_answer_carries_what_the_response_says() -> None:
    request = ask(Session())
    answer = answer_to(
        request,
        Response(
            ResponseCode.SYSTEM_BUSY,
            GetMaxOffsetAnswer(offset=7),
            (b"one", b"", memoryview(b"two")),
            "later",
            {"TRACE_ON": "true"},
        ),
    )
    assert (answer.code, answer.opaque, answer.is_answer) == (2, request.opaque, True)
    assert answer.texts() == {"offset": "7", "TRACE_ON": "true"}
    assert (bytes(answer.body), answer.remark) == (b"onetwo", "later")


def test_the_buffers_of_a_response_are_not_joined() -> None:
    body = memoryview(bytes(1000))
    buffers = Session[None]().answer(ask(Session()), Response(body=(body, body)))
    assert len(buffers) == 3
    assert buffers[1] is body


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    header=st.builds(
        FilledPullAnswer, suggest_which_broker_id=INT64, next_begin_offset=INT64,
        min_offset=INT64, max_offset=INT64, offset_delta=INT64 | st.none(),
        topic_sys_flag=INT32 | st.none(), group_sys_flag=INT32 | st.none(),
        forbidden_type=INT32 | st.none(),
    ) | st.builds(GetMaxOffsetAnswer, offset=INT64),
    code=INT32,
    remark=st.text(st.characters(exclude_categories=["Cs"])) | st.none(),
    parts=st.lists(st.binary(max_size=9), max_size=3).map(tuple),
    language=st.sampled_from(Language),
)  # fmt: skip
def test_an_answer_by_the_form_is_the_one_that_is_encoded_field_by_field(
    header: FilledPullAnswer | GetMaxOffsetAnswer,
    code: int,
    remark: str | None,
    parts: tuple[bytes, ...],
    language: Language,
) -> None:
    request, body = ask(Session()), b"".join(parts)
    careful = encode_head(
        Outgoing(code, request.opaque, ANSWER_FLAG, 493, language.name, remark, header.to_texts()),
        len(body),
    )
    session = Session[None](Identity(language=language))
    for size in (None, len(body)):
        buffers = session.answer(request, Response(code, header, parts, remark, body_size=size))
        assert b"".join(buffers) == careful + body
        if not body:
            assert len(buffers) == 1


def test_a_remark_that_can_not_be_encoded_is_an_error_of_this_side() -> None:
    response = Response(1, GetMaxOffsetAnswer(offset=1), remark="\ud800")
    with pytest.raises(LocalProtocolError, match="can't be encoded"):
        Session[None]().answer(ask(Session()), response)


def test_an_answer_is_held_to_the_limit_of_a_frame() -> None:
    response = Response(header=GetMaxOffsetAnswer(offset=1), body=bytes(FRAME_BYTES_MAX))
    with pytest.raises(LocalProtocolError, match="over the limit"):
        Session[None]().answer(ask(Session()), response)


def test_a_one_way_request_is_not_waited_for_and_not_answered() -> None:
    client: Session[str] = Session()
    (request,) = FrameReader().feed(client.oneway(ROUTE))
    assert request.is_oneway
    assert client.in_flight == 0
    assert Session[None]().answer(request, Response()) == ()


def test_a_one_way_request_may_have_a_remark() -> None:
    (request,) = FrameReader().feed(Session[None]().oneway(ROUTE, remark="the database is gone"))
    assert request.remark == "the database is gone"


def test_a_sibling_code_and_more_fields_can_be_given() -> None:
    client: Session[str] = Session()
    pull = PullMessage(
        consumer_group="g", topic="t", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=0,
        commit_offset=0, suspend_timeout_millis=0, sub_version=0,
    )  # fmt: skip
    _, head = client.request(
        pull, waiter="w", now=0, timeout=1, code=RequestCode.LITE_PULL_MESSAGE, fields={"ReqT": "0"}
    )
    (request,) = FrameReader().feed(head)
    assert request.code == 361
    assert request.texts()["ReqT"] == "0"
    assert request.read(PullMessage) == pull


def test_numbers_wrap_to_the_least_and_pass_by_those_in_use() -> None:
    session: Session[str] = Session()
    first = ask(session).opaque
    session._next_opaque = 2**31 - 1
    assert [ask(session).opaque for _ in range(2)] == [2**31 - 1, -(2**31)]
    session._next_opaque = first
    assert ask(session).opaque == first + 1


def test_a_request_over_the_bound_is_refused_and_an_answer_makes_room() -> None:
    session: Session[str] = Session(in_flight_max=2)
    request = ask(session)
    ask(session)
    with pytest.raises(TooManyRequests, match="2 requests are in flight") as caught:
        ask(session)
    assert caught.value.retriable
    session.take(answer_to(request))
    ask(session)


def test_a_request_that_cannot_be_written_leaves_nothing_behind() -> None:
    session: Session[str] = Session()
    with pytest.raises(LocalProtocolError):
        session.request(ROUTE, bytes(17 * 1024 * 1024), waiter="w", now=0, timeout=1)
    assert session.in_flight == 0
    assert session.next_deadline() is None


def test_expiry_returns_requests_by_deadline() -> None:
    session: Session[str] = Session()
    for waiter, timeout in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        ask(session, waiter, timeout=timeout)
    assert session.next_deadline() == 1.0
    assert session.expire(0.9) == []
    assert (session.due(0.9), session.due(2.0)) == (set(), {1, 2})
    assert [pending.waiter for pending in session.expire(2.0)] == ["a", "b"]
    assert (session.next_deadline(), session.in_flight) == (3.0, 1)


def test_an_answer_after_the_expiry_is_late() -> None:
    session: Session[str] = Session()
    request = ask(session, timeout=1)
    session.expire(1)
    assert session.take(answer_to(request)) is None
    assert session.late_answers == 1


def test_a_forgotten_request_is_given_back_once() -> None:
    session: Session[str] = Session()
    request = ask(session)
    forgotten = session.forget(request.opaque)
    assert forgotten is not None
    assert session.forget(request.opaque) is None
    assert session.expire(1e9) == []


def test_deadlines_of_settled_requests_do_not_pile_up() -> None:
    session: Session[str] = Session()
    for _ in range(10_000):
        session.take(answer_to(ask(session, timeout=3600)))
        session.next_deadline()
    assert len(session._deadlines) <= 65


def test_a_close_gives_back_all_that_waits_and_ends_the_session() -> None:
    session: Session[str] = Session()
    for waiter in "ab":
        ask(session, waiter)
    assert [pending.waiter for pending in session.close("the peer left")] == ["a", "b"]
    assert session.close("again") == []
    for attempt in (lambda: ask(session), lambda: session.oneway(ROUTE)):
        with pytest.raises(ConnectionClosed, match="the peer left"):
            attempt()
    assert repr(session) == "<Session closed: the peer left>"


def test_errors_of_a_request_name_it_and_its_peer() -> None:
    session: Session[str] = Session()
    ask(session)
    (pending,) = session.expire(3)
    timeout = pending.timed_out("127.0.0.1:9876", 3000)
    assert (timeout.address, timeout.timeout_ms) == ("127.0.0.1:9876", 3000)
    assert "did not answer GET_ROUTEINFO_BY_TOPIC (request 0) within 3000 ms" in str(timeout)
    unsent = pending.not_sent("127.0.0.1:9876", 3000)
    assert (unsent.address, unsent.timeout_ms) == ("127.0.0.1:9876", 0)
    assert "to 127.0.0.1:9876 was not sent within 3000 ms" in str(unsent)
    closed = pending.cut_off("127.0.0.1:9876", "the peer closed it")
    assert "has no answer: the peer closed it; it may have been executed" in str(closed)


@BOTH
def test_requests_are_signed_over_all_fields_and_the_body(encoding: HeaderEncoding) -> None:
    session: Session[str] = Session(Identity(credentials=CREDENTIALS, encoding=encoding))
    header = GetRouteInfo(topic="orders", namespace="")
    _, head = session.request(header, b"x", waiter="w", now=0, timeout=1, fields={"ReqT": "0"})
    (request,) = FrameReader().feed(head + b"x")
    assert auth.verify(request.texts(), request.body, "open sesame")
    assert not auth.verify(request.texts(), b"y", "open sesame")
    (oneway,) = FrameReader().feed(session.oneway(header, b""))
    assert auth.verify(oneway.texts(), b"", "open sesame")


def test_a_code_without_a_place_in_the_binary_form_goes_as_json() -> None:
    session: Session[str] = Session(Identity(encoding=HeaderEncoding.ROCKETMQ))
    _, head = session.request(
        PopMessage(consumer_group="g", topic="t"), waiter="w", now=0, timeout=1
    )
    (request,) = FrameReader().feed(head)
    assert (request.code, request.encoding) == (200050, HeaderEncoding.JSON)
    assert ask(session).encoding is HeaderEncoding.ROCKETMQ


@given(st.binary(max_size=100))
def test_what_is_received_is_cut_as_by_a_frame_reader(data: bytes) -> None:
    def cut(receiver: Session[None] | FrameReader) -> str:
        feed = receiver.receive if isinstance(receiver, Session) else receiver.feed
        try:
            return repr(list(feed(data)))
        except Exception as error:
            return repr(error)

    assert cut(Session()) == cut(FrameReader())


class EachWaiterComesBackOnce(RuleBasedStateMachine):
    """Requests, answers in any order, lost and doubled ones, time, cancellations."""

    def __init__(self) -> None:
        super().__init__()
        self.session: Session[int] = Session(in_flight_max=20)
        self.now = 0.0
        self.sent: dict[int, Frame] = {}
        self.waiting: dict[int, int] = {}  # opaque to waiter
        self.returned: list[int] = []
        self.count = 0

    @precondition(lambda self: len(self.waiting) < 20)
    @rule(timeout=st.floats(0.1, 9))
    def request(self, timeout: float) -> None:
        self.count += 1
        opaque, head = self.session.request(ROUTE, waiter=self.count, now=self.now, timeout=timeout)
        (self.sent[opaque],) = FrameReader().feed(head)
        self.waiting[opaque] = self.count

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        opaque = data.draw(st.sampled_from(sorted(self.sent)))
        pending = self.session.take(answer_to(self.sent[opaque]))
        assert (pending is None) == (opaque not in self.waiting)
        if pending is not None:
            self.back(pending.opaque, pending.waiter)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        opaque = data.draw(st.sampled_from(sorted(self.waiting)))
        pending = self.session.forget(opaque)
        assert pending is not None
        self.back(opaque, pending.waiter)

    @rule(passed=st.floats(0, 5))
    def time_passes(self, passed: float) -> None:
        self.now += passed
        for pending in self.session.expire(self.now):
            assert pending.deadline <= self.now
            self.back(pending.opaque, pending.waiter)

    def back(self, opaque: int, waiter: int) -> None:
        assert self.waiting.pop(opaque) == waiter
        assert waiter not in self.returned
        self.returned.append(waiter)

    @invariant()
    def nobody_is_lost(self) -> None:
        assert self.session.in_flight == len(self.waiting)
        assert (self.session.next_deadline() is None) == (not self.waiting)

    def teardown(self) -> None:
        for pending in self.session.close("the end"):
            self.back(pending.opaque, pending.waiter)
        assert self.waiting == {}


TestEachWaiterComesBackOnce = EachWaiterComesBackOnce.TestCase


def test_deadlines_of_settled_requests_do_not_accumulate() -> None:
    session: Session[str] = Session()
    for _ in range(1_000):
        session.take(answer_to(ask(session, timeout=3600)))
    assert len(session._deadlines) <= 128


def test_an_answer_that_is_too_large_is_named_as_an_answer() -> None:
    response = Response(ResponseCode.PULL_NOT_FOUND, body=bytes(17 * 1024 * 1024))
    with pytest.raises(LocalProtocolError, match="PULL_NOT_FOUND"):
        Session[None]().answer(ask(Session()), response)


# Bursts


class Burst3(Burst[str]):
    """Three requests."""

    __slots__ = ()

    def __init__(self, count: int = 3) -> None:
        super().__init__(310, count)

    def frames(self) -> list[Buffer]:
        return [b"request"] * self.count

    def settle(self, positions: Sequence[int], answers: Sequence[SendMessageAnswer]) -> None:
        """Do nothing."""

    def waiter(self, position: int) -> str:
        return f"waiter {position}"


def test_a_burst_has_consecutive_numbers() -> None:
    session: Session[str] = Session()
    burst = Burst3()
    assert ask(session).opaque == 0
    session.begin(burst, now=0, timeout=3)
    assert (burst.first, burst.sent, burst.deadline) == (1, 0, 3)
    assert ask(session).opaque == 4
    assert session.in_flight == 5


def test_the_numbers_of_a_burst_don_t_wrap_within_it_nor_meet_others() -> None:
    session: Session[str] = Session()
    session._next_opaque = 2**31 - 2
    burst = Burst3()
    session.begin(burst, now=0, timeout=3)
    assert burst.first == -(2**31)
    session._next_opaque = -(2**31) - 0
    other = Burst3()
    session.begin(other, now=0, timeout=3)
    assert other.first == -(2**31) + 3


def test_a_burst_needs_room_for_all_of_its_requests() -> None:
    session: Session[str] = Session(in_flight_max=4)
    ask(session)
    session.begin(Burst3(), now=0, timeout=3)
    with pytest.raises(TooManyRequests):
        session.begin(Burst3(count=1), now=0, timeout=3)
    assert session.in_flight == 4
    session.close("the test ends")
    with pytest.raises(ConnectionClosed):
        session.begin(Burst3(), now=0, timeout=3)


def test_a_burst_expires_at_once_and_only_what_is_left_of_it() -> None:
    session: Session[str] = Session()
    burst = Burst3()
    ask(session, "alone", now=0, timeout=4)
    session.begin(burst, now=0, timeout=3)
    assert session.forget(burst.first) is not None
    assert session.next_deadline() == 3
    assert session.due(3) == {burst.first + 1, burst.first + 2}
    assert [one.waiter for one in session.expire(3)] == ["waiter 1", "waiter 2"]
    assert session.next_deadline() == 4
    assert [one.waiter for one in session.expire(4)] == ["alone"]
    assert session.in_flight == 0


def test_a_settled_burst_has_no_deadline() -> None:
    session: Session[str] = Session()
    burst = Burst3()
    session.begin(burst, now=0, timeout=3)
    for opaque in range(3):
        session.forget(opaque)
    assert session.next_deadline() is None
    for _ in range(1_000):
        session.begin(short := Burst3(count=1), now=0, timeout=3)
        session.forget(short.first)
    assert len(session._deadlines) < 100


def test_a_close_ends_each_request_of_a_burst() -> None:
    session: Session[str] = Session()
    ask(session, "alone")
    session.begin(Burst3(), now=0, timeout=3)
    ended = session.close("the peer closed it")
    assert [one.waiter for one in ended] == ["alone", "waiter 0", "waiter 1", "waiter 2"]
    assert [one.opaque for one in ended] == [0, 1, 2, 3]
