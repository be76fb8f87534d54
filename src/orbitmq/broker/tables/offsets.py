"""The offsets of consumer groups.

Three tables, each by ``topic@group`` and queue id::

    offsets   committed offsets; the table of consumerOffset.json (ConsumerOffsetManager in Java)
    resets    where the next pull of a queue begins, whatever it asks for; used once
    pulled    how far a group has pulled, ahead of its commits; for statistics only

Names can't contain ``@``, so that a key can be split again.
"""

import logging
from collections.abc import Callable, Container, Iterator
from typing import Final

from orbitmq.broker.settings import LiveSettings
from orbitmq.clock import Clock
from orbitmq.message.names import is_lmq
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, LmqOffsetTable
from orbitmq.wire.bodies.topic import DataVersion

__all__ = ["NO_OFFSET", "OFFSETS_FILE", "ConsumerOffsets"]

log = logging.getLogger("orbitmq.broker")

OFFSETS_FILE: Final = "consumerOffset.json"
NO_OFFSET: Final = -1
"""The offset of a queue without a commit."""

Table = dict[str, dict[int, int]]


class ConsumerOffsets:
    """The tables. Callers check that group and topic exist."""

    def __init__(self, settings: LiveSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._offsets: Table = {}
        self._resets: Table = {}
        self._pulled: Table = {}
        self._own: dict[tuple[str, int], int] = {}  # a slave's, by key and queue
        self.data_version = DataVersion(timestamp=clock.now_ms())
        """The version that replicas compare; it changes once in many commits."""
        self.changes = 0
        """Grows with every change of ``to_json``."""
        self.are_of_master = False
        """Whether they were those of the master once; a slave with an empty directory has none."""

    def __repr__(self) -> str:
        return f"<ConsumerOffsets {len(self._offsets)} pairs of group and topic>"

    # Queries

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset that a group continues from: a reset, its commit, or else -1."""
        key = _key(topic, group)
        if self._resets and self._settings.broker.use_server_side_reset_offset:
            reset = self._resets.get(key, {}).get(queue_id)
            if reset is not None:
                return reset
        offsets = self._offsets.get(key)
        return NO_OFFSET if offsets is None else offsets.get(queue_id, NO_OFFSET)

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group in a topic, by queue id."""
        return dict(self._offsets.get(_key(topic, group), {}))

    def topics_of(self, group: str) -> set[str]:
        """Return the topics in which a group has committed."""
        return {topic for topic, name in _names(self._offsets) if name == group}

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that have committed in a topic."""
        return {group for name, group in _names(self._offsets) if name == topic}

    def topics_by_group(self) -> dict[str, set[str]]:
        """Return the topics in which each group has committed."""
        topics: dict[str, set[str]] = {}
        for topic, group in _names(self._offsets):
            topics.setdefault(group, set()).add(topic)
        return topics

    def least(
        self, topic: str, without: Container[str], min_offset: Callable[[str, int], int]
    ) -> dict[int, int]:
        """Return the least offset of all groups but some in each queue of a topic.

        Offsets before the beginning of a queue don't count. Java deletes those of the excluded
        groups (``ConsumerOffsetManager.queryMinOffsetInAllGroup``); here they stay.
        """
        least: dict[int, int] = {}
        for name, group in _names(self._offsets):
            if name != topic or group in without:
                continue
            for queue_id, offset in self._offsets[_key(topic, group)].items():
                if offset >= min_offset(topic, queue_id):
                    least[queue_id] = min(offset, least.get(queue_id, offset))
        return least

    # Commits

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str = "") -> None:
        """Commit the offset of the first message that a group has not consumed.

        A lower offset than before is accepted with a warning that names ``client``.
        """
        key = _key(topic, group)
        offsets = self._offsets.get(key)
        if offsets is None:
            offsets = self._offsets[key] = {}
        before = offsets.get(queue_id, NO_OFFSET)
        offsets[queue_id] = offset
        if self._settings.broker.is_slave:
            self._own[key, queue_id] = offset
        if offset < before:
            log.warning(
                "group %s moved back from offset %d to %d in queue %d of topic %s by %s",
                *(group, before, offset, queue_id, topic, client or "the broker"),
            )
        self.changes += 1
        if self.changes % self._settings.broker.consumer_offset_update_version_step == 0:
            self.data_version = self.data_version.next(self._clock.now_ms())

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of one group in a topic to another group, if there are any."""
        offsets = self._offsets.get(_key(topic, source))
        if offsets is not None:
            self._offsets[_key(topic, target)] = dict(offsets)
            self.changes += 1

    def commit_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Record how far a group has pulled."""
        self._pulled.setdefault(_key(topic, group), {})[queue_id] = offset

    def query_pull(self, group: str, topic: str, queue_id: int) -> int:
        """Return how far a group has pulled, or else its commit, or else -1."""
        pulled = self._pulled.get(_key(topic, group), {}).get(queue_id)
        return self.query(group, topic, queue_id) if pulled is None else pulled

    # Resets

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Make the next pull of a queue begin at ``offset``, and ignore commits until then.

        The offset is committed too, for a group without connected consumers.
        """
        key = _key(topic, group)
        self._resets.setdefault(key, {})[queue_id] = offset
        self._offsets.setdefault(key, {})[queue_id] = offset
        self._pulled.pop(key, None)
        self.changes += 1

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a reset is pending for a queue."""
        return queue_id in self._resets.get(_key(topic, group), ())

    def query_then_erase_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the pending reset of a queue and remove it; None if there is none."""
        if not self._resets:  # the common case, for every pull
            return None
        key = _key(topic, group)
        resets = self._resets.get(key)
        if resets is None:
            return None
        offset = resets.pop(queue_id, None)
        if not resets:
            del self._resets[key]
        return offset

    # Slaves

    def take(self, table: ConsumerOffsetTable) -> list[tuple[str, str, int, int]]:
        """Take over the offsets of the master; return what groups committed here beyond them.

        That is group, topic, queue and offset. Java's slave drops those, so that a group which
        went on while the master was gone consumes again what it has consumed.
        """
        theirs = table.offset_table
        self.are_of_master = True
        further = {
            (key, queue_id): offset
            for (key, queue_id), offset in self._own.items()
            if offset > theirs.get(key, {}).get(queue_id, NO_OFFSET)
        }
        self._own = further
        before = {key: dict(offsets) for key, offsets in self._offsets.items()}
        for key, offsets in theirs.items():
            self._offsets.setdefault(key, {}).update(offsets)
        ahead = []
        for (key, queue_id), offset in further.items():
            self._offsets.setdefault(key, {})[queue_id] = offset
            topic, _, group = key.partition("@")
            ahead.append((group, topic, queue_id, offset))
        if self._offsets != before:
            self.changes += 1
        self.data_version = table.data_version or self.data_version
        return ahead

    def returned(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note that the master has taken an offset that was committed here."""
        if self._own.get((_key(topic, group), queue_id)) == offset:
            del self._own[_key(topic, group), queue_id]

    # Removal

    def remove_topic(self, topic: str) -> None:
        """Remove all entries of a topic."""
        self._remove(lambda name, _group: name == topic)

    def remove_group(self, group: str) -> None:
        """Remove all entries of a group."""
        self._remove(lambda _topic, name: name == group)

    def scan_unsubscribed(
        self,
        is_subscribed: Callable[[str, str], bool],
        min_offset: Callable[[str, int], int],
    ) -> list[str]:
        """Remove the offsets of groups in topics that they don't read any more; return the keys.

        That is if a group isn't subscribed and all messages before its offsets are deleted.
        """
        stale = {
            (topic, group)
            for topic, group in _names(self._offsets)
            if not is_subscribed(group, topic)
            and all(
                offset <= min_offset(topic, queue_id)
                for queue_id, offset in self._offsets[_key(topic, group)].items()
            )
        }
        self._remove(lambda topic, group: (topic, group) in stale)
        return sorted(_key(topic, group) for topic, group in stale)

    def _remove(self, goes: Callable[[str, str], bool]) -> None:
        for table in (self._offsets, self._resets, self._pulled):
            for topic, group in [names for names in _names(table) if goes(*names)]:
                del table[_key(topic, group)]
        self.changes += 1

    # consumerOffset.json

    def to_json(self) -> str:
        """Return the offsets as the text of ``consumerOffset.json``."""
        table = ConsumerOffsetTable(data_version=self.data_version, offset_table=self._offsets)
        return table.to_json().decode()

    def load_json(self, text: str) -> None:
        """Load offsets in place of the present ones.

        Raise InvalidBody, and change nothing, if the text is not a table of offsets.
        """
        loaded = ConsumerOffsetTable.from_json(text.encode())
        self._offsets = loaded.offset_table
        self.are_of_master = bool(self._offsets)
        self.data_version = loaded.data_version or self.data_version

    # lmqConsumerOffset.json

    def to_lmq_json(self) -> str:
        """Return the offsets as the text of ``lmqConsumerOffset.json``."""
        light: dict[str, int] = {}
        others: Table = {}
        for topic, group in _names(self._offsets):
            key = _key(topic, group)
            left = offsets = self._offsets[key]
            if is_lmq(group) and 0 in offsets:
                light[key] = offsets[0]
                left = {queue_id: offset for queue_id, offset in offsets.items() if queue_id}
            if left:
                others[key] = left
        table = LmqOffsetTable(
            data_version=self.data_version, lmq_offset_table=light, offset_table=others
        )
        return table.to_json().decode()

    def load_lmq_json(self, text: str) -> None:
        """Load the offsets of light groups; and all others, if the text is newer than the table.

        A Java broker with light queues keeps no ``consumerOffset.json``. Raise InvalidBody, and
        change nothing, if the text is not such a table.
        """
        loaded = LmqOffsetTable.from_json(text.encode())
        version = loaded.data_version or self.data_version
        if not self._offsets or version.timestamp > self.data_version.timestamp:
            self._offsets = loaded.offset_table
            self.data_version = version
        for key, offset in loaded.lmq_offset_table.items():
            self._offsets.setdefault(key, {})[0] = offset


def _key(topic: str, group: str) -> str:
    return f"{topic}@{group}"


def _names(table: Table) -> Iterator[tuple[str, str]]:
    for key in table:
        topic, _, group = key.partition("@")
        yield topic, group
