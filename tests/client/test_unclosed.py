"""A producer that is never closed causes a ResourceWarning."""

import asyncio
import gc
import os
import subprocess
import sys
import warnings

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.unclosed import warn_unless_closed
from orbitmq.message.model import Message
from tests.client.post import open_post
from tests.client.scene import Scene, play

UNCLOSED = "producer billing was not closed; call close\\(\\), or use 'async with'"


async def started(scene: Scene) -> Producer:
    await open_post(scene)
    producer = Producer("billing", client=scene.settings(keep_open_ms=0), machine=scene.machine)
    await producer.start()
    await producer.send(Message("orders", b"paid"))
    return producer


def test_a_loop_that_ends_before_its_producer_is_closed_warns() -> None:
    kept = []

    async def story(scene: Scene) -> None:
        kept.append(await started(scene))

    with pytest.warns(ResourceWarning, match=UNCLOSED) as warned:
        play(story)
    assert len(warned) == 1
    with warnings.catch_warnings(action="error"):  # once is enough
        kept.clear()
        gc.collect()


def test_a_producer_that_is_dropped_warns_while_the_loop_runs() -> None:
    async def story(scene: Scene) -> None:
        await started(scene)
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            gc.collect()

    play(story)


def test_a_closed_producer_causes_no_warning() -> None:
    async def story(scene: Scene) -> None:
        await (await started(scene)).close()

    with warnings.catch_warnings(action="error"):
        play(story)
        gc.collect()


def test_a_failed_start_causes_no_warning() -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(Exception, match="NAMESRV_ADDR"):
            await Producer("billing", machine=scene.machine).start()

    with warnings.catch_warnings(action="error"):
        play(story)
        gc.collect()


def test_a_task_that_closes_its_producer_when_it_is_cancelled_causes_no_warning() -> None:
    tasks = []

    async def story(scene: Scene) -> None:
        await open_post(scene)
        client = scene.settings(keep_open_ms=0)
        ready = asyncio.Event()

        async def work() -> None:
            async with Producer("billing", client=client, machine=scene.machine):
                ready.set()
                await asyncio.Event().wait()

        tasks.append(asyncio.create_task(work()))
        await ready.wait()

    with warnings.catch_warnings(action="error"):
        play(story)
        gc.collect()
    assert tasks[0].cancelled()


def test_the_end_of_the_program_warns_of_a_producer_whose_loop_never_ended() -> None:
    program = (
        "import asyncio\n"
        "from orbitmq.client.unclosed import warn_unless_closed\n"
        "class Producer: pass\n"
        "producer = Producer()\n"
        "watch = warn_unless_closed(producer, 'producer billing')\n"
        "asyncio.new_event_loop().run_until_complete(watch.__aenter__())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "ResourceWarning: producer billing was not closed" in ran.stderr


def test_a_forked_child_that_drops_the_producer_does_not_warn() -> None:
    class Thing:
        pass

    async def main() -> None:
        thing = Thing()
        async with warn_unless_closed(thing, "thing"):
            if (child := os.fork()) == 0:
                with warnings.catch_warnings(record=True, action="always") as caught:
                    del thing
                    gc.collect()
                os._exit(len(caught))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222

    asyncio.run(main())
