"""Checks of a topic and of a group. Pure: facts in, findings out."""

from collections.abc import Iterator, Mapping

from orbitmq.cli.asking import counted, queue_text
from orbitmq.cli.doctor.facts import Facts, GroupFacts, TopicFacts
from orbitmq.cli.doctor.findings import Finding, problem, risk
from orbitmq.message.names import retry_topic

__all__ = [
    "check_dead_letters",
    "check_group",
    "check_lag",
    "check_members",
    "check_queues",
    "check_route",
    "check_subscriptions",
    "check_topic_permissions",
]

_WRITE, _READ = 2, 4


# The topic


def check_route(facts: Facts) -> Iterator[Finding]:
    """Check that all nameservers have a route of the topic, over brokers that they know."""
    topic = _topic(facts)
    answering = [one for one in facts.answering if one.brokers]
    without = [one.address for one in answering if one.route is None]
    if answering and len(without) == len(answering):
        creates = any(one.config.get("autoCreateTopicEnable") == "true" for one in facts.masters)
        first = " The first send creates it (autoCreateTopicEnable)." if creates else ""
        yield problem(
            "route",
            f"topic {topic.name} does not exist.{first}",
            "Check the name and the namespace, or create it:",
            f"orbitmq topic create {topic.name}",
        )
    elif without:
        yield problem(
            "route",
            f"nameserver {', '.join(without)} has no route of topic {topic.name}, and others have "
            "one: clients that ask it can't send or consume.",
            "Have its brokers register with all nameservers (namesrvAddr).",
        )
    for one in answering:
        if one.route is not None:
            known = {data.broker_name for data in one.route.broker_datas}
            lost = sorted({data.broker_name for data in one.route.queue_datas} - known)
            if lost:
                yield problem(
                    "route",
                    f"nameserver {one.address} has queues of topic {topic.name} on "
                    f"{', '.join(lost)}, whose address it does not know.",
                    "Start these brokers, or delete the topic from them.",
                )


def check_topic_permissions(facts: Facts) -> Iterator[Finding]:
    """Check that the topic may be written to and read from, at its brokers and in its routes."""
    topic = _topic(facts)
    for what, bit in (("written to", _WRITE), ("read from", _READ)):
        barred = sorted(name for name, one in topic.configs.items() if not one.perm & bit)
        if barred:
            yield problem(
                "topic permissions",
                f"topic {topic.name} may not be {what} on {', '.join(barred)}.",
                "Allow it:",
                f"orbitmq topic update {topic.name} --perm rw",
            )
        for nameserver in facts.answering:
            datas = () if nameserver.route is None else nameserver.route.queue_datas
            wiped = sorted(
                one.broker_name
                for one in datas
                if not one.perm & bit
                and one.broker_name in topic.configs
                and topic.configs[one.broker_name].perm & bit
            )
            if wiped and bit == _WRITE:
                yield problem(
                    "topic permissions",
                    f"nameserver {nameserver.address} tells producers not to write to topic "
                    f"{topic.name} on {', '.join(wiped)}, although the topic allows it: writes to "
                    "the broker were stopped (wipeWritePerm), or its brokerPermission forbids "
                    "them.",
                    "When the reason is over, allow them:",
                    f"orbitmq broker allow-writes {wiped[0]}",
                )


def check_queues(facts: Facts) -> Iterator[Finding]:
    """Check that consumers read all queues that producers write to."""
    topic = _topic(facts)
    for name, config in sorted(topic.configs.items()):
        if config.write_queue_nums > config.read_queue_nums:
            extra = config.write_queue_nums - config.read_queue_nums
            yield problem(
                "queues",
                f"{counted(extra, 'queue')} of topic {topic.name} on {name} are written to and "
                f"never read: {config.write_queue_nums} to write, {config.read_queue_nums} to "
                "read.",
                "Have consumers read them, too:",
                f"orbitmq topic update {topic.name} --read-queues {config.write_queue_nums}",
            )


# The group


def check_group(facts: Facts) -> Iterator[Finding]:
    """Check that all brokers of the topic, or all, have the group, and let it consume."""
    group = _group(facts)
    creating = {
        one.broker.name
        for one in facts.masters
        if one.config.get("autoCreateSubscriptionGroup") == "true"
    }
    asked = {one.broker.name for one in facts.masters if one.problem is None}
    if facts.topic is not None and facts.topic.configs:
        asked &= set(facts.topic.configs)
    missing = sorted(asked - set(group.configs))
    if not group.configs:
        yield problem(
            "group",
            f"no broker has group {group.name}"
            + (": the first consumer creates it." if creating else ", and none creates it."),
            "Check the name, or create it:",
            f"orbitmq group create {group.name}",
        )
    for name in missing if group.configs else ():
        if name not in creating:
            yield problem(
                "group",
                f"{name} has no group {group.name}, and does not create groups: consumers can't "
                "read from it.",
                "Create it there:",
                f"orbitmq group create {group.name} --on {name}",
            )
    barred = sorted(name for name, one in group.configs.items() if not one.consume_enable)
    if barred:
        yield problem(
            "group",
            f"group {group.name} may not consume on {', '.join(barred)} (consumeEnable is off).",
            "When the reason is over, let it:",
            f"orbitmq group update {group.name} --consume",
        )


def check_members(facts: Facts) -> Iterator[Finding]:
    """Check that consumers of the group are connected, and each gets a queue."""
    group = _group(facts)
    if group.members is None:
        yield problem(
            "members",
            f"no consumer of group {group.name} is connected.",
            "Start one. If it runs: check its group name and nameserver, and its log.",
        )
        return
    count, queues = len(group.members.clients), _queues_of(facts)
    is_shared = group.members.message_model in (None, "CLUSTERING")
    if is_shared and queues and count > queues:
        yield risk(
            "members",
            f"group {group.name} has {count} consumers for {counted(queues, 'queue')} of topic "
            f"{_topic(facts).name}: {counted(count - queues, 'consumer')} without a queue.",
            "Run fewer consumers, or give the topic more queues:",
            f"orbitmq topic update {_topic(facts).name} --read-queues {count} --write-queues "
            f"{count}",
        )


def check_subscriptions(facts: Facts) -> Iterator[Finding]:
    """Check that all members of the group subscribe to the same, and to the topic."""
    group = _group(facts)
    retries = retry_topic(group.name)
    by_text: dict[str, list[str]] = {}
    for client, found in sorted(group.subscriptions.items()):
        own = {topic: text for topic, text in found.items() if topic != retries}
        text = ", ".join(f"{topic}: {own[topic]}" for topic in sorted(own)) or "nothing"
        by_text.setdefault(text, []).append(client)
    if len(by_text) > 1:
        shown = "; ".join(f"{clients[0]} to {text}" for text, clients in list(by_text.items())[:3])
        yield problem(
            "subscriptions",
            f"members of group {group.name} subscribe to different things: {shown}. Brokers keep "
            "one subscription per group, so messages are lost for some of them.",
            "Give each subscription a group of its own, or deploy the same to all members.",
        )
    if facts.topic is not None and group.members is not None:
        topics = set(group.members.subscriptions).union(*group.subscriptions.values())
        if facts.topic.name not in topics:
            others = ", ".join(sorted(topics - {retries})) or "nothing"
            yield problem(
                "subscriptions",
                f"group {group.name} does not subscribe to topic {facts.topic.name}, but to "
                f"{others}.",
                "Check the topic name and the namespace in the consumer.",
            )


def check_lag(facts: Facts) -> Iterator[Finding]:
    """Check that the group keeps up."""
    group = _group(facts)
    progress = group.progress
    if progress is None:
        return
    wanted = None if facts.topic is None else facts.topic.name
    queues = [one for one in progress.queues if wanted in (None, one.queue.topic)]
    lag = sum(one.lag for one in queues)
    if lag > facts.max_lag:
        worst = max(queues, key=lambda one: one.lag)
        others = lag - worst.lag
        yield risk(
            "lag",
            f"group {group.name} is {counted(lag, 'message')} behind, most in queue "
            f"{queue_text(worst.queue)} of {worst.queue.topic} ({worst.lag:,}); it consumes "
            f"{progress.consume_tps:,.1f} per second.",
            "It is one queue: look at the consumer that has it, and whether one key gets most "
            "messages."
            if len(queues) > 1 and others < worst.lag // 10
            else "Make the handler faster, raise its concurrency, or start more consumers, up to "
            "the number of queues.",
            f"orbitmq group progress {group.name}",
        )
    ahead = [one for one in queues if one.lag < 0]
    if ahead:
        first = ahead[0]
        yield problem(
            "lag",
            f"group {group.name} has committed offset {first.consumer_offset:,} in queue "
            f"{queue_text(first.queue)} of {first.queue.topic}, which ends at "
            f"{first.broker_offset:,}: it gets no new messages until the queue is as long.",
            "Move it to the end of the queue, or to where it was:",
            f"orbitmq offset reset {group.name} {first.queue.topic} --to latest --queue "
            f"{queue_text(first.queue)}",
        )


def check_dead_letters(facts: Facts) -> Iterator[Finding]:
    """Check that no message of the group was given up."""
    group = _group(facts)
    if group.dead_letters:
        yield risk(
            "dead letters",
            f"{counted(group.dead_letters, 'message')} of group {group.name} are dead letters: all "
            "retries failed.",
            "See why, and send them again when the cause is mended:",
            f"orbitmq pipeline dead-letters --group {group.name}",
        )


def _topic(facts: Facts) -> TopicFacts:
    return facts.topic or TopicFacts(name="")


def _group(facts: Facts) -> GroupFacts:
    return facts.group or GroupFacts(name="")


def _queues_of(facts: Facts) -> int:
    configs: Mapping[str, object] = {} if facts.topic is None else facts.topic.configs
    return sum(getattr(one, "read_queue_nums", 0) for one in configs.values())
