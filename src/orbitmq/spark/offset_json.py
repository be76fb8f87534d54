"""Parses offsets and queues in options: JSON, with the position in each error.

::

    startingOffsets   {"orders": {"broker-a:0": 12, "broker-a:1": -2}}
    (rocketmq-spark)  {"orders": {"broker-a": {"0": 12, "1": -2}}}
    assign            {"orders": ["broker-a:0", "broker-a:1"]}
"""

import json
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from orbitmq.errors import InvalidOffsets
from orbitmq.message.model import MessageQueue

__all__ = ["parse_offsets", "parse_queues", "queue_name"]

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_OFFSET_MIN: Final = -2  # earliest; -1 is latest
_SHOWN_MAX: Final = 60


def queue_name(queue: MessageQueue) -> str:
    """Return the name of a queue inside its topic.

    >>> queue_name(MessageQueue("orders", "broker-a", 3))
    'broker-a:3'
    """
    return f"{queue.broker_name}:{queue.queue_id}"


def parse_offsets(text: str, *, field: str, any_broker: bool = False) -> dict[MessageQueue, int]:
    """Return the offsets in the value of an option.

    With ``any_broker`` a queue may be its number alone; then the name of its broker is empty.

    >>> parse_offsets('{"orders": {"broker-a:0": 12}}', field="startingOffsets")
    {MessageQueue(topic='orders', broker_name='broker-a', queue_id=0): 12}
    """
    return _Text(text, field, any_broker=any_broker).offsets()


def parse_queues(text: str, *, field: str) -> tuple[MessageQueue, ...]:
    """Return the queues in the value of an option, sorted.

    >>> parse_queues('{"orders": ["broker-a:0"]}', field="assign")
    (MessageQueue(topic='orders', broker_name='broker-a', queue_id=0),)
    """
    return _Text(text, field).queues()


class _Text:
    """A text that is parsed; finds the positions of keys for errors."""

    def __init__(self, text: str, field: str, *, any_broker: bool = False) -> None:
        self._text = text
        self._field = field
        self._any_broker = any_broker

    def offsets(self) -> dict[MessageQueue, int]:
        example = '{"orders": {"broker-a:0": 12}}'
        found: dict[MessageQueue, int] = {}
        for topic, queues in self._topics(example):
            if not isinstance(queues, dict):
                self._fail(f"topic {_shown(topic)} has no offsets by queue", topic, example=example)
            for name, value in queues.items():
                for queue, offset in self._entries(topic, name, value):
                    self._add(found, queue, offset)
        return found

    def queues(self) -> tuple[MessageQueue, ...]:
        example = '{"orders": ["broker-a:0", "broker-a:1"]}'
        found: dict[MessageQueue, int] = {}
        for topic, queues in self._topics(example):
            if not isinstance(queues, list) or not queues:
                self._fail(f"topic {_shown(topic)} has no list of queues", topic, example=example)
            for name in queues:
                if not isinstance(name, str):
                    self._fail(f"{_shown(name)} is not a queue", topic, example=example)
                self._add(found, self._queue(topic, name), 0)
        return tuple(sorted(found))

    def _entries(
        self, topic: str, name: str, value: object
    ) -> Iterator[tuple[MessageQueue, object]]:
        if isinstance(value, dict):  # rocketmq-spark's form
            for number, offset in value.items():
                yield self._queue(topic, f"{name}:{number}", key=number), offset
        else:
            yield self._queue(topic, name), value

    def _add(self, found: dict[MessageQueue, int], queue: MessageQueue, offset: object) -> None:
        keys = (queue.topic, queue_name(queue), str(queue.queue_id))
        if queue in found:
            self._fail(f"queue {queue_name(queue)} of {queue.topic} is there twice", *keys)
        if not isinstance(offset, int) or isinstance(offset, bool):
            self._fail(f"{_shown(offset)} is not an offset", *keys)
        if not _OFFSET_MIN <= offset <= _INT64_MAX:
            self._fail(
                f"offset {_shown(offset)} is out of range; write 0 or more, -1 for latest, "
                "-2 for earliest",
                *keys,
            )
        found[queue] = offset

    def _queue(self, topic: str, name: str, *, key: str | None = None) -> MessageQueue:
        broker, _, number = name.rpartition(":")
        plain = number.isascii() and number.isdecimal() and len(number) <= len(str(_INT32_MAX))
        if (
            not (broker or (self._any_broker and ":" not in name))
            or not plain
            or int(number) > _INT32_MAX
        ):
            self._fail(
                f"{_shown(name)} is not a queue; write broker and number, as in broker-a:0",
                topic,
                key or name,
            )
        return MessageQueue(topic, broker, int(number))

    def _topics(self, example: str) -> Iterator[tuple[str, object]]:
        try:
            # json keeps the last of two equal keys, and would lose the first without an error.
            value = json.loads(self._text, object_pairs_hook=self._unrepeated)
        except json.JSONDecodeError as error:
            self._raise(f"{error.msg.lower()}; it should be like {example}", error.pos)
        except InvalidOffsets:
            raise
        except RecursionError:
            self._raise("it is nested too deeply", 0)
        except ValueError:  # Python parses no number with thousands of digits
            longest = max(re.finditer("[0-9]+", self._text), key=lambda found: len(found[0]))
            self._raise(f"a number of {len(longest[0])} digits is not an offset", longest.start())
        if not isinstance(value, dict) or not value:
            self._raise(f"it should be like {example}", 0)
        yield from value.items()

    def _unrepeated(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                self._raise(f"{_shown(key)} is there twice", self._second_position(key))
            found[key] = value
        return found

    def _fail(self, what: str, *keys: str, example: str | None = None) -> NoReturn:
        """Raise an error for the value below some nested keys."""
        hint = f"; it should be like {example}" if example else ""
        self._raise(what + hint, self._position(*keys))

    def _position(self, *keys: str) -> int:
        position = 0
        for key in keys:
            position = max(position, self._text.find(f'"{key}"', position))
        return position

    def _second_position(self, key: str) -> int:
        """Return the position of a repeated key; the first one if it is spelled differently."""
        first = self._position(key)
        return max(
            first, *(self._text.find(text, first + 1) for text in (f'"{key}"', json.dumps(key)))
        )

    def _raise(self, what: str, position: int) -> NoReturn:
        raise InvalidOffsets(
            f"{self._field}: {what} (at character {position})",
            field=self._field,
            position=position,
        ) from None


def _shown(value: object) -> str:
    text = json.dumps(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
