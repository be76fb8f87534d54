"""MinBrokerIdNotices to brokers that may not be there."""

import pytest

from orbitmq.nameserver import notices
from orbitmq.nameserver.notices import MinBrokerIdNotices
from orbitmq.nameserver.route_table import MinBrokerIdChange
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import NotifyMinBrokerIdChange

NOTICE = NotifyMinBrokerIdChange(min_broker_id=1, min_broker_addr="broker:1")


def test_each_address_is_notified_and_absent_ones_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[NotifyMinBrokerIdChange] = []

    def listen(_: Connection, request: Frame) -> None:
        assert request.is_oneway
        heard.append(request.read(NotifyMinBrokerIdChange))

    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        one = MinBrokerIdNotices(Dialer(network=network))
        async with Listener(Address("broker", 1), listen, network=network):
            one.notify(MinBrokerIdChange(NOTICE, ("absent:1", "no address", "broker:1")))
            await clock.sleep(1)
            await one.close()

    run_virtual(scenario)
    assert heard == [NOTICE]
    assert "absent:1 is not notified" in caplog.text
    assert "no address is not notified" in caplog.text


def test_notices_in_flight_are_limited_and_cancelled_by_close(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_IN_FLIGHT_MAX", 2)

    async def scenario(clock: VirtualClock) -> int:
        network = MemoryNetwork()
        network.carries = False  # a dial that never comes to an end
        one = MinBrokerIdNotices(Dialer(network=network))
        one.notify(MinBrokerIdChange(NOTICE, ("a:1", "b:1", "c:1")))
        await clock.sleep(1)
        await one.close()
        return clock.monotonic_ms()

    assert run_virtual(scenario) == 1_000
    assert "c:1 is not notified of the lowest broker id: 2 notices are in flight" in caplog.text
