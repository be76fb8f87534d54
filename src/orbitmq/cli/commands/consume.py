"""``orbitmq consume``: print the messages of a topic.

By default no group's offset changes, and other consumers get the same messages. With ``--group`` it
is a member of that group: it gets its share of the queues, and commits what was printed.

Messages of a queue keep their order; between queues they come as brokers answer. What a broker
answered is flushed as soon as it is written.
"""

import argparse
import asyncio
import os
import re
import stat
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import BinaryIO, Final

from orbitmq.cli.cluster import add_client_options, add_json_option, client_settings, on_a_loop
from orbitmq.cli.commands.consume_format import Write, writer
from orbitmq.cli.problems import tell_missing
from orbitmq.cli.render import hint
from orbitmq.cli.times import past_ms
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.pull import PullConsumer
from orbitmq.client.consumer.subscriptions import Selection, Sql, subscription_data
from orbitmq.client.consumer.tail import Tail, readable_queues
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import InvalidInput
from orbitmq.message.model import MessageQueue, StoredMessage

__all__ = ["add_arguments"]

_OFFSET: Final = re.compile(r"-?\d{1,19}", re.ASCII)
"""From the beginning of a queue; from its end with a minus, as in kcat and rpk."""
_BEGINNING, _END = "beginning", "end"
_POLL_MS: Final = 1_000
_POLLED_MAX: Final = 256

_EPILOG: Final = r"""
a template is text with these fields, and \n \r \t \0 \\ as in C:
  %s body   %S its size  %k keys   %g tag     %h properties  %i unique id
  %t topic  %b broker    %p queue  %o offset  %T store time  %% percent sign

examples:
  orbitmq consume orders                            new messages, until ^C
  orbitmq consume orders --from beginning --until-caught-up
  orbitmq consume orders --from -10                 also the last ten per queue
  orbitmq consume orders --from 10m --tags 'paid || late' --json
  orbitmq consume orders --from 2026-11-15T09:30 --count 100
  orbitmq consume orders --queue broker-a/3 --from 4200 --count 1 --format raw
  orbitmq consume orders --group audit --from beginning --count 10
  orbitmq consume orders --from beginning --format '%p %o %k %s\n' | head -1

Exit status: 0 the messages asked for were printed, 1 the end was reached and
none was found, 2 an error, 130 interrupted.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq consume``."""
    command.description = (
        "Print the messages of a topic: new ones as they arrive, or from a place on.\n"
        "Without --group no consumer group is used, and no offset changes."
    )
    command.epilog = _EPILOG
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("topic", metavar="TOPIC")
    command.add_argument(
        "--from",
        dest="start",
        metavar="PLACE",
        default=_END,
        help="beginning, end (the default), an offset, -N for the last N messages of each queue, a "
        "time such as 2026-11-15T09:30, or how long ago: 30s, 10m, 2h, 1d",
    )
    command.add_argument("--count", metavar="N", type=_count, help="stop after N messages")
    command.add_argument(
        "--until-caught-up",
        action="store_true",
        help="stop at what was the end of the queues when the command began",
    )
    command.add_argument(
        "--queue",
        metavar="QUEUE",
        action="append",
        help="only this queue: BROKER/ID, or ID on each broker; may be repeated",
    )
    filters = command.add_mutually_exclusive_group()
    filters.add_argument("--tags", metavar="TAGS", help="only these tags, such as 'paid || late'")
    filters.add_argument(
        "--sql", metavar="FILTER", help="only what matches, such as 'amount > 10' (SQL92)"
    )
    command.add_argument("--key", help="only messages with this key")
    command.add_argument(
        "--group",
        help="be a member of this group, and commit what was printed; --from counts if the group "
        "is new",
    )
    command.add_argument(
        "--format",
        metavar="FORMAT",
        default="text",
        help="text (the default; control characters are escaped), json (a line per message), hex, "
        "raw (bodies, byte for byte), or a template",
    )
    add_client_options(command)
    add_json_option(command, "a line of JSON per message, as --format json")
    command.set_defaults(run=_run)


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of messages")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    write = writer("json" if arguments.json else arguments.format)
    selection: Selection = arguments.tags or "*"
    if arguments.sql is not None:
        selection = Sql(arguments.sql)
    subscription_data(arguments.topic, selection)  # raises for invalid tags
    _check_place(arguments.start)
    if arguments.group is not None and arguments.queue is not None:
        raise InvalidInput("--group shares all queues; leave out --queue", field="queue")
    settings = client_settings(arguments)
    return on_a_loop(_consume(arguments, settings, selection, write))


def _check_place(place: str) -> None:
    if place in (_BEGINNING, _END) or _OFFSET.fullmatch(place):
        return
    try:
        past_ms(place, "from")
    except InvalidInput as error:
        raise InvalidInput(
            f"--from {place[:40]!r} is not beginning, end, an offset, -N for the last N, a time "
            "such as 2026-11-15T09:30, or a duration such as 2h",
            field="from",
        ) from error


async def _consume(
    arguments: argparse.Namespace, settings: ClientSettings, selection: Selection, write: Write
) -> int:
    core = await ClientCore.acquire(settings)
    try:
        async with Admin(client=settings) as admin:
            queues = _chosen(arguments, await readable_queues(core, arguments.topic))
            end = {queue: await admin.max_offset(queue) for queue in queues}
            read = _Read(end if arguments.until_caught_up else None, selection, arguments.count)
            if arguments.group is not None:
                batches = read.as_member(arguments, settings)
            else:
                start = {one: await _start(admin, one, arguments.start, end) for one in queues}
                if arguments.start == _END and not arguments.until_caught_up:
                    hint("new messages, until ^C; --from beginning prints those that are there")
                is_whole = arguments.queue is None
                batches = read.from_offsets(core, start, arguments.topic if is_whole else None)
        out = sys.stdout.buffer
        printed = await _while_read(_print(batches, arguments.key, read, write, out), out)
    finally:
        await core.release()
    return 0 if printed else tell_missing(_nothing(arguments), as_json=arguments.json)


def _nothing(arguments: argparse.Namespace) -> str:
    """Return what is said when the end was reached and nothing was printed."""
    topic, place = arguments.topic, arguments.start
    for option in ("tags", "sql", "key"):
        if (chosen := getattr(arguments, option)) is not None:
            return f"no message of topic {topic} from {place} to its end has --{option} {chosen!r}"
    if arguments.group is not None:
        return f"group {arguments.group} has consumed topic {topic} to its end"
    advice = "; --from beginning prints those that it has" if place == _END else ""
    return f"topic {topic} has no message from {place} on{advice}"


class _Read:
    """How much is read, and the two ways to read it.

    Attributes:
        left: how many messages are still wanted; None for all.
        is_printed: whether the messages given last were printed.
    """

    def __init__(
        self, end: Mapping[MessageQueue, int] | None, selection: Selection, left: int | None
    ) -> None:
        self._end = end
        self._selection = selection
        self.left = left
        self.is_printed = False

    def from_offsets(
        self, core: ClientCore, start: Mapping[MessageQueue, int], topic: str | None
    ) -> AsyncGenerator[list[StoredMessage], None]:
        """Return messages without a group, of new queues of ``topic`` too."""
        return Tail(core, start, end=self._end, topic=topic, selection=self._selection).batches()

    async def as_member(
        self, arguments: argparse.Namespace, settings: ClientSettings
    ) -> AsyncGenerator[list[StoredMessage], None]:
        """Yield messages of a group, and commit those that were printed."""
        async with PullConsumer(
            arguments.group,
            client=settings,
            auto_commit=False,
            consume_from=_consume_from(arguments.start),
        ) as consumer:
            await consumer.subscribe(arguments.topic, self._selection)
            while True:
                most = _POLLED_MAX if self.left is None else min(self.left, _POLLED_MAX)
                messages = await consumer.poll(timeout_ms=_POLL_MS, max_messages=most)
                if messages:
                    self.is_printed = False
                    try:
                        yield messages
                    finally:
                        if self.is_printed:
                            await consumer.commit()
                elif await self._is_caught_up(consumer):
                    return

    async def _is_caught_up(self, consumer: PullConsumer) -> bool:
        if self._end is None:
            return False
        mine = consumer.assignment
        return all([await consumer.position(one) >= self._end.get(one, 0) for one in mine])


async def _while_read(work: Coroutine[object, object, int], stream: BinaryIO) -> int:
    """Do work that writes to a stream; raise BrokenPipeError when a pipe has no reader any more.

    A write would raise that too, but with ``| head`` there may be none for a long time.
    """
    task = asyncio.ensure_future(work)
    if not _is_pipe(stream):
        return await task
    loop = asyncio.get_running_loop()
    unread = asyncio.Event()

    def stop() -> None:
        loop.remove_reader(stream)
        unread.set()
        task.cancel()

    loop.add_reader(stream, stop)  # the end for writing has an error to read, and nothing else
    try:
        return await task
    except asyncio.CancelledError:
        if unread.is_set():
            raise BrokenPipeError from None
        raise
    finally:
        loop.remove_reader(stream)


def _is_pipe(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except OSError:  # a stream of a program, without a descriptor
        return False


async def _print(
    batches: AsyncGenerator[list[StoredMessage], None],
    key: str | None,
    read: _Read,
    write: Write,
    stream: BinaryIO,
) -> int:
    """Write messages until there are no more or enough; return how many."""
    printed = 0
    async with aclosing(batches):
        async for messages in batches:
            wanted = [one for one in messages if key is None or key in one.keys][: read.left]
            stream.write(b"".join(map(write, wanted)))
            stream.flush()
            read.is_printed = True
            printed += len(wanted)
            if read.left is not None:
                read.left -= len(wanted)
                if not read.left:
                    break
    return printed


def _chosen(
    arguments: argparse.Namespace, queues: tuple[MessageQueue, ...]
) -> tuple[MessageQueue, ...]:
    """Return the queues that ``--queue`` names; all by default."""
    if not queues:
        raise InvalidInput(
            f"topic {arguments.topic} has no queue to read; give it read permission (perm 6, or 4)",
            field="topic",
        )
    if arguments.queue is None:
        return queues
    found: dict[MessageQueue, None] = {}
    for name in arguments.queue:
        broker, _, number = name.rpartition("/")
        fitting = [
            queue
            for queue in queues
            if str(queue.queue_id) == number and broker in ("", queue.broker_name)
        ]
        if not fitting:
            raise InvalidInput(
                f"topic {queues[0].topic} has no queue {name[:60]!r}; name one as "
                f"{queues[0].broker_name}/{queues[0].queue_id}",
                field="queue",
            )
        found.update(dict.fromkeys(fitting))
    return tuple(found)


async def _start(
    admin: Admin, queue: MessageQueue, place: str, ends: Mapping[MessageQueue, int]
) -> int:
    """Return the offset in a queue that a place means; it is one that the queue has, or its end."""
    end = ends[queue]
    if place == _END:
        return end
    begin = await admin.min_offset(queue)
    if place == _BEGINNING:
        return begin
    if _OFFSET.fullmatch(place):
        offset = end + int(place) if place.startswith("-") else int(place)
        return min(max(offset, begin), end)
    return await admin.search_offset(queue, past_ms(place, "from"))


def _consume_from(place: str) -> str | int:
    """Return where a new group begins."""
    if _OFFSET.fullmatch(place):
        raise InvalidInput(
            "--from is an offset, and --group shares all queues; give a time, or leave one out",
            field="from",
        )
    named = {_BEGINNING: "first", _END: "last"}
    return named[place] if place in named else past_ms(place, "from")
