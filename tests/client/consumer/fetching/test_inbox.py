from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.message.model import MessageQueue, StoredMessage
from tests.client.stored import a_stored_message

QUEUE = MessageQueue("orders", "broker-a", 3)


def messages(*offsets: int) -> list[StoredMessage]:
    return [a_stored_message(at=offset) for offset in offsets]


def filled(*offsets: int) -> Inbox:
    inbox = Inbox(QUEUE)
    inbox.put(messages(*offsets))
    return inbox


def test_messages_go_from_waiting_to_in_hand_to_gone() -> None:
    inbox = filled(7, 8, 9)
    assert (inbox.count, inbox.waiting, inbox.in_hand, inbox.bytes) == (3, 3, 0, 12)
    taken = inbox.take(2, now_ms=5)
    assert [one.queue_offset for one in taken] == [7, 8]
    assert (inbox.count, inbox.waiting, inbox.in_hand, inbox.taken_ms) == (3, 1, 2, 5)
    inbox.finish(taken)
    assert (inbox.count, inbox.waiting, inbox.in_hand, inbox.bytes) == (1, 1, 0, 4)
    assert "1 waiting" in repr(inbox)


def test_the_offset_to_commit_waits_for_the_first_unfinished_message() -> None:
    inbox = Inbox(QUEUE)
    assert inbox.commit_offset is None
    assert inbox.first_offset is None
    inbox.put(messages(7, 8, 12))
    first, second, third = inbox.take(3, now_ms=0)
    inbox.finish([second])
    assert inbox.commit_offset == inbox.first_offset == 7
    assert inbox.span == 5
    inbox.finish([first])
    assert inbox.commit_offset == 12
    inbox.finish([third])
    assert inbox.commit_offset == 13
    assert (inbox.first_offset, inbox.last_offset, inbox.span) == (None, 12, 0)


def test_messages_given_back_are_the_next() -> None:
    inbox = filled(1, 2, 3)
    taken = inbox.take(2, now_ms=0)
    inbox.give_back(taken)
    assert inbox.in_hand == 0
    assert [one.queue_offset for one in inbox.take(3, now_ms=0)] == [1, 2, 3]


def test_a_message_is_finished_and_given_back_once() -> None:
    inbox = filled(1, 2)
    (first,) = inbox.take(1, now_ms=0)
    inbox.finish([first])
    inbox.finish([first])
    inbox.give_back([first])
    assert (inbox.count, inbox.bytes) == (1, 4)
    assert [one.queue_offset for one in inbox.take(5, now_ms=0)] == [2]


def test_a_waiting_message_that_was_finished_is_not_taken() -> None:
    inbox = filled(1, 2, 3)
    inbox.finish(messages(2))
    assert [one.queue_offset for one in inbox.take(5, now_ms=0)] == [1, 3]


def test_messages_put_twice_count_once() -> None:
    inbox = filled(1, 2)
    inbox.put(messages(1, 2))
    inbox.put(messages(2, 3))
    inbox.put([])
    assert (inbox.count, inbox.bytes, inbox.last_offset) == (3, 12, 3)


def test_a_dropped_inbox_hands_out_nothing() -> None:
    inbox = filled(1)
    inbox.drop()
    assert inbox.is_dropped
    assert inbox.take(1, now_ms=0) == []
    assert "dropped" in repr(inbox)


def test_messages_in_hand_for_long_are_found_oldest_first() -> None:
    inbox = filled(1, 2, 3, 4)
    (first,) = inbox.take(1, now_ms=10)
    inbox.take(2, now_ms=20)
    inbox.give_back([first])
    inbox.take(1, now_ms=30)
    assert [one.queue_offset for one in inbox.taken_before(30, 16)] == [2, 3]
    assert [one.queue_offset for one in inbox.taken_before(31, 2)] == [2, 3]


def test_room_is_announced_after_a_finish() -> None:
    inbox, left = filled(1, 2), []
    inbox.on_room = lambda: left.append(inbox.count)
    inbox.finish(inbox.take(1, now_ms=0))
    assert left == [1]


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "finish", "give_back"]), st.integers(0, 9)),
    max_size=80,
)


@given(STEPS)
def test_no_order_of_steps_commits_an_unfinished_message(steps: list[tuple[str, int]]) -> None:
    inbox, following = Inbox(QUEUE), 0
    unfinished: dict[int, StoredMessage] = {}
    in_hand: list[StoredMessage] = []
    committed = -1
    for step, number in steps:
        if step == "put":
            some = messages(*range(following, following + 2 * number, 2))  # with gaps
            inbox.put(some)
            unfinished |= {one.queue_offset: one for one in some}
            following += 2 * number
        elif step == "take":
            in_hand += inbox.take(number, now_ms=0)
        elif in_hand:
            one = in_hand.pop(number % len(in_hand))
            if step == "finish":
                inbox.finish([one])
                del unfinished[one.queue_offset]
            else:
                inbox.give_back([one])
        offset = inbox.commit_offset
        assert inbox.count == len(unfinished)
        assert inbox.in_hand == len(in_hand)
        assert inbox.waiting == len(unfinished) - len(in_hand)
        assert inbox.bytes == sum(len(one.body) for one in unfinished.values())
        if offset is None:
            assert following == 0
        else:
            assert offset >= committed
            assert all(offset <= one for one in unfinished)
            assert offset in unfinished or not unfinished
            committed = offset
