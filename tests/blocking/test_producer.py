"""The face for code without a loop: the same as the async one, from any thread."""

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from pathlib import Path
from typing import ClassVar

import pytest

from orbitmq import blocking
from orbitmq.client.core.loop_thread import LoopThread, Waiter
from orbitmq.client.observe.hooks import SendContext, SendHook
from orbitmq.client.producer import producer
from orbitmq.client.producer.start_rate import StartRate
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import RunningCluster
from orbitmq.errors import (
    AlreadyStarted,
    BackPressure,
    InvalidInput,
    MessageTooLarge,
    NameserversFailed,
    NoNameserver,
    NotRunning,
    ProducerClosed,
    SendFailed,
    WrongLoop,
)
from orbitmq.message.model import Message, SendReceipt, SendStatus
from orbitmq.threads import Future
from tests.blocking.conftest import settings
from tests.interop.waiting import until
from tests.net.test_fork import said_in_a_fork

MESSAGE = Message("orders", b"paid", tags="paid", keys=["o-42"])


@pytest.fixture
def stuck() -> Iterator[blocking.Producer]:
    """A producer whose sends don't end: its nameserver is a port that nobody accepts from."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ClientSettings(
            nameserver=f"127.0.0.1:{silent.getsockname()[1]}",
            request_timeout_ms=60_000,
            keep_open_ms=0,
        )
        with blocking.Producer(
            "billing", client=client, send_timeout_ms=60_000, in_flight_max=10, stop_timeout_ms=0
        ) as running:
            yield running


# Life


def test_a_producer_lives_from_its_start_to_its_end(cluster: RunningCluster) -> None:
    one = blocking.Producer("billing", client=settings(cluster.nameserver))
    with pytest.raises(NotRunning, match="is not started; use 'with', or start"):
        one.send(MESSAGE)
    with pytest.raises(NotRunning, match="is not started; use 'with', or start"):
        _ = one.statistics
    one.start()
    with pytest.raises(AlreadyStarted):
        one.start()
    assert one.client_id
    assert one.send(MESSAGE).status is SendStatus.SEND_OK
    one.close()
    one.close()
    assert repr(one) == "<blocking Producer billing closed>"
    with pytest.raises(ProducerClosed, match="create a new one"):
        one.send(MESSAGE)
    with pytest.raises(AlreadyStarted):
        one.start()


def test_a_close_during_the_start_waits_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # whom the start asks in vain
        client = ClientSettings(
            nameserver=f"127.0.0.1:{silent.getsockname()[1]}",
            request_timeout_ms=500,
            keep_open_ms=0,
        )
        one = blocking.Producer("billing", client=client, topics=["orders"])
        with ThreadPoolExecutor() as threads:
            starting = threads.submit(one.start)
            asked, _ = silent.accept()  # so it is under way
            assert repr(one) == "<blocking Producer billing starting>"
            with pytest.raises(NotRunning, match="is starting; wait until it has started"):
                one.send(MESSAGE)
            one.close()
            assert starting.done()
            assert isinstance(starting.exception(), NameserversFailed)
            asked.close()


def test_one_that_was_never_started_can_be_closed() -> None:
    one = blocking.Producer("billing", client=settings("127.0.0.1:9"))
    one.close()
    with pytest.raises(ProducerClosed):
        one.send(MESSAGE)


def test_a_start_that_fails_raises_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    one = blocking.Producer("billing")
    with pytest.raises(NoNameserver):
        one.start()
    with pytest.raises(NotRunning, match="the start of producer billing failed; create a new one"):
        one.send(MESSAGE)


def test_a_warning_of_too_many_starts_names_the_place_of_the_call(
    cluster: RunningCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_starts", StartRate())
    for _ in range(11):
        with blocking.Producer("billing", nameserver=cluster.nameserver):
            pass
    assert "test_producer.py:" in caplog.text


def test_inside_a_running_loop_it_says_what_to_use_instead(sender: blocking.Producer) -> None:
    async def main() -> SendReceipt:
        for attempt in (sender.send, sender.send_later, sender.send_oneway):
            with pytest.raises(
                WrongLoop, match=r"the async client \(orbitmq\.Producer\) with 'await'"
            ):
                attempt(MESSAGE)
        with pytest.raises(WrongLoop), sender:
            pass
        return await asyncio.to_thread(sender.send, MESSAGE)

    assert asyncio.run(main()).status is SendStatus.SEND_OK


def test_a_child_process_must_create_its_own_producer(
    cluster: RunningCluster, sender: blocking.Producer
) -> None:
    def make_own() -> None:
        with blocking.Producer("billing", client=settings(cluster.nameserver)) as own:
            own.send(MESSAGE)

    sender.send(MESSAGE)
    assert "belongs to the parent" in said_in_a_fork(lambda: sender.send(MESSAGE))
    assert "belongs to the parent" in said_in_a_fork(sender.close)
    assert said_in_a_fork(make_own) == "nothing was raised"
    assert sender.send(MESSAGE).status is SendStatus.SEND_OK


UNCLOSED = """
    import sys
    from orbitmq.blocking import Producer
    from orbitmq.message.model import Message

    producer = Producer("billing", nameserver=sys.argv[1])
    producer.start()
    for number in range(50):
        # Large enough to be compressed on a thread.
        producer.send_later(Message("exit", b"x" * 100_000)).add_done_callback(
            lambda done: sys.stdout.write(done.result().status.value + chr(10))
        )
"""


def test_an_unclosed_producer_is_drained_when_the_program_ends(cluster: RunningCluster) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(UNCLOSED), cluster.nameserver],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.split() == ["SEND_OK"] * 50
    assert "ResourceWarning: <blocking Producer billing closed> was closed by" in ran.stderr
    assert "Traceback" not in ran.stderr


# Sending


def test_sixteen_threads_share_one_producer(sender: blocking.Producer) -> None:
    def send(thread: int) -> list[SendReceipt]:
        return [sender.send(Message("shared", f"{thread}-{turn}".encode())) for turn in range(20)]

    with ThreadPoolExecutor(16) as threads:
        receipts = [one for some in threads.map(send, range(16)) for one in some]
    places = {(receipt.queue, receipt.queue_offset) for receipt in receipts}
    assert len(places) == len(receipts) == sender.statistics.sent == 320


def test_a_key_keeps_the_order_of_calls(sender: blocking.Producer) -> None:
    futures = [sender.send_later(MESSAGE, sharding_key="o-42") for _ in range(50)]
    receipts = [future.result(timeout=10) for future in futures]
    assert len({receipt.queue for receipt in receipts}) == 1
    offsets = [receipt.queue_offset for receipt in receipts]
    assert offsets == sorted(offsets)


def test_the_other_ways_to_send(sender: blocking.Producer) -> None:
    queues = sender.queues("ways", must_exist=False)
    receipts = sender.send_many([Message("ways", b"one"), Message("ways", b"two")], queue=queues[0])
    assert [receipt.queue_offset for receipt in receipts] == [0, 1]
    sender.send_oneway(Message("ways", b"three"), queue=queues[0])
    last = sender.send(Message("ways", b"four"), selector=lambda found, _message: found[0])
    assert (last.queue, last.queue_offset) == (queues[0], 3)


def test_errors_are_those_of_the_async_one(sender: blocking.Producer) -> None:
    large = Message("orders", bytes(5 * 1024 * 1024))
    with pytest.raises(MessageTooLarge):
        sender.send(large)
    assert isinstance(sender.send_later(large).exception(timeout=10), MessageTooLarge)


def test_arguments_are_refused_as_by_the_async_one(sender: blocking.Producer) -> None:
    with pytest.raises(InvalidInput, match="selector is 'random'; it must be a function"):
        sender.send(MESSAGE, selector="random")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="timeout_ms is nan"):
        sender.send(MESSAGE, timeout_ms=float("nan"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="timeout_ms is '3'"):
        sender.send_later(MESSAGE, timeout_ms="3")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a str can't be sent"):
        sender.send_later("paid")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="timeout_ms is '3'"):
        sender.transaction(MESSAGE, timeout_ms="3")  # type: ignore[arg-type]
    late = sender.send_later(MESSAGE, queue=3)  # type: ignore[arg-type]
    assert isinstance(late.exception(timeout=10), InvalidInput)
    with pytest.raises(InvalidInput, match="hook is of type object"):
        sender.add_hook(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="topics is 'orders'"):
        blocking.Producer("billing", topics="orders")  # type: ignore[arg-type]
    assert sender.send(MESSAGE).status is SendStatus.SEND_OK


def test_a_hook_sees_sends_until_it_is_removed(sender: blocking.Producer) -> None:
    class Listening(SendHook):
        heard = 0

        def after(self, context: SendContext) -> None:
            self.heard += 1

    hook = Listening()
    sender.add_hook(hook)
    sender.send(MESSAGE)
    sender.remove_hook(hook)
    sender.send(MESSAGE)
    assert hook.heard == 1


def test_an_interrupted_send_is_cancelled(
    stuck: blocking.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = stuck._inner._sender
    assert sender is not None

    def interrupted(_waiter: object) -> None:
        """Wait as one does when Ctrl-C is pressed, in the middle of a send."""
        until(lambda: sender.permits.in_flight == 1, what="the send has begun", seconds=10)
        raise KeyboardInterrupt

    monkeypatch.setattr(Waiter, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stuck.send(MESSAGE)
    until(lambda: sender.permits.in_flight == 0, what="the permit is given back", seconds=10)
    monkeypatch.undo()


def test_a_close_ends_the_wait_of_sends(stuck: blocking.Producer) -> None:
    sender = stuck._inner._sender
    assert sender is not None
    with ThreadPoolExecutor(2) as threads:
        sends = [threads.submit(stuck.send, MESSAGE) for _ in range(2)]
        until(lambda: sender.permits.in_flight == 2, what="the sends have begun", seconds=10)
        stuck.close()
        for send in sends:
            assert isinstance(send.exception(timeout=10), NotRunning | SendFailed)


def test_automatic_batches_and_hooks_see_the_sends_of_threads(cluster: RunningCluster) -> None:
    context = ContextVar("context", default="none")

    class Listening(SendHook):
        heard: ClassVar[list[str]] = []

        def before(self, _context: SendContext) -> None:
            self.heard.append(context.get())

    with blocking.Producer(
        "billing", client=settings(cluster.nameserver), auto_batch=True, linger_ms=1
    ) as gathering:
        assert gathering.send(MESSAGE).status is SendStatus.SEND_OK
        assert not gathering._inner.sends_plainly
    with blocking.Producer("billing", client=settings(cluster.nameserver)) as listened:
        assert listened._inner.sends_plainly
        listened.add_hook(Listening())
        context.set("the thread's")
        listened.send(MESSAGE)
    assert Listening.heard == ["the thread's"]


# Later


def test_callbacks_run_on_threads_of_their_own_and_may_send(sender: blocking.Producer) -> None:
    told: Future[tuple[str, SendStatus]] = Future()

    def tell(done: Future[SendReceipt]) -> None:
        again = sender.send(MESSAGE)
        told.set_result((threading.current_thread().name, again.status))

    # A selector runs on the loop thread: the callback is there before the send is done.
    added = threading.Event()
    future = sender.send_later(
        MESSAGE, selector=lambda queues, _message: (added.wait(10), queues[0])[1]
    )
    future.add_done_callback(tell)
    added.set()
    name, status = told.result(timeout=10)
    assert name.startswith("orbitmq-callbacks")
    assert status is SendStatus.SEND_OK


def test_a_callback_that_comes_late_is_called_at_once_and_one_that_fails_is_logged(
    sender: blocking.Producer, caplog: pytest.LogCaptureFixture
) -> None:
    future = sender.send_later(MESSAGE)
    future.result(timeout=10)
    future.add_done_callback(lambda _done: 1 // 0)
    assert "a callback of send_later raised an error" in caplog.text


def test_sends_under_way_are_bounded_and_a_cancelled_one_makes_room(
    stuck: blocking.Producer,
) -> None:
    futures = [stuck.send_later(MESSAGE) for _ in range(10)]
    with pytest.raises(BackPressure, match="10 sends of send_later are in flight") as caught:
        stuck.send_later(MESSAGE, timeout_ms=1)
    assert not caught.value.may_be_stored
    for future in futures:
        assert future.cancel()
    assert not wait(futures, timeout=10).not_done
    stuck.send_later(MESSAGE, timeout_ms=10_000).cancel()


def test_an_interrupted_send_later_makes_room(
    stuck: blocking.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LoopThread, "begin", interrupted)
        for _ in range(10):
            with pytest.raises(KeyboardInterrupt):
                stuck.send_later(MESSAGE)
    stuck.send_later(MESSAGE, timeout_ms=1).cancel()


def test_a_callback_that_waits_for_a_thread_counts_too(stuck: blocking.Producer) -> None:
    release = threading.Event()
    futures = [stuck.send_later(MESSAGE) for _ in range(10)]
    for future in futures:
        future.add_done_callback(lambda _done: release.wait(10))
        future.cancel()
    # Four callbacks have a thread each, six wait for one.
    more = [stuck.send_later(MESSAGE) for _ in range(4)]
    with pytest.raises(BackPressure):
        stuck.send_later(MESSAGE, timeout_ms=1)
    release.set()
    for future in more:
        future.cancel()


# More than sending


def test_the_outbox_is_within_reach(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    with blocking.Producer(
        "billing",
        client=settings(nobody),
        outbox_path=str(tmp_path / "outbox"),
        send_timeout_ms=100,
    ) as one:
        future = one.send_later(MESSAGE)
        assert future.exception(timeout=10) is not None
        assert one.outbox is not None
        assert len(one.outbox) == len(one.outbox.entries) == 1
        assert (one.outbox.refused, one.outbox.sent) == ([], 0)
        with pytest.raises(KeyError):
            one.outbox.retry(99)
