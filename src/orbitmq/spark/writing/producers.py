"""The producers of a process, shared by its tasks.

Spark's Python workers outlive a task. So a producer stays open for the next task. It is closed when
the process ends, when several others were used since, or when its settings change.
"""

import os
from typing import Final

from orbitmq.blocking import Producer
from orbitmq.spark.options.options import Access, WriteOptions
from orbitmq.spark.writing.check_answers import CheckAnswers
from orbitmq.spark.writing.ledger import Ledger
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.threads import Lock, at_exit

__all__ = ["close_producers", "new_producer", "producer_for"]

_OPEN_MAX: Final = 4
"""Producers that a process keeps open; beyond that, the least recently used one is closed."""

_TRY_MS: Final = 3_000
"""Timeout of one attempt, so that a silent broker doesn't use up the time for retries."""

_Key = tuple[Access, str]


class _Open:
    """The open producers of this process, the last used one at the end."""

    def __init__(self) -> None:
        self.guard = Lock()
        self.by_key: dict[_Key, tuple[WriteOptions, Producer]] = {}
        self.is_watching_exit = False


_open = _Open()


def producer_for(options: WriteOptions) -> Producer:
    """Return the started producer of this process for a write; the caller doesn't close it.

    There is one per cluster and group. A write with other settings replaces it. That of a
    transactional write also answers the checks of brokers, from the ledger.
    """
    key = (options.access, options.group)
    with _open.guard:
        settings, producer = _open.by_key.pop(key, (None, None))
        if producer is not None and settings is not None and not _is_same(settings, options):
            producer.close()
            producer = None
        if producer is None:
            producer = _started(options)
            while len(_open.by_key) >= _OPEN_MAX:
                _open.by_key.pop(next(iter(_open.by_key)))[1].close()
        _open.by_key[key] = (options, producer)
        return producer


def close_producers() -> None:
    """Close all producers of this process; the next write starts a new one."""
    with _open.guard:
        while _open.by_key:
            _open.by_key.popitem()[1][1].close()


def _is_same(one: WriteOptions, other: WriteOptions) -> bool:
    return _settings(one) == _settings(other)


def _settings(options: WriteOptions) -> tuple[object, ...]:
    return (
        options.send_timeout_ms,
        options.retries,
        options.compress_over_bytes,
        options.ledger,
    )


def _started(options: WriteOptions) -> Producer:
    checks = None if options.ledger is None else CheckAnswers(Ledger(LedgerFiles(options.ledger)))
    producer = new_producer(options, checks)
    producer.start()
    if not _open.is_watching_exit:
        # After the start, so that it runs before the client's exit hook, which would warn.
        at_exit(close_producers)
        _open.is_watching_exit = True
    return producer


def new_producer(
    options: WriteOptions, checks: CheckAnswers | None, topics: tuple[str, ...] = ()
) -> Producer:
    """Return a producer for a write, which is not started; ``checks`` answers those of brokers.

    The brokers of ``topics`` know it from the start, others when it has sent to them.
    """
    access = options.access
    return Producer(
        options.group,
        transaction_listener=checks,
        nameserver=access.nameserver,
        namespace=access.namespace,
        access_key=access.access_key,
        secret_key=access.secret_key,
        security_token=access.security_token,
        tls=access.tls,
        tls_verify=access.tls_verify,
        tls_ca_file=access.tls_ca_file,
        tls_cert_file=access.tls_cert_file,
        tls_key_file=access.tls_key_file,
        tls_key_password=access.tls_key_password,
        address_map=dict(access.address_map) or None,
        request_timeout_ms=access.request_timeout_ms,
        send_timeout_ms=options.send_timeout_ms,
        per_try_timeout_ms=min(_TRY_MS, options.send_timeout_ms),
        # A half message that is sent again must have another id: see half_sender.
        retries=options.retries if options.ledger is None else 0,
        # Rows with a sharding key or a queue can't go to another queue.
        retry_same_queue=True,
        compress_over_bytes=options.compress_over_bytes,
        topics=topics,
    )


def _forget() -> None:
    # The producers are the parent's: their threads don't exist here, and one may hold the lock.
    global _open  # noqa: PLW0603 - one per process
    _open = _Open()


os.register_at_fork(after_in_child=_forget)
