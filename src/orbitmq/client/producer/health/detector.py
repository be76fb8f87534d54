"""Probes brokers that failed, so that ``java5`` finds out when they are reachable again.

Every three seconds it asks those that are due (:meth:`Health.due_probes`) for the end of some
queue, as Java's LatencyFaultToleranceImpl does with its ServiceDetector.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Self

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.health.health import DETECT_EVERY_MS, Health
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.offset import GetMaxOffset

__all__ = ["Detector"]

log = logging.getLogger("orbitmq.client")


class Detector:
    """The detector of one producer: it runs while it is entered. Belongs to its loop.

    ``health`` says which brokers to probe; ``timeout_ms`` covers connection and answer together.
    """

    def __init__(self, core: ClientCore, health: Health, timeout_ms: int) -> None:
        self._core = core
        self._health = health
        self._timeout_ms = timeout_ms
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Detector of {self._core.client_id}>"

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"detector of {self._core.client_id}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def ask_due(self) -> None:
        """Ask all brokers that are due now, concurrently; return when all requests have ended."""
        due = self._health.due_probes(int(asyncio.get_running_loop().time() * 1_000))
        found = self._find(due)
        for broker in due:
            if broker not in found:
                self._health.forget(broker)
        await asyncio.gather(*(self._ask(broker, *where) for broker, where in found.items()))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(DETECT_EVERY_MS / 1_000)
            try:
                await self.ask_due()
            except Exception:  # a bug, and no reason to stop
                log.exception("the detector of %s failed", self._core.client_id)

    def _find(self, brokers: Collection[str]) -> dict[str, tuple[Address, str]]:
        """Return the address of each broker, and a topic that it has, as far as routes say."""
        found: dict[str, tuple[Address, str]] = {}
        for topic, route in self._core.routes.cache.published.items():
            if len(found) == len(brokers):
                break
            for broker in brokers:
                if broker not in found and broker in route.addresses:
                    found[broker] = route.addresses[broker], topic
        return found

    async def _ask(self, broker: str, address: Address, topic: str) -> None:
        header = GetMaxOffset(topic=topic, queue_id=0)
        try:
            async with asyncio.timeout(self._timeout_ms / 1_000):
                answer = await self._core.request(address, header, timeout_ms=self._timeout_ms)
        except (OrbitError, TimeoutError) as error:
            log.debug("%s does not answer its probe: %s", broker, error)
            reached = False
        else:
            reached = answer.code == ResponseCode.SUCCESS
        self._health.probed(broker, reached=reached)
