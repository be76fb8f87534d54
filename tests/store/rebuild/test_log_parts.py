"""Parts of log files, put together, are the queues and the index that a store wrote itself."""

import shutil
from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.message import flags
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.rebuild.log_parts import LogFile, log_files, parts
from orbitmq.store.settings import StoreSettings
from tests.store.golden import contents
from tests.store.logs import incoming
from tests.store.rebuild.made import Made, bytes_of
from tests.store.stores import SMALL, HandClock, opened

SETTINGS = StoreSettings(**SMALL, lmq_enabled=True, multi_dispatch_enabled=True)  # type: ignore[arg-type]
STATES = (0, 0, 0, flags.TRANSACTION_PREPARED, flags.TRANSACTION_COMMIT, flags.TRANSACTION_ROLLBACK)


def put_some(store: MessageStore, chance: SeededRandomness, clock: HandClock, count: int) -> None:
    """Append messages of all kinds, some to topics that are deleted now and then."""
    for number in range(count):
        clock.now += chance.below(3_000)
        topic = chance.choice(["orders", "refunds", "SCHEDULE_TOPIC_XXXX"])
        given = {
            "TAGS": chance.choice(["", "paid", "标签"]),
            "KEYS": chance.choice(["", f"o-{number}", f"o-{number}  all"]),
            "UNIQ_KEY": chance.choice(["", f"{number:032X}"]),
            "DELAY": chance.choice(["", "3", "99", "x"]),
            "INNER_MULTI_DISPATCH": chance.choice(["", "", "%LMQ%a", "%LMQ%a,%LMQ%b"]),
        }
        text = "".join(f"{name}\x01{value}\x02" for name, value in given.items() if value)
        store.append(
            [
                incoming(
                    bytes(1 + chance.below(200)),
                    topic=topic,
                    queue_id=chance.below(3),
                    properties=text.encode(),
                    sys_flag=chance.choice(STATES),
                )
            ]
        )
        if not chance.below(60):
            store.delete_topic(chance.choice(["orders", "refunds"]))


@pytest.mark.parametrize("seed", range(20))
def test_random_logs(seed: int, tmp_path: Path) -> None:
    chance, clock = SeededRandomness(seed), HandClock()
    store = opened(
        *(RealDisk(), str(tmp_path / "store")),
        clock=clock,
        lmq_enabled=True,
        multi_dispatch_enabled=True,
    )
    put_some(store, chance, clock, 50 + chance.below(300))
    kept = set(store.queues.topics())
    store.close()
    made = Made(StoreReader(str(tmp_path / "store")), SETTINGS, tmp_path / "made")
    queues = made.queues()
    made.index()
    for topic in {queue.topic for queue in queues} - kept:
        shutil.rmtree(tmp_path / "made" / "consumequeue" / topic)  # it was deleted for good
    expected = contents(tmp_path / "store" / "consumequeue")
    found = contents(tmp_path / "made" / "consumequeue")
    # A queue of a topic that was deleted, and had no message since, exists in the log alone.
    assert {path: found.get(path) for path in expected} == expected
    assert bytes_of(tmp_path / "made" / "index") == bytes_of(tmp_path / "store" / "index")
    assert made.damages == []


def test_a_missing_file_and_a_missing_log(tmp_path: Path) -> None:
    store = opened(RealDisk(), str(tmp_path))
    for _ in range(60):
        store.append([incoming(bytes(100))])
    store.close()
    reader = StoreReader(str(tmp_path))
    assert log_files(reader)[:3] == [0, 4096, 8192]
    (tmp_path / "commitlog" / f"{4096:020d}").unlink()
    with pytest.raises(StoreDamaged, match="lacks the file that begins at 4096"):
        log_files(reader)
    shutil.rmtree(tmp_path / "commitlog")
    with pytest.raises(StoreDamaged, match="no log file"):
        log_files(reader)


def test_the_summary_is_the_last_part(tmp_path: Path) -> None:
    store = opened(RealDisk(), str(tmp_path))
    (result,) = store.append([incoming(properties=b"KEYS\x01a b\x02")])
    store.append([incoming(properties=b"")])
    end = store.log.end
    store.close()
    *_, last = parts(StoreReader(str(tmp_path)), 0, SETTINGS)
    assert isinstance(last, LogFile)
    assert (last.records, last.keys, last.end) == (2, 2, end)
    assert last.last_keyed == result.offsets[0] < last.last_offset
