"""Structs filled at random, from nothing but the types of their fields."""

import enum
import types
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from orbitmq.message.model import MessageQueue
from orbitmq.wire.json.queue_map import QueueMap
from tests.interop.cases import Chance

S = TypeVar("S", bound=msgspec.Struct)

MAP_SIZE_MAX = 3


@dataclass(frozen=True)
class Filling:
    """How to fill a struct.

    Attributes:
        choices: by wire name, the values of fields that take a few only.
        always: the wire names of fields that are never left out.
        empty: whether a text may be empty.
        bits: of integers, at most.

    """

    chance: Chance
    choices: Mapping[str, Sequence[object]]
    always: Set[str] = frozenset()
    empty: bool = True
    bits: int = 64

    def struct(self, kind: type[S]) -> S:
        """Fill every field; None only where that is the default, so that it may be left out."""
        hints = get_type_hints(kind, include_extras=True)
        return kind(
            **{
                field.name: self.field(field, hints[field.name])
                for field in msgspec.structs.fields(kind)
            }
        )

    def field(self, field: msgspec.structs.FieldInfo, hint: Any) -> object:
        """Return a value for one field."""
        may_be_none = field.default is None and field.encode_name not in self.always
        if may_be_none and self.chance.randrange(3) == 0:
            return None
        if field.encode_name in self.choices:
            return self.chance.choice(self.choices[field.encode_name])
        return self.value(hint)

    def value(self, hint: Any) -> object:
        """Return a value of a type, never None."""
        kind, arguments = get_origin(hint), get_args(hint)
        if kind is Union or kind is types.UnionType:
            return self.value(next(one for one in arguments if one is not types.NoneType))
        if kind is Annotated:
            bound = 1 << self.bits - 1
            return self.chance.integer(
                max(arguments[1].ge, -bound), min(arguments[1].le, bound - 1)
            )
        if kind is dict:
            return {self.key(arguments[0]): self.value(arguments[1]) for _ in self.some()}
        if kind is QueueMap:
            queues = (self.struct(MessageQueue) for _ in self.some())
            return QueueMap({queue: self.value(arguments[0]) for queue in queues})
        if kind is tuple:
            return self.without_doubles(self.value(arguments[0]) for _ in self.some())
        return self.plain(hint)

    def plain(self, kind: type) -> object:
        """Return a value of a type that has no other types inside."""
        if issubclass(kind, msgspec.Struct):
            return self.struct(kind)
        if issubclass(kind, enum.Enum):
            return self.chance.choice(list(kind))
        if kind is bool:
            return self.chance.random() < 0.5
        if kind is int:
            return self.chance.int32()
        if kind is float:
            return self.chance.choice((0.0, self.chance.random(), self.chance.uniform(-1e9, 1e9)))
        if kind is bytes:
            return self.chance.body(9).rstrip(b"\0")  # a BitSet in Java, which has no length
        assert kind is str, f"no way to make a {kind}"
        return self.chance.text() or ("" if self.empty else "x")

    def key(self, hint: Any) -> object:
        """Return a key of a map; fastjson 2 can't read astral characters in one."""
        key = self.value(hint)
        return "".join(one for one in key if one <= "\uffff") if isinstance(key, str) else key

    def some(self) -> range:
        """Return how many items a collection is to have."""
        return range(self.chance.randint(0, MAP_SIZE_MAX))

    @staticmethod
    def without_doubles(items: Iterable[object]) -> tuple[object, ...]:
        """Many tuples are sets in Java, which compare by a few fields: a topic if there is one."""
        return tuple({getattr(one, "topic", repr(one)): one for one in items}.values())
