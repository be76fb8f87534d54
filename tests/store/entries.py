"""Entries as dispatch makes them, for tests of queues and of the key index."""

from orbitmq.store.dispatch import Dispatched


def dispatched(
    queue_offset: int = 0,
    commit_log_offset: int = 0,
    *,
    topic: str = "orders",
    queue_id: int = 0,
    size: int = 100,
    tags_code: int = 0,
) -> Dispatched:
    """Return what a record without keys means to its queue."""
    return Dispatched(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_log_offset=commit_log_offset,
        size=size,
        tags_code=tags_code,
        store_timestamp_ms=0,
        sys_flag=0,
        unique_key=None,
        keys=b"",
        tags=None,
    )


def keyed(
    commit_log_offset: int,
    keys: str,
    *,
    topic: str = "orders",
    unique_key: str | None = None,
    tags: str | None = None,
    store_timestamp_ms: int = 1_000_000,
    sys_flag: int = 0,
) -> Dispatched:
    """Return what a record with these keys means to the key index."""
    return Dispatched(
        topic=topic,
        queue_id=0,
        queue_offset=0,
        commit_log_offset=commit_log_offset,
        size=100,
        tags_code=0,
        store_timestamp_ms=store_timestamp_ms,
        sys_flag=sys_flag,
        unique_key=None if unique_key is None else unique_key.encode(),
        keys=keys.encode(),
        tags=None if tags is None else tags.encode(),
    )
