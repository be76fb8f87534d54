"""Which kept message may be sent now: order within order groups, waits, pauses."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from orbitmq.client.producer.outbox.ledger import (
    FIRST_WAIT_MS,
    LONGEST_WAIT_MS,
    Entry,
    Ledger,
    order_group_of,
)
from orbitmq.client.producer.outbox.records import Kept
from orbitmq.message.model import Message, MessageQueue


def entry(sequence: int, key: str | None = None, topic: str = "orders") -> Entry:
    message = Message(topic, b"paid", sharding_key=key, message_id=f"id-{sequence}")
    return Entry.of(sequence, 100, Kept(0, None, "no broker", message))


def sequences(entries: list[Entry]) -> list[int]:
    return [one.sequence for one in entries]


def test_an_order_group_is_a_key_or_a_chosen_queue() -> None:
    queue = MessageQueue("orders", "broker-a", 3)
    assert order_group_of(Message("orders", b"x", sharding_key="o-42"), queue) == "orders/o-42"
    assert order_group_of(Message("orders", b"x"), queue) == "orders@broker-a:3"
    assert order_group_of(Message("orders", b"x"), None) is None
    assert entry(7).order_group == "#7"


def test_of_an_order_group_only_the_first_is_taken() -> None:
    ledger = Ledger()
    for sequence, key in enumerate(["a", "a", "b", None, None, "a"], 1):
        ledger.add(entry(sequence, key))
    taken = ledger.take(0, 100)
    assert sequences(taken) == [1, 3, 4, 5]
    assert ledger.take(0, 100) == []
    for one in taken:
        ledger.sent(one)
    assert sequences(ledger.take(0, 100)) == [2]
    assert ledger.holds("orders/a")
    assert not ledger.holds("orders/b")


def test_a_limit_is_kept() -> None:
    ledger = Ledger()
    for sequence in range(10):
        ledger.add(entry(sequence))
    assert len(ledger.take(0, 4)) == 4
    assert len(ledger.take(0, 100)) == 6


def test_an_order_group_that_failed_waits_longer_each_time() -> None:
    ledger = Ledger()
    ledger.add(entry(1, "a"))
    now_ms, waits = 0, []
    for _ in range(7):
        (taken,) = ledger.take(now_ms, 1)
        ledger.failed(taken, now_ms)
        due_ms = ledger.due_ms()
        assert due_ms is not None
        assert ledger.take(due_ms - 1, 1) == []
        waits.append(due_ms - now_ms)
        now_ms = due_ms
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, LONGEST_WAIT_MS, LONGEST_WAIT_MS]
    (taken,) = ledger.take(now_ms, 1)
    ledger.sent(taken)
    ledger.add(entry(2, "a"))
    (taken,) = ledger.take(now_ms, 1)
    ledger.failed(taken, now_ms)
    assert ledger.due_ms() == now_ms + FIRST_WAIT_MS


def test_a_topic_that_fails_pauses_and_others_go_on() -> None:
    ledger = Ledger()
    for sequence in range(4):
        ledger.add(entry(sequence, topic="orders" if sequence % 2 else "bills"))
    ledger.pause("orders", 0)
    assert sequences(ledger.take(0, 100)) == [0, 2]
    assert ledger.due_ms() == FIRST_WAIT_MS
    ledger.pause("orders", FIRST_WAIT_MS)  # still bad: longer
    assert ledger.take(FIRST_WAIT_MS, 100) == []
    later = ledger.take(3 * FIRST_WAIT_MS, 100)
    assert sequences(later) == [1, 3]
    ledger.sent(later[0])  # and it works again: from the beginning
    ledger.pause("orders", 10_000)
    ledger.add(entry(9))
    assert ledger.take(10_000, 100) == []
    assert sequences(ledger.take(10_000 + FIRST_WAIT_MS, 100)) == [9]


def test_what_is_refused_is_set_aside_and_its_order_group_goes_on() -> None:
    ledger = Ledger()
    ledger.add(entry(1, "a"))
    ledger.add(entry(2, "a"))
    (taken,) = ledger.take(0, 1)
    ledger.refuse(taken, "too large")
    assert sequences(ledger.take(0, 1)) == [2]
    assert [(one.sequence, one.reason) for one in ledger.refused] == [(1, "too large")]
    assert ledger.live_bytes == 200
    ledger.add(ledger.drop(1))
    assert sequences(ledger.entries) == [1, 2]
    assert ledger.live_bytes == 200


class Drains(RuleBasedStateMachine):
    """Whatever is added, fails and is sent: order groups keep their order, nothing is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.now_ms = 0
        self.next = 1
        self.taken: list[Entry] = []
        self.out: list[Entry] = []

    @rule(key=st.sampled_from([None, "a", "b", "c"]), topic=st.sampled_from(["orders", "bills"]))
    def keep(self, key: str | None, topic: str) -> None:
        self.ledger.add(entry(self.next, key, topic))
        self.next += 1

    @rule(limit=st.integers(1, 4))
    def take(self, limit: int) -> None:
        self.taken += self.ledger.take(self.now_ms, limit)

    @rule(outcome=st.sampled_from(["sent", "failed", "refused"]))
    def settle(self, outcome: str) -> None:
        if not self.taken:
            return
        one = self.taken.pop(0)
        if outcome == "failed":
            self.ledger.failed(one, self.now_ms)
            return
        self.out.append(one)
        if outcome == "sent":
            self.ledger.sent(one)
        else:
            self.ledger.refuse(one, "no")

    @rule(topic=st.sampled_from(["orders", "bills"]))
    def pause(self, topic: str) -> None:
        self.ledger.pause(topic, self.now_ms)

    @rule(ms=st.integers(1, 60_000))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    @invariant()
    def nothing_is_lost_and_order_groups_keep_their_order(self) -> None:
        left = self.ledger.entries
        assert sorted(sequences(left) + sequences(self.out)) == [*range(1, self.next)]
        by_group: dict[str, list[int]] = {}
        for one in self.out:
            by_group.setdefault(one.order_group, []).append(one.sequence)
        assert all(found == sorted(found) for found in by_group.values())
        groups = [one.order_group for one in self.taken]
        assert len(groups) == len(set(groups))

    def teardown(self) -> None:
        for one in self.taken:
            self.ledger.failed(one, self.now_ms)
        while (due_ms := self.ledger.due_ms()) is not None:
            self.now_ms = max(self.now_ms, due_ms)
            for one in self.ledger.take(self.now_ms, 100):
                self.ledger.sent(one)
        assert len(self.ledger) == 0


test_any_history = settings(max_examples=40, stateful_step_count=30, deadline=None)(Drains).TestCase


@given(st.lists(st.sampled_from([None, "a", "b"]), max_size=20))
def test_entries_are_listed_in_the_order_of_keeping(keys: list[str | None]) -> None:
    ledger = Ledger()
    for sequence, key in enumerate(keys):
        ledger.add(entry(sequence, key))
    assert sequences(ledger.entries) == [*range(len(keys))]
