"""Sends that wait until enough replicas have them."""

import pytest

from orbitmq.replication.acks import ReplicaAcks
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.append import PutStatus

OK, LATE, NONE = (
    PutStatus.PUT_OK,
    PutStatus.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE,
)


def acks(*, replicas: int = 2, log_end: int = 1_000) -> ReplicaAcks:
    settings = ReplicationSettings(in_sync_replicas=replicas, gap_bytes_max=500)
    return ReplicaAcks(lambda: settings, lambda: log_end)


def test_a_report_releases_all_before_it_in_order() -> None:
    waiting = acks()
    told: dict[int, list[PutStatus]] = {end: [] for end in (100, 200, 300, 150)}
    for end in (100, 200, 300):
        waiting.wait_for(end, 0, told[end].append)
    waiting.note("a", 200)
    assert told == {100: [OK], 200: [OK], 300: [], 150: []}
    waiting.wait_for(150, 0, told[150].append)
    assert told[150] == [OK]
    waiting.note("a", 900)
    assert told[300] == [OK]


def test_as_many_as_wanted_must_have_it() -> None:
    waiting = acks(replicas=3)
    told: list[PutStatus] = []
    waiting.wait_for(100, 0, told.append)
    waiting.note("a", 500)
    waiting.note("a", 900)
    assert told == []
    waiting.note("b", 99)
    assert told == []
    waiting.note("b", 100)
    assert told == [OK]


def test_a_replica_that_has_left_does_not_count() -> None:
    waiting = acks()
    told: list[PutStatus] = []
    waiting.note("a", 50)
    waiting.leave("a")
    waiting.wait_for(40, 0, told.append)
    waiting.tick(3_000)
    assert told == [NONE]


@pytest.mark.parametrize(("acked", "status"), [(501, LATE), (500, NONE)])
def test_who_waits_too_long_learns_whether_there_was_a_replica(
    acked: int, status: PutStatus
) -> None:
    waiting = acks()
    told: list[PutStatus] = []
    waiting.note("a", acked)
    waiting.wait_for(1_000, 0, told.append)
    waiting.tick(2_999)
    assert told == []
    waiting.tick(3_000)
    assert told == [status]


def test_alone_nobody_waits() -> None:
    waiting = acks(replicas=1)
    told: list[PutStatus] = []
    waiting.wait_for(1_000, 0, told.append)
    assert told == [OK]


def test_a_stop_answers_all() -> None:
    waiting = acks()
    told: list[PutStatus] = []
    waiting.wait_for(1_000, 0, told.append)
    waiting.close()
    assert told == [NONE]


def elected(*, all_of_them: bool) -> tuple[ReplicaAcks, InSyncSet]:
    settings = ReplicationSettings(all_ack_in_sync_set=all_of_them)
    members = InSyncSet(
        1,
        members={1, 2, 3},
        epoch_start=0,
        settings=lambda: settings,
        log_end=lambda: 1_000,
        now_ms=0,
    )
    waiting = ReplicaAcks(lambda: settings, lambda: 1_000)
    waiting.in_sync_set = members
    members.on_confirmed = lambda _offset: waiting.release()
    return waiting, members


def test_with_elections_all_in_sync_must_have_it() -> None:
    waiting, members = elected(all_of_them=True)
    told: list[PutStatus] = []
    waiting.wait_for(500, 0, told.append)
    members.reported(2, 900, 0)
    assert told == []
    members.reported(3, 499, 0)
    assert told == []
    members.reported(3, 500, 0)
    assert told == [OK]
    waiting.wait_for(600, 0, told.append)
    waiting.tick(3_000)
    assert told == [OK, LATE]
    assert waiting.in_sync == 2


def test_with_elections_as_many_as_wanted_are_enough_if_that_is_set() -> None:
    waiting, members = elected(all_of_them=False)
    told: list[PutStatus] = []
    waiting.wait_for(500, 0, told.append)
    members.reported(2, 900, 0)
    waiting.release()
    assert told == [OK]
