"""Where simulated clients find the master."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from orbitmq.message.names import AUTO_CREATE_TOPIC
from orbitmq.net.address import Address
from orbitmq.testing.simulation.calls import Caller
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.route import GetRouteInfo

__all__ = ["ByRoute", "Fixed", "Master"]

_POLL_MS: Final = 5_000


class Master(Protocol):
    """Knows where the master is."""

    async def find(self) -> Address | None:
        """Return its address; None if there is none now."""
        ...

    def forget(self) -> None:
        """Look again: it does not answer, or is not the master."""
        ...


@dataclass
class Fixed:
    """A master that is always at the same address."""

    address: Address

    async def find(self) -> Address | None:
        """Return its address."""
        return self.address

    def forget(self) -> None:
        """Do nothing."""


@dataclass
class ByRoute:
    """The master that a nameserver names for a topic; it is asked again every five seconds.

    For a topic without a route it is the one that may create the topic.
    """

    caller: Caller
    nameserver: Address
    topic: str
    _known: Address | None = field(init=False, default=None)
    _known_ms: int = field(init=False, default=0)

    async def find(self) -> Address | None:
        """Return its address; None if there is none now."""
        now_ms = self.caller.clock.monotonic_ms()
        if self._known is None or now_ms - self._known_ms > _POLL_MS:
            self._known, self._known_ms = await self._ask(), now_ms
        return self._known

    def forget(self) -> None:
        """Ask again: it does not answer, or is not the master."""
        self._known = None

    async def _ask(self) -> Address | None:
        for topic in (self.topic, AUTO_CREATE_TOPIC):
            answer = await self.caller.ask(self.nameserver, GetRouteInfo(topic=topic))
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                route = TopicRouteData.from_json(answer.body)
                master = route.broker_datas[0].broker_addrs.get(0)
                return None if master is None else Address.parse(master)
        return None
