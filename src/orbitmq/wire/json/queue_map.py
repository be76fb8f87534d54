r"""Maps with message queues as keys, which standard JSON can't express.

Three forms are decoded, the first is encoded::

    {{"brokerName":"a","queueId":0,"topic":"T"}:100}             as in Java
    {"{\"brokerName\":\"a\",\"queueId\":0,\"topic\":\"T\"}":100}   the key as a string
    {}

Java 5.4 reads only the first form: fastjson 2 doesn't convert a string to a ``MessageQueue``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, get_args, get_origin

import msgspec

from orbitmq.message.model import MessageQueue
from orbitmq.wire.json.fastjson import standard_json

__all__ = ["QueueMap", "queue_map_from_builtins"]

V_co = TypeVar("V_co", covariant=True)


class QueueMap(Mapping[MessageQueue, V_co]):
    """An immutable map with message queues as keys.

    >>> offsets = QueueMap({MessageQueue("orders", "broker-a", 0): 100})
    >>> offsets[MessageQueue("orders", "broker-a", 0)]
    100
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[MessageQueue, V_co] | None = None) -> None:
        self._entries: dict[MessageQueue, V_co] = dict(entries or {})

    def __getitem__(self, queue: MessageQueue) -> V_co:
        return self._entries[queue]

    def __iter__(self) -> Iterator[MessageQueue]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"QueueMap({self._entries!r})"


def queue_map_from_builtins(
    kind: object, value: object, convert: Callable[[object, type], object]
) -> QueueMap[object]:
    """Return the `QueueMap` of type ``kind`` for a decoded JSON object.

    ``convert(item, kind)`` converts each value; null values are dropped, as in other maps. Raises
    ValueError, which msgspec reports with the path, if a key is not a message queue.
    """
    if get_origin(kind) is not QueueMap:
        raise TypeError(f"bodies can't hold {kind!r}; a map of queues is a QueueMap[…]")
    if not isinstance(value, dict):
        raise ValueError(f"Expected `object`, got `{type(value).__name__}`")
    (item_kind,) = get_args(kind)
    return QueueMap(
        {
            _queue_from_key(key): convert(item, item_kind)
            for key, item in value.items()
            if item is not None
        }
    )


_DECODER = msgspec.json.Decoder(MessageQueue)


def _queue_from_key(key: str) -> MessageQueue:
    try:
        try:
            return _DECODER.decode(key)
        except msgspec.DecodeError:
            return _DECODER.decode(standard_json(key.encode()).text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(
            f"a key of {len(key)} characters is not a message queue: {error}"
        ) from error
