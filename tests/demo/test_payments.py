"""Declined payments and recalled reminders are never seen; the others are, not before their time."""

import asyncio
from pathlib import Path

from orbitmq import embedded
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import SystemClock
from orbitmq.demo.payments import run_payments


def test_declined_and_recalled_messages_are_never_seen(tmp_path: Path) -> None:
    with embedded.start(str(tmp_path)) as cluster:
        client = ClientSettings(nameserver=cluster.nameserver)
        later = asyncio.run(run_payments(client, SystemClock()))
    assert (later.sent, later.declined, later.committed) == (50, 10, 40)
    assert later.reminders == 1
    assert later.late_ms >= 0
