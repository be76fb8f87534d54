"""``orbitmq group members`` and ``producers``: who is connected, and what a consumer is doing."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from orbitmq.cli.asking import add_command, ask, counted, fitted, queue_text, short_time
from orbitmq.cli.cluster import print_found
from orbitmq.cli.render import local_time
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.consumers import ConnectedClient, ConnectedProducer, ConsumerConnections
from orbitmq.errors import InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family
    from orbitmq.wire.bodies.running import ConsumerRunningInfo

__all__ = ["add_members", "members_lines", "running_lines"]

_HEADS: Final = ("MEMBER", "ADDRESS", "LANGUAGE", "VERSION")


def add_members(commands: "Family") -> None:
    """Add the commands about connected clients."""
    members = add_command(
        commands,
        "members",
        _members,
        "show the connected consumers of a group",
        about="With --client, what that consumer says about itself: queues, buffers, throughput.",
        examples=["group members billing", "group members billing --client 10.0.0.7@4711"],
        status="0 shown, 2 no consumer is connected, or a server can't be reached",
    )
    members.add_argument("group", metavar="GROUP")
    members.add_argument("--client", metavar="ID", help="ask this member what it is doing")
    members.add_argument(
        "--stack", action="store_true", help="with --client: the stacks of its threads too"
    )
    producers = add_command(
        commands,
        "producers",
        _producers,
        "show connected producers",
        about="With --topic, brokers of that topic are asked for one group; else all masters.",
        examples=["group producers", "group producers shop --topic orders"],
        status="0 shown, 2 no broker knows the group, or a server can't be reached",
    )
    producers.add_argument("group", metavar="GROUP", nargs="?", help="only this producer group")
    producers.add_argument("--topic", help="a topic that the group sends to")
    producers.set_defaults(late="group")


def _members(arguments: argparse.Namespace) -> int:
    if arguments.client is None:
        if arguments.stack:
            raise InvalidInput("--stack needs --client, the member to ask", field="client")
        connected = ask(arguments, lambda admin: admin.consumer_connections(arguments.group))
        print_found(_as_json(connected), members_lines(connected), as_json=arguments.json)
        return 0
    info = ask(
        arguments,
        lambda admin: admin.consumer_running_info(
            arguments.group, arguments.client, stack=arguments.stack
        ),
    )
    print_found(_running(info), running_lines(arguments.client, info), as_json=arguments.json)
    return 0


def _as_json(connected: ConsumerConnections) -> dict[str, object]:
    return {
        "group": connected.group,
        "consume_type": connected.consume_type,
        "message_model": connected.message_model,
        "consume_from": connected.consume_from,
        "subscriptions": {
            topic: one.sub_string for topic, one in sorted(connected.subscriptions.items())
        },
        "members": [asdict(one) for one in connected.clients],
    }


def members_lines(connected: ConsumerConnections) -> Iterator[str]:
    """Yield what ``members`` prints."""
    kinds = (connected.consume_type, connected.message_model, connected.consume_from)
    yield f"Group      {connected.group}"
    yield f"Consumes   {', '.join(one.lower() for one in kinds if one is not None)}"
    for topic, one in sorted(connected.subscriptions.items()):
        yield f"Subscribed {topic}: {one.sub_string or '*'}"
    yield ""
    yield from _client_lines(connected.clients)


def _client_lines(clients: tuple[ConnectedClient, ...]) -> list[str]:
    rows = [(one.client_id, one.address, one.language, one.version) for one in clients]
    return fitted(_HEADS, rows, left=4)


def _running(info: "ConsumerRunningInfo") -> dict[str, object]:
    return {
        "settings": info.properties,
        "queues": [
            {**asdict(queue), **asdict(one)} for queue, one in sorted(info.mq_table.items())
        ],
        "throughput": {topic: asdict(one) for topic, one in sorted(info.status_table.items())},
        "subscriptions": [
            {"topic": one.topic, "subscription": one.sub_string} for one in info.subscription_set
        ],
        "stack": info.jstack,
    }


def running_lines(client_id: str, info: "ConsumerRunningInfo") -> Iterator[str]:
    """Yield what a consumer says about itself."""
    yield f"Member     {client_id}"
    started = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    if started.isdecimal():
        yield f"Started    {local_time(int(started))}"
    for one in info.subscription_set:
        yield f"Subscribed {one.topic}: {one.sub_string or '*'}"
    if info.mq_table:
        yield ""
        yield from fitted(
            ("TOPIC", "QUEUE", "COMMITTED", "BUFFERED", "MIB", "LAST PULL"),
            [
                (
                    queue.topic,
                    queue_text(queue),
                    str(one.commit_offset),
                    str(one.cached_msg_count),
                    str(one.cached_msg_size_in_mib),
                    short_time(one.last_pull_timestamp),
                )
                for queue, one in sorted(info.mq_table.items())
            ],
            left=2,
            names=(0, 1),
        )
    if info.status_table:
        yield ""
        yield from fitted(
            ("TOPIC", "PULLED/S", "CONSUMED/S", "FAILED/S", "MS EACH"),
            [
                (
                    topic,
                    *(f"{rate:.1f}" for rate in (one.pull_tps, one.consume_ok_tps)),
                    *(f"{rate:.1f}" for rate in (one.consume_failed_tps, one.consume_rt)),
                )
                for topic, one in sorted(info.status_table.items())
            ],
        )
    if info.jstack:
        yield ""
        yield from info.jstack.splitlines()


def _producers(arguments: argparse.Namespace) -> int:
    if (arguments.group is None) != (arguments.topic is None):
        raise InvalidInput(
            "give both GROUP and --topic, or neither to see all producers", field="topic"
        )
    found = ask(arguments, lambda admin: _connected_producers(admin, arguments))
    as_json = {group: [asdict(one) for one in clients] for group, clients in found.items()}
    print_found(as_json, _producer_lines(found), as_json=arguments.json)
    return 0


async def _connected_producers(
    admin: Admin, arguments: argparse.Namespace
) -> dict[str, tuple[ConnectedClient, ...]]:
    if arguments.group is None:
        found: dict[str, tuple[ConnectedClient, ...]] = {}
        return found | await admin.all_producers()
    clients = await admin.producer_connections(arguments.group, arguments.topic)
    return {arguments.group: clients}


def _producer_lines(found: dict[str, tuple[ConnectedClient, ...]]) -> Iterator[str]:
    total = sum(map(len, found.values()))
    yield f"{counted(total, 'producer')} in {counted(len(found), 'group')}"
    for group, clients in found.items():
        yield ""
        yield f"Group      {group}"
        yield from _client_lines(clients)
        heard = [one.heartbeat_ms for one in clients if isinstance(one, ConnectedProducer)]
        if heard:
            yield f"Heard of   {local_time(max(heard))}"
