"""Functions of users: where they run, and what comes back."""

import asyncio
import functools
import threading

import pytest

from orbitmq.client.user_code import UserCode
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.threads import ThreadWorkers


def run(function: object) -> object:
    async def main(_clock: VirtualClock) -> object:
        return await UserCode(InlineWorkers()).call(function, 20)  # type: ignore[arg-type]

    return run_virtual(main)


def double(number: int) -> int:
    return 2 * number


async def double_later(number: int) -> int:
    return 2 * number


class Doubler:
    async def __call__(self, number: int) -> int:
        return 2 * number

    def doubled(self, number: int) -> int:
        return 2 * number


@pytest.mark.parametrize(
    "function",
    [
        double,
        double_later,
        functools.partial(double_later),
        Doubler(),
        Doubler().doubled,
        lambda number: double_later(number + 0),  # plain, and yet it returns an awaitable
    ],
)
def test_any_kind_of_function_gives_its_result(function: object) -> None:
    assert run(function) == 40


@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_what_it_raises_is_raised(kind: type[Exception]) -> None:
    def fail(_number: int) -> int:
        raise kind("no")

    with pytest.raises(kind):
        run(fail)


def test_a_plain_function_does_not_hold_up_the_loop() -> None:
    async def main() -> int:
        with ThreadWorkers(1, name="user") as workers:
            return await UserCode(workers).call(lambda _: threading.get_ident(), None)

    assert asyncio.run(main()) != threading.get_ident()


def test_a_coroutine_function_runs_on_the_loop() -> None:
    async def here(_number: int) -> int:
        return threading.get_ident()

    assert run(here) == threading.get_ident()
