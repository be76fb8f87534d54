import asyncio

from orbitmq.client.consumer.stacks import stacks_text
from orbitmq.threads import Future, ThreadWorkers, thread_id


async def inner(reached: asyncio.Event) -> None:
    reached.set()
    await asyncio.Event().wait()


async def outer(reached: asyncio.Event) -> None:
    await inner(reached)


def blocked_in_here(started: Future[None], end: Future[None]) -> None:
    started.set_result(None)
    end.result()


def test_tasks_are_shown_with_what_they_wait_for() -> None:
    async def story() -> str:
        reached = asyncio.Event()
        task = asyncio.create_task(outer(reached), name="fetch orders")
        await reached.wait()
        text = stacks_text(asyncio.get_running_loop(), thread_id())
        task.cancel()
        return text

    text = asyncio.run(story())
    shown = text[text.index('task "fetch orders" waits at') :]
    assert shown.index("in outer") < shown.index("in inner")
    assert "await asyncio.Event().wait()" in shown


def test_the_thread_of_the_loop_comes_first() -> None:
    async def story(thread: int) -> str:
        return stacks_text(asyncio.get_running_loop(), thread)

    with ThreadWorkers(1, name="user-code") as workers:
        started, end = Future[None](), Future[None]()
        ident = workers.submit(thread_id).result()
        done = workers.submit(blocked_in_here, started, end)
        started.result()
        text = asyncio.run(story(ident))
        end.set_result(None)
        done.result()
    first, *others = text.split("\n\n")
    assert first.startswith(f'"user-code_0" id={ident}, the loop of the consumer\n')
    assert "in blocked_in_here\n    end.result()" in first
    assert any(part.startswith('"MainThread"') for part in others)


def test_many_tasks_are_counted() -> None:
    async def story() -> str:
        tasks = [asyncio.create_task(asyncio.sleep(100)) for _ in range(250)]
        await asyncio.sleep(0)
        text = stacks_text(asyncio.get_running_loop(), thread_id())
        for task in tasks:
            task.cancel()
        return text

    assert asyncio.run(story()).endswith("and 51 more tasks\n")
