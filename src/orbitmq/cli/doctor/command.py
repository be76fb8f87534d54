"""``orbitmq doctor``: says what is wrong with a cluster, and what to do."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from orbitmq.cli.asking import described
from orbitmq.cli.cluster import (
    add_client_options,
    add_json_option,
    client_settings,
    on_a_loop,
    print_found,
)
from orbitmq.cli.doctor import cluster_checks, replica_checks, topic_checks
from orbitmq.cli.doctor.facts import Facts
from orbitmq.cli.doctor.findings import Finding, Level, finding_lines
from orbitmq.cli.doctor.gather import gather
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput

__all__ = ["CHECKS", "add_arguments", "diagnosed"]

_WRONG: Final = 1
_MAX_LAG: Final = 10_000


class Needs(Enum):
    """What a check judges; without it the check is left out."""

    NAMESERVER = auto()
    BROKER = auto()
    ANSWER = auto()
    """Of a broker."""
    ELECTION = auto()
    """A group that elects its master."""
    TOPIC = auto()
    EXISTING_TOPIC = auto()
    GROUP = auto()
    EXISTING_GROUP = auto()

    def are_met(self, facts: Facts) -> bool:
        """Whether it is there."""
        has_brokers, topic, group = bool(facts.brokers), facts.topic, facts.group
        match self:
            case Needs.NAMESERVER:
                return True
            case Needs.BROKER:
                return has_brokers
            case Needs.ANSWER:
                return any(one.status is not None for one in facts.brokers)
            case Needs.ELECTION:
                return bool(facts.elections)
            case Needs.TOPIC:
                return has_brokers and topic is not None
            case Needs.EXISTING_TOPIC:
                return topic is not None and bool(topic.configs)
            case Needs.GROUP:
                return group is not None and group.problem is None
            case Needs.EXISTING_GROUP:
                return group is not None and bool(group.configs)


class Check(NamedTuple):
    """A check, by name."""

    name: str
    run: Callable[[Facts], Iterator[Finding]]
    needs: Needs


CHECKS: Final = (
    Check("nameservers", cluster_checks.check_nameservers, Needs.NAMESERVER),
    Check("registration", cluster_checks.check_registration, Needs.BROKER),
    Check("masters", cluster_checks.check_masters, Needs.BROKER),
    Check("addresses", cluster_checks.check_addresses, Needs.BROKER),
    Check("ports", cluster_checks.check_ports, Needs.BROKER),
    Check("VIP ports", cluster_checks.check_vip_ports, Needs.BROKER),
    Check("TLS", cluster_checks.check_tls, Needs.BROKER),
    Check("credentials", cluster_checks.check_credentials, Needs.BROKER),
    Check("answers", cluster_checks.check_brokers_answer, Needs.BROKER),
    Check("clocks", cluster_checks.check_clocks, Needs.ANSWER),
    Check("broker permissions", cluster_checks.check_permissions, Needs.ANSWER),
    Check("automatic creation", cluster_checks.check_auto_create, Needs.ANSWER),
    Check("disks", cluster_checks.check_disks, Needs.ANSWER),
    Check("load", cluster_checks.check_load, Needs.ANSWER),
    Check("put latency", cluster_checks.check_put_latency, Needs.ANSWER),
    Check("slaves", replica_checks.check_slaves, Needs.ANSWER),
    Check("elections", replica_checks.check_elections, Needs.ELECTION),
    Check("route", topic_checks.check_route, Needs.TOPIC),
    Check("topic permissions", topic_checks.check_topic_permissions, Needs.EXISTING_TOPIC),
    Check("queues", topic_checks.check_queues, Needs.EXISTING_TOPIC),
    Check("group", topic_checks.check_group, Needs.GROUP),
    Check("members", topic_checks.check_members, Needs.EXISTING_GROUP),
    Check("subscriptions", topic_checks.check_subscriptions, Needs.EXISTING_GROUP),
    Check("lag", topic_checks.check_lag, Needs.EXISTING_GROUP),
    Check("dead letters", topic_checks.check_dead_letters, Needs.EXISTING_GROUP),
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of ``orbitmq doctor``."""
    described(
        command,
        "Say what is wrong with a cluster, and what to do: nameservers, advertised addresses, "
        "ports, TLS, credentials, clocks, permissions, disks, latencies, slaves, elections; with "
        "--topic and --group also route, queues, members, subscriptions, lag, dead letters. "
        "Nothing is changed. A PROBLEM does not work; a RISK works, and will hurt one day.",
        examples=[
            "doctor --nameserver 10.0.0.1:9876",
            "doctor --nameserver 10.0.0.1:9876 --topic orders --group billing",
        ],
        status="0 no problem, 1 a problem (with --strict: or a risk), 2 wrong arguments",
    )
    command.add_argument("--topic", help="check this topic as well")
    command.add_argument("--group", help="check this consumer group as well")
    command.add_argument(
        "--max-lag",
        type=int,
        default=_MAX_LAG,
        metavar="N",
        help="messages that the group may be behind (%(default)s)",
    )
    command.add_argument("--strict", action="store_true", help="exit with 1 for risks, too")
    add_client_options(command)
    add_json_option(command)
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.max_lag < 0:
        raise InvalidInput(
            f"--max-lag is {arguments.max_lag}; it must be 0 or more", field="max_lag"
        )
    facts = on_a_loop(
        gather(
            client_settings(arguments),
            SystemClock(),
            topic=arguments.topic,
            group=arguments.group,
            max_lag=arguments.max_lag,
        )
    )
    findings, fine = diagnosed(facts)
    found = {"findings": [msgspec.structs.asdict(one) for one in findings], "passed": fine}
    print_found(found, finding_lines(findings, fine), as_json=arguments.json)
    wrong = (Level.PROBLEM, Level.RISK) if arguments.strict else (Level.PROBLEM,)
    is_wrong = any(one.level in wrong for one in findings)
    return _WRONG if is_wrong else 0


def diagnosed(facts: Facts) -> tuple[Sequence[Finding], Sequence[str]]:
    """Return what is wrong, and the names of the checks that found nothing."""
    findings: list[Finding] = []
    fine = []
    for check in CHECKS:
        if check.needs.are_met(facts):
            found = list(check.run(facts))
            findings += found
            if not found:
                fine.append(check.name)
    for asked in (facts.topic, facts.group):
        if asked is not None and asked.problem is not None:
            findings.append(
                Finding(
                    level=Level.PROBLEM,
                    check="answers",
                    says=f"{asked.name} could not be looked at: {asked.problem}",
                    do="Mend what is said above first, then ask again.",
                )
            )
    return findings, fine
