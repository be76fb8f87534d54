"""How groups read topics, by pulling or by pop: what operators set with ``setConsumeMode``.

The table is kept in ``messageRequestMode.json``, in Java's form (``MessageRequestModeManager``).
Pop consumption does not exist here, so a mode of POP is kept for a Java broker on the same files,
and read as PULL.
"""

from typing import Final

from orbitmq.errors import InvalidInput
from orbitmq.wire.bodies.pop import RequestModeSetting, RequestModeTable

__all__ = ["REQUEST_MODES_FILE", "RequestModes"]

REQUEST_MODES_FILE: Final = "messageRequestMode.json"
_SETTINGS_MAX: Final = 100_000
"""Topics and groups are limited, pairs of them are not."""


class RequestModes:
    """The settings by topic and group.

    >>> modes = RequestModes()
    >>> modes.set(RequestModeSetting(topic="orders", consumer_group="billing"))
    >>> modes.to_json()
    '{"messageRequestModeMap":{"orders":{"billing":{"consumerGroup":"billing","mode":"PULL",\
"popShareQueueNum":0,"topic":"orders"}}}}'
    """

    def __init__(self) -> None:
        self._table: dict[str, dict[str, RequestModeSetting]] = {}
        self.changes = 0

    def __repr__(self) -> str:
        return f"<RequestModes of {len(self._table)} topics>"

    def set(self, setting: RequestModeSetting) -> None:
        """Set how a group reads a topic. Raise InvalidInput if there would be too many settings."""
        groups = self._table.get(setting.topic, {})
        is_new = setting.consumer_group not in groups
        if is_new and sum(map(len, self._table.values())) >= _SETTINGS_MAX:
            raise InvalidInput(
                f"there are {_SETTINGS_MAX} settings of consume modes, which is the limit",
                field="topic",
            )
        self._table.setdefault(setting.topic, {})[setting.consumer_group] = setting
        self.changes += 1

    def take(self, table: RequestModeTable) -> None:
        """Replace all settings by those of the master; for a slave."""
        if table.message_request_mode_map != self._table:
            self._table = table.message_request_mode_map
            self.changes += 1

    def to_json(self) -> str:
        """Return the table as the text of ``messageRequestMode.json``."""
        return RequestModeTable(message_request_mode_map=self._table).to_json().decode()

    def load_json(self, text: str) -> None:
        """Load a table; raise InvalidBody, and change nothing, if the text is none."""
        self._table = RequestModeTable.from_json(text.encode()).message_request_mode_map
