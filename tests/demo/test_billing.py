"""The demo's consumers share the orders, and what they refuse becomes a dead letter."""

from pathlib import Path

from orbitmq import embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import SystemClock
from orbitmq.demo.billing import Billing
from orbitmq.demo.shop import TOPIC, events


def test_each_order_is_handled_and_the_refused_ones_are_dead_letters(tmp_path: Path) -> None:
    happened = [one for one in events(300) if one.state != "reminder"]
    refused = happened[0].order
    with embedded.start(str(tmp_path)) as cluster:
        client = ClientSettings(nameserver=cluster.nameserver)
        with Admin(client=client) as admin, Producer("shop", client=client) as producer:
            admin.create_topic(TOPIC, queues=4)
            with Billing(client, SystemClock(), refused) as billing:
                producer.send_many([one.message() for one in happened])
                billed = billing.result(admin, happened)
    assert sum(billed.shares) == len(happened)
    assert all(billed.shares)
    assert billed.missing == 0
    assert billed.refused == refused
    assert billed.dead == sum(one.order == refused for one in happened)
    assert billed.deliveries == 3 * billed.dead
    assert billed.took.durations == len(happened)
    assert 0 <= billed.took.p50_ms <= billed.took.longest_ms
