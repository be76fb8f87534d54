"""The offsets of a broadcasting consumer: in a file of this machine, in Java's layout.

::

    <directory>/<client id>/<group>/offsets.json        the table, with queues as keys
                                    offsets.json.bak    the version before

Java: LocalFileOffsetStore. As there, a new version keeps what the file says of other queues. A file
that can't be read is not replaced: the backup is used, and if that fails too, offsets are not
stored.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from orbitmq.client.consumer.offsets.offset_file import OffsetFile
from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.errors import InvalidBody, OrbitError, StoreDamaged
from orbitmq.message.model import MessageQueue
from orbitmq.threads import Workers
from orbitmq.wire.bodies.offsets import LocalOffsetTable
from orbitmq.wire.json.queue_map import QueueMap

__all__ = ["LocalOffsets"]

log = logging.getLogger("orbitmq.client")

T = TypeVar("T")


class LocalOffsets(NotedOffsets):
    """The offsets of one group in a local file; ``workers`` make the file calls.

    An empty ``directory`` is ``.rocketmq_offsets`` in the user's home.
    """

    def __init__(self, directory: str, client_id: str, group: str, workers: Workers) -> None:
        super().__init__()
        directory = directory or "~/.rocketmq_offsets"
        self._file = OffsetFile(f"{directory}/{client_id}/{group}/offsets.json")
        self._workers = workers
        self._turn = asyncio.Lock()  # a version is read, changed and written by one at a time

    def __repr__(self) -> str:
        return f"<LocalOffsets {self._file.path}, {len(self.noted)} queues>"

    async def load(self) -> None:
        """Check that the file can be read; raise DiskFailed or StoreDamaged if not."""
        await self._do(self._read)

    async def stored(self, queue: MessageQueue) -> int | None:
        """Return the offset in the file; None if it has none.

        Raise DiskFailed or StoreDamaged if it can't be read.
        """
        return (await self._do(self._read)).get(queue)

    async def persist(
        self,
        queues: Iterable[MessageQueue] | None = None,
        *,
        confirm: bool = False,  # noqa: ARG002 - it always returns when they are stored
    ) -> None:
        """Write the noted offsets of these queues, or of all; return when they are on disk.

        A failure is logged, and the next call tries again.
        """
        try:
            await self.commit(queues)
        except OrbitError as error:
            log.warning("offsets are not stored: %s", error)

    async def commit(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Write the noted offsets of these queues, or of all; raise OrbitError if that fails."""
        chosen = self.noted if queues is None else queues
        changes = {queue: offset for queue in chosen if (offset := self.get(queue)) is not None}
        if changes:
            await self._do(lambda: self._write(changes))

    async def _do(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.wrap_future(self._workers.submit(work))

    # On a worker

    def _read(self) -> dict[MessageQueue, int]:
        fault: InvalidBody | None = None
        for raw in self._file.versions():
            try:
                return dict(LocalOffsetTable.from_json(raw).offset_table)
            except InvalidBody as error:
                log.warning("%s, or its backup, can't be read: %s", self._file.path, error)
                fault = error
        if fault is not None:
            raise StoreDamaged(
                f"{self._file.path} and its backup can't be read: {fault}; repair or remove them",
                path=self._file.path,
            ) from fault
        return {}

    def _write(self, changes: dict[MessageQueue, int]) -> None:
        before = self._read()
        table = before | changes
        if table != before:
            self._file.replace(LocalOffsetTable(offset_table=QueueMap(table)).to_json())
