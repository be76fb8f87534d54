"""The whole store against plain lists, through anything that may happen to it.

Turns of messages of all kinds are stored and flushed; processes stop, are killed, lose their power
at any call of the disk; old files go; topics are deleted; queues and index are taken away, all of
them, one queue, or its last file. After each step everything is read back in every way there is.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.message.record import BLANK_SIZE
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import tags_code
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.disk import Usage
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.serving.pull_reader import GetMessageStatus
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, VirtualLoop
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import records_of
from tests.store.store_model import (
    BODY_MAX,
    SEGMENT,
    Awaited,
    Kept,
    Kind,
    QueueKey,
    Sent,
    StoreModel,
    awaited,
    place_behind,
)

HOME = "/store"
TOPICS = ("orders", "bills")
TAGS = ("", "new", "paid")
KEYS = ("", "k1", "k2", "k3")
PULLED_AT_ONCE = 3
RESERVED_HOURS = 2
FILES_PER_ROUND = 10
FOREVER = 1 << 62

SENT = st.builds(
    Sent,
    kind=st.sampled_from([*Kind, *[Kind.PLAIN] * 6]),
    topic=st.sampled_from(TOPICS),
    queue_id=st.integers(0, 1),
    words=st.integers(1, 60),
    tag=st.sampled_from(TAGS),
    key=st.sampled_from(KEYS),
    length=st.just(0),
)
A_MESSAGE = Sent(Kind.PLAIN, "orders", queue_id=0, words=1)
# Often all alike, so that what a crash left behind the end would follow a new record exactly.
TURNS = st.lists(SENT, min_size=1, max_size=6) | st.lists(
    st.just(A_MESSAGE), min_size=1, max_size=8
)
MODES = st.sampled_from(FlushMode)
CALLS = st.integers(0, 80)
LOSSES = st.none() | st.tuples(st.integers(0, 9), st.sampled_from(["directory", "last file"]))
"""Which queue somebody takes away, by its place among those there are, and how much of it."""
Loss = tuple[int, str] | None


class GaugedDisk(SimulatedDisk):
    """A simulated disk that is as full as a test says."""

    used_percent = 10

    def usage(self, path: str) -> Usage:
        return Usage(100, self.used_percent)


class StoreMachine(RuleBasedStateMachine):
    """One store directory and the processes that use it, one after the other."""

    @initialize(seed=st.integers(0, 2**32 - 1), mode=MODES, sealed=st.booleans())
    def begin(self, seed: int, mode: FlushMode, sealed: bool) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.disk = GaugedDisk(SeededRandomness(seed), clock=self.clock)
        self.model = StoreModel(sealed=sealed)
        self.is_sealed = sealed
        self.seen = 0
        self.number = 0
        self.start(mode)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def start(self, mode: FlushMode) -> None:
        self.mode = mode
        self.heard: list[Dispatched] = []
        self.store = MessageStore(
            HOME,
            StoreSettings(
                segment_bytes=SEGMENT,
                append_crc=self.is_sealed,
                max_message_bytes=BODY_MAX,
                queue_file_entries=5,
                index_slots=7,
                index_entries=16,
                reserved_hours=RESERVED_HOURS,
                delete_when="24",  # an hour that never comes: files go when a rule says so
                flush_mode=mode,
                pull_count_on_disk=2,
            ),
            disk=self.disk,
            clock=self.clock,
            workers=InlineWorkers(),
            memory_limit=2 * SEGMENT,  # most records count as being on the disk
        )
        self.store.on_arrival = self.heard.extend
        self.store.open()
        assert self.store.damages == []

    @property
    def dispatched_end(self) -> int:
        """Where the records begin that nobody may see yet."""
        return self.store.flushed if self.mode is FlushMode.SYNC else self.model.end

    # Storing

    def numbered(self, turn: list[Sent]) -> list[tuple[Sent, int]]:
        """Return messages with numbers of their own, so that no two have the same body."""
        first, self.number = self.number, self.number + len(turn)
        return [(sent, first + index) for index, sent in enumerate(turn)]

    def put(self, numbered: list[tuple[Sent, int]]) -> None:
        results = self.store.append([sent.incoming(number) for sent, number in numbered])
        self.model.appended(numbered, results)
        expected = iter(awaited(numbered))
        for result in results:
            if result.offsets:
                size = result.end - result.offsets[0]
                assert result.offsets[0] == place_behind(self.model.end, size)
            for offset in result.offsets:
                self.learn(offset, next(expected), self.clock.now_ms())
            assert not result.offsets or result.end == self.model.end
        assert next(expected, None) is None

    def learn(self, offset: int, expected: Awaited, now_ms: int | None) -> None:
        view = self.store.record(offset)
        assert view is not None
        assert view.is_whole()
        self.model.learn(view, expected, now_ms)

    def flush(self) -> None:
        told: list[bool] = []
        self.store.when_durable(self.model.end, told.append)
        self.store.flush_soon()
        assert told == [True]
        assert self.store.flushed == self.model.end
        self.model.durable = self.model.end

    @rule(turn=TURNS)
    def messages_are_stored(self, turn: list[Sent]) -> None:
        self.put(self.numbered(turn))

    @rule(turn=TURNS)
    def messages_are_stored_and_synced(self, turn: list[Sent]) -> None:
        self.put(self.numbered(turn))
        self.flush()

    @rule(left=st.integers(0, 2 * BLANK_SIZE))
    def a_message_nearly_fills_its_file(self, left: int) -> None:
        length = self.model.length_to_leave(left, A_MESSAGE)
        if 5 <= length <= BODY_MAX:
            self.put(self.numbered([A_MESSAGE._replace(length=length)]))

    @rule(turn=TURNS, reason=st.sampled_from([errno.EIO, errno.ENOSPC]))
    def a_write_fails(self, turn: list[Sent], reason: int) -> None:
        numbered = self.numbered([A_MESSAGE, *turn])
        self.disk.fail("write", "commitlog", reason)
        results = self.store.append([sent.incoming(number) for sent, number in numbered])
        assert {result.status for result in results} == {PutStatus.UNKNOWN_ERROR}

    @rule(ms=st.sampled_from([1, 100, 1_000, 11_000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.loop.run_until_complete(self.clock.sleep(ms / 1000))
        before = self.store.flushed
        self.store.tick()
        assert before <= self.store.flushed <= self.model.end
        self.model.durable = self.store.flushed

    @rule(ms=st.integers(1, 10_000))
    def the_time_of_day_goes_back(self, ms: int) -> None:
        self.clock.jump(-ms)

    # The end of a process, and the next one

    @rule(
        mode=MODES,
        missing=st.sets(st.sampled_from(["consumequeue", "index", "checkpoint"])),
        loss=LOSSES,
    )
    def it_stops_and_starts(self, mode: FlushMode, missing: set[str], loss: Loss) -> None:
        self.store.close()
        self.is_sound()
        self.model.durable = self.model.end
        self.lose(loss)
        for name in missing:
            remove(self.disk, f"{HOME}/{name}")
        self.start(mode)
        if "consumequeue" in missing:
            self.model.forget_idle_queues()
        self.started()
        assert self.store.log.end == self.model.end
        assert self.store.log.first_offset == self.model.first_offset

    @rule(mode=MODES)
    def a_second_start_changes_nothing(self, mode: FlushMode) -> None:
        self.store.close()
        self.start(mode)
        self.store.close()
        before = snapshot(self.disk, HOME)
        self.start(mode)
        self.store.close()
        assert snapshot(self.disk, HOME) == before
        self.start(mode)
        self.started()

    @rule(mode=MODES, loss=LOSSES)
    def it_is_killed(self, mode: FlushMode, loss: Loss) -> None:
        self.disk.kill()
        self.lose(loss)
        self.start(mode)
        assert self.store.log.end == self.model.end
        self.started()

    @rule(mode=MODES, loss=LOSSES)
    def the_power_fails(self, mode: FlushMode, loss: Loss) -> None:
        self.disk.crash()
        self.lose(loss)
        self.start(mode)
        self.survived([])

    def lose(self, loss: Loss) -> None:
        """Take a queue away for good, all of it or its last file; the log has some of its records.

        Of one without any the offset that comes next is in its files alone.
        """
        made = [key for key in sorted(self.model.queues) if self.disk.list(queue_path(key))]
        keys = [key for key in made if self.model.has_durable_records(key)]
        if loss is None or not keys:
            return
        number, part = loss
        key = keys[number % len(keys)]
        path = queue_path(key)
        if part == "directory" or self.model.queues[key].lowest:
            remove(self.disk, path)
            self.disk.sync_directory(path.rpartition("/")[0])
            self.model.queues[key].lowest = 0
        else:
            self.disk.remove(f"{path}/{self.disk.list(path)[-1]}")
            self.disk.sync_directory(path)

    @rule(mode=MODES, calls=CALLS)
    def the_power_fails_twice(self, mode: FlushMode, calls: int) -> None:
        self.disk.crash()
        self.until_power_fails(calls, lambda: self.start(mode))
        self.start(mode)
        self.survived([])

    @rule(mode=MODES, calls=CALLS, turn=TURNS)
    def the_power_fails_while_messages_are_stored(
        self, mode: FlushMode, calls: int, turn: list[Sent]
    ) -> None:
        numbered = self.numbered(turn)
        told: list[bool] = []

        def put() -> None:
            self.store.append([sent.incoming(number) for sent, number in numbered])
            self.store.when_durable(self.store.log.end, told.append)
            self.store.flush_soon()

        self.until_power_fails(calls, put)
        if told == [True]:
            self.model.durable = self.store.log.end
        self.start(mode)
        self.survived(awaited(numbered))

    @rule(mode=MODES, calls=CALLS, ms=st.sampled_from([1_000, 61_000]))
    def the_power_fails_in_a_tick(self, mode: FlushMode, calls: int, ms: int) -> None:
        self.loop.run_until_complete(self.clock.sleep(ms / 1000))
        self.until_power_fails(calls, self.store.tick)
        self.start(mode)
        self.survived([])

    @rule(mode=MODES, calls=CALLS)
    def the_power_fails_in_a_stop(self, mode: FlushMode, calls: int) -> None:
        self.until_power_fails(calls, self.store.close)
        self.start(mode)
        self.survived([])

    @rule(mode=MODES, calls=CALLS)
    def the_power_fails_while_files_go(self, mode: FlushMode, calls: int) -> None:
        self.files_grow_old()
        self.until_power_fails(calls, lambda: self.store.clean(asked=True))
        self.start(mode)
        self.survived([])

    @rule(mode=MODES, calls=CALLS, topic=st.sampled_from(TOPICS))
    def the_power_fails_while_a_topic_is_deleted(
        self, mode: FlushMode, calls: int, topic: str
    ) -> None:
        self.until_power_fails(calls, lambda: self.store.delete_topic(topic))
        self.model.durable = max(self.model.durable, self.store.flushed)
        self.model.delete({key for key in self.model.queues if key[0] == topic})
        self.start(mode)
        self.survived([])

    def until_power_fails(self, calls: int, action: Callable[[], object]) -> None:
        self.disk.cut_power(after=calls)
        with suppress(PowerLost):
            action()
        first_offset = max(self.model.first_offset, self.store.log.first_offset)
        self.model.begins_at(first_offset)  # if files went before the power did
        self.disk.crash()

    def survived(self, doubtful: list[Awaited]) -> None:
        """Compare what a power loss left with what it may leave, and take it for the truth."""
        model, log = self.model, self.store.log
        assert log.first_offset <= model.first_offset
        model.begins_at(log.first_offset)
        known = min(model.durable, model.end)  # the rest may be torn
        tail = [*self.records_from(max(known, model.first_offset))]
        for view, expected in zip(
            [view for view in tail if view.commit_log_offset >= model.end], doubtful, strict=False
        ):
            assert view.is_whole()
            model.learn(view, expected, None)
        model.cut(log.end)
        self.started()

    def records_from(self, offset: int) -> Iterator[RecordView]:
        """Yield the records of the log from one of them on, or from where one would begin."""
        log = self.store.log
        while offset < log.end:
            view = self.store.record(offset)
            if view is None:  # a blank ends the file
                offset = log.next_segment_offset(offset)
            else:
                yield view
                offset += view.size

    def started(self) -> None:
        """Note that a start has synced everything, and may have brought deleted queues back."""
        self.model.durable = self.model.end
        self.seen = len(self.model.records)
        for key in self.model.deleted:
            queue = self.store.queues.queue(*key)
            if queue is not None:
                places = [entry.commit_log_offset for _, entry in queue.iterate(0)]
                self.model.bring_back(key, queue.min_offset, places)

    # Old files, and deleted topics

    def files_grow_old(self) -> None:
        """Let files expire, although the time of day goes back now and then; queues are synced."""
        self.time_passes((RESERVED_HOURS + 1) * 3_600_000)

    def files_went(self) -> None:
        assert self.store.log.first_offset >= self.model.first_offset
        self.model.begins_at(self.store.log.first_offset)

    def expected_removal(self) -> list[int]:
        """Return which files go if age is no reason to keep any: what is flushed, not the last."""
        bases = [int(name) for name in self.disk.list(f"{HOME}/commitlog")]
        last = max((base for base in bases if base <= self.model.end), default=0)
        return [base for base in bases if base < last and base + SEGMENT <= self.store.flushed][
            :FILES_PER_ROUND
        ]

    @rule()
    def old_files_go(self) -> None:
        self.files_grow_old()
        expected = self.expected_removal()
        assert self.store.clean(asked=True) == expected
        self.files_went()

    @rule()
    def files_go_since_the_disk_fills(self) -> None:
        expected = self.expected_removal()
        self.disk.used_percent = 86
        assert self.store.clean() == expected
        self.disk.used_percent = 10
        self.files_went()

    @rule()
    def a_full_disk_takes_nothing(self) -> None:
        self.disk.used_percent = 91
        self.store.clean()
        self.files_went()
        (refused,) = self.store.append([A_MESSAGE.incoming(0)])
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        self.disk.used_percent = 10
        self.store.clean()
        self.files_went()

    @rule(topic=st.sampled_from(TOPICS))
    def a_topic_is_deleted(self, topic: str) -> None:
        self.store.delete_topic(topic)
        assert self.store.queues.queues_of(topic) == []
        self.model.durable = self.store.flushed
        self.model.delete({key for key in self.model.queues if key[0] == topic})

    @rule()
    def queues_without_messages_are_deleted(self) -> None:
        deleted = {*self.store.delete_expired_queues()}
        self.model.durable = self.store.flushed
        assert deleted <= {*self.model.idle_queues()}
        self.model.delete(deleted)

    # Reading everything back

    @invariant()
    def the_log_has_every_record(self) -> None:
        store, model = self.store, self.model
        assert (store.log.first_offset, store.log.end) == (model.first_offset, model.end)
        for kept in model.records:
            view = store.record(kept.offset)
            if kept.offset < model.first_offset:
                assert view is None
            else:
                assert view is not None
                assert view.raw == kept.raw

    @invariant()
    def queues_have_every_message_once(self) -> None:
        for key, kept in self.model.queues.items():
            low, high = kept.bounds(self.model.first_offset, self.dispatched_end)
            queue = self.store.queues.queue(*key)
            if queue is None:
                assert high == 0, key
                continue
            assert (queue.min_offset, queue.max_offset) == (low, high), queue
            shown = [(offset, *entry) for offset, entry in queue.iterate(0)]
            visible = kept.records[low:high]
            assert shown == [
                (one.queue_offset, one.offset, len(one.raw), one.code) for one in visible
            ]
            self.check_times(key, visible, low)
            self.check_pulls(key, visible, low, high)

    def check_times(self, key: QueueKey, visible: list[Kept], low: int) -> None:
        times = [one.stored_ms for one in visible]
        for moment in {moment + delta for moment in times for delta in (-1, 0, 1)}:
            lower = low + sum(time < moment for time in times)
            upper = low + max(sum(time <= moment for time in times) - 1, 0)
            assert self.store.lookup.offset_by_time(*key, moment) == lower
            assert self.store.lookup.offset_by_time(*key, moment, Boundary.UPPER) == upper

    def check_pulls(self, key: QueueKey, visible: list[Kept], low: int, high: int) -> None:
        outside = [
            self.store.lookup.get_messages(*key, at, max_count=1)
            for at in (low - 1, high, high + 1)
        ]
        assert [(one.status, one.next_offset) for one in outside] == (
            [
                (GetMessageStatus.OFFSET_TOO_SMALL, low),
                (GetMessageStatus.OFFSET_OVERFLOW_ONE, high),
                (GetMessageStatus.OFFSET_OVERFLOW_BADLY, high),
            ]
            if high
            else [(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)] * 3
        )
        everything = self.pulled(key, low, high, None)
        assert everything == [one.raw for one in visible]
        if key[0] != SCHEDULE_TOPIC:  # whose entries hold times in place of tags
            paid = self.pulled(key, low, high, tags_code("paid").__eq__)
            assert paid == [one.raw for one in visible if one.sent.tag == "paid"]

    def pulled(
        self, key: QueueKey, low: int, high: int, wants: Callable[[int], bool] | None
    ) -> list[bytes]:
        """Return the records that a consumer gets, pull by pull."""
        found: list[bytes] = []
        offset = low
        while offset < high:
            answer = self.store.lookup.get_messages(
                *key, offset, max_count=PULLED_AT_ONCE, wants=wants
            )
            assert answer.count <= PULLED_AT_ONCE
            found_some = answer.status is GetMessageStatus.FOUND
            assert found_some or (answer.status is GetMessageStatus.NO_MATCHED_MESSAGE and wants)
            assert found_some == bool(answer.views)
            assert offset < answer.next_offset <= high
            found += map(bytes, records_of(answer))
            offset = answer.next_offset
        return found

    @invariant()
    def keys_lead_to_records(self) -> None:
        for topic in (*TOPICS, SCHEDULE_TOPIC):
            for key in KEYS[1:]:
                found = self.store.lookup.query(
                    topic, key, max_count=10_000, begin_ms=0, end_ms=FOREVER
                )
                assert [view.commit_log_offset for view in found] == self.model.with_key(
                    topic, key, self.dispatched_end
                )

    @invariant()
    def listeners_heard_of_each_message_once(self) -> None:
        since = self.model.records[self.seen :]
        assert [one.commit_log_offset for one in self.heard] == [
            kept.offset
            for kept in since
            if kept.sent.kind.in_queue and kept.offset < self.dispatched_end
        ]

    def is_sound(self) -> None:
        """Check the closed store as an operator would."""
        verdict = verify(StoreReader(HOME, self.disk))
        assert verdict.messages == len([*self.model.kept_records()])
        if not self.model.deleted:  # else the log has messages that no queue has
            assert [*verdict.damages] == []


def queue_path(key: QueueKey) -> str:
    topic, queue_id = key
    return f"{HOME}/consumequeue/{topic}/{queue_id}"


def remove(disk: SimulatedDisk, path: str) -> None:
    """Take a file away, or a directory with all that is in it."""
    if not disk.is_directory(path):
        if disk.exists(path):
            disk.remove(path)
        return
    for name in disk.list(path):
        remove(disk, f"{path}/{name}")
    disk.remove_directory(path)


def snapshot(disk: SimulatedDisk, path: str) -> dict[str, bytes]:
    """Return all files below a directory."""
    found: dict[str, bytes] = {}
    for name in disk.list(path):
        inner = f"{path}/{name}"
        if disk.is_directory(inner):
            found |= snapshot(disk, inner)
        else:
            file = disk.open(inner, writable=False)
            found[inner] = file.read(file.size, 0)
            file.close()
    return found


TestStore = StoreMachine.TestCase
TestStore.settings = settings(stateful_step_count=25)
