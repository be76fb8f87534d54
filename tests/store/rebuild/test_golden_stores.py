"""From the logs of Java's stores come the queues and indexes that Java wrote, byte for byte."""

from pathlib import Path

import pytest

from orbitmq.store.reader.reader import StoreReader
from tests.store.golden import REDERIVED, contents, unpack
from tests.store.rebuild.made import Made, bytes_of, settings_of


@pytest.mark.parametrize("name", REDERIVED)
def test_queues_and_index_equal_java_s(name: str, tmp_path: Path) -> None:
    golden = unpack(name, tmp_path / "store")
    made = Made(StoreReader(str(golden.root)), settings_of(golden), tmp_path / "made")
    queues, index = made.queues(), made.index()
    assert made.damages == []
    records = [one for one in golden.manifest["dump"]["records"] if "topic" in one]
    assert sum(file.records for file in made.files) == len(records)
    last = records[-1]["physicalOffset"] + records[-1]["size"]
    blank_end = last + -last % golden.segment_bytes  # of a log whose last file is empty
    assert max(file.end for file in made.files) == (blank_end if name == "crash" else last)
    if name != "cqext":  # entries of that one point into extension files
        assert contents(tmp_path / "made" / "consumequeue") == contents(
            golden.root / "consumequeue"
        )
    assert len(queues) == len({(one["topic"], one["queueId"]) for one in records}) or name == "edge"
    assert bytes_of(tmp_path / "made" / "index") == bytes_of(golden.root / "index")
    assert [file.number for file in index] == list(range(len(index)))
