"""Queues are made by the rules of a start, whatever the log lost."""

from pathlib import Path

import pytest

from orbitmq.errors import StoreError
from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.queues.entry import PREFILL, unpack
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.rebuild.queue_files import topics_with_batches
from tests.store.logs import incoming
from tests.store.rebuild.made import Made
from tests.store.rebuild.test_log_parts import SETTINGS
from tests.store.stores import opened
from tests.store.unpacked import flip


def filled(directory: Path, count: int) -> list[int]:
    """Store messages in one queue; return where they are in the log."""
    store = opened(RealDisk(), str(directory))
    places = [store.append([incoming(bytes(100))])[0].offsets[0] for _ in range(count)]
    store.close()
    return places


def test_the_place_of_a_lost_message_gets_the_next_one(tmp_path: Path) -> None:
    places = filled(tmp_path / "store", 4)
    flip(tmp_path / "store" / "commitlog" / f"{0:020d}", places[2] + 90)
    made = Made(StoreReader(str(tmp_path / "store")), SETTINGS, tmp_path / "made")
    (queue,) = made.queues()
    data = Path(queue.path, f"{0:020d}").read_bytes()
    assert [entry.commit_log_offset for entry in unpack(data)][:4] == [
        *places[:2],
        places[3],
        places[3],
    ]
    assert "message 3 takes their place" in str(made.damages[-1])


def test_a_queue_begins_where_the_log_does(tmp_path: Path) -> None:
    places = filled(tmp_path / "store", 60)
    (tmp_path / "store" / "commitlog" / f"{0:020d}").unlink()
    made = Made(StoreReader(str(tmp_path / "store")), SETTINGS, tmp_path / "made")
    (queue,) = made.queues()
    first = sum(place < 4096 for place in places)
    assert (queue.min_offset, queue.max_offset, queue.entries) == (first, 60, 60 - first)
    begun = first - first % 5
    data = Path(queue.path, f"{begun * 20:020d}").read_bytes()
    assert data[: (first - begun) * 20] == PREFILL * (first - begun)
    assert made.damages == []


def test_an_unexplained_gap_is_damage(tmp_path: Path) -> None:
    filled(tmp_path / "store", 6)
    made = Made(StoreReader(str(tmp_path / "store")), SETTINGS, tmp_path / "made")
    ((part,),) = made._queue_parts.values()
    size = len(part.data) // 6
    made._queue_parts["orders", 0] = [
        part._replace(data=part.data[: 2 * size] + part.data[4 * size :])
    ]
    made.queues()
    assert [damage.where for damage in made.damages] == ["consumequeue/orders/0"]
    assert isinstance(made.damages[0], Damage)


def test_kinds_of_topics(tmp_path: Path) -> None:
    disk, path = RealDisk(), tmp_path / "config" / "topics.json"
    assert topics_with_batches(disk, str(tmp_path), ["a"]) == {"a"}
    path.parent.mkdir()
    path.write_text(
        '{"topicConfigTable": {"a": {"attributes": {}}, "b": {"attributes":'
        ' {"queue.type": "BatchCQ"}, "perm": 6}}}'
    )
    assert topics_with_batches(disk, str(tmp_path), ["a", "c"]) == {"b", "c"}
    path.write_text("{")
    with pytest.raises(StoreError, match=r"topics\.json can't be read"):
        topics_with_batches(disk, str(tmp_path), [])
