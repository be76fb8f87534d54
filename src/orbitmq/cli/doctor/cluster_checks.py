"""Checks of nameservers and brokers. Pure: facts in, findings out."""

from collections.abc import Iterator
from typing import Final

from orbitmq.cli.doctor.facts import BrokerFacts, Facts
from orbitmq.cli.doctor.findings import Finding, note, problem, risk
from orbitmq.net.address import Address
from orbitmq.net.exposure import is_loopback

__all__ = [
    "check_addresses",
    "check_auto_create",
    "check_brokers_answer",
    "check_clocks",
    "check_credentials",
    "check_disks",
    "check_load",
    "check_masters",
    "check_nameservers",
    "check_permissions",
    "check_ports",
    "check_put_latency",
    "check_registration",
    "check_tls",
    "check_vip_ports",
]

_SKEW_MS: Final = 2_000
"""Brokers tell their time in whole seconds, and an answer takes a while."""
_SLOW_SHARE: Final = 0.01
_SLOW_FROM_MS: Final = 100
_WAITED_MS: Final = 200
"""Java's brokers refuse sends that waited as long (waitTimeMillsInSendQueue)."""
_BEHIND_BYTES: Final = 64 * 1024 * 1024
_DISK_RISK, _DISK_PROBLEM = 0.75, 0.90
"""Java's: old files are deleted from the first, sends are refused from the second."""
_UNSPECIFIED: Final = frozenset({"0.0.0.0", "::"})
_WRITE, _READ = 2, 4


def _named(facts: BrokerFacts) -> str:
    return f"{facts.broker.name}/{facts.broker.number}"


# Nameservers


def check_nameservers(facts: Facts) -> Iterator[Finding]:
    """Check that all nameservers that clients are given answer, and know a broker."""
    for one in facts.nameservers:
        if one.problem is not None:
            yield problem(
                "nameservers",
                f"nameserver {one.address} does not answer: {one.problem}",
                "Check that it runs and that its port (9876 by default) is reachable from here; or "
                "take it out of --nameserver and of the clients' settings.",
            )
        elif not one.brokers:
            yield problem(
                "nameservers",
                f"nameserver {one.address} knows no broker.",
                "Start a broker whose namesrvAddr contains this address.",
            )


def check_registration(facts: Facts) -> Iterator[Finding]:
    """Check that each broker is registered with each nameserver that clients ask."""
    for one in facts.brokers:
        for nameserver in facts.answering:
            if nameserver.brokers and one.broker not in nameserver.brokers:
                known = one.config.get("namesrvAddr")
                has = (
                    f" Its namesrvAddr is {known or 'empty'}."
                    if "namesrvAddr" in one.config
                    else ""
                )
                yield problem(
                    "registration",
                    f"broker {_named(one)} ({one.broker.address}) is not registered with "
                    f"nameserver {nameserver.address}: clients that ask this one don't find it."
                    f"{has}",
                    f"Add {nameserver.address} to its namesrvAddr, or have all clients ask the "
                    "same nameservers.",
                )


# Reaching brokers


def check_masters(facts: Facts) -> Iterator[Finding]:
    """Check that each broker name has a master."""
    names = dict.fromkeys(one.broker.name for one in facts.brokers)
    elected = {one.name for one in facts.elections}
    for name in names:
        if not any(one.broker.is_master for one in facts.brokers if one.broker.name == name):
            yield problem(
                "masters",
                f"{name} has no master: nothing can be sent to it, and offsets can't be committed.",
                "Its brokers elect one: see what is said of elections."
                if name in elected
                else "Start its broker with brokerId=0. If that is lost, promote a slave: stop it, "
                "and start it with brokerRole=ASYNC_MASTER and brokerId=0.",
            )


def check_addresses(facts: Facts) -> Iterator[Finding]:
    """Check that brokers advertise addresses that clients on other machines can use."""
    is_local = all(is_loopback(Address.parse(one.address).host) for one in facts.nameservers)
    for one in facts.brokers:
        host = Address.parse(one.broker.address).host
        if host in _UNSPECIFIED:
            yield problem(
                "addresses",
                f"broker {_named(one)} advertises {one.broker.address}, which is no address to "
                "connect to.",
                "Set brokerIP1 in its settings to the address that clients use.",
            )
        elif is_loopback(host) and not is_local:
            yield problem(
                "addresses",
                f"broker {_named(one)} advertises {one.broker.address}: a client on another "
                "machine would connect to itself.",
                "Set brokerIP1 in its settings to the address that clients use.",
            )


def check_ports(facts: Facts) -> Iterator[Finding]:
    """Check that the advertised addresses of brokers accept connections from here."""
    for one in facts.brokers:
        if one.port_problem is not None:
            yield problem(
                "ports",
                f"{one.broker.address}, which broker {_named(one)} advertises, can't be reached "
                f"from here: {one.port_problem}",
                "If the broker runs: open the port in firewalls and containers, or set brokerIP1 "
                "to an address that clients can reach.",
            )


def check_vip_ports(facts: Facts) -> Iterator[Finding]:
    """Check that the second port of each master, two below the first, accepts connections."""
    for one in facts.masters:
        if one.port_problem is None and one.vip_problem is not None:
            address = Address.parse(one.broker.address)
            yield risk(
                "VIP ports",
                f"port {address.port - 2} of broker {_named(one)} can't be reached from here: "
                f"{one.vip_problem}. Clients with vipChannelEnabled send there, which is the "
                "default of Java's before 4.5.",
                "Open this port as well, or switch vipChannelEnabled off in such clients.",
            )


def check_tls(facts: Facts) -> Iterator[Finding]:
    """Check that brokers speak TLS if and only if this client does."""
    for one in facts.brokers:
        if one.speaks_other and facts.uses_tls:
            yield problem(
                "TLS",
                f"broker {_named(one)} answers without TLS, and this client uses TLS.",
                "Set tls.server.mode=permissive or enforcing on the broker, with its certificate; "
                "or clear useTLS here.",
            )
        elif one.speaks_other:
            yield problem(
                "TLS",
                f"broker {_named(one)} wants TLS (tls.server.mode=enforcing), and this client does "
                "not use it.",
                "Give clients useTLS=true and the authority that signed its certificate "
                "(--set useTLS=true here).",
            )


def check_credentials(facts: Facts) -> Iterator[Finding]:
    """Check that brokers accept the credentials of this client."""
    for one in facts.brokers:
        if one.is_refused:
            keys = "these keys" if facts.has_keys else "a client without keys"
            yield problem(
                "credentials",
                f"broker {_named(one)} refuses {keys}: {one.problem}",
                "Give accessKey and secretKey of a user that may do this (-c FILE), or change the "
                "permissions of this user.",
            )


def check_brokers_answer(facts: Facts) -> Iterator[Finding]:
    """Check that brokers that can be connected to answer."""
    for one in facts.brokers:
        is_told = one.port_problem is not None or one.is_refused or one.speaks_other
        if one.problem is not None and not is_told:
            yield problem(
                "answers",
                f"broker {_named(one)} at {one.broker.address} accepts connections and does not "
                f"answer: {one.problem}",
                "Check its log and its load; another program may be listening on that port.",
            )


# The state of brokers


def check_clocks(facts: Facts) -> Iterator[Finding]:
    """Check that the clocks of brokers agree with that of this machine."""
    for one in facts.brokers:
        if one.skew_ms is not None and abs(one.skew_ms) >= _SKEW_MS:
            where = "ahead of" if one.skew_ms > 0 else "behind"
            yield risk(
                "clocks",
                f"the clock of broker {_named(one)} is {abs(one.skew_ms) / 1000:,.0f} s {where} "
                "that of this machine: delayed messages, retention and resets to a time are off by "
                "as much.",
                "Synchronise the clocks of both (NTP).",
            )


def check_auto_create(facts: Facts) -> Iterator[Finding]:
    """Check that brokers don't create what is misspelled.

    It is the default, and good for a developer: a note about brokers that no other machine reaches.
    """
    local: list[str] = []
    for setting, what in (
        ("autoCreateTopicEnable", "a send to a misspelled topic creates it, with default settings"),
        ("autoCreateSubscriptionGroup", "a misspelled group is created, and starts from nothing"),
    ):
        having = [one for one in facts.masters if one.config.get(setting) == "true"]
        if having and all(is_loopback(Address.parse(one.broker.address).host) for one in having):
            local.append(setting)
        elif having:
            yield risk(
                "automatic creation",
                f"{setting} is on at {', '.join(map(_named, having))}: {what}.",
                "In production create them beforehand, and switch it off:",
                f"orbitmq broker config set {setting}=false",
            )
    if local:
        yield note(
            "automatic creation",
            "a misspelled topic or group is created, as is usual on a developer's machine.",
            f"In production switch off {' and '.join(local)}.",
        )


def check_permissions(facts: Facts) -> Iterator[Finding]:
    """Check that brokers may be written to and read from."""
    for one in facts.brokers:
        given = one.config.get("brokerPermission", "")
        if not given.isdecimal():
            continue
        for bit, what in ((_WRITE, "written to"), (_READ, "read from")):
            if not int(given) & bit:
                yield problem(
                    "broker permissions",
                    f"broker {_named(one)} may not be {what}: its brokerPermission is {given}.",
                    "When the reason is over, allow both:",
                    f"orbitmq broker config set brokerPermission=6 --on {one.broker.address}",
                )


def check_disks(facts: Facts) -> Iterator[Finding]:
    """Check that there is room on the disks of logs."""
    for one in facts.brokers:
        used = 0 if one.status is None else one.status.disk_used
        if used >= _DISK_PROBLEM:
            yield problem(
                "disks",
                f"the disk of broker {_named(one)} is {used:.0%} full: it refuses messages.",
                "Make room, lower fileReservedTime, or have it delete what is past its time:",
                f"orbitmq broker clean log --on {one.broker.address}",
            )
        elif used >= _DISK_RISK:
            yield risk(
                "disks",
                f"the disk of broker {_named(one)} is {used:.0%} full: it deletes its oldest "
                "messages before their time, and refuses new ones at 90%.",
                "Make room, or lower fileReservedTime.",
            )


def check_load(facts: Facts) -> Iterator[Finding]:
    """Check that sends don't wait, and what is stored can be read at once."""
    for one in facts.brokers:
        status = one.status
        if status is None:
            continue
        if status.send_queue_wait_ms >= _WAITED_MS:
            yield risk(
                "load",
                f"{status.send_queue:,} sends wait at broker {_named(one)}, the first for "
                f"{status.send_queue_wait_ms:,} ms: it answers clients that it is busy.",
                "Find what loads it, and spread topics over more brokers.",
                "orbitmq topic stats --active",
            )
        if status.dispatch_behind_bytes >= _BEHIND_BYTES:
            yield risk(
                "load",
                f"broker {_named(one)} has {status.dispatch_behind_bytes // 2**20:,} MiB in its "
                "log that are not in its queues yet: consumers get them late.",
                "Look at its disk; after a restart this is usual and passes.",
            )


def check_put_latency(facts: Facts) -> Iterator[Finding]:
    """Check that messages are stored quickly: at most one of a hundred takes 100 ms."""
    for one in facts.brokers:
        spans = {} if one.status is None else one.status.put_latency
        total = sum(spans.values())
        slow = {span: n for span, n in spans.items() if n and _begin_ms(span) >= _SLOW_FROM_MS}
        if total and sum(slow.values()) > _SLOW_SHARE * total:
            shown = ", ".join(f"{count:,} in {span}" for span, count in slow.items())
            yield risk(
                "put latency",
                f"{sum(slow.values()):,} of {total:,} puts in the last minute took broker "
                f"{_named(one)} {_SLOW_FROM_MS} ms or more: {shown}.",
                "Its disk is slow or shared: look at iostat, at flushDiskType (SYNC_FLUSH waits "
                "for the disk), and at slaves that a SYNC_MASTER waits for.",
            )


def _begin_ms(span: str) -> int:
    """Return where a span of latencies begins.

    >>> [_begin_ms(span) for span in ("<=0ms", "10~50ms", "500ms~1s", "2~3s", "10s~")]
    [0, 10, 500, 2000, 10000]
    """
    first, _, rest = span.partition("~")
    digits = "".join(one for one in first if one.isdigit())
    unit = first.lstrip("<=0123456789") or rest.lstrip("0123456789")
    return int(digits or 0) * (1 if unit == "ms" else 1_000)
