from pathlib import Path

import numpy as np

from orbitmq.message.tags import tags_code
from orbitmq.spark.store_source.tag_codes import TagCodes, Topics, queues_of
from orbitmq.store.reader.reader import StoreReader
from tests.spark.store_source.made_logs import LogMaker


def test_the_code_of_each_record_is_that_of_its_queue(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    tags = ["paid", "late", "open"]
    for number in range(30):
        text = f"TAGS\x01{tags[number % 3]}\x02".encode()
        topic = [b"orders", b"refunds"][number % 2]
        maker.add(topic=topic, queue_id=number % 5, properties=text)
    reader = StoreReader(maker.write(queues=True))
    codes = TagCodes(reader, 0, reader.written_end)
    places = np.array(maker.starts)
    numbers = np.arange(30)
    topics = Topics(numbers % 2, ["orders", "refunds"])
    expected = [tags_code(tags[number % 3]) for number in range(30)]
    assert codes.of(places, topics, numbers % 5).to_pylist() == expected
    assert codes.of(places + 1, topics, numbers % 5).null_count == 30
    assert codes.of(places, topics, numbers % 5 + 9).null_count == 30
    partly = TagCodes(reader, maker.starts[10], maker.starts[20])
    assert partly.of(places, topics, numbers % 5).to_pylist() == (
        [None] * 10 + expected[10:20] + [None] * 10
    )


def test_the_queues_of_records() -> None:
    topics = Topics(np.array([0, 1, 0, 1]), ["a", "b"])
    keys, of_row = queues_of(topics, np.array([7, 0, 7, 2]))
    assert [keys[row] for row in of_row] == [("a", 7), ("b", 0), ("a", 7), ("b", 2)]
