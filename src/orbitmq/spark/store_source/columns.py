"""The columns of a batch of records from a store."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from orbitmq.message import properties
from orbitmq.spark.columns.property_columns import PropertyPairs
from orbitmq.spark.columns.record_columns import RecordBlock
from orbitmq.spark.store_source.heads import Heads, Places
from orbitmq.spark.store_source.schema import CORRUPT
from orbitmq.spark.store_source.tag_codes import TagCodes, Topics

__all__ = ["BatchRows", "Topics", "columns_of"]

_TIME_MIN_MS: Final = -62_135_424_000_000  # 0001-01-03
_TIME_MAX_MS: Final = 253_402_214_400_000  # 9999-12-31
"""Within a day of Python's calendar, so that ``collect`` can convert them to local time."""


class BatchRows:
    """Plain records of a block; ``rows`` are the rows of the chunk whose heads they have.

    What several columns need is computed once.
    """

    def __init__(
        self,
        block: RecordBlock,
        heads: Heads,
        rows: Places,
        topics: Topics,
        *,
        broker: str | None,
        tag_codes: TagCodes,
    ) -> None:
        self.block = block
        self.broker = broker
        self._heads = heads
        self._rows = rows
        self._topics = topics
        self._tag_codes = tag_codes

    def __len__(self) -> int:
        return len(self._rows)

    def number(self, name: str) -> Places:
        """Return a number of each head, as it is stored."""
        return self._heads.number(name)[self._rows]

    @cached_property
    def topics(self) -> Topics:
        """The topic of each row."""
        return Topics(self._topics.codes[self._rows], self._topics.names)

    def topic(self) -> pa.Array:
        """Return the topic of each row: ``string``."""
        names = pa.array(self.topics.names, pa.string())
        if len(names) == 1:
            return pa.repeat(names[0], len(self))
        return names.take(pa.array(self.topics.codes))

    def tag_codes(self) -> pa.Array:
        """Return what the queue of each row holds beside its place: ``int64``."""
        return self._tag_codes.of(
            self.number("commit_log_offset"), self.topics, self.number("queue_id")
        )

    @cached_property
    def pairs(self) -> PropertyPairs:
        """The properties."""
        return PropertyPairs(self.block.texts())

    @cached_property
    def offset_ids(self) -> pa.Array:
        """The ids that say where each message is."""
        return self.block.offset_ids()

    def message_ids(self) -> pa.Array:
        """Return the producer's id, else that of the position in the log, as in Java."""
        given = self.pairs.values_of(properties.UNIQUE_KEY)
        return pc.coalesce(given, self.offset_ids) if given.null_count else given

    def constant(self, value: str | None) -> pa.Array:
        """Return a value for all rows: ``string``."""
        return pa.repeat(pa.scalar(value, pa.string()), len(self))


def columns_of(rows: BatchRows, names: Sequence[str]) -> list[pa.Array]:
    """Return the named columns of some rows; the others are not built."""
    return [_BUILDERS[name](rows) for name in names]


def _int32(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _times(values_ms: NDArray[np.int64]) -> pa.Array:
    # Clients may send any time, and an extreme one must not fail a query.
    within = np.clip(values_ms, _TIME_MIN_MS, _TIME_MAX_MS)
    return pa.array(within * 1000).view(pa.timestamp("us", tz="UTC"))


_BUILDERS: Final[Mapping[str, Callable[[BatchRows], pa.Array]]] = MappingProxyType(
    {
        "key": lambda rows: rows.pairs.values_of(properties.KEYS),
        "value": lambda rows: rows.block.bodies(),
        "topic": lambda rows: rows.topic(),
        "broker": lambda rows: rows.constant(rows.broker),
        "queue_id": lambda rows: _int32(rows.number("queue_id")),
        "queue_offset": lambda rows: pa.array(rows.block.queue_offsets()),
        "timestamp": lambda rows: _times(rows.block.stored_ms()),
        "born_timestamp": lambda rows: _times(rows.block.born_ms()),
        "tags": lambda rows: rows.pairs.values_of(properties.TAGS),
        "message_id": lambda rows: rows.message_ids(),
        "offset_message_id": lambda rows: rows.offset_ids,
        "properties": lambda rows: rows.pairs.maps(),
        "flag": lambda rows: _int32(rows.block.user_flags()),
        "reconsume_times": lambda rows: _int32(rows.block.reconsume_times()),
        "body_crc": lambda rows: _int32(rows.block.body_crcs()),
        "physical_offset": lambda rows: pa.array(rows.number("commit_log_offset")),
        "sys_flag": lambda rows: _int32(rows.number("sys_flag")),
        "queue_tag_code": lambda rows: rows.tag_codes(),
        CORRUPT: lambda rows: rows.constant(None),
    }
)
