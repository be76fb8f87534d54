"""The deduplicator for code on an event loop; its handlers may be functions, too."""

from typing import Self

from orbitmq.client.consumer.deduplication.once import Once
from orbitmq.message.model import StoredMessage

__all__ = ["Deduplicator"]


class Deduplicator(Once):
    """Hands a message over once, though it is delivered again.

    ::

        dedup = Deduplicator("seen.db", window_ms=3_600_000)

        @consumer.on_message
        @dedup.once
        async def bill(message): ...

    Or step by step, where ``once`` doesn't fit::

        if await dedup.is_new(message):
            ...
            await dedup.mark(message)

    Args:
        path: a SQLite file on a local disk, shared by the processes of this machine and kept over
            restarts; created if missing. Without it, states are in memory. Give each consumer
            group its own.
        key: what makes two messages the same: the name of a property, or a function of the
            message; both count within a topic. By default, and where the value is None or empty,
            the unique id, which a message keeps through retries and dead letters.
        window_ms: how long a message is remembered after its work.
        lease_ms: how long the claim of a crashed process lasts. Running handlers renew theirs.
        entries_max: how many messages are remembered; above that the oldest are forgotten before
            their window ends. A file may have one percent more.

    Raises:
        InvalidInput: an argument is out of range.
        StoreError: the file can't be used.
    """

    async def is_new(self, message: StoredMessage) -> bool:
        """Claim a message for ``lease_ms``; return False if its work is done.

        Then do the work, and ``mark`` the message, or ``release`` it if the work failed.

        Raises:
            RetryLater: someone else is working on it, and may fail yet.
            StoreError: the file can't be used.
        """
        return await self._do(self._check_new, self._key_of(message))

    async def mark(self, message: StoredMessage) -> None:
        """Remember that the work of a message is done, claimed or not."""
        await self._do(self._claims.finish, [self._key_of(message)])

    async def release(self, message: StoredMessage) -> None:
        """Give up the claim on a message, so that its next delivery is new."""
        await self._do(self._claims.release, [self._key_of(message)])

    async def close(self) -> None:
        """Close the file, when its handlers have ended; a second call does nothing."""
        await self._do(self._shut)
        if self._worker is not None:
            self._worker.close(wait=False)
            self._worker = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
