"""An admin gets the same answers from our servers and from Java's, on the same data."""

import asyncio
from pathlib import Path

from orbitmq import embedded
from tests.client import admin_calls
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java_cluster import JavaCluster


def test_each_call_has_the_same_result(tmp_path: Path) -> None:
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    with embedded.start() as cluster:
        ours = asyncio.run(
            admin_calls.tell(cluster.nameserver, cluster="DefaultCluster", broker="broker-a")
        )
    # Without timers, Java's broker fails to delete a topic. Settings are changed: it is not shared.
    with JavaCluster("5.4.0", tmp_path, broker_settings={"timerWheelEnable": "true"}) as java:
        theirs = asyncio.run(
            admin_calls.tell(
                str(java.nameserver.address), cluster="JavaCluster", broker=java.broker.name
            )
        )
    assert ours == theirs
