"""A ledger keeps the progress of one replay."""

from pathlib import Path

import msgspec
import pytest

from orbitmq.errors import InvalidInput, LocationDamaged
from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.replaying.ledger import Ledger, QueueProgress, ReplayIdentity
from orbitmq.spark.locations.location import Location

SOURCE, TARGET = MessageQueue("%DLQ%a|b", "broker a/1", 3), MessageQueue("again", "b", 0)
WHAT = ReplayIdentity(source="<Archive x>", target="again at n:1", where="tags = 'a'")


def test_entries(tmp_path: Path) -> None:
    ledger = Ledger(Location(str(tmp_path)))
    assert ledger.load(SOURCE) is None
    entry = QueueProgress(source=SOURCE, target=TARGET, done=7, next=9, sent=8, attempt="x")
    ledger.save(msgspec.structs.replace(entry, done=3))
    ledger.save(entry)
    assert Ledger(Location(str(tmp_path))).load(SOURCE) == entry
    assert [*ledger.entries()] == [entry]
    (file,) = (tmp_path / "queues").rglob("*.json")
    file.write_text("{")
    with pytest.raises(LocationDamaged):
        ledger.load(SOURCE)


def test_it_is_that_of_one_replay(tmp_path: Path) -> None:
    ledger = Ledger(Location(str(tmp_path)))
    assert ledger.claim(WHAT) == ledger.claim(WHAT) == WHAT
    for change, told in (
        ({"source": "<Archive y>"}, "source '<Archive x>', not '<Archive y>'"),
        ({"target": "other"}, "target"),
        ({"where": None}, "where"),
        ({"start_ms": 5}, "from False, not True"),
    ):
        with pytest.raises(InvalidInput, match=told):
            ledger.claim(msgspec.structs.replace(WHAT, **change))


def test_its_beginning_is_that_of_the_first_run(tmp_path: Path) -> None:
    ledger = Ledger(Location(str(tmp_path)))
    ledger.claim(msgspec.structs.replace(WHAT, start_ms=5))
    assert ledger.claim(msgspec.structs.replace(WHAT, start_ms=99)).start_ms == 5
