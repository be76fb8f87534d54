"""The outbox whole: what is kept is sent once brokers return, in order, and after a crash."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.client.producer.outbox import outbox as outbox_module
from orbitmq.client.producer.outbox.file import read_contents
from orbitmq.client.producer.outbox.outbox import Outbox
from orbitmq.errors import (
    DiskFailed,
    NetworkError,
    NotRunning,
    OutboxFull,
    SendIllegal,
    StoreLocked,
)
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from orbitmq.testing.clocks import InlineWorkers, LateWorkers, VirtualClock, run_virtual
from orbitmq.threads import Workers


class Brokers:
    """Take messages, each after a tenth of a second, while they are there."""

    def __init__(self) -> None:
        self.are_there = False
        self.stored: list[Message] = []
        self.queues: list[MessageQueue | None] = []
        self.tries = 0
        self.illegal: set[bytes] = set()

    async def send(self, message: Message, queue: MessageQueue | None) -> SendReceipt:
        self.tries += 1
        await asyncio.sleep(0.1)
        if not self.are_there:
            raise NetworkError("nobody is there")
        if message.body in self.illegal:
            raise SendIllegal(
                "too large", topic=message.topic, send_id="", code=13, remark="too large"
            )
        self.stored.append(message)
        self.queues.append(queue)
        return SendReceipt(
            status=SendStatus.SEND_OK,
            message_id=message.message_id or "",
            offset_message_id="",
            queue=MessageQueue(message.topic, "broker-a", 0),
            queue_offset=0,
        )

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.stored]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "outbox")


def an_outbox(
    path: str, brokers: Brokers, clock: VirtualClock, workers: Workers | None = None, **options: int
) -> Outbox:
    return Outbox(path, brokers.send, workers=workers or InlineWorkers(), clock=clock, **options)


def a_message(number: int, key: str | None = None) -> Message:
    return Message("orders", b"%d" % number, sharding_key=key)


async def keep(outbox: Outbox, number: int, key: str | None = None) -> int:
    return await outbox.keep(a_message(number, key), send_id=f"id-{number}", reason="no broker")


def test_what_is_kept_is_sent_when_brokers_return(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        queue = MessageQueue("orders", "broker-b", 3)
        assert await outbox.keep(a_message(1), send_id="id-1", queue=queue) == 1
        assert await keep(outbox, 2) == 2
        await clock.sleep(3_600)
        assert [entry.message_id for entry in outbox.entries] == ["id-1", "id-2"]
        brokers.are_there = True
        await outbox.drained()
        assert sorted(zip(brokers.bodies, brokers.queues, strict=True), key=str) == [
            (b"1", queue),
            (b"2", None),
        ]
        assert {message.message_id for message in brokers.stored} == {"id-1", "id-2"}
        assert (outbox.sent, len(outbox)) == (2, 0)
        await outbox.close()
        assert read_contents(path).waiting == ()

    run_virtual(main)


def test_brokers_that_are_gone_are_not_asked_again_and_again(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        await asyncio.gather(*(keep(outbox, number) for number in range(1_000)))
        await clock.sleep(3_600)
        assert brokers.tries < 10_000  # a thousand messages, for an hour
        brokers.are_there = True
        returned = clock.monotonic_ms()
        await outbox.drained()
        assert clock.monotonic_ms() - returned < 60_000
        await outbox.close()

    run_virtual(main)


def test_messages_of_a_key_leave_in_the_order_in_which_they_came(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        for number in range(30):
            await keep(outbox, number, "ab"[number % 2])
        assert outbox.holds(a_message(99, "a"))
        assert not outbox.holds(a_message(99, "c"))
        assert not outbox.holds(a_message(99))
        await clock.sleep(5)
        brokers.are_there = True
        await outbox.drained()
        for key in "ab":
            mine = [one.body for one in brokers.stored if one.sharding_key == key]
            assert mine == [b"%d" % number for number in range(30) if "ab"[number % 2] == key]
        assert not outbox.holds(a_message(99, "a"))
        await outbox.close()

    run_virtual(main)


def test_a_key_is_held_from_the_moment_of_keeping_until_its_last_is_sent(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        brokers.are_there = True
        seen: list[bool] = []

        async def ask(message: Message, queue: MessageQueue | None) -> SendReceipt:
            seen.append(outbox.holds(message))  # it must not wait for itself
            seen.append(outbox.holds(a_message(99, "a")))
            return await brokers.send(message, queue)

        outbox = Outbox(
            path,
            ask,
            workers=LateWorkers(lambda: 0.5),
            clock=clock,
        )
        await outbox.open()
        keeping = asyncio.create_task(keep(outbox, 1, "a"))
        await asyncio.sleep(0)
        assert outbox.holds(a_message(99, "a"))
        await keeping
        await outbox.drained()
        assert seen == [False, True]
        await outbox.close()

    run_virtual(main)


def test_a_crash_loses_nothing_that_was_kept(path: str) -> None:
    async def before(clock: VirtualClock) -> None:
        brokers = Brokers()
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        for number in range(5):
            await keep(outbox, number, "a")
        await clock.sleep(5)
        brokers.are_there = True
        while len(brokers.stored) < 2:
            await clock.sleep(0.05)
        # No close: the process is gone. Its lock goes with its files.
        await outbox._call(outbox._file.close)

    async def after(clock: VirtualClock) -> list[bytes]:
        brokers = Brokers()
        brokers.are_there = True
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        await outbox.drained()
        await outbox.close()
        assert [one.message_id for one in brokers.stored][-1] == "id-4"
        return brokers.bodies

    run_virtual(before)
    with open(path, "ab") as torn:
        torn.write(b"\x00\x00\x01\x00 half a record")
    # The second was sent, and the crash came before that was noted: a duplicate, by its id.
    assert run_virtual(after) == [b"1", b"2", b"3", b"4"]


def test_numbers_go_on_after_a_restart(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        for expected in (1, 2, 3):
            outbox = an_outbox(path, Brokers(), clock)
            await outbox.open()
            assert await keep(outbox, expected) == expected
            await outbox.close()
        assert [entry.sequence for entry in read_contents(path).waiting] == [1, 2, 3]

    run_virtual(main)


# What brokers refuse


def test_messages_that_no_retry_will_send_are_set_aside(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        brokers.are_there, brokers.illegal = True, {b"1"}
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        for number in (1, 2):
            await keep(outbox, number, "a")
        await outbox.drained()
        assert brokers.bodies == [b"2"]
        assert [(entry.message_id, entry.reason) for entry in outbox.refused] == [
            ("id-1", "too large")
        ]
        await outbox.close()

    run_virtual(main)
    assert "id-1 is refused, and set aside: too large" in caplog.text


@pytest.mark.parametrize("retry", [True, False])
def test_what_was_set_aside_can_be_tried_again_or_given_up(path: str, retry: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        brokers.are_there, brokers.illegal = True, {b"1"}
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        sequence = await keep(outbox, 1)
        await outbox.drained()
        await outbox.close()
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        brokers.illegal.clear()
        assert [entry.reason for entry in outbox.refused] == ["too large"]
        (outbox.retry if retry else outbox.discard)(sequence)
        await outbox.drained()
        with pytest.raises(KeyError):
            outbox.discard(sequence)
        await outbox.close()
        assert brokers.bodies == ([b"1"] if retry else [])
        contents = read_contents(path)
        assert (contents.waiting, contents.refused) == ((), ())

    run_virtual(main)


# Bounds


def test_a_full_outbox_takes_no_more_and_keeps_what_it_has(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        outbox = an_outbox(path, brokers, clock, bytes_max=10_000)
        await outbox.open()
        outcomes = await asyncio.gather(
            *(keep(outbox, number) for number in range(200)), return_exceptions=True
        )
        full = [one for one in outcomes if isinstance(one, OutboxFull)]
        assert full
        assert len(full) + len(outbox) == 200
        assert read_contents(path).file_bytes <= 10_000
        brokers.are_there = True
        await outbox.drained()
        assert len(brokers.stored) == 200 - len(full)
        await keep(outbox, 1)  # room was made: what was sent is left behind
        await outbox.close()

    run_virtual(main)


def test_the_number_of_messages_is_bounded_too(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "MESSAGES_MAX", 3)

    async def main(clock: VirtualClock) -> None:
        outbox = an_outbox(path, Brokers(), clock)
        await outbox.open()
        for number in range(3):
            await keep(outbox, number)
        with pytest.raises(OutboxFull, match="3 unsent messages"):
            await keep(outbox, 4)
        await outbox.close()

    run_virtual(main)


def test_a_file_of_mostly_sent_messages_shrinks(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "_REWRITE_OVER_BYTES", 5_000)

    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        brokers.are_there = True
        outbox = an_outbox(path, brokers, clock)
        await outbox.open()
        for round_ in range(10):
            for number in range(20):
                await keep(outbox, 20 * round_ + number)
            await outbox.drained()
        await outbox.close()
        assert read_contents(path).file_bytes < 10_000
        assert len(brokers.stored) == 200

    run_virtual(main)


# Many at once, and ends


def test_what_is_kept_at_once_is_synced_at_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = 0

    def count(_fd: int) -> None:
        nonlocal syncs
        syncs += 1

    monkeypatch.setattr("os.fdatasync", count)

    async def main(clock: VirtualClock) -> None:
        outbox = an_outbox(path, Brokers(), clock, LateWorkers(lambda: 0.01))
        await outbox.open()
        await asyncio.gather(*(keep(outbox, number) for number in range(100)))
        assert syncs <= 2
        await outbox.close()

    run_virtual(main)


def test_a_message_is_kept_even_if_its_caller_is_cancelled_meanwhile(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        outbox = an_outbox(path, Brokers(), clock, LateWorkers(lambda: 0.5))
        await outbox.open()
        keeping = asyncio.create_task(keep(outbox, 1))
        await clock.sleep(0.1)
        keeping.cancel()
        await asyncio.wait((keeping,))
        await outbox.close()
        assert [entry.message_id for entry in read_contents(path).waiting] == ["id-1"]

    run_virtual(main)


def test_a_disk_that_refuses_is_an_error_to_the_sender(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    async def main(clock: VirtualClock) -> None:
        outbox = an_outbox(path, Brokers(), clock)
        await outbox.open()
        with monkeypatch.context() as patched:
            patched.setattr("os.pwrite", refuse)
            with pytest.raises(DiskFailed, match="No space left"):
                await keep(outbox, 1)
        assert not outbox.holds(a_message(1, "a"))
        assert await keep(outbox, 2) == 2
        await outbox.close()

    run_virtual(main)


def test_a_fault_in_sending_does_not_end_the_outbox(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(clock: VirtualClock) -> None:
        brokers = Brokers()
        faults: list[Callable[[], None]] = [lambda: None]

        async def send(message: Message, queue: MessageQueue | None) -> SendReceipt:
            if faults:
                faults.pop()
                raise ZeroDivisionError("a fault of ours")
            return await brokers.send(message, queue)

        brokers.are_there = True
        outbox = Outbox(path, send, workers=InlineWorkers(), clock=clock)
        await outbox.open()
        await keep(outbox, 1)
        await outbox.drained()
        assert brokers.bodies == [b"1"]
        await outbox.close()

    run_virtual(main)
    assert "a fault of ours" in caplog.text


def test_a_closed_outbox_takes_nothing_and_a_second_one_finds_it_locked(path: str) -> None:
    async def main(clock: VirtualClock) -> None:
        outbox = an_outbox(path, Brokers(), clock)
        await outbox.open()
        with pytest.raises(StoreLocked):
            await an_outbox(path, Brokers(), clock).open()
        await outbox.close()
        await outbox.close()
        with pytest.raises(NotRunning, match="is closed"):
            await keep(outbox, 1)

    run_virtual(main)
