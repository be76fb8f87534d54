"""``orbitmq trace``: the history of one message: sent by whom, delivered to whom, and when."""

import argparse
from collections.abc import Iterator
from typing import Final

from msgspec.structs import asdict

from orbitmq.cli.asking import ask, described, fitted
from orbitmq.cli.cluster import add_client_options, add_json_option, print_found
from orbitmq.cli.problems import tell_missing
from orbitmq.cli.render import human_size, local_time
from orbitmq.cli.times import past_ms
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.tracks import MessageTrack
from orbitmq.client.observe.trace_timeline import MessageTrace, TraceEvent, TraceStep
from orbitmq.errors import InvalidInput, NotFound
from orbitmq.message.names import TRACE_TOPIC

__all__ = ["add_arguments", "trace_lines", "track_lines"]

_FOREVER_MS: Final = 2**63 - 1


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq trace``."""
    described(
        command,
        "Show the history of a message: sent, stored, delivered, consumed. It is made of what "
        "clients report that trace (trace=True, or enableTrace in Java), some seconds later. With "
        "--topic also which groups of the topic have consumed it, which brokers know without "
        "traces.",
        examples=[
            "trace 7F00000107B42A139A550EB9B1E80000",
            "trace 7F00000107B42A139A550EB9B1E80000 --topic orders",
            "trace --key o-42 --begin 2h",
        ],
        status="0 found, 1 no client reported on it, 2 the cluster can't be asked",
    )
    command.add_argument("id", metavar="ID", nargs="?", help="the unique id of the message")
    command.add_argument("--key", help="all messages with this key, instead of an id")
    command.add_argument(
        "--topic", help="the topic of the message, to see which groups consumed it"
    )
    command.add_argument(
        "--trace-topic",
        metavar="TOPIC",
        default=TRACE_TOPIC,
        help="where its clients report to (%(default)s)",
    )
    command.add_argument(
        "--begin", metavar="TIME", help="reported since this time, or since how long ago: 30s, 2h"
    )
    command.add_argument("--end", metavar="TIME", help="reported until this time")
    add_client_options(command)
    add_json_option(command)
    command.set_defaults(run=_run, late="id")


def _run(arguments: argparse.Namespace) -> int:
    if (arguments.id is None) == (arguments.key is None):
        raise InvalidInput("give either the ID of a message or --key", field="id")
    if arguments.topic is not None and arguments.id is None:
        raise InvalidInput("--topic is for one message; give its ID", field="topic")
    traces, tracks = ask(arguments, lambda admin: _asked(admin, arguments))
    as_json: dict[str, object] = {"traces": [_as_json(one) for one in traces]}
    if tracks is not None:
        as_json["groups"] = [asdict(one) for one in tracks]
    print_found(as_json, _lines(traces, tracks), as_json=arguments.json)
    if traces:
        return 0
    what = arguments.id or f"a message with key {arguments.key}"
    missing = (
        f"{arguments.trace_topic} has no trace of {what:.64}; check that its producer and its "
        "consumers trace"
    )
    return tell_missing(missing, as_json=arguments.json)


async def _asked(
    admin: Admin, arguments: argparse.Namespace
) -> tuple[list[MessageTrace], list[MessageTrack] | None]:
    begin_ms = 0 if arguments.begin is None else past_ms(arguments.begin, "begin")
    end_ms = _FOREVER_MS if arguments.end is None else past_ms(arguments.end, "end")
    tracks = None
    if arguments.topic is not None:
        tracks = await admin.message_track(arguments.topic, arguments.id)
    topic = arguments.trace_topic
    if arguments.id is None:
        traces = await admin.traces_by_key(
            arguments.key, trace_topic=topic, begin_ms=begin_ms, end_ms=end_ms
        )
        return traces, tracks
    try:
        trace = await admin.message_trace(
            arguments.id, trace_topic=topic, begin_ms=begin_ms, end_ms=end_ms
        )
    except NotFound:
        return [], tracks
    return [trace], tracks


def _as_json(trace: MessageTrace) -> dict[str, object]:
    events = [
        asdict(one) | {"outcome": None if one.outcome is None else one.outcome.name}
        for one in trace.events
    ]
    kind = None if trace.kind is None else trace.kind.name
    return asdict(trace) | {"kind": kind, "events": events}


def _lines(traces: list[MessageTrace], tracks: list[MessageTrack] | None) -> Iterator[str]:
    for number, one in enumerate(traces):
        if number:
            yield ""
        yield from trace_lines(one)
    if tracks is not None:
        if traces:
            yield ""
        yield from track_lines(tracks)


def trace_lines(trace: MessageTrace) -> Iterator[str]:
    """Yield what is printed for a message."""
    yield f"Message    {trace.message_id}"
    yield f"Topic      {trace.topic or '-'}"
    for head, text in (("Tags", trace.tags), ("Keys", " ".join(trace.keys))):
        if text:
            yield f"{head:<11}{text}"
    if trace.body_length is not None:
        kind = "" if trace.kind is None else f", {trace.kind.name.lower().replace('_', ' ')}"
        yield f"Body       {human_size(trace.body_length)}{kind}"
    yield ""
    yield from fitted(
        ("TIME", "WHAT", "GROUP", "AT", "AFTER", "TOOK"),
        [
            (
                _clock(one),
                _what(one),
                one.group or "-",
                one.client_host or "-",
                _span(one.latency_ms),
                _span(one.cost_ms),
            )
            for one in trace.events
        ],
        left=4,
        names=(2, 3),
    )


def _clock(event: TraceEvent) -> str:
    return f"{local_time(event.at_ms)[11:]}.{event.at_ms % 1000:03d}"


def _what(event: TraceEvent) -> str:
    words = ["stored, estimated" if event.is_estimated else event.step.value]
    if event.step is TraceStep.TRANSACTION_ENDED:
        words = [f"{(event.transaction_state or 'ended').lower().replace('_message', '')}"]
        words += ["on a check"] if event.from_check else []
    if event.outcome is not None and not event.is_success:
        words = [event.outcome.name.lower().replace("_", " ")]
    elif not event.is_success:
        words.append("failed")
    if event.reconsume_times:
        words.append(f"again ({event.reconsume_times})")
    return " ".join(words)


def _span(ms: int | None) -> str:
    return "-" if ms is None else f"{ms:,} ms"


def track_lines(tracks: list[MessageTrack]) -> list[str]:
    """Return which groups consumed a message."""
    if not tracks:
        return ["no group has an offset in the topic, or is subscribed to it"]
    rows = [(one.group, one.type.value.lower().replace("_", " "), one.remark) for one in tracks]
    return fitted(("GROUP", "STATE", "REMARK"), rows, left=3, names=(0, 2))
