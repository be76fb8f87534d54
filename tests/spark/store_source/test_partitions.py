"""Plans of reads: ranges that follow each other, begin at records, and leave out what they may."""

import pickle
from pathlib import Path

import pytest

from orbitmq.errors import InvalidOffsets, InvalidOption, StoreError
from orbitmq.spark.store_source.partitions import PART_BYTES, StorePartition, plan
from orbitmq.store.reader.reader import StoreReader
from tests.spark.store_source.made_logs import NOW, SEGMENT, LogMaker, log_of_all_kinds
from tests.spark.store_source.reads import options_of, read


def ranges(parts: list[StorePartition]) -> list[tuple[int, int]]:
    return [(part.start, part.end) for part in parts]


def test_a_small_log_is_one_part(tmp_path: Path) -> None:
    maker = log_of_all_kinds(tmp_path, 100, 1)
    assert maker.starts[-1] < PART_BYTES
    directory = maker.write()
    (part,) = plan(options_of(directory))
    last = list(StoreReader(directory).records())[-1]
    assert (part.start, part.end) == (0, last.commit_log_offset + last.size)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("least", [2, 7, 30])
def test_parts_follow_each_other_and_begin_at_records(
    least: int, queues: bool, tmp_path: Path
) -> None:
    maker = log_of_all_kinds(tmp_path, 400, least)
    directory = maker.write(queues=queues)
    parts = plan(options_of(directory, minPartitions=str(least)))
    assert len(parts) >= least
    assert all(part.start in maker.starts for part in parts)
    assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
    assert pickle.loads(pickle.dumps(parts)) == parts


def test_an_empty_store_has_no_parts_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert plan(options_of(tmp_path)) == []
    (tmp_path / "commitlog" / ("0" * 20)).write_bytes(bytes(SEGMENT))
    assert plan(options_of(tmp_path)) == []
    with pytest.raises(StoreError, match="is not a store directory"):
        plan(options_of(tmp_path / "none"))


def test_a_log_that_lies_elsewhere(tmp_path: Path) -> None:
    directory = log_of_all_kinds(tmp_path, 50, 1).write()
    elsewhere = tmp_path / "disk2"
    Path(directory, "commitlog").rename(elsewhere)
    Path(directory, "checkpoint").touch()
    assert plan(options_of(directory)) == []
    assert len(plan(options_of(directory, commitLog=str(elsewhere)))) == 1
    with pytest.raises(StoreError, match="there is no directory disk3; give that of the log"):
        plan(options_of(directory, commitLog="disk3"))


def test_a_store_with_queues_and_no_log_is_not_empty(tmp_path: Path) -> None:
    directory = log_of_all_kinds(tmp_path, 50, 1).write(queues=True)
    Path(directory, "commitlog").rename(tmp_path / "disk2")
    with pytest.raises(
        StoreError, match="has queues, but its log is not in .*/commitlog; set the option"
    ):
        plan(options_of(directory))
    assert len(plan(options_of(directory, commitLog=str(tmp_path / "disk2")))) == 1


# What is left out


def steps(tmp_path: Path) -> LogMaker:
    """Return a log of 40 records for each of four topics, one topic after the other."""
    maker = LogMaker(tmp_path)
    for topic in (b"a", b"b", b"c", b"d"):
        for number in range(40):
            maker.add(bytes(500), topic=topic, queue_id=number % 2)
    return maker


def test_a_range_of_times_leaves_out_whole_parts(tmp_path: Path) -> None:
    maker = steps(tmp_path)
    options = options_of(
        maker.write(),
        startingTimestamp=str(NOW + 500),  # record 50
        endingTimestamp=str(NOW + 900),
        minPartitions="20",
    )
    parts = plan(options)
    assert parts[0].start <= maker.starts[50] < parts[0].end
    assert parts[-1].start < maker.starts[90] <= parts[-1].end
    assert parts[0].start > maker.starts[35]
    assert parts[-1].end < maker.starts[105]


def test_a_range_of_times_before_the_log_or_behind_it_has_no_rows(tmp_path: Path) -> None:
    directory = steps(tmp_path).write()
    assert plan(options_of(directory, endingTimestamp=str(NOW))) == []
    assert read(directory, endingTimestamp=str(NOW)) == []
    assert read(directory, startingTimestamp=str(NOW + 10_000_000)) == []


def test_topics_leave_out_whole_parts(tmp_path: Path) -> None:
    maker = steps(tmp_path)
    directory = maker.write(queues=True)
    last = plan(options_of(directory, minPartitions="20"))[-1]
    parts = plan(options_of(directory, subscribe="b", minPartitions="20"))
    assert parts.pop() == last  # queues may lag behind it
    assert parts[0].start <= maker.starts[40] < parts[0].end
    assert parts[-1].start <= maker.starts[79] < parts[-1].end
    assert parts[0].start > maker.starts[25]
    assert parts[-1].end < maker.starts[95]


def test_offsets_leave_out_whole_parts(tmp_path: Path) -> None:
    maker = steps(tmp_path)
    options = options_of(
        maker.write(queues=True),
        subscribe="b",
        startingOffsets='{"b": {"0": 10, "1": 10}}',
        endingOffsets='{"b": {"0": 12, "1": 11}}',
        minPartitions="40",
    )
    *parts, _ = plan(options)
    assert parts[0].start <= maker.starts[60] < parts[0].end
    assert parts[-1].start <= maker.starts[62] < parts[-1].end
    assert len(parts) <= 3


def test_without_queues_topics_leave_nothing_out(tmp_path: Path) -> None:
    directory = steps(tmp_path).write()
    narrow = plan(options_of(directory, subscribe="b", minPartitions="20"))
    assert ranges(narrow) == ranges(plan(options_of(directory, minPartitions="20")))


# What is refused


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"subscribe": "orders,refund"}, "no messages of topic refund; did you mean refunds?"),
        ({"subscribe": "zzz"}, "no messages of topic zzz; it has the topics %DLQ%ttt"),
    ],
)
def test_a_topic_that_the_store_lacks(given: dict[str, str], what: str, tmp_path: Path) -> None:
    directory = log_of_all_kinds(tmp_path, 200, 1).write(queues=True)
    with pytest.raises(InvalidOption, match=what.replace("?", "[?]")):
        plan(options_of(directory, **given))


@pytest.mark.parametrize(
    ("offsets", "what"),
    [
        ('{"a": {"0": 1}}', "startingOffsets lacks offsets of queues that are read: a/1"),
        ('{"a": {"0": 1, "1": 1, "2": 1}}', "has offsets of queues that are not read: a/2"),
        (
            '{"a": {"0": 1, "1": 21}}',
            "queue 1 of a has offsets from 0 to before 20, and 21 is none of them",
        ),
    ],
)
def test_offsets_that_the_store_lacks(offsets: str, what: str, tmp_path: Path) -> None:
    directory = steps(tmp_path).write(queues=True)
    with pytest.raises(InvalidOffsets, match=what):
        plan(options_of(directory, subscribe="a", startingOffsets=offsets))


@pytest.mark.parametrize("queues", [True, False])
def test_the_ends_of_queues_as_offsets(queues: bool, tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    for number in range(8):
        maker.add(queue_id=number % 2)
    directory = maker.write(queues=queues)

    def found(**given: str) -> list[tuple[object, object]]:
        return [(row["queue_id"], row["queue_offset"]) for row in read(directory, **given)]

    everything = [(number % 2, number // 2) for number in range(8)]
    assert found(startingOffsets='{"orders": {"0": -1, "1": 2}}') == [(1, 2), (1, 3)]
    assert found(startingOffsets='{"orders": {"0": -2, "1": -2}}') == everything
    assert found(endingOffsets='{"orders": {"0": -2, "1": 2}}') == [(1, 0), (1, 1)]
    assert found(endingOffsets='{"orders": {"0": -1, "1": -1}}') == everything
