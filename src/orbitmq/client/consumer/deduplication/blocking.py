"""The deduplicator for code without an event loop; threads may share it."""

from typing import Self

from orbitmq.client.consumer.deduplication.once import Once
from orbitmq.message.model import StoredMessage

__all__ = ["Deduplicator"]


class Deduplicator(Once):
    """``orbitmq.Deduplicator`` without await: the same arguments and errors."""

    def is_new(self, message: StoredMessage) -> bool:
        """Claim a message for ``lease_ms``; return False if its work is done.

        Then do the work, and ``mark`` the message, or ``release`` it if the work failed.

        Raises:
            RetryLater: someone else is working on it, and may fail yet.
            StoreError: the file can't be used.
        """
        return self._check_new(self._key_of(message))

    def mark(self, message: StoredMessage) -> None:
        """Remember that the work of a message is done, claimed or not."""
        self._claims.finish([self._key_of(message)])

    def release(self, message: StoredMessage) -> None:
        """Give up the claim on a message, so that its next delivery is new."""
        self._claims.release([self._key_of(message)])

    def close(self) -> None:
        """Close the file, when its handlers have ended; a second call does nothing."""
        self._shut()
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
