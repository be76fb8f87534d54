from orbitmq.broker.clients.queue_locks import LOCK_MS, QueueLocks
from orbitmq.message.model import MessageQueue

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))


def test_a_queue_belongs_to_one_client_of_a_group() -> None:
    locks = QueueLocks()
    assert locks.lock("billing", [FIRST], "a", now_ms=0) == [FIRST]
    assert locks.lock("billing", [FIRST, SECOND], "b", now_ms=1) == [SECOND]
    assert locks.lock("audit", [FIRST], "b", now_ms=1) == [FIRST]


def test_a_lock_lasts_as_long_as_it_is_renewed() -> None:
    locks = QueueLocks()
    for now_ms in range(0, 3 * LOCK_MS, LOCK_MS // 3):
        assert locks.lock("billing", [FIRST], "a", now_ms) == [FIRST]
        assert locks.lock("billing", [FIRST], "b", now_ms) == []
    last_ms = 3 * LOCK_MS - LOCK_MS // 3
    assert locks.lock("billing", [FIRST], "b", last_ms + LOCK_MS) == []
    assert locks.lock("billing", [FIRST], "b", last_ms + LOCK_MS + 1) == [FIRST]


def test_only_its_owner_gives_a_queue_back() -> None:
    locks = QueueLocks()
    locks.lock("billing", [FIRST], "a", now_ms=0)
    locks.unlock("billing", [FIRST, SECOND], "b")
    assert locks.lock("billing", [FIRST], "b", now_ms=1) == []
    locks.unlock("billing", [FIRST], "a")
    assert locks.lock("billing", [FIRST], "b", now_ms=1) == [FIRST]
    locks.unlock("audit", [FIRST], "a")  # a group without locks


def test_a_group_with_a_lock_consumes_in_order() -> None:
    locks = QueueLocks()
    assert not locks.is_locking("billing", now_ms=0)
    locks.lock("billing", [FIRST], "a", now_ms=0)
    assert locks.is_locking("billing", now_ms=LOCK_MS)
    assert not locks.is_locking("billing", now_ms=LOCK_MS + 1)


def test_a_lock_that_is_not_renewed_is_removed() -> None:
    locks = QueueLocks()
    locks.lock("billing", [FIRST], "a", now_ms=0)
    locks.lock("billing", [SECOND], "a", now_ms=LOCK_MS)
    locks.lock("audit", [FIRST], "a", now_ms=0)
    locks.lock("nothing", [], "a", now_ms=0)
    locks.expire(LOCK_MS + 1)
    assert {group: list(held) for group, held in locks._groups.items()} == {"billing": [SECOND]}
