"""Maps keyed by message queue, in each form that Java ever wrote."""

import json

import pytest

from orbitmq.errors import InvalidBody
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.offsets import OffsetReset
from orbitmq.wire.json.queue_map import QueueMap, queue_map_from_builtins

QUEUE = MessageQueue("T", "a", 0)
OBJECT_KEY = '{"brokerName":"a","queueId":0,"topic":"T"}'
STRING_KEY = json.dumps(OBJECT_KEY)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("{}", {}),
        (f"{{{OBJECT_KEY}:100}}", {QUEUE: 100}),
        (f"{{ {OBJECT_KEY} : 100 }}", {QUEUE: 100}),
        ('{{\n"topic": "T",\n"brokerName": "a",\n"queueId": 0}:100}', {QUEUE: 100}),
        ('{{topic:"T",brokerName:"a",queueId:0,isNew:{0:1}}:100}', {QUEUE: 100}),
        (f"{{{STRING_KEY}:100}}", {QUEUE: 100}),
    ],
)
def test_all_forms_are_read(table: str, expected: dict[MessageQueue, int]) -> None:
    read = OffsetReset.from_json(f'{{"offsetTable":{table}}}'.encode())
    assert dict(read.offset_table) == expected


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[]", r"Expected `object`, got `list` - at `\$.offsetTable`"),
        ('{"0":1}', "a key of 1 characters is not a message queue"),
        ('{"{}":1}', "missing required field `topic`"),
        (f"{{{OBJECT_KEY}:[]}}", "Expected `int`, got `array`"),
    ],
)
def test_what_is_no_map_of_queues_is_refused(table: str, words: str) -> None:
    with pytest.raises(InvalidBody, match=words):
        OffsetReset.from_json(f'{{"offsetTable":{table}}}'.encode())


def test_a_key_as_deep_as_an_attack_is_refused() -> None:
    key = json.dumps("[" * 100_000)
    with pytest.raises(InvalidBody, match="brackets"):
        OffsetReset.from_json(f'{{"offsetTable":{{{key}:1}}}}'.encode())


def test_it_is_an_immutable_map() -> None:
    entries = {QUEUE: 1}
    queue_map = QueueMap(entries)
    entries[QUEUE] = 2
    assert queue_map[QUEUE] == 1
    assert queue_map == QueueMap({QUEUE: 1}) != QueueMap()
    assert list(queue_map) == [QUEUE]
    assert not hasattr(queue_map, "__setitem__")
    assert repr(queue_map) == f"QueueMap({{{QUEUE!r}: 1}})"


def test_a_body_that_holds_another_kind_of_map_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="frozenset"):
        queue_map_from_builtins(frozenset[int], {}, lambda item, _: item)
