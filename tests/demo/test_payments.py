"""Declined payments and recalled reminders are never seen; the others are, and not too early."""

from pathlib import Path

from orbitmq import embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import SystemClock
from orbitmq.demo.payments import seen_later, send_payments


def test_declined_and_recalled_messages_are_never_seen(tmp_path: Path) -> None:
    with embedded.start(str(tmp_path)) as cluster:
        client = ClientSettings(nameserver=cluster.nameserver)
        with Admin(client=client) as admin, Producer("shop", client=client) as producer:
            send_payments(producer, admin)
            later = seen_later(admin, SystemClock())
    assert (later.sent, later.declined, later.committed) == (50, 10, 40)
    assert later.reminders == 1
    assert later.late_ms >= 0
