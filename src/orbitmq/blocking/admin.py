"""The blocking admin."""

from collections.abc import Iterable
from typing import Literal, Unpack

from orbitmq.blocking.wrappers import Startable, blocking, iterating
from orbitmq.client.admin import admin
from orbitmq.client.admin.dead_letters import DeadLetter, Redrive
from orbitmq.client.admin.requests import TIMEOUT_MS
from orbitmq.client.core.machine import Machine
from orbitmq.client.options import ClientOptions
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NotRunning

__all__ = ["Admin"]


class Admin(Startable[admin.Admin]):
    """Topics, groups, offsets, messages, members and servers of a cluster.

    A context manager, or ``start`` and ``close``; threads may share it. The arguments and errors
    are those of ``orbitmq.Admin``.

    >>> from orbitmq import embedded
    >>> with embedded.start() as cluster:
    ...     with Admin(nameserver=cluster.nameserver) as admin:
    ...         _ = admin.create_topic("orders", queues=2)
    ...         len(admin.queues("orders"))
    2
    """

    def __init__(
        self,
        *,
        client: ClientSettings | None = None,
        machine: Machine | None = None,
        timeout_ms: int = TIMEOUT_MS,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            admin.Admin(client=client, machine=machine, timeout_ms=timeout_ms, **options)
        )

    def __repr__(self) -> str:
        return f"<blocking Admin {self.client_settings.nameserver or '-'}>"

    # Life

    def _not_running(self) -> NotRunning:
        return NotRunning(
            "the admin is not started, or is closed; use 'with', or start()",
            state="not running",
        )

    # Topics

    topics = blocking(admin.Admin.topics)
    route = blocking(admin.Admin.route)
    queues = blocking(admin.Admin.queues)
    topic_stats = blocking(admin.Admin.topic_stats)
    topic_config = blocking(admin.Admin.topic_config)
    create_topic = blocking(admin.Admin.create_topic)
    update_topic = blocking(admin.Admin.update_topic)
    delete_topic = blocking(admin.Admin.delete_topic)
    order_config = blocking(admin.Admin.order_config)
    set_order_config = blocking(admin.Admin.set_order_config)
    delete_order_config = blocking(admin.Admin.delete_order_config)

    # Groups

    groups = blocking(admin.Admin.groups)
    group_config = blocking(admin.Admin.group_config)
    create_group = blocking(admin.Admin.create_group)
    update_group = blocking(admin.Admin.update_group)
    delete_group = blocking(admin.Admin.delete_group)
    topic_groups = blocking(admin.Admin.topic_groups)
    group_topics = blocking(admin.Admin.group_topics)
    group_readable = blocking(admin.Admin.group_readable)
    set_group_readable = blocking(admin.Admin.set_group_readable)

    # Offsets

    search_offset = blocking(admin.Admin.search_offset)
    max_offset = blocking(admin.Admin.max_offset)
    min_offset = blocking(admin.Admin.min_offset)
    earliest_store_time = blocking(admin.Admin.earliest_store_time)
    progress = blocking(admin.Admin.progress)
    consumer_offset = blocking(admin.Admin.consumer_offset)
    reset_offsets = blocking(admin.Admin.reset_offsets)
    skip_to_end = blocking(admin.Admin.skip_to_end)
    set_offset = blocking(admin.Admin.set_offset)
    clone_offsets = blocking(admin.Admin.clone_offsets)

    # Messages

    view_message = blocking(admin.Admin.view_message)
    query_message = blocking(admin.Admin.query_message)
    message_by_unique_key = blocking(admin.Admin.message_by_unique_key)
    message_at = blocking(admin.Admin.message_at)
    messages_between = iterating(admin.Admin.messages_between)
    resend_message = blocking(admin.Admin.resend_message)
    republish_message = blocking(admin.Admin.republish_message)
    message_track = blocking(admin.Admin.message_track)
    message_trace = blocking(admin.Admin.message_trace)
    traces_by_key = blocking(admin.Admin.traces_by_key)

    # Dead letters

    dead_letters = iterating(admin.Admin.dead_letters)
    dead_letter = blocking(admin.Admin.dead_letter)
    redriven_copies = blocking(admin.Admin.redriven_copies)
    _redrive = blocking(admin.Admin.redrive_dead_letters)

    def redrive_dead_letters(
        self,
        letters: Iterable[DeadLetter],
        *,
        to: Literal["retry", "origin"] = "retry",
        again: bool = False,
    ) -> list[Redrive]:
        """Send dead letters once more; see ``orbitmq.Admin.redrive_dead_letters``."""
        # A list: ``dead_letters`` can't be iterated over on the loop thread.
        return self._redrive(list(letters), to=to, again=again)

    # Members

    consumer_connections = blocking(admin.Admin.consumer_connections)
    producer_connections = blocking(admin.Admin.producer_connections)
    all_producers = blocking(admin.Admin.all_producers)
    consumer_running_info = blocking(admin.Admin.consumer_running_info)
    consumer_status = blocking(admin.Admin.consumer_status)

    # Cleaning

    clean_expired_queues = blocking(admin.Admin.clean_expired_queues)
    clean_unused_topics = blocking(admin.Admin.clean_unused_topics)
    delete_expired_log_files = blocking(admin.Admin.delete_expired_log_files)

    # Brokers

    clusters = blocking(admin.Admin.clusters)
    broker_status = blocking(admin.Admin.broker_status)
    broker_config = blocking(admin.Admin.broker_config)
    set_broker_config = blocking(admin.Admin.set_broker_config)
    broker_stats = blocking(admin.Admin.broker_stats)
    broker_progress = blocking(admin.Admin.broker_progress)
    controller_metadata = blocking(admin.Admin.controller_metadata)
    sync_state = blocking(admin.Admin.sync_state)
    replication = blocking(admin.Admin.replication)
    broker_epochs = blocking(admin.Admin.broker_epochs)
    elect_master = blocking(admin.Admin.elect_master)
    clean_broker_metadata = blocking(admin.Admin.clean_broker_metadata)
    controller_config = blocking(admin.Admin.controller_config)
    set_controller_config = blocking(admin.Admin.set_controller_config)

    # Nameservers

    nameserver_config = blocking(admin.Admin.nameserver_config)
    set_nameserver_config = blocking(admin.Admin.set_nameserver_config)
    clusters_by_nameserver = blocking(admin.Admin.clusters_by_nameserver)
    route_by_nameserver = blocking(admin.Admin.route_by_nameserver)
    kv_config = blocking(admin.Admin.kv_config)
    kv_namespace = blocking(admin.Admin.kv_namespace)
    set_kv_config = blocking(admin.Admin.set_kv_config)
    delete_kv_config = blocking(admin.Admin.delete_kv_config)
    wipe_write_perm = blocking(admin.Admin.wipe_write_perm)
    add_write_perm = blocking(admin.Admin.add_write_perm)
