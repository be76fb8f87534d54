"""The settings name the way."""

import pytest

from orbitmq.client.producer.health.adaptive import AdaptiveHealth
from orbitmq.client.producer.health.choice import health_of
from orbitmq.client.producer.health.health import AttemptOutcome, Health, Standing
from orbitmq.client.producer.health.java import Java4Health, Java5Health
from orbitmq.client.settings import ProducerSettings

A = "broker-a"


@pytest.mark.parametrize(
    ("way", "kind"),
    [("off", Health), ("java5", Java5Health), ("java4", Java4Health), ("adaptive", AdaptiveHealth)],
)
def test_the_settings_name_the_way(way: str, kind: type[Health]) -> None:
    assert type(health_of(ProducerSettings("g", fault_tolerance=way))) is kind  # type: ignore[arg-type]


def test_the_detector_of_the_settings_is_java5_s() -> None:
    settings = ProducerSettings(
        "g",
        fault_tolerance="java5",  # type: ignore[arg-type]
        detector=True,
        detect_interval_ms=100,
    )
    health = health_of(settings)
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 1_000)
    assert health.standing(A, 1_001) is Standing.BAD
    assert [health.due_probes(now_ms) for now_ms in (1_001, 1_100, 1_101)] == [[A], [], [A]]
