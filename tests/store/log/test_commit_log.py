import errno
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbitmq.message import batch, flags, properties
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan, StopReason, decode_all
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.log.append import PutStatus
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segments import Segments
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import HERE, NOW, incoming, new_log

pytestmark = pytest.mark.usefixtures("implementation")

FIELDS = Dispatched.__struct_fields__


@pytest.fixture
def log_and_chain(tmp_path: Path) -> tuple[CommitLog, Segments]:
    return new_log(RealDisk(), str(tmp_path))


def read_all(log: CommitLog, chain: Segments) -> list[RecordView]:
    views = []
    for segment in chain.files:
        views += list(Scan(segment.view, verify=True))
    return views


def test_records_stand_where_the_results_say(log_and_chain: tuple[CommitLog, Segments]) -> None:
    log, _ = log_and_chain
    results, appended = log.append([incoming(b"%d" % i, queue_id=i % 2) for i in range(6)], NOW)
    assert [result.status for result in results] == [PutStatus.PUT_OK] * 6
    assert [result.queue_offset for result in results] == [0, 0, 1, 1, 2, 2]
    places = [one.commit_log_offset for one in appended]
    assert places == [result.offsets[0] for result in results]
    for result, i in zip(results, range(6), strict=True):
        view = log.view(result.offsets[0], result.end - result.offsets[0])
        assert view is not None
        (stored,) = decode_all(view)
        assert (stored.body, stored.queue_offset) == (b"%d" % i, result.queue_offset)
        assert (stored.commit_log_offset, stored.store_timestamp_ms) == (result.offsets[0], NOW)
        assert stored.offset_message_id == result.message_ids(HERE)
    assert log.end == results[-1].end


def test_a_turn_is_one_write_per_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path))
    log.append([incoming()], NOW)
    writes: list[int] = []
    (segment,) = chain.files
    real = segment.file.write

    def counted(_file: object, buffers: list[bytes], offset: int) -> None:
        writes.append(sum(map(len, buffers)))
        real(buffers, offset)

    monkeypatch.setattr(type(segment.file), "write", counted)
    end = log.end
    log.append([incoming() for _ in range(10)], NOW)
    assert writes == [log.end - end]


def test_a_full_segment_ends_in_a_blank_and_the_next_begins(
    log_and_chain: tuple[CommitLog, Segments],
) -> None:
    log, chain = log_and_chain
    log.append([incoming(bytes(1000)) for _ in range(10)], NOW)
    assert [segment.base for segment in chain.files] == [0, 4096, 8192, 12288]
    for segment in chain.files[:-1]:
        records = Scan(segment.view)
        assert len(list(records)) == 3
        assert records.stop.reason is StopReason.BLANK
        assert records.stop.position + records.stop.detail == 4096
    assert [view.queue_offset for view in read_all(log, chain)] == list(range(10))


def test_a_record_fits_if_a_blank_fits_behind_it(tmp_path: Path) -> None:
    log, _ = new_log(RealDisk(), str(tmp_path))
    overhead = log.append([incoming(b"")], NOW)[1][0].size
    largest = 4096 - 8 - overhead
    (fits,), _ = log.append([incoming(bytes(largest - overhead))], NOW)
    assert fits.end == 4096 - 8
    (too_large,), _ = log.append([incoming(bytes(4096 - 8 - overhead + 1))], NOW)
    assert too_large.status is PutStatus.MESSAGE_ILLEGAL
    (just,), _ = log.append([incoming(bytes(largest))], NOW)
    assert just.offsets == (4096,)


def test_a_batch_is_split_into_records_and_never_over_two_files(
    log_and_chain: tuple[CommitLog, Segments],
) -> None:
    log, _ = log_and_chain
    log.append([incoming(bytes(3500))], NOW)
    body = batch.encode([(i, b"message %d" % i, b"KEYS\x01k%d\x02" % i) for i in range(10)])
    (result,), appended = log.append(
        [incoming(body, is_batch=True, prepared_transaction_offset=9)], NOW
    )
    assert result.status is PutStatus.PUT_OK
    assert (result.queue_offset, len(result.offsets), len(appended)) == (1, 10, 10)
    assert result.offsets[0] == 4096
    assert len(result.message_ids(HERE).split(",")) == 10
    stored = decode_all(log.view(4096, result.end - 4096) or b"")
    assert [one.queue_offset for one in stored] == list(range(1, 11))
    assert [one.flag for one in stored] == list(range(10))
    assert [one.keys for one in stored] == [(f"k{i}",) for i in range(10)]
    assert {one.prepared_transaction_offset for one in stored} == {0}
    assert log.next_queue_offset("orders", 0) == 11


@pytest.mark.parametrize("body", [b"", b"no batch", batch.encode([(0, bytes(5000), b"")])])
def test_a_batch_that_is_none_or_too_large_is_refused(
    log_and_chain: tuple[CommitLog, Segments], body: bytes
) -> None:
    log, _ = log_and_chain
    (result,), appended = log.append([incoming(body, is_batch=True)], NOW)
    assert result.status is PutStatus.MESSAGE_ILLEGAL
    assert result.remark
    assert appended == []
    assert log.end == 0


@pytest.mark.parametrize("state", [flags.TRANSACTION_PREPARED, flags.TRANSACTION_ROLLBACK])
def test_a_message_that_is_not_committed_does_not_move_the_queue(
    log_and_chain: tuple[CommitLog, Segments], state: int
) -> None:
    log, _ = log_and_chain
    results, _ = log.append([incoming(), incoming(sys_flag=state), incoming()], NOW)
    assert [result.queue_offset for result in results] == [0, 0, 1]


def test_the_time_of_storing_never_goes_back(log_and_chain: tuple[CommitLog, Segments]) -> None:
    log, chain = log_and_chain
    for now in (NOW, NOW - 5000, NOW + 1):
        log.append([incoming()], now)
    assert [view.store_timestamp_ms for view in read_all(log, chain)] == [NOW, NOW, NOW + 1]


def test_limits_have_the_status_of_java(tmp_path: Path) -> None:
    log, _ = new_log(RealDisk(), str(tmp_path), segment_bytes=200_000, max_message_bytes=1000)
    results, _ = log.append(
        [
            incoming(bytes(1000)),
            incoming(bytes(1001)),
            incoming(properties=b"x\x01" + b"y" * 32_765),
            incoming(properties=b"x\x01" + b"y" * 32_766),
            incoming(topic="t" * 128),
        ],
        NOW,
    )
    assert [result.status for result in results] == [
        PutStatus.PUT_OK,
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PUT_OK,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.PUT_OK,
    ]
    assert "the body has 1001 bytes; the limit is 1000" in results[1].remark


def test_a_bad_message_does_not_keep_the_others_of_its_turn_from_it(
    log_and_chain: tuple[CommitLog, Segments],
) -> None:
    log, chain = log_and_chain
    results, _ = log.append([incoming(), incoming(queue_id=2**40), incoming()], NOW)
    assert [result.status.is_stored for result in results] == [True, False, True]
    assert [view.queue_offset for view in read_all(log, chain)] == [0, 1]


def test_a_bad_message_that_would_have_begun_a_file_leaves_the_log_in_order(
    log_and_chain: tuple[CommitLog, Segments],
) -> None:
    log, chain = log_and_chain
    misfit = incoming(bytes(3500), flag=2**40)
    results, _ = log.append([incoming(bytes(1000)), misfit], NOW)
    assert [result.status.is_stored for result in results] == [True, False]
    log.append([misfit], NOW)
    log.append([incoming(bytes(3500)), incoming(bytes(100))], NOW)
    assert [view.queue_offset for view in read_all(log, chain)] == [0, 1, 2]
    assert len(read_all(log, chain)[-1].body) == 100


def test_a_forged_seal_is_removed_and_odd_values_stay(tmp_path: Path) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path), append_crc=True)
    log.append([incoming(properties=b"a\x01b\x01c\x02__CRC32#\x010000000000\x02")], NOW)
    [view] = read_all(log, chain)
    assert view.is_whole()
    assert properties.decode(view.properties)["a"] == "b\x01c"


def test_sealed_records_carry_their_own_checksum(tmp_path: Path) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path), append_crc=True)
    forged = b"__CRC32#\x010000000000\x02TAGS\x01paid"
    log.append([incoming(), incoming(properties=forged), incoming(properties=b"")], NOW)
    for view in read_all(log, chain):
        assert view.is_whole()
        assert bytes(view.properties).count(b"__CRC32#") == 1
    flipped = bytearray(chain.files[0].view[:400])
    flipped[130] ^= 1
    records = Scan(flipped, verify=True)
    assert len(list(records)) < 3


def test_a_failed_write_stores_nothing_and_the_next_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path))
    log.append([incoming(b"first")], NOW)
    end = log.end
    with monkeypatch.context() as broken:
        broken.setattr("os.pwritev", _no_space)
        results, appended = log.append([incoming(b"lost"), incoming(b"lost too")], NOW)
    assert [result.status for result in results] == [PutStatus.UNKNOWN_ERROR] * 2
    assert "No space left" in results[0].remark
    assert (appended, log.end) == ([], end)
    log.append([incoming(b"second")], NOW)
    assert [bytes(view.body) for view in read_all(log, chain)] == [b"first", b"second"]
    assert [view.queue_offset for view in read_all(log, chain)] == [0, 1]


def test_a_file_that_cannot_be_made_is_a_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = new_log(RealDisk(), str(tmp_path))
    monkeypatch.setattr("os.posix_fallocate", _no_space)
    (result,), _ = log.append([incoming()], NOW)
    assert result.status is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert list((tmp_path / "commitlog").iterdir()) == []
    monkeypatch.undo()
    (result,), _ = log.append([incoming()], NOW)
    assert result.status is PutStatus.PUT_OK


def _no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_is_not_there_has_no_view(log_and_chain: tuple[CommitLog, Segments]) -> None:
    log, _ = log_and_chain
    log.append([incoming()], NOW)
    assert log.view(0, log.end) is not None
    assert log.view(0, log.end + 1) is None
    assert log.view(log.end, 1) is None
    assert log.view(10**12, 1) is None


@pytest.mark.parametrize("topic", ["", "..", "a/b", "a\0b", "t" * 256, "\ud800"])
def test_a_topic_that_can_be_no_directory_is_refused(
    log_and_chain: tuple[CommitLog, Segments], topic: str
) -> None:
    log, _ = log_and_chain
    (result,), appended = log.append([incoming(topic=topic)], NOW)
    assert (result.status, appended) == (PutStatus.MESSAGE_ILLEGAL, [])
    assert "name of a directory" in result.remark


def test_a_negative_queue_is_refused(log_and_chain: tuple[CommitLog, Segments]) -> None:
    log, _ = log_and_chain
    (result,), _ = log.append([incoming(queue_id=-1)], NOW)
    assert (result.status, result.remark) == (PutStatus.MESSAGE_ILLEGAL, "queue_id is -1")


def test_what_a_failed_write_left_is_wiped_before_the_next() -> None:
    """Else the record behind a shorter log would be taken for its next one after a crash."""
    disk = SimulatedDisk()
    log, chain = new_log(disk, "/store")
    log.append([incoming(bytes(1000)) for _ in range(2)], NOW)
    disk.fail("write", "commitlog", errno.EIO, after=1)  # the second file of the turn
    results, _ = log.append([incoming(bytes(1000)) for _ in range(4)], NOW)
    assert {result.status for result in results} == {PutStatus.UNKNOWN_ERROR}
    log.append([incoming(bytes(1000))], NOW)
    assert len(read_all(log, chain)) == 3
    assert log.failure is None


def test_a_failed_write_that_cannot_be_undone_is_the_last() -> None:
    disk = SimulatedDisk()
    log, _ = new_log(disk, "/store")
    log.append([incoming()], NOW)
    disk.fail("write", "commitlog", errno.EIO, times=2)
    log.append([incoming()], NOW)
    assert log.failure is not None


@pytest.mark.parametrize("sys_flag", [flags.TRANSACTION_NONE, flags.TRANSACTION_PREPARED])
def test_what_is_told_of_a_record_is_what_its_bytes_say(
    log_and_chain: tuple[CommitLog, Segments], sys_flag: int
) -> None:
    log, chain = log_and_chain
    _, appended = log.append([incoming(b"%d" % i, sys_flag=sys_flag) for i in range(3)], NOW)
    views = read_all(log, chain)
    told = [Dispatched(*[getattr(one, name) for name in FIELDS]) for one in appended]
    assert told == Dispatcher(()).entries_of([view.filed() for view in views])


def new_log_made_ahead(disk: SimulatedDisk) -> tuple[CommitLog, Segments]:
    """Return a log whose files a worker makes."""
    settings = StoreSettings(segment_bytes=4096)
    chain = Segments(disk, "/store/commitlog", settings.segment_bytes, InlineWorkers())
    chain.load()
    return CommitLog(chain, settings, lambda _topic, _queue: 0), chain


def test_the_next_file_is_made_while_this_one_fills_not_when_it_is_full() -> None:
    disk = SimulatedDisk()
    log, chain = new_log_made_ahead(disk)

    def files() -> tuple[int, int]:
        return len(chain.files), len(disk.list("/store/commitlog"))

    log.append([incoming(bytes(1000))], NOW)
    log.append([incoming(bytes(1000))], NOW)  # begins in the first half
    assert files() == (1, 1)
    log.append([incoming(b"")], NOW)
    assert files() == (1, 2)
    before = len(disk.log)
    log.append([incoming(bytes(2000))], NOW)
    assert [call.operation for call in disk.log[before:]] == ["write", "write"]
    assert files() == (2, 2)


def test_a_disk_without_space_refuses_only_when_the_next_file_is_needed() -> None:
    disk = SimulatedDisk(capacity=4096)
    log, _ = new_log_made_ahead(disk)
    results = [log.append([incoming(bytes(1000))], NOW)[0][0] for _ in range(4)]
    assert [result.status for result in results] == [
        *[PutStatus.PUT_OK] * 3, PutStatus.CREATE_MAPPED_FILE_FAILED
    ]  # fmt: skip
    assert "No space left" in results[3].remark
    assert log.append([incoming(bytes(100))], NOW)[0][0].status is PutStatus.PUT_OK


def test_a_disk_that_fills_up_within_a_file_refuses_and_goes_on_when_there_is_space() -> None:
    """Space is reserved before it is written to: no write fails half-way and has to be undone."""
    disk = SimulatedDisk(capacity=4 * 4096)
    settings = StoreSettings(segment_bytes=1 << 20)
    chain = Segments(disk, "/store/commitlog", 1 << 20, InlineWorkers(), step_bytes=4096)
    chain.load()
    log = CommitLog(chain, settings, lambda _topic, _queue: 0)
    other = disk.open("/store/other", create=True)
    other.write([bytes(4096)], 0)
    results = [log.append([incoming(bytes(900))], NOW)[0][0] for _ in range(14)]
    assert [result.status for result in results] == [
        *[PutStatus.PUT_OK] * 12, *[PutStatus.CREATE_MAPPED_FILE_FAILED] * 2
    ]  # fmt: skip
    assert "No space left" in results[-1].remark
    assert [call for call in disk.log if call.operation == "write" and call.errno] == []
    disk.remove("/store/other")
    assert log.append([incoming(bytes(900))], NOW)[0][0].status is PutStatus.PUT_OK
    assert log.failure is None
    assert [view.queue_offset for view in read_all(log, chain)] == list(range(13))


def test_what_is_forwarded_keeps_its_order_and_stops_where_it_cannot_be_stored(
    log_and_chain: tuple[CommitLog, Segments],
) -> None:
    log, _ = log_and_chain
    messages = [incoming(b"1"), incoming(bytes(5_000)), incoming(b"3")]
    results, appended = log.forward(messages, NOW)
    assert [result.status for result in results] == [
        PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.NOT_TRIED,
    ]  # fmt: skip
    assert len(appended) == 1
    assert log.end == results[0].end


def test_what_is_forwarded_may_be_larger_than_what_is_taken_by_now(tmp_path: Path) -> None:
    settings = StoreSettings(segment_bytes=200_000, max_message_bytes=100_000)
    log, _ = new_log(RealDisk(), str(tmp_path), segment_bytes=200_000, max_message_bytes=100_000)
    large = incoming(bytes(100_000))
    assert log.append([large], NOW)[0][0].status is PutStatus.PUT_OK
    log.apply(replace(settings, max_message_bytes=1_000))
    assert log.append([large], NOW)[0][0].status is PutStatus.MESSAGE_ILLEGAL
    assert log.append([incoming(bytes(1_001))], NOW)[0][0].status is PutStatus.MESSAGE_ILLEGAL
    assert log.append([incoming(bytes(1_000))], NOW)[0][0].status is PutStatus.PUT_OK
    assert log.forward([large], NOW)[0][0].status is PutStatus.PUT_OK
    log.apply(replace(settings, max_message_bytes=150_000))
    assert log.append([incoming(bytes(150_000))], NOW)[0][0].status is PutStatus.PUT_OK
