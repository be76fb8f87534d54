"""Clean-ups on request: brokers do the same by themselves, by age, disk use and time of day."""

from typing import Final

from orbitmq.client.admin.requests import AdminRequests
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields

__all__ = ["CleaningAdmin"]

_TIMEOUT_MS: Final = 30_000
"""Java's brokers delete files before they answer."""


class CleaningAdmin(AdminRequests):
    """What an `Admin` does to have brokers delete what is not needed.

    ``on`` is the name of a broker or a cluster, or the address of one broker; all masters if None.
    Each call returns the names of the brokers that did it.
    """

    async def clean_expired_queues(self, *, on: str | None = None) -> tuple[str, ...]:
        """Delete consume queues whose messages are all gone from the commit log.

        ::

            await admin.clean_expired_queues(on="broker-a")

        Raises:
            NoRoute: there is no such cluster or broker.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        return await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, on)

    async def clean_unused_topics(self, *, on: str | None = None) -> tuple[str, ...]:
        """Delete the consume queues of topics that brokers don't have any more.

        Errors as ``clean_expired_queues``.
        """
        return await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, on)

    async def delete_expired_log_files(self, *, on: str | None = None) -> tuple[str, ...]:
        """Delete files of the commit log that are older than ``fileReservedTime``.

        Errors as ``clean_expired_queues``.
        """
        return await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, on)

    async def _clean(self, code: RequestCode, on: str | None) -> tuple[str, ...]:
        brokers = await self._brokers(on)
        await self._on_brokers(
            brokers, lambda one: self._ask(one, NoFields(), timeout_ms=_TIMEOUT_MS, code=code)
        )
        return tuple(brokers)
