"""One delivery to a handler: which of its messages are new, and what becomes of each."""

from collections.abc import Callable, Iterable, Sequence

from orbitmq.client.consumer.deduplication.claims import Found
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.message.model import StoredMessage

__all__ = ["OneDelivery"]


class OneDelivery:
    """The messages of one call of a handler; of equal ones, the handler gets the first.

    Attributes:
        keys: those to claim, each once.
        given: what the handler gets, once ``found`` was called: a message, or those of a list.
        claimed: the keys of ``given``.
    """

    def __init__(
        self,
        delivered: StoredMessage | Sequence[StoredMessage],
        key_of: Callable[[StoredMessage], str],
    ) -> None:
        self._is_one = isinstance(delivered, StoredMessage)
        messages = [delivered] if isinstance(delivered, StoredMessage) else list(delivered)
        self._keyed = [(key_of(message), message) for message in messages]
        self._first = dict(reversed(self._keyed))
        self.keys: list[str] = list(dict.fromkeys(key for key, _ in self._keyed))
        self.claimed: list[str] = []
        self._busy: set[str] = set()

    def found(self, found: Iterable[Found]) -> None:
        """Take in what claiming ``keys`` found."""
        for key, one in zip(self.keys, found, strict=True):
            if one is Found.NEW:
                self.claimed.append(key)
            elif one is Found.CLAIMED:
                self._busy.add(key)

    @property
    def given(self) -> StoredMessage | list[StoredMessage]:
        """What the handler gets."""
        new = [self._first[key] for key in self.claimed]
        return new[0] if self._is_one else new

    def failed(self, error: BaseException) -> tuple[list[str], list[str]]:
        """Return the keys that are done although the handler raised an error, and the others."""
        if not isinstance(error, RetryLater) or error.messages is None:
            return [], self.claimed
        later = {key for key, message in self._keyed if message in error.messages}
        self._busy |= later
        done = [key for key in self.claimed if key not in later]
        return done, [key for key in self.claimed if key in later]

    def later(self, error: BaseException) -> RetryLater | None:
        """Return the error with the busy messages added, if it names messages, else None."""
        if not isinstance(error, RetryLater) or error.messages is None:
            return None
        return self._later(str(error), error.delay_level, error.suspend_ms)

    def check_none_is_busy(self) -> None:
        """Raise RetryLater for messages that someone else is working on: they may fail yet."""
        if self._busy:
            raise self._later("another handler is working on it")

    def _later(
        self, reason: str, delay_level: int = 0, suspend_ms: int | None = None
    ) -> RetryLater:
        messages = [message for key, message in self._keyed if key in self._busy]
        return RetryLater(
            reason,
            delay_level=delay_level,
            messages=None if self._is_one else messages,
            suspend_ms=suspend_ms,
        )
