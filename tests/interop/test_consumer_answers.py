"""Operators ask a running consumer of ours, through our broker and Java's: mqadmin and `Admin`."""

import asyncio
import re
from collections import Counter

import pytest

from orbitmq import (
    Admin,
    Consumer,
    Message,
    MessageQueue,
    Producer,
    RetryLater,
    SendReceipt,
    StoredMessage,
)
from orbitmq.embedded import RunningCluster
from tests.client.admin_calls import Transcript
from tests.client.admin_story import soon
from tests.interop.java_cluster import JavaCluster
from tests.interop.operations import Outgoing, Sent
from tests.interop.team import Team, group_of
from tests.interop.waiting import until, until_async

BODIES = (b"fine", b"later", b"wrong")


class Operator:
    """A consumer of two queues that has consumed three messages, and mqadmin."""

    def __init__(self, team: Team, *, ordered: bool) -> None:
        self.team = team
        self.topic = team.topic("answered", queues=2)
        self.group = group_of(self.topic)
        self.seen: list[StoredMessage] = []
        self.is_asked = False
        self.sent: list[Sent] = []
        self.consumer = Consumer(
            self.group,
            nameserver=team.nameserver,
            subscribe={self.topic: "*"},
            ordered=ordered,
            consume_from="first",
            concurrency=7,
            offset_interval_ms=100,
            pull_suspend_ms=1_000,
            trace=True,
        )
        self.consumer.on_message(self.take)

    async def take(self, message: StoredMessage) -> None:
        self.seen.append(message)
        if self.is_asked and message.body == b"later":
            raise RetryLater("the bank is closed")
        if self.is_asked and message.body == b"wrong":
            raise ValueError("no such order")

    async def consume(self) -> None:
        with self.team.producer() as producer:
            self.sent = producer.send(*(Outgoing(topic=self.topic, body=one) for one in BODIES))
        await self.until_seen(1)

    async def until_seen(self, times: int) -> None:
        """Return when each message was consumed so often, and not more often."""
        wanted = Counter(dict.fromkeys(BODIES, times))
        await until_async(
            lambda: Counter(one.body for one in self.seen) == wanted, what=f"{times} times each"
        )

    async def until_shown(self, pattern: str, *arguments: str) -> str:
        """Return what mqadmin prints, when it has this in it."""

        def shown() -> str:
            printed.append(self.team.mqadmin(*arguments))
            return printed[-1] if re.search(pattern, printed[-1]) else ""

        printed: list[str] = []
        try:
            return await asyncio.to_thread(until, shown, what=f"{pattern} in {arguments[0]}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the last was {printed[-1]}") from None


async def shows_what_runs(operator: Operator) -> None:
    group, topic, client = operator.group, operator.topic, operator.consumer.client_id
    await operator.until_shown(
        rf"{re.escape(client)} +127\.0\.0\.1:\d+ +PYTHON +V5_4_0", "consumerConnection", "-g", group
    )
    both = rf"(?ms)^{re.escape(topic)} .*^{re.escape(topic)} .*Diff Total: 0\b"
    progress = await operator.until_shown(both, "consumerProgress", "-g", group)
    rows = [line.split()[2:5] for line in progress.splitlines() if line.startswith(topic)]
    assert sorted(rows) == [["0", *rows[0][1:2] * 2], ["1", *rows[1][1:2] * 2]], progress
    assert sum(int(row[1]) for row in rows) == len(BODIES)
    status = ("consumerStatus", "-g", group, "-i", client, "-s")
    printed = await operator.until_shown("#Consumer Properties#", *status)
    assert re.search(r"PROP_THREADPOOL_CORE_SIZE +: 7", printed)
    assert re.search(r"PROP_CONSUME_TYPE +: CONSUME_PASSIVELY", printed)
    assert re.search(rf"Topic: {topic} +ClassFilter: false", printed)
    offsets = re.findall(rf"{topic} +\S+ +[01] +(\d) *\n", printed)
    assert sum(map(int, offsets)) == len(BODIES), printed
    stacks = printed[printed.index("#Consumer jstack#") :]
    assert ", the loop of the consumer" in stacks
    assert "orbitmq-membership" in stacks


async def consumes_directly(operator: Operator) -> None:
    is_new = operator.team.java.version.startswith("5")
    client = ("-g", operator.group, "-d", operator.consumer.client_id)
    topic = ("-t", operator.topic) if is_new else ()
    outcomes = ("CR_SUCCESS", "CR_LATER", "CR_THROW_EXCEPTION")
    operator.is_asked, printed = True, ""
    for sent, outcome in zip(operator.sent, outcomes, strict=True):
        asked = ("queryMsgById", *topic, "-i", sent.offset_id, *client)
        printed = await asyncio.to_thread(operator.team.mqadmin, *asked)
        assert f"consumeResult={outcome}" in printed
    assert "remark=ValueError: no such order, in take at " in printed
    operator.is_asked = False
    await operator.until_seen(2)
    assert {one.topic for one in operator.seen} == {operator.topic}


async def shows_traces(operator: Operator) -> None:
    asked = ("queryMsgTraceById", "-i", operator.sent[0].message_id)
    printed = await operator.until_shown(rf"{operator.group}.*success", *asked)
    assert "failed" not in printed


async def resets_offsets(operator: Operator) -> None:
    """By the broker alone, and by a message to the consumer; it consumes all again."""
    reset = ("resetOffsetByTime", "-g", operator.group, "-t", operator.topic, "-s", "0")
    setting = ("-b", operator.team.brokers[0], "-k", "useServerSideResetOffset", "-v")
    try:
        for times, is_servers in ((3, "true"), (4, "false")):
            await asyncio.to_thread(
                operator.team.mqadmin, "updateBrokerConfig", *setting, is_servers
            )
            await asyncio.to_thread(operator.team.mqadmin, *reset, "-f", "true")
            await operator.until_seen(times)
            progress = ("consumerProgress", "-g", operator.group)
            await operator.until_shown(r"Diff Total: 0\b", *progress)
    finally:
        await asyncio.to_thread(operator.team.mqadmin, "updateBrokerConfig", *setting, "true")


def test_mqadmin_reads_the_answers_of_our_consumer(place: Team) -> None:
    async def main() -> None:
        operator = Operator(place, ordered=place.java.version == "4.9.7")
        async with operator.consumer:
            await operator.consume()
            await shows_what_runs(operator)
            await consumes_directly(operator)
            await shows_traces(operator)
            await resets_offsets(operator)

    asyncio.run(main())


async def results(nameserver: str, broker: str, *, ordered: bool) -> list[str]:
    """Return all that an `Admin` finds of a running consumer, as comparable lines."""
    topic, group = f"asked-{ordered}", f"askers-{ordered}"
    lines = Transcript("none", broker)
    seen: list[bytes] = []
    async with Admin(nameserver=nameserver, keep_open_ms=0) as admin:
        sent = await _sent(admin, topic)
        consumer = Consumer(
            group,
            nameserver=nameserver,
            subscribe={topic: "paid || open"},
            ordered=ordered,
            consume_from="first",
            offset_interval_ms=100,
            pull_suspend_ms=1_000,
            keep_open_ms=0,
        )
        consumer.on_message(lambda message: seen.append(message.body))
        async with consumer:
            await until_async(lambda: len(seen) == len(sent), what="all are consumed")
            await _ask(admin, consumer, topic, lines)
            again = await admin.resend_message(topic, sent[0].message_id, group=group)
            lines.note("resent", (again.result, again.is_ordered, again.remark))
            lines.note("reset", await admin.reset_offsets(group, topic, timestamp_ms=0))
            whole = 2 * len(sent) + 1
            await until_async(lambda: len(seen) == whole, what="all are consumed again")
        await lines.calls(gone=admin.consumer_connections(group))
    return lines.lines


async def _sent(admin: Admin, topic: str) -> list[SendReceipt]:
    """Send two messages to one queue of a new topic, and one to the other."""
    await admin.create_topic(topic, queues=2)

    async def queues() -> tuple[MessageQueue, ...]:
        return await admin.queues(topic) if topic in await admin.topics() else ()

    first, second = await soon(queues, "the route")
    async with Producer("senders", client=admin.client_settings) as producer:
        return [
            await producer.send(Message(topic, b"a", tags="paid"), queue=first),
            await producer.send(Message(topic, b"b", tags="open"), queue=second),
            await producer.send(Message(topic, b"c", tags="paid"), queue=first),
        ]


async def _ask(admin: Admin, consumer: Consumer, topic: str, lines: Transcript) -> None:
    group, client = consumer.settings.group, consumer.client_id

    async def is_committed() -> bool:
        progress = await admin.progress(group, topic)
        return len(progress.queues) == 2 and progress.lag == 0

    await soon(is_committed, "the offsets of the group")
    connections = await admin.consumer_connections(group)
    assert [one.client_id for one in connections.clients] == [client]
    lines.note("clients", [(one.language, one.version) for one in connections.clients])
    common = connections.consume_type, connections.message_model, connections.consume_from
    lines.note("common", common)
    lines.note(
        "subscriptions",
        [
            (one.topic, one.sub_string, one.expression_type, sorted(one.tags_set))
            for _, one in sorted(connections.subscriptions.items())
        ],
    )
    info = await admin.consumer_running_info(group, client, stack=True)
    lines.note("running", sorted(info.properties.items()))
    lines.note(
        "queues",
        [
            (queue, one.commit_offset, one.cached_msg_count, one.locked, one.dropped)
            for queue, one in sorted(info.mq_table.items())
            if queue.topic == topic  # that of retries comes with a later round
        ],
    )
    assert ", the loop of the consumer" in (info.jstack or "")
    lines.note("status", (await admin.consumer_status(topic, group))[client])
    progress = await admin.progress(group, topic)
    lines.note(
        "progress",
        [(one.queue, one.broker_offset, one.consumer_offset, one.lag) for one in progress.queues],
    )
    assert topic in await admin.group_topics(group)
    lines.note("groups", await admin.topic_groups(topic))


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_an_admin_finds_the_same_of_our_consumer_on_both_brokers(
    java_cluster_540: JavaCluster, our_cluster: RunningCluster, ordered: bool
) -> None:
    ours, javas = (
        asyncio.run(results(nameserver, broker, ordered=ordered))
        for nameserver, broker in (
            (our_cluster.nameserver, "broker-a"),
            (str(java_cluster_540.nameserver.address), java_cluster_540.broker.name),
        )
    )
    assert ours == javas
