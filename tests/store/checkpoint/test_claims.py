"""What a checkpoint says: only what is true already, and nothing that would cost Java keys."""

from orbitmq.store.checkpoint.checkpoint import CheckpointValues, OwnValues
from orbitmq.store.checkpoint.claims import Claims, Synced, without_lost_index
from orbitmq.store.index.key_index import IndexMark

MARK = IndexMark(20_240_229_120_000_000, 7, 640)
NONE = IndexMark()


def test_what_was_synced_is_claimed() -> None:
    claims = Claims(CheckpointValues(), 1_000, NONE)
    claims.log_ms = 5_000
    claims.add(Synced(4_000, filled_ms=3_000, filled_end=500, index_mark=MARK))
    claims.add(Synced(3_500))
    assert claims.values(CheckpointValues(), flushed=640, with_index=True) == CheckpointValues(
        log_ms=5_000, queues_ms=3_000, index_ms=3_000, own=OwnValues(4_000, MARK, 640)
    )


def test_the_index_is_claimed_only_as_far_as_the_log_is_flushed() -> None:
    before = CheckpointValues(index_ms=900, own=OwnValues(0, MARK._replace(offset=100)))
    claims = Claims(before, 1_000, NONE)
    claims.add(Synced(4_000, filled_ms=3_000, filled_end=500, index_mark=MARK))
    found = claims.values(before, flushed=500, with_index=True)
    assert (found.index_ms, found.queues_ms) == (900, 900)
    assert found.own == OwnValues(4_000, MARK._replace(offset=100), 500)
    found = claims.values(found, flushed=501, with_index=True)
    assert found.index_ms == 3_000


def test_without_an_index_nothing_is_held_back() -> None:
    claims = Claims(CheckpointValues(), 1_000, MARK)
    found = claims.values(CheckpointValues(), flushed=640, with_index=False)
    assert (found.queues_ms, found.own) == (1_000, OwnValues(1_000, NONE, 640))


def test_nothing_is_claimed_of_an_index_that_is_gone() -> None:
    claims = Claims(CheckpointValues(index_ms=900), 1_000, MARK)
    claims.drop_index()
    found = claims.values(CheckpointValues(index_ms=900), flushed=640, with_index=True)
    assert (found.index_ms, found.own) == (0, OwnValues(1_000, NONE, 640))


FOUND = CheckpointValues(9_000, 3_000, 3_000, own=OwnValues(8_000, MARK))


def test_of_an_index_that_is_all_there_everything_is_claimed_on() -> None:
    assert without_lost_index(FOUND, filled_ms=3_000, last_name=MARK.name) == FOUND
    assert without_lost_index(FOUND, filled_ms=3_500, last_name=MARK.name) == FOUND


def test_full_files_that_are_missing_are_not_claimed_and_java_reads_the_log_from_there() -> None:
    left = without_lost_index(FOUND, filled_ms=1_000, last_name=MARK.name)
    assert left == FOUND._replace(queues_ms=1_000, index_ms=1_000)


def test_what_grew_is_not_claimed_if_another_file_is_the_last() -> None:
    left = without_lost_index(FOUND, filled_ms=3_000, last_name=MARK.name - 1)
    assert left == FOUND._replace(own=OwnValues(8_000, NONE))


def test_a_checkpoint_of_java_stays_one() -> None:
    java = FOUND._replace(own=None, queues_ms=500)
    left = without_lost_index(java, filled_ms=0, last_name=0)
    assert left == java._replace(queues_ms=0, index_ms=0)
    assert left.is_of_another
