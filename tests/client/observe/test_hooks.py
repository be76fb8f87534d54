import asyncio
import logging

import pytest

from orbitmq.client.observe.hooks import Hooks, SendContext, SendHook, SendMode, kind_of
from orbitmq.errors import InvalidInput, SendForbidden, SendRefused
from orbitmq.message.model import Message, MessageQueue
from orbitmq.message.properties import TRANSACTION_PREPARED
from orbitmq.message.trace import MessageKind
from tests.client.post import open_post, open_producer, refuse, say_nothing
from tests.client.scene import BROKER_A, Scene, play

MESSAGE = Message("orders", b"paid")


class Noting(SendHook):
    """Keeps a copy of what it is told."""

    def __init__(self) -> None:
        self.began: list[SendContext] = []
        self.ended: list[SendContext] = []

    def before(self, context: SendContext) -> None:
        assert context.receipt is None
        context.notes["seen"] = True
        self.began.append(context)

    def after(self, context: SendContext) -> None:
        assert context.notes["seen"]
        self.ended.append(context)


class Faulty(SendHook):
    def before(self, context: SendContext) -> None:
        raise RuntimeError("before")

    def after(self, context: SendContext) -> None:
        raise RuntimeError("after")


class Forbidding(SendHook):
    def check(self, context: SendContext) -> None:
        raise PermissionError("not on Sundays")


def test_hooks_see_a_send_and_its_outcome() -> None:
    async def story(scene: Scene) -> Noting:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        hook = Noting()
        producer.add_hook(hook)
        receipt = await producer.send(MESSAGE)
        assert hook.ended[0].receipt is receipt
        producer.remove_hook(hook)
        await producer.send(MESSAGE)
        return hook

    hook = play(story)
    assert len(hook.began) == len(hook.ended) == 1
    told = hook.ended[0]
    assert told is hook.began[0]
    assert (told.group, told.mode, told.namespace) == ("billing", SendMode.ANSWERED, "")
    assert (told.message, told.messages, told.kind) == (MESSAGE, (MESSAGE,), MessageKind.NORMAL)
    assert told.receipt is not None
    assert (told.send_id, told.queue) == (told.receipt.message_id, told.receipt.queue)
    assert (told.broker_address, told.error) == (str(BROKER_A), None)


def test_hooks_see_the_namespace() -> None:
    async def story(scene: Scene) -> Noting:
        await open_post(scene, "a", topic="shop%orders")
        producer = await open_producer(scene, namespace="shop")
        hook = Noting()
        producer.add_hook(hook)
        await producer.send(MESSAGE)
        return hook

    (told,) = play(story).ended
    assert (told.namespace, told.message.topic) == ("shop", "orders")


def test_hooks_see_failures_and_cancellations() -> None:
    async def story(scene: Scene) -> Noting:
        post = await open_post(scene, "a")
        post.scripts["a"] = [refuse(13), say_nothing]
        producer = await open_producer(scene)
        hook = Noting()
        producer.add_hook(hook)
        with pytest.raises(SendRefused):
            await producer.send(MESSAGE)
        sending = asyncio.create_task(producer.send(MESSAGE))
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return hook

    refused, cancelled = play(story).ended
    assert isinstance(refused.error, SendRefused)
    assert refused.queue == refused.error.queue
    assert isinstance(cancelled.error, asyncio.CancelledError)


def test_a_hook_that_raises_is_logged_and_the_send_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        last = Noting()
        for hook in (Faulty(), last):
            producer.add_hook(hook)
        await producer.send(MESSAGE)
        assert len(last.ended) == 1

    with caplog.at_level(logging.ERROR, logger="orbitmq.client"):
        play(story)
    assert [("Faulty raised an error in" in line, "paid" in line) for line in caplog.messages] == [
        (True, False),
        (True, False),
    ]


def test_a_hook_may_forbid_a_send() -> None:
    async def story(scene: Scene) -> None:
        post = await open_post(scene, "a")
        producer = await open_producer(scene)
        hook = Noting()
        producer.add_hook(hook)
        producer.add_hook(Forbidding())
        with pytest.raises(SendForbidden, match="not on Sundays") as caught:
            await producer.send(MESSAGE)
        assert isinstance(caught.value.__cause__, PermissionError)
        with pytest.raises(SendForbidden):
            await producer.send_oneway(MESSAGE)
        assert (post.sent, hook.began) == ([], [])

    play(story)


def test_oneway_sends_and_batches_have_hooks_too() -> None:
    async def story(scene: Scene) -> Noting:
        await open_post(scene, "a")
        producer = await open_producer(scene)
        hook = Noting()
        producer.add_hook(hook)
        await producer.send_oneway(MESSAGE, queue=MessageQueue("orders", "broker-a", 1))
        await producer.send_many([MESSAGE, MESSAGE])
        return hook

    oneway, batch = play(story).ended
    assert (oneway.mode, oneway.receipt, oneway.error) == (SendMode.ONEWAY, None, None)
    assert oneway.queue == MessageQueue("orders", "broker-a", 1)
    assert batch.messages == (MESSAGE, MESSAGE)


def test_a_hook_that_was_not_added_can_t_be_removed() -> None:
    hooks = Hooks()
    with pytest.raises(ValueError, match="not in list"):
        hooks.remove(SendHook())


def test_the_kind_of_a_message_follows_from_its_fields_and_marks() -> None:
    assert kind_of(MESSAGE, {}) is MessageKind.NORMAL
    assert kind_of(MESSAGE, {TRANSACTION_PREPARED: "true"}) is MessageKind.HALF
    assert kind_of(Message("orders", b"x", delay_level=2), {}) is MessageKind.DELAYED


@pytest.mark.parametrize("hook", [object(), None, print, Noting])
def test_what_is_no_hook_is_refused_and_not_each_send_after_it(hook: object) -> None:
    hooks = Hooks()
    with pytest.raises(InvalidInput) as raised:
        hooks.add(hook)  # type: ignore[arg-type]
    assert raised.value.field == "hook"
    assert not hooks.are_set


@pytest.mark.parametrize("method", ["check", "before", "after"])
def test_a_hook_with_a_coroutine_function_is_refused(method: str) -> None:
    async def forbid(_self: SendHook, _context: SendContext) -> None:
        raise PermissionError("secrets are not sent")

    hooks = Hooks()
    hook = type("Waiting", (SendHook,), {method: forbid})()
    with pytest.raises(InvalidInput, match=f"{method} of hook Waiting is a coroutine function"):
        hooks.add(hook)
    assert not hooks.are_set
