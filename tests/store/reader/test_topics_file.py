from pathlib import Path

import pytest

from orbitmq.errors import StoreError
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.reader.topics_file import TOPICS_PATH, stored_topics


def written(store: Path, text: str) -> str:
    path = store / TOPICS_PATH
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(store)


def test_topics_and_their_attributes(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        '{"dataVersion": {}, "topicConfigTable": {"orders": {"perm": 6}, '
        '"batches": {"attributes": {"queue.type": "BatchCQ"}}}}',
    )
    topics = stored_topics(RealDisk(), store)
    assert topics is not None
    assert {name: one.attributes for name, one in topics.items()} == {
        "orders": {},
        "batches": {"queue.type": "BatchCQ"},
    }


def test_a_file_without_a_word_tells_nothing(tmp_path: Path) -> None:
    assert stored_topics(RealDisk(), written(tmp_path, "")) is None


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_a_broken_file_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="topics.json can't be read: .*; mend it, or move it away"):
        stored_topics(RealDisk(), written(tmp_path, text))
