from pathlib import Path

import pytest

from bench.stores import (
    CHUNK,
    MeteredDisk,
    Owner,
    check_stored,
    chunks,
    in_turns,
    messages,
)
from orbitmq.store.log.append import PutResult, PutStatus
from orbitmq.store.reader.reader import StoreReader
from tests.bench.tiny import TINY


def test_messages_go_to_every_queue_in_turn_and_have_keys_of_their_own() -> None:
    given = messages(range(40), 20)
    assert len({(one.topic, one.queue_id) for one in given}) == 20
    assert len({one.properties for one in given}) == 40


def test_turns_and_chunks_lose_nothing() -> None:
    given = messages(range(70), 4)
    assert [len(turn) for turn in in_turns(given)] == [32, 32, 6]
    assert [len(chunk) for chunk in chunks(CHUNK + 5, 4)] == [CHUNK, 5]


def test_an_owner_stores_all_and_tells_the_cost_of_each_chunk(tmp_path: Path) -> None:
    owner = Owner(str(tmp_path), TINY)
    owner.store.open()
    costs = list(owner.fill([messages(range(50), 4), messages(range(50, 70), 4)]))
    owner.store.close()
    assert len(costs) == 2
    assert min(costs) > 0
    assert len(list(StoreReader(str(tmp_path)).records())) == 70


def test_a_refused_message_is_no_figure() -> None:
    check_stored([PutResult(status=PutStatus.PUT_OK)])
    with pytest.raises(RuntimeError, match="SERVICE_NOT_AVAILABLE the disk is full"):
        check_stored([PutResult(status=PutStatus.SERVICE_NOT_AVAILABLE, remark="the disk is full")])


def test_a_metered_disk_keeps_an_account_for_each_part(tmp_path: Path) -> None:
    disk = MeteredDisk(str(tmp_path))
    for part in ("commitlog", "index"):
        disk.make_directory(f"{tmp_path}/{part}")
    log = disk.open(f"{tmp_path}/commitlog/0", create=True)
    log.write([b"ab", b"c"], 0)
    log.write([b"d"], 3)
    log.sync()
    index = disk.open(f"{tmp_path}/index/0", create=True)
    index.write([b"x"], 0)
    assert (log.path, log.size, log.read(4, 0)) == (f"{tmp_path}/commitlog/0", 4, b"abcd")
    assert [(one.writes, one.syncs) for one in disk.accounts.values()] == [(2, 1), (1, 0)]
    assert disk.accounts["commitlog"].sync_ns > 0
    disk.reset()
    log.write([b"e"], 4)
    assert disk.accounts["commitlog"].writes == 1
    log.close()
    index.close()
