"""Many clients of a running broker, for tests over loopback: what they need of the machine."""

import asyncio
import os
import resource
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import pytest

from orbitmq.net.event_loop import new_event_loop
from orbitmq.wire.headers.admin import CreateTopic

PATIENCE_MS: Final = 60_000
"""How long an answer may take on a busy machine. That it comes is tested, not when."""

CROWDED: Final = {
    # With Java's sizes ten thousand queues are 60 GB.
    "mappedFileSizeConsumeQueue": str(20 * 100),
    # A machine with other work may take its time; that nobody is forgotten is tested.
    "brokerFastFailureEnable": "false",
}


def need_descriptors(count: int) -> None:
    """Let this process have so many files open, or skip the test and say what it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"needs {count} open files, and the limit is {hard}: ulimit -Hn {count}")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def open_files() -> Counter[str]:
    """Return the files and sockets that this process has open, and how often each."""
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself is closed again
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
    return found


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` on the loop that servers run on."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


def topic_of(name: str, queues: int) -> CreateTopic:
    """Return the header of a topic's creation."""
    return CreateTopic(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
