"""Who is asked about undecided transactions, when, and how often."""

import pytest
from msgspec.structs import replace

from orbitmq.broker.sending import transaction_checks
from orbitmq.message import properties, scan
from orbitmq.message.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.settings import FlushMode
from tests.broker.fake_clients import Client
from tests.broker.send_world import SMALL
from tests.broker.transaction_world import (
    COMMIT,
    GROUP,
    ROLLBACK,
    UNKNOWN,
    Transactions,
    checks_of,
)

DAY_MS = 24 * 3_600_000


def asked(*clients: Client) -> list[str | None]:
    """Return the unique keys that producers were asked about."""
    return [check.msg_id for client in clients for check in checks_of(client)]


def test_a_producer_is_asked_after_the_time_out() -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half()
    world.round(6_000)
    assert not checks_of(producer)
    world.round(1)
    assert asked(producer) == ["U1"]


def test_the_check_is_about_the_copy_and_shows_the_message_as_it_was_sent() -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half(queue_id=3, KEYS="k1")
    world.round()
    [check] = checks_of(producer)
    [_, copy] = world.halves_stored()
    assert check.topic == HALF_TOPIC
    assert check.tran_state_table_offset == copy.queue_offset == 1
    assert check.commit_log_offset == copy.commit_log_offset
    assert check.msg_id == check.transaction_id == "U1"
    assert check.target_broker == "broker-a"
    [message] = scan.decode_all(producer.received[0][1], broker_name="broker-a")
    assert (message.topic, message.queue_id, message.body) == ("orders", 3, b"U1")
    assert message.queue_offset == check.tran_state_table_offset
    assert message.commit_log_offset == check.commit_log_offset
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert message.properties["KEYS"] == "k1"


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_the_answer_to_a_check_ends_the_transaction(decision: int) -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half()
    world.round()
    world.reply(producer, decision)
    assert world.bodies() == ([b"U1"] if decision == COMMIT else [])
    world.round()
    world.round()
    assert len(checks_of(producer)) == 1


def test_an_undecided_one_is_asked_about_in_every_round_and_then_kept_elsewhere() -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half()
    for times in range(1, 16):
        world.round()
        assert len(checks_of(producer)) == times
        world.reply(producer, UNKNOWN)
        assert not world.stored(CHECKED_TOO_OFTEN_TOPIC)
    world.round()
    assert len(checks_of(producer)) == 15
    [kept] = world.stored(CHECKED_TOO_OFTEN_TOPIC)
    assert kept.body == b"U1"
    assert kept.properties["REAL_TOPIC"] == "orders"
    assert kept.properties["TRANSACTION_CHECK_TIMES"] == "15"
    assert world.topics.get(CHECKED_TOO_OFTEN_TOPIC) is not None
    assert world.open_transactions.count("orders") == 0
    world.round()
    assert len(world.stored(CHECKED_TOO_OFTEN_TOPIC)) == 1
    assert world.halves.offset == 16


def test_one_that_was_kept_elsewhere_can_still_be_committed_once() -> None:
    world = Transactions.started(transaction_check_max=1)
    producer = world.producer()
    half = world.half()
    world.round()
    world.round()
    assert len(world.stored(CHECKED_TOO_OFTEN_TOPIC)) == 1
    world.end(half, COMMIT)
    world.reply(producer, COMMIT)
    assert world.bodies() == [b"U1"]


def test_without_a_producer_it_waits_and_no_check_is_counted() -> None:
    world = Transactions.started(transaction_check_max=2)
    world.half()
    other = world.producer(group="others")
    for _ in range(100):
        world.round()
    assert not checks_of(other)
    assert len(world.halves_stored()) == 1
    producer = world.producer()
    world.tick()  # no round is needed
    assert asked(producer) == ["U1"]
    world.reply(producer, COMMIT)
    assert world.bodies() == [b"U1"]


def test_another_group_does_not_wait() -> None:
    world = Transactions.started()
    world.half("U1", PGROUP="gone")
    world.half("U2")
    producer = world.producer()
    world.round()
    assert asked(producer) == ["U2"]
    world.reply(producer, COMMIT)
    assert world.bodies() == [b"U2"]
    world.flush()
    world.tick(3_000)
    assert world.saved_offsets()[0] == -1
    assert world.op_bodies() == [b"1,2,"]  # the half and its copy: a start doesn't look at them
    world = world.stopped_and_started()
    producer, back = world.producer(), world.producer("p2", group="gone")
    world.round()
    assert asked(producer) == []
    assert asked(back) == ["U1"]


def test_producers_of_a_group_take_turns() -> None:
    world = Transactions.started()
    clients = [world.producer(f"p{number}") for number in range(3)]
    for number in range(6):
        world.half(f"U{number}")
    world.round()
    assert [len(checks_of(client)) for client in clients] == [2, 2, 2]


def test_if_a_producer_is_gone_another_one_is_asked() -> None:
    world = Transactions.started()
    gone, other = world.producer("p1"), world.producer("p2")
    gone.closed_for = "gone"
    for number in range(4):
        world.half(f"U{number}")
    world.round()
    assert sorted(map(str, asked(other))) == ["U0", "U1", "U2", "U3"]


def test_a_producer_that_does_not_read_is_not_asked() -> None:
    world = Transactions.started()
    producer = world.producer()
    producer.is_writable = False
    world.half()
    world.round()
    assert not checks_of(producer)
    assert len(world.halves_stored()) == 1
    producer.is_writable = True
    world.tick()
    assert asked(producer) == ["U1"]


def test_a_producer_gets_no_more_checks_than_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_checks, "_UNANSWERED_MAX", 3)
    world = Transactions.started()
    producer = world.producer()
    for number in range(8):
        world.half(f"U{number}")
    world.round()
    assert asked(producer) == ["U0", "U1", "U2"]
    world.reply(producer, UNKNOWN)
    world.tick()
    assert asked(producer) == ["U0", "U1", "U2", "U3"]
    world.round()  # whoever is silent may have lost them
    assert asked(producer)[4:] == ["U4", "U5", "U6"]


def test_immunity_is_respected() -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half("U1", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    world.half("U2")
    world.round()
    assert asked(producer) == ["U2"]
    world.round()
    world.round()
    assert "U1" not in asked(producer)
    assert len([one for one in world.stored(HALF_TOPIC) if one.body == b"U1"]) == 1
    world.tick(10_000)
    assert "U1" not in asked(producer)
    world.tick(1)
    assert asked(producer).count("U1") == 1


def test_an_immune_one_that_ends_is_forgotten() -> None:
    world = Transactions.started()
    producer = world.producer()
    half = world.half("U1", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    world.round()
    world.end(half, COMMIT)
    world.round()
    world.round(200_000)
    assert not checks_of(producer)
    assert world.halves.offset == 1


@pytest.mark.parametrize("text", ["soon", "-1", "-500"])
def test_an_immunity_that_is_no_time_is_the_usual_one_or_none(text: str) -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half(CHECK_IMMUNITY_TIME_IN_SECONDS=text)
    world.round(6_001)
    assert asked(producer) == ["U1"]


def test_a_producer_with_a_clock_ahead_is_asked() -> None:
    world = Transactions.started()
    producer = world.producer()
    world.clock.now += 60_000
    world.half()
    world.clock.now -= 60_000
    world.round()
    assert asked(producer) == ["U1"]


def test_it_is_never_discarded_unchecked_however_old_it_is() -> None:
    store = replace(SMALL, reserved_hours=72)
    world = Transactions.started(store=store)
    world.half()
    for _ in range(20):
        world.round(DAY_MS)
    assert not world.stored(CHECKED_TOO_OFTEN_TOPIC)
    # It was copied each time before its file could expire, without a check.
    records = world.halves_stored()
    assert 5 <= len(records) <= 12
    assert all(b"TRANSACTION_CHECK_TIMES" not in record.properties for record in records)
    producer = world.producer()
    world.round()
    assert asked(producer) == ["U1"]
    world.round()  # older than files are kept, and checked
    assert len(world.stored(CHECKED_TOO_OFTEN_TOPIC)) == 1


def test_one_that_waits_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_checks, "_DONE_MAX", 20)
    world = Transactions.started()
    world.half("U0", PGROUP="gone")
    world.round()
    for number in range(1, 31):
        world.end(world.half(f"U{number}"), COMMIT)
        assert world.halves.done_after_offset <= 26
        world.tick()
    assert [one.body for one in world.stored(HALF_TOPIC)].count(b"U0") == 2
    world.round()
    producer = world.producer(group="gone")
    world.tick()
    assert asked(producer) == ["U0"]


def test_many_are_checked_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_checks, "_WALKED_AT_ONCE", 10)
    monkeypatch.setattr(transaction_checks, "_COPIED_AT_ONCE", 4)
    world = Transactions.started()
    producer = world.producer()
    for number in range(25):
        world.half(f"U{number}")
    world.clock.now += 30_000
    world.transaction_checks.begin_round()
    world.transaction_checks.tick(world.clock.now)
    assert world.inbox.waiting == 4
    world.take_turns()
    assert len(checks_of(producer)) == 10
    world.tick()
    world.tick()
    assert asked(producer) == [f"U{number}" for number in range(25)]
    world.tick()
    assert len(checks_of(producer)) == 25


def test_what_can_not_be_copied_now_is_checked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half("U1")
    world.half("U2")
    forward = world.store.forward
    busy = PutResult(status=PutStatus.CREATE_MAPPED_FILE_FAILED, remark="no space")
    monkeypatch.setattr(world.store, "forward", lambda messages: [busy for _ in messages])
    world.round()
    assert not checks_of(producer)
    monkeypatch.setattr(world.store, "forward", forward)
    world.tick()
    assert sorted(map(str, asked(producer))) == ["U1", "U2"]
    assert world.halves.offset == 2


def test_one_that_has_no_room_for_the_count_is_asked_about_in_its_place() -> None:
    world = Transactions.started()
    world.end(world.half("U0", filler="x"), ROLLBACK)
    [first] = world.halves_stored()
    producer = world.producer()
    world.half(filler="x" * (32_767 - len(first.properties)))
    world.round()
    world.round(30_001)
    assert asked(producer) == ["U1", "U1"]
    assert len(world.halves_stored()) == 2
    world.reply(producer, COMMIT)
    assert world.bodies() == [b"U1"]
    assert world.halves.offset == 2


def test_a_stop_ends_the_checks() -> None:
    world = Transactions.started()
    producer = world.producer()
    world.half()
    world.transaction_checks.stop()
    world.round()
    assert not checks_of(producer)


def test_checks_go_on_after_a_restart() -> None:
    world = Transactions.started()
    world.producer()
    world.half("U1")
    world.half("U2")
    world.round()
    world = world.stopped_and_started()
    producer = world.producer()
    world.round()
    assert asked(producer) == ["U1", "U2"]
    times = [properties.decode(one.properties) for one in world.halves_stored()[4:]]
    assert [found["TRANSACTION_CHECK_TIMES"] for found in times] == ["2", "2"]
    assert {found["PGROUP"] for found in times} == {GROUP}


def test_a_copy_that_a_crash_lost_is_made_again() -> None:
    world = Transactions.started()
    world.producer()
    world.half()
    world.flush()
    world.round()
    world.tick()
    world = world.crashed_and_started()
    producer = world.producer()
    world.round()
    assert asked(producer) == ["U1"]
    world.reply(producer, COMMIT)
    assert world.bodies() == [b"U1"]


def test_what_a_crash_left_is_searched_for_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction_checks, "_COPIED_AT_ONCE", 4)
    settings = {"store": replace(SMALL, flush_mode=FlushMode.SYNC)}
    world = Transactions.started(**settings)
    for number in range(10):
        world.end(world.half(f"U{number}"), COMMIT)
    world = world.crashed_and_started(saved=False, **settings)  # no op message, no offset
    producer = world.producer()
    world.round()
    assert world.halves.offset == 4
    world.tick()
    assert world.halves.offset == 8
    world.tick()
    assert world.halves.offset == 10
    assert not checks_of(producer)
    assert len(world.bodies()) == 10
