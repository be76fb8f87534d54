"""What follows each end of a try: Java's rules as tables, and laws that hold for any course."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.sending.retry_plan import Again, Done, GiveUp, RetryPlan, java_code
from orbitmq.client.settings import RETRY_CODES, ProducerSettings
from orbitmq.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    ConnectionClosed,
    InvalidInput,
    LocalProtocolError,
    OrbitError,
    RemoteProtocolError,
    RequestTimeout,
    TooManyRequests,
)
from orbitmq.errors.attempts import Attempt
from orbitmq.message.model import MessageQueue, SendReceipt, SendStatus
from orbitmq.randomness import SeededRandomness

A0 = MessageQueue("orders", "broker-a", 0)
B0 = MessageQueue("orders", "broker-b", 0)
LOST = ConnectionClosed("the peer went away")
NOT_OK = [status for status in SendStatus if status is not SendStatus.SEND_OK]


def plan_of(*, began_ms: int = 0, fixed: bool = False, **settings: object) -> RetryPlan:
    made = ProducerSettings("billing", **settings)  # type: ignore[arg-type]
    return RetryPlan(made, SeededRandomness(1), began_ms=began_ms, fixed=fixed)


def receipt(status: SendStatus, queue: MessageQueue = A0) -> SendReceipt:
    return SendReceipt(
        status=status, message_id="id", offset_message_id="oid", queue=queue, queue_offset=1
    )


# Which errors lead to another try


@pytest.mark.parametrize(
    "error",
    [
        *(BrokerError.of(code, "") for code in RETRY_CODES),
        ConnectFailed("x"),
        LOST,
        RequestTimeout("x"),
        TooManyRequests("x"),
        RemoteProtocolError("x"),
    ],
    ids=repr,
)
def test_java_s_codes_and_network_errors_lead_to_another_try(error: OrbitError) -> None:
    step = plan_of().failed(error, A0, 0, 5)
    assert step == Again("broker-a", refresh_route=error.refresh_route)


@pytest.mark.parametrize(
    "error",
    [
        *(BrokerError.of(code, "") for code in (3, 13, 26, 29, 215)),
        InvalidInput("x", field="body"),
        LocalProtocolError("x"),
    ],
    ids=repr,
)
def test_what_would_fail_again_does_not(error: OrbitError) -> None:
    assert plan_of().failed(error, A0, 0, 5) == GiveUp(error, timed_out=False)
    assert plan_of().failed(error, A0, 0, 5_000) == GiveUp(error, timed_out=False)


def test_the_codes_are_a_setting() -> None:
    busy, refused = BrokerError.of(2, ""), BrokerError.of(13, "")
    plan = plan_of(retry_codes=(13,))
    assert isinstance(plan.failed(refused, A0, 0, 1), Again)
    assert plan.failed(busy, A0, 1, 2) == GiveUp(busy, timed_out=False)


# How often, and how long


def test_there_are_three_tries() -> None:
    plan = plan_of()
    steps = [plan.failed(LOST, A0, at, at + 1) for at in (0, 10, 20)]
    assert [type(step) for step in steps] == [Again, Again, GiveUp]
    assert [attempt.began_ms for attempt in plan.attempts] == [0, 10, 20]


def test_no_try_begins_when_time_is_over() -> None:
    plan = plan_of(began_ms=1_000)
    assert plan.failed(LOST, A0, 1_000, 4_000) == GiveUp(LOST, timed_out=True)
    assert plan.attempts == [Attempt(A0, 0, 3_000, LOST)]


def test_all_tries_share_one_budget() -> None:
    plan = plan_of(began_ms=1_000)
    assert plan.try_timeout_ms(1_000) == 3_000
    assert plan.try_timeout_ms(3_500) == 500
    assert plan.try_timeout_ms(4_000) == 0


def test_a_try_may_be_held_shorter_while_others_are_left() -> None:
    plan = plan_of(per_try_timeout_ms=700, retries=1)
    assert plan.try_timeout_ms(0) == 700
    assert plan.try_timeout_ms(2_500) == 500
    plan.failed(LOST, A0, 0, 700)
    assert plan.try_timeout_ms(700) == 2_300


def test_a_probe_leaves_time_for_another_try() -> None:
    plan = plan_of(retries=1)
    assert plan.try_timeout_ms(0, probe=True) == 1_000
    plan.failed(LOST, A0, 0, 1_000)
    assert plan.try_timeout_ms(1_000, probe=True) == 2_000, "there is none to leave time for"


def test_a_connection_gets_the_share_of_its_try() -> None:
    plan = plan_of(retries=2)
    assert plan.connect_timeout_ms(0) == 1_000
    plan.failed(ConnectFailed("no answer"), A0, 0, 600)
    assert plan.connect_timeout_ms(600) == 800, "it used up no try"
    plan.failed(LOST, A0, 600, 1_200)
    assert plan.connect_timeout_ms(1_200) == 900
    plan.failed(LOST, A0, 1_200, 1_800)
    assert plan.connect_timeout_ms(1_800) == 1_200, "the last may take what is left"
    assert plan.connect_timeout_ms(2_850) == 150
    assert plan_of(retries=9).connect_timeout_ms(2_000) == 200, "less is too short for a dial"
    assert plan_of(fixed=True).connect_timeout_ms(0) == 3_000


def test_a_caller_may_name_the_time() -> None:
    plan = RetryPlan(ProducerSettings("g"), SeededRandomness(1), began_ms=0, timeout_ms=50)
    assert plan.left_ms(20) == 30


# Requests that never left

UNSENT = [
    ConnectFailed("refused"),
    TooManyRequests("x"),
    RequestTimeout("the loop stood still"),
    ConnectionClosed("the peer closed it", was_sent=False),
]


@pytest.mark.parametrize("error", UNSENT, ids=repr)
@pytest.mark.parametrize("fixed", [False, True])
def test_a_request_that_never_left_uses_up_no_try(error: OrbitError, fixed: bool) -> None:
    plan = plan_of(fixed=fixed, retries=0)
    for at_ms in range(0, 2_980, 10):
        assert isinstance(plan.failed(error, A0, at_ms, at_ms), Again)
    assert plan.failed(error, A0, 2_981, 2_981) == GiveUp(error, timed_out=False)
    assert plan.failed(error, A0, 2_990, 3_000) == GiveUp(error, timed_out=True)
    assert len(plan.attempts) == 100, "a long budget must not fill the memory"
    assert plan.attempts[0].began_ms == 0


def test_an_attempt_that_may_be_stored_is_never_dropped() -> None:
    plan = plan_of(retries=9)
    for at_ms in range(300):
        plan.failed(LOST if at_ms in (0, 50, 120, 299) else UNSENT[0], A0, at_ms, at_ms)
    assert [one.began_ms for one in plan.attempts if one.may_be_stored] == [0, 50, 120, 299]


def test_their_pauses_grow_to_half_a_second_and_leave_a_quarter_of_the_time() -> None:
    plan = plan_of(send_timeout_ms=100_000)
    for most_ms in (40, 80, 160, 320, 500, 500):
        plan.failed(UNSENT[0], A0, 0, 1)
        waits = [plan.wait_ms("broker-a", 1) for _ in range(50)]
        assert most_ms / 2 <= min(waits) <= max(waits) <= most_ms
        assert len(set(waits)) > 5
    assert plan.wait_ms("broker-a", 99_900) == 75


def test_a_closed_client_makes_no_further_attempt() -> None:
    plan = plan_of()
    plan.stop()
    assert plan.failed(UNSENT[0], A0, 0, 1) == GiveUp(UNSENT[0], timed_out=False)


# Receipts


@pytest.mark.parametrize("status", SendStatus)
def test_any_receipt_is_the_end(status: SendStatus) -> None:
    got = receipt(status)
    assert plan_of().stored(got, 0, 5) == Done(got)


@pytest.mark.parametrize("status", NOT_OK)
def test_a_weak_receipt_leads_elsewhere_if_asked_for(status: SendStatus) -> None:
    plan = plan_of(retry_another_broker_when_not_stored=True)
    assert plan.stored(receipt(status), 0, 5) == Again("broker-a", refresh_route=False)
    good = receipt(SendStatus.SEND_OK, B0)
    assert plan.stored(good, 6, 10) == Done(good)
    assert plan.attempts == [Attempt(A0, 0, 5, status)]


@pytest.mark.parametrize("error", [LOST, BrokerError.of(13, "")], ids=repr)
def test_a_weak_receipt_is_better_than_the_error_that_follows(error: OrbitError) -> None:
    plan = plan_of(retry_another_broker_when_not_stored=True, retries=1)
    weak = receipt(SendStatus.FLUSH_DISK_TIMEOUT)
    plan.stored(weak, 0, 5)
    assert plan.failed(error, B0, 6, 10) == Done(weak)


def test_the_last_weak_receipt_is_the_result() -> None:
    plan = plan_of(retry_another_broker_when_not_stored=True, retries=1)
    plan.stored(receipt(SendStatus.FLUSH_DISK_TIMEOUT), 0, 5)
    last = receipt(SendStatus.SLAVE_NOT_AVAILABLE, B0)
    assert plan.stored(last, 6, 10) == Done(last)


def test_a_weak_receipt_at_the_end_of_time_is_the_result() -> None:
    weak = receipt(SendStatus.FLUSH_DISK_TIMEOUT)
    plan = plan_of(retry_another_broker_when_not_stored=True)
    assert plan.stored(weak, 0, 3_000) == Done(weak)


# A queue of the caller's choice


def test_a_chosen_queue_has_one_try() -> None:
    assert plan_of(fixed=True).failed(LOST, A0, 0, 5) == GiveUp(LOST, timed_out=False)


def test_or_several_on_the_same_queue_if_asked_for() -> None:
    plan = plan_of(fixed=True, retry_same_queue=True)
    assert plan.failed(LOST, A0, 0, 5) == Again(None, refresh_route=True)
    assert plan.wait_ms("broker-a", 5) > 0


def test_a_weak_receipt_of_a_chosen_queue_is_the_result() -> None:
    plan = plan_of(fixed=True, retry_same_queue=True, retry_another_broker_when_not_stored=True)
    weak = receipt(SendStatus.FLUSH_DISK_TIMEOUT)
    assert plan.stored(weak, 0, 5) == Done(weak)


# Waits


@pytest.mark.parametrize(
    ("error", "broker", "waits"),
    [
        (LOST, "broker-b", False),
        (LOST, "broker-a", True),
        (BrokerBusy(2, "[OVERLOAD]"), "broker-b", True),
        (TooManyRequests("x"), "broker-b", True),
        (BrokerError.of(14, ""), "broker-b", False),
    ],
    ids=repr,
)
def test_a_wait_is_for_a_busy_answer_or_the_same_broker(
    error: OrbitError, broker: str, waits: bool
) -> None:
    plan = plan_of()
    plan.failed(error, A0, 0, 5)
    assert (plan.wait_ms(broker, 5) > 0) is waits


def test_brokers_that_are_all_away_are_waited_for() -> None:
    plan = plan_of(retries=10)
    plan.failed(LOST, A0, 0, 5)
    assert plan.wait_ms("broker-b", 5) == 0
    plan.failed(LOST, B0, 5, 6)
    assert plan.wait_ms("broker-a", 6) > 0
    assert plan.wait_ms("broker-c", 6) == 0
    plan.failed(LOST, B0, 6, 506)  # it was waited for long enough
    assert plan.wait_ms("broker-a", 506) == 0


def test_waits_grow_to_a_fifth_of_a_second_and_differ() -> None:
    plan = plan_of(retries=10, send_timeout_ms=100_000)
    busy = BrokerBusy(2, "")
    for most_ms in (40, 80, 160, 200, 200):
        plan.failed(busy, A0, 0, 1)
        waits = [plan.wait_ms("broker-b", 1) for _ in range(50)]
        assert most_ms / 2 <= min(waits) <= max(waits) <= most_ms
        assert len(set(waits)) > 5


@given(st.integers(0, 3_100), st.integers(1, 10))
def test_a_wait_leaves_time_for_a_try(now_ms: int, tries: int) -> None:
    plan = plan_of(retries=10)
    for _ in range(tries):
        plan.failed(BrokerBusy(2, ""), A0, 0, 0)
    assert 0 <= plan.wait_ms("broker-a", now_ms) <= max(0, plan.left_ms(now_ms) / 2)


@given(
    st.lists(st.tuples(st.sampled_from([LOST, BrokerBusy(2, ""), *NOT_OK]), st.integers(0, 2_000))),
    st.integers(0, 4),
    st.booleans(),
)
def test_whatever_happens_a_send_ends_within_its_tries_and_its_time(
    course: list[tuple[OrbitError | SendStatus, int]], retries: int, elsewhere: bool
) -> None:
    plan = plan_of(retries=retries, retry_another_broker_when_not_stored=elsewhere)
    now_ms, tries, over = 0, 0, False
    for end, took_ms in course:
        timeout_ms = plan.try_timeout_ms(now_ms)
        assert timeout_ms > 0
        began_ms, now_ms, tries = now_ms, now_ms + min(took_ms, timeout_ms), tries + 1
        step = (
            plan.stored(receipt(end), began_ms, now_ms)
            if isinstance(end, SendStatus)
            else plan.failed(end, A0, began_ms, now_ms)
        )
        over = not isinstance(step, Again)
        if over:
            break
        now_ms += plan.wait_ms("broker-b", now_ms)
    assert tries <= retries + 1
    assert now_ms <= 3_000
    assert over or tries == len(course)


# What errors tell


def test_one_such_attempt_is_enough() -> None:
    plan = plan_of()
    plan.failed(ConnectFailed("x"), A0, 0, 1)
    plan.failed(LOST, A0, 1, 2)
    plan.failed(ConnectFailed("x"), A0, 2, 3)
    assert [one.may_be_stored for one in plan.attempts] == [False, True, False]


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (BrokerError.of(14, ""), 14),
        (ConnectFailed("x"), 10_001),
        (RequestTimeout("x"), 10_002),
        (LocalProtocolError("x"), 10_003),
        (LOST, -1),
        (TooManyRequests("x"), -1),
    ],
    ids=repr,
)
def test_java_gives_each_cause_a_code(cause: OrbitError, code: int) -> None:
    assert java_code(cause) == code
