from msgspec.structs import replace

from orbitmq.broker.handlers.operator.timers import TimerHandlers
from orbitmq.store.settings import StoreSettings
from orbitmq.wire.bodies.timers import TimerMetrics
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from tests.broker.send_world import SMALL, SendWorld, header
from tests.broker.world import ask
from tests.store.logs import NOW


def served(world: SendWorld, code: RequestCode) -> Frame:
    handlers = TimerHandlers(timers=world.timers, settings=world.settings)
    return ask(handlers.table(), NoFields(), code=code)


def pass_time(world: SendWorld, seconds: int) -> None:
    for _ in range(10 * seconds):
        world.clock.now += 100
        world.timers.tick(world.clock.now)
        world.take_turns()


def test_replicas_get_the_checkpoint_and_the_numbers_by_topic() -> None:
    world = SendWorld()
    world.send(header(properties={"UNIQ_KEY": "U1", "TIMER_DELAY_MS": "60000"}))
    world.send(header(properties={"UNIQ_KEY": "U2", "TIMER_DELAY_MS": "2500"}))
    pass_time(world, 5)
    body = bytes(served(world, RequestCode.GET_TIMER_CHECK_POINT).body)
    fields = [int.from_bytes(body[at : at + 8]) for at in range(0, 56, 8)]
    assert len(body) == 56
    assert NOW + 3_000 <= fields[0] <= NOW + 5_000
    assert fields[1:4] == [104, 2, 2]
    answer = served(world, RequestCode.GET_TIMER_METRICS)
    metrics = TimerMetrics.from_json(bytes(answer.body))
    assert {name: one.count for name, one in metrics.timing_count.items()} == {"orders": 1}


def test_without_the_wheel_there_is_nothing_to_report() -> None:
    world = SendWorld(replace(SMALL, timer_wheel_enabled=False))
    assert isinstance(world.settings.store, StoreSettings)
    for code, remark in (
        (RequestCode.GET_TIMER_CHECK_POINT, "The checkpoint is null"),
        (RequestCode.GET_TIMER_METRICS, "The timer message store is null"),
    ):
        answer = served(world, code)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert str(answer.remark).startswith(remark)
