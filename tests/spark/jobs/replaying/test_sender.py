"""Each copy is stored once and in order, wherever the sender dies and whatever a send answers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import (
    ConnectFailed,
    LocationInUse,
    OrbitError,
    PartlySent,
    SendIllegal,
    SendTimeout,
    SendUnreachable,
)
from orbitmq.errors.attempts import TimeSpent
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.jobs.replaying.copies import Copy, copy_id
from orbitmq.spark.jobs.replaying.ledger import Ledger
from orbitmq.spark.jobs.replaying.pace import Pace, Rate
from orbitmq.spark.jobs.replaying.sender import SETTLE_MS, QueueReplay, pieces
from tests.spark.fake_cluster import FakeClock
from tests.spark.faulty_location import Crash, FaultyLocation

SOURCE, QUEUE = MessageQueue("orders", "a", 0), MessageQueue("again", "b", 1)
COUNT = 23
SMALL = Rate(messages=25)  # pieces of five


def given_copies() -> list[Copy]:
    return [
        Copy(offset, Message("again", b"x", properties={"ORBIT_ID": copy_id(SOURCE, offset)}))
        for offset in range(100, 100 + COUNT)
    ]


Fault = Callable[[Sequence[Message]], tuple[int, BaseException]]
"""Of the messages of a send: how many are stored, and the error it ends with."""


class Topic:
    """A target queue; other programs have sent to it, too."""

    def __init__(self) -> None:
        self.stored = ["other"] * 7
        self.faults: list[Fault | None] = []
        self.reads = 0

    def end(self, queue: MessageQueue) -> int:
        assert queue == QUEUE
        return len(self.stored)

    def ids(self, queue: MessageQueue, start: int) -> set[str]:
        assert queue == QUEUE
        self.reads += 1
        return {*self.stored[start:]}

    def send(self, messages: Sequence[Message], queue: MessageQueue) -> int:
        assert queue == QUEUE
        fault = self.faults.pop(0) if self.faults else None
        count, error = fault(messages) if fault else (len(messages), None)
        self.stored += [message.properties["ORBIT_ID"] for message in messages[:count]]
        if error is not None:
            raise error
        end = len(self.stored)
        self.stored.append("other")
        return end

    def copies(self) -> list[str]:
        return [one for one in self.stored if one != "other"]


EXPECTED = [copy_id(SOURCE, copy.offset) for copy in given_copies()]


def replayed(location: FaultyLocation, topic: Topic, clock: FakeClock, rate: Rate = SMALL) -> None:
    replay = QueueReplay(
        *(Ledger(location), topic, SOURCE, QUEUE),
        attempt=f"at {clock.now_ms()}",
        clock=clock,
        pause=clock.pass_ms,
    )
    pace = Pace(rate)
    replay.send(given_copies()[:12], pace, rate)
    replay.send(given_copies()[12:], pace, rate)
    replay.close()


def timed_out(stored: int) -> Fault:
    def fault(messages: Sequence[Message]) -> tuple[int, OrbitError]:
        error = SendTimeout(
            "no answer",
            topic="again",
            send_id="1",
            timeout_ms=1,
            spent=TimeSpent(),
            may_be_stored=True,
        )
        return min(stored, len(messages)), error

    return fault


def died(stored: int) -> Fault:
    return lambda messages: (min(stored, len(messages)), Crash())


def test_a_replay_and_nothing_more(tmp_path: Path) -> None:
    topic, clock = Topic(), FakeClock()
    replayed(FaultyLocation(str(tmp_path)), topic, clock)
    assert topic.copies() == EXPECTED
    sent_ms = clock.now_ms()
    replayed(FaultyLocation(str(tmp_path)), topic, clock)
    assert topic.copies() == EXPECTED
    assert topic.reads == 0  # it was closed
    assert clock.now_ms() == sent_ms
    (entry,) = Ledger(FaultyLocation(str(tmp_path))).entries()
    assert (entry.done, entry.sent, entry.is_open) == (100 + COUNT - 1, COUNT, False)


def test_the_rate_is_kept(tmp_path: Path) -> None:
    topic, clock = Topic(), FakeClock()
    began_ms = clock.now_ms()
    replayed(FaultyLocation(str(tmp_path)), topic, clock)
    # 25 a second; the last piece, of one, waits for the 22 before it.
    assert clock.now_ms() - began_ms == 1_000 * 22 // 25
    assert topic.copies() == EXPECTED


def test_it_may_die_at_any_step_of_the_ledger(tmp_path: Path) -> None:
    whole = FaultyLocation(str(tmp_path / "whole"))
    replayed(whole, Topic(), FakeClock())
    for step in range(1, len(whole.steps) + 1):
        topic, clock, place = Topic(), FakeClock(), str(tmp_path / str(step))
        with pytest.raises(Crash):
            replayed(FaultyLocation(place, step), topic, clock)
        replayed(FaultyLocation(place), topic, clock)
        assert topic.copies() == EXPECTED, step


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.builds(timed_out, st.integers(0, 5)),
            st.builds(died, st.integers(0, 5)),
        ),
        max_size=12,
    )
)
def test_whatever_sends_do(
    tmp_path_factory: pytest.TempPathFactory, faults: list[Fault | None]
) -> None:
    place = str(tmp_path_factory.mktemp("ledger"))
    topic, clock = Topic(), FakeClock()
    topic.faults = faults
    while True:
        try:
            replayed(FaultyLocation(place), topic, clock)
            break
        except (Crash, SendTimeout):
            pass
    assert topic.copies() == EXPECTED


def test_it_waits_for_what_may_be_on_its_way(tmp_path: Path) -> None:
    topic, clock = Topic(), FakeClock()
    topic.faults = [died(0)]
    with pytest.raises(Crash):
        replayed(FaultyLocation(str(tmp_path)), topic, clock)
    died_ms = clock.now_ms()
    topic.faults = [died(0)]
    with pytest.raises(Crash):
        replayed(FaultyLocation(str(tmp_path)), topic, clock)
    assert clock.now_ms() - died_ms == SETTLE_MS
    replayed(FaultyLocation(str(tmp_path)), topic, clock, Rate())
    assert clock.now_ms() - died_ms == 2 * SETTLE_MS
    assert topic.copies() == EXPECTED


def test_an_attempt_that_outlived_its_driver_stops(tmp_path: Path) -> None:
    topic, clock = Topic(), FakeClock()
    ledger = Ledger(FaultyLocation(str(tmp_path)))
    zombie, successor = (
        QueueReplay(*(ledger, topic, SOURCE, QUEUE), attempt=name, clock=clock, pause=clock.pass_ms)
        for name in ("zombie", "successor")
    )
    with pytest.raises(LocationInUse, match="another attempt"):
        zombie.send(given_copies(), Pace(Rate()), Rate())
    assert topic.copies() == []
    successor.send(given_copies(), Pace(Rate()), Rate())
    assert topic.copies() == EXPECTED


def test_a_refusal_is_final(tmp_path: Path) -> None:
    topic = Topic()
    illegal = SendIllegal("no", topic="again", send_id="1", code=13, remark="too large")
    topic.faults = [
        lambda _: (0, illegal),
        lambda _: (
            1,
            PartlySent("no", topic="again", send_id="1", receipts=(), errors={1: illegal}),
        ),
    ]
    for error in (SendIllegal, PartlySent):
        with pytest.raises(error):
            replayed(FaultyLocation(str(tmp_path)), topic, FakeClock())
    replayed(FaultyLocation(str(tmp_path)), topic, FakeClock())
    assert topic.copies() == EXPECTED


def test_a_broker_that_stays_away_ends_it(tmp_path: Path) -> None:
    topic = Topic()
    topic.faults = [lambda _: (0, SendUnreachable("down", topic="again", send_id="1"))] * 50
    with pytest.raises(SendUnreachable):
        replayed(FaultyLocation(str(tmp_path)), topic, FakeClock())
    topic.faults = [lambda _: (3, ConnectFailed("down"))]
    replayed(FaultyLocation(str(tmp_path)), topic, FakeClock())
    assert topic.copies() == EXPECTED


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 7), st.integers(1, 60))
def test_pieces(sizes: list[int], messages: int, size: int) -> None:
    copies = [Copy(at, Message("again", bytes(one))) for at, one in enumerate(sizes)]
    found = pieces(copies, messages, size)
    assert [copy for piece in found for copy in piece] == copies
    for piece in found:
        assert 1 <= len(piece) <= messages
        assert len(piece) == 1 or sum(len(copy.message.body) for copy in piece) <= size
