"""Handlers that get each message once: functions and coroutines, one message and lists."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq import Consumer, Message, Producer
from orbitmq.client.consumer.deduplication.blocking import Deduplicator as BlockingDeduplicator
from orbitmq.client.consumer.deduplication.deduplicator import Deduplicator
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.user_code import is_async
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import InvalidInput
from orbitmq.message.model import StoredMessage
from orbitmq.threads import ThreadWorkers
from tests.client.consumer.deduplication.messages import message


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else str(tmp_path / "seen.db")


def test_a_function_gets_a_message_once(path: str | None) -> None:
    with BlockingDeduplicator(path) as dedup:
        given: list[str] = []

        @dedup.once
        def bill(one: StoredMessage) -> str:
            """Bill it."""
            given.append(one.message_id)
            return "billed"

        assert bill.__doc__ == "Bill it."
        assert [bill(message("a")), bill(message("b")), bill(message("a", offset=7))] == [
            "billed",
            "billed",
            None,
        ]
        assert given == ["a", "b"]


def test_a_message_whose_work_failed_is_handed_over_again(path: str | None) -> None:
    with BlockingDeduplicator(path) as dedup:
        tries = 0

        @dedup.once
        def bill(_one: StoredMessage) -> int:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise ValueError("no database")
            return tries

        for _ in range(2):
            with pytest.raises(ValueError, match="no database"):
                bill(message("a"))
        assert bill(message("a")) == 3
        assert bill(message("a")) is None


def test_a_coroutine_gets_what_of_a_list_is_new(path: str | None) -> None:
    async def story() -> None:
        async with Deduplicator(path) as dedup:
            given: list[list[str]] = []

            @dedup.once
            async def bill(many: list[StoredMessage]) -> None:
                given.append([one.message_id for one in many])
                if len(given) == 2:
                    raise RetryLater("no stock", messages=[one for one in many if one == c])

            a, b, c, d = map(message, "abcd")
            assert is_async(bill)
            await bill([a, b])
            with pytest.raises(RetryLater) as raised:
                await bill([b, c, d])
            assert raised.value.messages == [c]
            await bill([a, b, c, d])
            await bill([a, b, c, d])
            assert given == [["a", "b"], ["c", "d"], ["c"]]

    asyncio.run(story())


def test_two_tasks_do_not_work_on_a_message_at_the_same_time(path: str | None) -> None:
    async def story() -> None:
        async with Deduplicator(path) as dedup:
            working, go_on = asyncio.Event(), asyncio.Event()

            @dedup.once
            async def bill(_one: StoredMessage) -> str:
                working.set()
                await go_on.wait()
                return "billed"

            first = asyncio.ensure_future(bill(message("a")))
            await working.wait()
            with pytest.raises(RetryLater, match="another handler is working on it"):
                await bill(message("a", offset=7))
            go_on.set()
            assert await first == "billed"
            assert await bill(message("a", offset=7)) is None

    asyncio.run(story())


def test_a_cancelled_handler_frees_its_message(path: str | None) -> None:
    async def story() -> None:
        async with Deduplicator(path) as dedup:
            working = asyncio.Event()
            tries = 0

            @dedup.once
            async def bill(_one: StoredMessage) -> str:
                nonlocal tries
                tries += 1
                working.set()
                if tries == 1:
                    await asyncio.Event().wait()
                return "billed"

            first = asyncio.ensure_future(bill(message("a")))
            await working.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            early = asyncio.ensure_future(bill(message("b")))
            await asyncio.sleep(0)  # it has begun, and may wait for its claim
            early.cancel()
            await asyncio.gather(early, return_exceptions=True)
            assert [await bill(message("a")), tries >= 2] == ["billed", True]
            # A claim in memory waits for nothing: its handler had ended before.
            assert await bill(message("b")) == (None if path is None else "billed")

    asyncio.run(story())


def test_threads_work_on_each_message_once(path: str | None) -> None:
    """Every copy ends: done by one thread, and by the others after a while."""
    with BlockingDeduplicator(path) as dedup, ThreadWorkers(4, name="handlers") as workers:
        given: list[str] = []

        @dedup.once
        def bill(one: StoredMessage) -> None:
            given.append(one.message_id)

        def deliver(number: int) -> None:
            while True:
                try:
                    return bill(message(str(number)))
                except RetryLater:
                    pass

        for done in [workers.submit(deliver, number % 25) for number in range(100)]:
            done.result()
        assert sorted(given) == sorted(map(str, range(25)))


_PROCESS = """
import sys
from orbitmq.client.consumer.deduplication.blocking import Deduplicator
from tests.client.consumer.deduplication.messages import message

dedup = Deduplicator(sys.argv[1], lease_ms=3_600_000)

@dedup.once
def bill(one):
    print("working", flush=True)
    sys.stdin.readline()

bill(message("a"))
"""


def test_another_process_waits_for_the_one_that_works(tmp_path: Path) -> None:
    path = str(tmp_path / "seen.db")
    command = [sys.executable, "-c", _PROCESS, path]
    with (
        subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as other,
        BlockingDeduplicator(path, lease_ms=3_600_000) as dedup,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "working\n"
        with pytest.raises(RetryLater):
            dedup.is_new(message("a"))
        other.stdin.write("\n")
        other.stdin.close()
        assert other.wait() == 0
        assert not dedup.is_new(message("a"))


def test_a_key_is_a_property_or_a_function_and_counts_within_a_topic() -> None:
    for key in ("order", lambda one: one.properties.get("order")):
        with BlockingDeduplicator(key=key) as dedup:
            assert dedup.is_new(message("a", order="42"))
            dedup.mark(message("a", order="42"))
            assert not dedup.is_new(message("b", order="42"))
            assert dedup.is_new(message("b", order="43"))
            assert dedup.is_new(message("b", order="42", topic="refunds"))
            assert dedup.is_new(message("a"))  # without the key: by its id


def test_a_retry_has_the_id_of_its_origin() -> None:
    with BlockingDeduplicator() as dedup:
        dedup.mark(message(offset=1))  # of a producer that sets no unique id
        origin = message(offset=1).offset_message_id
        assert not dedup.is_new(message(offset=7, ORIGIN_MESSAGE_ID=origin))
        dedup.mark(message("a", offset=2))
        assert not dedup.is_new(message("a", offset=8, ORIGIN_MESSAGE_ID="other"))


def test_a_function_that_returns_a_coroutine_is_refused() -> None:
    async def bill(_one: StoredMessage) -> None:
        raise AssertionError("it must not run")

    def start(one: StoredMessage) -> object:
        return bill(one)

    with BlockingDeduplicator() as dedup:
        handler = dedup.once(start)
        for _ in range(2):
            with pytest.raises(InvalidInput, match="write it as 'async def'"):
                handler(message("a"))


@pytest.mark.parametrize("name", ["window_ms", "lease_ms", "entries_max"])
def test_limits_are_checked(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is 0; it must be at least 1"):
        Deduplicator(**{name: 0})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="path is empty; leave it out to use memory"):
        Deduplicator("")


def test_a_consumer_hands_over_what_was_sent_twice_once(path: str | None) -> None:
    """The second copy has an offset of its own, and the id of the first."""

    async def story() -> None:
        async with EmbeddedCluster() as cluster, Deduplicator(path) as dedup:
            consumer = Consumer(
                "billing", nameserver=cluster.nameserver, subscribe="orders", consume_from="first"
            )
            billed: list[bytes] = []
            ended = asyncio.Event()

            @consumer.on_message
            @dedup.once
            async def bill(one: StoredMessage) -> None:
                billed.append(one.body)
                if one.body == b"last":
                    ended.set()

            async with Producer("shop", nameserver=cluster.nameserver) as producer:
                queue = (await producer.send(Message("orders", b"paid", message_id="A"))).queue
                for _ in range(2):
                    await producer.send(Message("orders", b"paid", message_id="A"), queue=queue)
                await producer.send(Message("orders", b"last"), queue=queue)
            async with consumer:
                await asyncio.wait_for(ended.wait(), 30)
            assert sorted(billed) == [b"last", b"paid"]
            assert len(cluster.messages("orders")) == 4

    asyncio.run(story())
