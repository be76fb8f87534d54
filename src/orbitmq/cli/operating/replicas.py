"""``orbitmq broker replicas``: how far the slaves of each master are."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.cli.asking import add_command, ask, fitted
from orbitmq.cli.cluster import print_found
from orbitmq.cli.missing import tell_no_broker
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.results import Broker, HARuntimeInfo
from orbitmq.errors import InvalidInput, OrbitError

if TYPE_CHECKING:
    from orbitmq.cli.asking import Family

__all__ = ["Copy", "add_replicas_command", "replica_rows"]


class Copy(NamedTuple):
    """A broker, and what it says of its log and its slaves; an error if it did not."""

    broker: Broker
    state: HARuntimeInfo | OrbitError

    @property
    def log_end(self) -> int | None:
        """Where its log ends; None if it did not say so."""
        if isinstance(self.state, OrbitError):
            return None
        if self.state.master:
            return self.state.master_commit_log_max_offset
        return self.state.ha_client_runtime_info.max_offset


def add_replicas_command(commands: "Family") -> None:
    """Add the command to the family ``broker``."""
    command = add_command(
        commands,
        "replicas",
        _replicas,
        "show how far slaves are behind their masters",
        about="SLAVES is how many follow a master now, and how many of these are in sync.",
        examples=["broker replicas", "broker replicas broker-a", "broker replicas 10.0.0.7:10911"],
        status="0 shown, 1 no broker is registered, 2 there is no such broker, or no nameserver "
        "answers",
    )
    command.add_argument(
        "broker", metavar="BROKER", nargs="?", help="a name, or the address of one broker (all)"
    )


def _replicas(arguments: argparse.Namespace) -> int:
    async def work(admin: Admin) -> list[Copy]:
        brokers = [broker for cluster in await admin.clusters() for broker in cluster.brokers]
        names = {one.name for one in brokers if arguments.broker in (None, one.name, one.address)}
        if arguments.broker is not None and not names:
            raise InvalidInput(f"no broker is named {arguments.broker}", field="broker")
        chosen = [one for one in brokers if one.name in names]
        states = await asyncio.gather(*(_state(admin, one) for one in chosen))
        return [Copy(*pair) for pair in zip(chosen, states, strict=True)]

    found = ask(arguments, work)
    heads = ("BROKER", "ADDRESS", "ROLE", "LOG END", "BEHIND", "SLAVES")
    lines = fitted(heads, list(replica_rows(found)), left=3, names=(0, 1))
    print_found(list(_as_json(found)), lines, as_json=arguments.json)
    return 0 if found else tell_no_broker(arguments)


async def _state(admin: Admin, broker: Broker) -> HARuntimeInfo | OrbitError:
    try:
        return await admin.replication(broker.address)
    except OrbitError as error:
        return error


def replica_rows(found: Sequence[Copy]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each broker, as it is printed."""
    ends = _master_ends(found)
    for one in found:
        end, broker = one.log_end, one.broker
        behind = _behind(one, ends)
        yield (
            f"{broker.name}/{broker.number}",
            broker.address,
            "master" if broker.is_master else "slave",
            "no answer" if end is None else f"{end:,}",
            "-" if behind is None else f"{behind:,}",
            _slaves(one.state) if broker.is_master else "-",
        )


def _slaves(state: HARuntimeInfo | OrbitError) -> str:
    if isinstance(state, OrbitError):
        return "-"
    return f"{len(state.ha_connection_info)}, {state.in_sync_slave_nums} in sync"


def _master_ends(found: Sequence[Copy]) -> dict[str, int | None]:
    return {one.broker.name: one.log_end for one in found if one.broker.is_master}


def _behind(one: Copy, ends: dict[str, int | None]) -> int | None:
    """Return by how many bytes a slave's log is shorter than its master's; None if unknown."""
    master_end, end = ends.get(one.broker.name), one.log_end
    if one.broker.is_master or master_end is None or end is None:
        return None
    return max(0, master_end - end)


def _as_json(found: Sequence[Copy]) -> Iterator[dict[str, object]]:
    ends = _master_ends(found)
    for one in found:
        is_known = not isinstance(one.state, OrbitError)
        yield {
            "broker_name": one.broker.name,
            "broker_id": one.broker.number,
            "address": one.broker.address,
            "log_end": one.log_end,
            "behind_bytes": _behind(one, ends),
            "state": one.state if is_known else None,
            "problem": None if is_known else str(one.state),
        }
