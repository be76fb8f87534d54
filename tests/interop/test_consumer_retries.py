"""What our consumer sends back to a Java broker: retried level by level, then a dead letter."""

import asyncio
from pathlib import Path

from tests.client.consumer.delivery.retry_story import SHORT_LEVELS, fails_until_dead
from tests.interop.java_cluster import JavaCluster


def test_a_failed_message_is_retried_and_ends_as_a_dead_letter(tmp_path: Path) -> None:
    levels = {"messageDelayLevel": SHORT_LEVELS}
    with JavaCluster("5.4.0", tmp_path, broker_settings=levels) as cluster:
        topic = cluster.create_topic("orders")
        asyncio.run(fails_until_dead(str(cluster.nameserver.address), topic))
