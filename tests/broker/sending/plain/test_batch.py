"""Batches in the inbox: what becomes of sends that are stored and answered together."""

from collections.abc import Sequence

import msgspec
import pytest

from orbitmq.broker.sending.inbox import PutOutcome
from orbitmq.broker.sending.plain.batch import PlainBatch
from orbitmq.errors import DiskFailed
from orbitmq.net.connection import Connection
from orbitmq.net.refusal import Refusal
from orbitmq.store.log.append import NewRecord, Part, PutRecords, PutResult, PutStatus
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.settings import FlushMode
from orbitmq.wire.frame import Buffer
from orbitmq.wire.plain_send import SendAnswerForm
from orbitmq.wire.session import Identity
from tests.broker.send_world import HERE, SMALL, SendWorld
from tests.broker.sending.test_inbox import LaterWorkers
from tests.store.logs import incoming

pytestmark = pytest.mark.usefixtures("implementation")

SYNC = msgspec.structs.replace(SMALL, flush_mode=FlushMode.SYNC)


class Peer:
    """The end of a connection that gets the answers."""

    peer = "10.0.0.9:50000"

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.failures: list[tuple[int, PutOutcome]] = []

    def respond_together(self, answers: list[Buffer]) -> None:
        self.answers += map(bytes, answers)

    def fail(self, _to: Connection, opaque: int, _record: NewRecord, outcome: PutOutcome) -> None:
        self.failures.append((opaque, outcome))


def record(body: bytes = b"x", topic: str = "orders", queue_id: int = 0) -> NewRecord:
    made = NewRecord(topic, queue_id, 0, 0, 0, 0, 0, 7, b"U", b"", b"paid")
    made.body, made.properties = body, b"UNIQ_KEY\x01U\x02"
    made.born_host = made.store_host = HERE
    return made


def batch(peer: Peer, records: Sequence[NewRecord]) -> PlainBatch:
    form = SendAnswerForm(Identity(), "7F00000100002A9F", {})
    opaques = range(len(records))
    return PlainBatch(peer, opaques, records, form, peer.fail)  # type: ignore[arg-type]


def put(world: SendWorld, *counts: int) -> Peer:
    """Put batches of that many records from one peer."""
    peer = Peer()
    for count in counts:
        world.inbox.put_together(batch(peer, [record() for _ in range(count)]))
    return peer


def outcomes(peer: Peer) -> list[PutStatus | str]:
    return [
        one.remark.partition("]")[0] + "]" if isinstance(one, Refusal) else one.status
        for _, one in peer.failures
    ]


def test_batches_of_a_turn_are_one_append() -> None:
    world = SendWorld()
    sizes: list[int] = []
    append = world.store.append

    def counting(parts: Sequence[Part]) -> Sequence[PutResult | PutRecords]:
        sizes.extend([len(part) for part in parts if isinstance(part, list)])
        return append(parts)

    world.store.append = counting  # type: ignore[method-assign, assignment]
    peer = put(world, 3, 1, 2)
    assert world.inbox.waiting == 6
    assert not peer.answers
    world.take_turns()
    assert sizes == [6]
    assert len(peer.answers) == 6
    assert world.inbox.waiting == 0


def test_batches_and_single_messages_keep_their_order() -> None:
    world = SendWorld()
    peer = Peer()
    world.inbox.put_together(batch(peer, [record(b"0"), record(b"1")]))
    world.inbox.put(incoming(b"2"), lambda _: None)
    world.inbox.put_together(batch(peer, [record(b"3")]))
    world.take_turns()
    assert [message.body for message in world.stored("orders")] == [b"0", b"1", b"2", b"3"]


def test_a_batch_that_waited_too_long_is_refused() -> None:
    world = SendWorld()
    peer = put(world, 3)
    world.clock.now += 200
    assert world.inbox.head_wait_ms == 200
    world.take_turns()
    assert outcomes(peer) == ["[TIMEOUT_CLEAN_QUEUE]"] * 3
    _, refusal = peer.failures[0]
    assert isinstance(refusal, Refusal)
    assert "size of queue: 3" in refusal.remark
    assert not peer.answers
    assert world.inbox.waiting == 0


def test_a_batch_behind_a_slow_write_is_refused() -> None:
    world = SendWorld(wait_time_mills_in_send_queue=60_000)
    append = world.store.append

    def slow(parts: Sequence[Part]) -> Sequence[PutResult | PutRecords]:
        world.clock.now += 1_001
        return append(parts)

    world.store.append = slow  # type: ignore[method-assign, assignment]
    peer = put(world, 256, 2)
    world.take_turns()
    assert len(peer.answers) == 256
    assert outcomes(peer) == ["[PCBUSY_CLEAN_QUEUE]"] * 2


def test_with_sync_flush_a_batch_is_answered_when_it_is_flushed() -> None:
    workers = LaterWorkers()
    world = SendWorld(SYNC, workers=workers)
    peer = put(world, 3)
    world.take_turns()
    assert not peer.answers
    assert world.inbox.waiting == 3
    assert not world.stored("orders")
    workers.work()
    assert len(peer.answers) == 3
    assert world.inbox.waiting == 0
    assert len(world.stored("orders")) == 3


def test_a_disk_that_is_late_is_a_timeout_with_the_place_of_each_message() -> None:
    world = SendWorld(SYNC, workers=LaterWorkers())
    peer = put(world, 2)
    world.take_turns()
    world.clock.now += SYNC.sync_flush_timeout_ms
    world.store.tick()
    assert outcomes(peer) == [PutStatus.FLUSH_DISK_TIMEOUT] * 2
    places = [one.offsets for _, one in peer.failures if isinstance(one, PutResult)]
    assert places[0] == (0,)
    assert places[1] > places[0]
    assert not peer.answers


def no_file(_segments: Segments, base: int) -> Segment:
    raise DiskFailed("no space left", path=str(base), errno=28)


def test_when_the_log_has_no_space_the_first_ones_are_stored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SendWorld(msgspec.structs.replace(SMALL, segment_bytes=64 * 1024))
    peer = Peer()
    records = [record(bytes(10_000)) for _ in range(8)]
    world.inbox.put_together(batch(peer, records[:4]))
    world.take_turns()
    assert len(peer.answers) == 4
    monkeypatch.setattr(Segments, "add", no_file)
    world.inbox.put_together(batch(peer, records[4:]))
    world.take_turns()
    stored = len(peer.answers) - 4
    assert 0 < stored < 4
    assert outcomes(peer) == [PutStatus.CREATE_MAPPED_FILE_FAILED] * (4 - stored)
    assert len(world.stored("orders")) == 4 + stored
    assert "the log has no space" in caplog.text


def test_an_unexpected_failure_of_the_store_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    world = SendWorld()

    def broken(_parts: Sequence[Part]) -> list[PutResult | PutRecords]:
        raise ZeroDivisionError

    world.store.append = broken  # type: ignore[method-assign, assignment]
    peer = put(world, 2)
    world.take_turns()
    assert outcomes(peer) == [PutStatus.UNKNOWN_ERROR] * 2
    assert "2 messages could not be stored" in caplog.text
    assert world.inbox.waiting == 0


def test_stored_messages_are_counted_by_queue() -> None:
    world = SendWorld()
    counted: list[tuple[object, ...]] = []
    world.stats.stored = lambda *given: counted.append(given)  # type: ignore[method-assign]
    peer = Peer()
    records = [record(queue_id=0), record(queue_id=1), record(queue_id=0)]
    world.inbox.put_together(batch(peer, records))
    world.take_turns()
    sizes = [one.size for one in records]
    assert counted == [
        ("orders", 0, 2, sizes[0] + sizes[2], 0, 2),
        ("orders", 1, 1, sizes[1], 0, 1),
    ]
