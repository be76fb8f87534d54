"""Administration of a cluster: ``MQAdmin`` and ``mqadmin`` of Java.

Each subject has a class of its own, and `Admin` is all of them::

    nameservers ◀─ topics ─┐         ┌─ brokers
         groups ◀─ offsets ┴─ Admin ─┼─ cleaning
                                     ├─ traces ───────────────────┐
                                     ├─ tracks ───────────┬───────┼▶ messages ─▶ reading
                                     └─ dead_letters ─▶ resending ┴▶ consumers

All are made of ``requests.py``: one client, names, and the servers to ask.
"""

import asyncio
from types import TracebackType
from typing import Self, Unpack

from orbitmq.client.admin.brokers import BrokerAdmin
from orbitmq.client.admin.cleaning import CleaningAdmin
from orbitmq.client.admin.dead_letters import DeadLetterAdmin
from orbitmq.client.admin.offsets import OffsetAdmin
from orbitmq.client.admin.requests import TIMEOUT_MS
from orbitmq.client.admin.topics import TopicAdmin
from orbitmq.client.admin.traces import TraceAdmin
from orbitmq.client.admin.tracks import TrackAdmin
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.machine import Machine
from orbitmq.client.options import ClientOptions, build_client_settings
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import AlreadyStarted

__all__ = ["Admin"]


class Admin(
    TopicAdmin,
    OffsetAdmin,
    DeadLetterAdmin,
    TrackAdmin,
    TraceAdmin,
    BrokerAdmin,
    CleaningAdmin,
):
    """Topics, groups, offsets, messages, members and servers of a cluster.

    An async context manager, or ``start`` and ``close``. It shares connections with producers and
    consumers of the same settings.

    Args:
        client: nameservers and connections.
        machine: clock, network and other things that tests replace.
        timeout_ms: the timeout of a request; queries by key and the progress of groups have three
            times as long, as in Java.
        options: fields of ``ClientSettings``; they override ``client``.

    Raises:
        InvalidInput: an option is unknown, can't be used, or contradicts another one.

    >>> from orbitmq.embedded import EmbeddedCluster
    >>> async def main() -> int:
    ...     async with EmbeddedCluster() as cluster:
    ...         async with Admin(nameserver=cluster.nameserver) as admin:
    ...             await admin.create_topic("orders", queues=2)
    ...             queue = (await admin.queues("orders"))[1]
    ...             return await admin.max_offset(queue)
    >>> asyncio.run(main())
    0
    """

    def __init__(
        self,
        *,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        timeout_ms: int = TIMEOUT_MS,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.client_settings = build_client_settings(options, client, "an admin")
        super().__init__(timeout_ms, self.client_settings.namespace)
        self._machine = machine
        self._turning = asyncio.Lock()  # held during a start or a close

    def __repr__(self) -> str:
        state = "closed" if self._running is None else repr(self._running.nameservers)
        return f"<Admin {state}>"

    async def start(self) -> None:
        """Start; a closed admin can be started again.

        Raises:
            AlreadyStarted: it is running.
            NoNameserver: no nameserver is set.
            InvalidInput: the instance name is in use with other settings.
        """
        async with self._turning:
            if self._running is not None:
                raise AlreadyStarted("the admin is already running", state="running")
            self._running = await ClientCore.acquire(self.client_settings, self._machine)
            self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Stop; a second call does nothing.

        Raises:
            WrongLoop, WrongProcess: it belongs to another loop or process.
        """
        async with self._turning:
            if self._running is not None:
                core = self._core
                self._running = None
                await core.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
