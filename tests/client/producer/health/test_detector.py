"""Whom the detector asks, when, and what it makes of the answers; in virtual time."""

import logging
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.health.detector import Detector
from orbitmq.client.producer.health.health import AttemptOutcome, Standing
from orbitmq.client.producer.health.java import Java5Health
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_B, Scene, play, route

A = "broker-a"
ASK = RequestCode.GET_MAX_OFFSET
Story = Callable[[Scene, Java5Health, Detector], Awaitable[None]]


def with_detector(story: Story) -> Scene:
    """Run a story in which broker-a has just failed; nobody listens there by itself."""

    async def whole(scene: Scene) -> Scene:
        scene.routes["orders"] = route("a", "b")
        scene.answer = lambda _request: Response(header=GetMaxOffsetAnswer(offset=0))
        await scene.nameserver()
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        await core.routes.publish_route("orders")
        health = Java5Health(detector=True)
        health.learn(A, AttemptOutcome.NO_ANSWER, 1, scene.clock.monotonic_ms())
        async with Detector(core, health, timeout_ms=200) as detector:
            await story(scene, health, detector)
        await core.release()
        return scene

    return play(whole)


def test_a_broker_that_answers_is_reachable_again() -> None:
    async def story(scene: Scene, health: Java5Health, _detector: Detector) -> None:
        await scene.broker()
        await scene.clock.sleep(2.9)
        assert health.standing(A, 2_900) is Standing.BAD
        await scene.clock.sleep(0.2)
        assert health.standing(A, 3_100) is Standing.BARRED

    scene = with_detector(story)
    [(at_ms, asked)] = [(at, one) for at, _, one in scene.heard if one.code == ASK]
    assert at_ms == 3_000
    assert asked.read(GetMaxOffset).topic == "orders"
    assert scene.codes(BROKER_B) == [], "nothing was sent there yet"


def test_one_that_nobody_hears_from_is_asked_again_and_again() -> None:
    async def story(scene: Scene, health: Java5Health, _detector: Detector) -> None:
        await scene.clock.sleep(7)
        assert health.standing(A, 7_000) is Standing.BAD
        await scene.broker()
        await scene.clock.sleep(2.5)
        assert health.standing(A, 9_500) is Standing.BARRED

    with_detector(story)


@pytest.mark.parametrize(
    "answer", [None, Response(ResponseCode.SERVICE_NOT_AVAILABLE)], ids=["silence", "a refusal"]
)
def test_what_is_no_answer_in_time_is_no_sign_of_life(answer: Response | None) -> None:
    async def story(scene: Scene, health: Java5Health, detector: Detector) -> None:
        scene.answer = lambda _request: answer
        await scene.broker()
        await detector.ask_due()
        assert scene.clock.monotonic_ms() == (200 if answer is None else 0)
        assert health.standing(A, 1_000) is Standing.BAD
        scene.answer = lambda _request: Response()

    with_detector(story)


def test_a_broker_that_no_route_has_is_forgotten() -> None:
    async def story(scene: Scene, health: Java5Health, detector: Detector) -> None:
        health.learn("broker-gone", AttemptOutcome.NO_ANSWER, 1, 0)
        await scene.broker()
        await detector.ask_due()
        assert health.standing("broker-gone", 1) is Standing.GOOD
        assert health.standing(A, 1) is Standing.BARRED

    with_detector(story)


def test_it_goes_on_after_a_defect_and_stops_in_the_end(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Java5Health):
        rounds = 0

        def due_probes(self, now_ms: int) -> list[str]:
            self.rounds += 1
            raise ZeroDivisionError("a defect")

    async def whole(scene: Scene) -> int:
        await scene.nameserver()
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        health = Faulty()
        async with Detector(core, health, timeout_ms=200):
            await scene.clock.sleep(6.5)
        await scene.clock.sleep(60)
        await core.release()
        return health.rounds

    with caplog.at_level(logging.ERROR, "orbitmq.client"):
        assert play(whole) == 2
    assert len(caplog.records) == 2
