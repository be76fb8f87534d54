"""What a send waits for: the disk, replicas, both or nothing."""

import pytest

from orbitmq.broker.durability import Durability, with_status
from orbitmq.broker.settings import BrokerRole, BrokerSettings, LiveSettings
from orbitmq.replication.acks import ReplicaAcks
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.settings import FlushMode
from tests.replication.worlds import a_store
from tests.store.stores import HandClock, put

OK = PutStatus.PUT_OK


def a_durability(
    mode: FlushMode, role: BrokerRole, *, replicas: int = 2
) -> tuple[Durability, ReplicaAcks, int]:
    store = a_store(mode=mode)
    settings = LiveSettings(
        BrokerSettings(broker_role=role),
        replication=ReplicationSettings(in_sync_replicas=replicas),
    )
    acks = ReplicaAcks(lambda: settings.replication, lambda: store.log.end)
    durability = Durability(store=store, settings=settings, acks=acks, clock=HandClock())
    return durability, acks, put(store, b"message")[0].end


def test_with_neither_there_is_nothing_to_wait_for() -> None:
    assert not a_durability(FlushMode.ASYNC, BrokerRole.ASYNC_MASTER)[0].waits
    assert not a_durability(FlushMode.ASYNC, BrokerRole.SYNC_MASTER, replicas=1)[0].waits


def test_with_sync_flush_it_is_the_disk() -> None:
    durability, _, end = a_durability(FlushMode.SYNC, BrokerRole.ASYNC_MASTER)
    told: list[PutStatus] = []
    durability.wait_for(end, told.append)
    assert told == [OK]


@pytest.mark.parametrize("mode", FlushMode)
def test_with_a_sync_master_it_is_a_replica_too(mode: FlushMode) -> None:
    durability, acks, end = a_durability(mode, BrokerRole.SYNC_MASTER)
    told: list[PutStatus] = []
    durability.wait_for(end, told.append)
    assert told == []
    acks.note("a", end)
    assert told == [OK]


def test_a_master_that_leads_no_more_acknowledges_nothing() -> None:
    durability, acks, end = a_durability(FlushMode.SYNC, BrokerRole.SYNC_MASTER, replicas=1)
    leads = True
    durability.leads = lambda: leads
    assert durability.waits
    told: list[PutStatus] = []
    durability.wait_for(end, told.append)
    leads = False
    durability.wait_for(end, told.append)
    acks.close()
    assert told == [OK, PutStatus.SERVICE_NOT_AVAILABLE]


@pytest.mark.parametrize("mode", FlushMode)
def test_what_replicas_did_not_achieve_is_said(mode: FlushMode) -> None:
    durability, acks, end = a_durability(mode, BrokerRole.SYNC_MASTER)
    told: list[PutStatus] = []
    durability.wait_for(end, told.append)
    acks.close()
    assert told == [PutStatus.SLAVE_NOT_AVAILABLE]
    result = with_status(PutResult(status=OK, end=end), told[0])
    assert (result.status, result.end, result.status.is_stored) == (told[0], end, True)
