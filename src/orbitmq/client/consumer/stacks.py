"""What a consumer is doing, as text for operators: threads and tasks with their stacks.

It is what ``mqadmin consumerStatus -s`` shows; Java sends the stacks of its threads.

::

    "MainThread" id=140
      File "shop.py", line 12, in charge
        response = bank.transfer(message.body)

    task "fetch orders" waits at
      File "fetcher.py", line 80, in run
"""

import asyncio
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from orbitmq.threads import running_threads

__all__ = ["stacks_text"]

_FRAMES_MAX: Final = 40
_TASKS_MAX: Final = 200
"""The text of more would take seconds, and is never read to its end."""


def stacks_text(loop: asyncio.AbstractEventLoop, loop_thread: int) -> str:
    """Return the stacks of all threads and of the tasks of a loop, that of its thread first.

    May be called by any thread: it shows what the others do although they don't answer.
    """
    threads = sorted(running_threads(), key=lambda thread: thread.id != loop_thread)
    parts = []
    for thread in threads:
        role = ", the loop of the consumer" if thread.id == loop_thread else ""
        stack = traceback.format_stack(thread.frame, _FRAMES_MAX)
        parts.append(f'"{thread.name}" id={thread.id}{role}\n{"".join(stack)}')
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    parts += [_task_text(task) for task in tasks[:_TASKS_MAX]]
    if len(tasks) > _TASKS_MAX:
        parts.append(f"and {len(tasks) - _TASKS_MAX} more tasks\n")
    return "\n".join(parts)


def _task_text(task: asyncio.Task[Any]) -> str:
    frames = [(frame, frame.f_lineno) for frame in _frames(task.get_coro())]
    stack = traceback.StackSummary.extract(iter(frames[-_FRAMES_MAX:])).format()
    return f'task "{task.get_name()}" waits at\n{"".join(stack)}'


def _frames(waiting: object) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine and of those that it awaits, the outermost first.

    ``Task.get_stack`` has the first alone.
    """
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if isinstance(frame, FrameType):
            yield frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
