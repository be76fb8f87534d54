"""The KV config: texts that operators set, by namespace and key; saved as Java's kvConfig.json.

>>> config = KVConfig()
>>> config.put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
>>> config.to_json()
'{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4"}}}'
"""

from typing import Final

from msgspec import field

from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.json.body import Body

__all__ = ["ORDER_TOPICS", "KVConfig"]

ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of ordered topics: the topic → ``broker-a:4;broker-b:4``, queues by broker."""

_CHARACTERS_MAX: Final = 16 * 1024 * 1024
"""For all texts together: each change rewrites the file, and each answer must fit a frame."""


class _KVConfigFile(Body, frozen=True, kw_only=True):
    """The content of the file; Java: KVConfigSerializeWrapper."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)


class KVConfig:
    """The texts; ``version`` counts changes."""

    def __init__(self) -> None:
        self.version = 0
        self._table: dict[str, dict[str, str]] = {}
        self._characters = 0

    def __repr__(self) -> str:
        return f"<KVConfig {sum(map(len, self._table.values()))} keys, version {self.version}>"

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value of a key; None if it is missing."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return all keys of a namespace; None if it never had one."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a key; Refusal if all texts together would exceed the limit."""
        old = self.get(namespace, key)
        grown = len(value) - len(old) if old is not None else len(namespace + key + value)
        if self._characters + grown > _CHARACTERS_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{grown} characters in addition to {self._characters} exceed the limit of "
                f"{_CHARACTERS_MAX}; delete keys first",
            )
        self._table.setdefault(namespace, {})[key] = value
        self._characters += grown
        self.version += 1

    def delete(self, namespace: str, key: str) -> None:
        """Delete a key if it exists; its namespace stays, as in Java."""
        old = self._table.get(namespace, {}).pop(key, None)
        if old is not None:
            self._characters -= len(namespace + key + old)
            self.version += 1

    def to_json(self) -> str:
        """Return the contents of the file."""
        return _KVConfigFile(config_table=self._table).to_json().decode()

    def load_json(self, data: bytes) -> None:
        """Replace the texts by the contents of a file; InvalidBody if it is not one."""
        self._table = _KVConfigFile.from_json(data).config_table
        self._characters = sum(
            len(namespace + key + value)
            for namespace, keys in self._table.items()
            for key, value in keys.items()
        )
