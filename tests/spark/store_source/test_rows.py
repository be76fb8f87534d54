"""Every row of Java's stores, of ours, and of records of every kind, compared one by one."""

import json
import os
import random
from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.message import flags, names
from orbitmq.spark.store_source.partitions import plan
from orbitmq.spark.store_source.rows import read_part
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import Damage, StoreReader
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from tests.spark.store_source.expected import rows_of
from tests.spark.store_source.made_logs import SEGMENT, LogMaker, log_of_all_kinds
from tests.spark.store_source.reads import EVERYTHING, options_of, read
from tests.store.logs import incoming
from tests.store.unpacked import NAMES, flip, unpacked

every_store = pytest.mark.parametrize("name", NAMES)


@every_store
@pytest.mark.parametrize("parts", [{}, {"minPartitions": "13"}])
def test_every_row_is_that_of_its_record(name: str, parts: dict[str, str], tmp_path: Path) -> None:
    reader = StoreReader(unpacked(name, tmp_path))
    views = list(reader.records(verify=True, on_damage=lambda _: None))
    assert views
    found = read(reader.directory, onCorrupt="skip", **EVERYTHING, **parts)
    assert found == rows_of(reader, views)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("queues", [False, True])
def test_records_of_every_kind(seed: int, queues: bool, tmp_path: Path) -> None:
    reader = StoreReader(log_of_all_kinds(tmp_path, 300, seed).write(queues=queues))
    views = list(reader.records(verify=True))
    assert len(views) == 300
    parts = {"minPartitions": str(1 + 3 * seed)}
    assert read(reader.directory, **EVERYTHING, **parts) == rows_of(reader, views)


def test_without_options_a_read_gives_what_users_sent(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    users = [maker.add(topic=topic) for topic in (b"orders", b"%RETRY%billing", b"%DLQ%billing")]
    for topic in (names.HALF_TOPIC, names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.TRACE_TOPIC):
        maker.add(topic=topic.encode())
    maker.add(sys_flag=flags.TRANSACTION_PREPARED)
    users.append(maker.add(sys_flag=flags.TRANSACTION_COMMIT))
    directory = maker.write(queues=True)
    assert [row["physical_offset"] for row in read(directory)] == users
    assert len(read(directory, include="halves")) == len(users) + 2
    assert len(read(directory, include="delayed,system")) == len(users) + 3
    assert len(read(directory, include="halves,delayed,system")) == len(maker.starts)


# Ranges


def test_topics_times_and_offsets_select_rows(tmp_path: Path) -> None:
    directory = log_of_all_kinds(tmp_path, 400, 11).write(queues=True)
    every = read(directory)
    times = sorted(row["timestamp"].timestamp() * 1000 for row in every)  # type: ignore[attr-defined]
    low, high = int(times[100]), int(times[250])
    found = read(directory, startingTimestamp=str(low), endingTimestamp=str(high))
    assert found == [
        row
        for row in every
        if low <= row["timestamp"].timestamp() * 1000 < high  # type: ignore[attr-defined]
    ]
    refunds = [row for row in every if row["topic"] == "refunds"]
    assert read(directory, subscribe="refunds", minPartitions="9") == refunds
    assert read(directory, subscribePattern="ref.*") == refunds
    start, end = {"0": 2, "1": -2, "2": 4}, {"broker-a:0": -1, "broker-a:1": 3, "broker-a:2": 6}
    found = read(
        directory,
        subscribe="refunds",
        startingOffsets=json.dumps({"refunds": start}),
        endingOffsets=json.dumps({"refunds": end}),
    )
    first, last = {0: 2, 1: 0, 2: 4}, {0: 1_000, 1: 3, 2: 6}
    assert found == [
        row
        for row in refunds
        if first[row["queue_id"]] <= row["queue_offset"] < last[row["queue_id"]]  # type: ignore[index, operator]
    ]


def test_an_offset_inside_an_inner_batch(tmp_path: Path) -> None:
    directory = log_of_all_kinds(tmp_path, 100, 3).write()
    every = read(directory, subscribe="batches")
    assert len(every) > 10
    found = read(
        directory,
        subscribe="batches",
        startingOffsets='{"batches": {"0": 3}}',
        endingOffsets='{"batches": {"0": 9}}',
    )
    assert found == every[3:9]


# Columns


def test_only_the_columns_of_the_options_in_their_order(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    at = maker.add(b"1 pizza")
    options = {"columns": "value,broker,physical_offset", "broker": "broker-a"}
    (row,) = read(maker.write(), **options)
    assert list(row.items()) == [
        ("value", b"1 pizza"),
        ("broker", "broker-a"),
        ("physical_offset", at),
    ]


# Damage


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("queues", [False, True])
def test_flipped_bytes_are_skipped_and_reported_as_the_reader_does(
    seed: int, queues: bool, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    maker = log_of_all_kinds(tmp_path, 300, seed)
    directory = maker.write(queues=queues)
    for _ in range(1 + seed % 4):
        at = chance.randrange(maker.starts[-1])
        base = at // SEGMENT * SEGMENT
        flip(f"{directory}/commitlog/{base:020d}", at - base)
    reader = StoreReader(directory)
    damages: list[Damage] = []
    views = list(reader.records(verify=True, on_damage=damages.append))
    kept = rows_of(reader, views)
    parts = {"minPartitions": str(1 + seed)}
    assert read(directory, onCorrupt="skip", **EVERYTHING, **parts) == kept
    reported = read(directory, onCorrupt="report", **EVERYTHING, **parts)
    places = [row for row in reported if row["corrupt"] is not None]
    assert [row["physical_offset"] for row in places] == [one.position for one in damages]
    assert [{**row, "corrupt": None} for row in reported if row not in places] == [
        {**row, "corrupt": None} for row in kept
    ]
    if damages:
        with pytest.raises(StoreDamaged, match=f"commitlog at byte {damages[0].position}: "):
            read(directory, **EVERYTHING, **parts)


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_is_cut_somewhere(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    maker = log_of_all_kinds(tmp_path, 200, seed)
    directory = maker.write(queues=bool(seed % 2))
    last = max(Path(directory, "commitlog").iterdir())
    size = chance.randrange(1, maker.starts[-1] % SEGMENT + 2)
    os.truncate(last, size)
    reader = StoreReader(directory)
    damages: list[Damage] = []
    views = list(reader.records(verify=True, on_damage=damages.append))
    assert read(directory, onCorrupt="skip", **EVERYTHING) == rows_of(reader, views)
    reported = read(directory, onCorrupt="report", **EVERYTHING)
    places = [row["physical_offset"] for row in reported if row["corrupt"] is not None]
    assert places == [one.position for one in damages if not one.harmless]


def test_a_report_says_file_place_and_reason(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    places = [maker.add(b"1 pizza") for _ in range(3)]
    directory = maker.write()
    file = f"{directory}/commitlog/{0:020d}"
    flip(file, places[1] + 90)
    rows = read(directory, columns="value,physical_offset", onCorrupt="report")
    assert [row["value"] for row in rows] == [b"1 pizza", b"1 pizza", None]
    assert rows[2]["physical_offset"] == places[1]
    size = places[2] - places[1]
    assert str(rows[2]["corrupt"]).startswith(f"{file}: commitlog at byte {places[1]}: ")
    assert str(rows[2]["corrupt"]).endswith(f"({size} bytes skipped)")


def test_a_body_that_cannot_be_decompressed_is_a_place(tmp_path: Path) -> None:
    maker = LogMaker(tmp_path)
    bad = maker.add(b"not zlib", sys_flag=flags.COMPRESSED)
    good = maker.add(b"1 pizza")
    directory = maker.write()
    assert [row["physical_offset"] for row in read(directory, onCorrupt="skip")] == [good]
    with pytest.raises(StoreDamaged, match=f"commitlog at byte {bad}: the body can't be read"):
        read(directory)


def test_a_file_that_retention_deleted_after_the_plan_is_an_error(tmp_path: Path) -> None:
    maker = log_of_all_kinds(tmp_path, 300, 1)
    directory = maker.write()
    options = options_of(directory)
    parts = plan(options)
    min(Path(directory, "commitlog").iterdir()).unlink()
    with pytest.raises(StoreDamaged, match="commitlog at byte 0: no file holds these bytes"):
        list(read_part(parts[0], options))


# A broker that writes on


def test_a_plan_gives_the_same_rows_while_a_broker_writes_on(tmp_path: Path) -> None:
    settings = StoreSettings(segment_bytes=SEGMENT, queue_file_entries=1_000)
    store = MessageStore(str(tmp_path), settings, workers=InlineWorkers())
    store.open()
    store.append([incoming(b"%d" % number) for number in range(50)])
    options = options_of(tmp_path, columns="value", minPartitions="4")
    parts = plan(options)
    found = []
    for part in parts:
        store.append([incoming(b"later" * 50) for number in range(50)])
        found += [row["value"] for one in read_part(part, options) for row in one.to_pylist()]
    assert found == [b"%d" % number for number in range(50)]
    store.close()
