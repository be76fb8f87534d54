"""Every call of an `Admin` about topics, groups, offsets, brokers and nameservers, in one story.

It is told to our servers and to Java's. The lines that it returns have no addresses, times and
names of brokers, so they must be equal.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from orbitmq.client.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import BrokerFailed, OrbitError
from orbitmq.message.model import Message
from tests.client.admin_story import soon

T = TypeVar("T")

TOPIC, GROUP, OTHER = "admin-calls", "admin-calls-group", "admin-calls-other"


class Transcript:
    """The results of calls, as comparable lines."""

    def __init__(self, cluster: str, broker: str) -> None:
        self._masks = [(re.escape(cluster), "CLUSTER"), (re.escape(broker), "BROKER")]
        self._masks += [(r"127\.0\.0\.1:\d+", "ADDRESS"), (r"\b1\d{12}\b", "TIME")]
        self.lines: list[str] = []

    def note(self, call: str, result: object) -> None:
        text = str(result)
        for mask, name in self._masks:
            text = re.sub(mask, name, text)
        self.lines.append(f"{call}: {text}")

    async def calls(self, **calls: Awaitable[object]) -> None:
        """Make calls one after another, and note their results or the codes of their errors."""
        for name, call in calls.items():
            try:
                self.note(name, await call)
            except OrbitError as error:
                self.note(name, f"{type(error).__name__} {getattr(error, 'code', '')}")


async def tell(nameserver: str, *, cluster: str, broker: str) -> list[str]:
    """Tell the story to a cluster with one broker; return its lines."""
    seen = Transcript(cluster, broker)
    async with Admin(nameserver=nameserver, keep_open_ms=0) as admin:
        await _topics(admin, seen, cluster)
        await _groups_and_offsets(admin, seen)
        await _brokers(admin, seen, cluster, broker)
        await _nameservers(admin, seen, broker)
        await seen.calls(
            delete_group=admin.delete_group(GROUP, clean_offsets=True),
            groups=_present(admin),
            delete_topic=admin.delete_topic(TOPIC, cluster=cluster),
            topic_config=admin.topic_config(TOPIC),
        )
        await admin.delete_group(OTHER, clean_offsets=True)
    return seen.lines


async def _topics(admin: Admin, seen: Transcript, cluster: str) -> None:
    attributes = {"message.type": "NORMAL"}
    await seen.calls(
        create_topic=admin.create_topic(TOPIC, queues=3, attributes=attributes, on=cluster),
        update_topic=admin.update_topic(TOPIC, write_queues=2, perm=4),
        topic_config=admin.topic_config(TOPIC),
        update_back=admin.update_topic(
            TOPIC, write_queues=3, perm=6, attributes={"message.type": None}
        ),
        topic_config_after=admin.topic_config(TOPIC),
        order_config=admin.order_config(TOPIC),
        set_order_config=admin.set_order_config(TOPIC, {"a": 4, "b": 2}),
        order_config_after=admin.order_config(TOPIC),
        delete_order_config=admin.delete_order_config(TOPIC),
        order_config_at_last=admin.order_config(TOPIC),
        unknown_topic=admin.topic_stats("admin-calls-unknown"),
    )

    async def is_writable() -> bool:
        return len(await admin.queues(TOPIC)) == 3

    await soon(is_writable, "the route of the changed topic")
    assert TOPIC in await admin.topics(cluster=cluster, include_system=False)
    async with Producer("admin-calls-senders", client=admin.client_settings) as producer:
        for queue in await admin.queues(TOPIC):
            for number in range(queue.queue_id + 1):
                await producer.send(Message(TOPIC, f"{number}".encode()), queue=queue)

    async def are_stored() -> bool:
        return (await admin.topic_stats(TOPIC)).messages == 6

    await soon(are_stored, "the messages in their queues")
    stats = await admin.topic_stats(TOPIC)
    seen.note("topic_stats", stats.queues)
    seen.note("route", await admin.route(TOPIC))


async def _groups_and_offsets(admin: Admin, seen: Transcript) -> None:
    first, second, third = await admin.queues(TOPIC)
    await seen.calls(
        create_group=admin.create_group(GROUP, retry_max_times=5),
        update_group=admin.update_group(GROUP, consume_timeout_minute=7),
        group_config=admin.group_config(GROUP),
        unknown_group=admin.group_config("admin-calls-unknown"),
        create_other=admin.create_group(OTHER),
        groups=_present(admin),
        no_offset=admin.consumer_offset(GROUP, third),
        set_first=admin.set_offset(GROUP, first, 1),
        set_second=admin.set_offset(GROUP, second, 1),
        set_third=admin.set_offset(GROUP, third, 1),
        outside=admin.set_offset(GROUP, third, 99),
        consumer_offset=admin.consumer_offset(GROUP, third),
        topic_groups=admin.topic_groups(TOPIC),
        group_topics=admin.group_topics(GROUP),
        clone=admin.clone_offsets(GROUP, OTHER, TOPIC),
        progress_of_other=_progress(admin, OTHER),
        clone_to_unknown=admin.clone_offsets(GROUP, "admin-calls-unknown"),
        skip_to_end=admin.skip_to_end(GROUP, TOPIC),
        progress_at_the_end=_progress(admin, GROUP),
        reset=admin.reset_offsets(GROUP, TOPIC, timestamp_ms=0),
        progress=_progress(admin, GROUP),
        progress_unknown=admin.progress("admin-calls-unknown", TOPIC),
        reset_unknown=admin.reset_offsets("admin-calls-unknown", TOPIC, timestamp_ms=0),
        readable=admin.group_readable(GROUP, TOPIC),
        forbid=admin.set_group_readable(GROUP, TOPIC, readable=False),
        readable_no_more=admin.group_readable(GROUP, TOPIC),
        allow=admin.set_group_readable(GROUP, TOPIC, readable=True),
        readable_again=admin.group_readable(GROUP, TOPIC),
    )


async def _present(admin: Admin) -> dict[str, tuple[str, ...]]:
    return {name: on for name, on in (await admin.groups()).items() if name in (GROUP, OTHER)}


async def _progress(admin: Admin, group: str) -> object:
    progress = await admin.progress(group, TOPIC)
    queues = [(one.queue, one.broker_offset, one.consumer_offset) for one in progress.queues]
    return progress.lag, queues


async def _brokers(admin: Admin, seen: Transcript, cluster: str, broker: str) -> None:
    setting = {"traceOn": "false"}
    await seen.calls(
        clusters=admin.clusters(),
        set_broker_config=admin.set_broker_config(setting, on=cluster),
        set_path=admin.set_broker_config({"brokerConfigPath": "/elsewhere"}, on=broker),
        unknown_broker=admin.broker_status("admin-calls-unknown"),
        no_stats=admin.broker_stats(broker, "TOPIC_PUT_NUMS", "admin-calls-unknown"),
    )
    config = await admin.broker_config(broker)
    seen.note("broker_config", {name: config[name] for name in ("brokerName", "traceOn")})
    await admin.set_broker_config({"traceOn": "true"}, on=broker)
    status = await _sampled(lambda: admin.broker_status(broker))
    seen.note("broker_status", (status.version, status.started_ms, status.send_queue))
    stats = await _sampled(lambda: admin.broker_stats(broker, "TOPIC_PUT_NUMS", TOPIC))
    seen.note("broker_stats", type(stats.minute.sum))
    of_broker = {one.group: one for one in await admin.broker_progress(broker)}
    seen.note("broker_progress", [(name, of_broker[name].lag) for name in (GROUP, OTHER)])


async def _sampled(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call; a Java broker fails until it has sampled its counters once."""

    async def result() -> T | None:
        try:
            return await call()
        except BrokerFailed:
            return None

    return await soon(result, "the first sample of a counter")


async def _nameservers(admin: Admin, seen: Transcript, broker: str) -> None:
    await seen.calls(
        kv_missing=admin.kv_config("admin-calls", "sky"),
        kv_set=admin.set_kv_config("admin-calls", "sky", "blue"),
        kv_config=admin.kv_config("admin-calls", "sky"),
        kv_namespace=admin.kv_namespace("admin-calls"),
        kv_delete=admin.delete_kv_config("admin-calls", "sky"),
        kv_after=admin.kv_config("admin-calls", "sky"),
        kv_no_namespace=admin.kv_namespace("admin-calls-unknown"),
        set_config=admin.set_nameserver_config({"orderMessageEnable": "true"}),
        refused=admin.set_nameserver_config({"kvConfigPath": "/elsewhere"}),
    )
    for address, settings in (await admin.nameserver_config()).items():
        seen.note("nameserver_config", (address, settings["orderMessageEnable"]))
    await admin.set_nameserver_config({"orderMessageEnable": "false"})
    wiped = await admin.wipe_write_perm(broker)
    added = await admin.add_write_perm(broker)
    seen.note("write_perm", (list(wiped), all(wiped.values()), wiped == added))
