"""The user's function."""

import asyncio

import pytest

from orbitmq.client.consumer.delivery.handler import Handler, RetryLater
from orbitmq.errors import InvalidInput
from orbitmq.message.model import StoredMessage
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.threads import ThreadWorkers
from tests.client.stored import a_stored_message


@pytest.mark.parametrize("takes_list", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_it_is_called_once_for_operators(takes_list: bool, is_async: bool) -> None:
    got: list[object] = []

    async def bill(given: object) -> None:
        got.append(given)

    handler = Handler(
        bill if is_async else got.append, takes_list=takes_list, workers=InlineWorkers()
    )
    assert handler.is_async is is_async
    message: StoredMessage = a_stored_message()
    asyncio.run(handler.call([message]))
    assert got == [[message] if takes_list else message]


def test_a_level_is_a_number() -> None:
    with pytest.raises(InvalidInput, match="delay_level"):
        RetryLater(delay_level="5")  # type: ignore[arg-type]


def test_a_handler_knows_its_threads() -> None:
    workers = ThreadWorkers(1, name="test")
    handler = Handler(print, takes_list=False, workers=workers)
    other = Handler(print, takes_list=False, workers=workers)
    assert not handler.has_thread

    def work() -> tuple[bool, bool]:
        handler.take_thread()
        return handler.has_thread, other.has_thread

    assert workers.submit(work).result() == (True, False)
    assert not handler.has_thread
    workers.close()
