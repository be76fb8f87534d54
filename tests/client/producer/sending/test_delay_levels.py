"""Delay levels: the table, the level of a delay, and the warning about levels above 18."""

from datetime import timedelta

import pytest

from orbitmq.client.producer.sending.delay_levels import DELAYS, delay_level
from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message
from orbitmq.store.settings import StoreSettings, delay_levels
from tests.client.post import open_post, open_producer
from tests.client.scene import Scene, play


def test_the_levels_are_the_defaults_of_brokers() -> None:
    default = StoreSettings().message_delay_level
    assert default == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    assert [*DELAYS] == [timedelta(milliseconds=waits) for waits in delay_levels(default)]


@pytest.mark.parametrize(
    ("seconds", "level"), [(0, 0), (0.001, 1), (1, 1), (1.001, 2), (600, 14), (601, 15), (7200, 18)]
)
def test_a_level_waits_at_least_as_long_as_the_delay(seconds: float, level: int) -> None:
    assert delay_level(timedelta(seconds=seconds)) == level


@pytest.mark.parametrize("seconds", [-1, 7201])
def test_other_delays_have_no_level(seconds: int) -> None:
    with pytest.raises(InvalidInput, match="no delay level waits"):
        delay_level(timedelta(seconds=seconds))


@pytest.mark.parametrize("options", [{}, {"auto_batch": True}])
def test_a_level_above_18_is_sent_as_it_is_with_one_warning(
    options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> list[str]:
        post = await open_post(scene)
        producer = await open_producer(scene, **options)
        await producer.send(Message("orders", b"paid", delay_level=18))
        assert caplog.messages == []
        await producer.send(Message("orders", b"paid", delay_level=99))
        await producer.send_oneway(Message("orders", b"paid", delay_level=19))
        await producer.send_many([Message("orders", b"paid", delay_level=20)])
        return [sent.properties["DELAY"] for sent in post.sent]

    assert play(story) == ["18", "99", "19", "20"]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "delay_level 99 of a message to orders is above 18: a broker with default delay levels "
        "delivers it after 2 h; "
    )
