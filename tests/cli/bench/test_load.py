import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from orbitmq.cli.bench.figures import Figures
from orbitmq.cli.bench.load import Amount, send
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import SendForbidden, SendUnreachable
from orbitmq.message.model import Message
from orbitmq.testing.clocks import run_virtual


class Sends:
    """A producer whose sends take a second, and fail as it is told."""

    def __init__(self, fails: Callable[[int], bool] = lambda _: False) -> None:
        self.at: list[float] = []
        self._fails = fails

    async def send(self, message: Message) -> None:
        number = len(self.at)
        self.at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if self._fails(number):
            raise SendUnreachable("gone", topic=message.topic, send_id="i")


def sent(sends: Sends, amount: Amount, in_flight: int = 4) -> Figures:
    """Send in virtual time."""

    async def work() -> Figures:
        figures = Figures("sent", asyncio.get_running_loop().time)
        producer = cast(Producer, sends)
        await send(producer, Message("t", b"x" * 10), amount, in_flight, figures)
        return figures

    return run_virtual(lambda _: work())


def test_as_many_as_are_asked_for_and_some_at_a_time() -> None:
    sends = Sends()
    figures = sent(sends, Amount(10, None))
    assert (figures.messages, figures.bytes, figures.failed) == (10, 100, 0)
    assert figures.seconds == pytest.approx(3)
    assert figures.latencies.as_ms()["p50"] == pytest.approx(1_000, rel=0.02)


def test_as_long_as_is_asked_for() -> None:
    assert sent(Sends(), Amount(None, 5.0)).messages == 20


def test_at_a_rate() -> None:
    sends = Sends()
    assert sent(sends, Amount(None, 10.0, rate=2.0)).messages == 20
    began = sends.at[0]
    assert [at - began for at in sends.at[:4]] == pytest.approx([0, 0.5, 1, 1.5])


def test_what_fails_is_counted() -> None:
    figures = sent(Sends(lambda number: number % 5 == 4), Amount(20, None))
    assert (figures.messages, figures.failed) == (16, 4)
    assert figures.errors == {"SendUnreachable": 4}


def test_an_error_that_stays_ends_it_at_once() -> None:
    class Refused(Sends):
        async def send(self, message: Message) -> None:
            self.at.append(0)
            raise SendForbidden("no", topic=message.topic, send_id="i")

    sends = Refused()
    with pytest.raises(ExceptionGroup) as caught:
        sent(sends, Amount(100_000, None))
    assert caught.group_contains(SendForbidden)
    assert len(sends.at) <= 4


@pytest.mark.parametrize("fails", [lambda _: True, lambda number: number > 3])
def test_a_broker_that_is_gone_ends_it(fails: Callable[[int], bool]) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        sent(Sends(fails), Amount(100_000, None))
    assert caught.group_contains(SendUnreachable)
