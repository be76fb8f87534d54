"""The consumer groups of a broker: their settings, and topics that they are forbidden to read.

The table is kept in ``subscriptionGroup.json``, in Java's form (``SubscriptionGroupManager``).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.attributes import GROUP_ATTRIBUTES, changed
from orbitmq.broker.tables.paging import page
from orbitmq.broker.tables.topics import QUEUES_MAX
from orbitmq.clock import Clock
from orbitmq.errors import InvalidGroup, InvalidInput
from orbitmq.message.names import SYSTEM_GROUP_PREFIX, check_group, is_lmq
from orbitmq.wire.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from orbitmq.wire.bodies.topic import DataVersion

__all__ = ["GROUPS_FILE", "GROUPS_MAX", "READ_BIT", "Groups"]

log = logging.getLogger("orbitmq.broker")

GROUPS_FILE: Final = "subscriptionGroup.json"
GROUPS_MAX: Final = 30_000
"""Tools before 5.4 fetch all groups at once, and more would not fit a frame of 16 MiB."""
READ_BIT: Final = 2
"""The bit, counted from 0, that forbids reading (``PermName.INDEX_PERM_READ``)."""

_OWN_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    f"{SYSTEM_GROUP_PREFIX}TRANS",
)


class Groups:
    """The table of groups, system groups included. ``on_change`` is called after every change."""

    def __init__(
        self, settings: LiveSettings, clock: Clock, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        self._table = {name: SubscriptionGroupConfig(group_name=name) for name in _OWN_GROUPS}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion(timestamp=clock.now_ms())

    def __repr__(self) -> str:
        return f"<Groups {len(self._table)}, version {self.data_version.counter}>"

    def __contains__(self, name: object) -> bool:
        return name in self._table or (isinstance(name, str) and self._is_light(name))

    # Queries

    @property
    def table(self) -> Mapping[str, SubscriptionGroupConfig]:
        """All groups by name."""
        return MappingProxyType(self._table)

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """Return a group, created if it is new and the settings allow it; None otherwise.

        ``in`` checks without creating. A group whose name is like that of a light queue has the
        defaults and is not kept: each client of a light queue may have its own.
        """
        found = self._table.get(name)
        if found is None and self._is_light(name):
            return SubscriptionGroupConfig(group_name=name)
        if found is not None or not self._may_create(name):
            return found
        created = SubscriptionGroupConfig(group_name=name)
        log.info("group %s created", name)
        self._table[name] = created
        self._changed()
        return created

    def page(self, first: int, count: int, known: str | None) -> dict[str, SubscriptionGroupConfig]:
        """Return a page of the table; see `orbitmq.broker.tables.paging.page`."""
        return page(self._table, self.data_version, first=first, count=count, known=known)

    def forbidden(self, names: Mapping[str, object] | None = None) -> dict[str, dict[str, int]]:
        """Return the forbidden bits by group and topic, of the named groups or of all."""
        return {
            name: dict(topics)
            for name, topics in self._forbidden.items()
            if names is None or name in names
        }

    def is_forbidden(self, name: str, topic: str, bit: int = READ_BIT) -> bool:
        """Return whether a forbidden bit of a group and topic is set."""
        return bool(self._forbidden.get(name, {}).get(topic, 0) >> bit & 1)

    # Changes

    def update(self, groups: Sequence[SubscriptionGroupConfig]) -> None:
        """Create or change groups, all or none; their attributes are a change.

        Raise InvalidInput if an attribute or the number of retry queues is invalid, or there would
        be too many groups.
        """
        after = {group.group_name: self._merged(group) for group in groups}
        if len(self._table.keys() | after.keys()) > GROUPS_MAX:
            raise InvalidInput(
                f"there are {len(self._table)} groups, and the limit is {GROUPS_MAX}; delete some",
                field="group",
            )
        self._table.update(after)
        self._changed()

    def delete(self, name: str) -> bool:
        """Delete a group; return whether it existed."""
        self._forbidden.pop(name, None)
        if self._table.pop(name, None) is None:
            return False
        log.info("group %s deleted", name)
        self._changed()
        return True

    def forbid(self, name: str, topic: str, *, on: bool, bit: int = READ_BIT) -> None:
        """Set or clear a forbidden bit of a group and topic.

        Java clears all topics of the group when it allows one, and keeps the old file
        (``SubscriptionGroupManager.updateForbiddenValue``). Here the others stay.
        """
        topics = self._forbidden.setdefault(name, {})
        bits = topics.pop(topic, 0)
        bits = bits | 1 << bit if on else bits & ~(1 << bit)
        if bits:
            topics[topic] = bits
        if not topics:
            del self._forbidden[name]
        log.info("group %s and topic %s: forbidden bits are %d", name, topic, bits)
        self._changed()

    def _is_light(self, name: str) -> bool:
        return self._settings.store.lmq_enabled and is_lmq(name)

    def _may_create(self, name: str) -> bool:
        is_system = name.startswith(SYSTEM_GROUP_PREFIX)
        if not (self._settings.broker.auto_create_subscription_group or is_system):
            return False
        if len(self._table) >= GROUPS_MAX:
            log.error(
                "group %s is not created: the limit of %d groups is reached", name, GROUPS_MAX
            )
            return False
        try:
            check_group(name)
        except InvalidGroup as error:
            log.warning("a group is not created, its name is invalid: %s", error)
            return False
        return True

    def _merged(self, group: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        if not 0 <= group.retry_queue_nums <= QUEUES_MAX:
            raise InvalidInput(
                f"retry_queue_nums of group {group.group_name} is {group.retry_queue_nums}; it "
                f"must be 0 to {QUEUES_MAX}",
                field="retry_queue_nums",
            )
        before = self._table.get(group.group_name)
        current = None if before is None else before.attributes
        return replace(group, attributes=changed(current, group.attributes, GROUP_ATTRIBUTES))

    def _changed(self) -> None:
        # That of a slave has no time: it must not be equal to one of its master by chance.
        now_ms = 0 if self._settings.broker.is_slave else self._clock.now_ms()
        self.data_version = self.data_version.next(now_ms)
        self._on_change()

    def take(self, table: SubscriptionGroupTable) -> None:
        """Replace all groups by those of the master, if the versions differ; for a slave."""
        if table.data_version == self.data_version:
            return
        self._table = dict(table.subscription_group_table)
        self._forbidden = {name: dict(topics) for name, topics in table.forbidden_table.items()}
        self.data_version = table.data_version
        self._on_change()

    # subscriptionGroup.json

    def to_json(self) -> str:
        """Return the table as the text of ``subscriptionGroup.json``, sorted by name."""
        wrapper = SubscriptionGroupTable(
            data_version=self.data_version,
            forbidden_table=self._forbidden,
            subscription_group_table=dict(sorted(self._table.items())),
        )
        return wrapper.to_json().decode()

    def load_json(self, text: str) -> None:
        """Load a table; raise InvalidBody, and change nothing, if the text is not one of groups."""
        loaded = SubscriptionGroupTable.from_json(text.encode())
        self._table.update(loaded.subscription_group_table)
        self._forbidden.update(loaded.forbidden_table)
        self.data_version = loaded.data_version
