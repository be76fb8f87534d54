"""``orbitmq group create``, ``update`` and ``delete``."""

import argparse
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orbitmq.cli.asking import add_command, add_on, ask
from orbitmq.cli.cluster import print_found
from orbitmq.client.admin.admin import Admin
from orbitmq.errors import InvalidInput

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = ["add_changes"]


class _Setting(NamedTuple):
    """An option for a setting of groups; ``N`` stands for a number, else it is on or off."""

    option: str
    field: str
    means: str
    is_number: bool = False


_SETTINGS: Final = (
    _Setting("--retries", "retry_max_times", "deliveries after the first, then dead letter", True),
    _Setting("--retry-queues", "retry_queue_nums", "queues of the retry topic", True),
    _Setting("--consume", "consume_enable", "whether the group may consume at all"),
    _Setting("--broadcast", "consume_broadcast_enable", "whether members may get all messages"),
    _Setting("--ordered", "consume_message_orderly", "whether messages are retried in their order"),
    _Setting("--from-min", "consume_from_min_enable", "whether a new group begins at the oldest"),
    _Setting(
        "--notify", "notify_consumer_ids_changed_enable", "whether members learn of each other"
    ),
    _Setting("--slow-broker-id", "which_broker_when_consume_slowly", "who serves late reads", True),
    _Setting("--broker-id", "broker_id", "which broker of a name serves reads", True),
)
"""Java's names are in ``mqadmin updateSubGroup``: the same settings, one letter each."""


def add_changes(commands: "Family") -> None:
    """Add the commands that change groups."""
    create = add_command(
        commands,
        "create",
        _create,
        "create a group, or replace all its settings",
        examples=["group create billing", "group create billing --retries 3 --on broker-a"],
    )
    update = add_command(
        commands,
        "update",
        _update,
        "change some settings of a group",
        examples=["group update billing --retries 3", "group update billing --no-consume"],
    )
    delete = add_command(
        commands,
        "delete",
        _delete,
        "delete a group",
        about="Its retry and dead letter topics stay, since messages may be in them.",
        examples=["group delete billing --offsets"],
    )
    delete.add_argument("group", metavar="GROUP")
    delete.add_argument("--offsets", action="store_true", help="delete its offsets as well")
    add_on(delete)
    for command in (create, update):
        command.add_argument("group", metavar="GROUP")
        for one in _SETTINGS:
            if one.is_number:
                command.add_argument(
                    one.option, dest=one.field, type=int, metavar="N", help=one.means
                )
            else:
                command.add_argument(
                    one.option,
                    dest=one.field,
                    action=argparse.BooleanOptionalAction,
                    help=one.means,
                )
        add_on(command)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    values = {one.field: getattr(arguments, one.field) for one in _SETTINGS}
    given = {field: value for field, value in values.items() if value is not None}
    for one in _SETTINGS:
        if one.is_number and given.get(one.field, 0) < 0:
            raise InvalidInput(
                f"{one.option} is {given[one.field]}; it must be 0 or more", field=one.field
            )
    return given


def _create(arguments: argparse.Namespace) -> int:
    settings = _given(arguments)

    async def work(admin: Admin) -> tuple[str, ...]:
        return await admin.create_group(arguments.group, on=arguments.on, **settings)

    return _told(arguments, "is on", ask(arguments, work), settings)


def _update(arguments: argparse.Namespace) -> int:
    settings = _given(arguments)
    if not settings:
        raise InvalidInput(
            "no setting is given; orbitmq group update --help lists them", field="arguments"
        )

    async def work(admin: Admin) -> tuple[str, ...]:
        return await admin.update_group(arguments.group, on=arguments.on, **settings)

    return _told(arguments, "is changed on", ask(arguments, work), settings)


def _delete(arguments: argparse.Namespace) -> int:
    async def work(admin: Admin) -> tuple[str, ...]:
        # Brokers delete a misspelled group with success.
        await admin.group_config(arguments.group, on=arguments.on)
        return await admin.delete_group(
            arguments.group, clean_offsets=arguments.offsets, on=arguments.on
        )

    return _told(arguments, "is deleted from", ask(arguments, work), {})


def _told(
    arguments: argparse.Namespace, done: str, brokers: tuple[str, ...], settings: dict[str, Any]
) -> int:
    found = {"group": arguments.group, "brokers": brokers, **settings}
    line = f"{arguments.group} {done} {', '.join(brokers)}"
    print_found(found, [line], as_json=arguments.json)
    return 0
