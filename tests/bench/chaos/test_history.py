"""The laws over what clients saw: each is broken on purpose, and named."""

from collections.abc import Callable

import pytest

from bench.chaos.history import Delivery, History, Round, Send, judged


def a_history() -> History:
    """Return a run without a fault in it: two rounds, two messages each, one sent twice."""
    keys = ["a-0", "a-1", "a-2", "a-3"]
    history = History(rounds=[Round("killed", 0.0, 1.5, 4.5), Round("paused", 10.0, 11.5, 14.5)])
    history.readers = {"ordered": True, "concurrent": False}
    for number, key in enumerate(keys):
        began = 1.0 + number + (8.0 if number > 1 else 0.0)
        history.sends.append(Send(key, "a", began, began + 0.5, "SEND_OK", 0, number))
    history.stored = {0: [*keys, "a-3"]}
    history.copied = {0: [*keys, "a-3"]}
    for reader in history.readers:
        history.deliveries += [Delivery(reader, key, 0, at) for at, key in enumerate(keys)]
        history.deliveries.append(Delivery(reader, "a-3", 0, 4))
    return history


def test_a_run_without_a_fault_breaks_no_law() -> None:
    first, second = judged(a_history()).rounds
    assert judged(a_history()).broken == []
    assert (first.fault, first.acknowledged, first.stored_twice) == ("killed", 2, 0)
    assert (second.fault, second.acknowledged, second.stored_twice) == ("paused", 2, 1)
    assert (first.lost, first.skipped, first.delivered_twice) == ([], 0, 0)


def test_an_outage_lasts_from_the_last_acknowledgement_before_the_fault() -> None:
    history = a_history()
    assert [one.outage_s for one in judged(history).rounds] == [1.0, 1.0]
    history.sends[2].status = ""
    assert [one.outage_s for one in judged(history).rounds] == [1.0, 10.0]


def lose(history: History) -> None:
    history.stored[0].remove("a-1")
    history.copied[0].remove("a-1")
    for number, send in enumerate(history.sends[2:], start=1):
        send.offset = number


def test_what_was_acknowledged_and_is_not_stored_is_lost_by_its_round() -> None:
    history = a_history()
    lose(history)
    assert [one.lost for one in judged(history).rounds] == [["a-1"], []]
    history.sends[1].status = "FLUSH_SLAVE_TIMEOUT"
    (first, _) = judged(history).rounds
    assert (first.lost, first.weaker, first.weaker_lost) == ([], 1, 1)
    history.sends[1].status = ""
    (first, _) = judged(history).rounds
    assert (first.acknowledged, first.weaker, first.failed) == (1, 0, 1)


def test_what_a_reader_got_twice_is_counted() -> None:
    history = a_history()
    history.deliveries.append(Delivery("ordered", "a-2", 0, 2))
    assert [one.delivered_twice for one in judged(history).rounds] == [0, 1]


def test_a_message_at_the_offset_of_a_lost_one_is_skipped_by_who_had_that() -> None:
    history = a_history()
    history.sends.insert(1, Send("lost", "b", 1.2, 1.4))
    history.deliveries.remove(Delivery("concurrent", "a-3", 0, 3))
    history.deliveries.remove(Delivery("concurrent", "a-3", 0, 4))
    history.deliveries += [Delivery("concurrent", "lost", 0, at) for at in (3, 4)]
    assert [one.skipped for one in judged(history).rounds] == [2, 0]  # that of the loss
    assert judged(history).broken == []


def leave_out(history: History) -> None:
    history.deliveries.remove(Delivery("concurrent", "a-1", 0, 1))


def move(history: History) -> None:
    history.sends[1].offset = 2


def reorder(history: History) -> None:
    history.stored[0][:2] = history.copied[0][:2] = ["a-1", "a-0"]
    history.sends[0].offset, history.sends[1].offset = 1, 0


def invent(history: History) -> None:
    history.stored[0].append("b-0")
    history.copied[0].append("b-0")
    history.deliveries += [Delivery(reader, "b-0", 0, 5) for reader in history.readers]


def copy_less(history: History) -> None:
    history.copied[0].pop()


def read_out_of_order(history: History) -> None:
    deliveries = history.deliveries
    deliveries[0], deliveries[1] = deliveries[1], deliveries[0]


def stumble(history: History) -> None:
    history.troubles.append("not healed")


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        (move, "moved: a-1"),
        (reorder, "out of order: a-1"),
        (invent, "invented: b-0"),
        (leave_out, "undelivered: concurrent did not get a-1 at 1 of 0"),
        (copy_less, "not copied: queue 0"),
        (read_out_of_order, "read out of order: ordered"),
        (stumble, "not healed"),
    ],
)
def test_each_law_is_named_when_it_is_broken(fault: Callable[[History], None], law: str) -> None:
    history = a_history()
    fault(history)
    assert [line.startswith(law) for line in judged(history).broken] == [True]


def test_a_reader_without_a_promise_may_read_in_any_order() -> None:
    history = a_history()
    history.readers["ordered"] = False
    read_out_of_order(history)
    assert judged(history).broken == []
