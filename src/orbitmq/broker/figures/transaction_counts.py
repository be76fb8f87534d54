"""How many transactions of each topic are undecided: Java's ``TransactionMetrics`` and its file."""

from typing import Final

from msgspec import field

from orbitmq.clock import Clock
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.fields import Int64
from orbitmq.wire.json.body import Body

__all__ = ["TRANSACTIONS_FILE", "OpenTransactions"]

TRANSACTIONS_FILE: Final = "transactionMetrics"


class _Count(Body, frozen=True, kw_only=True):
    count: Int64 = 0
    time_stamp: Int64 = 0
    """When it changed last."""


class _Counts(Body, frozen=True, kw_only=True):
    """The file; Java: TransactionMetricsSerializeWrapper."""

    data_version: DataVersion = DataVersion()
    transaction_count: dict[str, _Count] = field(default_factory=dict)


class OpenTransactions:
    """Counts undecided transactions by topic. It is a figure for people: nothing relies on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, _Count] = {}
        self._data_version = DataVersion()

    def __repr__(self) -> str:
        return f"<OpenTransactions {sum(one.count for one in self._counts.values())}>"

    @property
    def version(self) -> object:
        """A value that changes whenever ``to_json`` does."""
        return self._data_version

    def add(self, topic: str, change: int) -> None:
        """Count transactions that began, or with a negative number, that ended."""
        before = self._counts.get(topic)
        if before is None and change < 0:
            return  # the topic was deleted while the transaction was undecided
        count = change if before is None else before.count + change
        now_ms = self._clock.now_ms()
        self._counts[topic] = _Count(count=count, time_stamp=now_ms)
        self._data_version = self._data_version.next(now_ms)

    def count(self, topic: str) -> int:
        """Return how many transactions of a topic are undecided."""
        found = self._counts.get(topic)
        return 0 if found is None else found.count

    def forget(self, topic: str) -> None:
        """Forget a topic that is deleted."""
        if self._counts.pop(topic, None) is not None:
            self._data_version = self._data_version.next(self._clock.now_ms())

    def to_json(self) -> str:
        """Return the text of the file."""
        table = _Counts(data_version=self._data_version, transaction_count=dict(self._counts))
        return table.to_json().decode()

    def load_json(self, text: str) -> None:
        """Load the counts of an earlier run; raise InvalidBody if the text has none."""
        table = _Counts.from_json(text.encode())
        self._counts = dict(table.transaction_count)
        self._data_version = table.data_version
