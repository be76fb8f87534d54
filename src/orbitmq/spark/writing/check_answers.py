"""Answers the checks of brokers from the ledger, in any process of the producer group.

Each half message has the property ``ORBIT_WRITE``, which says where in the ledger it is listed::

    no decision on its write                              UNKNOWN: the driver will decide
    aborted, or its attempt is not in the decision        ROLLBACK
    its attempt is in the decision, but not this half     ROLLBACK: the copy of a repeated send
    … and its end was not answered yet                    COMMIT
    … and its end was answered, so it is delivered        ROLLBACK

The last line is for Java's broker, which may ask about a half that it has delivered already: its
checks move halves, and an end names the place of the first. Another COMMIT would deliver the row
twice. Our broker remembers how a transaction ended, and doesn't ask.
"""

from collections import Counter
from typing import Final

from orbitmq.blocking import TransactionState
from orbitmq.message.model import StoredMessage
from orbitmq.spark.writing.ledger import Ledger, LedgerWrite, Progress, State

__all__ = ["ORBIT_WRITE", "CheckAnswers"]

ORBIT_WRITE: Final = "ORBIT_WRITE"
"""The property of a row's message that names its write and attempt in the ledger."""


class CheckAnswers:
    """Answers checks; call it with a half message. ``given`` counts the answers."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listed: tuple[str, dict[str, int]] = ("", {})  # the last file, and its halves
        self.given: Counter[TransactionState] = Counter()

    def __call__(self, half: StoredMessage) -> TransactionState:
        """Return the outcome of the transaction of a half message.

        An error of the file system is raised; the broker will ask again.
        """
        state = self._state(half)
        self.given[state] += 1
        return state

    def _state(self, half: StoredMessage) -> TransactionState:
        name, _, file = half.properties.get(ORBIT_WRITE, "").partition("/")
        if not name or not file:
            return TransactionState.UNKNOWN  # of another producer in the group
        write = self._ledger.write(name)
        state = write.state_of(file)
        if state is State.OPEN:
            return TransactionState.UNKNOWN
        if state is not State.COMMITTING or self._is_ended(write, file, half.message_id):
            return TransactionState.ROLLBACK
        return TransactionState.COMMIT

    def _is_ended(self, write: LedgerWrite, file: str, message_id: str) -> bool:
        """Return whether a half of a committed attempt is delivered, or is not listed at all."""
        number = self._halves(write, file).get(message_id)
        decision = write.decision()
        if number is None or decision is None:
            return True
        return write.progress() >= Progress(decision.files.index(file), number + 1)

    def _halves(self, write: LedgerWrite, file: str) -> dict[str, int]:
        path = write.path(file)
        if self._listed[0] != path:
            numbers = {half.message_id: n for n, half in enumerate(write.halves(file))}
            self._listed = (path, numbers)
        return self._listed[1]
