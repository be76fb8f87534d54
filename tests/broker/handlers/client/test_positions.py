import pytest

from orbitmq.broker.handlers.client.positions import PositionHandlers
from orbitmq.wire.headers.offset import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeAnswer,
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
)
from tests.broker.world import World, ask
from tests.store.logs import NOW


@pytest.fixture
def world() -> World:
    """Three messages at one moment, two a second later; the first two are gone."""
    world = World()
    world.put("orders", count=3)
    world.clock.now += 1_000
    world.put("orders", count=2)
    queue = world.store.queues.queue("orders", 0)
    assert queue is not None
    queue.min_offset = 2
    return world


def test_a_queue_begins_and_ends_where_its_messages_do(world: World) -> None:
    table = PositionHandlers(store=world.store).table()
    lowest = ask(table, GetMinOffset(topic="orders", queue_id=0)).read(GetMinOffsetAnswer)
    highest = ask(table, GetMaxOffset(topic="orders", queue_id=0)).read(GetMaxOffsetAnswer)
    assert (lowest.offset, highest.offset) == (2, 5)


def test_a_queue_without_messages_begins_and_ends_at_0(world: World) -> None:
    table = PositionHandlers(store=world.store).table()
    lowest = ask(table, GetMinOffset(topic="orders", queue_id=9)).read(GetMinOffsetAnswer)
    highest = ask(table, GetMaxOffset(topic="nothing", queue_id=0)).read(GetMaxOffsetAnswer)
    assert (lowest.offset, highest.offset) == (0, 0)


@pytest.mark.parametrize(
    ("after_ms", "boundary", "offset"),
    [(0, None, 2), (1, "LOWER", 3), (999, "upper", 2), (1_000, "UPPER", 4), (1_001, "lower", 5)],
)
def test_an_offset_is_found_by_time(
    world: World, after_ms: int, boundary: str | None, offset: int
) -> None:
    table = PositionHandlers(store=world.store).table()
    header = SearchOffset(
        topic="orders", queue_id=0, timestamp=NOW + after_ms, boundary_type=boundary
    )
    assert ask(table, header).read(SearchOffsetAnswer).offset == offset


def test_the_oldest_message_tells_its_time(world: World) -> None:
    table = PositionHandlers(store=world.store).table()

    def earliest(queue_id: int) -> int:
        answer = ask(table, GetEarliestMsgStoretime(topic="orders", queue_id=queue_id))
        return answer.read(GetEarliestMsgStoretimeAnswer).timestamp

    assert earliest(0) == NOW
    assert earliest(1) == -1
