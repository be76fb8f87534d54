"""A missing topic or group in words that fit the command; and a cluster without brokers.

A nameserver answers the same for a topic that was never made and for one whose brokers are gone, so
it is asked what it has.
"""

import argparse
import shlex
from typing import Final

from orbitmq.cli.cluster import client_settings, on_a_loop
from orbitmq.cli.problems import nearest, tell_missing
from orbitmq.client.admin.admin import Admin
from orbitmq.errors import GroupNotFound, NoRoute, OrbitError
from orbitmq.message.names import strip_namespace

__all__ = ["explain", "tell_no_broker"]

_MAKE: Final = frozenset(("send", "consume", "bench send", "topic probe"))
"""Commands whose user may want the topic to be made."""
_GROUPS: Final = ("group", "source", "target")
"""Arguments of commands that name a group."""


def explain(error: OrbitError, arguments: argparse.Namespace) -> None:
    """Have an error about a missing topic or group say what there is instead, and what to do.

    Other errors stay as they are, and so do all if the cluster doesn't answer.
    """
    if not (hasattr(arguments, "nameserver") and hasattr(arguments, "set")):
        return  # a command with a cluster of its own
    if isinstance(error, GroupNotFound):
        _explain_group(error, arguments)
        return
    missing = error if isinstance(error, NoRoute) else error.__cause__
    if isinstance(missing, NoRoute) and missing.is_missing:
        _explain_topic(error, missing, arguments)


def _explain_group(error: GroupNotFound, arguments: argparse.Namespace) -> None:
    settings = client_settings(arguments, warns=False)
    given = [getattr(arguments, name, None) for name in _GROUPS]
    missing = next((one for one in given if one and str(error).endswith(f"group {one}")), None)
    if missing is None:
        return

    async def ask() -> list[str]:
        async with Admin(client=settings) as admin:
            return list(await admin.groups())

    try:
        meant = nearest(missing, on_a_loop(ask()))
    except OrbitError:
        return
    shows = "orbitmq group list shows those that exist"
    error.args = (f"{error}; {shows if meant is None else f'did you mean {meant}?'}",)


def _explain_topic(error: OrbitError, missing: NoRoute, arguments: argparse.Namespace) -> None:
    settings = client_settings(arguments, warns=False)

    async def ask() -> tuple[bool, list[str]]:
        async with Admin(client=settings) as admin:
            return bool(await admin.clusters()), await admin.topics(include_system=False)

    try:
        has_brokers, topics = on_a_loop(ask())
    except OrbitError:
        return
    wanted = getattr(arguments, "topic", None)
    if not has_brokers:
        text = _no_broker(settings.nameserver)
    elif wanted and strip_namespace(missing.topic, settings.namespace) == wanted:
        text = f"topic {wanted} is missing; {_advice(wanted, topics, arguments.parser.prog)}"
    else:  # a cluster or a broker is missing, and the text says so
        return
    error.args = (str(error).replace(str(missing), text) if error.__cause__ is missing else text,)


def _advice(topic: str, topics: list[str], command: str) -> str:
    """Return what to do about a missing topic."""
    meant = nearest(topic, topics)
    said = [] if meant is None else [f"did you mean {meant}?"]
    if command.removeprefix("orbitmq ") in _MAKE:
        said.append(f"orbitmq topic create {topic} makes it")
    elif meant is None:
        said.append("orbitmq topic list shows those that exist")
    return " ".join(said)


def tell_no_broker(arguments: argparse.Namespace) -> int:
    """Print that no broker is registered, and return the exit status, 1."""
    nameservers = client_settings(arguments, warns=False).nameserver
    return tell_missing(_no_broker(nameservers), as_json=arguments.json)


def _no_broker(nameserver: str) -> str:
    which = f"nameserver {nameserver}" if nameserver else "the nameservers"
    key = shlex.quote(f"namesrvAddr={nameserver or '…'}")
    return (
        f"no broker is registered with {which} now; start one (orbitmq broker --set {key}), or "
        "name another nameserver (--nameserver)"
    )
