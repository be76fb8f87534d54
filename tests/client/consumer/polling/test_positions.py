"""Positions: moved by polls and seeks, and committed when they should be."""

import asyncio

import pytest

from orbitmq.client.consumer.polling.positions import Positions
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.consumer.polling.parts import QUEUES, MemoryOffsets

A, B, *_ = QUEUES


def test_a_position_is_not_committed_by_moving() -> None:
    store = MemoryOffsets()
    positions = Positions(store, auto_commit=False)
    positions.update(A, 5)
    positions.update(A, 3)
    assert (positions.get(A), positions.get(B)) == (5, None)
    asyncio.run(positions.persist())
    assert store.kept == {}
    positions.commit([A, B])
    asyncio.run(positions.persist())
    assert store.kept == {A: 5}


def test_auto_commit_commits_what_it_persists() -> None:
    store = MemoryOffsets()
    positions = Positions(store, auto_commit=True)
    positions.update(A, 5)
    positions.update(B, 7)
    asyncio.run(positions.persist([A]))
    assert store.kept == {A: 5}
    asyncio.run(positions.persist())
    assert store.kept == {A: 5, B: 7}


def test_another_offset_is_committed_until_the_position_is() -> None:
    store = MemoryOffsets()
    positions = Positions(store, auto_commit=False)
    positions.update(A, 9)
    positions.commit()
    positions.commit_at(A, 4)
    assert (store.noted, positions.get(A)) == ({A: 4}, 9)
    positions.commit()
    assert store.noted == {A: 9}


def test_a_seek_backwards_is_committed() -> None:
    store = MemoryOffsets({A: 9})
    positions = Positions(store, auto_commit=True)
    positions.update(A, 9)
    positions.update(A, 2, increase_only=False)
    asyncio.run(positions.persist())
    assert store.kept == {A: 2}


@pytest.mark.parametrize("seeks", [True, False])
def test_reading_begins_where_a_seek_was_or_at_what_is_committed(seeks: bool) -> None:
    positions = Positions(MemoryOffsets({A: 9}), auto_commit=True)
    if seeks:
        positions.update(A, 2, increase_only=False)
    assert asyncio.run(positions.stored(A)) == (2 if seeks else 9)


def test_a_position_that_did_not_move_is_not_committed() -> None:
    store = MemoryOffsets({A: 9})
    positions = Positions(store, auto_commit=True)

    async def main() -> None:
        offset = await positions.stored(A)
        assert offset == 9
        positions.update(A, offset, increase_only=False)
        store.kept[A] = 12  # by the member that had it before
        await positions.persist()
        assert store.kept[A] == 12
        positions.update(A, 13)
        await positions.persist()
        assert store.kept[A] == 13

    asyncio.run(main())


def test_a_forgotten_queue_begins_at_what_is_committed() -> None:
    store = MemoryOffsets({A: 9})
    positions = Positions(store, auto_commit=True)
    positions.update(A, 12)
    positions.commit()
    positions.forget(A)
    assert (positions.get(A), store.noted) == (None, {})
    assert asyncio.run(positions.stored(A)) == 9


def test_it_persists_when_asked_to() -> None:
    store = MemoryOffsets()
    seen: list[dict[MessageQueue, int]] = []

    async def main(clock: VirtualClock) -> None:
        positions = Positions(store, auto_commit=False)
        task = asyncio.create_task(positions.run())
        positions.update(A, 1)
        positions.commit()
        positions.update(A, 2)
        await clock.sleep(0.1)
        seen.append(dict(store.kept))
        positions.persist_soon()
        await clock.sleep(0.1)
        seen.append(dict(store.kept))
        task.cancel()

    run_virtual(main)
    assert seen == [{}, {A: 1}]
