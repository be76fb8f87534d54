"""Each check of nameservers and brokers finds its cause, and nothing else does."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from orbitmq.cli.doctor.cluster_checks import check_put_latency
from orbitmq.cli.doctor.command import diagnosed
from orbitmq.cli.doctor.facts import Facts, NameserverFacts
from orbitmq.cli.doctor.findings import Level
from tests.cli.doctor.facts_of import BROKER, NAMES, broker, facts, route, settings, status

SLAVE = changed(BROKER, number=1, address="10.0.0.8:10911")


def at(address: str) -> Facts:
    """Return a cluster whose broker advertises an address."""
    moved = changed(BROKER, address=address)
    nameservers = tuple(
        NameserverFacts(address=one, brokers=(moved,), route=route()) for one in NAMES
    )
    return facts(nameservers=nameservers, brokers=(broker(broker=moved),))


def silent(*, problem: str) -> Facts:
    first, second = facts().nameservers
    return facts(nameservers=(first, replace(second, brokers=(), problem=problem, route=None)))


def unregistered() -> Facts:
    first, second = facts().nameservers
    other = changed(BROKER, name="broker-b", address="10.0.0.9:10911")
    both = (first.brokers[0], other)
    return facts(
        nameservers=(replace(first, brokers=both), second),
        brokers=(broker(), broker(broker=other, config=settings(namesrvAddr=NAMES[0]))),
    )


CAUSES = [
    (silent(problem="refused"), "nameservers", "nameserver 10.0.0.2:9876 does not answer: refused"),
    (unregistered(), "registration", "is not registered with nameserver 10.0.0.2:9876"),
    (unregistered(), "registration", "Its namesrvAddr is 10.0.0.1:9876."),
    (
        facts(
            nameservers=tuple(replace(one, brokers=(SLAVE,)) for one in facts().nameservers),
            brokers=(broker(broker=SLAVE),),
        ),
        "masters",
        "broker-a has no master",
    ),
    (at("127.0.0.1:10911"), "addresses", "a client on another machine would connect to itself"),
    (at("0.0.0.0:10911"), "addresses", "is no address to connect to"),
    (at("[::]:10911"), "addresses", "is no address to connect to"),
    (
        facts(brokers=(broker(port_problem="no answer in 5 s", problem="x", status=None),)),
        "ports",
        "10.0.0.7:10911, which broker broker-a/0 advertises, can't be reached from here: no answer",
    ),
    (
        facts(brokers=(broker(problem="closed", speaks_other=True, status=None),)),
        "TLS",
        "wants TLS",
    ),
    (
        facts(brokers=(broker(problem="closed", speaks_other=True, status=None),), uses_tls=True),
        "TLS",
        "answers without TLS",
    ),
    (
        facts(brokers=(broker(problem="who?", is_refused=True, status=None),)),
        "credentials",
        "refuses a client without keys: who?",
    ),
    (
        facts(brokers=(broker(problem="who?", is_refused=True, status=None),), has_keys=True),
        "credentials",
        "refuses these keys: who?",
    ),
    (
        facts(brokers=(broker(problem="no answer in 6 s", status=None),)),
        "answers",
        "accepts connections and does not answer: no answer in 6 s",
    ),
    (
        facts(brokers=(broker(config=settings(brokerPermission="4")),)),
        "broker permissions",
        "broker broker-a/0 may not be written to: its brokerPermission is 4",
    ),
    (
        facts(brokers=(broker(config=settings(brokerPermission="2")),)),
        "broker permissions",
        "may not be read from",
    ),
    (
        facts(brokers=(broker(status=status(commitLogDiskRatio="0.91")),)),
        "disks",
        "the disk of broker broker-a/0 is 91% full: it refuses messages",
    ),
]
RISKS = [
    (
        facts(brokers=(broker(vip_problem="Connection refused"),)),
        "VIP ports",
        "port 10909 of broker broker-a/0 can't be reached from here: Connection refused",
    ),
    (facts(brokers=(broker(skew_ms=90_000),)), "clocks", "is 90 s ahead of that of this machine"),
    (facts(brokers=(broker(skew_ms=-5_000),)), "clocks", "is 5 s behind that of this machine"),
    (
        facts(brokers=(broker(config=settings(autoCreateTopicEnable="true")),)),
        "automatic creation",
        "autoCreateTopicEnable is on at broker-a/0",
    ),
    (
        facts(brokers=(broker(config=settings(autoCreateSubscriptionGroup="true")),)),
        "automatic creation",
        "a misspelled group is created",
    ),
    (
        facts(brokers=(broker(status=status(commitLogDiskRatio="0.8")),)),
        "disks",
        "is 80% full: it deletes its oldest messages",
    ),
    (
        facts(
            brokers=(
                broker(
                    status=status(
                        sendThreadPoolQueueSize="12", sendThreadPoolQueueHeadWaitTimeMills="250"
                    )
                ),
            )
        ),
        "load",
        "12 sends wait at broker broker-a/0, the first for 250 ms",
    ),
    (
        facts(brokers=(broker(status=status(dispatchBehindBytes=str(70 * 2**20))),)),
        "load",
        "has 70 MiB in its log that are not in its queues yet",
    ),
    (
        facts(
            brokers=(
                broker(
                    status=status(
                        putMessageDistributeTime="[<=0ms]:90 [50~100ms]:5 [200~500ms]:4 [1~2s]:1"
                    )
                ),
            )
        ),
        "put latency",
        (
            "5 of 100 puts in the last minute took broker broker-a/0 100 ms or more: "
            "4 in 200~500ms, 1 in 1~2s."
        ),
    ),
]


def test_a_sound_cluster_has_no_findings() -> None:
    findings, fine = diagnosed(facts())
    assert findings == []
    assert len(fine) == 24, "all but that of elections"


@pytest.mark.parametrize(
    ("planted", "check", "words", "level"),
    [(*one, Level.PROBLEM) for one in CAUSES] + [(*one, Level.RISK) for one in RISKS],
)
def test_a_cause_is_found_by_its_check_alone(
    planted: Facts, check: str, words: str, level: Level
) -> None:
    findings, fine = diagnosed(planted)
    assert {(one.check, one.level) for one in findings} == {(check, level)}
    assert words in findings[0].says
    assert findings[0].do
    assert check not in fine


def test_a_cluster_without_brokers() -> None:
    empty = tuple(NameserverFacts(address=one) for one in NAMES)
    findings, fine = diagnosed(facts(nameservers=empty, brokers=(), topic=None, group=None))
    assert [one.says for one in findings] == [f"nameserver {one} knows no broker." for one in NAMES]
    assert fine == []


def test_on_one_machine_a_loopback_address_is_fine() -> None:
    local = at("127.0.0.1:10911")
    nameservers = tuple(replace(one, address="127.0.0.1:9876") for one in local.nameservers)
    assert diagnosed(replace(local, nameservers=nameservers))[0] == []


def test_what_is_not_known_is_not_judged() -> None:
    silent = broker(problem="no answer in 6 s", status=None, config={}, skew_ms=None)
    findings, fine = diagnosed(facts(brokers=(silent,), topic=None, group=None))
    assert [one.check for one in findings] == ["answers"]
    assert not {"clocks", "disks", "put latency", "automatic creation"} & set(fine)


@pytest.mark.parametrize(
    ("spans", "is_slow"),
    [
        ("[<=0ms]:99 [100~200ms]:1", False),
        ("[<=0ms]:98 [100~200ms]:2", True),
        ("[50~100ms]:100", False),
        ("[10s~]:1", True),
        ("", False),
    ],
)
def test_one_slow_put_of_a_hundred_is_no_risk(spans: str, is_slow: bool) -> None:
    slow = facts(brokers=(broker(status=status(putMessageDistributeTime=spans)),))
    assert bool(list(check_put_latency(slow))) is is_slow
