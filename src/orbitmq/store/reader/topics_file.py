"""The topics of ``config/topics.json``, which brokers keep beside a store, in Java's form."""

from typing import Final

import msgspec

from orbitmq.errors import StoreError
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import read_file
from orbitmq.store.layout import path_join

__all__ = ["TOPICS_PATH", "StoredTopic", "stored_topics"]

TOPICS_PATH: Final = "config/topics.json"


class StoredTopic(msgspec.Struct):
    """What a reader of a store asks about a topic."""

    attributes: dict[str, str] = {}


class _Topics(msgspec.Struct, rename="camel"):
    topic_config_table: dict[str, StoredTopic] = {}


def stored_topics(disk: Disk, store: str) -> dict[str, StoredTopic] | None:
    """Return the topics of a store by name; None if it has no such file, as a copy of its log.

    Raises:
        StoreError: the file can't be read.

    >>> from orbitmq.store.disk.disk import RealDisk
    >>> stored_topics(RealDisk(), "/no/such/store") is None
    True
    """
    path = path_join(store, *TOPICS_PATH.split("/"))
    try:
        text = read_file(disk, path)
        return msgspec.json.decode(text, type=_Topics).topic_config_table if text else None
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} can't be read: {error}; mend it, or move it away", path=path
        ) from error
