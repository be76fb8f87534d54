import asyncio
import logging
from concurrent.futures import Future
from threading import current_thread

import pytest

from orbitmq.client.core.second_loop import SameLoop, SecondLoop, ThreadLoop, second_loop
from orbitmq.errors import NotRunning


async def thread_name() -> str:
    return current_thread().name


def test_work_runs_on_a_thread_of_its_own_and_calls_back() -> None:
    async def main() -> None:
        second = second_loop()
        assert await second.run(thread_name) == "orbitmq-membership"
        called: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

        def there() -> None:
            name = current_thread().name
            second.call_back(lambda: called.set_result((name, current_thread().name)))

        second.call(there)
        assert await called == ("orbitmq-membership", "MainThread")
        await second.close()
        await second.close()

    asyncio.run(main())


def test_users_share_the_thread_and_it_ends_after_the_last() -> None:
    async def main() -> None:
        first, second = ThreadLoop(), ThreadLoop()
        assert first._thread is second._thread
        await first.close()
        assert await second.run(thread_name) == "orbitmq-membership"
        await second.close()
        await asyncio.to_thread(second._thread.join)
        with pytest.raises(NotRunning):
            await second.run(thread_name)
        second.call(lambda: None)  # dropped

    asyncio.run(main())


def test_an_error_goes_to_the_caller_and_one_of_a_call_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise OSError("no disk")

    async def main() -> None:
        second = second_loop()
        with pytest.raises(OSError, match="no disk"):
            await second.run(fail)
        second.call(lambda: 1 / 0)
        assert await second.run(thread_name) == "orbitmq-membership"
        await second.close()

    asyncio.run(main())
    assert "failed on the second loop" in caplog.text


def test_cancelling_the_caller_cancels_the_work() -> None:
    begun: Future[bool] = Future()
    cancelled: Future[bool] = Future()

    async def forever() -> None:
        begun.set_result(True)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set_result(True)
            raise

    async def main() -> None:
        second = second_loop()
        waiting = asyncio.create_task(second.run(forever))
        await asyncio.wrap_future(begun)
        waiting.cancel()
        assert await asyncio.wrap_future(cancelled)
        await second.close()

    asyncio.run(main())


def test_a_call_back_to_a_closed_loop_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> SecondLoop:
        second = second_loop()
        await second.close()
        return second

    second = asyncio.run(main())
    with caplog.at_level(logging.DEBUG, "orbitmq.client"):
        second.call_back(lambda: None)
    assert "the user's loop is closed" in caplog.text


def test_the_same_loop_does_everything_on_the_users() -> None:
    async def main() -> None:
        second, called = SameLoop(), asyncio.Event()
        assert await second.run(thread_name) == "MainThread"
        second.call(lambda: second.call_back(called.set))
        await called.wait()
        await second.close()

    asyncio.run(main())
