import logging

import pytest

from orbitmq import ConsumeContext, ConsumeHook
from orbitmq.client.observe.consume_hooks import ConsumeHooks
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)


def a_context() -> ConsumeContext:
    return ConsumeContext(group="billing", queue=QUEUE, messages=(), began_ms=1_000)


class Noting(ConsumeHook):
    def __init__(self) -> None:
        self.calls: list[tuple[str, ConsumeContext]] = []

    def before(self, context: ConsumeContext) -> None:
        self.calls.append(("before", context))

    def after(self, context: ConsumeContext) -> None:
        self.calls.append(("after", context))


class Faulty(ConsumeHook):
    def before(self, context: ConsumeContext) -> None:
        raise RuntimeError("before")

    def after(self, context: ConsumeContext) -> None:
        raise RuntimeError("after")


def test_hooks_are_called_in_order_and_share_the_context() -> None:
    hooks = ConsumeHooks()
    assert not hooks
    first, second = Noting(), Noting()
    hooks.add(first)
    hooks.add(second)
    assert hooks
    context = a_context()
    hooks.before(context)
    hooks.after(context)
    assert first.calls == second.calls == [("before", context), ("after", context)]
    hooks.remove(first)
    hooks.before(context)
    assert (len(first.calls), len(second.calls)) == (2, 3)
    hooks.remove(second)
    assert not hooks


def test_an_error_of_a_hook_is_logged_and_the_others_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks, noting = ConsumeHooks(), Noting()
    hooks.add(Faulty())
    hooks.add(noting)
    with caplog.at_level(logging.ERROR, "orbitmq.client"):
        hooks.before(a_context())
        hooks.after(a_context())
    assert [name for name, _ in noting.calls] == ["before", "after"]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert "hook Faulty raised an error in before" in caplog.text


def test_a_coroutine_function_is_refused() -> None:
    class Wrong(ConsumeHook):
        async def before(self, context: ConsumeContext) -> None:  # type: ignore[override]
            pass

    with pytest.raises(InvalidInput, match="hooks are not awaited"):
        ConsumeHooks().add(Wrong())


def test_something_that_is_no_hook_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"orbitmq\.ConsumeHook"):
        ConsumeHooks().add(print)  # type: ignore[arg-type]
